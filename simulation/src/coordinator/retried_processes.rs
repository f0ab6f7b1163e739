//! Ended processes that users retry: a coordinator changes their last state, and continues them.

use std::sync::Arc;

use xavantes_engine::Time;
use xavantes_process_coordinator::process::driver::Driver;
use xavantes_process_coordinator::process::journal::{Head, Snapshot};
use xavantes_process_coordinator::record_codec;

use crate::call_request::{CallAnswer, ReplyTo};
use crate::coordinator::state::{AfterWrite, SimDriver};
use crate::store::{StoreChange, StoreRefusal};
use crate::world::World;

impl World<'_> {
    /// A user retries an ended process.
    pub fn reopen(&mut self, c: usize, process: &Arc<str>, reply: ReplyTo) {
        let it = &self.coordinators[c];
        let stored = self.stores[it.store].processes.get(process).filter(|it| it.summary.is_some() && !it.damaged);
        let kept = stored.and_then(|it| Some((it.head.clone(), it.summary.clone()?, it.kept.clone()?)));
        let Some((head, summary, state)) = kept.filter(|_| it.store_cut_until <= self.now) else {
            return self.reply(reply, CallAnswer::Rejected);
        };
        let read = record_codec::decode::<Head>("head", &head)
            .and_then(|head| Ok((head, record_codec::decode::<Snapshot>("last state", &state)?)));
        let (head, state) = match read {
            Ok(read) => read,
            Err(error) => return self.report_problem(Some(format!("{process}: {error}"))),
        };
        let now = Time(it.machine.wall(self.now).saturating_sub(head.submitted_ms));
        let (program, wire) = (self.tools.program.clone(), self.tools.wire.clone());
        let (mut driver, _): (SimDriver, _) = Driver::recover(process.clone(), program, wire, head.root(), state);
        if let Err(rejection) = driver.reopen(&mut self.tools.sandbox, process.to_string(), "user".into(), now) {
            return self.report_problem(Some(format!("{process} cannot be reopened: {rejection}")));
        }
        let change = StoreChange::Reopen(process.clone(), summary, driver.snapshot());
        self.write(c, change, AfterWrite::Reopened(process.clone(), reply));
    }

    /// The store lets an ended process run again, or refuses it.
    pub fn on_reopened(&mut self, c: usize, process: &Arc<str>, reply: ReplyTo, result: Result<(), StoreRefusal>) {
        match result {
            Ok(()) => {
                self.trace(|| format!("c{c} reopens {process}"));
                self.recover(c, process);
                self.reply(reply, CallAnswer::Done);
            }
            Err(_) => self.reply(reply, CallAnswer::Rejected),
        }
    }
}

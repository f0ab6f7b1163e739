//! Requests of users and of other coordinators, and the start of processes.

use std::sync::Arc;

use xavantes_engine::{Engine, Start, StepOutput, Time};
use xavantes_model::value::Value;
use xavantes_process_coordinator::process::driver::Driver;
use xavantes_process_coordinator::process::driver_input::ProcessInput;
use xavantes_process_coordinator::process::journal::{Head, Origin, ProcessTags};
use xavantes_process_coordinator::record_codec;
use xavantes_process_coordinator::subtrees::move_notice::{MoveReportStep, ParentState, on_move_report};
use xavantes_process_coordinator::subtrees::parent_links::ParentAttempt;
use xavantes_process_coordinator::workers::pool::pool_input::PoolInput;
use xavantes_proto::v1;
use xavantes_proto::v1::refusal_reason::Kind as RefusalKind;

use crate::call_request::{CallAnswer, CallRequest, ReplyTo};
use crate::coordinator::moves::STILL_WANTED_INTERVAL_MS;
use crate::coordinator::state::{AfterWrite, SimPoolMail, StartingProcess};
use crate::mutation::Mutation;
use crate::simulated_machine::NodeRef;
use crate::store::{StoreChange, StoreRefusal};
use crate::world::World;
use crate::world_event::NodeTask;

impl World<'_> {
    /// A request arrives at a coordinator.
    pub fn on_request(&mut self, c: usize, request: CallRequest, reply: ReplyTo) {
        match request {
            CallRequest::Submit { id, process_type, n } => {
                let it = &self.coordinators[c];
                if self.stores[it.store].processes.contains_key(&id) {
                    return self.reply(reply, CallAnswer::Done);
                }
                let Ok(process) = self.tools.program.entry(Some(process_type)) else { return };
                let start = Start::new(id, process, vec![("n".into(), Value::Int(n))]);
                if let Err(reply) = self.start(c, start.id.clone(), start, None, Some(reply)) {
                    reply.into_iter().for_each(|reply| self.reply(reply, CallAnswer::Rejected));
                }
            }
            CallRequest::Steer { path, action } => {
                let mut at = &*path;
                let id = loop {
                    if let Some(id) = self.runner_at(c, at) {
                        break id.clone();
                    }
                    let known = self.stores[self.coordinators[c].store].processes.contains_key(at);
                    match at.rsplit_once('/').filter(|_| !known) {
                        Some((shorter, _)) => at = shorter,
                        None => return self.reply(reply, CallAnswer::Rejected),
                    }
                };
                let steered =
                    ProcessInput::Steered { path: path.to_string(), steering: action, by: String::new(), asker: reply };
                self.notify(c, &id, steered);
            }
            CallRequest::Reopen(process) => self.reopen(c, &process, reply),
            CallRequest::CancelHeld(process) => {
                self.cancel_held(c, &process);
                self.reply(reply, CallAnswer::Done);
            }
            CallRequest::Moved(key, place) => {
                let it = &self.coordinators[c];
                let (store, parent) = (it.store, self.parent_state(c, &key.process));
                if parent != ParentState::RunsHere && it.store_cut_until > self.now {
                    return self.reply(reply, CallAnswer::Rejected);
                }
                let moved = &mut self.stores[store].moved;
                match on_move_report(parent, moved.get(&key) == Some(&None)) {
                    MoveReportStep::AskPool => self.pool_mail(c, SimPoolMail::Moved(key, place, reply)),
                    MoveReportStep::Unwanted => self.reply(reply, CallAnswer::Unwanted),
                    MoveReportStep::UnwantedByNotice => {
                        moved.remove(&key);
                        self.reply(reply, CallAnswer::Unwanted);
                    }
                    MoveReportStep::LeaveNotice => {
                        moved.insert(key, Some(place));
                        self.reply(reply, CallAnswer::Noted);
                    }
                }
            }
        }
    }

    /// The process that a coordinator runs under this path; of several the newest.
    pub fn runner_at(&self, c: usize, path: &str) -> Option<&Arc<str>> {
        let runners = self.coordinators[c].memory.runners.iter();
        let here = runners.filter(|(_, runner)| **runner.driver.engine().id() == *path);
        here.max_by_key(|(_, runner)| runner.number).map(|(id, _)| id)
    }

    /// Writes the head of a process, which starts when the store has it.
    pub fn start(
        &mut self,
        c: usize,
        id: Arc<str>,
        start: Start,
        parent: Option<(ParentAttempt, usize, Origin)>,
        reply: Option<ReplyTo>,
    ) -> Result<(), Option<ReplyTo>> {
        let root = start.root;
        let program = self.tools.program.clone();
        let process_type = program.processes[root.process].name.to_string();
        let mut output = StepOutput::default();
        let Ok(engine) = Engine::start(program, start, Time(0), &mut output) else { return Err(reply) };
        let mut driver = Driver::new(id.clone(), engine, root, self.tools.wire.clone(), output);
        let (origin, parent) = match parent {
            Some((parent, stream, origin)) => (Some(origin), Some((parent, stream))),
            None => (None, None),
        };
        let head = Head {
            program: self.tools.wire.digest.clone(),
            process_type,
            root: (root.process as u32, root.node.0),
            submitted_ms: self.coordinators[c].machine.wall(self.now),
            request: id.to_string(),
            parent: origin,
            no_reuse: false,
            relays: Vec::new(),
            tags: ProcessTags::default(),
            first: driver.first_record().into(),
        };
        let change = StoreChange::Create(id.clone(), record_codec::encode(&head));
        let early = self.mutation == Some(Mutation::AcknowledgeBeforeFlush);
        let reply = match reply {
            Some(reply) if early => {
                self.reply(reply, CallAnswer::Done);
                None
            }
            reply => reply,
        };
        self.write(c, change, AfterWrite::Started(Box::new(StartingProcess { id, driver, head, parent, reply })));
        Ok(())
    }

    /// The store has the head of a process, or refuses it.
    pub fn on_started(&mut self, c: usize, started: StartingProcess, result: Result<(), StoreRefusal>) {
        let StartingProcess { id, driver, head, parent, reply } = started;
        let stream = parent.as_ref().map(|(_, stream)| *stream);
        match result {
            Ok(()) => {
                self.trace(|| format!("c{c} starts {id}"));
                let epoch = self.coordinators[c].session.epochs.get(&id).copied().unwrap_or_default();
                self.pool_input(c, PoolInput::ProcessBegan(id.clone(), epoch));
                if let Some(origin) = head.parent.clone() {
                    self.later(NodeRef::Coordinator(c), STILL_WANTED_INTERVAL_MS, NodeTask::ReportPlace(origin, epoch));
                }
                self.run_process(c, &id, driver, head, 0, parent.map(|(parent, _)| parent), false);
                reply.into_iter().for_each(|reply| self.reply(reply, CallAnswer::Done));
            }
            Err(refused) => {
                if let Some((parent, _)) = &parent {
                    let reason = match refused {
                        StoreRefusal::Exists => RefusalKind::TakenElsewhere(v1::Nothing {}),
                        other => RefusalKind::NotRecorded(format!("{other:?}")),
                    };
                    let message = self.coordinators[c].memory.parents.refuse(parent, reason);
                    self.send_to_parent(message);
                }
                let answer = if refused == StoreRefusal::Exists { CallAnswer::Done } else { CallAnswer::Rejected };
                reply.into_iter().for_each(|reply| self.reply(reply, answer.clone()));
            }
        }
        if let Some(stream) = stream {
            self.streams[stream].busy = false;
            self.serve(c, stream);
        }
    }
}

//! Calls of shared objects that running attempts make, until a coordinator replies to them.

use std::sync::Arc;

use xavantes_proto::v1;

use super::{AttemptTable, PendingCall};
use crate::attempts::action::{TableAction, WorkerReport};
use crate::attempts::realm_attempt::{CoordinatorStream, RealmAttempt};

impl<J: Clone> AttemptTable<J> {
    /// Sends the pending calls of a connected coordinator's attempts once more.
    pub(super) fn resend_calls(&self, owner: &Arc<str>, which: impl Fn(&RealmAttempt) -> bool) -> Vec<TableAction<J>> {
        let calls = self.calls.values().filter(|it| self.listener(&it.caller) == Some(owner) && which(&it.caller));
        calls.map(|it| TableAction::Send(owner.clone(), WorkerReport::Call(it.call.clone()))).collect()
    }

    /// A running attempt calls a shared object. Returns the ticket of the call.
    pub fn on_call(&mut self, key: &RealmAttempt, mut call: v1::SharedCall) -> (u64, Vec<TableAction<J>>) {
        self.last_ticket += 1;
        call.ticket = self.last_ticket;
        let call = Arc::new(call);
        let actions = match self.listener(key) {
            Some(owner) => vec![TableAction::Send(owner.clone(), WorkerReport::Call(call.clone()))],
            None => Vec::new(),
        };
        self.calls.insert(self.last_ticket, PendingCall { caller: key.clone(), call });
        (self.last_ticket, actions)
    }

    /// A coordinator replies to a call. Returns true if the call was pending and the coordinator owns the attempt.
    pub fn on_reply(&mut self, stream: &CoordinatorStream, ticket: u64) -> bool {
        let Some(pending) = self.calls.get(&ticket) else { return false };
        let caller = pending.caller.clone();
        self.owned(stream, &caller).is_some() && self.calls.remove(&ticket).is_some()
    }

    /// The caller no longer waits for the reply to a call.
    pub fn abandon_call(&mut self, ticket: u64) {
        self.calls.remove(&ticket);
    }
}

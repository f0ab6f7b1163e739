//! Calls: requests and answers that may be lost, come late, or come twice.

use crate::call_request::{CallAnswer, CallRequest, ReplyTo};
use crate::simulated_machine::NodeRef;
use crate::world::World;
use crate::world_event::{NodeTask, UserAction, WorldEvent};

impl World<'_> {
    /// Sends a request, which the network may lose or deliver twice.
    pub fn call(&mut self, from: Option<NodeRef>, to: NodeRef, request: CallRequest, reply: ReplyTo) {
        self.trace(|| format!("{from:?} calls {to:?}: {request:?}"));
        let cut = from.is_some_and(|from| !self.reaches(from, to));
        let trouble = !self.is_healed();
        let times = match request {
            CallRequest::Steer { .. } => 1,
            _ if trouble && self.random.one_in(12) => 2,
            _ => 1,
        };
        if cut || (trouble && self.random.one_in(15)) {
            return self.reply_later(reply, CallAnswer::Nothing, 1000);
        }
        for _ in 0..times {
            let at = self.now + self.latency();
            self.at(at, WorldEvent::Call(to, Box::new(request.clone()), reply.clone(), None));
        }
    }

    /// A request arrives.
    pub fn on_call(&mut self, to: NodeRef, request: CallRequest, reply: ReplyTo, life: Option<u32>) {
        let machine = self.machine(to);
        match to {
            NodeRef::Coordinator(c) if machine.alive && life.is_none_or(|life| life == machine.life) => {
                self.on_request(c, request, reply)
            }
            _ => self.reply_later(reply, CallAnswer::Nothing, 1000),
        }
    }

    /// Sends an answer, which the network may lose.
    pub fn reply(&mut self, reply: ReplyTo, answer: CallAnswer) {
        let lost = !self.is_healed() && self.random.one_in(15);
        let delay = self.latency();
        self.reply_later(reply, if lost { CallAnswer::Nothing } else { answer }, if lost { 3000 } else { delay });
    }

    fn reply_later(&mut self, reply: ReplyTo, answer: CallAnswer, delay: u64) {
        match reply {
            ReplyTo::User(ticket) => self.at(self.now + delay, WorldEvent::User(UserAction::Answered(ticket, answer))),
            ReplyTo::MoveNotice(store, key) => {
                if answer == CallAnswer::Unwanted {
                    self.stores[store].moved.insert(*key, None);
                }
            }
            ReplyTo::Moved(c, life, ticket) => {
                let task = NodeTask::MoveAnswered(ticket, answer);
                self.at(self.now + delay, WorldEvent::Node(NodeRef::Coordinator(c), life, task));
            }
        }
    }
}

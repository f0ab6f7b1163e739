//! The links of a coordinator to its peers, and the reports that arrive by them.

use std::sync::Arc;

use xavantes_process_coordinator::process::driver_input::ProcessInput;
use xavantes_process_coordinator::workers::peer_report::{PeerReport, ProcessAnswers, reply_ended};
use xavantes_process_coordinator::workers::pool::pool_input::PoolInput;
use xavantes_process_coordinator::workers::worker_messages::Order;
use xavantes_proto::{AttemptKey, v1};

use crate::call_request::ReplyTo;
use crate::coordinator::state::{SimInput, SimPoolMail, SimProcessMail, SimReport};
use crate::mutation::Mutation;
use crate::simulated_machine::NodeRef;
use crate::stream::Side;
use crate::world::World;
use crate::world_event::{CrashPoint, NodeTask};

/// Pauses before a link connects again: they double from the first to the longest.
pub const MIN_RECONNECT_PAUSE_MS: u64 = 50;
const MAX_RECONNECT_PAUSE_MS: u64 = 2000;

impl World<'_> {
    /// A link connects to its peer.
    pub fn connect(&mut self, c: usize, name: &Arc<str>, number: u64) {
        let link = self.coordinators[c].memory.links.get_mut(name).filter(|link| link.number == number);
        let Some(link) = link.filter(|link| link.stream.is_none()) else { return };
        let address = link.address.clone();
        let (here, there) = (NodeRef::Coordinator(c), NodeRef::at_address(&address));
        if self.machine(there).alive && self.reaches(here, there) {
            let hello = self.hello(c);
            let stream = self.open(here, there, name.clone(), hello);
            if let Some(link) = self.coordinators[c].memory.links.get_mut(name) {
                link.stream = Some(stream);
            }
        } else {
            self.connect_later(c, name);
        }
    }

    pub fn connect_later(&mut self, c: usize, name: &Arc<str>) {
        let Some(link) = self.coordinators[c].memory.links.get_mut(name) else { return };
        let (pause, number) = (link.pause, link.number);
        link.pause = (pause * 2).min(MAX_RECONNECT_PAUSE_MS);
        self.later(NodeRef::Coordinator(c), pause, NodeTask::Connect(name.clone(), number));
    }

    /// A link notices that its stream has ended.
    pub fn link_broke(&mut self, c: usize, stream: usize) {
        let (name, opened) = (self.streams[stream].name.clone(), self.streams[stream].opened);
        let Some(link) = self.coordinators[c].memory.links.get_mut(&name) else { return };
        if link.stream != Some(stream) {
            return;
        }
        link.stream = None;
        if self.now - opened > MAX_RECONNECT_PAUSE_MS {
            link.pause = MIN_RECONNECT_PAUSE_MS;
        }
        let silent_since = self.streams[stream].silent_since.unwrap_or(self.now);
        self.pool_mail(c, SimPoolMail::Disconnected(name.clone(), silent_since));
        self.connect_later(c, &name);
    }

    /// A report arrives from a worker, or from a coordinator that runs a subtree.
    pub fn on_report(&mut self, c: usize, stream: usize, report: v1::WorkReport) {
        if self.streams[stream].closed[Side::Client as usize] {
            return;
        }
        let name = self.streams[stream].name.clone();
        let report: PeerReport<usize, ReplyTo> = PeerReport::sort(&name, &stream, report);
        if let Some(hello) = report.hello {
            self.trace(|| format!("c{c} is connected to {name}: {:?} {:?}", hello.running, hello.answered));
            self.pool_mail(c, SimPoolMail::Connected(name.clone(), hello, stream));
        }
        let mut answered = Vec::new();
        for input in report.pool_inputs {
            self.trace(|| format!("c{c} gets a report of {name}: {input:?}"));
            match input {
                PoolInput::Answered(_, keys) => answered = keys,
                input => {
                    if let PoolInput::Running(_, running) = &input {
                        let memory = &mut self.coordinators[c].memory;
                        let processes = running.attempts.iter().map(|id| Arc::<str>::from(&*id.process));
                        let foreign = processes.filter(|process| memory.foreign.contains_key(process));
                        memory.foreign_running.extend(foreign);
                    }
                    self.pool_input(c, input);
                }
            }
        }
        if !report.answers.is_empty() {
            self.pass_crash_point(CrashPoint::AnswerArrival, NodeRef::Coordinator(c));
        }
        let (answers, calls) = (report.answers, report.calls);
        if !answers.is_empty() || !calls.is_empty() {
            let report = SimReport { peer: name, stream, answered, answers, calls };
            self.pool_mail(c, SimPoolMail::Reported(report.into()));
        }
    }

    /// The pool has seen answers and calls of a peer: they go on to their processes. The peer does not have the attempts
    /// `not_held`.
    pub fn on_reported(&mut self, c: usize, report: SimReport, not_held: &[Vec<AttemptKey>; 2]) {
        let (stream, [doubted_answers, doubted_calls]) = (report.stream, not_held);
        // The planted bug leaves out every check of attempts.
        let none = Vec::new();
        let doubted_answers = match self.mutation {
            Some(Mutation::ForgetAttemptNumber) => &none,
            _ => doubted_answers,
        };
        for ProcessAnswers { process, inputs } in report.answers {
            for input in inputs {
                self.on_answer(c, stream, &process, input.doubt(doubted_answers));
            }
        }
        for call in report.calls {
            let ticket = call.ticket;
            let process: Arc<str> = call.id.as_ref().map_or("", |id| &id.process).into();
            let doubted = call.id.as_ref().is_some_and(|id| doubted_calls.contains(&AttemptKey::from(id)));
            if doubted && self.coordinators[c].memory.runners.contains_key(&process) {
                continue;
            }
            if !self.mail(c, &process, SimProcessMail::Called(call, stream))
                && !self.coordinators[c].memory.foreign.contains_key(&process)
            {
                self.order(stream, Order::Reply(reply_ended(ticket)));
            }
        }
    }

    fn on_answer(&mut self, c: usize, stream: usize, process: &Arc<str>, answer: SimInput) {
        let (key, is_subtree) = match &answer {
            ProcessInput::Answered { key, extras, .. } => (key, extras.is_some()),
            ProcessInput::Doubted { key, .. } => (key, false),
            _ => return,
        };
        let early = match self.mutation {
            Some(Mutation::AckUnrecorded) => !is_subtree,
            Some(Mutation::ParentAcksEarly) => is_subtree,
            _ => false,
        };
        let key = key.clone();
        if early {
            self.order(stream, Order::Acknowledge(key.clone()));
        }
        if !self.notify(c, process, answer) {
            match self.coordinators[c].memory.foreign.get_mut(process) {
                Some(late) => late.push((stream, key)),
                None => self.order(stream, Order::Acknowledge(key)),
            }
        }
    }
}

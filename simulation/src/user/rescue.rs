//! Users help processes that do not go on by themselves: they retry held elements, and cancel damaged processes.

use std::sync::Arc;

use xavantes_engine::{Action, ElementState};
use xavantes_process_coordinator::process::driver_input::Steering;

use crate::call_request::CallRequest;
use crate::simulated_machine::NodeRef;
use crate::user::state::PendingRequest;
use crate::world::World;

impl World<'_> {
    /// A user retries what is held in a process, and cancels damaged parts of it.
    pub fn rescue(&mut self, number: usize) {
        let id = self.users.submissions[number].id.clone();
        let within =
            |process: &str| process.strip_prefix(&*id).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        let mut requests: Vec<(usize, CallRequest)> = Vec::new();
        for (c, coordinator) in self.coordinators.iter().enumerate().filter(|(_, it)| it.machine.alive) {
            let memory = &coordinator.memory;
            for process in memory.runners.keys().filter(|process| within(process)) {
                for path in self.held_elements(c, process) {
                    if !self.check.retried.insert(path.clone()) && self.users.unanswered.contains(&path) {
                        // The first request may still be carried out, after this one.
                        self.check.asked.push(path.clone());
                    }
                    self.users.unanswered.insert(path.clone());
                    let action = Steering::Engine(Action::Retry);
                    requests.push((c, CallRequest::Steer { path: path.into(), action }));
                }
            }
            for process in memory.held.iter().filter(|process| within(process)) {
                // A parent runs the subtree again, and calls of what is left of the process fail.
                self.check.asked.push(process.rsplit_once('@').map_or(&**process, |(path, _)| path).to_owned());
                requests.push((c, CallRequest::CancelHeld(process.clone())));
            }
        }
        for (c, request) in requests {
            let path = match &request {
                CallRequest::Steer { path, .. } => path.to_string(),
                _ => String::new(),
            };
            self.ask(number, PendingRequest::Rescue(path), NodeRef::Coordinator(c), request);
        }
    }

    /// Paths of the held elements of a process that a coordinator runs.
    pub fn held_elements(&self, c: usize, process: &Arc<str>) -> Vec<String> {
        let Some(runner) = self.coordinators[c].memory.runners.get(process) else { return Vec::new() };
        let engine = runner.driver.engine();
        if engine.state().counts().held == 0 {
            return Vec::new();
        }
        let (mut held, mut open) = (Vec::new(), Vec::from_iter(engine.root()));
        while let Some(view) = open.pop().and_then(|element| engine.view(element)) {
            if matches!(view.state, ElementState::Held(_)) {
                held.push(view.path);
            }
            open.extend(view.children);
        }
        held
    }
}

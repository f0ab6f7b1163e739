//! Memory of a coordinator: an element that exceeds the budget of its process fails, a coordinator holds processes that exceed its
//! budget, and new processes wait while a coordinator is full.

use std::collections::VecDeque;
use std::sync::Arc;

use xavantes_engine::HANDLER_RESERVE;
use xavantes_process_coordinator::process::driver_input::ProcessInput;
use xavantes_process_coordinator::process::memory_budget::{MEMORY_POLL_INTERVAL, TURN_PATIENCE};

use crate::coordinator::state::SimProcessMail;
use crate::mutation::Mutation;
use crate::simulated_machine::NodeRef;
use crate::state_budgets::{Budgets, Excess};
use crate::world::World;
use crate::world_event::NodeTask;

/// Bytes that each iteration of a `Large` process collects.
const COLLECTED_BYTES: u64 = 12_000;
/// Budget of a process, and of one at a coordinator with a low setting.
const PROCESS_BYTES: u64 = 160_000;
const LOW_PROCESS_BYTES: u64 = 40_000;
/// Upper bound on the bytes of a process beside the collected values.
const OTHER_BYTES: u64 = 25_000;
/// Upper bound on what a process takes beyond its budget: the engine checks values, not the failures that it records.
const UNCHECKED_BYTES: u64 = 4_000;

impl World<'_> {
    /// Whether a `Large` process exceeds its budget.
    pub fn excess(&self, n: i64) -> Excess {
        let collected = n as u64 * COLLECTED_BYTES;
        match self.budgets {
            true if collected > PROCESS_BYTES + PROCESS_BYTES / HANDLER_RESERVE => Excess::Yes,
            true if collected + OTHER_BYTES > LOW_PROCESS_BYTES => Excess::Maybe,
            _ => Excess::No,
        }
    }

    /// A coordinator starts. Its administrator may have changed the budget.
    pub fn set_budgets(&mut self, c: usize) {
        if self.budgets {
            let process = if self.random.one_in(2) { PROCESS_BYTES } else { LOW_PROCESS_BYTES };
            self.coordinators[c].memory.budgets = Budgets::new(process);
        }
    }

    /// A process has done something: counts its bytes, and checks them.
    pub fn count_bytes(&mut self, c: usize, id: &Arc<str>) {
        let memory = &mut self.coordinators[c].memory;
        let Some(runner) = memory.runners.get_mut(id) else { return };
        runner.memory.set(runner.driver.bytes());
        let (bytes, most) = (runner.driver.engine().state().bytes(), memory.budgets.most());
        if bytes > most.saturating_add(UNCHECKED_BYTES) {
            self.report_problem(Some(format!("{id} takes {bytes} bytes of {most} at c{c}")));
        }
    }

    /// Whether a process waits for memory. If so, only its users get answers.
    pub fn waits_for_memory(&mut self, c: usize, id: &Arc<str>, number: u64) -> bool {
        let ignores = self.mutation == Some(Mutation::IgnoreMemory);
        let (now, clock) = (self.now, self.clock(c));
        let Some(runner) = self.runner(c, id, number) else { return false };
        if runner.memory.must_wait(clock).is_some() && !runner.driver.engine().is_cancelled() && !ignores {
            let is_request =
                |mail: &SimProcessMail| matches!(mail, SimProcessMail::Input(ProcessInput::Steered { .. }));
            let mail = std::mem::take(&mut runner.mail);
            let requests: VecDeque<SimProcessMail>;
            (requests, runner.mail) = mail.into_iter().partition(is_request);
            let first = !std::mem::replace(&mut runner.waits, true);
            runner.awake = true;
            let poll = MEMORY_POLL_INTERVAL.as_millis() as u64;
            self.later(NodeRef::Coordinator(c), poll, NodeTask::Wake(id.clone(), number));
            if first {
                self.trace(|| format!("c{c}: {id} waits for memory"));
            }
            for request in requests {
                if let SimProcessMail::Input(input) = request {
                    self.handle_input(c, id, input);
                }
            }
            return true;
        }
        let works = !runner.mail.is_empty() || runner.writing.is_some() || runner.driver.has_more_to_do();
        if runner.memory.has_turn() && (works || runner.last_work == 0) {
            runner.last_work = now;
            let patience = TURN_PATIENCE.as_millis() as u64;
            self.later(NodeRef::Coordinator(c), patience, NodeTask::PassTurn(id.clone(), number, now));
        }
        let Some(runner) = self.runner(c, id, number) else { return false };
        let begins = !std::mem::replace(&mut runner.begun, true) && !runner.driver.engine().is_cancelled();
        if std::mem::take(&mut runner.waits) {
            self.handle_input(c, id, ProcessInput::Continued);
        }
        if begins {
            let memory = &self.coordinators[c].memory;
            let others = memory.runners.iter().filter(|(other, _)| *other != id);
            let used: u64 = others.map(|(_, runner)| runner.driver.bytes()).sum();
            if used > memory.budgets.coordinator {
                self.report_problem(Some(format!("{id} begins at c{c}, which is full")));
            }
        }
        false
    }

    /// A process that has the turn passes it on, if it has done nothing since `last_work`.
    pub fn pass_turn(&mut self, c: usize, id: &Arc<str>, number: u64, last_work: u64) {
        let clock = self.clock(c);
        let Some(runner) = self.runner(c, id, number) else { return };
        if runner.memory.has_turn() && runner.last_work == last_work {
            runner.last_work = 0;
            runner.memory.pass_turn(clock);
            self.trace(|| format!("c{c}: {id} passes the turn on"));
            self.wake(c, id);
        }
    }
}

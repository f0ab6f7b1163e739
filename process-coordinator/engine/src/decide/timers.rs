//! Timers: the next time each element needs the clock, and what happens then.

use xavantes_model::script::Sandbox;

use crate::command::Command;
use crate::element_id::ElementId;
use crate::engine::Engine;
use crate::event::Event;
use crate::failure::{Failure, FailureKind};
use crate::outcome::StopReason;
use crate::state::instance::{Instance, Phase};
use crate::step_output::StepOutput;
use crate::time::Time;

impl Engine {
    /// When the driver must send [`Input::TimePassed`](crate::Input::TimePassed).
    pub fn next_deadline(&self) -> Option<Time> {
        self.timers.first().map(|(time, _)| *time)
    }

    pub(crate) fn on_time_passed(&mut self, sandbox: &mut Sandbox, out: &mut StepOutput) {
        while let Some((time, id)) = self.timers.first().copied()
            && time <= self.now
            && !sandbox.is_turn_over()
        {
            // The timer of a paused element has no effect now; its resume sets the timer again.
            self.timers.pop_first();
            self.on_deadline(sandbox, id, out);
        }
    }

    /// The time of an element's timer was reached: its next try begins, or its current try times out.
    fn on_deadline(&mut self, sandbox: &mut Sandbox, id: ElementId, out: &mut StepOutput) {
        let Some(instance) = self.state.instances.get(id) else { return };
        if let Phase::Waiting { .. } = instance.phase {
            return self.advance(sandbox, id, out);
        }
        if instance.is_pausable() && self.is_paused(id) {
            return;
        }
        let node = self.program.node(instance.site_process as usize, instance.site);
        let limit = node.policy.timeout.unwrap_or_default();
        let failure = Failure::new(FailureKind::Timeout, format!("took longer than its TIMEOUT of {limit:?}"));
        let failure = self.with_path(id, Box::new(failure.at_line(node.line)));
        if matches!(instance.phase, Phase::Outstanding(_)) {
            let attempt = instance.attempts;
            self.emit(out, Event::Stopping { id, stop: StopReason::Failed(failure) });
            out.commands.push(Command::Cancel { element: id, attempt });
        } else {
            self.fail(id, failure, out);
        }
    }

    /// Replaces the timer of an element, which was at `before`, by the one that its state asks for.
    #[inline]
    pub(crate) fn update_timer(&mut self, id: ElementId, before: Option<Time>) {
        let after = self.state.instances.get(id).and_then(Instance::timer);
        if before != after {
            if let Some(time) = before {
                self.timers.remove(&(time, id));
            }
            self.timers.extend(after.map(|time| (time, id)));
        }
    }

    /// Sets the timers of all elements in a resumed one again, because the pause moved their deadlines.
    pub(crate) fn reset_timers(&mut self, id: ElementId) {
        self.timers.retain(|(time, id)| self.state.instances.get(*id).and_then(Instance::timer) == Some(*time));
        let mut pending = vec![id];
        while let Some(id) = pending.pop() {
            let Some(instance) = self.state.instances.get(id) else { continue };
            self.timers.extend(instance.timer().map(|time| (time, id)));
            pending.extend(instance.children());
        }
    }
}

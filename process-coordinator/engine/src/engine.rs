//! The engine and its agenda: a step handles one input, then lets every element go on that can, until all of them wait
//! for answers, time or capacity.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use xavantes_model::definition::{DefinitionNodeId, Program, Script};
use xavantes_model::script::Sandbox;

use crate::command::Command;
use crate::element_id::ElementId;
use crate::event::Event;
use crate::input::Input;
use crate::rejection::Rejection;
use crate::state::EngineState;
use crate::state::instance::{Instance, Phase};
use crate::step_output::StepOutput;
use crate::time::Time;

/// Upper bound on the events of one step, after which it yields [`Command::Continue`]: a loop without activities must not
/// block the other processes of a coordinator.
const MAX_EVENTS_PER_STEP: usize = 4096;

/// Upper bound on the bytes of the events of one step, for the same reason. One event may be larger.
const MAX_BYTES_PER_STEP: u64 = 4 << 20;

/// Resting elements (waiting for their next try, or held) use no capacity up to this number. Those beyond it do: a loop
/// whose iterations all fail must not create all of them.
const FREE_RESTING_ELEMENTS: u64 = 1024;

/// An element for the engine to examine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AgendaItem {
    /// Let the element go on.
    Advance(ElementId),
    /// An element in it ended: check its exit condition, then let it go on.
    ChildEnded(ElementId),
}

/// A process being interpreted.
///
/// `state` is everything that a snapshot holds. The other fields are either rebuilt from it, or set by the driver.
#[derive(Debug)]
pub struct Engine {
    pub(crate) program: Arc<Program>,
    pub(crate) state: EngineState,
    /// The number of this engine in its operating system process. It separates the growing lists of different engines
    /// in the caches of a sandbox.
    pub(crate) number: u64,
    pub(crate) agenda: Vec<AgendaItem>,
    /// Elements that may be stopping. The engine cancels everything in them before any other work.
    pub(crate) stops: Vec<ElementId>,
    /// Activities that wait for capacity.
    pub(crate) ready: VecDeque<ElementId>,
    /// Controllers that would create more elements if there were capacity, the deepest first.
    pub(crate) starved: BTreeSet<(Reverse<u32>, ElementId)>,
    /// Such controllers in which something may be delegated.
    pub(crate) starved_spreading: BTreeSet<(Reverse<u32>, ElementId)>,
    /// Compiled exit conditions from `set`.
    pub(crate) conditions: HashMap<(u32, DefinitionNodeId, Arc<str>), Script>,
    pub(crate) timers: BTreeSet<(Time, ElementId)>,
    pub(crate) followed: bool,
    capacity: u64,
    pub(crate) max_delegations: u64,
    pub(crate) max_auto_delegations: u64,
    /// Upper bound on the bytes of the state.
    pub(crate) max_bytes: u64,
    pub(crate) now: Time,
}

impl Engine {
    pub(crate) fn new(program: Arc<Program>, state: EngineState) -> Self {
        static NEXT_NUMBER: AtomicU64 = AtomicU64::new(0);
        Self {
            program,
            state,
            number: NEXT_NUMBER.fetch_add(1, Ordering::Relaxed),
            agenda: Vec::new(),
            stops: Vec::new(),
            ready: VecDeque::new(),
            starved: BTreeSet::new(),
            starved_spreading: BTreeSet::new(),
            conditions: HashMap::new(),
            timers: BTreeSet::new(),
            followed: false,
            capacity: 0,
            max_delegations: 0,
            max_auto_delegations: 0,
            max_bytes: u64::MAX,
            now: Time::default(),
        }
    }

    /// The state, which is also the snapshot.
    pub fn state(&self) -> &EngineState {
        &self.state
    }

    /// The definitions that the process runs.
    pub fn program(&self) -> &Arc<Program> {
        &self.program
    }

    /// Whether a user follows the process. Then steps yield the results of completed elements. Not part of the state.
    pub fn set_followed(&mut self, followed: bool) {
        self.followed = followed;
    }

    /// Sets how many activities may be outstanding at once. The next step creates elements for free capacity.
    pub fn set_capacity(&mut self, capacity: u64) {
        self.capacity = capacity;
    }

    /// Sets how many subtrees may be delegated at once, both with `DELEGATE="always"` and `"auto"`.
    pub fn set_max_delegations(&mut self, delegations: u64) {
        self.max_delegations = delegations;
        self.max_auto_delegations = delegations;
    }

    /// Sets the number of delegated subtrees from which on `DELEGATE="auto"` delegates no more.
    pub fn set_max_auto_delegations(&mut self, delegations: u64) {
        self.max_auto_delegations = delegations.min(self.max_delegations);
    }

    /// Sets the budget of the process: how many bytes its state may take. An element that would exceed it fails. The
    /// journal records the failure, so a replay does not depend on the budget.
    pub fn set_max_bytes(&mut self, bytes: u64) {
        self.max_bytes = bytes;
    }

    /// Handles an input, then works through the agenda. A rejected input changes nothing.
    pub fn step(
        &mut self,
        sandbox: &mut Sandbox,
        input: Input,
        now: Time,
        out: &mut StepOutput,
    ) -> Result<(), Rejection> {
        self.now = now;
        let verdict = self.on_input(sandbox, input, out);
        self.work(sandbox, out);
        verdict
    }

    fn on_input(&mut self, sandbox: &mut Sandbox, input: Input, out: &mut StepOutput) -> Result<(), Rejection> {
        match input {
            Input::Answered { element, attempt, answer } => self.on_answered(element, attempt, answer, out),
            Input::Called(call) => self.on_called(*call, out),
            Input::Steered { path, action } => self.on_steered(sandbox, &path, action, out),
            Input::Reopened { path } => self.on_reopened(&path, out),
            Input::TimePassed => {
                self.on_time_passed(sandbox, out);
                Ok(())
            }
            Input::Continued => Ok(()),
        }
    }

    /// Works through the agenda, then creates elements for free capacity.
    fn work(&mut self, sandbox: &mut Sandbox, out: &mut StepOutput) {
        let (max_events, max_bytes) = (out.events.len() + MAX_EVENTS_PER_STEP, out.bytes + MAX_BYTES_PER_STEP);
        let is_full = |out: &StepOutput, sandbox: &Sandbox| {
            out.events.len() >= max_events || out.bytes >= max_bytes || sandbox.is_turn_over()
        };
        loop {
            self.cancel_stopping(out);
            while let Some(item) = self.agenda.pop() {
                match item {
                    AgendaItem::Advance(id) => self.advance(sandbox, id, out),
                    AgendaItem::ChildEnded(id) => self.on_child_ended(sandbox, id, out),
                }
                self.cancel_stopping(out);
                if !self.agenda.is_empty() && is_full(out, sandbox) {
                    out.commands.push(Command::Continue);
                    return;
                }
            }
            // Activities that exist come before elements that do not. Of the controllers the deepest comes first, so
            // that iterations which have begun end before new ones begin.
            let mut next = if self.has_capacity() { self.ready.pop_front() } else { None };
            if next.is_none() {
                next = self.next_starved();
            }
            let Some(id) = next else { return };
            self.agenda.push(AgendaItem::Advance(id));
            if is_full(out, sandbox) {
                out.commands.push(Command::Continue);
                return;
            }
        }
    }

    /// Carries a cancellation down to all elements at once, so that nothing starts in a cancelled scope.
    fn cancel_stopping(&mut self, out: &mut StepOutput) {
        while let Some(id) = self.stops.pop() {
            self.cancel_children(id, out);
        }
    }

    /// There is capacity for one more outstanding activity.
    pub(crate) fn has_capacity(&self) -> bool {
        self.state.counts.outstanding < self.capacity
    }

    /// There is capacity for one more element, besides the activities in `ready`. A controller in which something may be
    /// delegated (`spreads`) may also use the capacity for delegations.
    pub(crate) fn has_capacity_to_create(&self, spreads: bool) -> bool {
        let counts = &self.state.counts;
        let used = counts.outstanding + counts.delegated + self.ready.len() as u64;
        let remote = if spreads { self.max_delegations } else { 0 };
        used + (counts.delayed + counts.held).saturating_sub(FREE_RESTING_ELEMENTS)
            < self.capacity.saturating_add(remote)
    }

    /// Removes and returns the deepest starved controller for which there is capacity.
    fn next_starved(&mut self) -> Option<ElementId> {
        let (local, spreading) = (self.starved.first().copied(), self.starved_spreading.first().copied());
        let next = match (self.has_capacity_to_create(false), self.has_capacity_to_create(true)) {
            (true, _) => local.into_iter().chain(spreading).min()?,
            (false, true) => spreading?,
            (false, false) => return None,
        };
        self.starved.remove(&next);
        self.starved_spreading.remove(&next);
        Some(next.1)
    }

    /// Applies an event and adds it to the output.
    pub(crate) fn emit(&mut self, out: &mut StepOutput, event: Event) {
        if self.state.history.is_clock_late(self.now) {
            self.emit_now(out, Event::Clock { at: self.now });
        }
        self.emit_now(out, event);
    }

    /// Applies an event and adds it to the output, without setting the clock of the history.
    fn emit_now(&mut self, out: &mut StepOutput, event: Event) {
        let element = event.element();
        let before = element.and_then(|id| self.state.instances.get(id)).and_then(Instance::timer);
        let applied = self.state.apply(&self.program, &event);
        debug_assert_eq!(applied, Ok(()), "{event:?}");
        if let Some(id) = element {
            self.update_timer(id, before);
        }
        if let Event::Resumed { id, .. } = &event {
            self.reset_timers(*id);
        }
        out.bytes += event.bytes();
        out.events.push(event);
    }

    /// Records in the history that a user intervened: who, and what the user asked for.
    pub fn record_intervention(&mut self, path: String, what: String, by: String, out: &mut StepOutput) {
        self.emit_now(out, Event::Clock { at: self.now });
        self.emit_now(out, Event::Steered { path, what, by });
    }

    /// Nothing new may start in the element: it, or an element around it, is paused. Pauses outside a subtree that is
    /// being cancelled do not count, because that subtree must be able to end.
    pub(crate) fn is_paused(&self, id: ElementId) -> bool {
        if self.state.counts.paused == 0 {
            return false;
        }
        let mut next = Some(id);
        while let Some(instance) = next.and_then(|id| self.state.instances.get(id)) {
            if instance.is_cancelled() {
                return false;
            }
            if instance.paused.is_some() {
                return true;
            }
            next = instance.parent;
        }
        false
    }

    /// The commands for everything that the state says is under way. After a crash their effects may be lost.
    pub fn outstanding(&self) -> Vec<Command> {
        let mut commands = Vec::new();
        for id in self.state.instances.ids() {
            let Some(instance) = self.state.instances.get(id) else { continue };
            let Phase::Outstanding(attempt) = &instance.phase else { continue };
            commands.push(self.send_command(id));
            if attempt.stop.is_some() {
                commands.push(Command::Cancel { element: id, attempt: instance.attempts });
            } else if self.is_paused(id) {
                commands.push(Command::Pause { element: id, attempt: instance.attempts, paused: true });
            }
        }
        if let Some((outcome, _)) = &self.state.ended {
            commands.push(Command::Finish { outcome: outcome.clone() });
        } else if !self.agenda.is_empty() {
            commands.push(Command::Continue);
        }
        commands
    }
}

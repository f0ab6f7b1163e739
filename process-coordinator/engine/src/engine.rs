//! The agenda of a process: takes inputs, lets every element that can go on do so, and stops when all wait for the world.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use xavantes_model::definition::{NodeId, Program, Script, ScriptInput};
use xavantes_model::script::Sandbox;
use xavantes_model::value::Value;

use crate::apply::Misfit;
use crate::event::Event;
use crate::id::{ElementId, Time};
use crate::input::{Command, Input, Rejection};
use crate::state::{Instance, Phase, State};

/// Process types may call each other, and themselves, to this depth.
pub const MAX_CALL_DEPTH: u32 = 200;

/// Facts that one step may yield before it lets others run: a loop without activities must not hold up a coordinator.
const EVENTS_PER_STEP: usize = 4096;

/// Elements that rest before their next try, or are held, take no room until there are so many of them: a loop all of
/// whose iterations fail must not create them all.
const MOST_RESTING: u64 = 1024;

/// What steps yield. A driver may let several steps add to one, and commit their events together.
#[derive(Debug, Default, PartialEq)]
pub struct Output {
    /// To be journaled, in order, before any of the commands is carried out.
    pub events: Vec<Event>,
    /// To be carried out.
    pub commands: Vec<Command>,
    /// What completed elements gave, if somebody wants to know ([`Engine::set_followed`]).
    pub products: Vec<Product>,
}

/// What an element gave when it completed.
#[derive(Debug, Clone, PartialEq)]
pub struct Product {
    /// The element.
    pub path: String,
    /// Of an activity, a subprocess or a controller that ran elsewhere: its results by name.
    pub results: Vec<(Arc<str>, Value)>,
    /// Of an iteration: what its loop collects of it.
    pub collected: Option<Value>,
}

/// What a process runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Root {
    /// The process type.
    pub process: usize,
    /// Its `BODY`, or a controller in it that was delegated.
    pub node: NodeId,
}

/// A process to start.
#[derive(Debug, Clone)]
pub struct Start {
    /// Its id, which begins every path.
    pub id: Arc<str>,
    /// What it runs.
    pub root: Root,
    /// The root's parameters. For a delegated root all its variables in order are given in `variables` instead.
    pub parameters: Vec<(String, Value)>,
    /// The variables of a delegated root.
    pub variables: Option<Vec<Value>>,
    /// What a delegated root reads from outside.
    pub captured: Vec<(ScriptInput, Value)>,
    /// How deep in calls it is.
    pub call_depth: u32,
}

impl Start {
    /// A process of a type, with its parameters by name.
    pub fn new(id: impl Into<Arc<str>>, process: usize, parameters: Vec<(String, Value)>) -> Self {
        let root = Root { process, node: NodeId::BODY };
        Self { id: id.into(), root, parameters, variables: None, captured: Vec::new(), call_depth: 0 }
    }
}

/// Something to look at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Task {
    /// What comes next in this element?
    Advance(ElementId),
    /// One of its elements ended: does it exit? What comes next?
    ChildEnded(ElementId),
}

/// A process being interpreted.
#[derive(Debug)]
pub struct Engine {
    pub(crate) program: Arc<Program>,
    pub(crate) state: State,
    /// Tells the growing lists of different engines apart.
    pub(crate) unique: u64,
    pub(crate) agenda: Vec<Task>,
    /// Elements in which everything is to be cancelled, before anything else happens.
    pub(crate) stops: Vec<ElementId>,
    /// Activities that wait for room, and controllers that would create more. Both only hold what the state says too.
    pub(crate) ready: VecDeque<ElementId>,
    pub(crate) hungry: BTreeSet<(Reverse<u32>, ElementId)>,
    /// The same for controllers in which something may be delegated.
    pub(crate) spreading: BTreeSet<(Reverse<u32>, ElementId)>,
    /// Exit conditions given from outside, compiled.
    pub(crate) conditions: HashMap<(u32, NodeId, Arc<str>), Script>,
    timers: BTreeSet<(Time, ElementId)>,
    pub(crate) followed: bool,
    room: u64,
    pub(crate) delegations: u64,
    pub(crate) auto_delegations: u64,
    pub(crate) now: Time,
}

impl Engine {
    fn with(program: Arc<Program>, state: State) -> Self {
        static UNIQUE: AtomicU64 = AtomicU64::new(0);
        Self {
            program,
            state,
            unique: UNIQUE.fetch_add(1, Ordering::Relaxed),
            agenda: Vec::new(),
            stops: Vec::new(),
            ready: VecDeque::new(),
            hungry: BTreeSet::new(),
            spreading: BTreeSet::new(),
            conditions: HashMap::new(),
            timers: BTreeSet::new(),
            followed: false,
            room: 0,
            delegations: 0,
            auto_delegations: 0,
            now: Time::default(),
        }
    }

    /// Starts a process. Bad parameters are all told at once, and nothing is started. The first step does the first work.
    pub fn start(program: Arc<Program>, start: Start, now: Time, out: &mut Output) -> Result<Self, Vec<String>> {
        let variables = match start.variables {
            Some(variables) => variables,
            None => crate::scope::bind_root(&program, start.root, start.parameters)?,
        };
        let mut engine = Self::with(program, State::default());
        engine.now = now;
        let event = Event::Started {
            process: start.id,
            root_process: start.root.process as u32,
            root: start.root.node,
            variables,
            captured: start.captured,
            call_depth: start.call_depth,
        };
        engine.emit(out, event);
        engine.agenda.extend(engine.state.root.map(Task::Advance));
        Ok(engine)
    }

    /// Goes on from a snapshot.
    pub fn restore(program: Arc<Program>, state: State) -> Self {
        let mut engine = Self::with(program, state);
        let ids: Vec<ElementId> = engine.state.instances.ids().collect();
        for id in &ids {
            engine.arm(*id, None);
            engine.agenda.push(Task::ChildEnded(*id));
            engine.stops.push(*id);
        }
        engine
    }

    /// Goes on from a journal: all events from the beginning, or those since a snapshot.
    pub fn replay<'a>(
        program: Arc<Program>,
        mut state: State,
        events: impl IntoIterator<Item = &'a Event>,
    ) -> Result<Self, Misfit> {
        for event in events {
            state.apply(&program, event)?;
        }
        Ok(Self::restore(program, state))
    }

    /// The state, which is also the snapshot.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// The definitions.
    pub fn program(&self) -> &Arc<Program> {
        &self.program
    }

    /// Whether steps tell what completed elements give. It is not part of the state.
    pub fn set_followed(&mut self, followed: bool) {
        self.followed = followed;
    }

    /// How many activities may be out at once. Elements are created when there is room for them, in the next step.
    pub fn set_room(&mut self, room: u64) {
        self.room = room;
    }

    /// How many subtrees may be delegated at once.
    pub fn set_delegations(&mut self, delegations: u64) {
        self.delegations = delegations;
        self.auto_delegations = delegations;
    }

    /// How many there may be when one more is delegated that does not have to be (`DELEGATE="auto"`).
    pub fn set_auto_delegations(&mut self, delegations: u64) {
        self.auto_delegations = delegations.min(self.delegations);
    }

    /// When [`Input::TimePassed`] is due.
    pub fn next_deadline(&self) -> Option<Time> {
        self.timers.first().map(|(time, _)| *time)
    }

    /// Takes an input. Rejected inputs change nothing.
    pub fn step(&mut self, sandbox: &mut Sandbox, input: Input, now: Time, out: &mut Output) -> Result<(), Rejection> {
        self.now = now;
        let verdict = self.take(sandbox, input, out);
        self.work(sandbox, out);
        verdict
    }

    fn take(&mut self, sandbox: &mut Sandbox, input: Input, out: &mut Output) -> Result<(), Rejection> {
        match input {
            Input::Answered { element, attempt, answer } => self.on_answered(element, attempt, answer, out),
            Input::Called(call) => self.on_called(*call, out),
            Input::Steered { path, action } => self.on_steered(sandbox, &path, action, out),
            Input::TimePassed => {
                self.on_time_passed(sandbox, out);
                Ok(())
            }
            Input::Continued => Ok(()),
        }
    }

    fn on_time_passed(&mut self, sandbox: &mut Sandbox, out: &mut Output) {
        while let Some((time, id)) = self.timers.first().copied()
            && time <= self.now
        {
            // Whoever is paused now is armed again when it resumes.
            self.timers.pop_first();
            self.on_deadline(sandbox, id, out);
        }
    }

    /// Works through the agenda, then creates as much as there is room for.
    fn work(&mut self, sandbox: &mut Sandbox, out: &mut Output) {
        let most = out.events.len() + EVENTS_PER_STEP;
        loop {
            self.stop_all(out);
            while let Some(task) = self.agenda.pop() {
                match task {
                    Task::Advance(id) => self.advance(sandbox, id, out),
                    Task::ChildEnded(id) => self.on_child_ended(sandbox, id, out),
                }
                self.stop_all(out);
                if out.events.len() >= most && !self.agenda.is_empty() {
                    out.commands.push(Command::Continue);
                    return;
                }
            }
            // What exists comes before what could be created; of that, the deepest first, so that what was begun ends.
            let mut next = if self.has_room() { self.ready.pop_front() } else { None };
            if next.is_none() {
                next = self.next_hungry();
            }
            let Some(id) = next else { return };
            self.agenda.push(Task::Advance(id));
            if out.events.len() >= most {
                out.commands.push(Command::Continue);
                return;
            }
        }
    }

    /// A cancellation reaches everything in one go, so that nothing starts in a cancelled scope.
    fn stop_all(&mut self, out: &mut Output) {
        while let Some(id) = self.stops.pop() {
            self.stop_children(id, out);
        }
    }

    /// Is there room for one more activity?
    pub(crate) fn has_room(&self) -> bool {
        self.state.counts.out < self.room
    }

    /// Is there room for one more element, after the activities that already wait? One in which something may be
    /// delegated needs no room here.
    pub(crate) fn has_room_to_create(&self, spreads: bool) -> bool {
        let counts = &self.state.counts;
        let taken = counts.out + counts.delegated + self.ready.len() as u64;
        let elsewhere = if spreads { self.delegations } else { 0 };
        taken + counts.resting.saturating_sub(MOST_RESTING) < self.room.saturating_add(elsewhere)
    }

    /// The deepest of the controllers that would create more and for which there is room.
    fn next_hungry(&mut self) -> Option<ElementId> {
        let (here, spreading) = (self.hungry.first().copied(), self.spreading.first().copied());
        let next = match (self.has_room_to_create(false), self.has_room_to_create(true)) {
            (true, _) => here.into_iter().chain(spreading).min()?,
            (false, true) => spreading?,
            (false, false) => return None,
        };
        self.hungry.remove(&next);
        self.spreading.remove(&next);
        Some(next.1)
    }

    /// Makes a fact: applies it and tells it.
    pub(crate) fn emit(&mut self, out: &mut Output, event: Event) {
        if self.state.history.is_late(self.now) {
            self.make(out, Event::Clock { at: self.now });
        }
        self.make(out, event);
    }

    fn make(&mut self, out: &mut Output, event: Event) {
        let element = event.element();
        let before = element.and_then(|id| self.state.instances.get(id)).and_then(Instance::timer);
        let applied = self.state.apply(&self.program, &event);
        debug_assert_eq!(applied, Ok(()), "{event:?}");
        if let Some(id) = element {
            self.arm(id, before);
        }
        if let Event::Resumed { id, .. } = &event {
            self.arm_all(*id);
        }
        out.events.push(event);
    }

    /// Notes that somebody intervened, and what was wanted.
    pub fn note_steered(&mut self, path: String, what: String, out: &mut Output) {
        self.make(out, Event::Clock { at: self.now });
        self.make(out, Event::Steered { path, what });
    }

    /// Brings the timer of an element up to date.
    pub(crate) fn arm(&mut self, id: ElementId, before: Option<Time>) {
        let after = self.state.instances.get(id).and_then(Instance::timer);
        if before != after {
            if let Some(time) = before {
                self.timers.remove(&(time, id));
            }
            self.timers.extend(after.map(|time| (time, id)));
        }
    }

    fn arm_all(&mut self, id: ElementId) {
        self.timers.retain(|(time, id)| self.state.instances.get(*id).and_then(Instance::timer) == Some(*time));
        let mut pending = vec![id];
        while let Some(id) = pending.pop() {
            let Some(instance) = self.state.instances.get(id) else { continue };
            self.timers.extend(instance.timer().map(|time| (time, id)));
            pending.extend(instance.children());
        }
    }

    /// Is nothing new to start here? A pause anywhere above counts, but not from outside a subtree that is being
    /// cancelled: that one must be able to end.
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

    /// The commands whose effects may have been lost with a crash: everything that the state says is under way.
    pub fn outstanding(&self) -> Vec<Command> {
        let mut commands = Vec::new();
        for id in self.state.instances.ids() {
            let Some(instance) = self.state.instances.get(id) else { continue };
            let Phase::Out(out) = &instance.phase else { continue };
            commands.push(self.send_command(id));
            if out.stop.is_some() {
                commands.push(Command::Cancel { element: id, attempt: instance.attempts });
            } else if instance.delegated && self.is_paused(id) {
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

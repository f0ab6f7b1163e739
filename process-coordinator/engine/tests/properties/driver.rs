//! A driver that makes everything go wrong: it loses attempts, repeats answers, steers at random, and crashes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use xavantes_engine::{
    Action, Answer, Command, ElementId, ElementState, Engine, EngineState, Event, Failure, FailureKind, Input,
    Rejection, SharedCall, Start, StepOutput, Time,
};
use xavantes_model::definition::Program;
use xavantes_model::script::{Sandbox, ScriptLimits};
use xavantes_model::shared_objects::Method;
use xavantes_model::value::{SharedKind, SharedRef, Value};

use crate::checker::Checker;
use crate::states::check_states;

/// A generator of random numbers. The same seed gives the same inputs.
pub struct Random(fastrand::Rng);

impl Random {
    pub fn below(&mut self, n: usize) -> usize {
        self.0.usize(0..n.max(1))
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
}

/// An engine with its random driver.
pub struct Driver {
    pub program: Arc<Program>,
    pub engine: Engine,
    sandbox: Sandbox,
    pub checker: Checker,
    pub random: Random,
    now: Time,
    pub journal: Vec<Event>,
    /// Serialised states, each with the length of the journal at that time.
    pub snapshots: Vec<(usize, Vec<u8>)>,
    /// Outstanding attempts, and whether each is delegated.
    pub outstanding: BTreeMap<(ElementId, u32), bool>,
    /// Answers that the engine has accepted.
    answered: Vec<Input>,
    /// The engine has work left: the next step must be `Input::Continued`.
    unfinished: bool,
}

const ID: &str = "Main-1";

impl Driver {
    pub fn new(program: Program, seed: u64) -> Self {
        let program = Arc::new(program);
        let mut out = StepOutput::default();
        let start = Start::new(ID, program.process("Main").unwrap(), Vec::new());
        let engine = Engine::start(program.clone(), start, Time(0), &mut out).unwrap();
        let mut driver = Driver {
            program,
            engine,
            sandbox: Sandbox::new(ScriptLimits::CONTROL, false).unwrap(),
            checker: Checker::default(),
            random: Random(fastrand::Rng::with_seed(seed)),
            now: Time(0),
            journal: Vec::new(),
            snapshots: Vec::new(),
            outstanding: BTreeMap::new(),
            answered: Vec::new(),
            unfinished: true,
        };
        driver.on_output(out);
        driver
    }

    fn on_output(&mut self, output: StepOutput) {
        for event in &output.events {
            if std::env::var_os("SHOW_EVENTS").is_some() {
                eprintln!("{} {event:?}", self.now.0);
            }
            self.checker.on_event(&self.program, event);
        }
        self.journal.extend(output.events);
        for command in output.commands {
            match command {
                Command::Dispatch { element, attempt, .. } => {
                    assert!(
                        self.outstanding.insert((element, attempt), false).is_none(),
                        "an attempt was handed out twice"
                    );
                    let others = self.outstanding.keys().filter(|(other, _)| *other == element).count();
                    assert_eq!(others, 1, "two attempts of one element are outstanding");
                }
                Command::Delegate(delegation) => {
                    self.outstanding.insert((delegation.element, delegation.attempt), true);
                }
                Command::Cancel { element, attempt } => {
                    assert!(
                        self.outstanding.contains_key(&(element, attempt)),
                        "a cancel without an outstanding attempt"
                    );
                }
                Command::Continue => self.unfinished = true,
                Command::Finish { .. } | Command::Pause { .. } | Command::Reply { .. } => {}
            }
        }
    }

    fn step(&mut self, input: Input) -> Result<(), Rejection> {
        let mut out = StepOutput::default();
        if std::env::var_os("SHOW_EVENTS").is_some() {
            eprintln!("{} <- {input:?}", self.now.0);
        }
        let verdict = self.engine.step(&mut self.sandbox, input, self.now, &mut out);
        self.on_output(out);
        check_states(&self.engine);
        verdict
    }

    fn answer(&mut self, with_losses: bool) {
        let Some(((element, attempt), delegated)) = self.pick_attempt() else { return };
        let answer = match self.random.below(if with_losses { 12 } else { 6 }) {
            0 | 1 => Answer::Failed(Box::new(Failure::new(FailureKind::Code, "boom"))),
            2 if delegated => Answer::Refused,
            6..=8 => Answer::Lost,
            9 => Answer::Cancelled,
            _ if delegated => Answer::Refused,
            _ => Answer::Completed(vec![Value::Int(1)]),
        };
        self.outstanding.remove(&(element, attempt));
        let input = Input::Answered { element, attempt, answer };
        self.answered.push(input.clone());
        assert_eq!(self.step(input), Ok(()));
    }

    fn pick_attempt(&mut self) -> Option<((ElementId, u32), bool)> {
        let at = self.random.below(self.outstanding.len());
        self.outstanding.iter().nth(at).map(|(key, delegated)| (*key, *delegated))
    }

    /// Repeats an earlier answer, which must change nothing.
    fn repeat_answer(&mut self) {
        if self.answered.is_empty() {
            return;
        }
        let again = self.answered[self.random.below(self.answered.len())].clone();
        let before = self.engine.state().clone();
        let length = self.journal.len();
        // Any input also does the work that the last step left, so only check when none is left.
        if !self.unfinished {
            let verdict = self.step(again);
            assert!(matches!(verdict, Err(Rejection::NotRunning { .. })), "{verdict:?}");
            assert_eq!(self.journal.len(), length, "a repeated answer emitted events");
            assert_eq!(*self.engine.state(), before);
        }
    }

    /// Calls a shared object twice with the same number; the second call must change nothing.
    fn call(&mut self) {
        let Some(((element, attempt), false)) = self.pick_attempt() else { return };
        let object = SharedRef { kind: SharedKind::Set, home: ID.into(), id: 0 };
        let call = SharedCall {
            element,
            attempt,
            caller: 0,
            sequence: 1,
            acknowledged: 0,
            object,
            method: Method::Add,
            arguments: vec![Value::Int(self.random.below(5) as i64)],
        };
        let _ = self.step(Input::Called(Box::new(call.clone())));
        let before = self.engine.state().clone();
        let length = self.journal.len();
        if !self.unfinished {
            let _ = self.step(Input::Called(Box::new(call)));
            assert_eq!(self.journal.len(), length, "a repeated call took effect twice");
            assert_eq!(*self.engine.state(), before);
        }
    }

    fn steer(&mut self) {
        let live: Vec<ElementId> = self.checker.live.keys().copied().collect();
        let Some(id) = live.get(self.random.below(live.len())) else { return };
        let path = self.engine.path(*id);
        assert_eq!(self.engine.find(&path), Ok(Some(*id)), "{path} finds another element");
        let set = |key: &str, value: &str| Action::Set { key: key.into(), value: value.into() };
        let action = match self.random.below(14) {
            0 if self.checker.live[id].parent.is_some() || self.random.one_in(6) => Action::Cancel,
            1..=4 => Action::Pause,
            5..=8 => Action::Resume,
            9 => Action::Retry,
            10 => set("MAX_PARALLEL", "2"),
            11 => set("EXIT_CONDITION", "completed > 2"),
            12 => set("TO", "3"),
            _ => set("JOIN", "2"),
        };
        let before = self.engine.state().clone();
        let unfinished = self.unfinished;
        if self.step(Input::Steered { path, action }).is_err() && !unfinished {
            assert_eq!(*self.engine.state(), before, "a rejected action changed the state");
        }
    }

    fn pass_time(&mut self) {
        let ahead = self.random.below(3000) as u64;
        self.now = Time(self.now.0 + ahead);
        let _ = self.step(Input::TimePassed);
    }

    /// Sends one random input.
    pub fn act_randomly(&mut self) {
        if self.unfinished {
            self.unfinished = false;
            let _ = self.step(Input::Continued);
        }
        match self.random.below(20) {
            0..=10 => self.answer(true),
            11 | 12 => self.repeat_answer(),
            13 => self.call(),
            14 | 15 => self.steer(),
            16 | 17 => self.pass_time(),
            18 => {
                self.engine.set_capacity(self.random.below(4) as u64);
                self.unfinished = true;
            }
            _ => self.crash(),
        }
        if self.random.one_in(5) {
            let bytes = postcard::to_stdvec(self.engine.state()).unwrap();
            self.snapshots.push((self.journal.len(), bytes));
        }
    }

    /// Replaces the engine by one from the journal, as after a crash of the coordinator.
    fn crash(&mut self) {
        let before = self.engine.state().clone();
        self.engine = Engine::replay(self.program.clone(), EngineState::default(), &self.journal).unwrap();
        assert_eq!(*self.engine.state(), before);
        self.engine.set_capacity(self.random.below(5) as u64);
        self.engine.set_max_delegations(2);
        let mut again = BTreeSet::new();
        for command in self.engine.outstanding() {
            match command {
                Command::Dispatch { element, attempt, .. } => drop(again.insert((element, attempt))),
                Command::Delegate(sent) => drop(again.insert((sent.element, sent.attempt))),
                _ => {}
            }
        }
        assert_eq!(
            again,
            self.outstanding.keys().copied().collect(),
            "the commands of a new engine are not those of the outstanding attempts"
        );
        self.unfinished = true;
    }

    /// Answers all attempts, resumes all pauses and cancels all held elements. The process must end.
    pub fn settle(&mut self) {
        self.engine.set_capacity(3);
        for _ in 0..20_000 {
            if self.checker.finished {
                return;
            }
            self.unfinished = false;
            let _ = self.step(Input::Continued);
            self.now = Time(self.now.0 + 500);
            let _ = self.step(Input::TimePassed);
            if !self.outstanding.is_empty() {
                self.answer(false);
                continue;
            }
            let live: Vec<ElementId> = self.checker.live.keys().copied().collect();
            for id in live {
                if let Some(view) = self.engine.view(id) {
                    if view.paused {
                        let _ = self.step(Input::Steered { path: view.path.clone(), action: Action::Resume });
                    }
                    if matches!(view.state, ElementState::Held(_)) {
                        let _ = self.step(Input::Steered { path: view.path, action: Action::Cancel });
                    }
                }
            }
        }
        let live: Vec<_> = self.checker.live.keys().filter_map(|id| self.engine.view(*id)).collect();
        let last = &self.journal[self.journal.len().saturating_sub(20)..];
        panic!("the process does not end: {live:#?}\noutstanding: {:?}\nlast events: {last:#?}", self.outstanding);
    }
}

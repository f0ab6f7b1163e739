//! A process under test. The test plays the driver: it answers attempts, steers, and lets time pass.
//!
//! After every step the harness replays the journal, which must result in the state of the live engine.

use std::collections::BTreeSet;
use std::sync::Arc;

use xavantes_engine::{
    Action, Answer, Command, Delegation, ElementId, Engine, EngineState, Event, Failure, FailureKind, Input, Outcome,
    Product, Rejection, Root, SharedCall, Start, StepOutput, Time, View,
};
use xavantes_model::definition::Program;
use xavantes_model::diagnostic::Source;
use xavantes_model::load::load;
use xavantes_model::script::{Sandbox, ScriptLimits};
use xavantes_model::shared_objects::Method;
use xavantes_model::value::{SharedRef, Value};

/// Activity types of all test documents. `Do` has no parameters, `Give` returns a number, `Take` has a number as
/// parameter, `Use` has a shared set.
const TYPES: &str = r#"
<ACTIVITY_TYPE NAME="Do"><CODE LANGUAGE="lua">local nothing</CODE></ACTIVITY_TYPE>
<ACTIVITY_TYPE NAME="Give"><OUT_PARAMETER TYPE="int" NAME="value"/><CODE LANGUAGE="lua">value = 1</CODE></ACTIVITY_TYPE>
<ACTIVITY_TYPE NAME="Take"><IN_PARAMETER TYPE="int" NAME="n"/><CODE LANGUAGE="lua">local nothing</CODE></ACTIVITY_TYPE>
<ACTIVITY_TYPE NAME="Use"><IN_PARAMETER TYPE="RemoteSet" NAME="set"/><CODE LANGUAGE="lua">set:add(1)</CODE>
</ACTIVITY_TYPE>
"#;

/// A document with a process type `Main`, whose `BODY` has that content and whose result is optional.
pub fn body(content: &str) -> String {
    document(&format!(
        r#"<PROCESS_TYPE NAME="Main"><OUT_PARAMETER TYPE="list" NAME="result" OPTIONAL="true"/>
<BODY>{content}</BODY></PROCESS_TYPE>"#
    ))
}

/// A document with these process types and the activity types of all tests.
pub fn document(types: &str) -> String {
    format!("<XAVANTES VERSION=\"1\">{types}{TYPES}</XAVANTES>")
}

pub fn program(text: &str) -> Arc<Program> {
    Arc::new(load(&[Source::new("test.xml", text)]).unwrap_or_else(|problems| panic!("{problems:#?}\n{text}")))
}

/// A running process.
pub struct Run {
    pub engine: Engine,
    pub journal: Vec<Event>,
    /// The commands of the last step.
    pub commands: Vec<Command>,
    /// The results of completed elements.
    pub products: Vec<Product>,
    program: Arc<Program>,
    sandbox: Sandbox,
    now: Time,
    capacity: u64,
    delegations: u64,
}

/// A process to start, with its parameters and limits.
pub struct Setup {
    program: Arc<Program>,
    start: Start,
    capacity: u64,
    delegations: u64,
}

/// Starts the process `P` of type `Main`, whose `BODY` has that content.
pub fn run(content: &str) -> Run {
    setup(&body(content)).run()
}

pub fn setup(text: &str) -> Setup {
    let program = program(text);
    let main = program.process("Main").expect("the document has a process type Main");
    Setup { program, start: Start::new("P", main, Vec::new()), capacity: 1000, delegations: 0 }
}

impl Setup {
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.start.parameters.push((name.into(), value.into()));
        self
    }

    pub fn capacity(self, capacity: u64) -> Self {
        Self { capacity, ..self }
    }

    pub fn delegations(self, delegations: u64) -> Self {
        Self { delegations, ..self }
    }

    pub fn refusal(self) -> Vec<String> {
        Engine::start(self.program, self.start, Time(0), &mut StepOutput::default())
            .expect_err("the parameters are wrong")
    }

    pub fn run(self) -> Run {
        self.run_within(u64::MAX)
    }

    /// Runs a process whose state may take this many bytes.
    pub fn run_within(self, max_bytes: u64) -> Run {
        let mut out = StepOutput::default();
        let engine =
            Engine::start(self.program.clone(), self.start, Time(0), &mut out).expect("the parameters are right");
        let mut run = Run {
            engine,
            journal: out.events,
            commands: Vec::new(),
            products: Vec::new(),
            program: self.program,
            sandbox: Sandbox::new(ScriptLimits::CONTROL, false).unwrap(),
            now: Time(0),
            capacity: self.capacity,
            delegations: self.delegations,
        };
        run.engine.set_followed(true);
        run.engine.set_max_bytes(max_bytes);
        run.engine.set_capacity(run.capacity);
        run.engine.set_max_delegations(run.delegations);
        run.step(Input::Continued).unwrap();
        run
    }
}

/// Starts the process that another coordinator runs for a delegation. `path` is the id of that process.
pub fn receive(text: &str, delegation: &Delegation, path: &str) -> Run {
    let mut setup = setup(text);
    setup.start = Start {
        id: path.into(),
        root: Root { process: delegation.process, node: delegation.node },
        parameters: Vec::new(),
        variables: Some(delegation.variables.clone()),
        captured: delegation.captured.clone(),
        call_depth: delegation.call_depth,
    };
    setup.run()
}

fn full(path: &str) -> String {
    match path {
        "" => "P".into(),
        path => format!("P/{path}"),
    }
}

impl Run {
    pub fn step(&mut self, input: Input) -> Result<(), Rejection> {
        let mut out = StepOutput::default();
        let before = self.engine.state().clone();
        let verdict = self.engine.step(&mut self.sandbox, input, self.now, &mut out);
        if verdict.is_err() {
            assert!(out.events.is_empty(), "a rejected input emitted events: {:?}", out.events);
            assert_eq!(*self.engine.state(), before, "a rejected input changed the state");
        }
        self.journal.extend(out.events);
        self.commands = out.commands;
        self.products.extend(out.products);
        let replayed = Engine::replay(self.program.clone(), EngineState::default(), &self.journal).unwrap();
        assert_eq!(replayed.state(), self.engine.state(), "the replayed journal results in another state");
        verdict
    }

    /// Replaces the engine by one from the journal, as after a crash of the coordinator.
    pub fn crash(&mut self) {
        self.engine = Engine::replay(self.program.clone(), EngineState::default(), &self.journal).unwrap();
        self.engine.set_capacity(self.capacity);
        self.engine.set_max_delegations(self.delegations);
        self.step(Input::Continued).unwrap();
    }

    pub fn capacity(&mut self, capacity: u64) {
        self.capacity = capacity;
        self.engine.set_capacity(capacity);
        self.step(Input::Continued).unwrap();
    }

    /// Lets time pass, from one deadline to the next.
    pub fn advance(&mut self, millis: u64) {
        let end = Time(self.now.0 + millis);
        while let Some(next) = self.engine.next_deadline().filter(|next| *next <= end) {
            self.now = self.now.max(next);
            self.step(Input::TimePassed).unwrap();
        }
        self.now = end;
    }

    pub fn id(&self, path: &str) -> ElementId {
        let found = self.engine.find(&full(path)).unwrap_or_else(|problem| panic!("{path}: {problem}"));
        found.unwrap_or_else(|| panic!("{path} is not alive; running: {:?}", self.running()))
    }

    pub fn view(&self, path: &str) -> View {
        self.engine.view(self.id(path)).unwrap()
    }

    pub fn attempt(&self, path: &str) -> (ElementId, u32) {
        (self.id(path), self.view(path).attempts)
    }

    /// The paths of all outstanding attempts, sorted.
    pub fn running(&self) -> Vec<String> {
        let mut running: Vec<String> =
            self.engine.outstanding().iter().filter_map(|command| self.sent(command)).collect();
        running.sort();
        running
    }

    fn sent(&self, command: &Command) -> Option<String> {
        match command {
            Command::Dispatch { element, .. } => Some(self.short(*element)),
            Command::Delegate(delegation) => Some(self.short(delegation.element)),
            _ => None,
        }
    }

    /// The path of an element without the id of the process.
    pub fn short(&self, id: ElementId) -> String {
        let path = self.engine.path(id);
        path.strip_prefix("P/").unwrap_or(&path).to_owned()
    }

    /// The paths of all outstanding attempts that the engine asked to stop, sorted.
    pub fn stopping(&self) -> Vec<String> {
        let asked = self.engine.outstanding().into_iter().filter_map(|command| match command {
            Command::Cancel { element, .. } => Some(self.short(element)),
            _ => None,
        });
        asked.collect::<BTreeSet<_>>().into_iter().collect()
    }

    pub fn answer(&mut self, path: &str, answer: Answer) {
        let (element, attempt) = self.attempt(path);
        self.step(Input::Answered { element, attempt, answer }).unwrap_or_else(|problem| panic!("{path}: {problem}"));
    }

    /// Answers that the attempt completed without results.
    pub fn done(&mut self, path: &str) {
        self.answer(path, Answer::Completed(Vec::new()));
    }

    /// Answers that the attempt completed with one result.
    pub fn give(&mut self, path: &str, value: impl Into<Value>) {
        self.answer(path, Answer::Completed(vec![value.into()]));
    }

    pub fn fail(&mut self, path: &str) {
        self.answer(path, Answer::Failed(Box::new(Failure::new(FailureKind::Exit, "no luck"))));
    }

    /// Answers that the attempt stopped, as the engine asked.
    pub fn stopped(&mut self, path: &str) {
        assert!(
            self.stopping().iter().any(|other| other == path),
            "{path} was not asked to stop: {:?}",
            self.stopping()
        );
        self.answer(path, Answer::Cancelled);
    }

    pub fn try_steer(&mut self, path: &str, action: Action) -> Result<(), Rejection> {
        self.step(Input::Steered { path: full(path), action })
    }

    pub fn steer(&mut self, path: &str, action: Action) {
        self.try_steer(path, action).unwrap_or_else(|problem| panic!("{path}: {problem}"));
    }

    /// Steers, and returns the text of the rejection.
    pub fn refused(&mut self, path: &str, action: Action) -> String {
        self.try_steer(path, action).expect_err("the engine rejects the action").to_string()
    }

    pub fn cancel(&mut self, path: &str) {
        self.steer(path, Action::Cancel);
    }

    pub fn pause(&mut self, path: &str) {
        self.steer(path, Action::Pause);
    }

    pub fn resume(&mut self, path: &str) {
        self.steer(path, Action::Resume);
    }

    pub fn retry(&mut self, path: &str) {
        self.steer(path, Action::Retry);
    }

    /// Reopens the ended process.
    pub fn reopen(&mut self, path: &str) {
        self.step(Input::Reopened { path: full(path) }).unwrap_or_else(|problem| panic!("{path}: {problem}"));
    }

    /// Tries to reopen the process, and returns the text of the rejection.
    pub fn not_reopened(&mut self, path: &str) -> String {
        self.step(Input::Reopened { path: full(path) }).expect_err("the engine rejects it").to_string()
    }

    pub fn set(&mut self, path: &str, key: &str, value: &str) {
        self.steer(path, set(key, value));
    }

    /// Lets an attempt call a shared object.
    pub fn call(
        &mut self,
        path: &str,
        sequence: u64,
        object: SharedRef,
        method: Method,
        arguments: Vec<Value>,
    ) -> Result<Result<Value, String>, Rejection> {
        let (element, attempt) = self.attempt(path);
        let acknowledged = sequence.saturating_sub(1);
        let call = SharedCall { element, attempt, caller: 0, sequence, acknowledged, object, method, arguments };
        self.step(Input::Called(Box::new(call)))?;
        Ok(self.reply())
    }

    /// The answer to the call of the last step.
    pub fn reply(&self) -> Result<Value, String> {
        let reply = self.commands.iter().find_map(|command| match command {
            Command::Reply { result, .. } => Some(result.clone()),
            _ => None,
        });
        reply.expect("the step yields a reply")
    }

    /// The parameters of an outstanding attempt.
    pub fn parameters(&self, path: &str) -> Vec<Value> {
        let id = self.id(path);
        let found = self.engine.outstanding().into_iter().find_map(|command| match command {
            Command::Dispatch { element, parameters, .. } if element == id => Some(parameters),
            _ => None,
        });
        found.expect("an attempt is outstanding")
    }

    pub fn delegation(&self, path: &str) -> Delegation {
        let id = self.id(path);
        let found = self.engine.outstanding().into_iter().find_map(|command| match command {
            Command::Delegate(delegation) if delegation.element == id => Some(*delegation),
            _ => None,
        });
        found.expect("the element is delegated")
    }

    pub fn outcome(&self) -> Outcome {
        let Some((outcome, _)) = self.engine.state().ended() else {
            panic!("the process has not ended; running: {:?}", self.running())
        };
        assert_eq!(self.engine.state().live(), 0, "elements are left");
        let objects = self.engine.state().shared_objects();
        assert!(objects == 0 || self.engine.state().is_reopenable(), "shared objects are left");
        outcome.clone()
    }

    pub fn has_ended(&self) -> bool {
        self.engine.state().ended().is_some()
    }

    /// The result of a process that completed, as JSON.
    pub fn result(&self) -> String {
        self.results("result")
    }

    pub fn results(&self, name: &str) -> String {
        assert_eq!(self.outcome(), Outcome::Completed);
        self.engine.state().ended().unwrap().1[name].to_json().to_string()
    }

    /// The failure of a process that failed.
    pub fn failure(&self) -> Failure {
        match self.outcome() {
            Outcome::Failed(failure) => *failure,
            other => panic!("the process did not fail: {other:?}"),
        }
    }

    pub fn completed(&self) {
        assert_eq!(self.outcome(), Outcome::Completed);
    }

    pub fn cancelled(&self) {
        assert_eq!(self.outcome(), Outcome::Cancelled);
    }

    /// The number of journaled events that `wanted` selects.
    pub fn count(&self, wanted: impl Fn(&Event) -> bool) -> usize {
        self.journal.iter().filter(|event| wanted(event)).count()
    }
}

pub fn set(key: &str, value: &str) -> Action {
    Action::Set { key: key.into(), value: value.into() }
}

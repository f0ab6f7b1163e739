//! A process with any answers, calls and steering. Its journal gives its state at every moment.

use std::cell::RefCell;
use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use xavantes_engine::{Action, Engine, Start, StepOutput, Time};
use xavantes_model::definition::Program;
use xavantes_model::diagnostic::Source;
use xavantes_model::load::load;
use xavantes_model::script::{Sandbox, ScriptLimits};
use xavantes_model::value::Value;
use xavantes_process_coordinator::process::driver::Driver;
use xavantes_process_coordinator::process::driver_input::{ProcessInput, Steering};
use xavantes_process_coordinator::process::effect::{JournalWrite, ProcessEffect};
use xavantes_process_coordinator::process::journal::{Head, restore};
use xavantes_process_coordinator::workers::worker_messages::Share;
use xavantes_proto::v1::answer::Outcome;
use xavantes_proto::{AttemptKey, Message, v1};

use crate::input::Input;

/// The document of all processes.
pub const DOCUMENT: &str = include_str!("process.xml");
const SHARE: Share = Share { room: 4, delegations: 2, auto_delegations: 2 };

static PROGRAM: LazyLock<Arc<Program>> = LazyLock::new(|| {
    let loaded = load(&[Source::new("process.xml", DOCUMENT)]);
    Arc::new(loaded.unwrap_or_else(|problems| panic!("{problems:?}")))
});

thread_local! {
    static SANDBOX: RefCell<Sandbox> = RefCell::new(Sandbox::new(ScriptLimits::CONTROL, false).expect("a sandbox"));
}

/// The program of all processes.
pub fn program() -> &'static Arc<Program> {
    &PROGRAM
}

/// A process, its journal, and the attempts that it handed out.
pub(crate) struct Run {
    pub(crate) driver: Driver<u8, u8>,
    pub(crate) head: Head,
    pub(crate) snapshot: Option<Bytes>,
    pub(crate) records: Vec<Bytes>,
    attempts: Vec<AttemptKey>,
    now: u64,
}

impl Run {
    /// Starts the process type with this number.
    pub fn start(number: usize) -> Self {
        let process = number % PROGRAM.processes.len();
        let name = &PROGRAM.processes[process].name;
        let entry = PROGRAM.entry(Some(name)).expect("a process type");
        let start = Start::new("f", entry, vec![("n".into(), Value::Int(3))]);
        let root = start.root;
        let mut output = StepOutput::default();
        let engine = Engine::start(PROGRAM.clone(), start, Time(0), &mut output).expect("valid parameters");
        let mut driver = Driver::new("f".into(), engine, root, Arc::default(), output);
        driver.set_share(SHARE, u64::MAX);
        driver.set_compaction_threshold(600);
        let head = Head {
            program: String::new(),
            process_type: name.to_string(),
            root: (root.process as u32, root.node.0),
            submitted_ms: 0,
            request: String::new(),
            parent: None,
            no_reuse: false,
            relays: Vec::new(),
            first: driver.first_record().into(),
        };
        let mut run = Self { driver, head, snapshot: None, records: Vec::new(), attempts: Vec::new(), now: 0 };
        run.handle(ProcessInput::Continued);
        run
    }

    fn handle(&mut self, input: ProcessInput<u8, u8>) {
        SANDBOX.with_borrow_mut(|sandbox| self.driver.handle(sandbox, input, Time(self.now)));
        for _ in 0..8 {
            if !self.driver.has_more_to_do() {
                break;
            }
            SANDBOX.with_borrow_mut(|sandbox| self.driver.handle(sandbox, ProcessInput::Continued, Time(self.now)));
        }
        while let Some(batch) = self.driver.next_batch() {
            match batch.journal {
                Some(JournalWrite::Append(record)) => self.records.push(record),
                Some(JournalWrite::Compact(snapshot)) => {
                    self.snapshot = Some(snapshot);
                    self.records.clear();
                }
                None => {}
            }
            for effect in batch.effects {
                if let ProcessEffect::Dispatch(task) | ProcessEffect::Delegate(task) = effect {
                    self.attempts.push(task.key);
                }
            }
        }
    }

    /// The process takes the next input.
    pub fn step(&mut self, input: &mut Input<'_>) {
        self.now += input.number().min(100_000);
        let last = self.attempts.len().saturating_sub(1 + usize::from(input.below(4)));
        let known = self.attempts.get(last).cloned().unwrap_or_else(|| input.key());
        let key = if input.below(8) == 0 { AttemptKey::new("f", input.number(), input.byte().into()) } else { known };
        match input.below(8) {
            0..3 => {
                let outcome = match input.below(6) {
                    0 => Outcome::Failed(v1::Failure::decode(input.bytes()).unwrap_or_default()),
                    1 => Outcome::Cancelled(v1::Nothing {}),
                    2 => Outcome::Refused(v1::Refusal::default()),
                    3 => Outcome::Completed(v1::Completed::decode(input.bytes()).unwrap_or_default()),
                    _ => {
                        let value = v1::Value { kind: Some(v1::value::Kind::Int(input.number() as i64)) };
                        Outcome::Completed(v1::Completed { results: vec![value] })
                    }
                };
                self.handle(ProcessInput::Answered { key, outcome, extras: None, from: Some(0) });
            }
            3 => self.handle(ProcessInput::Lost(key)),
            4 => {
                let mut call = v1::SharedCall::decode(input.bytes()).unwrap_or_default();
                call.id = Some(key.to_wire());
                self.handle(ProcessInput::Called(call, 0));
            }
            5 => {
                let paths = ["f", "f/all", "f/all/[1]", "f/all/[1]/work", "f/step", "f/step/work", "f/none"];
                let path = paths[usize::from(input.below(7))].to_owned();
                let text = String::from_utf8_lossy(input.bytes()).into_owned();
                let values = ["0", "1", "5", "-1", "9223372036854775807", "x", "completed > 1", "1 +"];
                let action = match input.below(6) {
                    0 => Action::Cancel,
                    1 => Action::Pause,
                    2 => Action::Resume,
                    3 => Action::Retry,
                    _ => Action::Set {
                        key: ["TO", "MAX_PARALLEL", "JOIN", "EXIT_CONDITION", "number"][usize::from(input.below(5))]
                            .into(),
                        value: if text.is_empty() { values[usize::from(input.below(8))].into() } else { text },
                    },
                };
                let elsewhere = input.below(5) == 0;
                let steering = if elsewhere { Steering::RetryElsewhere } else { Steering::Engine(action) };
                self.handle(ProcessInput::Steered { path, steering, by: String::new(), asker: 0 });
            }
            6 => self.handle(ProcessInput::TimePassed),
            _ => self.handle(ProcessInput::ParentPaused(input.below(2) == 0)),
        }
    }
}

/// Checks a sequence of inputs.
pub fn check(bytes: &[u8]) {
    let input = &mut Input(bytes);
    let mut run = Run::start(input.byte().into());
    while input.has_more() {
        run.step(input);
        let restored = restore(program(), &run.head, run.snapshot.as_deref(), &run.records).expect("its own journal");
        assert!(restored.state == *run.driver.engine().state(), "the journal gives another state");
    }
}

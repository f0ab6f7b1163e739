//! Cached results and the driver of a process: it searches the cache before it dispatches an activity, and counts reuses.

use std::sync::Arc;

use bytes::Bytes;
use xavantes_engine::{Action, Engine, Start, StepOutput, Time};
use xavantes_model::definition::Program;
use xavantes_model::diagnostic::Source;
use xavantes_model::load::load;
use xavantes_model::script::{Sandbox, ScriptLimits};
use xavantes_model::value::Value;
use xavantes_process_coordinator::cache::cache_entry::{
    CacheHit, CacheLookup, CacheWrite, EarlierActivity, MissReason, StoredResults,
};
use xavantes_process_coordinator::process::driver::Driver;
use xavantes_process_coordinator::process::driver_input::{ProcessInput, Steering};
use xavantes_process_coordinator::process::effect::{JournalWrite, ProcessEffect};
use xavantes_process_coordinator::process::journal::{self, Head, Snapshot};
use xavantes_process_coordinator::workers::worker_messages::Share;
use xavantes_proto::AttemptKey;
use xavantes_proto::{v1, value};

const TEXT: &str = r#"<XAVANTES VERSION="1">
  <PROCESS_TYPE NAME="Main"><OUT_PARAMETER TYPE="int" NAME="sum"/><BODY>
    <ACTIVITY TYPE="Square" NAME="one" n="2" RETRIES="1"/><ACTIVITY TYPE="Plain" NAME="two"/>
    <POST_CODE>sum = one.square</POST_CODE>
  </BODY></PROCESS_TYPE>
  <ACTIVITY_TYPE NAME="Square" CACHE="true"><IN_PARAMETER TYPE="int" NAME="n"/><OUT_PARAMETER TYPE="int" NAME="square"/>
    <CODE LANGUAGE="lua">square = n * n</CODE></ACTIVITY_TYPE>
  <ACTIVITY_TYPE NAME="Plain"><CODE LANGUAGE="lua"/></ACTIVITY_TYPE>
</XAVANTES>"#;

/// A process whose environment the test plays.
struct Run {
    driver: Driver<(), ()>,
    sandbox: Sandbox,
    program: Arc<Program>,
    head: Head,
    records: Vec<Bytes>,
    cache_writes: Vec<CacheWrite>,
    effects: Vec<ProcessEffect<(), ()>>,
}

impl Run {
    fn new(refuse: bool) -> Self {
        Self::of(TEXT, 10, refuse)
    }

    fn of(text: &str, room: u64, refuse: bool) -> Self {
        let program = Arc::new(load(&[Source::new("a.xml", text)]).unwrap_or_else(|problems| panic!("{problems:?}")));
        let wire = Arc::new(v1::Program { digest: "d".into(), documents: Vec::new() });
        let (start, mut output) = (Start::new("P", 0, Vec::new()), StepOutput::default());
        let root = start.root;
        let engine = Engine::start(program.clone(), start, Time(0), &mut output).expect("it starts");
        let mut driver = Driver::new("P".into(), engine, root, wire, output);
        driver.set_share(Share { room, ..Share::default() }, u64::MAX);
        if refuse {
            driver.disable_reuse();
        }
        let head = Head {
            program: "d".into(),
            process_type: "Main".into(),
            root: (0, 0),
            submitted_ms: 0,
            request: String::new(),
            parent: None,
            no_reuse: refuse,
            relays: Vec::new(),
            first: driver.first_record().into(),
        };
        let sandbox = Sandbox::new(ScriptLimits::CONTROL, false).expect("there is memory");
        let (records, cache_writes, effects) = (Vec::new(), Vec::new(), Vec::new());
        let mut run = Self { driver, sandbox, program, head, records, cache_writes, effects };
        run.handle(ProcessInput::Continued);
        run
    }

    fn handle(&mut self, input: ProcessInput<(), ()>) {
        self.driver.handle(&mut self.sandbox, input, Time(0));
        while self.driver.has_more_to_do() {
            self.driver.handle(&mut self.sandbox, ProcessInput::Continued, Time(0));
        }
        (self.cache_writes, self.effects) = (Vec::new(), Vec::new());
        while let Some(batch) = self.driver.next_batch() {
            if let Some(JournalWrite::Append(record)) = batch.journal {
                self.records.push(record);
            }
            self.cache_writes.extend(batch.cache);
            self.effects.extend(batch.effects);
        }
    }

    /// The cache search that began last.
    fn search(&self) -> Option<(AttemptKey, CacheLookup)> {
        self.effects.iter().find_map(|effect| match effect {
            ProcessEffect::SearchCache(key, lookup) => Some((key.clone(), (**lookup).clone())),
            _ => None,
        })
    }

    /// The attempt that was dispatched last.
    fn dispatched(&self) -> Option<AttemptKey> {
        self.effects.iter().find_map(|effect| match effect {
            ProcessEffect::Dispatch(task) => Some(task.key.clone()),
            _ => None,
        })
    }

    fn answer(&mut self, key: AttemptKey, outcome: v1::answer::Outcome) {
        self.handle(ProcessInput::Answered { key, outcome, extras: None, from: Some(()) });
    }

    /// The process, restored from its journal.
    fn restored(&self) -> Snapshot {
        let restored =
            journal::restore(&self.program, &self.head, None, &self.records).expect("the journal is readable");
        assert_eq!(restored.state, *self.driver.engine().state());
        restored
    }
}

fn completed(number: i64) -> v1::Completed {
    v1::Completed { results: vec![value(&Value::Int(number))] }
}

fn earlier() -> EarlierActivity {
    EarlierActivity { path: "Q/one".into(), at_ms: 7 }
}

#[test]
fn an_activity_without_cached_results_runs_and_is_cached() {
    let mut run = Run::new(false);
    let (key, lookup) = run.search().expect("the driver searches the cache");
    assert_eq!((run.dispatched(), lookup.path.as_str(), &*lookup.type_name), (None, "P/one", "Square"));
    run.handle(ProcessInput::CacheSearched(key.clone(), Err(MissReason::First)));
    assert_eq!(run.dispatched(), Some(key.clone()));
    assert!(
        matches!(&run.cache_writes[..], [CacheWrite::Decision(decision)] if decision.outcome == Err(MissReason::First))
    );
    run.handle(ProcessInput::CacheSearched(
        key.clone(),
        Ok(Box::new(CacheHit { earlier: earlier(), completed: completed(5) })),
    ));
    assert!(run.effects.is_empty() && run.cache_writes.is_empty(), "the search has ended");
    run.answer(key, v1::answer::Outcome::Completed(completed(4)));
    let [CacheWrite::Result { key, entry, results: Some(_) }] = &run.cache_writes[..] else {
        panic!("{:?}", run.cache_writes)
    };
    assert!(
        *key == lookup.key && matches!(entry.stored, StoredResults::Present(_)),
        "the result is cached with the record"
    );
    // The type of the next activity does not ask for reuse.
    let next = run.dispatched().expect("the activity is dispatched at once");
    run.answer(next, v1::answer::Outcome::Completed(v1::Completed::default()));
    assert!(run.cache_writes.is_empty());
    assert_eq!(run.driver.counts(), v1::Counts { completed: 2, attempts: 2, ..v1::Counts::default() });
    assert_eq!(run.restored().notes.reused, 0);
}

#[test]
fn cached_results_answer_an_activity() {
    let mut run = Run::new(false);
    let (key, _) = run.search().expect("the driver searches the cache");
    let found = CacheHit { earlier: earlier(), completed: completed(4) };
    run.handle(ProcessInput::CacheSearched(key, Ok(Box::new(found))));
    let [CacheWrite::Used(_), CacheWrite::Decision(decision)] = &run.cache_writes[..] else {
        panic!("{:?}", run.cache_writes)
    };
    assert_eq!(decision.outcome, Ok(earlier()));
    let counts = run.driver.counts();
    assert_eq!(
        (counts.completed, counts.reused, counts.attempts),
        (1, 1, 1),
        "the next activity is outstanding: {counts:?}"
    );
    assert_eq!(run.restored().notes.reused, 1);
    let next = run.dispatched().expect("the process continues");
    run.answer(next, v1::answer::Outcome::Completed(v1::Completed::default()));
    assert_eq!(run.driver.engine().state().ended().expect("it ended").1["sum"], Value::Int(4));
}

#[test]
fn a_failure_is_cached_and_the_activity_is_retried() {
    let mut run = Run::new(false);
    let (key, _) = run.search().expect("the driver searches the cache");
    run.handle(ProcessInput::CacheSearched(key.clone(), Err(MissReason::First)));
    let failure = v1::Failure { message: "no luck".into(), ..v1::Failure::default() };
    run.answer(key, v1::answer::Outcome::Failed(failure));
    assert!(
        matches!(&run.cache_writes[..], [CacheWrite::Result { entry, results: None, .. }] if entry.stored == StoredResults::Failed)
    );
    let (again, _) = run.search().expect("the retry searches the cache");
    assert_eq!(again.attempt, 2);
    let own = EarlierActivity { path: "P/one".into(), at_ms: 9 };
    run.handle(ProcessInput::CacheSearched(again.clone(), Err(MissReason::Failed(own))));
    assert_eq!((run.dispatched(), run.cache_writes.len()), (Some(again.clone()), 0), "the first decision stands");
    // The engine rejects a result of the wrong type, so it is not cached.
    let wrong = v1::Completed { results: vec![value(&Value::from("x"))] };
    run.answer(again, v1::answer::Outcome::Completed(wrong));
    assert!(run.cache_writes.is_empty());
    run.restored();
}

#[test]
fn an_activity_cancelled_during_its_lookup_ends_at_once() {
    let mut run = Run::new(false);
    let (key, _) = run.search().expect("the driver searches the cache");
    let steering = Steering::Engine(Action::Cancel);
    run.handle(ProcessInput::Steered { path: "P".into(), steering, by: String::new(), asker: () });
    assert!(run.driver.engine().state().ended().is_some());
    run.handle(ProcessInput::CacheSearched(
        key,
        Ok(Box::new(CacheHit { earlier: earlier(), completed: completed(4) })),
    ));
    assert!(run.effects.is_empty() && run.driver.counts().reused == 0);
    run.restored();
}

#[test]
fn without_reuse_every_activity_runs() {
    let mut run = Run::new(true);
    let key = run.dispatched().expect("the activity is dispatched at once");
    assert!(
        matches!(&run.cache_writes[..], [CacheWrite::Decision(decision)] if decision.outcome == Err(MissReason::Disabled))
    );
    run.answer(key, v1::answer::Outcome::Completed(completed(4)));
    assert!(
        matches!(&run.cache_writes[..], [CacheWrite::Result { results: Some(_), .. }]),
        "the result is cached for others"
    );
}

#[test]
fn lookups_take_no_capacity() {
    let all = r#"<PARFOR NAME="all" TO="1000"><ITERATE><ACTIVITY TYPE="Square" NAME="one" n="${counter}"/></ITERATE></PARFOR>"#;
    let (begin, end) = (TEXT.find("<ACTIVITY ").expect("it has one"), TEXT.find("</BODY>").expect("it has one"));
    let text = format!("{}{all}<POST_CODE>sum = 0</POST_CODE>{}", &TEXT[..begin], &TEXT[end..]);
    let mut run = Run::of(&text, 1, false);
    let keys: Vec<AttemptKey> = run
        .effects
        .iter()
        .filter_map(|it| match it {
            ProcessEffect::SearchCache(key, _) => Some(key.clone()),
            _ => None,
        })
        .collect();
    assert!((100..=201).contains(&keys.len()), "many at once, but not all: {}", keys.len());
    // Running activities take capacity, so no other begins until one ends.
    for key in &keys {
        run.handle(ProcessInput::CacheSearched(key.clone(), Err(MissReason::First)));
        assert_eq!(run.search().map(|(key, _)| key), None);
    }
    for key in &keys[..keys.len() - 1] {
        run.answer(key.clone(), v1::answer::Outcome::Completed(completed(4)));
        assert_eq!(run.search().map(|(key, _)| key), None);
    }
    run.answer(keys[keys.len() - 1].clone(), v1::answer::Outcome::Completed(completed(4)));
    assert!(run.search().is_some());
    run.restored();
}

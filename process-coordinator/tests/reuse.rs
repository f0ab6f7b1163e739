//! Kept results and the driver of a process: looked for before an activity is handed out, taken as its answer, counted.

use std::sync::Arc;

use bytes::Bytes;
use xavantes_engine::{Action, Engine, Output, Start, Time};
use xavantes_model::definition::Program;
use xavantes_model::diagnostic::Source;
use xavantes_model::load::load;
use xavantes_model::script::{Limits, Sandbox};
use xavantes_model::value::Value;
use xavantes_process_coordinator::attempt::AttemptKey;
use xavantes_process_coordinator::cache::decide::{Earlier, Found, Held, Keep, Sought, Why};
use xavantes_process_coordinator::process::driver::{Driver, Effect, Entry, Incoming, Wanted};
use xavantes_process_coordinator::process::journal::{self, Head, Kept};
use xavantes_process_coordinator::workers::messages::Share;
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

/// A process, with the world played by a test.
struct Run {
    driver: Driver<(), ()>,
    sandbox: Sandbox,
    program: Arc<Program>,
    head: Head,
    records: Vec<Bytes>,
    keeps: Vec<Keep>,
    effects: Vec<Effect<(), ()>>,
}

impl Run {
    fn new(refuse: bool) -> Self {
        Self::of(TEXT, 10, refuse)
    }

    fn of(text: &str, room: u64, refuse: bool) -> Self {
        let program = Arc::new(load(&[Source::new("a.xml", text)]).unwrap_or_else(|problems| panic!("{problems:?}")));
        let wire = Arc::new(v1::Program { digest: "d".into(), documents: Vec::new() });
        let (start, mut output) = (Start::new("P", 0, Vec::new()), Output::default());
        let root = start.root;
        let engine = Engine::start(program.clone(), start, Time(0), &mut output).expect("it starts");
        let mut driver = Driver::new("P".into(), engine, root, wire, output);
        driver.set_share(Share { room, ..Share::default() }, u64::MAX);
        if refuse {
            driver.refuse_reuse();
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
            first: driver.first().into(),
        };
        let sandbox = Sandbox::new(Limits::CONTROL, false).expect("there is memory");
        let (records, keeps, effects) = (Vec::new(), Vec::new(), Vec::new());
        let mut run = Self { driver, sandbox, program, head, records, keeps, effects };
        run.take(Incoming::Continued);
        run
    }

    fn take(&mut self, incoming: Incoming<(), ()>) {
        self.driver.take(&mut self.sandbox, incoming, Time(0));
        while self.driver.wants_to_go_on() {
            self.driver.take(&mut self.sandbox, Incoming::Continued, Time(0));
        }
        (self.keeps, self.effects) = (Vec::new(), Vec::new());
        while let Some(batch) = self.driver.record() {
            if let Some(Entry::Append(record)) = batch.entry {
                self.records.push(record);
            }
            self.keeps.extend(batch.keeps);
            self.effects.extend(batch.effects);
        }
    }

    /// What is being looked for.
    fn looks(&self) -> Option<(AttemptKey, Sought)> {
        self.effects.iter().find_map(|effect| match effect {
            Effect::Look(key, sought) => Some((key.clone(), (**sought).clone())),
            _ => None,
        })
    }

    /// What is handed out.
    fn dispatched(&self) -> Option<AttemptKey> {
        self.effects.iter().find_map(|effect| match effect {
            Effect::Dispatch(task) => Some(task.key.clone()),
            _ => None,
        })
    }

    fn answer(&mut self, key: AttemptKey, outcome: v1::answer::Outcome) {
        self.take(Incoming::Answered { key, outcome, besides: None, from: Some(()) });
    }

    /// The process as its journal tells it.
    fn restored(&self) -> Kept {
        let kept = journal::restore(&self.program, &self.head, None, &self.records).expect("it can be read");
        assert_eq!(kept.state, *self.driver.engine().state());
        kept
    }
}

fn completed(number: i64) -> v1::Completed {
    v1::Completed { results: vec![value(&Value::Int(number))] }
}

fn earlier() -> Earlier {
    Earlier { path: "Q/one".into(), at_ms: 7 }
}

#[test]
fn what_is_not_found_is_run_and_kept() {
    let mut run = Run::new(false);
    let (key, sought) = run.looks().expect("it is looked for");
    assert_eq!((run.dispatched(), sought.path.as_str(), &*sought.type_name), (None, "P/one", "Square"));
    run.take(Incoming::Sought(key.clone(), Err(Why::First)));
    assert_eq!(run.dispatched(), Some(key.clone()));
    assert!(matches!(&run.keeps[..], [Keep::Verdict(verdict)] if verdict.outcome == Err(Why::First)));
    run.take(Incoming::Sought(key.clone(), Ok(Box::new(Found { earlier: earlier(), completed: completed(5) }))));
    assert!(run.effects.is_empty() && run.keeps.is_empty(), "it is not looked for any more");
    run.answer(key, v1::answer::Outcome::Completed(completed(4)));
    let [Keep::Result { key, card, results: Some(_) }] = &run.keeps[..] else { panic!("{:?}", run.keeps) };
    assert!(*key == sought.key && matches!(card.held, Held::Kept(_)), "it is kept with the record");
    // The next one does not ask for it.
    let next = run.dispatched().expect("it is handed out at once");
    run.answer(next, v1::answer::Outcome::Completed(v1::Completed::default()));
    assert!(run.keeps.is_empty());
    assert_eq!(run.driver.counts(), v1::Counts { completed: 2, attempts: 2, ..v1::Counts::default() });
    assert_eq!(run.restored().reused, 0);
}

#[test]
fn what_is_found_is_the_answer() {
    let mut run = Run::new(false);
    let (key, _) = run.looks().expect("it is looked for");
    let found = Found { earlier: earlier(), completed: completed(4) };
    run.take(Incoming::Sought(key, Ok(Box::new(found))));
    let [Keep::Used(_), Keep::Verdict(verdict)] = &run.keeps[..] else { panic!("{:?}", run.keeps) };
    assert_eq!(verdict.outcome, Ok(earlier()));
    let counts = run.driver.counts();
    assert_eq!((counts.completed, counts.reused, counts.attempts), (1, 1, 1), "the next one is out: {counts:?}");
    assert_eq!(run.restored().reused, 1);
    let next = run.dispatched().expect("it goes on");
    run.answer(next, v1::answer::Outcome::Completed(v1::Completed::default()));
    assert_eq!(run.driver.engine().state().ended().expect("it ended").1["sum"], Value::Int(4));
}

#[test]
fn what_fails_is_remembered_and_tried_again() {
    let mut run = Run::new(false);
    let (key, _) = run.looks().expect("it is looked for");
    run.take(Incoming::Sought(key.clone(), Err(Why::First)));
    let failure = v1::Failure { message: "no luck".into(), ..v1::Failure::default() };
    run.answer(key, v1::answer::Outcome::Failed(failure));
    assert!(matches!(&run.keeps[..], [Keep::Result { card, results: None, .. }] if card.held == Held::Failed));
    let (again, _) = run.looks().expect("it is looked for once more");
    assert_eq!(again.attempt, 2);
    let own = Earlier { path: "P/one".into(), at_ms: 9 };
    run.take(Incoming::Sought(again.clone(), Err(Why::Failed(own))));
    assert_eq!((run.dispatched(), run.keeps.len()), (Some(again.clone()), 0), "what was decided first counts");
    // A result of the wrong type is no success, whatever the worker says.
    let wrong = v1::Completed { results: vec![value(&Value::from("x"))] };
    run.answer(again, v1::answer::Outcome::Completed(wrong));
    assert!(run.keeps.is_empty());
    run.restored();
}

#[test]
fn what_is_cancelled_while_it_is_looked_for_ends_at_once() {
    let mut run = Run::new(false);
    let (key, _) = run.looks().expect("it is looked for");
    let action = Wanted::Action(Action::Cancel);
    run.take(Incoming::Steered { path: "P".into(), action, verdict: () });
    assert!(run.driver.engine().state().ended().is_some());
    run.take(Incoming::Sought(key, Ok(Box::new(Found { earlier: earlier(), completed: completed(4) }))));
    assert!(run.effects.is_empty() && run.driver.counts().reused == 0);
    run.restored();
}

#[test]
fn who_does_not_want_it_has_it_run() {
    let mut run = Run::new(true);
    let key = run.dispatched().expect("it is handed out at once");
    assert!(matches!(&run.keeps[..], [Keep::Verdict(verdict)] if verdict.outcome == Err(Why::NotWanted)));
    run.answer(key, v1::answer::Outcome::Completed(completed(4)));
    assert!(matches!(&run.keeps[..], [Keep::Result { results: Some(_), .. }]), "it is kept for others");
}

#[test]
fn what_is_looked_for_takes_no_room() {
    let all = r#"<PARFOR NAME="all" TO="1000"><ITERATE><ACTIVITY TYPE="Square" NAME="one" n="${counter}"/></ITERATE></PARFOR>"#;
    let (begin, end) = (TEXT.find("<ACTIVITY ").expect("it has one"), TEXT.find("</BODY>").expect("it has one"));
    let text = format!("{}{all}<POST_CODE>sum = 0</POST_CODE>{}", &TEXT[..begin], &TEXT[end..]);
    let mut run = Run::of(&text, 1, false);
    let keys: Vec<AttemptKey> = run
        .effects
        .iter()
        .filter_map(|it| match it {
            Effect::Look(key, _) => Some(key.clone()),
            _ => None,
        })
        .collect();
    assert!((100..=201).contains(&keys.len()), "many at once, but not all: {}", keys.len());
    // What runs takes room, so nothing more begins until something ends.
    for key in &keys {
        run.take(Incoming::Sought(key.clone(), Err(Why::First)));
        assert_eq!(run.looks().map(|(key, _)| key), None);
    }
    for key in &keys[..keys.len() - 1] {
        run.answer(key.clone(), v1::answer::Outcome::Completed(completed(4)));
        assert_eq!(run.looks().map(|(key, _)| key), None);
    }
    run.answer(keys[keys.len() - 1].clone(), v1::answer::Outcome::Completed(completed(4)));
    assert!(run.looks().is_some());
    run.restored();
}

//! A process that another coordinator takes over: the answers that it took here and did not acknowledge.

use std::sync::Arc;

use xavantes_engine::{Engine, Start, StepOutput, Time};
use xavantes_model::diagnostic::Source;
use xavantes_model::load::load;
use xavantes_model::script::{Sandbox, ScriptLimits};
use xavantes_process_coordinator::process::driver::Driver;
use xavantes_process_coordinator::process::driver_input::ProcessInput;
use xavantes_process_coordinator::process::effect::ProcessEffect;
use xavantes_process_coordinator::workers::worker_messages::Share;
use xavantes_proto::{AttemptKey, v1};

const TEXT: &str = r#"<XAVANTES VERSION="1">
  <PROCESS_TYPE NAME="Main"><BODY><PAR NAME="both">
    <ACTIVITY TYPE="Plain" NAME="one"/><ACTIVITY TYPE="Plain" NAME="two"/></PAR></BODY></PROCESS_TYPE>
  <ACTIVITY_TYPE NAME="Plain"><CODE LANGUAGE="lua"/></ACTIVITY_TYPE>
</XAVANTES>"#;

type Input = ProcessInput<&'static str, ()>;

fn answered(key: &AttemptKey, from: &'static str) -> Input {
    let outcome = v1::answer::Outcome::Completed(v1::Completed::default());
    ProcessInput::Answered { key: key.clone(), outcome, extras: None, from: Some(from) }
}

#[test]
fn a_process_that_is_taken_over_names_the_answers_that_it_did_not_acknowledge() {
    let program = Arc::new(load(&[Source::new("a.xml", TEXT)]).unwrap_or_else(|problems| panic!("{problems:?}")));
    let (start, mut output) = (Start::new("P", 0, Vec::new()), StepOutput::default());
    let root = start.root;
    let engine = Engine::start(program, start, Time(0), &mut output).expect("it starts");
    let mut driver: Driver<&'static str, ()> = Driver::new("P".into(), engine, root, Arc::default(), output);
    driver.set_share(Share { room: 10, ..Share::default() }, u64::MAX);
    driver.first_record();
    let mut sandbox = Sandbox::new(ScriptLimits::CONTROL, false).expect("there is memory");
    driver.handle(&mut sandbox, ProcessInput::Continued, Time(0));
    let effects = driver.next_batch().expect("activities begin").effects;
    let keys = effects.into_iter().filter_map(|effect| match effect {
        ProcessEffect::Dispatch(task) => Some(task.key),
        _ => None,
    });
    let keys: Vec<AttemptKey> = keys.collect();
    let [one, two] = &keys[..] else { panic!("two activities begin: {keys:?}") };
    driver.handle(&mut sandbox, answered(one, "worker 1"), Time(0));
    let unconfirmed = driver.next_batch();
    driver.handle(&mut sandbox, answered(two, "worker 2"), Time(0));
    let expected = [("worker 1", one.clone()), ("worker 2", two.clone())];
    assert_eq!(driver.unacknowledged(unconfirmed), expected);
    assert_eq!(answered(one, "worker 3").into_unacknowledged(), Some(("worker 3", one.clone())));
    assert_eq!(Input::Lost(one.clone()).into_unacknowledged(), None);
}

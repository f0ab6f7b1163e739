//! Calls of shared objects that are repeated, or that a worker makes for others.

use xavantes_hostile::fake_worker::{Coordinator, FakeWorker, int};
use xavantes_proto::v1;
use xavantes_tests::{Grid, is_live, stays, until};

/// Activities that each add 1 to a counter and append a value to a list.
const COUNTING: &str = r#"<XAVANTES VERSION="1">
  <PROCESS_TYPE NAME="Counting">
    <IN_PARAMETER TYPE="int" NAME="times"/>
    <OUT_PARAMETER TYPE="RemoteCounter" NAME="count"/>
    <OUT_PARAMETER TYPE="RemoteList" NAME="log"/>
    <BODY>
      <PRE_CODE>count, log = RemoteCounter.new(), RemoteList.new()</PRE_CODE>
      <PARFOR NAME="all" TO="${times}">
        <ITERATE><ACTIVITY TYPE="Count" NAME="step" count="${count}" log="${log}"/></ITERATE>
      </PARFOR>
    </BODY>
  </PROCESS_TYPE>
  <ACTIVITY_TYPE NAME="Count">
    <IN_PARAMETER TYPE="RemoteCounter" NAME="count"/>
    <IN_PARAMETER TYPE="RemoteList" NAME="log"/>
    <CODE LANGUAGE="lua">
      count:add(1)
      log:append(7)
    </CODE>
  </ACTIVITY_TYPE>
</XAVANTES>"#;

/// The call of a method with one argument, of the shared object that is the parameter of a job at this position.
fn call(job: &v1::Job, sequence: u64, parameter: usize, method: &str, argument: i64) -> v1::SharedCall {
    let object = match &job.parameters[parameter].kind {
        Some(v1::value::Kind::Shared(object)) => object.clone(),
        other => panic!("no shared object: {other:?}"),
    };
    v1::SharedCall {
        id: job.id.clone(),
        sequence,
        acknowledged: sequence - 1,
        object: Some(object),
        method: method.into(),
        arguments: vec![int(argument)],
        ticket: sequence,
        caller: 0,
    }
}

/// Makes the calls that the code of the activity makes.
fn make_calls(coordinator: &Coordinator, job: &v1::Job) {
    let calls = vec![call(job, 1, 0, "add", 1), call(job, 2, 1, "append", 7)];
    coordinator.send(v1::WorkReport { calls, ..v1::WorkReport::default() });
}

#[test]
fn the_calls_of_lost_attempts_count_once() {
    let mut grid = Grid::new();
    let address = grid.group("a", &[], &["--worker-patience-seconds", "1"]);
    // It makes the calls of its activities, and then does nothing more until the coordinator takes them back.
    let dying = FakeWorker::join(&address, "a", "dying", 4, |coordinator, order| {
        order.jobs.iter().for_each(|job| make_calls(coordinator, job));
    });
    let file = grid.write("counting.xml", COUNTING);
    let process = grid.submit(&address, &file, &["times=12"]);
    dying.wait_for_jobs(4, 20);
    grid.worker("a/honest", &address, &["--slots", "2"]);
    let end = grid.end(&address, &process);
    assert_eq!(end["results"]["count"], 12, "{end}");
    assert_eq!(end["results"]["log"].as_array().map(Vec::len), Some(12), "{end}");
    assert!(!dying.cancels().is_empty(), "attempts were lost");
}

#[test]
fn the_calls_of_lost_attempts_count_once_also_after_kills() {
    let mut grid = Grid::new();
    let address = grid.group("a", &[], &["--worker-patience-seconds", "1"]);
    let dying = FakeWorker::join(&address, "a", "dying", 2, |coordinator, order| {
        order.jobs.iter().for_each(|job| make_calls(coordinator, job));
    });
    let file = grid.write("counting.xml", COUNTING);
    let process = grid.submit(&address, &file, &["times=6"]);
    dying.wait_for_jobs(2, 20);
    until("the coordinator gives up", 20, || (!dying.cancels().is_empty()).then_some(()));
    // What the lost attempts did is in the journal.
    grid.restart("a/main");
    grid.worker("a/honest", &address, &["--slots", "2"]);
    let end = grid.end(&address, &process);
    assert_eq!(end["results"]["count"], 6, "{end}");
    assert_eq!(end["results"]["log"].as_array().map(Vec::len), Some(6), "{end}");
}

#[test]
fn nobody_calls_for_another_worker() {
    let mut grid = Grid::new();
    let address = grid.group("a", &[], &[]);
    let holder = FakeWorker::join(&address, "a", "holder", 1, |_, _| {});
    let file = grid.write("counting.xml", COUNTING);
    let process = grid.submit(&address, &file, &["times=1"]);
    let job = holder.wait_for_jobs(1, 20).remove(0);
    let forger = FakeWorker::join(&address, "a", "forger", 1, |_, _| {});
    let forging = forger.wait_for_coordinator(20);
    let forged = vec![call(&job, 1, 0, "add", 1000), call(&job, 2, 1, "append", 1000)];
    forging.send(v1::WorkReport { calls: forged, ..v1::WorkReport::default() });
    stays("the process waits", 500, || is_live(&grid.status(&address, &process)));
    let coordinator = holder.wait_for_coordinator(20);
    make_calls(&coordinator, &job);
    coordinator.answer(xavantes_hostile::fake_worker::completed(job.id.unwrap_or_default(), vec![]));
    let end = grid.end(&address, &process);
    assert_eq!((&end["results"]["count"], &end["results"]["log"]), (&1.into(), &vec![7].into()), "{end}");
}

//! Workers whose connection ends while the coordinator hands their answers on.

use std::time::Duration;

use xavantes_hostile::fake_worker::{ConnectedCoordinator, FakeWorker, completed, int};
use xavantes_proto::v1;
use xavantes_tests::{Grid, until};

/// The process types `One`, with one activity that returns 1, and `Large`, with a variable of 20 MB and the same activity.
const TYPES: &str = r#"<XAVANTES VERSION="1">
  <ACTIVITY_TYPE NAME="Number"><OUT_PARAMETER TYPE="int" NAME="n"/><CODE LANGUAGE="lua">n = 1</CODE></ACTIVITY_TYPE>
  <PROCESS_TYPE NAME="One"><OUT_PARAMETER TYPE="int" NAME="sum"/>
    <BODY><ACTIVITY TYPE="Number" NAME="a"/><POST_CODE>sum = a.n</POST_CODE></BODY></PROCESS_TYPE>
  <PROCESS_TYPE NAME="Large"><BODY><BLOCK NAME="b"><INOUT_PARAMETER TYPE="string" NAME="s" DEFAULT=""/>
    <PRE_CODE>s = string.rep("x", 20000000)</PRE_CODE><ACTIVITY TYPE="Number" NAME="a"/></BLOCK></BODY></PROCESS_TYPE>
</XAVANTES>"#;
/// More than a process takes that does not read what it gets.
const MANY_REPORTS: u64 = 3000;
/// Enough for a coordinator to read what it can.
const READING_TIME: Duration = Duration::from_secs(2);

/// What a worker does that only stops what its coordinator cancels.
fn stop_cancelled(coordinator: &ConnectedCoordinator, order: v1::WorkOrder) {
    for id in order.cancels {
        let outcome = Some(v1::answer::Outcome::Cancelled(v1::Nothing {}));
        coordinator.answer(v1::Answer { id: Some(id), outcome, ..v1::Answer::default() });
    }
}

#[test]
fn an_answer_outlives_the_connection_that_brought_it() {
    let mut grid = Grid::new();
    let address = grid.group("a", &[], &["--processes-mib", "12", "--worker-patience-seconds", "600"]);
    let file = grid.write("types.xml", TYPES);
    let submit = |name: &str| {
        let submitted = grid.cli(&address, &["submit", &file, "--process", name]).ok().json();
        submitted["process"].as_str().expect("a process has an id").to_owned()
    };
    let holder = FakeWorker::join(&address, "a", "holder", 4, |_, _| {});
    holder.wait_for_coordinator(20);
    let one = submit("One");
    let attempt = holder.wait_for_jobs(1, 20).remove(0).id.expect("a job has an id");
    // The first large process takes all memory, so the second does not begin, and does not read what it gets.
    let large = submit("Large");
    holder.wait_for_jobs(2, 20);
    let waiting = submit("Large");
    until("the second large process waits", 30, || {
        (grid.status(&address, &waiting)["stall_reason"]["kind"] == "coordinator-full").then_some(())
    });
    let bogus = |element| v1::AttemptId { process: waiting.clone(), element, attempt: 1 };
    let filler = FakeWorker::join(&address, "a", "filler", 1, stop_cancelled);
    let filling = filler.wait_for_coordinator(20);
    (0..MANY_REPORTS).for_each(|number| filling.answer(completed(bogus(1000 + number), vec![])));
    std::thread::sleep(READING_TIME);

    // The connection waits for the process that does not read, and has an answer for another one.
    let answers = vec![completed(bogus(1), vec![]), completed(attempt.clone(), vec![int(1)])];
    holder.send(&v1::WorkReport { answers, ..v1::WorkReport::default() });
    std::thread::sleep(READING_TIME);
    // The worker comes back at another address, and repeats the answer.
    drop(holder);
    let hello = v1::WorkerHello {
        node: "holder".into(),
        version: env!("CARGO_PKG_VERSION").into(),
        slots: 4,
        answered: vec![attempt.clone()],
        ..v1::WorkerHello::default()
    };
    let moved = FakeWorker::join_with(&address, "a", hello, move |coordinator, order| {
        if order.jobs.is_empty() && order.cancels.is_empty() {
            coordinator.answer(completed(attempt.clone(), vec![int(1)]));
        }
        stop_cancelled(coordinator, order);
    });
    moved.wait_for_coordinator(60);
    grid.cli(&address, &["cancel", &large]).ok();
    until("the process has its answer", 60, || (grid.status(&address, &one)["state"] == "completed").then_some(()));
    assert_eq!(grid.end(&address, &one)["results"]["sum"], 1);
}

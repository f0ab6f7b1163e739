//! Workers that take work and stay silent, answer twice, or answer for others.

use std::io::Write;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value as Json;
use xavantes_hostile::fake_worker::{FakeWorker, completed, int};
use xavantes_proto::message_limits::{MAX_MEMORY_BYTES, MAX_QUEUE, MAX_SLOTS};
use xavantes_proto::v1;
use xavantes_tests::xml::{document, process_type, shell_type};
use xavantes_tests::{Grid, is_live, stays, until};

/// A process with `count` parallel activities that each return 1; `types` is the attributes of the activity type.
fn adding(count: usize, types: &str) -> String {
    format!(
        r#"<XAVANTES VERSION="1">
  <ACTIVITY_TYPE NAME="One" {types}>
    <OUT_PARAMETER TYPE="int" NAME="one"/>
    <CODE LANGUAGE="lua">one = 1</CODE>
  </ACTIVITY_TYPE>
  <PROCESS_TYPE NAME="Adding">
    <OUT_PARAMETER TYPE="int" NAME="sum"/>
    <BODY>
      <PARFOR NAME="all" TO="{count}" COLLECT="one.one">
        <ITERATE><ACTIVITY TYPE="One" NAME="one"/></ITERATE>
      </PARFOR>
      <POST_CODE>sum = 0 for _, number in all.results do sum += number end</POST_CODE>
    </BODY>
  </PROCESS_TYPE>
</XAVANTES>"#
    )
}

#[test]
fn an_answer_counts_once_however_often_a_worker_sends_it() {
    let mut grid = Grid::new();
    let address = grid.group("a", &[], &[]);
    let worker = FakeWorker::join(&address, "a", "twice", 4, |coordinator, order| {
        for id in order.jobs.into_iter().filter_map(|job| job.id) {
            coordinator.answer(completed(id.clone(), vec![int(1)]));
            coordinator.answer(completed(id, vec![int(1000)]));
        }
    });
    let file = grid.write("adding.xml", &adding(20, ""));
    let process = grid.submit(&address, &file, &[]);
    let end = grid.end(&address, &process);
    assert_eq!(end["results"]["sum"], 20, "{end}");
    assert_eq!(worker.jobs().len(), 20);
}

/// Flags of a coordinator that takes attempts back after a second without movement.
const IMPATIENT: [&str; 2] = ["--worker-patience-seconds", "1"];

/// The sum that the process type of [`adding`] returns.
fn sum(grid: &Grid, address: &str, process: &str) -> Json {
    let end = grid.end(address, process);
    assert_eq!(end["state"], "completed", "{end}");
    end["results"]["sum"].clone()
}

fn ids(jobs: Vec<v1::Job>) -> Vec<v1::AttemptId> {
    jobs.into_iter().filter_map(|job| job.id).collect()
}

#[test]
fn a_worker_that_only_beats_does_not_keep_its_attempts() {
    let mut grid = Grid::new();
    let address = grid.group("a", &[], &IMPATIENT);
    let silent = FakeWorker::join(&address, "a", "silent", 4, |_, _| {});
    let file = grid.write("adding.xml", &adding(40, ""));
    let process = grid.submit(&address, &file, &[]);
    silent.wait_for_jobs(4, 20);
    grid.worker("a/honest", &address, &["--slots", "2"]);
    assert_eq!(sum(&grid, &address, &process), 40);
    assert!(silent.recalls() > 0, "the attempts are recalled first");
    let (jobs, cancels) = (ids(silent.jobs()), silent.cancels());
    assert!(jobs.iter().all(|id| cancels.contains(id)), "nothing runs for nobody");
    assert!(jobs.len() <= 12, "the window of a silent worker closes: {}", jobs.len());
    assert!(grid.log("a/main").contains("neither runs nor answers"));
}

#[test]
fn late_answers_of_a_silent_worker_count_for_nothing() {
    let mut grid = Grid::new();
    let address = grid.group("a", &[], &IMPATIENT);
    let late = FakeWorker::join(&address, "a", "late", 2, |coordinator, order| {
        // It answers when the coordinator has given it up.
        for id in order.cancels {
            coordinator.answer(completed(id, vec![int(1000)]));
        }
    });
    let file = grid.write("adding.xml", &adding(8, ""));
    let process = grid.submit(&address, &file, &[]);
    late.wait_for_jobs(2, 20);
    until("the coordinator gives up", 20, || (!late.cancels().is_empty()).then_some(()));
    grid.worker("a/honest", &address, &["--slots", "2"]);
    assert_eq!(sum(&grid, &address, &process), 8);
}

#[test]
fn a_worker_that_says_it_runs_everything_keeps_no_more_than_its_slots_and_no_timeout() {
    let mut grid = Grid::new();
    let address = grid.group("a", &[], &IMPATIENT);
    let liar = FakeWorker::join(&address, "a", "liar", 2, |_, _| {});
    let file = grid.write("adding.xml", &adding(20, "TIMEOUT=\"1s\""));
    let process = grid.submit(&address, &file, &[]);
    let held = ids(liar.wait_for_jobs(4, 20));
    grid.worker("a/honest", &address, &["--slots", "2"]);
    let report = v1::WorkReport {
        running: Some(v1::Running { attempts: held, ..Default::default() }),
        ..v1::WorkReport::default()
    };
    let running = grid.spawn(&address, &["wait", &process]);
    until("the process ends in spite of the liar", 40, || {
        liar.send(&report);
        (grid.status(&address, &process)["state"] == "completed").then_some(())
    });
    drop(running);
    assert_eq!(sum(&grid, &address, &process), 20);
}

/// Lets a worker report for ever that it runs all its attempts, until `done`.
fn lie_until(liar: &FakeWorker, what: &str, mut done: impl FnMut() -> bool) {
    until(what, 40, || {
        let running = Some(v1::Running { attempts: ids(liar.jobs()), ..Default::default() });
        liar.send(&v1::WorkReport { running, ..v1::WorkReport::default() });
        done().then_some(())
    });
}

#[test]
fn users_see_where_an_activity_without_timeout_is_and_take_it_from_a_worker_that_lies() {
    let mut grid = Grid::new();
    let address = grid.group("a", &[], &["--worker-patience-seconds", "2"]);
    let liar = FakeWorker::join(&address, "a", "liar", 1, |_, _| {});
    let file = grid.write("adding.xml", &adding(1, ""));
    let process = grid.submit(&address, &file, &[]);
    liar.wait_for_jobs(1, 20);
    grid.worker("a/honest", &address, &["--slots", "1"]);
    let path = format!("{process}/all/[1]/one");
    let began = std::time::Instant::now();
    lie_until(&liar, "the liar keeps the attempt", || began.elapsed().as_secs() > 5);
    let shown = grid.cli(&address, &["explain", &path]).ok().json();
    assert_eq!((&shown["state"], &shown["worker"]), (&Json::from("running"), &Json::from("liar")), "{shown}");
    grid.cli(&address, &["retry", &path, "--elsewhere"]).ok();
    lie_until(&liar, "the process ends", || grid.status(&address, &process)["state"] == "completed");
    assert_eq!(sum(&grid, &address, &process), 1);
    assert_eq!(liar.jobs().len(), 1, "the next attempt goes elsewhere");
    // It hears so again if it still says that it runs the attempt after the end of the process.
    let mut cancels = liar.cancels();
    cancels.dedup();
    assert_eq!(cancels, ids(liar.jobs()), "the liar hears that nobody wants its answer");
}

#[test]
fn an_attempt_that_a_user_gives_up_before_it_starts_never_runs() {
    let mut grid = Grid::new();
    let address = grid.group("a", &[], &[]);
    let full = Arc::new(AtomicBool::new(true));
    let is_full = full.clone();
    let worker = FakeWorker::join(&address, "a", "full", 8, move |coordinator, order| {
        for id in ids(order.jobs) {
            let no_room = v1::Refusal::for_now(v1::refusal_reason::Kind::NoRoom(v1::Nothing {}));
            let refused = Some(v1::answer::Outcome::Refused(no_room));
            coordinator.answer(match is_full.load(Ordering::SeqCst) {
                true => v1::Answer { outcome: refused, id: Some(id), ..v1::Answer::default() },
                false => completed(id, vec![int(1)]),
            });
        }
    });
    worker.wait_for_coordinator(20);
    let file = grid.write("adding.xml", &adding(1, ""));
    let process = grid.submit(&address, &file, &[]);
    let path = format!("{process}/all/[1]/one");
    // The attempt waits most of the time, because its worker refuses it again and again.
    for attempt in 1..=3 {
        worker.wait_for_jobs(attempt, 20);
        grid.cli(&address, &["retry", &path, "--elsewhere"]).ok();
    }
    let numbers = || -> Vec<u32> { ids(worker.jobs()).iter().map(|id| id.attempt).collect() };
    let after_last = || numbers().into_iter().skip_while(|attempt| *attempt < 4).collect::<Vec<_>>();
    until("the last attempt has been sent some times", 60, || (after_last().len() >= 5).then_some(()));
    full.store(false, Ordering::SeqCst);
    assert_eq!(sum(&grid, &address, &process), 1);
    assert!(after_last().iter().all(|attempt| *attempt == 4), "{:?}", numbers());
}

#[test]
fn a_worker_that_says_it_runs_something_may_take_long() {
    let mut grid = Grid::new();
    let address = grid.group("a", &[1], &IMPATIENT);
    let nap = shell_type("Nap", &[], "sleep 4", &[]);
    let process = process_type("Naps", &[], "<ACTIVITY TYPE=\"Nap\" NAME=\"nap\"/>");
    let file = grid.write("nap.xml", &document(&[process, nap]));
    let process = grid.submit(&address, &file, &[]);
    assert_eq!(grid.end(&address, &process)["state"], "completed");
    assert!(!grid.log("a/main").contains("attempt lost"), "{}", grid.log("a/main"));
}

#[test]
fn nobody_answers_for_another_worker() {
    let mut grid = Grid::new();
    let address = grid.group("a", &[], &[]);
    let holder = FakeWorker::join(&address, "a", "holder", 4, |_, _| {});
    let coordinator = holder.wait_for_coordinator(20);
    let file = grid.write("adding.xml", &adding(4, ""));
    let process = grid.submit(&address, &file, &[]);
    let held = ids(holder.wait_for_jobs(4, 20));
    let forger = FakeWorker::join(&address, "a", "forger", 4, |_, _| {});
    let forging = forger.wait_for_coordinator(20);
    let forge = || held.iter().for_each(|id| forging.answer(completed(id.clone(), vec![int(1000)])));
    forge();
    stays("the process waits for the worker that has the attempts", 1000, || is_live(&grid.status(&address, &process)));
    held.iter().for_each(|id| coordinator.answer(completed(id.clone(), vec![int(1)])));
    forge();
    assert_eq!(sum(&grid, &address, &process), 4);
}

#[test]
fn a_worker_that_claims_many_slots_gets_little_until_it_works() {
    let mut grid = Grid::new();
    let address = grid.group("a", &[2], &IMPATIENT);
    let hello = v1::WorkerHello {
        node: "boaster".into(),
        slots: MAX_SLOTS,
        queue: MAX_QUEUE,
        memory: MAX_MEMORY_BYTES,
        grace_ms: u64::MAX,
        ..v1::WorkerHello::default()
    };
    let boaster = FakeWorker::join_with(&address, "a", hello, |_, _| {});
    boaster.wait_for_coordinator(20);
    let file = grid.write("adding.xml", &adding(3000, ""));
    let process = grid.submit(&address, &file, &[]);
    assert_eq!(sum(&grid, &address, &process), 3000);
    assert!(boaster.jobs().len() <= 70, "{}", boaster.jobs().len());
}

#[test]
fn a_cancelled_process_ends_although_a_worker_does_not_stop() {
    let mut grid = Grid::new();
    let address = grid.group("a", &[], &IMPATIENT);
    let deaf = FakeWorker::join(&address, "a", "deaf", 2, |_, _| {});
    let file = grid.write("adding.xml", &adding(2, ""));
    let process = grid.submit(&address, &file, &[]);
    let held = ids(deaf.wait_for_jobs(2, 20));
    grid.cli(&address, &["cancel", &process]).ok();
    let report = v1::WorkReport {
        running: Some(v1::Running { attempts: held, ..Default::default() }),
        ..v1::WorkReport::default()
    };
    until("the process ends", 20, || {
        deaf.send(&report);
        (grid.status(&address, &process)["state"] == "cancelled").then_some(())
    });
}

/// A small file system that is unmounted when this is dropped.
struct Disk(PathBuf);

impl Disk {
    /// Mounts a file system. Returns nothing if this user may not.
    fn mount(place: PathBuf, mebibytes: u32) -> Option<Self> {
        std::fs::create_dir_all(&place).expect("tests can write here");
        let size = format!("size={mebibytes}m");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(&place).status();
        mounted.is_ok_and(|status| status.success()).then_some(Self(place))
    }

    /// Takes all space that is left.
    fn fill(&self) {
        let file = std::fs::OpenOptions::new().create(true).append(true).open(self.0.join("filler"));
        let mut file = file.expect("it can be opened");
        while file.write_all(&[0; 4096]).is_ok() {}
    }

    fn free(&self) {
        std::fs::remove_file(self.0.join("filler")).expect("it is there");
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}

#[test]
fn a_worker_with_a_full_disk_answers_says_so_and_takes_nothing_until_it_has_space() {
    let mut grid = Grid::new();
    let Some(disk) = Disk::mount(grid.folder().join("disk"), 16) else {
        eprintln!("SKIPPED: only root can mount a small disk");
        return;
    };
    let address = grid.group("a", &[], &[]);
    let data = disk.0.join("data");
    grid.worker("a/full", &address, &["--slots", "1", "--data-dir", data.to_str().expect("the path is UTF-8")]);
    grid.wait_for_nodes(&address, 2);
    let gate = grid.folder().join("gate");
    let script = format!("while [ ! -e {} ]; do sleep 0.05; done", gate.display());
    let types = [
        shell_type("First", &[], &script, &[]),
        shell_type("Second", &[], "true", &[]),
        process_type(
            "Both",
            &[],
            "<ACTIVITY TYPE=\"First\" NAME=\"first\"/><ACTIVITY TYPE=\"Second\" NAME=\"second\"/>",
        ),
    ];
    let file = grid.write("both.xml", &document(&types));
    let process = grid.submit(&address, &file, &[]);
    let busy = |grid: &Grid| grid.nodes(&address).iter().any(|node| node["busy"] == 1);
    until("the first activity runs", 20, || busy(&grid).then_some(()));
    disk.fill();
    std::fs::write(&gate, "").expect("the other disk has space");
    let path = format!("{process}/second");
    // The first activity ends, although its answer cannot be written. The second one waits, and the grid says why.
    let second = until("the second activity waits", 20, || {
        let tree = grid.cli(&address, &["tree", &process]);
        let tree = if tree.code == 0 { tree.json() } else { return None };
        let second = tree["children"].as_array()?.iter().find(|it| it["path"] == path).cloned()?;
        (second["wait_reason"]["kind"] == "impaired").then_some(second)
    });
    assert_eq!(second["wait_reason"]["node"], "full", "{second}");
    assert_eq!(second["wait_reason"]["reason"]["kind"], "answers-unwritable", "{second}");
    until("the group knows", 20, || {
        let nodes = grid.nodes(&address);
        nodes.iter().find(|node| node["impaired"]["kind"] == "answers-unwritable").map(|_| ())
    });
    stays("the second activity does not run", 500, || !busy(&grid));
    disk.free();
    assert_eq!(grid.end(&address, &process)["state"], "completed");
    until("the worker is well", 20, || {
        grid.nodes(&address).iter().all(|node| node["impaired"].is_null()).then_some(())
    });
}

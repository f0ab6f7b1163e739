//! Questions and commands at a coordinator that does not run the process: the answer is that of the owner, or says why there is
//! none.

use std::time::{Duration, Instant};

use serde_json::Value as Json;
use xavantes_hostile::{block_on, connect};
use xavantes_proto::v1;
use xavantes_proto::v1::process_coordinator_client::ProcessCoordinatorClient;
use xavantes_repository::testing::Postgres;
use xavantes_tests::xml::{document, inputs, outputs, process_type, shell_type};
use xavantes_tests::{Grid, Running, free_address, until, xavantes};

/// Upper bound on waits, in seconds, even on a busy machine.
const LONG: u64 = 120;

/// A group with the coordinators `one` and `two`, which share a repository, and a worker with two slots.
struct Pair {
    grid: Grid,
    one: String,
    two: String,
    url: String,
    _server: Postgres,
}

impl Pair {
    fn start() -> Option<Self> {
        let server = Postgres::start()?;
        let url = server.url();
        xavantes(&["repository", "migrate", "--repository", &url]).ok();
        let mut grid = Grid::new();
        let manager = free_address();
        grid.start("a/manager", &manager, &["--roles", "group-manager"]);
        let [one, two] = ["one", "two"].map(|name| {
            let address = free_address();
            let flags = ["--roles", "process-coordinator", "--join", &manager, "--repository", &url];
            grid.start(&format!("a/{name}"), &address, &flags);
            address
        });
        grid.worker("a/w1", &manager, &["--slots", "2", "--queue", "0"]);
        grid.wait_for_nodes(&manager, 4);
        Some(Self { grid, one, two, url, _server: server })
    }

    /// As [`Self::submit_without_waiting`], and waits until the activities run.
    fn submit(&mut self, gate: &str) -> String {
        let process = self.submit_without_waiting(gate);
        until("both activities run", LONG, || {
            let status = self.grid.status(&self.one, &process);
            (status["activities"]["running"] == 2).then_some(())
        });
        process
    }

    /// Starts a process at `one` whose activities say a line and wait for the gate. Returns its id.
    fn submit_without_waiting(&mut self, gate: &str) -> String {
        let body = r#"<PARFOR NAME="each" TO="2" COLLECT="say.n" DELEGATE="never">
              <ITERATE><ACTIVITY TYPE="Say" NAME="say" gate="${gate}"/></ITERATE></PARFOR>
            <POST_CODE>sum = 0 for _, n in each.results do sum += n end</POST_CODE>"#;
        let script = r#"echo said; while [ ! -e "$1" ]; do sleep 0.05; done; echo '{"n": 21}' > "$XAVANTES_RESULTS""#;
        let types = [
            process_type("Gated", &[inputs("string gate"), outputs("int sum")], body),
            shell_type("Say", &[inputs("string gate"), outputs("int n")], script, &["${gate}"]),
        ];
        let file = self.grid.write("gated.xml", &document(&types));
        self.grid.submit(&self.one, &file, &[&format!("gate={gate}")])
    }

    fn gate(&self) -> String {
        self.grid.folder().join("gate").display().to_string()
    }
}

/// Whether a command still runs after a while.
fn still_runs(command: &mut Option<Running>, milliseconds: u64) -> bool {
    std::thread::sleep(Duration::from_millis(milliseconds));
    command.as_mut().is_some_and(Running::is_running)
}

/// The answer without numbers that differ from call to call.
fn comparable(mut answer: Json) -> Json {
    remove_times(&mut answer);
    answer
}

/// Removes what the coordinator computes from its clock when it is asked.
fn remove_times(answer: &mut Json) {
    match answer {
        Json::Object(members) => {
            members.retain(|name, _| !["elapsed_seconds", "running_since_ms"].contains(&&**name));
            members.values_mut().for_each(remove_times);
        }
        Json::Array(items) => items.iter_mut().for_each(remove_times),
        _ => {}
    }
}

#[test]
fn every_command_works_at_every_coordinator() {
    let Some(mut pair) = Pair::start() else { return };
    let gate = pair.gate();
    let process = pair.submit(&gate);
    let Pair { grid, one, two, .. } = &pair;
    let (all, first) = (format!("{process}/each"), format!("{process}/each/[1]/say"));
    for arguments in [
        &["list"][..],
        &["tree", &process],
        &["show", &process],
        &["show", &all],
        &["explain", &first],
        &["logs", &first],
        &["types"],
    ] {
        let [here, there] = [one, two].map(|address| comparable(grid.cli(address, arguments).ok().json()));
        assert_eq!(here, there, "{arguments:?}");
    }
    let mut waiting = Some(grid.spawn(two, &["wait", &process]));
    let following = grid.spawn(two, &["logs", &first, "--follow"]);
    let streaming = grid.spawn(two, &["results", &process, "--stream"]);
    assert!(still_runs(&mut waiting, 1500), "wait does not end before the process");
    assert_eq!(grid.cli(two, &["results", &process]).code, 2, "it has no results yet");

    grid.cli(two, &["pause", &process]).ok();
    for address in [one, two] {
        assert_eq!(grid.status(address, &process)["state"], "paused");
    }
    let again = grid.cli(two, &["pause", &process]);
    assert!(again.code == 2 && again.stderr.contains("is paused"), "{again:?}");
    grid.cli(two, &["resume", &process]).ok();
    grid.cli(two, &["set", &all, "MAX_PARALLEL=1"]).ok();
    let refused = grid.cli(two, &["forget", &process]);
    assert!(refused.code == 2 && refused.stderr.contains("cancel it first"), "{refused:?}");
    let unknown = grid.cli(two, &["show", &format!("{process}/eech")]);
    assert!(unknown.stderr.contains("did you mean \"each\"?"), "{unknown:?}");

    std::fs::write(&gate, "").expect("tests can write here");
    let waited = waiting.take().expect("it runs").wait().ok();
    assert_eq!(waited.json()["processes"][0]["state"], "completed");
    assert_eq!(following.wait().ok().json()["stdout"], "said\n");
    let streamed = streaming.wait().ok().stdout;
    assert!(streamed.contains("/each/[1]/say") && streamed.contains("\"sum\":42"), "{streamed}");
    for arguments in [&["results", &process][..], &["tree", &process], &["list"], &["show", &first]] {
        let [here, there] = [one, two].map(|address| comparable(grid.cli(address, arguments).ok().json()));
        assert_eq!(here, there, "{arguments:?}");
    }
    grid.cli(two, &["forget", &process]).ok();
    assert_eq!(grid.status(one, &process), Json::Null);

    std::fs::remove_file(&gate).expect("it is there");
    let process = pair.submit(&gate);
    pair.grid.cli(&pair.two, &["cancel", &process]).ok();
    assert_eq!(pair.grid.cli(&pair.two, &["wait", &process]).code, 4);
}

#[test]
fn a_silent_owner_is_named_and_waiting_outlives_it() {
    let Some(mut pair) = Pair::start() else { return };
    let gate = pair.gate();
    let process = pair.submit(&gate);
    let Pair { grid, two, .. } = &mut pair;
    let waiting = grid.spawn(two, &["wait", &process]);
    std::thread::sleep(Duration::from_millis(500));
    grid.freeze("a/one");
    let asked = Instant::now();
    let status = grid.status(two, &process);
    assert!(asked.elapsed() < Duration::from_secs(8), "the list waits for a frozen coordinator: {:?}", asked.elapsed());
    assert_eq!((&status["state"], &status["owner_silent"]), (&"unknown".into(), &true.into()), "{status}");
    assert!(status["trouble"].as_str().is_some_and(|it| it.contains("coordinator one does not answer")), "{status}");
    grid.kill("a/one");
    let shown = grid.cli(two, &["show", &process]);
    if shown.code != 0 {
        // The other coordinator has not taken over yet.
        assert_eq!(shown.code, 3, "{shown:?}");
        let names_owner = shown.stderr.contains("coordinator \"one\" at ") && shown.stderr.contains(" s ago");
        let taking_over = shown.stderr.contains("taking over");
        assert!(names_owner || taking_over, "{shown:?}");
    }
    std::fs::write(&gate, "").expect("tests can write here");
    let waited = waiting.wait().ok();
    assert_eq!(waited.json()["processes"][0]["node"], "two");
    assert_eq!(grid.cli(two, &["results", &process]).ok().json()["results"]["sum"], 42);
}

#[test]
fn a_held_process_is_decided_at_any_coordinator() {
    let Some(mut pair) = Pair::start() else { return };
    let gate = pair.gate();
    let [first, second] = [(); 2].map(|()| pair.submit_without_waiting(&gate));
    let Pair { grid, one, two, url, .. } = &mut pair;
    // Two owners ended while they loaded these processes.
    block_on(async {
        let repository = xavantes_repository::open_postgres(url, "liar").await.expect("the database is there");
        for process in [&first, &second] {
            repository.put("recoveries", process, vec![1, 2].into()).await.expect("the database stores it");
        }
        repository.shut_down().await;
    });
    grid.kill("a/one");
    grid.restart("a/one");
    for address in [&*one, &*two] {
        for process in [&first, &second] {
            until("the process is held", LONG, || (grid.status(address, process)["state"] == "held").then_some(()));
        }
    }
    let owner = grid.status(one, &first)["node"].as_str().expect("it has an owner").to_owned();
    let other = if owner == "one" { &*two } else { &*one };
    let refused = grid.cli(other, &["forget", &first]);
    assert!(refused.code == 2 && refused.stderr.contains("forget --force"), "{refused:?}");
    assert_eq!(grid.cli(other, &["tree", &first]).ok().json()["state"], "held");
    let waiting = grid.spawn(other, &["wait", &second]);
    grid.cli(other, &["forget", "--force", &first]).ok();
    grid.cli(other, &["cancel", &second]).ok();
    assert_eq!(waiting.wait().code, 4);
    for address in [&*one, &*two] {
        assert_eq!(grid.status(address, &first), Json::Null);
        assert_eq!(grid.status(address, &second)["state"], "cancelled");
    }
}

#[test]
fn requests_that_lead_in_a_circle_end() {
    let Some(mut pair) = Pair::start() else { return };
    let gate = pair.gate();
    let process = pair.submit(&gate);
    let Pair { grid, one, two, url, .. } = &pair;
    // The repository says that `one` is where `two` is.
    block_on(async {
        let repository = xavantes_repository::open_postgres(url, "liar").await.expect("the database is there");
        repository.put("coordinator", "one", two.clone().into()).await.expect("the database stores it");
        repository.shut_down().await;
    });
    for arguments in [
        &["show", &process][..],
        &["pause", &process],
        &["wait", &process],
        &["results", &process],
        &["results", &process, "--stream"],
        &["logs", &format!("{process}/each/[9]/say"), "--follow"],
    ] {
        let ended = grid.cli(two, arguments);
        assert!(
            ended.code != 0 && ended.stderr.contains("coordinators passed the request"),
            "{arguments:?}: {ended:?}"
        );
    }
    assert_eq!(grid.status(two, &process)["owner_silent"], true);
    // So does a request that claims to have come far.
    let status = block_on(async {
        let mut client = ProcessCoordinatorClient::new(connect(two).await);
        let request = v1::ShowRequest { path: process.clone(), depth: 1, forwards: u32::MAX };
        client.show(request).await.expect_err("nobody passes it on")
    });
    assert_eq!(status.code(), tonic::Code::Aborted, "{status:?}");
    // The owner itself is not confused.
    assert_eq!(grid.status(one, &process)["activities"]["running"], 2);
}

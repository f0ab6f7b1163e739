//! Processes that would bring down their coordinator: unreadable ones, and ones that grow without end.

use serde_json::Value as Json;
use xavantes_hostile::block_on;
use xavantes_repository::testing::Postgres;
use xavantes_tests::xml::{document, inputs, process_type, shell_type};
use xavantes_tests::{Grid, free_address, is_live, until, xavantes};

/// A process that waits for an activity until the file `gate` exists.
fn waiting(grid: &mut Grid) -> (String, String) {
    let gate = grid.folder().join("gate").to_str().expect("the path is UTF-8").to_owned();
    let script = r#"while [ ! -e "$1" ]; do sleep 0.05; done"#;
    let body = r#"<ACTIVITY TYPE="Wait" NAME="wait" gate="${gate}"/>"#;
    let types = [
        process_type("P", &[inputs("string gate")], body),
        shell_type("Wait", &[inputs("string gate")], script, &["${gate}"]),
    ];
    (grid.write("waiting.xml", &document(&types)), gate)
}

/// Waits until the workers run this many activities. What led to them is in the repository then.
fn wait_for_activities(grid: &Grid, manager: &str, count: u64) {
    until(&format!("{count} activities run"), 30, || {
        let busy: u64 = grid.nodes(manager).iter().filter_map(|node| node["busy"].as_u64()).sum();
        (busy == count).then_some(())
    });
}

/// Changes the repository of a coordinator that does not run.
fn change_repository<F: Future<Output = ()>>(
    grid: &Grid,
    name: &str,
    change: impl FnOnce(xavantes_repository::Store) -> F,
) {
    let directory = grid.data(name).join("repository");
    block_on(async {
        let store = xavantes_repository::open_sled(&directory, "main").await.expect("nobody else has it open");
        store.claim().await.expect("the store works");
        change(store.clone()).await;
        store.shut_down().await;
    });
}

/// The kind of the reason for which a process is held.
fn held_kind(grid: &Grid, address: &str, process: &str) -> Json {
    let status = grid.status(address, process);
    assert_eq!((&status["state"], &status["stall_reason"]["kind"]), (&"held".into(), &"held".into()), "{status}");
    status["stall_reason"]["reason"]["kind"].clone()
}

#[test]
fn an_unreadable_process_is_held_and_the_others_go_on() {
    let mut grid = Grid::new();
    let address = grid.group("a", &[3], &[]);
    let (file, gate) = waiting(&mut grid);
    let parameter = format!("gate={gate}");
    let [good, bad, worse] = [(); 3].map(|()| grid.submit(&address, &file, &[&parameter]));
    wait_for_activities(&grid, &address, 3);
    grid.kill_alone("a/main");
    change_repository(&grid, "a/main", |store| {
        let processes = [bad.clone(), worse.clone()];
        async move {
            for process in &processes {
                store.append(process, "no record".into()).await.expect("the store works");
            }
        }
    });
    grid.restart("a/main");
    assert_eq!(held_kind(&grid, &address, &bad), "unreadable");
    let tree = grid.cli(&address, &["tree", &bad]).ok().json();
    assert_eq!((&tree["state"], &tree["held_reason"]["kind"]), (&"held".into(), &"unreadable".into()), "{tree}");
    assert_eq!(grid.cli(&address, &["explain", &bad]).ok().json()["state"], "held");
    // Nothing but the decision of a user changes it.
    let refused = grid.cli(&address, &["resume", &bad]);
    assert!(refused.code == 2 && refused.stderr.contains("cannot continue"), "{refused:?}");
    let refused = grid.cli(&address, &["pause", &bad]);
    assert!(refused.code == 2 && refused.stderr.contains("xavantes resume"), "{refused:?}");
    let refused = grid.cli(&address, &["forget", &bad]);
    assert!(refused.code == 2 && refused.stderr.contains("--force"), "{refused:?}");
    let waiting = grid.spawn(&address, &["wait", &bad]);
    grid.cli(&address, &["cancel", &bad]).ok();
    assert_eq!(grid.status(&address, &bad)["state"], "cancelled");
    let ended = waiting.wait();
    assert_eq!(ended.code, 4, "{ended:?}");
    grid.cli(&address, &["forget", "--force", &worse]).ok();
    assert_eq!(grid.status(&address, &worse), Json::Null);
    // The worker stops the activities of both, and only these.
    wait_for_activities(&grid, &address, 1);
    std::fs::write(&gate, "").expect("tests can write here");
    assert_eq!(grid.end(&address, &good)["state"], "completed");
    grid.restart("a/main");
    assert_eq!(grid.status(&address, &bad)["state"], "cancelled");
}

#[test]
fn a_large_process_whose_owners_end_soon_is_held() {
    let mut grid = Grid::new();
    let address = grid.group("a", &[2], &[]);
    let (file, gate) = waiting(&mut grid);
    let small = grid.submit(&address, &file, &[&format!("gate={gate}")]);
    let file = large(&mut grid, 20);
    let large = grid.submit(&address, &file, &[]);
    wait_for_activities(&grid, &address, 2);
    grid.kill_alone("a/main");
    grid.restart("a/main");
    assert!(is_live(&grid.status(&address, &large)), "one end proves nothing");
    grid.kill_alone("a/main");
    grid.restart("a/main");
    assert_eq!(held_kind(&grid, &address, &large), "crashed-owners");
    assert!(is_live(&grid.status(&address, &small)));
    grid.cli(&address, &["resume", &large]).ok();
    // A coordinator that is stopped in order blames nobody.
    for _ in 0..3 {
        grid.terminate("a/main");
        until("it has stopped", 30, || grid.ended("a/main"));
        grid.restart("a/main");
    }
    assert!(is_live(&grid.status(&address, &large)));
    open_gate(&grid);
    for process in [&small, &large] {
        assert_eq!(grid.end(&address, process)["state"], "completed");
    }
}

#[test]
fn a_process_that_brought_down_two_owners_is_held_until_a_user_resumes_it() {
    let mut grid = Grid::new();
    let address = grid.group("a", &[2], &[]);
    let (file, gate) = waiting(&mut grid);
    let parameter = format!("gate={gate}");
    let [good, bad] = [(); 2].map(|()| grid.submit(&address, &file, &[&parameter]));
    grid.kill_alone("a/main");
    change_repository(&grid, "a/main", |store| {
        let bad = bad.clone();
        // Two owners ended while they loaded the process.
        async move { store.put("recoveries", &bad, vec![1, 2].into()).await.expect("the store works") }
    });
    for life in 1..=2 {
        grid.restart("a/main");
        assert_eq!(held_kind(&grid, &address, &bad), "crashed-owners", "in life {life}");
        assert!(is_live(&grid.status(&address, &good)), "in life {life}");
    }
    grid.cli(&address, &["resume", &bad]).ok();
    std::fs::write(&gate, "").expect("tests can write here");
    for process in [&good, &bad] {
        assert_eq!(grid.end(&address, process)["state"], "completed");
    }
}

/// A process type whose body is this, with the activity types `Wait` and `Grow`.
fn growing(grid: &mut Grid, body: &str) -> String {
    let script = r#"while [ ! -e "$1" ]; do sleep 0.05; done"#;
    let grow = r#"<ACTIVITY_TYPE NAME="Grow"><IN_PARAMETER TYPE="RemoteList" NAME="list"/>
      <CODE LANGUAGE="lua">while true do list:append(string.rep("x", 1000000)) end</CODE></ACTIVITY_TYPE>"#;
    let gate = grid.folder().join("gate");
    let body = body.replace("GATE", gate.to_str().expect("the path is UTF-8"));
    let wait = shell_type("Wait", &[inputs("string gate")], script, &["${gate}"]);
    grid.write("growing.xml", &document(&[process_type("Growing", &[], &body), wait, grow.into()]))
}

/// A process with a variable of this many megabytes that waits until the gate opens.
fn large(grid: &mut Grid, megabytes: u32) -> String {
    let body = format!(
        r#"<BLOCK NAME="b"><INOUT_PARAMETER TYPE="string" NAME="s" DEFAULT=""/>
             <PRE_CODE>s = string.rep("x", {megabytes}000000)</PRE_CODE>
             <ACTIVITY TYPE="Wait" NAME="wait" gate="GATE"/></BLOCK>"#
    );
    growing(grid, &body)
}

fn open_gate(grid: &Grid) {
    std::fs::write(grid.folder().join("gate"), "").expect("tests can write here");
}

#[test]
fn processes_that_grow_without_end_fail_and_take_nothing_along() {
    let mut grid = Grid::new();
    let address = grid.group("a", &[2], &["--process-mib", "24"]);
    let (file, gate) = waiting(&mut grid);
    let other = grid.submit(&address, &file, &[&format!("gate={gate}")]);
    let collects = r#"<FOR NAME="all" TO="1000000" COLLECT="string.rep('x', 10000000) .. counter"><ITERATE/></FOR>"#;
    let appends = r#"<BLOCK NAME="b"><INOUT_PARAMETER TYPE="RemoteList" NAME="list" OPTIONAL="true"/>
        <PRE_CODE>list = RemoteList.new()</PRE_CODE><ACTIVITY TYPE="Grow" NAME="grow" list="${list}"/></BLOCK>"#;
    let code = r#"<BLOCK NAME="b"><OUT_PARAMETER TYPE="RemoteList" NAME="list"/>
        <PRE_CODE>list = RemoteList.new() while true do list:append(string.rep("x", 1000000)) end</PRE_CODE></BLOCK>"#;
    for (body, place, reason) in [
        (collects, "/all/[3]", "--process-mib"),
        (appends, "/b/grow", "--process-mib"),
        (code, "/b", "more to shared objects than its limit of memory"),
    ] {
        let file = growing(&mut grid, body);
        let process = grid.submit(&address, &file, &[]);
        let ended = grid.end(&address, &process);
        let failure = &ended["failure"];
        assert_eq!(
            (&ended["state"], failure["path"].as_str()),
            (&"failed".into(), Some(&*(process + place))),
            "{ended}"
        );
        assert!(failure["message"].as_str().is_some_and(|message| message.contains(reason)), "{ended}");
    }
    assert!(grid.peak_mib("a/main") < 600, "{} MiB", grid.peak_mib("a/main"));
    open_gate(&grid);
    assert_eq!(grid.end(&address, &other)["state"], "completed");
}

#[test]
fn a_process_beyond_the_budget_of_its_new_coordinator_is_held_until_the_budget_is_larger() {
    let mut grid = Grid::new();
    let address = grid.group("a", &[1], &[]);
    let file = large(&mut grid, 20);
    let process = grid.submit(&address, &file, &[]);
    wait_for_activities(&grid, &address, 1);
    let roles = ["--roles", "group-manager,process-coordinator"];
    grid.start("a/main", &address, &[&roles[..], &["--process-mib", "8"]].concat());
    assert_eq!(held_kind(&grid, &address, &process), "over-budget");
    grid.start("a/main", &address, &roles);
    assert!(is_live(&grid.status(&address, &process)));
    open_gate(&grid);
    assert_eq!(grid.end(&address, &process)["state"], "completed");
}

#[test]
fn a_process_waits_while_its_coordinator_has_no_memory_for_it() {
    let mut grid = Grid::new();
    let address = grid.group("a", &[2], &["--processes-mib", "12"]);
    let file = large(&mut grid, 20);
    let first = grid.submit(&address, &file, &[]);
    wait_for_activities(&grid, &address, 1);
    let [second, third] = [(); 2].map(|()| grid.submit(&address, &file, &[]));
    until("the second one waits and says why", 30, || {
        let status = grid.status(&address, &second);
        (status["stall_reason"]["kind"] == "coordinator-full").then_some(())
    });
    for command in ["tree", "explain"] {
        let shown = grid.cli(&address, &[command, &second]).ok().json();
        assert_eq!(shown["wait_reason"]["kind"], "coordinator-full", "{shown}");
    }
    grid.cli(&address, &["cancel", &third]).ok();
    assert_eq!(grid.end(&address, &third)["state"], "cancelled");
    open_gate(&grid);
    for process in [&first, &second] {
        assert_eq!(grid.end(&address, process)["state"], "completed");
    }
}

#[test]
fn the_third_owner_in_a_shared_repository_holds_a_process_that_brought_down_two() {
    let Some(server) = Postgres::start() else { return };
    let url = server.url();
    xavantes(&["repository", "migrate", "--repository", &url]).ok();
    let mut grid = Grid::new();
    let manager = free_address();
    grid.start("a/manager", &manager, &["--roles", "group-manager"]);
    let addresses = ["one", "two", "three"].map(|name| {
        let address = free_address();
        let flags = ["--roles", "process-coordinator", "--join", &manager, "--repository", &url];
        grid.start(&format!("a/{name}"), &address, &flags);
        address
    });
    grid.worker("a/w1", &manager, &["--slots", "1", "--queue", "0"]);
    grid.wait_for_nodes(&manager, 5);
    let file = large(&mut grid, 20);
    let process = grid.submit(&addresses[0], &file, &[]);
    wait_for_activities(&grid, &manager, 1);
    grid.kill_alone("a/one");
    // Either of the others takes it over.
    let second = until("it has another owner", 60, || {
        ["two", "three"].into_iter().find(|name| grid.log(&format!("a/{name}")).contains("process recovered"))
    });
    let address = if second == "two" { &addresses[2] } else { &addresses[1] };
    grid.kill_alone(&format!("a/{second}"));
    until("the third owner holds it", 60, || (grid.status(address, &process)["state"] == "held").then_some(()));
    assert_eq!(held_kind(&grid, address, &process), "crashed-owners");
    grid.cli(address, &["cancel", &process]).ok();
    assert_eq!(grid.status(address, &process)["state"], "cancelled");
}

//! Processes that would bring down their coordinator: unreadable ones, and ones that grow without end.

use serde_json::Value as Json;
use xavantes_hostile::block_on;
use xavantes_tests::xml::{document, inputs, process_type, shell_type};
use xavantes_tests::{Grid, until};

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
    until("all activities run", 30, || {
        [&good, &bad, &worse].iter().all(|id| grid.status(&address, id)["activities"]["running"] == 1).then_some(())
    });
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
    until("one activity is left", 30, || {
        let busy: u64 = grid.nodes(&address).iter().filter_map(|node| node["busy"].as_u64()).sum();
        (busy == 1).then_some(())
    });
    std::fs::write(&gate, "").expect("tests can write here");
    assert_eq!(grid.end(&address, &good)["state"], "completed");
    grid.restart("a/main");
    assert_eq!(grid.status(&address, &bad)["state"], "cancelled");
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
        assert_eq!(grid.status(&address, &good)["state"], "running", "in life {life}");
    }
    grid.cli(&address, &["resume", &bad]).ok();
    std::fs::write(&gate, "").expect("tests can write here");
    for process in [&good, &bad] {
        assert_eq!(grid.end(&address, process)["state"], "completed");
    }
}

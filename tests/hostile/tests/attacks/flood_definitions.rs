//! Definitions that take much memory.

use xavantes_hostile::fake_coordinator::FakeCoordinator;
use xavantes_hostile::{block_on, client, connect};
use xavantes_proto::programs::program_digest;
use xavantes_proto::v1;
use xavantes_proto::v1::answer::Outcome;
use xavantes_proto::v1::refusal_reason::Kind as RefusalKind;
use xavantes_tests::{Grid, free_address, until};

/// A document with a process type and an activity type that do nothing, and this many MiB of spaces.
fn document(number: usize, mib: usize) -> String {
    let spaces = " ".repeat(mib << 20);
    format!(
        "<XAVANTES VERSION=\"1\"><ACTIVITY_TYPE NAME=\"A\"><CODE LANGUAGE=\"lua\">local a = {number}</CODE></ACTIVITY_TYPE>\
         <PROCESS_TYPE NAME=\"P{number}\"><BODY/></PROCESS_TYPE>{spaces}</XAVANTES>"
    )
}

#[test]
fn definitions_that_no_process_uses_leave_the_memory() {
    let mut grid = Grid::new();
    let address = grid.group("a", &[], &[]);
    let processes: Vec<String> = block_on(async {
        let channel = connect(&address).await;
        let mut processes = Vec::new();
        for number in 0..24 {
            processes.push(client::submit(&channel, &document(number, 14)).await.expect("it is valid"));
        }
        processes
    });
    until("all processes have ended", 60, || {
        let list = grid.cli(&address, &["list"]).ok().json();
        let ended = |process: &serde_json::Value| process["state"] == "completed";
        list["processes"].as_array().is_some_and(|all| all.iter().all(ended)).then_some(())
    });
    let peak = grid.peak_mib("a/main");
    assert!(peak < 24 * 14, "the node took {peak} MiB, as much as all documents");
    // The definition of the first process is read again.
    assert_eq!(grid.cli(&address, &["tree", &processes[0]]).ok().json()["path"], processes[0].as_str());
    let types = grid.cli(&address, &["types"]).ok().json();
    assert!(types["types"].as_array().is_some_and(|types| types.iter().any(|it| it["name"] == "P0")), "all are listed");
}

#[test]
fn a_worker_asks_for_a_definition_that_has_left_its_memory() {
    let mut grid = Grid::new();
    let (manager, worker) = (grid.group("a", &[], &[]), free_address());
    grid.start("a/w", &worker, &["--roles", "activity-manager", "--join", &manager]);
    let program = |number| {
        let documents = vec![v1::Document { name: "d.xml".into(), text: document(number, 2) }];
        v1::Program { digest: program_digest(&documents), documents }
    };
    let order = |element, programs: Vec<v1::Program>, program: &str| {
        let id = v1::AttemptId { process: "p".into(), element, attempt: 1 };
        let job = v1::Job { id: Some(id), program: program.into(), path: "p/a".into(), ..v1::Job::default() };
        v1::WorkOrder { programs, jobs: vec![job], ..v1::WorkOrder::default() }
    };
    block_on(async {
        let channel = connect(&worker).await;
        let mut coordinator =
            FakeCoordinator::to_worker(&channel, FakeCoordinator::hello("c")).await.expect("accepted");
        let first = program(0);
        assert!(coordinator.send(order(1, vec![first.clone()], &first.digest)).await);
        let outcome = coordinator.answer().await.expect("an answer").expect("an answer").outcome;
        assert!(matches!(outcome, Some(Outcome::Completed(_))), "{outcome:?}");
        for number in 1..16 {
            assert!(coordinator.send(v1::WorkOrder { programs: vec![program(number)], ..Default::default() }).await);
        }
        assert!(coordinator.send(order(2, vec![], &first.digest)).await);
        let outcome = coordinator.answer_to(2).await.expect("an answer").outcome;
        let Some(Outcome::Refused(refusal)) = outcome else { panic!("{outcome:?}") };
        assert!(!refusal.permanent, "the coordinator may send the program again");
        let kind = refusal.reason.and_then(|reason| reason.kind);
        assert!(matches!(kind, Some(RefusalKind::UnknownProgram(_))), "{kind:?}");
        assert!(coordinator.send(order(2, vec![first.clone()], &first.digest)).await);
        let outcome = coordinator.answer_to(2).await.expect("an answer").outcome;
        assert!(matches!(outcome, Some(Outcome::Completed(_))), "{outcome:?}");
    });
}

//! A coordinator that has work done and acknowledges no answer.

use xavantes_hostile::fake_coordinator::FakeCoordinator;
use xavantes_hostile::{block_on, connect};
use xavantes_proto::programs::program_digest;
use xavantes_proto::v1;
use xavantes_proto::v1::answer::Outcome;
use xavantes_proto::v1::impairment_reason::Kind as ImpairmentKind;
use xavantes_proto::v1::refusal_reason::Kind as RefusalKind;
use xavantes_tests::{Grid, free_address};

/// Returns 8 MB.
const LOUD: &str = r#"<XAVANTES VERSION="1"><ACTIVITY_TYPE NAME="Loud"><OUT_PARAMETER TYPE="string" NAME="text"/>
  <CODE LANGUAGE="lua">text = string.rep("x", 8000000)</CODE></ACTIVITY_TYPE>
  <PROCESS_TYPE NAME="P"><BODY/></PROCESS_TYPE></XAVANTES>"#;

fn id(element: u64) -> v1::AttemptId {
    v1::AttemptId { process: "p".into(), element, attempt: 1 }
}

/// Whether the answer refuses the attempt because of answers that were not acknowledged.
fn is_refused(answer: &v1::Answer) -> bool {
    let Some(Outcome::Refused(refusal)) = &answer.outcome else { return false };
    let kind = refusal.reason.as_ref().and_then(|reason| reason.kind.as_ref());
    let Some(RefusalKind::Impaired(reason)) = kind else { panic!("{refusal:?}") };
    assert!(matches!(reason.kind, Some(ImpairmentKind::AnswersUnacknowledged(_))), "{reason:?}");
    assert!(!refusal.permanent, "the coordinator may send it again");
    true
}

#[test]
fn a_worker_keeps_few_unacknowledged_answers_of_a_coordinator_and_loses_none() {
    let mut grid = Grid::new();
    let (manager, worker) = (grid.group("a", &[], &[]), free_address());
    grid.start("a/w", &worker, &["--roles", "activity-manager", "--join", &manager, "--slots", "1"]);
    let documents = vec![v1::Document { name: "d.xml".into(), text: LOUD.into() }];
    let program = v1::Program { digest: program_digest(&documents), documents };
    let order = |element| {
        let job = v1::Job { id: Some(id(element)), program: program.digest.clone(), ..v1::Job::default() };
        let jobs = vec![v1::Job { path: "p/a".into(), ..job }];
        v1::WorkOrder { programs: vec![program.clone()], jobs, ..v1::WorkOrder::default() }
    };
    let kept = block_on(async {
        let channel = connect(&worker).await;
        let stream = FakeCoordinator::to_worker(&channel, FakeCoordinator::hello("c")).await;
        let mut coordinator = stream.expect("accepted");
        let mut kept = Vec::new();
        for element in 1..=40 {
            assert!(coordinator.send(order(element)).await);
            if is_refused(&coordinator.answer_to(element).await.expect("an answer")) {
                break;
            }
            kept.push(element);
        }
        assert!((10..30).contains(&kept.len()), "it took {} answers of 8 MB", kept.len());
        // Another coordinator has room.
        let stream = FakeCoordinator::to_worker(&channel, FakeCoordinator::hello("other")).await;
        let mut other = stream.expect("accepted");
        assert!(other.send(order(1)).await);
        assert!(!is_refused(&other.answer_to(1).await.expect("an answer")));
        kept
    });
    assert!(grid.log("a/w").contains("the coordinator has not recorded"), "{}", grid.log("a/w"));

    // The answers are still there after a restart, and the worker takes work again when they are acknowledged.
    grid.restart("a/w");
    block_on(async {
        let channel = connect(&worker).await;
        let stream = FakeCoordinator::to_worker(&channel, FakeCoordinator::hello("c")).await;
        let mut coordinator = stream.expect("accepted");
        let hello = coordinator.report().await.expect("a hello").and_then(|report| report.hello).expect("a hello");
        assert_eq!(hello.answered, kept.iter().map(|element| id(*element)).collect::<Vec<_>>());
        assert!(coordinator.send(order(100)).await);
        assert!(is_refused(&coordinator.answer_to(100).await.expect("an answer")));
        let acknowledged = kept.iter().map(|element| id(*element)).collect();
        assert!(coordinator.send(v1::WorkOrder { acknowledged, ..v1::WorkOrder::default() }).await);
        assert!(coordinator.send(order(100)).await);
        assert!(!is_refused(&coordinator.answer_to(100).await.expect("an answer")));
    });
}

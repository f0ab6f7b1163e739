//! Names, numbers and texts that no honest peer sends.

use tonic::Code;
use xavantes_hostile::fake_coordinator::FakeCoordinator;
use xavantes_hostile::fake_node::FakeNode;
use xavantes_hostile::{block_on, client, connect};
use xavantes_proto::v1;
use xavantes_tests::{Grid, free_address};

#[test]
fn a_node_joins_only_with_a_description_that_a_node_can_have() {
    let mut grid = Grid::new();
    let address = grid.group("a", &[1], &[]);
    block_on(async {
        let channel = connect(&address).await;
        let worker = |name: &str, slots| FakeNode::worker("a", name, "127.0.0.1:1", slots);
        let mut tagged = worker("x", 1);
        tagged.node.as_mut().unwrap().tags = vec!["t".repeat(200); 200];
        let wrong = [
            (worker(&"n".repeat(100_000), 1), "the name of the node has 100000 bytes; at most 256 are allowed"),
            (worker("a\nb", 1), "control character"),
            (worker("", 1), "the name of the node is missing"),
            (worker("x", u32::MAX), "the number of slots of the node is 4294967295; at most 65536 is allowed"),
            (tagged, "the description of the node has"),
        ];
        for (heartbeat, expected) in wrong {
            let refused = FakeNode::join(&channel, heartbeat).await.err().expect("it is refused");
            assert_eq!(refused.code(), Code::InvalidArgument, "{refused:?}");
            assert!(refused.message().contains(expected), "{:?} does not contain {expected:?}", refused.message());
        }
        // What is checked once is checked always.
        for later in [worker("x", u32::MAX), worker("another", 1)] {
            let mut joined = FakeNode::join(&channel, worker("x", 1)).await.expect("it is a good node");
            joined.beat(later).await;
            let refused = loop {
                match joined.roster().await {
                    Ok(Some(_)) => {}
                    Ok(None) => panic!("the stream ended without an error"),
                    Err(refused) => break refused,
                }
            };
            assert_eq!(refused.code(), Code::InvalidArgument, "{refused:?}");
        }
    });
    let nodes = grid.cli(&address, &["nodes"]).ok().json();
    assert!(nodes["nodes"].as_array().is_some_and(|nodes| nodes.iter().any(|node| node["node"] == "w1")), "{nodes}");
}

#[test]
fn errors_about_long_names_reach_the_client() {
    let mut grid = Grid::new();
    let address = grid.group("a", &[], &[]);
    block_on(async {
        let channel = connect(&address).await;
        let mut coordinator = client::coordinator(&channel);
        let show = |path: String| v1::ShowRequest { path, depth: 1, ..Default::default() };
        let refused = coordinator.show(show("p".repeat(1 << 20))).await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument, "{refused:?}");
        assert_eq!(refused.message(), "the path has 1048576 bytes; at most 262144 are allowed");
        let refused = coordinator.show(show("p".repeat(200_000))).await.unwrap_err();
        assert_eq!(refused.code(), Code::NotFound, "{refused:?}");
        assert!(refused.message().ends_with("(the message is longer)"), "{refused:?}");
        let request = v1::SubmitRequest { process_type: "t".repeat(1000), ..client::submission("<XAVANTES/>") };
        let refused = coordinator.submit(request).await.unwrap_err();
        assert_eq!(refused.message(), "the process type has 1000 bytes; at most 256 are allowed");
        let forget = v1::ForgetRequest { processes: vec![String::new(); 200_000], ..v1::ForgetRequest::default() };
        let refused = coordinator.forget(forget).await.unwrap_err();
        assert!(refused.message().contains("has 200000 items; at most 100000 are allowed"), "{refused:?}");
    });
}

#[test]
fn coordinators_introduce_themselves_with_short_names() {
    let mut grid = Grid::new();
    let (manager, worker) = (grid.group("a", &[], &[]), free_address());
    grid.start("a/w", &worker, &["--roles", "activity-manager", "--join", &manager]);
    block_on(async {
        let (to_worker, to_coordinator) = (connect(&worker).await, connect(&manager).await);
        let good = FakeCoordinator::hello("c");
        for (hello, expected) in [
            (v1::CoordinatorHello { node: "n".repeat(1000), ..good.clone() }, "the node of the coordinator has 1000"),
            (v1::CoordinatorHello { realm: String::new(), ..good.clone() }, "the realm of the coordinator is missing"),
            (v1::CoordinatorHello { group: "g\u{1b}".into(), ..good.clone() }, "control character"),
            (v1::CoordinatorHello { address: "a".repeat(1000), ..good.clone() }, "the address of the coordinator has"),
        ] {
            let worker = FakeCoordinator::to_worker(&to_worker, hello.clone()).await;
            let coordinator = FakeCoordinator::to_coordinator(&to_coordinator, hello).await;
            for refused in [worker.err(), coordinator.err()] {
                let refused = refused.expect("it is refused");
                assert_eq!(refused.code(), Code::InvalidArgument, "{refused:?}");
                assert!(refused.message().contains(expected), "{refused:?}");
            }
        }
        assert!(FakeCoordinator::to_worker(&to_worker, good).await.is_ok());
    });
}

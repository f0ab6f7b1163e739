//! The protocol of nodes as other programs see it: health, reflection, and streams of attempts.

use tokio_stream::StreamExt;
use tonic::transport::Channel;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;
use xavantes_proto::programs::program_digest;
use xavantes_proto::v1;
use xavantes_proto::v1::activity_manager_client::ActivityManagerClient;
use xavantes_tests::{Grid, free_address};

use crate::kit::document;

const SERVICES: [&str; 3] =
    ["xavantes.v1.GroupManager", "xavantes.v1.ProcessCoordinator", "xavantes.v1.ActivityManager"];

fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Runtime::new().expect("threads are available").block_on(work)
}

async fn connect(address: &str) -> Channel {
    let endpoint = Channel::from_shared(format!("http://{address}")).expect("it is an address");
    endpoint.connect().await.expect("the node is there")
}

async fn serves(channel: &Channel, service: &str) -> bool {
    let request = HealthCheckRequest { service: service.into() };
    match HealthClient::new(channel.clone()).check(request).await {
        Ok(answer) => answer.into_inner().status() == ServingStatus::Serving,
        Err(_) => false,
    }
}

async fn reflected(channel: &Channel) -> Vec<String> {
    let message_request = Some(MessageRequest::ListServices(String::new()));
    let request = ServerReflectionRequest { host: String::new(), message_request };
    let answers =
        ServerReflectionClient::new(channel.clone()).server_reflection_info(tokio_stream::once(request)).await;
    let answer = answers.expect("it reflects").into_inner().message().await.expect("it answers").expect("it answers");
    match answer.message_response {
        Some(MessageResponse::ListServicesResponse(list)) => list.service.into_iter().map(|it| it.name).collect(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_role_is_healthy_and_nodes_describe_their_services() {
    let mut grid = Grid::new();
    let (manager, coordinator, worker) = (free_address(), free_address(), free_address());
    grid.start("a/manager", &manager, &["--roles", "group-manager"]);
    grid.start("a/coordinator", &coordinator, &["--roles", "process-coordinator", "--join", &manager]);
    grid.start("a/worker", &worker, &["--roles", "activity-manager", "--join", &manager]);
    grid.wait_for_nodes(&manager, 3);
    block_on(async {
        for (address, own) in [(&manager, SERVICES[0]), (&coordinator, SERVICES[1]), (&worker, SERVICES[2])] {
            let channel = connect(address).await;
            assert!(serves(&channel, "").await, "the node of {own}");
            for service in SERVICES {
                assert_eq!(serves(&channel, service).await, service == own, "{service} at the node of {own}");
            }
            let reflected = reflected(&channel).await;
            for service in SERVICES.into_iter().chain(["grpc.health.v1.Health"]) {
                assert!(reflected.iter().any(|name| name == service), "{service} is not in {reflected:?}");
            }
        }
    });
}

const ONE: &str = r#"
  <ACTIVITY_TYPE NAME="One">
    <OUT_PARAMETER TYPE="int" NAME="result"/>
    <CODE LANGUAGE="lua">result = 1</CODE>
  </ACTIVITY_TYPE>"#;

/// Sends an attempt to a worker as the coordinator of that group would, and does not acknowledge the answer.
async fn attempt(channel: &Channel, group: &str) -> Option<v1::Answer> {
    let hello = v1::CoordinatorHello {
        node: "main".into(),
        group: group.into(),
        version: "1".into(),
        realm: "r".into(),
        address: String::new(),
        ..v1::CoordinatorHello::default()
    };
    let documents = vec![v1::Document { name: "one.xml".into(), text: document(ONE) }];
    let program = v1::Program { digest: program_digest(&documents), documents };
    let job = v1::Job {
        id: Some(v1::AttemptId { process: "Same-0001".into(), element: 7, attempt: 1 }),
        program: program.digest.clone(),
        ..v1::Job::default()
    };
    let order =
        v1::WorkOrder { hello: Some(hello), programs: vec![program], jobs: vec![job], ..v1::WorkOrder::default() };
    // The stream stays open until the answer arrives.
    let orders = tokio_stream::once(order).chain(tokio_stream::pending());
    let mut reports =
        ActivityManagerClient::new(channel.clone()).work(orders).await.expect("it takes work").into_inner();
    while let Some(report) = reports.message().await.expect("the stream holds") {
        if let Some(answer) = report.answers.into_iter().next() {
            return Some(answer);
        }
    }
    None
}

#[test]
fn coordinators_with_equal_ids_do_not_interfere() {
    let mut grid = Grid::new();
    let (manager, worker) = (free_address(), free_address());
    grid.start("a/manager", &manager, &["--roles", "group-manager"]);
    grid.start("a/worker", &worker, &["--roles", "activity-manager", "--join", &manager]);
    grid.wait_for_nodes(&manager, 2);
    block_on(async {
        let channel = connect(&worker).await;
        // Process ids are short, and names of nodes are unique only in their group.
        for group in ["a", "b"] {
            let answer = tokio::time::timeout(std::time::Duration::from_secs(5), attempt(&channel, group)).await;
            let outcome = answer.expect("in time").expect("an answer").outcome;
            assert!(matches!(outcome, Some(v1::answer::Outcome::Completed(_))), "{outcome:?}");
        }
    });
}

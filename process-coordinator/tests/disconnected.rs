//! Clients that go away during a call: what the call began has its consequences all the same.

use std::future::poll_fn;
use std::path::Path;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use tonic::Request;
use xavantes_process_coordinator::{Options, Service};
use xavantes_proto::v1;
use xavantes_proto::v1::process_coordinator_server::ProcessCoordinator;
use xavantes_repository::open_sled;

/// Fails without any activity.
const FAILING: &str = r#"<XAVANTES VERSION="1">
  <PROCESS_TYPE NAME="Main"><BODY><POST_CODE>error("no")</POST_CODE></BODY></PROCESS_TYPE>
</XAVANTES>"#;
/// A client stays for fewer polls of its call than this.
const MAX_POLLS: u32 = 12;
/// A test asks for the state of a process at most this often before it fails.
const MAX_LOOKS: u32 = 500;

async fn coordinator(directory: &Path) -> Service {
    let options = Options {
        node: "node".into(),
        group: "group".into(),
        address: "localhost:1".into(),
        managers: Vec::new(),
        foreign_groups: Vec::new(),
        foreign_slots: 1,
        worker_patience: Duration::from_secs(60),
        retention_age: None,
        retention_size: None,
        reuse_size: 1 << 20,
        process_bytes: 1 << 20,
        processes_bytes: 1 << 30,
        shared: false,
        files: None,
        printed: None,
    };
    let store = open_sled(directory, "node").await.expect("the store opens");
    Service::open(options, store).await.expect("the coordinator opens")
}

/// Polls a call this many times, then drops it. Gives its answer if it came before.
async fn leave_after<T>(polls: u32, call: impl Future<Output = T>) -> Option<T> {
    let (mut call, mut polled) = (pin!(call), 0);
    poll_fn(|context| {
        if polled == polls {
            return Poll::Ready(None);
        }
        polled += 1;
        call.as_mut().poll(context).map(Some)
    })
    .await
}

fn submission(request_id: String) -> Request<v1::SubmitRequest> {
    let documents = vec![v1::Document { name: "a.xml".into(), text: FAILING.into() }];
    Request::new(v1::SubmitRequest { documents, request_id, ..v1::SubmitRequest::default() })
}

fn retry(process: &str) -> Request<v1::SteerRequest> {
    let action = Some(v1::steer_request::Action::Retry(v1::Retry::default()));
    Request::new(v1::SteerRequest { path: process.to_owned(), action, ..v1::SteerRequest::default() })
}

/// Waits until the process has failed.
async fn failed(service: &Service, process: &str) {
    for _ in 0..MAX_LOOKS {
        let request = v1::StatusesRequest { processes: vec![process.to_owned()] };
        let statuses = service.statuses(Request::new(request)).await.expect("the coordinator answers").into_inner();
        if statuses.processes.first().is_some_and(|status| status.state() == v1::State::Failed) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("nobody runs {process}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_submitted_process_runs_also_if_its_client_goes_away() {
    let directory = tempfile::tempdir().expect("there is a directory");
    let service = coordinator(directory.path()).await;
    // So that the coordinator has the program: then the first thing that a call awaits is the new process.
    service.submit(submission(String::new())).await.expect("it is submitted");
    for polls in 1..MAX_POLLS {
        let request = format!("request {polls}");
        let _ = leave_after(polls, service.submit(submission(request.clone()))).await;
        let submitted = service.submit(submission(request)).await.expect("it is submitted").into_inner();
        failed(&service, &submitted.process).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retried_process_runs_also_if_its_client_goes_away() {
    let directory = tempfile::tempdir().expect("there is a directory");
    let service = coordinator(directory.path()).await;
    let submitted = service.submit(submission(String::new())).await.expect("it is submitted").into_inner();
    failed(&service, &submitted.process).await;
    for polls in 1..MAX_POLLS {
        let _ = leave_after(polls, service.steer(retry(&submitted.process))).await;
        failed(&service, &submitted.process).await;
    }
}

//! Many processes at once.

use xavantes_proto::v1;
use xavantes_proto::v1::process_coordinator_client::ProcessCoordinatorClient;
use xavantes_tests::{Grid, is_live, until};

use crate::kit::{assert_counts, document};

const SMALL: &str = r#"
  <PROCESS_TYPE NAME="Small">
    <OUT_PARAMETER TYPE="int" NAME="six"/>
    <BODY>
      <ACTIVITY TYPE="Double" NAME="double" n="3"/>
      <POST_CODE>six = double.result</POST_CODE>
    </BODY>
  </PROCESS_TYPE>
  <ACTIVITY_TYPE NAME="Double">
    <IN_PARAMETER TYPE="int" NAME="n"/>
    <OUT_PARAMETER TYPE="int" NAME="result"/>
    <CODE LANGUAGE="lua">result = 2 * n</CODE>
  </ACTIVITY_TYPE>"#;

const PROCESSES: usize = 1000;
const CLIENTS: usize = 4;

async fn submit(address: String, client: usize) -> usize {
    let mut coordinator = ProcessCoordinatorClient::connect(format!("http://{address}")).await.expect("it is there");
    for number in 0..PROCESSES / CLIENTS {
        let request = v1::SubmitRequest {
            documents: vec![v1::Document { name: "small.xml".into(), text: document(SMALL) }],
            request_id: format!("{client}-{number}"),
            ..v1::SubmitRequest::default()
        };
        let first = coordinator.submit(request.clone()).await.expect("it starts").into_inner();
        if number % 50 == 0 {
            let again = coordinator.submit(request).await.expect("the coordinator knows the request").into_inner();
            assert_eq!(again, first, "a repeated request starts no process");
        }
    }
    PROCESSES / CLIENTS
}

#[test]
fn a_thousand_processes_that_are_submitted_at_once_all_end() {
    let mut grid = Grid::new();
    let address = grid.group("a", &[], &[]);
    for worker in ["a/w1", "a/w2"] {
        grid.worker(worker, &address, &["--slots", "2"]);
    }
    grid.wait_for_nodes(&address, 3);
    let runtime = tokio::runtime::Runtime::new().expect("threads are available");
    let submitted = runtime.block_on(async {
        let clients: Vec<_> = (0..CLIENTS).map(|client| tokio::spawn(submit(address.clone(), client))).collect();
        let mut submitted = 0;
        for client in clients {
            submitted += client.await.expect("no panic");
        }
        submitted
    });
    assert_eq!(submitted, PROCESSES);
    let ended = until("all processes have ended", 60, || {
        let list = grid.cli(&address, &["list"]).ok().json();
        let all = list["processes"].as_array().cloned().expect("a list");
        assert_eq!(all.len(), PROCESSES);
        all.iter().all(|process| !is_live(process)).then_some(all)
    });
    for process in &ended {
        assert_eq!(process["state"], "completed", "{process}");
        assert_counts(process, 1);
    }
    // The coordinator searches and pages: a short list of many processes is short on the wire, too.
    let latest = grid.cli(&address, &["list", "--state", "completed", "--limit", "20"]).ok().json();
    assert_eq!(latest["processes"].as_array().map(|latest| &latest[..]), Some(&ended[..20]));
    assert_eq!(grid.cli(&address, &["list", "--failed"]).ok().json()["processes"], serde_json::json!([]));
    let id = ended[PROCESSES / 2]["process"].as_str().expect("a process has an id");
    assert_eq!(grid.cli(&address, &["results", id]).ok().json()["results"]["six"], 6);
}

//! What it costs that 200 clients watch a process: 200,000 activities that do nothing, with and without them, in turn.
//! Fails if the median of the ratios is above 1.10. The clients run on this machine too, so what they need themselves is
//! in it. Run with `cargo bench -p xavantes-tests --bench watchers`.

mod pairs;

use std::process::ExitCode;

use tokio::runtime::Runtime;
use tokio::task::JoinSet;
use xavantes_proto::v1;
use xavantes_proto::v1::process_coordinator_client::ProcessCoordinatorClient;
use xavantes_tests::{Grid, free_address};

const ACTIVITIES: u64 = 200_000;
const WATCHERS: usize = 200;
const MOST: f64 = 1.10;

/// Reads all changes to the end of the process; tells how many there were, and whether the last one was the end.
async fn watch(mut client: ProcessCoordinatorClient<tonic::transport::Channel>, process: String) -> (u64, bool) {
    let changes =
        client.watch(v1::WatchRequest { process, ..v1::WatchRequest::default() }).await.expect("the process is there");
    let (mut changes, mut count, mut ended) = (changes.into_inner(), 0, false);
    while let Some(status) = changes.message().await.expect("the stream holds") {
        count += 1;
        ended = status.state() == v1::State::Completed;
    }
    (count, ended)
}

async fn clients(address: &str) -> Vec<ProcessCoordinatorClient<tonic::transport::Channel>> {
    let mut clients = Vec::new();
    for _ in 0..WATCHERS {
        clients.push(ProcessCoordinatorClient::connect(format!("http://{address}")).await.expect("the node is there"));
    }
    clients
}

fn main() -> ExitCode {
    let mut grid = Grid::new();
    let file = pairs::document(&mut grid, pairs::NOTHING);
    let address = free_address();
    grid.start("a/node", &address, &["--in-memory"]);
    let runtime = Runtime::new().expect("there are threads");
    let clients = runtime.block_on(clients(&address));
    let mut watched = || {
        let process = pairs::submit(&grid, &address, &file, ACTIVITIES);
        let mut watchers = JoinSet::new();
        for client in &clients {
            watchers.spawn_on(watch(client.clone(), process.clone()), runtime.handle());
        }
        let seen = runtime.block_on(watchers.join_all());
        assert!(seen.iter().all(|(_, ended)| *ended), "each watcher sees the end");
        print!("({} changes seen) ", seen.iter().map(|(count, _)| count).sum::<u64>());
        pairs::seconds(&grid, &address, &process, ACTIVITIES)
    };
    pairs::compare(
        ("nobody watches", &mut || pairs::run(&grid, &address, &file, ACTIVITIES)),
        ("200 watch", &mut watched),
        MOST,
    )
}

//! Hostile peers on the real protocol: clients, workers, coordinators and group managers that send what no honest peer sends.
//! The attacks are in `tests/attacks`, one file for each class.

pub mod fake_worker;

use tonic::transport::Channel;

/// Runs asynchronous work on a runtime of its own.
pub fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Runtime::new().expect("threads are available").block_on(work)
}

/// Connects to a node.
pub async fn connect(address: &str) -> Channel {
    let endpoint = Channel::from_shared(format!("http://{address}")).expect("it is an address");
    endpoint.connect().await.expect("the node is there")
}

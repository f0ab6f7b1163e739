//! Hostile peers on the real protocol: clients, workers, coordinators and group managers that send what no honest peer sends.
//! The attacks are in `tests/attacks`, one file for each class.
//!
//! | module | contents |
//! |---|---|
//! | `client` | calls of a user, without the checks of the command |
//! | `fake_coordinator` | streams of orders to workers and coordinators |
//! | `fake_manager` | a group manager that sends any roster, and the neighbour of a real one |
//! | `fake_node` | a node that joins a group with any description |
//! | `fake_worker` | a worker that a real coordinator connects to |
//! | `raw` | connections that send nothing, or half of something |

pub mod client;
pub mod fake_coordinator;
pub mod fake_manager;
pub mod fake_node;
pub mod fake_worker;
pub mod raw;

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

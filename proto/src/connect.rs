//! How nodes and clients reach each other.

use std::time::Duration;

use tonic::transport::{Channel, Endpoint, Error};
use tonic::{Response, Status};

/// How long a connection may take to be made.
const CONNECT: Duration = Duration::from_secs(2);
/// A peer that does not answer a sign of life for so long is gone.
const ALIVE: Duration = Duration::from_secs(5);
/// How long a question may take to be answered.
const QUESTION: Duration = Duration::from_secs(30);

/// Connects to a node, `host:port`. The connection breaks when the other side is silent.
pub async fn connect(address: &str) -> Result<Channel, Error> {
    Endpoint::from_shared(format!("http://{address}"))?
        .connect_timeout(CONNECT)
        .tcp_nodelay(true)
        .http2_keep_alive_interval(ALIVE)
        .keep_alive_timeout(ALIVE)
        .keep_alive_while_idle(true)
        .connect()
        .await
}

/// Waits for the answer to a question, but not for ever.
pub async fn question<T>(asked: impl Future<Output = Result<Response<T>, Status>>) -> Result<T, Status> {
    match tokio::time::timeout(QUESTION, asked).await {
        Ok(answer) => answer.map(Response::into_inner),
        Err(_) => Err(Status::deadline_exceeded(format!("no answer within {} seconds", QUESTION.as_secs()))),
    }
}

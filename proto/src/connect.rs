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

/// So much may be on its way in a stream of a connection for files, and of all of them together, before the other side
/// has to read: with less, a sender waits for the reader at each chunk.
const WINDOW: u32 = 4 << 20;

fn endpoint(address: &str) -> Result<Endpoint, Error> {
    Ok(Endpoint::from_shared(format!("http://{address}"))?
        .connect_timeout(CONNECT)
        .tcp_nodelay(true)
        .http2_keep_alive_interval(ALIVE)
        .keep_alive_timeout(ALIVE)
        .keep_alive_while_idle(true))
}

/// Connects to a node, `host:port`. The connection breaks when the other side is silent.
pub async fn connect(address: &str) -> Result<Channel, Error> {
    endpoint(address)?.connect().await
}

/// The same, for much data.
pub async fn connect_bulk(address: &str) -> Result<Channel, Error> {
    endpoint(address)?.initial_stream_window_size(WINDOW).initial_connection_window_size(2 * WINDOW).connect().await
}

/// Waits for the answer to a question, but not for ever.
pub async fn question<T>(asked: impl Future<Output = Result<Response<T>, Status>>) -> Result<T, Status> {
    match tokio::time::timeout(QUESTION, asked).await {
        Ok(answer) => answer.map(Response::into_inner),
        Err(_) => Err(Status::deadline_exceeded(format!("no answer within {} seconds", QUESTION.as_secs()))),
    }
}

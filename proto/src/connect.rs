//! Connections between nodes, and between clients and nodes.

use std::borrow::Cow;
use std::error::Error as _;
use std::time::Duration;

use tonic::transport::{Channel, Endpoint, Error};
use tonic::{Code, Response, Status, Streaming};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// Interval of keep-alive pings, and the time within which the peer must answer one. Otherwise the connection breaks.
const KEEP_ALIVE: Duration = Duration::from_secs(5);
/// Upper bound on the time that a unary call may take.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);
/// Upper bound on the time in which a peer that opens a stream must send its first message.
const FIRST_MESSAGE_TIMEOUT: Duration = Duration::from_secs(30);

/// HTTP/2 window of a stream that carries files. With a smaller window the sender waits for the reader at each chunk.
const BULK_WINDOW_BYTES: u32 = 4 << 20;

fn endpoint(address: &str) -> Result<Endpoint, Error> {
    Ok(Endpoint::from_shared(format!("http://{address}"))?
        .connect_timeout(CONNECT_TIMEOUT)
        .tcp_nodelay(true)
        .http2_keep_alive_interval(KEEP_ALIVE)
        .keep_alive_timeout(KEEP_ALIVE)
        .keep_alive_while_idle(true))
}

/// Connects to a node, `host:port`. The connection breaks when the node does not answer keep-alive pings.
pub async fn connect(address: &str) -> Result<Channel, Error> {
    endpoint(address)?.connect().await
}

/// Connects to a node for the transfer of files.
pub async fn connect_bulk(address: &str) -> Result<Channel, Error> {
    let endpoint = endpoint(address)?.initial_stream_window_size(BULK_WINDOW_BYTES);
    endpoint.initial_connection_window_size(2 * BULK_WINDOW_BYTES).connect().await
}

/// The first message of a stream that a peer has opened. A peer that sends none in time holds nothing here.
pub async fn first_message<M>(stream: &mut Streaming<M>, name: &str) -> Result<M, Status> {
    match tokio::time::timeout(FIRST_MESSAGE_TIMEOUT, stream.message()).await {
        Ok(first) => first?.ok_or_else(|| Status::invalid_argument(format!("the stream has no first {name}"))),
        Err(_) => {
            let seconds = FIRST_MESSAGE_TIMEOUT.as_secs();
            Err(Status::deadline_exceeded(format!("no first {name} within {seconds} seconds")))
        }
    }
}

/// Awaits the answer to a call for a limited time.
pub async fn call_with_timeout<T>(call: impl Future<Output = Result<Response<T>, Status>>) -> Result<T, Status> {
    match tokio::time::timeout(CALL_TIMEOUT, call).await {
        Ok(answer) => answer.map(Response::into_inner),
        Err(_) => Err(Status::deadline_exceeded(format!("no answer within {} seconds", CALL_TIMEOUT.as_secs()))),
    }
}

/// Why a call failed, as people read it: the words of the node that answered, or what is known of a call without an answer.
pub fn status_text(status: &Status) -> Cow<'_, str> {
    if status.code() == Code::Unimplemented {
        // The words of the library, which name the call.
        return "the node does not know this call: it lacks the role that answers it, or runs another version of xavantes"
            .into();
    }
    if status.source().is_some() {
        return "the connection broke".into();
    }
    match status.message() {
        "" => "the node refused without a reason".into(),
        message => message.into(),
    }
}

/// Why a connection could not be opened, with all causes.
pub fn transport_text(error: &Error) -> String {
    let mut causes = Vec::new();
    let mut next = error.source();
    while let Some(cause) = next {
        causes.push(cause.to_string());
        next = cause.source();
    }
    causes.dedup();
    match causes.pop() {
        Some(root) => format!("cannot connect: {root}"),
        None => "cannot connect".to_owned(),
    }
}

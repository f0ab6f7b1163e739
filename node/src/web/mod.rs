//! Metrics and health of a node over HTTP, for machines that watch it.
//!
//! The server has few connections at once, one request in each, and closes each after a short time: it answers short questions
//! of few clients. When it has too many, it closes the oldest one, so that no client keeps others out.
//!
//! | path | answer |
//! |---|---|
//! | `/metrics` | all metrics in the text format of Prometheus |
//! | `/healthz` | the roles that the node serves |

mod measured;

pub(crate) use measured::Measured;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use axum::routing::get;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::task::AbortHandle;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::error::Error;
use crate::listener::Listener;

/// Upper bound on the connections at once.
const MAX_CONNECTIONS: usize = 64;
/// A client that sends no whole request within this time is disconnected.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// Upper bound on the time of a connection, the answer included.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(20);
/// Pause after an error of `accept`.
const ERROR_PAUSE: Duration = Duration::from_millis(100);

/// Serves at this address until `stop` is cancelled.
pub(crate) async fn serve(address: SocketAddr, measured: Measured, stop: CancellationToken) -> Result<(), Error> {
    let listener = Listener::bind_web(address).await?;
    let router = Router::new()
        .route("/metrics", get(metrics))
        .route("/healthz", get(health))
        .fallback(async || (axum::http::StatusCode::NOT_FOUND, "the node offers /metrics and /healthz here\n"))
        .with_state(Arc::new(measured));
    info!(web = %listener.address(), "metrics and health are served over HTTP");
    let listener = listener.share()?;
    tokio::spawn(async move { stop.run_until_cancelled(accept(listener, router)).await });
    Ok(())
}

async fn accept(listener: TcpListener, router: Router) {
    let mut connections = VecDeque::new();
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                warn!(%error, "cannot accept connections of web clients");
                tokio::time::sleep(ERROR_PAUSE).await;
                continue;
            }
        };
        connections.retain(|connection: &AbortHandle| !connection.is_finished());
        if connections.len() >= MAX_CONNECTIONS
            && let Some(oldest) = connections.pop_front()
        {
            oldest.abort();
        }
        let service = TowerToHyperService::new(router.clone());
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(REQUEST_TIMEOUT)
            .keep_alive(false)
            .serve_connection(TokioIo::new(stream), service);
        // A client that breaks off is none of our business.
        let served = tokio::spawn(async move { drop(tokio::time::timeout(CONNECTION_TIMEOUT, connection).await) });
        connections.push_back(served.abort_handle());
    }
}

async fn metrics(State(measured): State<Arc<Measured>>) -> impl IntoResponse {
    measured.measure();
    ([(CONTENT_TYPE, xavantes_telemetry::MEDIA_TYPE)], xavantes_telemetry::render())
}

async fn health(State(measured): State<Arc<Measured>>) -> String {
    format!("serving: {}\n", measured.roles().join(", "))
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;

    use super::*;

    #[tokio::test]
    async fn idle_clients_keep_nobody_out() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("the machine has a loopback interface");
        let address = listener.local_addr().expect("it is bound");
        let router = Router::new().route("/healthz", get(async || "serving\n"));
        tokio::spawn(accept(listener, router));
        let mut idle = Vec::new();
        for _ in 0..MAX_CONNECTIONS {
            idle.push(TcpStream::connect(address).await.expect("it listens"));
        }
        let mut client = TcpStream::connect(address).await.expect("it listens");
        client.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n").await.expect("it listens");
        let mut answer = String::new();
        // The server closes the connection after its answer.
        client.read_to_string(&mut answer).await.expect("it answers");
        assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("serving\n"), "{answer}");
        let mut oldest = [0; 1];
        assert_eq!(idle[0].read(&mut oldest).await.expect("it is closed in order"), 0);
    }
}

//! Metrics and health of a node over HTTP, for machines that watch it.
//!
//! The server has few connections at once, and closes each after a short time: it answers short questions of few clients.
//!
//! | path | answer |
//! |---|---|
//! | `/metrics` | all metrics in the text format of Prometheus |
//! | `/healthz` | the roles that the node serves |

mod measured;

pub(crate) use measured::Measured;

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
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::error::Error;
use crate::listener::Listener;

/// Upper bound on the connections at once.
const MAX_CONNECTIONS: usize = 64;
/// A client that sends no whole request within this time is disconnected.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// Upper bound on the time of a connection. Clients connect again.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(120);
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
    let connections = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        // The semaphore is never closed.
        let Ok(permit) = connections.clone().acquire_owned().await else { return };
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                warn!(%error, "cannot accept connections of web clients");
                tokio::time::sleep(ERROR_PAUSE).await;
                continue;
            }
        };
        let service = TowerToHyperService::new(router.clone());
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(REQUEST_TIMEOUT)
            .serve_connection(TokioIo::new(stream), service);
        tokio::spawn(async move {
            // A client that breaks off is none of our business.
            let _ = tokio::time::timeout(CONNECTION_TIMEOUT, connection).await;
            drop(permit);
        });
    }
}

async fn metrics(State(measured): State<Arc<Measured>>) -> impl IntoResponse {
    measured.measure();
    ([(CONTENT_TYPE, xavantes_telemetry::MEDIA_TYPE)], xavantes_telemetry::render())
}

async fn health(State(measured): State<Arc<Measured>>) -> String {
    format!("serving: {}\n", measured.roles().join(", "))
}

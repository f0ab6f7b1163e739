//! New connections. Errors of `accept`, such as too many open files, are logged and do not keep the node busy.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tracing::warn;

use super::connection_bytes::GuardedStream;
use super::connection_table::{ConnectionEnds, ConnectionRefusal, ConnectionTable};

/// Pause after an error of `accept`.
const ERROR_PAUSE: Duration = Duration::from_millis(100);
/// Interval of log lines about refused connections.
const LOG_INTERVAL: Duration = Duration::from_secs(10);
/// Connections that wait for the server.
const MAX_QUEUED: usize = 16;

/// Accepts connections, at most `limit` at once, until the server stops.
pub(crate) fn incoming(listener: TcpListener, limit: usize) -> ReceiverStream<std::io::Result<GuardedStream>> {
    let (sender, receiver) = mpsc::channel(MAX_QUEUED);
    tokio::spawn(async move {
        let table = Arc::new(Mutex::new(ConnectionTable::new(limit)));
        let mut refused = RefusalLog::new(limit);
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = sender.closed() => return,
            };
            let (stream, remote) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    // A connection that gives way frees a descriptor.
                    let gave_way = table.lock().close_idle(None, Instant::now()).is_some();
                    refused.log(|count| warn!(%error, count, gave_way, "cannot accept connections"));
                    tokio::time::sleep(ERROR_PAUSE).await;
                    continue;
                }
            };
            let connection = match table.lock().add(remote.ip(), Instant::now()) {
                Ok(connection) => connection,
                Err(refusal) => {
                    let limit = refused.limit_of(refusal);
                    refused.log(
                        |count| warn!(%remote, count, limit, ?refusal, "refused connections: too many are in use"),
                    );
                    continue;
                }
            };
            // Only the latency suffers without it.
            let _ = stream.set_nodelay(true);
            let end = ConnectionEnds { table: table.clone(), number: connection.number };
            if sender.send(Ok(GuardedStream::new(stream, remote, connection, end))).await.is_err() {
                return;
            }
        }
    });
    ReceiverStream::new(receiver)
}

/// Counts refused connections between two log lines.
struct RefusalLog {
    limit: usize,
    count: u64,
    last: Option<Instant>,
}

impl RefusalLog {
    fn new(limit: usize) -> Self {
        Self { limit, count: 0, last: None }
    }

    fn limit_of(&self, refusal: ConnectionRefusal) -> usize {
        match refusal {
            ConnectionRefusal::OfAddress => self.limit.div_ceil(2),
            ConnectionRefusal::OfAll => self.limit,
        }
    }

    /// Counts a refusal. Calls `line` with the number of refusals since the last line, unless that was a moment ago.
    fn log(&mut self, line: impl FnOnce(u64)) {
        self.count += 1;
        if self.last.is_none_or(|last| last.elapsed() > LOG_INTERVAL) {
            line(std::mem::take(&mut self.count));
            self.last = Some(Instant::now());
        }
    }
}

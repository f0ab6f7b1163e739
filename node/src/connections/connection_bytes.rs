//! The bytes of one connection. It must begin with HTTP/2 within a few seconds. While it has no call, the node may close it.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Sleep;
use tonic::transport::server::Connected;

use super::connection_table::ConnectionEnds;
use super::peer_connection::Connection;

/// Upper bound on the time in which a connection must send the beginning of HTTP/2.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Length of the beginning of HTTP/2.
const PREFACE_BYTES: usize = 24;

/// The connection and the address of the peer, as calls see them.
#[derive(Debug, Clone)]
pub(crate) struct PeerConnection {
    pub(super) connection: Arc<Connection>,
    pub(super) remote: SocketAddr,
}

/// The stream of a connection.
pub(crate) struct GuardedStream {
    stream: TcpStream,
    remote: SocketAddr,
    connection: Arc<Connection>,
    /// Set until the beginning of HTTP/2 has arrived.
    handshake: Option<Handshake>,
    _end: ConnectionEnds,
}

struct Handshake {
    timeout: Pin<Box<Sleep>>,
    missing_bytes: usize,
}

impl GuardedStream {
    pub(super) fn new(stream: TcpStream, remote: SocketAddr, connection: Arc<Connection>, end: ConnectionEnds) -> Self {
        let timeout = Box::pin(tokio::time::sleep(HANDSHAKE_TIMEOUT));
        let handshake = Some(Handshake { timeout, missing_bytes: PREFACE_BYTES });
        Self { stream, remote, connection, handshake, _end: end }
    }
}

impl Connected for GuardedStream {
    type ConnectInfo = PeerConnection;

    fn connect_info(&self) -> PeerConnection {
        PeerConnection { connection: self.connection.clone(), remote: self.remote }
    }
}

impl AsyncRead for GuardedStream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let before = buffer.filled().len();
        let read = Pin::new(&mut this.stream).poll_read(cx, buffer);
        if read.is_pending() {
            // Stored before the check, so that a close after the check wakes this task.
            this.connection.set_reader(cx.waker());
            if let Some(handshake) = &mut this.handshake
                && handshake.timeout.as_mut().poll(cx).is_ready()
            {
                return Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "no HTTP/2 in time")));
            }
        } else if let Some(handshake) = &mut this.handshake {
            let count = buffer.filled().len() - before;
            handshake.missing_bytes = handshake.missing_bytes.saturating_sub(count);
            if handshake.missing_bytes == 0 {
                this.handshake = None;
            }
        }
        if this.connection.is_closed() {
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::ConnectionAborted, "the connection gave way")));
        }
        read
    }
}

impl AsyncWrite for GuardedStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

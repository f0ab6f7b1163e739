//! The address that a node listens on. Several servers can follow each other on it, and no client is refused in between.

use std::net::SocketAddr;

use tokio::net::TcpListener;

use crate::error::Error;

/// A bound address.
pub(crate) struct Listener {
    socket: std::net::TcpListener,
    address: SocketAddr,
}

impl Listener {
    /// Binds the address of the node.
    pub(crate) async fn bind(wanted: SocketAddr) -> Result<Self, Error> {
        Self::bind_for("--listen", wanted).await
    }

    /// Binds the address for web clients.
    pub(crate) async fn bind_web(wanted: SocketAddr) -> Result<Self, Error> {
        Self::bind_for("--web", wanted).await
    }

    async fn bind_for(flag: &'static str, wanted: SocketAddr) -> Result<Self, Error> {
        let failed = |cause: std::io::Error| match cause.kind() {
            std::io::ErrorKind::AddrInUse => Error::AddressInUse { address: wanted, flag },
            _ => Error::Listen { address: wanted, cause },
        };
        let listener = TcpListener::bind(wanted).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Self { socket: listener.into_std().map_err(failed)?, address })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The same socket for one more server.
    pub(crate) fn share(&self) -> Result<TcpListener, Error> {
        let shared = self.socket.try_clone().and_then(TcpListener::from_std);
        shared.map_err(|cause| Error::Listen { address: self.address, cause })
    }
}

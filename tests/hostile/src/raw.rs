//! Connections that send nothing, or half of something.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// How an HTTP/2 client begins.
pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// An empty SETTINGS frame.
pub const SETTINGS: &[u8] = &[0, 0, 0, 4, 0, 0, 0, 0, 0];

/// Opens connections that send these bytes and then nothing.
pub async fn connections(address: &str, count: usize, bytes: &[u8]) -> Vec<TcpStream> {
    let mut open = Vec::with_capacity(count);
    for _ in 0..count {
        if let Ok(mut stream) = TcpStream::connect(address).await {
            // The node may have closed the connection already.
            let _ = stream.write_all(bytes).await;
            open.push(stream);
        }
    }
    open
}

/// Reads until the node closes the connection.
pub async fn wait_for_end(stream: &mut TcpStream) {
    let mut bytes = [0; 4096];
    while let Ok(1..) = stream.read(&mut bytes).await {}
}

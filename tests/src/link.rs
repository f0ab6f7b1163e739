//! A proxy between two nodes that counts bytes and can be cut.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A proxy to an address. It listens until the program ends.
#[derive(Debug)]
pub struct TestLink {
    address: String,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    bytes_there: AtomicU64,
    bytes_back: AtomicU64,
    connections: Mutex<Connections>,
}

/// The open connections, with both ends of each.
#[derive(Debug, Default)]
struct Connections {
    cut: bool,
    next: u64,
    open: HashMap<u64, [TcpStream; 2]>,
}

impl TestLink {
    /// A link to a node that listens at this address now or later.
    pub fn to(address: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let own = listener.local_addr().expect("a bound listener has an address").to_string();
        let shared = Arc::new(Shared::default());
        let link = Self { address: own, shared: shared.clone() };
        let to = address.to_owned();
        std::thread::spawn(move || {
            for from in listener.incoming().flatten() {
                // An error closes the connection: no node listens, or the link is cut.
                let _ = shared.connect(from, &to);
            }
        });
        link
    }

    /// The address at which the link accepts connections.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Bytes sent to the node, and back.
    pub fn traffic(&self) -> (u64, u64) {
        (self.shared.bytes_there.load(Ordering::SeqCst), self.shared.bytes_back.load(Ordering::SeqCst))
    }

    /// Closes all connections, and refuses new ones until [`TestLink::mend`].
    pub fn cut(&self) {
        let mut connections = self.shared.connections();
        connections.cut = true;
        connections.open.drain().for_each(|(_, ends)| close(&ends));
    }

    /// Accepts connections again.
    pub fn mend(&self) {
        self.shared.connections().cut = false;
    }
}

impl Shared {
    fn connections(&self) -> MutexGuard<'_, Connections> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn connect(self: &Arc<Self>, from: TcpStream, to: &str) -> std::io::Result<()> {
        let to = TcpStream::connect(to)?;
        from.set_nodelay(true)?;
        to.set_nodelay(true)?;
        let ends = [from.try_clone()?, to.try_clone()?];
        let (from_too, to_too) = (from.try_clone()?, to.try_clone()?);
        let mut connections = self.connections();
        if connections.cut {
            return Ok(());
        }
        let number = connections.next;
        connections.next += 1;
        connections.open.insert(number, ends);
        drop(connections);
        let (there, back) = (self.clone(), self.clone());
        std::thread::spawn(move || there.pass(number, from, to, &there.bytes_there));
        std::thread::spawn(move || back.pass(number, to_too, from_too, &back.bytes_back));
        Ok(())
    }

    fn pass(&self, number: u64, mut from: TcpStream, mut to: TcpStream, count: &AtomicU64) {
        let mut buffer = [0; 16 << 10];
        while let Ok(bytes @ 1..) = from.read(&mut buffer) {
            count.fetch_add(bytes as u64, Ordering::SeqCst);
            if to.write_all(&buffer[..bytes]).is_err() {
                break;
            }
        }
        if let Some(ends) = self.connections().open.remove(&number) {
            close(&ends);
        }
    }
}

fn close(ends: &[TcpStream; 2]) {
    for stream in ends {
        let _ = stream.shutdown(Shutdown::Both);
    }
}

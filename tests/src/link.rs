//! What stands between two nodes: it passes on what comes in, counts it, and can be cut.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A way to an address. It stays open to the end of the program.
#[derive(Debug)]
pub struct Link {
    address: String,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    there: AtomicU64,
    back: AtomicU64,
    lines: Mutex<Lines>,
}

/// The connections that are open, both ends of each.
#[derive(Debug, Default)]
struct Lines {
    cut: bool,
    next: u64,
    open: HashMap<u64, [TcpStream; 2]>,
}

impl Link {
    /// A link to whoever listens there, now or later.
    pub fn to(address: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("there are free ports");
        let own = listener.local_addr().expect("it has an address").to_string();
        let shared = Arc::new(Shared::default());
        let link = Self { address: own, shared: shared.clone() };
        let to = address.to_owned();
        std::thread::spawn(move || {
            for from in listener.incoming().flatten() {
                // If nobody is there, or the link is cut, the connection ends here.
                let _ = shared.connect(from, &to);
            }
        });
        link
    }

    /// Where it begins.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Bytes that went to the other side, and back.
    pub fn traffic(&self) -> (u64, u64) {
        (self.shared.there.load(Ordering::SeqCst), self.shared.back.load(Ordering::SeqCst))
    }

    /// Breaks all connections, and lets none through until it is mended.
    pub fn cut(&self) {
        let mut lines = self.shared.lines();
        lines.cut = true;
        lines.open.drain().for_each(|(_, ends)| end(&ends));
    }

    /// Lets connections through again.
    pub fn mend(&self) {
        self.shared.lines().cut = false;
    }
}

impl Shared {
    fn lines(&self) -> MutexGuard<'_, Lines> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn connect(self: &Arc<Self>, from: TcpStream, to: &str) -> std::io::Result<()> {
        let to = TcpStream::connect(to)?;
        from.set_nodelay(true)?;
        to.set_nodelay(true)?;
        let ends = [from.try_clone()?, to.try_clone()?];
        let (from_too, to_too) = (from.try_clone()?, to.try_clone()?);
        let mut lines = self.lines();
        if lines.cut {
            return Ok(());
        }
        let number = lines.next;
        lines.next += 1;
        lines.open.insert(number, ends);
        drop(lines);
        let (there, back) = (self.clone(), self.clone());
        std::thread::spawn(move || there.pass(number, from, to, &there.there));
        std::thread::spawn(move || back.pass(number, to_too, from_too, &back.back));
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
        if let Some(ends) = self.lines().open.remove(&number) {
            end(&ends);
        }
    }
}

fn end(ends: &[TcpStream; 2]) {
    for stream in ends {
        let _ = stream.shutdown(Shutdown::Both);
    }
}

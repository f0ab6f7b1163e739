//! The open connections. One address may have half of all connections. When there are too many, the one that gives way is
//! the one that has had no call for the longest time. Without I/O: the time is passed in.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::peer_connection::Connection;

/// A connection without a call for this long may give way. A new one needs a moment to make its first call.
const MIN_IDLE: Duration = Duration::from_secs(1);

/// Why a connection is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConnectionRefusal {
    /// The address has as many connections as one address may have, and all are in use.
    OfAddress,
    /// There are as many connections as there may be, and all are in use.
    OfAll,
}

/// The open connections.
#[derive(Debug)]
pub(crate) struct ConnectionTable {
    limit: usize,
    limit_of_address: usize,
    next: u64,
    open: HashMap<u64, Arc<Connection>>,
    of_address: HashMap<IpAddr, usize>,
}

impl ConnectionTable {
    /// A table for at most `limit` connections.
    pub(crate) fn new(limit: usize) -> Self {
        let limit_of_address = limit.div_ceil(2);
        Self { limit, limit_of_address, next: 0, open: HashMap::new(), of_address: HashMap::new() }
    }

    /// Adds a connection. If there are too many, another one gives way, or this one is refused.
    pub(crate) fn add(&mut self, address: IpAddr, now: Instant) -> Result<Arc<Connection>, ConnectionRefusal> {
        if self.of_address.get(&address).is_some_and(|count| *count >= self.limit_of_address) {
            self.close_idle(Some(address), now).ok_or(ConnectionRefusal::OfAddress)?;
        } else if self.open.len() >= self.limit {
            self.close_idle(None, now).ok_or(ConnectionRefusal::OfAll)?;
        }
        self.next += 1;
        let connection = Arc::new(Connection::new(self.next, address, now));
        self.open.insert(self.next, connection.clone());
        *self.of_address.entry(address).or_default() += 1;
        Ok(connection)
    }

    /// Closes the connection, of this address if it is given, that has had no call for the longest time.
    pub(crate) fn close_idle(&mut self, address: Option<IpAddr>, now: Instant) -> Option<()> {
        let candidates = self.open.values().filter(|it| address.is_none_or(|address| it.address == address));
        let idle = candidates.filter_map(|it| Some((it.idle_since()?, it.number)));
        let (since, number) = idle.min()?;
        if now.saturating_duration_since(since) < MIN_IDLE {
            return None;
        }
        self.open.get(&number)?.close();
        self.remove(number);
        Some(())
    }

    /// A connection has ended.
    pub(crate) fn remove(&mut self, number: u64) {
        let Some(connection) = self.open.remove(&number) else { return };
        if let Some(count) = self.of_address.get_mut(&connection.address) {
            *count -= 1;
            if *count == 0 {
                self.of_address.remove(&connection.address);
            }
        }
    }
}

/// A table that accepted connections share.
pub(super) type SharedTable = Arc<Mutex<ConnectionTable>>;

/// Removes a connection from the table when it is dropped.
pub(super) struct ConnectionEnds {
    pub(super) table: SharedTable,
    pub(super) number: u64,
}

impl Drop for ConnectionEnds {
    fn drop(&mut self) {
        self.table.lock().remove(self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
    const THERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));

    #[test]
    fn idle_connections_give_way_and_busy_ones_stay() {
        let (mut table, start) = (ConnectionTable::new(4), Instant::now());
        let later = |seconds| start + Duration::from_secs(seconds);
        let first = table.add(HERE, start).unwrap();
        let second = table.add(HERE, later(1)).unwrap();
        assert_eq!(table.add(HERE, later(1)).unwrap().number, 3, "the first one gave way");
        assert!(first.is_closed() && !second.is_closed());
        let _call = second.begin_call();
        assert_eq!(table.add(HERE, later(1)).unwrap_err(), ConnectionRefusal::OfAddress, "the third is too new");
        assert_eq!(table.add(HERE, later(3)).unwrap().number, 4, "the third one gave way");
        for number in 5..=6 {
            assert_eq!(table.add(THERE, later(3)).unwrap().number, number, "another address");
        }
        let other: IpAddr = "10.0.0.3".parse().unwrap();
        assert_eq!(table.add(other, later(3)).unwrap_err(), ConnectionRefusal::OfAll);
        assert_eq!(table.add(other, later(9)).unwrap().number, 7);
        for number in 1..=7 {
            table.remove(number);
        }
        assert!(table.open.is_empty() && table.of_address.is_empty());
    }
}

//! Connections to other nodes for fetching objects.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lru::LruCache;
use parking_lot::Mutex;
use tonic::transport::Channel;
use tonic::{Code, Status};
use xavantes_proto::{connect_bulk, transport_text};

/// A node that could not be reached is asked after all others for this long.
const AVOID_TIME: Duration = Duration::from_secs(10);
/// Upper bound on open connections and on remembered unreachable nodes, because nodes come and go.
// The compiler evaluates this `unwrap`.
const MAX_PEERS: NonZeroUsize = NonZeroUsize::new(256).unwrap();

/// The connections of a fetcher, by address.
#[derive(Debug)]
pub(crate) struct Peers {
    channels: Mutex<LruCache<Arc<str>, Channel>>,
    /// When a connection to a node last failed.
    unreachable: Mutex<LruCache<Arc<str>, Instant>>,
}

impl Peers {
    pub fn new() -> Self {
        Self { channels: Mutex::new(LruCache::new(MAX_PEERS)), unreachable: Mutex::new(LruCache::new(MAX_PEERS)) }
    }

    /// The connection to a node, opened if necessary.
    pub async fn channel(&self, address: &Arc<str>) -> Result<Channel, Status> {
        if let Some(channel) = self.channels.lock().get(address) {
            return Ok(channel.clone());
        }
        match connect_bulk(address).await {
            Ok(channel) => {
                self.unreachable.lock().pop(address);
                self.channels.lock().put(address.clone(), channel.clone());
                Ok(channel)
            }
            Err(error) => {
                self.unreachable.lock().put(address.clone(), Instant::now());
                Err(Status::unavailable(transport_text(&error)))
            }
        }
    }

    /// Whether a connection to a node failed a short while ago.
    pub fn is_avoided(&self, address: &Arc<str>) -> bool {
        self.unreachable.lock().peek(address).is_some_and(|since| since.elapsed() < AVOID_TIME)
    }

    /// Closes a connection that may be broken. A node that does not have an object has a working connection.
    pub fn on_error(&self, address: &Arc<str>, status: &Status) {
        if status.code() != Code::NotFound {
            self.channels.lock().pop(address);
        }
    }
}

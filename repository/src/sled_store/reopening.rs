//! Opening the store again after a write of sled failed, because the disk was full for example. sled accepts nothing any more
//! then, and nobody knows how much of the last batch it has kept. The callers of that batch hear that nothing was changed; so
//! the store takes the batch back before it goes on. Meanwhile every other caller hears why it has to wait.

use std::time::{Duration, Instant};

use tokio::sync::mpsc::Receiver;
use tokio::sync::mpsc::error::TryRecvError;
use tokio::sync::oneshot;

use super::database::Database;
use super::open_store;
use super::shared_database::OpenDatabase;
use super::store_writer::{ClosedStore, Writer};
use crate::committer_handle::StoreRequest;
use crate::error::Error;

/// Space that must be free before the store is opened again: a few segments of sled.
const NEEDED_BYTES: u64 = 16 << 20;
/// Time between two tries. Opening reads the whole index, so a disk that stays full is not tried with it.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// Interval at which waiting requests are refused.
const REFUSE_INTERVAL: Duration = Duration::from_millis(20);

/// Why the store was not opened again.
pub(super) enum NotReopened {
    /// It has failed for good.
    Failed(Error),
    /// A request to shut down arrived, or nobody can send requests any more.
    ShutDown(Option<oneshot::Sender<()>>),
}

/// Opens the store again as soon as the disk has room. Refuses all requests that arrive before.
pub(super) fn reopen(
    writer: Writer,
    opened: &OpenDatabase,
    error: &Error,
    requests: &mut Receiver<StoreRequest>,
) -> Result<Writer, NotReopened> {
    tracing::error!(%error, "the repository cannot write");
    // sled releases its files when the last clone is gone.
    opened.close(error.clone());
    let mut closed = writer.close_database();
    let mut tried: Option<Instant> = None;
    loop {
        match requests.try_recv() {
            Ok(request) => {
                if let Some(answer) = request.refuse(error) {
                    return Err(NotReopened::ShutDown(Some(answer)));
                }
                continue;
            }
            Err(TryRecvError::Disconnected) => return Err(NotReopened::ShutDown(None)),
            Err(TryRecvError::Empty) => std::thread::sleep(REFUSE_INTERVAL),
        }
        let is_time = tried.is_none_or(|tried| tried.elapsed() >= RETRY_INTERVAL);
        if !is_time || !closed.directory.has_room_for(NEEDED_BYTES) {
            continue;
        }
        tried = Some(Instant::now());
        match take_back_and_open(&mut closed) {
            Ok(store) => {
                let database = store.database.clone();
                let writer = Writer::reopened(closed, store).map_err(NotReopened::Failed)?;
                opened.open(database);
                tracing::info!("the repository can write again");
                return Ok(writer);
            }
            Err(Error::Unavailable(problem)) => tracing::warn!(problem, "the repository cannot be opened again yet"),
            Err(error) => return Err(NotReopened::Failed(error)),
        }
    }
}

/// Takes the failed batch back, and opens the store as a start would.
fn take_back_and_open(closed: &mut ClosedStore) -> Result<open_store::OpenedStore, Error> {
    let database = Database::open(&closed.directory)?;
    if database.last_commit()? < closed.committed {
        let path = database.file().display().to_string();
        return Err(Error::Broken(format!(
            "the database {path} lacks records that it had acknowledged; restart the node, which saves what can be read"
        )));
    }
    closed.undo.restore(&database, closed.sequence)?;
    drop(database);
    open_store::open(&mut closed.directory)
}

//! Writes the chunks of a transfer to the store on a blocking thread, so that network and disk work at the same time.

use bytes::Bytes;
use tokio::sync::mpsc;

use crate::error::Error;
use crate::store::receive::Receiving;

/// Upper bound on the chunks of one transfer that are buffered between network and disk.
pub(crate) const MAX_BUFFERED_CHUNKS: usize = 4;

pub(crate) struct ChunkWriter {
    /// The position at which the transfer begins.
    pub offset: u64,
    chunks: mpsc::Sender<Bytes>,
    writer: tokio::task::JoinHandle<Result<Box<Receiving>, Error>>,
}

impl ChunkWriter {
    pub fn new(mut receiving: Box<Receiving>) -> Self {
        let (chunks, mut arriving) = mpsc::channel::<Bytes>(MAX_BUFFERED_CHUNKS);
        let offset = receiving.offset();
        let writer = tokio::task::spawn_blocking(move || {
            while let Some(chunk) = arriving.blocking_recv() {
                receiving.write(&chunk)?;
            }
            Ok(receiving)
        });
        Self { offset, chunks, writer }
    }

    /// Queues a chunk. Returns false if an earlier chunk could not be written; [`Self::finish`] returns the error.
    pub async fn write(&self, chunk: Bytes) -> bool {
        self.chunks.send(chunk).await.is_ok()
    }

    /// Writes all queued chunks and ends the transfer.
    pub async fn finish(self) -> Result<(), Error> {
        let cancelled = |_| Error::shutting_down("cannot write to the file store");
        drop(self.chunks);
        let receiving = self.writer.await.map_err(cancelled)??;
        tokio::task::spawn_blocking(move || receiving.finish()).await.map_err(cancelled)?
    }

    /// Writes all queued chunks and interrupts the transfer, so that the next one resumes it.
    pub async fn interrupt(self) {
        drop(self.chunks);
        let _ = self.writer.await;
    }
}

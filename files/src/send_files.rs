//! Uploads files and directories of a user to a node.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Code, Status};
use xavantes_model::digest::Digest;
use xavantes_model::value::{Content, FileRef};
use xavantes_proto::v1::files_client::FilesClient;
use xavantes_proto::{call_with_timeout, v1};

use crate::confined_directory::WorkingDirectory;
use crate::error::Error;
use crate::hash::{CHUNK_BYTES, digest_of};

/// Attempts to resume an upload without progress, before the sender gives up.
const MAX_TRIES: usize = 5;
/// Delay before an upload is resumed.
const RETRY_DELAY: Duration = Duration::from_millis(500);
/// Upper bound on the chunks that are buffered between disk and network.
const MAX_BUFFERED_CHUNKS: usize = 4;

/// A file or directory on the user's machine, with the digests of its content.
#[derive(Debug, Clone)]
pub struct LocalContent {
    name: Arc<str>,
    directory: bool,
    content: Content,
    objects: Vec<SentObject>,
}

#[derive(Debug, Clone)]
struct SentObject {
    digest: Digest,
    size: u64,
    bytes: ObjectBytes,
}

/// The place of an object's bytes.
#[derive(Debug, Clone)]
enum ObjectBytes {
    File(PathBuf),
    Memory(Arc<[u8]>),
}

impl LocalContent {
    /// Reads a file, or all files of a directory, and computes the digests.
    pub fn scan(path: &Path, directory: bool) -> Result<Self, Error> {
        let shown = path.display().to_string();
        let whole = path.canonicalize().map_err(Error::io(format!("cannot read {shown}")))?;
        let name = whole.file_name().and_then(|name| name.to_str());
        let name = name.ok_or_else(|| Error::path(&shown, "has no name that is UTF-8"))?;
        let mut objects = Vec::new();
        let content = if directory {
            let mut read = |path: &str, file: &mut File, _| {
                let (digest, size) = digest_of(file).map_err(Error::io(format!("cannot read {path}")))?;
                objects.push(SentObject { digest, size, bytes: ObjectBytes::File(whole.join(path)) });
                Ok((digest, size))
            };
            let manifest = WorkingDirectory::open(&whole)?.scan_directory("", &mut read)?;
            let (size, bytes) = (manifest.size(), manifest.encode());
            let digest = Digest(*blake3::hash(&bytes).as_bytes());
            objects.push(SentObject { digest, size: bytes.len() as u64, bytes: ObjectBytes::Memory(bytes.into()) });
            Content { digest, size, executable: false, holders: Vec::new() }
        } else {
            let mut read =
                |_: &str, file: &mut File, _| digest_of(file).map_err(Error::io(format!("cannot read {shown}")));
            let folder = whole.parent().ok_or_else(|| Error::path(&shown, "is not a file"))?;
            let file = WorkingDirectory::open(folder)?.scan_file(name, &mut read)?;
            objects.push(SentObject { digest: file.digest, size: file.size, bytes: ObjectBytes::File(whole.clone()) });
            Content { digest: file.digest, size: file.size, executable: file.executable, holders: Vec::new() }
        };
        Ok(Self { name: name.into(), directory, content, objects })
    }

    /// The total size of all objects: the number of bytes to send if the node has none of them.
    pub fn size(&self) -> u64 {
        self.objects.iter().map(|object| object.size).sum()
    }
}

/// Uploads files to one node.
#[derive(Debug, Clone)]
pub struct Sender {
    client: FilesClient<Channel>,
    sent: Arc<AtomicU64>,
}

impl Sender {
    /// A sender to the node at the end of the channel.
    pub fn new(channel: Channel) -> Self {
        Self { client: FilesClient::new(channel), sent: Arc::default() }
    }

    /// Counts the bytes that were sent or that the node had already.
    pub fn sent(&self) -> Arc<AtomicU64> {
        self.sent.clone()
    }

    /// Uploads a file or directory, without the objects that the node has already.
    pub async fn send(&mut self, local: &LocalContent) -> Result<FileRef, Status> {
        let mut content = local.content.clone();
        for object in &local.objects {
            let holder = self.send_object(object).await?;
            content.holders = vec![holder.into()];
        }
        Ok(FileRef { uri: local.name.clone(), directory: local.directory, content: Some(content) })
    }

    async fn send_object(&mut self, object: &SentObject) -> Result<String, Status> {
        let (mut furthest, mut tries) = (None, 0);
        loop {
            let request = v1::OffsetRequest { digest: object.digest.0.to_vec() };
            let there = call_with_timeout(self.client.offset(request)).await?;
            if furthest.is_none() {
                self.sent.fetch_add(there.offset, Ordering::Relaxed);
            }
            if furthest < Some(there.offset) {
                (furthest, tries) = (Some(there.offset), 0);
            }
            match self.put(object, there.offset).await {
                Ok(()) => return Ok(there.holder),
                Err(status) if tries < MAX_TRIES && is_resumable(&status) => {
                    tries += 1;
                    tokio::time::sleep(RETRY_DELAY).await;
                }
                Err(status) => return Err(status),
            }
        }
    }

    async fn put(&mut self, object: &SentObject, offset: u64) -> Result<(), Status> {
        if offset == object.size && offset > 0 {
            return Ok(());
        }
        let (sender, receiver) = mpsc::channel(MAX_BUFFERED_CHUNKS);
        let header = v1::PutHeader { digest: object.digest.0.to_vec(), size: object.size, offset };
        let (bytes, sent) = (object.bytes.clone(), self.sent.clone());
        let reader = tokio::task::spawn_blocking(move || match bytes {
            ObjectBytes::File(path) => send_chunks(File::open(path)?, header, &sender, &sent),
            ObjectBytes::Memory(bytes) => send_chunks(std::io::Cursor::new(bytes), header, &sender, &sent),
        });
        let answer = self.client.put(ReceiverStream::new(receiver)).await;
        if let Ok(Err(cause)) = reader.await {
            return Err(Status::invalid_argument(format!("cannot read the file to upload: {cause}")));
        }
        answer.map(|_| ())
    }
}

/// Whether an upload that ended with this status can be resumed.
fn is_resumable(status: &Status) -> bool {
    matches!(
        status.code(),
        Code::Unavailable | Code::Aborted | Code::FailedPrecondition | Code::Cancelled | Code::Unknown
    )
}

/// Reads an object from the offset of its header on, and queues its chunks.
fn send_chunks(
    mut source: impl Read + Seek,
    header: v1::PutHeader,
    chunks: &mpsc::Sender<v1::PutChunk>,
    sent: &AtomicU64,
) -> std::io::Result<()> {
    source.seek(SeekFrom::Start(header.offset))?;
    let mut header = Some(header);
    loop {
        let mut data = Vec::with_capacity(CHUNK_BYTES);
        source.by_ref().take(CHUNK_BYTES as u64).read_to_end(&mut data)?;
        if data.is_empty() && header.is_none() {
            return Ok(());
        }
        sent.fetch_add(data.len() as u64, Ordering::Relaxed);
        let chunk = Some(v1::Chunk { data: data.into(), ..v1::Chunk::default() });
        // The node ended the call. Its answer says why.
        if chunks.blocking_send(v1::PutChunk { header: header.take(), chunk }).is_err() {
            return Ok(());
        }
    }
}

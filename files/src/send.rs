//! Brings files and directories of a user to a node.

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

use crate::take::{Workplace, digest_of};
use crate::{CHUNK, Error};

/// How often a transfer that broke off goes on without having come further.
const TRIES: usize = 5;
const PAUSE: Duration = Duration::from_millis(500);

/// Something on the user's machine, and what is in it.
#[derive(Debug, Clone)]
pub struct Local {
    name: Arc<str>,
    directory: bool,
    content: Content,
    objects: Vec<Object>,
}

#[derive(Debug, Clone)]
struct Object {
    digest: Digest,
    size: u64,
    bytes: Bytes,
}

#[derive(Debug, Clone)]
enum Bytes {
    File(PathBuf),
    Here(Arc<[u8]>),
}

impl Local {
    /// Looks at a file or directory: reads all of it.
    pub fn look(path: &Path, directory: bool) -> Result<Self, Error> {
        let shown = path.display().to_string();
        let whole = path.canonicalize().map_err(Error::io(format!("cannot read {shown}")))?;
        let name = whole.file_name().and_then(|name| name.to_str());
        let name = name.ok_or_else(|| Error::path(&shown, "has no name that is UTF-8"))?;
        let mut objects = Vec::new();
        let content = if directory {
            let mut keep = |path: &str, file: &mut File, _| {
                let (digest, size) = digest_of(file).map_err(Error::io(format!("cannot read {path}")))?;
                objects.push(Object { digest, size, bytes: Bytes::File(whole.join(path)) });
                Ok((digest, size))
            };
            let (manifest, size) = Workplace::open(&whole)?.look("", &mut keep)?;
            let bytes = manifest.encode();
            let digest = Digest(*blake3::hash(&bytes).as_bytes());
            objects.push(Object { digest, size: bytes.len() as u64, bytes: Bytes::Here(bytes.into()) });
            Content { digest, size, executable: false, holders: Vec::new() }
        } else {
            let mut keep =
                |_: &str, file: &mut File, _| digest_of(file).map_err(Error::io(format!("cannot read {shown}")));
            let folder = whole.parent().ok_or_else(|| Error::path(&shown, "is no file"))?;
            let taken = Workplace::open(folder)?.file(name, &mut keep)?;
            objects.push(Object { digest: taken.digest, size: taken.size, bytes: Bytes::File(whole.clone()) });
            Content { digest: taken.digest, size: taken.size, executable: taken.executable, holders: Vec::new() }
        };
        Ok(Self { name: name.into(), directory, content, objects })
    }

    /// How many bytes are to be sent at most.
    pub fn size(&self) -> u64 {
        self.objects.iter().map(|object| object.size).sum()
    }
}

/// Brings things to one node.
#[derive(Debug, Clone)]
pub struct Sender {
    client: FilesClient<Channel>,
    sent: Arc<AtomicU64>,
}

impl Sender {
    /// To the node at the end of the channel.
    pub fn new(channel: Channel) -> Self {
        Self { client: FilesClient::new(channel), sent: Arc::default() }
    }

    /// How many bytes were sent, or were there already.
    pub fn sent(&self) -> Arc<AtomicU64> {
        self.sent.clone()
    }

    /// Brings something, unless it is there.
    pub async fn send(&mut self, local: &Local) -> Result<FileRef, Status> {
        let mut content = local.content.clone();
        for object in &local.objects {
            let holder = self.object(object).await?;
            content.holders = vec![holder.into()];
        }
        Ok(FileRef { uri: local.name.clone(), directory: local.directory, content: Some(content) })
    }

    async fn object(&mut self, object: &Object) -> Result<String, Status> {
        let (mut best, mut tries) = (None, 0);
        loop {
            let request = v1::OffsetRequest { digest: object.digest.0.to_vec() };
            let there = call_with_timeout(self.client.offset(request)).await?;
            if best.is_none() {
                self.sent.fetch_add(there.offset, Ordering::Relaxed);
            }
            if best < Some(there.offset) {
                (best, tries) = (Some(there.offset), 0);
            }
            match self.put(object, there.offset).await {
                Ok(()) => return Ok(there.holder),
                Err(status) if tries < TRIES && may_go_on(&status) => {
                    tries += 1;
                    tokio::time::sleep(PAUSE).await;
                }
                Err(status) => return Err(status),
            }
        }
    }

    async fn put(&mut self, object: &Object, offset: u64) -> Result<(), Status> {
        if offset == object.size && offset > 0 {
            return Ok(());
        }
        let (sender, receiver) = mpsc::channel(4);
        let header = v1::PutHeader { digest: object.digest.0.to_vec(), size: object.size, offset };
        let (bytes, sent) = (object.bytes.clone(), self.sent.clone());
        let reader = tokio::task::spawn_blocking(move || match bytes {
            Bytes::File(path) => read(File::open(path)?, header, &sender, &sent),
            Bytes::Here(bytes) => read(std::io::Cursor::new(bytes), header, &sender, &sent),
        });
        let answer = self.client.put(ReceiverStream::new(receiver)).await;
        if let Ok(Err(cause)) = reader.await {
            return Err(Status::invalid_argument(format!("cannot read what is to be sent: {cause}")));
        }
        answer.map(|_| ())
    }
}

fn may_go_on(status: &Status) -> bool {
    matches!(
        status.code(),
        Code::Unavailable | Code::Aborted | Code::FailedPrecondition | Code::Cancelled | Code::Unknown
    )
}

fn read(
    mut source: impl Read + Seek,
    header: v1::PutHeader,
    chunks: &mpsc::Sender<v1::PutChunk>,
    sent: &AtomicU64,
) -> std::io::Result<()> {
    source.seek(SeekFrom::Start(header.offset))?;
    let mut header = Some(header);
    loop {
        let mut data = Vec::with_capacity(CHUNK);
        source.by_ref().take(CHUNK as u64).read_to_end(&mut data)?;
        if data.is_empty() && header.is_none() {
            return Ok(());
        }
        sent.fetch_add(data.len() as u64, Ordering::Relaxed);
        let chunk = Some(v1::Chunk { data: data.into(), ..v1::Chunk::default() });
        // Who does not listen any more has answered.
        if chunks.blocking_send(v1::PutChunk { header: header.take(), chunk }).is_err() {
            return Ok(());
        }
    }
}

//! Data sources: data outside the grid that administrators registered with the group manager under a name.
//! `source://name/path` is a file or directory in a source.
//!
//! | registered as | data |
//! |---|---|
//! | `/path` or `file:///path` | a directory that all workers have |
//! | `s3://bucket/prefix?endpoint=…&region=…` | an S3-compatible bucket; the `AWS_…` variables of the worker hold the credentials |
//! | `http://host/path`, `https://host/path` | a tree of files on an HTTP server |

use std::io::Read;
use std::num::NonZeroUsize;
use std::sync::Arc;

use bytes::{Buf, Bytes};
use futures_util::TryStreamExt;
use lru::LruCache;
use object_store::buffered::BufWriter;
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt, parse_url_opts};
use parking_lot::Mutex;
use reqwest::Url;
use tokio::io::AsyncWriteExt;
use tokio::sync::mpsc;
use xavantes_model::digest::Digest;
use xavantes_model::working_path::{check_path, parse_source_uri};
use xavantes_proto::v1::group_manager_client::GroupManagerClient;
use xavantes_proto::{call_with_timeout, connect, v1};

use crate::directory_source::{DirectorySource, SourceEntry, SourceFile};
use crate::directory_stage_out::{StagedOut, store_directory};
use crate::error::Error;
use crate::hash::CHUNK_BYTES;
use crate::manifest::{EntryKind, Manifest, ManifestEntry};
use crate::store::store_state::FileStore;

/// Upper bound on the files whose digest is remembered.
// The compiler evaluates this `unwrap`.
const MAX_REMEMBERED: NonZeroUsize = NonZeroUsize::new(10_000).unwrap();
/// Upper bound on the chunks that are buffered between network and disk.
const MAX_BUFFERED_CHUNKS: usize = 4;

/// The data sources of a group, as a worker uses them; cheap to clone.
#[derive(Debug, Clone)]
pub struct Sources(Arc<SourcesInner>);

#[derive(Debug)]
struct SourcesInner {
    store: FileStore,
    /// Addresses of the managers of the group.
    managers: Vec<String>,
    /// Files that were read, by URI and location. A file is read again only if its version differs.
    remembered: Mutex<LruCache<String, (FileVersion, Digest)>>,
}

/// The metadata of a file in a source that differs after every modification.
#[derive(Debug, Clone, PartialEq, Eq)]
struct FileVersion {
    size: u64,
    modified_ms: i64,
    e_tag: Option<String>,
}

/// A file or directory in a source.
enum SourcePlace {
    /// In a directory of this machine.
    Directory(DirectoryPath),
    /// In an object store or on an HTTP server.
    Remote(SourcePath),
}

/// A file or directory in a source that is a directory of this machine.
struct DirectoryPath {
    source: DirectorySource,
    path: String,
    uri: String,
}

impl DirectoryPath {
    /// The error about a path of the source, with the URI in its place.
    fn error(&self, error: Error) -> Error {
        match error {
            Error::Path { path, why } => match path.strip_prefix(&self.path) {
                Some(below) => Error::path(format!("{}{below}", self.uri), why),
                None => Error::path(&self.uri, format!("cannot be used: {path:?} {why}")),
            },
            other => other,
        }
    }
}

/// A file or directory in an object store or on an HTTP server.
struct SourcePath {
    source: Box<dyn ObjectStore>,
    path: Path,
    uri: String,
}

impl SourcePath {
    fn error(&self, cause: &object_store::Error) -> Error {
        let why = match cause {
            object_store::Error::NotFound { .. } => "is not there".to_owned(),
            other => format!("cannot be used: {other}"),
        };
        Error::path(&self.uri, why)
    }
}

impl Sources {
    /// The data sources of the group of these managers. Files are read into the store.
    pub fn new(store: FileStore, managers: Vec<String>) -> Self {
        // Two cryptography libraries may be linked, so one must be chosen. An error means that the program has chosen.
        let _ = rustls::crypto::ring::default_provider().install_default();
        Self(Arc::new(SourcesInner { store, managers, remembered: Mutex::new(LruCache::new(MAX_REMEMBERED)) }))
    }

    /// Reads a file, or all files below a path, into the store.
    pub async fn read(&self, uri: &str, directory: bool) -> Result<StagedOut, Error> {
        let place = match self.resolve(uri).await? {
            SourcePlace::Remote(place) => place,
            SourcePlace::Directory(place) => {
                let sources = self.clone();
                let read = tokio::task::spawn_blocking(move || {
                    sources.read_local(&place, directory).map_err(|error| place.error(error))
                });
                return read.await.map_err(|_| shutting_down())?;
            }
        };
        if !directory {
            let meta = place.source.head(&place.path).await.map_err(|cause| place.error(&cause))?;
            let digest = self.read_file(&place, &meta).await?;
            return Ok(StagedOut { digest, size: meta.size, executable: false, objects: vec![digest] });
        }
        let found: Vec<ObjectMeta> =
            place.source.list(Some(&place.path)).try_collect().await.map_err(|cause| place.error(&cause))?;
        if found.is_empty() {
            return Err(Error::path(uri, "is not there, or there is nothing in it"));
        }
        let mut entries = Vec::with_capacity(found.len());
        for meta in found {
            let below = meta.location.prefix_match(&place.path).into_iter().flatten();
            let path = below.map(|part| part.as_ref().to_owned()).collect::<Vec<_>>().join("/");
            let digest = self.read_file(&place, &meta).await?;
            entries.push(ManifestEntry { path, kind: EntryKind::File { digest, size: meta.size, executable: false } });
        }
        let store = self.0.store.clone();
        let stored = tokio::task::spawn_blocking(move || store_directory(&store, &Manifest::new(entries)?));
        stored.await.map_err(|_| shutting_down())?
    }

    /// Reads a file, or all files below a path, of a source that is a directory.
    fn read_local(&self, place: &DirectoryPath, directory: bool) -> Result<StagedOut, Error> {
        let DirectoryPath { source, path, uri } = place;
        if !directory {
            let file = source.file(path)?;
            let size = file.size;
            let digest = self.read_local_file(uri.clone(), file)?;
            return Ok(StagedOut { digest, size, executable: false, objects: vec![digest] });
        }
        let mut entries = Vec::new();
        source.visit(path, |entry| {
            entries.push(match entry {
                SourceEntry::File(path, file) => {
                    let size = file.size;
                    let digest = self.read_local_file(format!("{uri}/{path}"), file)?;
                    ManifestEntry { path, kind: EntryKind::File { digest, size, executable: false } }
                }
                SourceEntry::Link(path, target) => ManifestEntry { path, kind: EntryKind::Link(target) },
            });
            Ok(())
        })?;
        if entries.is_empty() {
            return Err(Error::path(path, "has nothing in it"));
        }
        store_directory(&self.0.store, &Manifest::new(entries)?)
    }

    fn read_local_file(&self, uri: String, from: SourceFile) -> Result<Digest, Error> {
        let SourceFile { mut file, size, modified_ms, tag } = from;
        let version = FileVersion { size, modified_ms, e_tag: Some(tag) };
        if let Some(digest) = self.remembered(&uri, &version) {
            return Ok(digest);
        }
        let (digest, read) = self.0.store.add(&mut file, size)?;
        self.remember(uri, version, digest, read)
    }

    /// The digest of a file that was read before in this version, if the store still has it.
    fn remembered(&self, name: &str, version: &FileVersion) -> Option<Digest> {
        let (known, digest) = self.0.remembered.lock().get(name).cloned()?;
        (known == *version && self.0.store.has(&digest)).then_some(digest)
    }

    /// Remembers a file of which this many bytes were read.
    fn remember(&self, name: String, version: FileVersion, digest: Digest, read: u64) -> Result<Digest, Error> {
        if read != version.size {
            return Err(Error::path(name, format!("ended after {read} of {} bytes", version.size)));
        }
        self.0.remembered.lock().put(name, (version, digest));
        Ok(digest)
    }

    /// Reads one file, unless the store has this version of it.
    async fn read_file(&self, place: &SourcePath, meta: &ObjectMeta) -> Result<Digest, Error> {
        let name = format!("{}#{}", place.uri, meta.location);
        let version = FileVersion {
            size: meta.size,
            modified_ms: meta.last_modified.timestamp_millis(),
            e_tag: meta.e_tag.clone(),
        };
        if let Some(digest) = self.remembered(&name, &version) {
            return Ok(digest);
        }
        let mut bytes = place.source.get(&meta.location).await.map_err(|cause| place.error(&cause))?.into_stream();
        let (sender, receiver) = mpsc::channel(MAX_BUFFERED_CHUNKS);
        let (store, size) = (self.0.store.clone(), meta.size);
        let storing =
            tokio::task::spawn_blocking(move || store.add(&mut ChannelReader { receiver, rest: Bytes::new() }, size));
        let read_error = loop {
            match bytes.try_next().await {
                Ok(Some(chunk)) => {
                    // The result of `storing` has the reason.
                    if sender.send(chunk).await.is_err() {
                        break None;
                    }
                }
                Ok(None) => break None,
                Err(cause) => break Some(place.error(&cause)),
            }
        };
        drop(sender);
        let stored = storing.await.map_err(|_| shutting_down())?;
        if let Some(error) = read_error {
            return Err(error);
        }
        let (digest, read) = stored?;
        self.remember(name, version, digest, read)
    }

    /// Writes an object of the store to a file in a source.
    pub async fn write(&self, uri: &str, digest: &Digest) -> Result<(), Error> {
        let place = self.resolve(uri).await?;
        let hold = self.0.store.hold(digest)?;
        let place = match place {
            SourcePlace::Remote(place) => place,
            SourcePlace::Directory(place) => {
                let written = tokio::task::spawn_blocking(move || {
                    let write = |mut file| place.source.write(&place.path, &mut file);
                    hold.open().and_then(write).map_err(|error| place.error(error))
                });
                return written.await.map_err(|_| shutting_down())?;
            }
        };
        let mut file = tokio::fs::File::from_std(hold.open()?);
        let mut writer = BufWriter::new(place.source.into(), place.path.clone());
        let written = async {
            tokio::io::copy_buf(&mut tokio::io::BufReader::with_capacity(CHUNK_BYTES, &mut file), &mut writer).await?;
            writer.shutdown().await
        };
        written.await.map_err(Error::io(format!("cannot write {uri}")))
    }

    /// Opens the source that a URI names.
    async fn resolve(&self, uri: &str) -> Result<SourcePlace, Error> {
        let (name, path) = parse_source_uri(uri).ok_or_else(|| Error::path(uri, "is not a path in a data source"))?;
        check_path(path).map_err(|why| Error::path(uri, why))?;
        let location = self.location(name).await?;
        let wrong = |why: String| Error::Directory(format!("the data source {name:?} cannot be used: {why}"));
        let url = match location.starts_with('/') {
            true => Url::from_directory_path(&location).map_err(|()| wrong(format!("{location:?} is not a path")))?,
            false => Url::parse(&location).map_err(|cause| wrong(cause.to_string()))?,
        };
        if url.scheme() == "file" {
            let root = url.to_file_path().map_err(|()| wrong(format!("{location:?} is not a path")))?;
            let source = DirectorySource::open(&root).map_err(|cause| wrong(cause.to_string()))?;
            return Ok(SourcePlace::Directory(DirectoryPath { source, path: path.to_owned(), uri: uri.to_owned() }));
        }
        let own = url.query_pairs().map(|(key, value)| (key.into_owned(), value.into_owned()));
        let environment = std::env::vars().filter(|(key, _)| key.starts_with("AWS_"));
        let environment = environment.map(|(key, value)| (key.to_lowercase(), value));
        let plain = url.as_str().contains("http:").then(|| ("allow_http".to_owned(), "true".to_owned()));
        let options: Vec<(String, String)> = environment.chain(plain).chain(own).collect();
        let mut bare = url.clone();
        bare.set_query(None);
        let (source, prefix) = parse_url_opts(&bare, options).map_err(|cause| wrong(cause.to_string()))?;
        let whole = path.split('/').fold(prefix, |prefix, name| prefix.join(name));
        Ok(SourcePlace::Remote(SourcePath { source, path: whole, uri: uri.to_owned() }))
    }

    /// The location of a source, from the first manager that knows it.
    async fn location(&self, name: &str) -> Result<String, Error> {
        let mut answered = false;
        for manager in &self.0.managers {
            let Ok(channel) = connect(manager).await else { continue };
            let request = v1::ListSourcesRequest { name: name.to_owned(), ..v1::ListSourcesRequest::default() };
            let asked = call_with_timeout(GroupManagerClient::new(channel).list_sources(request)).await;
            if let Ok(mut answer) = asked {
                answered = true;
                if let Some(location) = answer.sources.remove(name) {
                    return Ok(location);
                }
            }
        }
        Err(Error::Directory(match answered {
            true => {
                format!("there is no data source {name:?}: an administrator registers one with `xavantes sources add`")
            }
            false => format!("no group manager answers; one must say where the data source {name:?} is"),
        }))
    }
}

fn shutting_down() -> Error {
    Error::shutting_down("cannot read a data source")
}

/// Reads the chunks of a channel on a blocking thread.
struct ChannelReader {
    receiver: mpsc::Receiver<Bytes>,
    rest: Bytes,
}

impl Read for ChannelReader {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        while self.rest.is_empty() {
            match self.receiver.blocking_recv() {
                Some(next) => self.rest = next,
                None => return Ok(0),
            }
        }
        let count = buffer.len().min(self.rest.len());
        self.rest.copy_to_slice(&mut buffer[..count]);
        Ok(count)
    }
}

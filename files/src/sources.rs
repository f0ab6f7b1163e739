//! Data outside the grid, which administrators registered with the group manager under a name: a directory, an S3-compatible
//! store, a tree of files on an HTTP server. `source://name/path` is something in it.
//!
//! | registered as | is |
//! |---|---|
//! | `/path` or `file:///path` | a directory that all workers have |
//! | `s3://bucket/prefix?endpoint=…&region=…` | a bucket; who may use it is told by the `AWS_…` variables of the worker |
//! | `http://host/path`, `https://host/path` | files on a server |

use std::collections::HashMap;
use std::io::Read;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::{Buf, Bytes};
use futures_util::TryStreamExt;
use object_store::buffered::BufWriter;
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt, parse_url_opts};
use reqwest::Url;
use tokio::io::AsyncWriteExt;
use tokio::sync::mpsc;
use xavantes_model::digest::Digest;
use xavantes_model::path::{check_path, parse_source_uri};
use xavantes_proto::v1::group_manager_client::GroupManagerClient;
use xavantes_proto::{connect, question, v1};

use crate::manifest::{Entry, EntryKind, Manifest};
use crate::store::Store;
use crate::take::Taken;
use crate::{CHUNK, Error};

/// Of so many things it is remembered what was in them.
const MOST_REMEMBERED: usize = 10_000;

/// The data sources of a group, as a worker uses them; cheap to clone.
#[derive(Debug, Clone)]
pub struct Sources(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    store: Store,
    /// The managers of the group.
    managers: Vec<String>,
    /// What was in something when it was last read, so that it is not read again as long as it is the same.
    remembered: Mutex<HashMap<String, (Version, Digest)>>,
}

/// Tells whether something was changed.
type Version = (u64, i64, Option<String>);

/// A place in a source.
struct Spot {
    source: Box<dyn ObjectStore>,
    path: Path,
    uri: String,
}

impl Spot {
    fn wrong(&self, cause: &object_store::Error) -> Error {
        let why = match cause {
            object_store::Error::NotFound { .. } => "is not there".to_owned(),
            other => format!("cannot be used: {other}"),
        };
        Error::path(&self.uri, why)
    }
}

impl Sources {
    /// Those of a group, read into a store.
    pub fn new(store: Store, managers: Vec<String>) -> Self {
        // Two libraries for cryptography may be linked; this one is used. Another one may have been chosen before.
        let _ = rustls::crypto::ring::default_provider().install_default();
        Self(Arc::new(Inner { store, managers, remembered: Mutex::default() }))
    }

    /// Reads a file, or everything below a path, into the store.
    pub async fn read(&self, uri: &str, directory: bool) -> Result<Taken, Error> {
        let spot = self.spot(uri).await?;
        if !directory {
            let meta = spot.source.head(&spot.path).await.map_err(|cause| spot.wrong(&cause))?;
            let digest = self.file(&spot, &meta).await?;
            return Ok(Taken { digest, size: meta.size, executable: false, objects: vec![digest] });
        }
        let found: Vec<ObjectMeta> =
            spot.source.list(Some(&spot.path)).try_collect().await.map_err(|cause| spot.wrong(&cause))?;
        if found.is_empty() {
            return Err(Error::path(uri, "is not there, or there is nothing in it"));
        }
        let mut entries = Vec::with_capacity(found.len());
        for meta in found {
            let below = meta.location.prefix_match(&spot.path).into_iter().flatten();
            let path = below.map(|part| part.as_ref().to_owned()).collect::<Vec<_>>().join("/");
            let digest = self.file(&spot, &meta).await?;
            entries.push(Entry { path, kind: EntryKind::File { digest, size: meta.size, executable: false } });
        }
        let store = self.0.store.clone();
        let kept = tokio::task::spawn_blocking(move || crate::take::keep_directory(&store, &Manifest::new(entries)?));
        kept.await.map_err(|_| ending())?
    }

    /// Reads one file, unless it is here as it is there.
    async fn file(&self, spot: &Spot, meta: &ObjectMeta) -> Result<Digest, Error> {
        let name = format!("{}#{}", spot.uri, meta.location);
        let version = (meta.size, meta.last_modified.timestamp_millis(), meta.e_tag.clone());
        let before = self.0.remembered.lock().unwrap_or_else(PoisonError::into_inner).get(&name).cloned();
        if let Some((known, digest)) = before
            && known == version
            && self.0.store.has(&digest)
        {
            return Ok(digest);
        }
        let mut bytes = spot.source.get(&meta.location).await.map_err(|cause| spot.wrong(&cause))?.into_stream();
        let (sender, receiver) = mpsc::channel(4);
        let (store, size) = (self.0.store.clone(), meta.size);
        let keeping =
            tokio::task::spawn_blocking(move || store.add(&mut Reader { receiver, rest: Bytes::new() }, size));
        let broken = loop {
            match bytes.try_next().await {
                Ok(Some(chunk)) => {
                    // Why it cannot be kept is told below.
                    if sender.send(chunk).await.is_err() {
                        break None;
                    }
                }
                Ok(None) => break None,
                Err(cause) => break Some(spot.wrong(&cause)),
            }
        };
        drop(sender);
        let kept = keeping.await.map_err(|_| ending())?;
        if let Some(broken) = broken {
            return Err(broken);
        }
        let (digest, read) = kept?;
        if read != size {
            return Err(Error::path(&spot.uri, format!("broke off after {read} of {size} bytes")));
        }
        let mut remembered = self.0.remembered.lock().unwrap_or_else(PoisonError::into_inner);
        if remembered.len() >= MOST_REMEMBERED {
            remembered.clear();
        }
        remembered.insert(name, (version, digest));
        Ok(digest)
    }

    /// Writes an object of the store to a place.
    pub async fn write(&self, uri: &str, digest: &Digest) -> Result<(), Error> {
        let spot = self.spot(uri).await?;
        let hold = self.0.store.hold(digest)?;
        let mut file = tokio::fs::File::from_std(hold.open()?);
        let mut writer = BufWriter::new(spot.source.into(), spot.path.clone());
        let written = async {
            tokio::io::copy_buf(&mut tokio::io::BufReader::with_capacity(CHUNK, &mut file), &mut writer).await?;
            writer.shutdown().await
        };
        written.await.map_err(Error::io(format!("cannot write {uri}")))
    }

    async fn spot(&self, uri: &str) -> Result<Spot, Error> {
        let (name, path) = parse_source_uri(uri).ok_or_else(|| Error::path(uri, "is no place in a data source"))?;
        check_path(path).map_err(|why| Error::path(uri, why))?;
        let place = self.place(name).await?;
        let wrong = |why: String| Error::Directory(format!("the data source {name:?} cannot be used: {why}"));
        let url = match place.starts_with('/') {
            true => Url::from_directory_path(&place).map_err(|()| wrong(format!("{place:?} is no path")))?,
            false => Url::parse(&place).map_err(|cause| wrong(cause.to_string()))?,
        };
        let own = url.query_pairs().map(|(key, value)| (key.into_owned(), value.into_owned()));
        let environment = std::env::vars().filter(|(key, _)| key.starts_with("AWS_"));
        let environment = environment.map(|(key, value)| (key.to_lowercase(), value));
        let plain = url.as_str().contains("http:").then(|| ("allow_http".to_owned(), "true".to_owned()));
        let options: Vec<(String, String)> = environment.chain(plain).chain(own).collect();
        let mut bare = url.clone();
        bare.set_query(None);
        let (source, prefix) = parse_url_opts(&bare, options).map_err(|cause| wrong(cause.to_string()))?;
        let whole = path.split('/').fold(prefix, |prefix, name| prefix.join(name));
        Ok(Spot { source, path: whole, uri: uri.to_owned() })
    }

    /// Where a source is, as the first manager that answers tells.
    async fn place(&self, name: &str) -> Result<String, Error> {
        let mut answered = false;
        for manager in &self.0.managers {
            let Ok(channel) = connect(manager).await else { continue };
            let asked = question(GroupManagerClient::new(channel).list_sources(v1::ListSourcesRequest {})).await;
            if let Ok(mut answer) = asked {
                answered = true;
                if let Some(place) = answer.sources.remove(name) {
                    return Ok(place);
                }
            }
        }
        Err(Error::Directory(match answered {
            true => {
                format!("there is no data source {name:?}: an administrator registers one with `xavantes sources add`")
            }
            false => format!("no group manager tells where the data source {name:?} is"),
        }))
    }
}

fn ending() -> Error {
    Error::Io { what: "cannot read a data source".into(), cause: "the node is ending".into() }
}

/// Reads what comes through a channel.
struct Reader {
    receiver: mpsc::Receiver<Bytes>,
    rest: Bytes,
}

impl Read for Reader {
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

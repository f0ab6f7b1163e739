//! Transfers between nodes, over real connections that break.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use xavantes_files::{
    Error, Fetcher, FileStore, LocalContent, ObjectRequest, Sender, Service, StageIn, TransferCounts, WorkingDirectory,
};
use xavantes_model::digest::Digest;
use xavantes_proto::v1;
use xavantes_proto::v1::files_server::FilesServer;
use xavantes_proto::v1::holder_failure::Kind;

struct Node {
    store: FileStore,
    address: Arc<str>,
    fetcher: Fetcher,
    _folder: TempDir,
}

impl Node {
    async fn start(limit: u64) -> Self {
        let folder = tempfile::tempdir().expect("the disk has space");
        let store = FileStore::open(folder.path(), limit).expect("the folder is writable");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let address: Arc<str> = listener.local_addr().expect("a bound listener has an address").to_string().into();
        let fetcher = Fetcher::new(store.clone(), address.clone());
        let service = FilesServer::new(Service::new(fetcher.clone(), address.clone()));
        tokio::spawn(Server::builder().add_service(service).serve_with_incoming(TcpIncoming::from(listener)));
        Self { store, address, fetcher, _folder: folder }
    }

    fn add(&self, bytes: &[u8]) -> Digest {
        self.store.add(&mut &*bytes, bytes.len() as u64).expect("the disk has space").0
    }

    fn counts(&self) -> TransferCounts {
        self.store.transfer_counts()
    }
}

fn wanted(digest: Digest, holders: &[&Arc<str>]) -> ObjectRequest {
    ObjectRequest { digest, holders: holders.iter().map(|holder| (*holder).clone()).collect(), relays: Vec::new() }
}

/// Pseudo-random bytes.
fn noise(size: usize) -> Vec<u8> {
    let mut bytes = vec![0; size];
    blake3::Hasher::new().update(&size.to_le_bytes()).finalize_xof().fill(&mut bytes);
    bytes
}

/// A proxy to an address that closes each connection after a number of bytes. Returns its address and a counter of closed connections.
async fn breaking_proxy(to: &str, after: u64) -> (Arc<str>, Arc<AtomicU64>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
    let address: Arc<str> = listener.local_addr().expect("a bound listener has an address").to_string().into();
    let (to, broken) = (to.parse::<SocketAddr>().expect("nodes have socket addresses"), Arc::new(AtomicU64::new(0)));
    let count = broken.clone();
    tokio::spawn(async move {
        while let Ok((mut near, _)) = listener.accept().await {
            let count = count.clone();
            tokio::spawn(async move {
                let Ok(mut far) = TcpStream::connect(to).await else { return };
                let (mut near_in, mut near_out) = near.split();
                let (mut far_in, mut far_out) = far.split();
                let back = async {
                    let (mut left, mut buffer) = (after, vec![0; 64 << 10]);
                    while let Ok(read @ 1..) = far_in.read(&mut buffer).await {
                        left = left.saturating_sub(read as u64);
                        if left == 0 {
                            count.fetch_add(1, Ordering::Relaxed);
                            return;
                        }
                        if near_out.write_all(&buffer[..read]).await.is_err() {
                            return;
                        }
                    }
                };
                tokio::select! {
                    _ = tokio::io::copy(&mut near_in, &mut far_out) => {}
                    () = back => {}
                }
            });
        }
    });
    (address, broken)
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_requests_share_one_transfer() {
    let (from, to) = (Node::start(1 << 30).await, Node::start(1 << 30).await);
    let bytes = noise(3 << 20);
    let digest = from.add(&bytes);
    let wants = (0..20).map(|_| {
        let (fetcher, wanted) = (to.fetcher.clone(), wanted(digest, &[&from.address]));
        tokio::spawn(async move { fetcher.get(&wanted).await.map(|hold| hold.digest()) })
    });
    for want in wants.collect::<Vec<_>>() {
        assert_eq!(want.await.expect("no panic").expect("the node has it"), digest);
    }
    let size = bytes.len() as u64;
    assert_eq!(to.counts(), TransferCounts { bytes_in: size, objects_in: 1, ..TransferCounts::default() });
    assert_eq!(from.counts(), TransferCounts { bytes_out: size, objects_out: 1, ..TransferCounts::default() });
    // The fetcher does not fetch an object that the store has.
    to.fetcher.get(&wanted(digest, &[])).await.expect("the store has it");
    assert_eq!(to.counts().objects_in, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_transfer_resumes_where_it_stopped() {
    let (from, to) = (Node::start(1 << 30).await, Node::start(1 << 30).await);
    let bytes = noise(20 << 20);
    let digest = from.add(&bytes);
    let (address, broken) = breaking_proxy(&from.address, 6 << 20).await;
    to.fetcher.get(&wanted(digest, &[&address])).await.expect("it arrives in parts");
    assert!(broken.load(Ordering::Relaxed) >= 3, "{broken:?}");
    assert_eq!(to.counts().bytes_in, bytes.len() as u64, "each byte arrives once");
    assert!(to.store.has(&digest));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_holder_is_asked_when_one_fails() {
    let (empty, whole, to) = (Node::start(1 << 20).await, Node::start(1 << 20).await, Node::start(1 << 20).await);
    let digest = whole.add(b"here");
    let gone = unreachable().await;
    let all = [&to.address, &gone, &empty.address, &whole.address];
    to.fetcher.get(&wanted(digest, &all)).await.expect("one node has it");
    let nobody = Digest([1; 32]);
    let error = to.fetcher.get(&wanted(nobody, &[&gone, &empty.address])).await.expect_err("nobody has it");
    let Error::Gone { digest, failure } = &error else { panic!("{error}") };
    assert_eq!(*digest, nobody);
    assert_eq!(failure.digest, nobody.0);
    let nothing = v1::Nothing {};
    let reasons: Vec<_> = failure.holders.iter().map(|it| (&*it.address, it.relay, it.kind.as_ref())).collect();
    let expected =
        [(&*empty.address, false, Some(&Kind::Missing(nothing))), (&*gone, false, Some(&Kind::Unreachable(nothing)))];
    assert_eq!(reasons, expected);
    let shown = error.to_string();
    assert!(shown.contains(&format!("{gone} cannot be reached")) && shown.contains("does not have it"), "{shown}");
    let error = to.fetcher.get(&wanted(nobody, &[&to.address])).await.expect_err("nobody has it");
    assert!(error.to_string().contains("no node is known to have it"), "{error}");
}

/// An address at which no node listens.
async fn unreachable() -> Arc<str> {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
    listener.local_addr().expect("a bound listener has an address").to_string().into()
}

#[tokio::test(flavor = "multi_thread")]
async fn relays_fetch_objects_from_nodes_that_cannot_be_reached() {
    let (near, middle, whole) = (Node::start(1 << 20).await, Node::start(1 << 20).await, Node::start(1 << 20).await);
    let hidden = unreachable().await;
    let digest = whole.add(b"far");
    // The first relay cannot reach the holder either, and asks the second, which has the object.
    let relays = vec![middle.address.clone(), whole.address.clone()];
    let far = ObjectRequest { relays, ..wanted(digest, &[&hidden]) };
    near.fetcher.get(&far).await.expect("a relay delivers it");
    assert_eq!((near.counts().objects_in, middle.counts().objects_in), (1, 1));
    assert!(middle.store.has(&digest));
    // A relay that has the object does not fetch it.
    let other = Node::start(1 << 20).await;
    other.fetcher.get(&far).await.expect("a relay delivers it");
    assert_eq!((whole.counts().objects_out, middle.counts().objects_in), (1, 1));
    // If no node has the object, the error says why each node failed.
    let nobody = ObjectRequest { digest: Digest([1; 32]), ..far.clone() };
    let error = near.fetcher.get(&nobody).await.expect_err("nobody has it");
    let shown = error.to_string();
    assert!(shown.contains(&format!("through {}: ", middle.address)) && shown.contains("cannot be reached"), "{shown}");
    let Error::Gone { failure, .. } = &error else { panic!("{error}") };
    let relayed = failure.holders.iter().find(|holder| holder.address == *middle.address).expect("it was asked");
    let Some(Kind::Relayed(inner)) = &relayed.kind else { panic!("{relayed:?}") };
    assert!(relayed.relay && inner.holders.iter().any(|holder| holder.address == *hidden), "{inner:?}");
    let last =
        inner.holders.iter().find(|holder| holder.address == *whole.address).expect("the relay asked the next one");
    assert!(matches!(last.kind, Some(Kind::Relayed(_))), "{last:?}");
    // A relay with a full store does not prevent the next one from delivering.
    let small = Node::start(1).await;
    let digest = whole.add(b"also far");
    let relays = vec![small.address.clone(), whole.address.clone()];
    near.fetcher
        .get(&ObjectRequest { relays, ..wanted(digest, &[&hidden]) })
        .await
        .expect("the next relay delivers it");
}

#[tokio::test(flavor = "multi_thread")]
async fn damaged_bytes_never_become_visible() {
    let (bad, good, to) = (Node::start(1 << 20).await, Node::start(1 << 20).await, Node::start(1 << 20).await);
    let digest = bad.add(b"right");
    good.add(b"right");
    spoil(bad._folder.path());
    let error = to.fetcher.get(&wanted(digest, &[&bad.address])).await.expect_err("it is damaged");
    assert!(error.to_string().contains("damaged"), "{error}");
    assert!(!to.store.has(&digest));
    to.fetcher.get(&wanted(digest, &[&bad.address, &good.address])).await.expect("one copy is intact");
}

/// Overwrites the only object of a store.
fn spoil(folder: &Path) {
    let prefix =
        fs::read_dir(folder.join("objects")).expect("it exists").next().expect("one exists").expect("it reads");
    let object = fs::read_dir(prefix.path()).expect("it exists").next().expect("one exists").expect("it reads");
    fs::remove_file(object.path()).expect("it can be removed");
    fs::write(object.path(), "wrong").expect("it can be written");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_arrives_with_all_its_files() {
    let (from, to) = (Node::start(1 << 30).await, Node::start(1 << 30).await);
    let work = tempfile::tempdir().expect("the disk has space");
    for number in 0..300 {
        let path = work.path().join(format!("tree/{}/{number}", number % 7));
        fs::create_dir_all(path.parent().expect("one exists")).expect("it can be made");
        fs::write(path, number.to_string()).expect("it can be written");
    }
    let place = WorkingDirectory::open(work.path()).expect("it opens");
    let stored = place.stage_out(&from.store, "tree", true).expect("it is stored");
    let (manifest, holds) =
        to.fetcher.get_directory(&wanted(stored.digest, &[&from.address])).await.expect("it arrives");
    assert_eq!((manifest.entries().len(), holds.len()), (300, 301));
    assert_eq!(to.counts().objects_in, 301);
    let mut stage_in = StageIn::read_only(&to.store, &place);
    stage_in.directory("copy", &manifest).expect("it is staged");
    assert_eq!(place.stage_out(&to.store, "copy", true).expect("it is stored").digest, stored.digest);
}

#[tokio::test(flavor = "multi_thread")]
async fn users_upload_files_and_send_only_new_objects() {
    let node = Node::start(1 << 30).await;
    let work = tempfile::tempdir().expect("the disk has space");
    let bytes = noise(12 << 20);
    fs::write(work.path().join("data.bin"), &bytes).expect("it can be written");
    fs::create_dir(work.path().join("sub")).expect("it can be made");
    fs::write(work.path().join("sub/empty"), "").expect("it can be written");
    let file = LocalContent::scan(&work.path().join("data.bin"), false).expect("it is a file");
    let channel = || async { xavantes_proto::connect_bulk(&node.address).await.expect("it exists") };
    let mut sender = Sender::new(channel().await);
    let sent = sender.send(&file).await.expect("it arrives");
    assert_eq!((&*sent.uri, sent.directory), ("data.bin", false));
    let content = sent.content.expect("it is known");
    assert_eq!((content.size, content.holders), (bytes.len() as u64, vec![node.address.clone()]));
    assert!(node.store.has(&content.digest));
    assert_eq!(sender.sent().load(Ordering::Relaxed), file.size());
    // The node has the only large file of the directory already.
    let tree = LocalContent::scan(work.path(), true).expect("it is a directory");
    let before = node.counts().bytes_in;
    let sent = sender.send(&tree).await.expect("it arrives");
    assert!(sent.directory && node.counts().bytes_in - before < 1000);
    let digest = sent.content.expect("it is known").digest;
    assert_eq!(node.store.manifest(&digest).expect("it exists").entries().len(), 2);
    assert!(LocalContent::scan(&work.path().join("absent"), false).is_err());
    assert!(LocalContent::scan(work.path(), false).expect_err("it is a directory").to_string().contains("directory"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_store_refuses_uploads_and_fetches() {
    let node = Node::start(1000).await;
    let work = tempfile::tempdir().expect("the disk has space");
    fs::write(work.path().join("large"), noise(2000)).expect("it can be written");
    let file = LocalContent::scan(&work.path().join("large"), false).expect("it is a file");
    let channel = xavantes_proto::connect_bulk(&node.address).await.expect("it exists");
    let refused = tokio::time::timeout(Duration::from_secs(60), Sender::new(channel).send(&file)).await;
    let status = refused.expect("it is refused without delay").expect_err("the store is full");
    assert!(status.message().contains("no room for 2000 bytes"), "{status}");
    let other = Node::start(1 << 20).await;
    let digest = other.add(&noise(2000));
    let error = node.fetcher.get(&wanted(digest, &[&other.address])).await.expect_err("the store is full");
    assert!(error.to_string().contains("no room"), "{error}");
}

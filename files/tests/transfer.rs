//! Objects from node to node, over real connections that break.

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
use xavantes_files::{Counted, Error, Fetcher, Laying, Local, Sender, Service, Store, Wanted, Workplace};
use xavantes_model::digest::Digest;
use xavantes_proto::v1::files_server::FilesServer;

struct Node {
    store: Store,
    address: Arc<str>,
    fetcher: Fetcher,
    _folder: TempDir,
}

impl Node {
    async fn start(limit: u64) -> Self {
        let folder = tempfile::tempdir().expect("there is room");
        let store = Store::open(folder.path(), limit).expect("it can be opened");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("there are ports");
        let address: Arc<str> = listener.local_addr().expect("it listens").to_string().into();
        let fetcher = Fetcher::new(store.clone(), address.clone());
        let service = FilesServer::new(Service::new(fetcher.clone(), address.clone()));
        tokio::spawn(Server::builder().add_service(service).serve_with_incoming(TcpIncoming::from(listener)));
        Self { store, address, fetcher, _folder: folder }
    }

    fn add(&self, bytes: &[u8]) -> Digest {
        self.store.add(&mut &*bytes, bytes.len() as u64).expect("there is room").0
    }

    fn counted(&self) -> Counted {
        self.store.counted()
    }
}

fn wanted(digest: Digest, holders: &[&Arc<str>]) -> Wanted {
    Wanted { digest, holders: holders.iter().map(|holder| (*holder).clone()).collect(), relays: Vec::new() }
}

/// Bytes that repeat nowhere near.
fn noise(size: usize) -> Vec<u8> {
    let mut bytes = vec![0; size];
    blake3::Hasher::new().update(&size.to_le_bytes()).finalize_xof().fill(&mut bytes);
    bytes
}

/// A way to an address that breaks each connection after so many bytes.
async fn brittle(to: &str, after: u64) -> (Arc<str>, Arc<AtomicU64>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("there are ports");
    let address: Arc<str> = listener.local_addr().expect("it listens").to_string().into();
    let (to, broken) = (to.parse::<SocketAddr>().expect("it is an address"), Arc::new(AtomicU64::new(0)));
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
async fn many_that_want_the_same_share_one_transfer() {
    let (from, to) = (Node::start(1 << 30).await, Node::start(1 << 30).await);
    let bytes = noise(3 << 20);
    let digest = from.add(&bytes);
    let wants = (0..20).map(|_| {
        let (fetcher, wanted) = (to.fetcher.clone(), wanted(digest, &[&from.address]));
        tokio::spawn(async move { fetcher.get(&wanted).await.map(|hold| hold.digest()) })
    });
    for want in wants.collect::<Vec<_>>() {
        assert_eq!(want.await.expect("it does not panic").expect("it comes"), digest);
    }
    let size = bytes.len() as u64;
    assert_eq!(to.counted(), Counted { bytes_in: size, objects_in: 1, ..Counted::default() });
    assert_eq!(from.counted(), Counted { bytes_out: size, objects_out: 1, ..Counted::default() });
    // What is here is not fetched again.
    to.fetcher.get(&wanted(digest, &[])).await.expect("it is here");
    assert_eq!(to.counted().objects_in, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transfer_goes_on_where_it_broke_off() {
    let (from, to) = (Node::start(1 << 30).await, Node::start(1 << 30).await);
    let bytes = noise(20 << 20);
    let digest = from.add(&bytes);
    let (address, broken) = brittle(&from.address, 6 << 20).await;
    to.fetcher.get(&wanted(digest, &[&address])).await.expect("it comes in pieces");
    assert!(broken.load(Ordering::Relaxed) >= 3, "{broken:?}");
    assert_eq!(to.counted().bytes_in, bytes.len() as u64, "no byte came twice");
    assert!(to.store.has(&digest));
}

#[tokio::test(flavor = "multi_thread")]
async fn other_holders_are_asked_when_one_cannot_give() {
    let (empty, whole, to) = (Node::start(1 << 20).await, Node::start(1 << 20).await, Node::start(1 << 20).await);
    let digest = whole.add(b"here");
    let gone = unreachable().await;
    let all = [&to.address, &gone, &empty.address, &whole.address];
    to.fetcher.get(&wanted(digest, &all)).await.expect("one has it");
    let nobody = Digest([1; 32]);
    let error = to.fetcher.get(&wanted(nobody, &[&gone, &empty.address])).await.expect_err("nobody has it");
    let Error::Gone { digest, why } = &error else { panic!("{error}") };
    assert_eq!(*digest, nobody);
    assert!(why.contains(&format!("{gone} cannot be reached")) && why.contains("is not here"), "{why}");
    let error = to.fetcher.get(&wanted(nobody, &[&to.address])).await.expect_err("nobody has it");
    assert!(error.to_string().contains("nobody is known to have it"), "{error}");
}

/// A way to a node that its own network knows alone: others hear that nobody is there.
async fn unreachable() -> Arc<str> {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("there are ports");
    listener.local_addr().expect("it listens").to_string().into()
}

#[tokio::test(flavor = "multi_thread")]
async fn who_cannot_reach_a_node_asks_others_to_fetch_it() {
    let (near, middle, whole) = (Node::start(1 << 20).await, Node::start(1 << 20).await, Node::start(1 << 20).await);
    let hidden = unreachable().await;
    let digest = whole.add(b"far");
    // The first relay does not reach it either, and turns to the second, which has it.
    let relays = vec![middle.address.clone(), whole.address.clone()];
    let far = Wanted { relays, ..wanted(digest, &[&hidden]) };
    near.fetcher.get(&far).await.expect("it comes through others");
    assert_eq!((near.counted().objects_in, middle.counted().objects_in), (1, 1));
    assert!(middle.store.has(&digest));
    // A relay that has it need not fetch it.
    let other = Node::start(1 << 20).await;
    other.fetcher.get(&far).await.expect("it comes through others");
    assert_eq!((whole.counted().objects_out, middle.counted().objects_in), (1, 1));
    // One that nobody has comes to an end, with what everybody said.
    let nobody = Wanted { digest: Digest([1; 32]), ..far.clone() };
    let error = near.fetcher.get(&nobody).await.expect_err("nobody has it").to_string();
    assert!(error.contains(&format!("through {}: ", middle.address)) && error.contains("cannot be reached"), "{error}");
    // A relay without room does not keep others from helping.
    let small = Node::start(1).await;
    let digest = whole.add(b"also far");
    let relays = vec![small.address.clone(), whole.address.clone()];
    near.fetcher.get(&Wanted { relays, ..wanted(digest, &[&hidden]) }).await.expect("the other one helps");
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
    to.fetcher.get(&wanted(digest, &[&bad.address, &good.address])).await.expect("one is good");
}

/// Changes the only object of a store.
fn spoil(folder: &Path) {
    let shelf =
        fs::read_dir(folder.join("objects")).expect("it is there").next().expect("it has one").expect("it reads");
    let object = fs::read_dir(shelf.path()).expect("it is there").next().expect("it has one").expect("it reads");
    fs::remove_file(object.path()).expect("it can be removed");
    fs::write(object.path(), "wrong").expect("it can be written");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_comes_with_everything_in_it() {
    let (from, to) = (Node::start(1 << 30).await, Node::start(1 << 30).await);
    let work = tempfile::tempdir().expect("there is room");
    for number in 0..300 {
        let path = work.path().join(format!("tree/{}/{number}", number % 7));
        fs::create_dir_all(path.parent().expect("it has one")).expect("it can be made");
        fs::write(path, number.to_string()).expect("it can be written");
    }
    let taken = Workplace::open(work.path()).expect("it opens").take(&from.store, "tree", true).expect("it is taken");
    let (manifest, holds) = to.fetcher.get_directory(&wanted(taken.digest, &[&from.address])).await.expect("it comes");
    assert_eq!((manifest.entries().len(), holds.len()), (300, 301));
    assert_eq!(to.counted().objects_in, 301);
    let place = Workplace::open(work.path()).expect("it opens");
    let mut laying = Laying::new(&to.store, &place, false);
    laying.directory("copy", &manifest).expect("it is laid");
    assert_eq!(place.take(&to.store, "copy", true).expect("it is taken").digest, taken.digest);
}

#[tokio::test(flavor = "multi_thread")]
async fn users_bring_files_and_only_what_is_new_is_sent() {
    let node = Node::start(1 << 30).await;
    let work = tempfile::tempdir().expect("there is room");
    let bytes = noise(12 << 20);
    fs::write(work.path().join("data.bin"), &bytes).expect("it can be written");
    fs::create_dir(work.path().join("sub")).expect("it can be made");
    fs::write(work.path().join("sub/empty"), "").expect("it can be written");
    let file = Local::look(&work.path().join("data.bin"), false).expect("it is a file");
    let channel = || async { xavantes_proto::connect_bulk(&node.address).await.expect("it is there") };
    let mut sender = Sender::new(channel().await);
    let sent = sender.send(&file).await.expect("it arrives");
    assert_eq!((&*sent.uri, sent.directory), ("data.bin", false));
    let content = sent.content.expect("it is known");
    assert_eq!((content.size, content.holders), (bytes.len() as u64, vec![node.address.clone()]));
    assert!(node.store.has(&content.digest));
    assert_eq!(sender.sent().load(Ordering::Relaxed), file.size());
    // Of the directory only what is new is sent.
    let tree = Local::look(work.path(), true).expect("it is a directory");
    let before = node.counted().bytes_in;
    let sent = sender.send(&tree).await.expect("it arrives");
    assert!(sent.directory && node.counted().bytes_in - before < 1000);
    let digest = sent.content.expect("it is known").digest;
    assert_eq!(node.store.manifest(&digest).expect("it is there").entries().len(), 2);
    assert!(Local::look(&work.path().join("absent"), false).is_err());
    assert!(Local::look(work.path(), false).expect_err("it is a directory").to_string().contains("directory"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_without_room_says_so() {
    let node = Node::start(1000).await;
    let work = tempfile::tempdir().expect("there is room");
    fs::write(work.path().join("large"), noise(2000)).expect("it can be written");
    let file = Local::look(&work.path().join("large"), false).expect("it is a file");
    let channel = xavantes_proto::connect_bulk(&node.address).await.expect("it is there");
    let refused = tokio::time::timeout(Duration::from_secs(60), Sender::new(channel).send(&file)).await;
    let status = refused.expect("it is refused at once").expect_err("there is no room");
    assert!(status.message().contains("no room for 2000 bytes"), "{status}");
    let other = Node::start(1 << 20).await;
    let digest = other.add(&noise(2000));
    let error = node.fetcher.get(&wanted(digest, &[&other.address])).await.expect_err("there is no room");
    assert!(error.to_string().contains("no room"), "{error}");
}

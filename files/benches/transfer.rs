//! Transfers 1000 MiB, or `--mib N`, from store to store over loopback, in turns with a plain copy over TCP with a BLAKE3 check.
//! Exits with 1 if stores are slower than half the plain copy, or if their memory grows with the size of the object.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use xavantes_files::{CHUNK_BYTES, Fetcher, FileStore, ObjectRequest, Service};
use xavantes_model::digest::Digest;
use xavantes_proto::v1::files_server::FilesServer;

const ROUNDS: usize = 5;
/// Upper bound on the memory of the transfers.
const MAX_MEMORY_BYTES: u64 = 64 << 20;

fn main() {
    let mib = std::env::args().skip_while(|it| it != "--mib").nth(1).and_then(|it| it.parse().ok());
    let size: u64 = mib.unwrap_or(1000_u64) << 20;
    let folder = tempfile::tempdir().expect("the disk has space");
    let from = FileStore::open(&folder.path().join("from"), u64::MAX / 2).expect("the folder is writable");
    let noise = folder.path().join("noise");
    let mut file = File::create(&noise).expect("it can be written");
    std::io::copy(&mut blake3::Hasher::new().finalize_xof().take(size), &mut file).expect("the disk has space");
    let (digest, _) = from.add(&mut File::open(&noise).expect("it is there"), size).expect("the disk has space");
    let before = peak_memory();
    let (mut plain, mut stores) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        plain.push(plain_copy(&noise, &folder.path().join("copy"), &digest));
        let target = folder.path().join(format!("to-{round}"));
        stores.push(store_to_store(&from, &target, digest));
        std::fs::remove_dir_all(target).expect("it can be removed");
    }
    let memory = peak_memory() - before;
    let rate = |times: &mut Vec<Duration>| {
        times.sort();
        size as f64 / times[times.len() / 2].as_secs_f64() / 1e6
    };
    let (plain, stores) = (rate(&mut plain), rate(&mut stores));
    let ratio = stores / plain;
    println!("plain copy      {plain:8.0} MB/s");
    println!("store to store  {stores:8.0} MB/s, {ratio:.2} of it");
    println!("memory          {:8.1} MiB more", memory as f64 / f64::from(1 << 20));
    if ratio < 0.5 || memory > MAX_MEMORY_BYTES {
        std::process::exit(1);
    }
}

/// The peak memory of this process.
fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("this is Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("the kernel reports it");
    line.trim().trim_end_matches("kB").trim().parse::<u64>().expect("it is a number") << 10
}

fn plain_copy(from: &Path, to: &Path, digest: &Digest) -> Duration {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener.local_addr().expect("it listens");
    let mut source = File::open(from).expect("it is there");
    let began = Instant::now();
    let sender = std::thread::spawn(move || {
        let (mut stream, mut buffer) = (listener.accept().expect("the receiver connects").0, vec![0; CHUNK_BYTES]);
        while let Ok(count @ 1..) = source.read(&mut buffer) {
            stream.write_all(&buffer[..count]).expect("the receiver reads");
        }
    });
    let mut stream = TcpStream::connect(address).expect("the sender listens");
    let mut copy = File::create(to).expect("it can be written");
    let (mut hasher, mut buffer) = (blake3::Hasher::new(), vec![0; CHUNK_BYTES]);
    while let Ok(count @ 1..) = stream.read(&mut buffer) {
        hasher.update(&buffer[..count]);
        copy.write_all(&buffer[..count]).expect("the disk has space");
    }
    assert_eq!(hasher.finalize().as_bytes(), &digest.0);
    let elapsed = began.elapsed();
    sender.join().expect("no panic");
    std::fs::remove_file(to).expect("it can be removed");
    elapsed
}

fn store_to_store(from: &FileStore, target: &Path, digest: Digest) -> Duration {
    let runtime = tokio::runtime::Runtime::new().expect("threads are available");
    let to = FileStore::open(target, u64::MAX / 2).expect("the folder is writable");
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let address = listener.local_addr().expect("it listens").to_string();
        let holder = Fetcher::new(from.clone(), address.as_str());
        let service = FilesServer::new(Service::new(holder, address.as_str()));
        tokio::spawn(Server::builder().add_service(service).serve_with_incoming(TcpIncoming::from(listener)));
        let fetcher = Fetcher::new(to, "");
        let began = Instant::now();
        let wanted = ObjectRequest { digest, holders: vec![address.into()], relays: Vec::new() };
        fetcher.get(&wanted).await.expect("it arrives");
        began.elapsed()
    })
}

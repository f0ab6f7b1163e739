//! Appends of 200 bytes per second: by one writer and by many, on the disk and in memory.

use std::time::{Duration, Instant};

use bytes::Bytes;
use xavantes_repository::{Store, in_memory, open_sled};

const DURATION: Duration = Duration::from_secs(3);

fn main() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime can be started");
    let directory = tempfile::TempDir::new().expect("a directory can be created");
    runtime.block_on(async {
        let disk = open_sled(directory.path(), "bench").await.expect("the store opens");
        println!("{:<10} {:>8} {:>12}", "store", "writers", "appends/s");
        for (name, store) in [("memory", &in_memory()), ("sled", &disk)] {
            for writers in [1, 64] {
                println!("{name:<10} {writers:>8} {:>12.0}", appends_per_second(store, writers).await);
            }
        }
        disk.shut_down().await;
    });
}

async fn appends_per_second(store: &Store, writers: usize) -> f64 {
    let mut tasks = tokio::task::JoinSet::new();
    let begun = Instant::now();
    for writer in 0..writers {
        let store = store.clone();
        tasks.spawn(async move {
            let process = format!("{writer} of {writers}");
            store.create(&process, Bytes::from_static(b"head")).await.expect("the process is created");
            let record = Bytes::from(vec![7; 200]);
            let mut count = 0;
            while begun.elapsed() < DURATION {
                store.append(&process, record.clone()).await.expect("the record is appended");
                count += 1;
                // The store in memory never waits, so it would starve the other writers.
                tokio::task::yield_now().await;
            }
            count
        });
    }
    let counts: Vec<u32> = tasks.join_all().await;
    f64::from(counts.iter().sum::<u32>()) / begun.elapsed().as_secs_f64()
}

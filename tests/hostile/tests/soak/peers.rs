//! Hostile peers, one random attack after the other.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tonic::transport::Channel;
use xavantes_hostile::fake_coordinator::FakeCoordinator;
use xavantes_hostile::fake_manager::{FakeNeighbour, many_summaries};
use xavantes_hostile::fake_node::FakeNode;
use xavantes_hostile::{client, raw};
use xavantes_proto::v1;

/// A small generator of random numbers.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// Attacks until `stop`. Errors are what attackers get, so they do not matter here.
pub async fn attack_until(addresses: [String; 2], seed: u64, stop: &AtomicBool) {
    let mut random = Random(seed);
    let mut attacks = 0;
    while !stop.load(Ordering::SeqCst) {
        let address = &addresses[random.below(2) as usize];
        let number = random.below(1 << 30);
        let attack = attack(address, random.below(8), number);
        let _ = tokio::time::timeout(Duration::from_secs(20), attack).await;
        attacks += 1;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    println!("{attacks} attacks");
}

async fn channel(address: &str) -> Option<Channel> {
    Channel::from_shared(format!("http://{address}")).ok()?.connect().await.ok()
}

async fn attack(address: &str, kind: u64, number: u64) -> Option<()> {
    let name = format!("evil{number}");
    match kind {
        0 => {
            let open = raw::connections(address, 150, &raw::PREFACE[..(number % 25) as usize]).await;
            tokio::time::sleep(Duration::from_millis(number % 3000)).await;
            drop(open);
        }
        1 => {
            let stream = FakeCoordinator::to_coordinator(&channel(address).await?, FakeCoordinator::hello(&name)).await;
            let stream = stream.ok()?;
            for _ in 0..number % 8 {
                stream.send_part(8 << 20, false).await;
            }
        }
        2 => {
            let text = format!("<XAVANTES VERSION=\"1\">{}", "<BLOCK>".repeat((number % 100_000) as usize));
            client::submit(&channel(address).await?, &text).await.ok()?;
        }
        3 => {
            let text = format!(
                "<XAVANTES VERSION=\"1\"><PROCESS_TYPE NAME=\"E{0}\"><BODY>{1}</BODY></PROCESS_TYPE></XAVANTES>",
                number % 16,
                "<BLOCK/>".repeat((number % 16) as usize)
            );
            let channel = channel(address).await?;
            let process = client::submit(&channel, &text).await.ok()?;
            tokio::time::sleep(Duration::from_millis(500)).await;
            let forget = v1::ForgetRequest { processes: vec![process], ..v1::ForgetRequest::default() };
            client::coordinator(&channel).forget(forget).await.ok()?;
        }
        4 => {
            let node = FakeNode::worker("a", &name, "127.0.0.1:1", (number % 100_000) as u32);
            let mut joined = FakeNode::join(&channel(address).await?, node).await.ok()?;
            joined.roster().await.ok()?;
        }
        5 => {
            let first = many_summaries(&name, &name, (number % 3000) as usize, number);
            let mut neighbour = FakeNeighbour::connect(&channel(address).await?, first).await.ok()?;
            neighbour.summaries().await.ok()?;
        }
        6 => {
            let path = "p/".repeat((number % 100_000) as usize);
            let mut coordinator = client::coordinator(&channel(address).await?);
            let _ = coordinator.show(v1::ShowRequest { path: path.clone(), depth: 3, ..Default::default() }).await;
            let request = v1::LogsRequest { path, follow: true, ..v1::LogsRequest::default() };
            let _ = coordinator.logs(request).await;
        }
        _ => {
            let mut coordinator = client::coordinator(&channel(address).await?);
            let _ = coordinator.list(v1::ListRequest::default()).await;
            let _ = coordinator.watch(v1::WatchRequest { process: name, ..Default::default() }).await;
        }
    }
    Some(())
}

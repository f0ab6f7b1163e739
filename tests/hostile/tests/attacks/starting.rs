//! Nodes that start while their disk is full or their database is down.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;
use xavantes_hostile::{block_on, connect};
use xavantes_repository::testing::Postgres;
use xavantes_tests::{Grid, free_address, program, until};

const COORDINATOR: &str = "xavantes.v1.ProcessCoordinator";

/// A node that may take long to start.
struct Starting {
    child: std::process::Child,
    log: PathBuf,
}

impl Starting {
    fn new(grid: &Grid, address: &str, data: &Path, flags: &[&str]) -> Self {
        let log = grid.folder().join("starting.log");
        let output = fs::File::create(&log).expect("tests can write here");
        let child = Command::new(program())
            .args(["node", "--name", "s", "--group", "a", "--listen", address, "--data-dir"])
            .arg(data)
            .args(flags)
            .stdout(Stdio::null())
            .stderr(output)
            .spawn()
            .expect("the program exists");
        Self { child, log }
    }

    fn wait_for(&mut self, text: &str) {
        until(text, 60, || {
            let log = fs::read_to_string(&self.log).unwrap_or_default();
            assert!(self.child.try_wait().expect("it is a child").is_none(), "the node has ended:\n{log}");
            log.contains(text).then_some(())
        });
    }

    /// Ends the node with SIGTERM. Returns its exit code.
    fn terminate(&mut self) -> Option<i32> {
        let sent = Command::new("kill").arg(self.child.id().to_string()).status();
        assert!(sent.is_ok_and(|status| status.success()));
        until("the node ends", 60, || self.child.try_wait().expect("it is a child")).code()
    }
}

impl Drop for Starting {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The health of the coordinator at an address: 1 is serving, 2 is not serving.
fn health(address: &str) -> i32 {
    block_on(async {
        let request = HealthCheckRequest { service: COORDINATOR.into() };
        let answer = HealthClient::new(connect(address).await).check(request).await;
        answer.expect("the service is known").into_inner().status
    })
}

#[test]
fn a_coordinator_waits_for_its_database() {
    let Some(mut server) = Postgres::start() else { return };
    let url = server.url();
    let grid = Grid::new();
    let migrated = Command::new(program()).args(["repository", "migrate", "--repository", &url]).output();
    assert!(migrated.is_ok_and(|migrated| migrated.status.success()));
    server.stop();
    let (address, data) = (free_address(), grid.folder().join("data"));
    let mut node = Starting::new(&grid, &address, &data, &["--repository", &url]);
    node.wait_for("the node cannot start yet");
    assert_eq!(health(&address), 2);
    let refused = grid.cli(&address, &["list"]);
    assert!(refused.code == 3 && refused.stderr.contains("has not started yet"), "{refused:?}");
    server.resume();
    node.wait_for("node started");
    assert_eq!(health(&address), 1);
    grid.cli(&address, &["list"]).ok();
    assert_eq!(node.terminate(), Some(0));
}

#[test]
fn a_waiting_node_ends_on_sigterm() {
    let grid = Grid::new();
    let (address, data) = (free_address(), grid.folder().join("data"));
    let nowhere = format!("postgres://me@{}/none", free_address());
    let mut node = Starting::new(&grid, &address, &data, &["--repository", &nowhere]);
    node.wait_for("the node cannot start yet");
    assert_eq!(node.terminate(), Some(0));
}

/// A small file system. Drop unmounts it.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(path: PathBuf) -> Option<Self> {
        fs::create_dir_all(&path).expect("tests can write here");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=16m", "tmpfs"])
            .arg(&path)
            .stderr(Stdio::null())
            .status();
        mounted.is_ok_and(|status| status.success()).then_some(Self(path))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn a_node_waits_for_room_on_its_disk() {
    let grid = Grid::new();
    let Some(disk) = SmallDisk::mount(grid.folder().join("disk")) else {
        eprintln!("SKIPPED: this test needs the right to mount a file system");
        return;
    };
    let ballast = disk.0.join("ballast");
    let full = fs::write(&ballast, vec![1; 20 << 20]);
    assert!(full.is_err(), "the disk is full");
    let address = free_address();
    let mut node = Starting::new(&grid, &address, &disk.0.join("data"), &[]);
    node.wait_for("the node cannot start yet");
    assert_eq!(health(&address), 2);
    fs::remove_file(ballast).expect("it is there");
    node.wait_for("node started");
    assert_eq!(health(&address), 1);
    assert_eq!(node.terminate(), Some(0));
}

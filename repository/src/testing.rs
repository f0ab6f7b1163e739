//! A PostgreSQL server for tests.

use std::fs::{self, File};
use std::io;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// A running server. Drop stops it and removes its data.
pub struct Postgres {
    /// `None` while the server is stopped.
    server: Option<Child>,
    /// Directory with the programs of PostgreSQL.
    programs: PathBuf,
    /// Directory with the socket and the databases.
    directory: TempDir,
    /// Number of databases that [`url`](Self::url) created.
    databases: AtomicU32,
    /// Port for encrypted connections over TCP.
    port: Option<u16>,
}

impl Postgres {
    /// Starts a server. Without PostgreSQL, prints that the test is skipped and returns `None`.
    ///
    /// # Panics
    /// If PostgreSQL is installed and does not start.
    pub fn start() -> Option<Self> {
        let Some(programs) = find_programs() else {
            eprintln!("SKIPPED: no PostgreSQL server found (apt-get install postgresql)");
            return None;
        };
        let directory =
            tempfile::Builder::new().prefix("xavantes-postgres").tempdir().expect("a directory can be created");
        if is_root() {
            let status = Command::new("chown").arg("postgres").arg(directory.path()).status();
            assert!(
                status.is_ok_and(|status| status.success()),
                "cannot change the owner of the directory to postgres"
            );
        }
        let made = command(&programs.join("initdb"))
            .args(["--auth=trust", "--username=postgres", "--encoding=UTF8", "--no-sync", "-D"])
            .arg(directory.path().join("data"))
            .stdout(Stdio::null())
            .status();
        assert!(made.is_ok_and(|status| status.success()), "initdb failed");
        let mut postgres = Self { server: None, programs, directory, databases: AtomicU32::new(0), port: None };
        postgres.resume();
        Some(postgres)
    }

    /// Creates an empty database and returns its URL.
    ///
    /// # Panics
    /// If the server does not answer.
    pub fn url(&self) -> String {
        let name = format!("test{}", self.databases.fetch_add(1, Ordering::Relaxed));
        let made = self.run(&format!("CREATE DATABASE {name}"), "postgres");
        assert!(made, "cannot create a database");
        format!("postgres://postgres@localhost/{name}?host={}", self.directory.path().display())
    }

    /// Restarts the server with encrypted connections over TCP. Returns the port.
    ///
    /// # Panics
    /// If the server does not start.
    pub fn encrypt(&mut self, certificate: &str, key: &str) -> u16 {
        self.stop();
        for (name, text) in [("server.crt", certificate), ("server.key", key)] {
            let made = command(Path::new("sh"))
                .args(["-c", "umask 077; printf %s \"$1\" > \"$0\""])
                .arg(self.directory.path().join("data").join(name))
                .arg(text)
                .status();
            assert!(made.is_ok_and(|status| status.success()), "cannot write {name}");
        }
        let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let port = free.expect("there are free ports").port();
        self.port = Some(port);
        self.resume();
        port
    }

    /// Stops the server without a clean shutdown.
    pub fn stop(&mut self) {
        if let Some(mut server) = self.server.take() {
            let stopped = command(&self.programs.join("pg_ctl"))
                .args(["stop", "--mode=immediate", "--silent", "-D"])
                .arg(self.directory.path().join("data"))
                .status();
            if !stopped.is_ok_and(|status| status.success()) {
                // An error means that the server has ended already.
                let _ = server.kill();
            }
            let _ = server.wait();
        }
    }

    /// Starts the server again after [`stop`](Self::stop).
    ///
    /// # Panics
    /// If the server does not start.
    pub fn resume(&mut self) {
        let log = self.directory.path().join("log");
        let output = || File::options().create(true).append(true).open(&log).map_or(Stdio::null(), Stdio::from);
        let server = command(&self.programs.join("postgres"))
            .arg("-D")
            .arg(self.directory.path().join("data"))
            .arg("-k")
            .arg(self.directory.path())
            .args(["-c", "fsync=off", "-c"])
            .args(match self.port {
                None => vec!["listen_addresses=".to_owned()],
                Some(port) => {
                    vec!["listen_addresses=127.0.0.1".into(), "-c".into(), "ssl=on".into(), format!("-p{port}")]
                }
            })
            .stdout(output())
            .stderr(output())
            .spawn()
            .expect("the server can be started");
        self.server = Some(server);
        let begun = Instant::now();
        while !self.run("SELECT 1", "postgres") {
            let log = || fs::read_to_string(&log).unwrap_or_default();
            assert!(begun.elapsed() < Duration::from_secs(120), "the server does not start: {}", log());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn run(&self, sql: &str, database: &str) -> bool {
        let status = Command::new(self.programs.join("psql"))
            .args(["--quiet", "--no-psqlrc", "--username=postgres", "--command", sql, "--host"])
            .arg(self.directory.path())
            .args(self.port.map(|port| format!("--port={port}")))
            .arg(database)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        status.is_ok_and(|status| status.success())
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Finds the newest version in the directories of Debian, or the programs in `PATH`.
fn find_programs() -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let number = |path: &PathBuf| path.file_name().and_then(|name| name.to_str()?.parse::<u32>().ok());
    let newest = versions.map(|version| version.path()).max_by_key(number).map(|path| path.join("bin"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    newest.into_iter().chain(std::env::split_paths(&path)).find(|directory| directory.join("initdb").exists())
}

/// Runs a program of PostgreSQL. As root, runs it as the user postgres, because PostgreSQL refuses to run as root.
fn command(program: &Path) -> Command {
    let mut command = if is_root() {
        let mut command = Command::new("runuser");
        command.args(["-u", "postgres", "--"]).arg(program);
        command
    } else {
        Command::new(program)
    };
    // The user postgres may not enter the directory of the tests.
    command.current_dir("/").stdin(Stdio::null());
    command
}

fn is_root() -> bool {
    let me = || -> io::Result<u32> {
        use std::os::unix::fs::MetadataExt;
        Ok(fs::metadata("/proc/self")?.uid())
    };
    me().is_ok_and(|uid| uid == 0)
}

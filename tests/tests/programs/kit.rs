//! Runs one activity on one worker, and checks what it leaves behind.

use std::path::PathBuf;

use serde_json::Value as Json;
use xavantes_tests::{Grid, until};

/// A worker and its coordinator.
pub struct TestWorker {
    pub grid: Grid,
    pub address: String,
}

impl TestWorker {
    /// Starts a worker with these flags.
    pub fn new(flags: &[&str]) -> Self {
        Self::within(None, flags)
    }

    /// Starts a worker with these flags in a control group.
    pub fn within(cgroup: Option<&std::path::Path>, flags: &[&str]) -> Self {
        let mut grid = Grid::new();
        let address = grid.group("a", &[], &[]);
        cgroup.into_iter().for_each(|cgroup| grid.enter(cgroup));
        let usual = [["--slots", "2"], ["--grace-seconds", "1"]].into_iter().filter(|flag| !flags.contains(&flag[0]));
        let flags: Vec<&str> = usual.flatten().chain(flags.iter().copied()).collect();
        grid.worker("a/w", &address, &flags);
        grid.wait_for_nodes(&address, 2);
        let mut worker = Self { grid, address };
        // The worker opens its logs with the first program, and keeps them open.
        worker.sh("true");
        worker
    }

    /// Submits a process with one activity, `work`. `types` are the parameters and the code of its type.
    pub fn submit(&mut self, types: &str) -> String {
        self.submit_with("", types)
    }

    /// The same, with these attributes of the activity.
    pub fn submit_with(&mut self, attributes: &str, types: &str) -> String {
        let outs: Vec<&str> = types
            .split("<OUT_PARAMETER ")
            .skip(1)
            .map(|rest| rest.split("/>").next().expect("it is closed").split(" FROM=").next().expect("it is there"))
            .collect();
        let declared: String = outs.iter().map(|out| format!("<OUT_PARAMETER {out} OPTIONAL=\"true\"/>")).collect();
        let names = outs
            .iter()
            .map(|out| out.split("NAME=\"").nth(1).expect("it has a name").split('"').next().expect("it is closed"));
        let copies: String = names.map(|name| format!("{name} = work.{name} ")).collect();
        let document = format!(
            "<XAVANTES VERSION=\"1\">
            <PROCESS_TYPE NAME=\"P\">{declared}
            <BODY><ACTIVITY TYPE=\"Work\" NAME=\"work\" {attributes}/><POST_CODE>{copies}</POST_CODE></BODY>
            </PROCESS_TYPE>
            <ACTIVITY_TYPE NAME=\"Work\">{types}</ACTIVITY_TYPE></XAVANTES>"
        );
        let file = self.grid.write("work.xml", &document);
        self.grid.submit(&self.address, &file, &[])
    }

    /// Runs such a process to its end. Returns the output of `results`.
    pub fn run(&mut self, types: &str) -> Json {
        let process = self.submit(types);
        self.grid.end(&self.address, &process)
    }

    /// Runs a script in `sh`.
    pub fn sh(&mut self, script: &str) -> Json {
        self.run(&sh(script))
    }

    /// Runs an activity that fails. Asserts that the worker is healthy and nothing is left, and returns the error.
    #[track_caller]
    pub fn failing(&mut self, types: &str) -> String {
        let before = self.descriptors();
        let ended = self.run(types);
        assert_eq!(ended["state"], "failed", "{ended}");
        self.assert_clean(before);
        ended["error"].as_str().expect("an error is reported").to_owned()
    }

    /// The number of open file descriptors of the worker.
    pub fn descriptors(&self) -> usize {
        descriptors(self.grid.pid("a/w"))
    }

    /// Asserts that no process, directory or descriptor of an attempt is left and that the worker still works.
    #[track_caller]
    pub fn assert_clean(&mut self, before: usize) {
        until("no directory is left", 30, || self.folders().is_empty().then_some(()));
        until("no process is left", 30, || self.processes().is_empty().then_some(()));
        // Connections for requests open and close.
        until("no descriptor is left", 30, || (self.descriptors() <= before + 2).then_some(()));
        let ended = self.sh("true");
        assert_eq!(ended["state"], "completed", "{ended}");
    }

    /// The directories of attempts.
    pub fn folders(&self) -> Vec<PathBuf> {
        let work = std::fs::read_dir(self.grid.data("a/w").join("work")).into_iter().flatten().flatten();
        work.map(|entry| entry.path()).collect()
    }

    /// Processes of attempts of the worker, whatever their parents are, and unexpected children of the worker.
    pub fn processes(&self) -> Vec<u32> {
        let marker = format!("XAVANTES_DIRECTORY={}/", self.grid.data("a/w").join("work").display());
        let worker = self.grid.pid("a/w");
        let own = |pid: u32| {
            let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            let marked = environment.split(|byte| *byte == 0).any(|it| it.starts_with(marker.as_bytes()));
            let guard = words(pid).get(1).is_some_and(|word| word == "guard");
            marked || (parent(pid) == Some(worker) && !guard)
        };
        let all = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        all.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(|pid| own(*pid)).collect()
    }

    /// The child processes of the worker.
    pub fn children(&self) -> Vec<u32> {
        let worker = self.grid.pid("a/w");
        let all = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        pids.filter(|pid| parent(*pid) == Some(worker)).collect()
    }

    /// A file outside of all attempts that scripts can write to.
    pub fn sign(&self, name: &str) -> PathBuf {
        self.grid.folder().join(name)
    }

    /// Waits until a script has written a file. Returns its content.
    pub fn wait_for(&self, sign: &std::path::Path) -> String {
        until(&format!("{} is there", sign.display()), 60, || {
            std::fs::read_to_string(sign).ok().filter(|text| text.ends_with('\n'))
        })
    }
}

/// The code of an activity type: a script in `sh`.
pub fn sh(script: &str) -> String {
    format!("<CODE LANGUAGE=\"sh\"><![CDATA[{script}]]></CODE>")
}

fn descriptors(pid: u32) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/fd")).expect("it runs").count()
}

fn parent(pid: u32) -> Option<u32> {
    let stat = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    let stat = String::from_utf8_lossy(&stat).into_owned();
    stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// The command line of a process.
pub fn words(pid: u32) -> Vec<String> {
    let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    words.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned()).collect()
}

/// Sends a signal to a process.
pub fn signal(pid: u32, name: &str) {
    let sent = std::process::Command::new("kill").arg(format!("-{name}")).arg(pid.to_string()).status();
    assert!(sent.is_ok_and(|status| status.success()), "{pid} is there");
}

/// Whether a process runs. A zombie does not.
pub fn runs(pid: u32) -> bool {
    let stat = std::fs::read(format!("/proc/{pid}/stat")).unwrap_or_default();
    let stat = String::from_utf8_lossy(&stat).into_owned();
    let state = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_ascii_whitespace().next().map(str::to_owned));
    state.is_some_and(|state| !matches!(state.as_str(), "Z" | "X"))
}

/// Asserts that a text contains all of these words.
#[track_caller]
pub fn assert_tells(text: &str, words: &[&str]) {
    for word in words {
        assert!(text.contains(word), "{word:?} is not in {text:?}");
    }
}

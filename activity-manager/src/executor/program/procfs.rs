//! Processes and memory, as the kernel shows them in `/proc`.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;

/// The environment variable that names the directory of the attempt to which a process belongs.
pub(crate) const MARKER_VARIABLE: &str = "XAVANTES_DIRECTORY";

/// A process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct OsProcess {
    pub pid: u32,
    pub parent: u32,
    pub group: u32,
    /// Start time. Together with the pid it identifies a process permanently.
    pub start: u64,
    /// The process has ended, but its parent has not read its exit status.
    pub ended: bool,
    /// Bytes of memory.
    pub memory: u64,
}

impl OsProcess {
    /// Parses `/proc/PID/stat`.
    fn parse(pid: u32, stat: &str, page: u64) -> Option<Self> {
        // The name is in parentheses and may contain any character.
        let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
        let state = fields.next()?;
        let rest: Vec<&str> = fields.collect();
        let number = |at: usize| rest.get(at).and_then(|field| field.parse::<u64>().ok());
        Some(Self {
            pid,
            parent: u32::try_from(number(0)?).ok()?,
            group: u32::try_from(number(1)?).ok()?,
            start: number(18)?,
            ended: matches!(state, "Z" | "X"),
            memory: number(20)? * page,
        })
    }

    /// A process, if it exists.
    pub fn find(pid: u32) -> Option<Self> {
        let stat = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
        Self::parse(pid, &String::from_utf8_lossy(&stat), rustix::param::page_size() as u64)
    }
}

/// The pids of all processes.
pub(crate) fn pids() -> impl Iterator<Item = u32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// All processes at one moment.
#[derive(Debug, Default)]
pub(crate) struct ProcessSnapshot {
    processes: Vec<OsProcess>,
    children: HashMap<u32, Vec<usize>>,
}

impl ProcessSnapshot {
    pub fn take() -> Self {
        Self::of(pids().filter_map(OsProcess::find).collect())
    }

    fn of(processes: Vec<OsProcess>) -> Self {
        let mut children: HashMap<u32, Vec<usize>> = HashMap::new();
        for (at, process) in processes.iter().enumerate() {
            children.entry(process.parent).or_default().push(at);
        }
        Self { processes, children }
    }

    /// These processes, those of this group, and all their descendants, without ended ones.
    pub fn family(&self, roots: &[u32], group: u32) -> Vec<OsProcess> {
        let belongs = |process: &OsProcess| roots.contains(&process.pid) || process.group == group;
        let mut found: Vec<usize> = (0..self.processes.len()).filter(|at| belongs(&self.processes[*at])).collect();
        let mut known: Vec<bool> = vec![false; self.processes.len()];
        found.iter().for_each(|at| known[*at] = true);
        let mut next = 0;
        while let Some(at) = found.get(next).copied() {
            next += 1;
            for child in self.children.get(&self.processes[at].pid).into_iter().flatten() {
                if !std::mem::replace(&mut known[*child], true) {
                    found.push(*child);
                }
            }
        }
        found.into_iter().map(|at| self.processes[at]).filter(|process| !process.ended).collect()
    }

    /// The children of a process.
    pub fn children(&self, pid: u32) -> Vec<u32> {
        self.children.get(&pid).into_iter().flatten().map(|at| self.processes[*at].pid).collect()
    }
}

/// The children of this process's first thread, to which the kernel adds adopted ones.
#[derive(Debug)]
pub(crate) struct ChildList(Option<File>);

impl ChildList {
    /// The file stays open, because it is read often.
    pub fn open() -> Self {
        Self(File::open(format!("/proc/self/task/{}/children", std::process::id())).ok())
    }

    pub fn read(&self) -> Vec<u32> {
        let read = |file: &File| {
            let (mut text, mut buffer) = (Vec::new(), [0; 512]);
            loop {
                match file.read_at(&mut buffer, text.len() as u64)? {
                    0 => return Ok::<_, std::io::Error>(text),
                    count => text.extend_from_slice(&buffer[..count]),
                }
            }
        };
        match self.0.as_ref().map(read) {
            Some(Ok(text)) => {
                let text = String::from_utf8_lossy(&text);
                text.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).collect()
            }
            // Not every kernel has this file.
            _ => ProcessSnapshot::take().children(std::process::id()),
        }
    }
}

/// A variable in the environment with which a process started.
pub(crate) fn variable(pid: u32, name: &str) -> Option<Vec<u8>> {
    let environment = std::fs::read(format!("/proc/{pid}/environ")).ok()?;
    let mut variables = environment.split(|byte| *byte == 0);
    variables.find_map(|variable| Some(variable.strip_prefix(name.as_bytes())?.strip_prefix(b"=")?.to_vec()))
}

/// Bytes that a process and the children that it waited for read and wrote.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct IoBytes {
    pub read: u64,
    pub written: u64,
}

/// The bytes that a process read and wrote.
pub(crate) fn io_bytes(pid: u32) -> IoBytes {
    let io = first_page(&format!("/proc/{pid}/io"));
    IoBytes { read: field(&io, "rchar:"), written: field(&io, "wchar:") }
}

/// Peak memory of a process, in bytes.
pub(crate) fn peak_memory(pid: u32) -> u64 {
    field(&first_page(&format!("/proc/{pid}/status")), "VmHWM:") << 10
}

/// Peak memory of this process.
pub(crate) fn own_peak_memory() -> u64 {
    peak_memory(std::process::id())
}

/// The content of a short file, with one read.
fn first_page(path: &str) -> String {
    let mut buffer = [0; 4096];
    let count = File::open(path).and_then(|mut file| file.read(&mut buffer)).unwrap_or(0);
    String::from_utf8_lossy(&buffer[..count]).into_owned()
}

/// The number in the line with this name.
fn field(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|line| line.split_ascii_whitespace().next()?.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_proc_are_parsed() {
        let stat = "7 (a) b) S 3 5 5 0 -1 4194304 1 2 3 4 10 20 30 40 20 0 1 0 12345 999 17 1844";
        let process = OsProcess::parse(7, stat, 4096).expect("the line is complete");
        let expected = OsProcess { pid: 7, parent: 3, group: 5, start: 12345, ended: false, memory: 17 * 4096 };
        assert_eq!(process, expected);
        for wrong in ["", "7 (a", "7 (a) S", "7 (a) S x 5"] {
            assert_eq!(OsProcess::parse(7, wrong, 4096), None, "{wrong}");
        }
        let own = OsProcess::find(std::process::id()).expect("this process exists");
        assert!(own.memory > 0 && own.parent > 0 && !own.ended);
        assert!(own_peak_memory() >= own.memory / 2 && peak_memory(u32::MAX) == 0);
        assert_eq!((field("a: 1\nab: 23 kB\n", "ab:"), field("ab: x", "ab:"), field("", "ab:")), (23, 0, 0));
        assert!(variable(own.pid, "PATH").is_some() && variable(own.pid, "PAT").is_none());
    }

    #[test]
    fn families_consist_of_descendants_and_group_members() {
        let process = |pid, parent, group| OsProcess { pid, parent, group, ..OsProcess::default() };
        let mut all = vec![
            process(1, 0, 1),
            process(10, 1, 10),
            process(11, 10, 10),
            process(12, 11, 12),
            process(13, 1, 10),
            process(20, 1, 20),
            process(21, 20, 21),
            process(30, 1, 30),
        ];
        all[3].ended = true;
        let snapshot = ProcessSnapshot::of(all);
        let pids = |roots: &[u32], group| {
            let mut pids: Vec<u32> = snapshot.family(roots, group).iter().map(|process| process.pid).collect();
            pids.sort_unstable();
            pids
        };
        assert_eq!(pids(&[10], 10), [10, 11, 13]);
        assert_eq!(pids(&[10, 20], 10), [10, 11, 13, 20, 21]);
        assert!(pids(&[99], 99).is_empty());
        assert_eq!(snapshot.children(10), [11]);
    }
}

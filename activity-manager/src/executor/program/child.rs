//! A process that this worker started, until its exit status is read.

use std::io;
use std::os::fd::OwnedFd;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;

use rustix::io::ioctl_fionbio;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncReadExt, Interest};
use tokio::net::unix::pipe;
use wait4::{ResUse, Wait4};

use super::program_table::ProgramTable;
use super::tracked_program::{ProgramSpec, TrackedProgram};

/// Upper bound on the output of a tool.
const MAX_TOOL_OUTPUT_BYTES: u64 = 1 << 20;

/// A running process. Dropping it kills the process with its group.
pub(crate) struct ProgramChild {
    child: std::process::Child,
    /// Becomes readable when the process ends.
    ended: AsyncFd<OwnedFd>,
    processes: Arc<ProgramTable>,
    tracked: Option<Arc<TrackedProgram>>,
    reaped: bool,
}

impl ProgramChild {
    /// Starts a program of an attempt, or a tool, in a process group of its own.
    pub fn start(processes: &Arc<ProgramTable>, command: &mut Command, spec: Option<ProgramSpec>) -> io::Result<Self> {
        use std::os::unix::process::CommandExt;
        let (mut child, tracked) = processes.start(command.process_group(0), spec)?;
        let pid = Pid::from_child(&child);
        match pidfd_open(pid, PidfdFlags::empty()).map_err(io::Error::from).and_then(watched) {
            Ok(ended) => Ok(Self { child, ended, processes: processes.clone(), tracked, reaped: false }),
            Err(error) => {
                let _ = child.kill();
                let _ = child.wait();
                processes.forget(child.id());
                Err(error)
            }
        }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn tracked(&self) -> Option<&Arc<TrackedProgram>> {
        self.tracked.as_ref()
    }

    /// The pipes of its standard output and error. Reading from them never blocks.
    pub fn output(&mut self) -> io::Result<(Option<OwnedFd>, Option<OwnedFd>)> {
        let ready = |pipe: OwnedFd| ioctl_fionbio(&pipe, true).map(|()| pipe);
        let stdout = self.child.stdout.take().map(|pipe| ready(pipe.into())).transpose()?;
        let stderr = self.child.stderr.take().map(|pipe| ready(pipe.into())).transpose()?;
        Ok((stdout, stderr))
    }

    /// Returns when the process has ended. Its pid is not reused before its exit status is read.
    pub async fn ended(&self) {
        // Waiting for a registered descriptor fails only when the runtime shuts down.
        let _ = self.ended.readable().await;
    }

    /// Reads the exit status of the ended process, with the usage of the process and the children that it waited for.
    pub fn status(&mut self) -> io::Result<ResUse> {
        let ended = self.child.wait4()?;
        self.reaped = true;
        self.processes.forget(self.child.id());
        Ok(ended)
    }
}

impl Drop for ProgramChild {
    fn drop(&mut self) {
        if !self.reaped {
            let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
            let _ = self.child.kill();
            // A killed process has usually not ended yet.
            match self.child.try_wait() {
                Ok(None) => self.processes.abandon(self.child.id()),
                _ => self.processes.forget(self.child.id()),
            }
        }
    }
}

/// Registers a descriptor with the runtime.
// Deprecated for types whose descriptor may change while it is registered. `OwnedFd` does not change; the replacement is
// unsafe, which this workspace forbids.
#[allow(deprecated)]
fn watched(descriptor: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::with_interest(descriptor, Interest::READABLE)
}

/// Runs a tool to its end and returns its output.
pub(crate) async fn run_tool(processes: &Arc<ProgramTable>, command: &mut Command) -> io::Result<Output> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = ProgramChild::start(processes, command, None)?;
    let (stdout, stderr) = child.output()?;
    let read = |pipe: Option<OwnedFd>| async move {
        let mut output = Vec::new();
        if let Some(Ok(pipe)) = pipe.map(pipe::Receiver::from_owned_fd) {
            let _ = pipe.take(MAX_TOOL_OUTPUT_BYTES).read_to_end(&mut output).await;
        }
        output
    };
    let (stdout, stderr, ()) = tokio::join!(read(stdout), read(stderr), child.ended());
    Ok(Output { status: child.status()?.status, stdout, stderr })
}

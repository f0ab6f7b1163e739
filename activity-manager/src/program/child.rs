//! A process that was started here, from its start until its status was taken.

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

use super::register::{Program, Register, Tracked};

/// Of what a tool writes so much is read at most.
const MOST_TOLD: u64 = 1 << 20;

/// It is killed, with its group, if it is dropped before its end.
pub(crate) struct Child {
    child: std::process::Child,
    /// Can be read when it has ended.
    ended: AsyncFd<OwnedFd>,
    register: Arc<Register>,
    tracked: Option<Arc<Tracked>>,
    over: bool,
}

impl Child {
    /// Starts a program of an attempt, or a tool; in a process group of its own.
    pub fn start(register: &Arc<Register>, command: &mut Command, program: Option<Program>) -> io::Result<Self> {
        use std::os::unix::process::CommandExt;
        let (mut child, tracked) = register.start(command.process_group(0), program)?;
        let pid = Pid::from_child(&child);
        match pidfd_open(pid, PidfdFlags::empty()).map_err(io::Error::from).and_then(watched) {
            Ok(ended) => Ok(Self { child, ended, register: register.clone(), tracked, over: false }),
            Err(error) => {
                let _ = child.kill();
                let _ = child.wait();
                register.forget(child.id());
                Err(error)
            }
        }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn tracked(&self) -> Option<&Arc<Tracked>> {
        self.tracked.as_ref()
    }

    /// What it writes, if that goes to pipes. To read from them never waits.
    pub fn output(&mut self) -> io::Result<(Option<OwnedFd>, Option<OwnedFd>)> {
        let ready = |pipe: OwnedFd| ioctl_fionbio(&pipe, true).map(|()| pipe);
        let stdout = self.child.stdout.take().map(|pipe| ready(pipe.into())).transpose()?;
        let stderr = self.child.stderr.take().map(|pipe| ready(pipe.into())).transpose()?;
        Ok((stdout, stderr))
    }

    /// Returns when it has ended. Its pid, and the number of its group, stay its own until its status is taken.
    pub async fn ended(&self) {
        // It cannot fail to be watched any more.
        let _ = self.ended.readable().await;
    }

    /// Takes the status of one that has ended, and what the system counted for it and those that it waited for.
    pub fn status(&mut self) -> io::Result<ResUse> {
        let ended = self.child.wait4()?;
        self.over = true;
        self.register.forget(self.child.id());
        Ok(ended)
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if !self.over {
            let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
            let _ = self.child.kill();
            // Mostly it has not ended yet.
            match self.child.try_wait() {
                Ok(None) => self.register.leave(self.child.id()),
                _ => self.register.forget(self.child.id()),
            }
        }
    }
}

/// A descriptor that can be waited for.
// Deprecated for types that may change their descriptor while it is watched. This one owns it and does not; what is to be
// used instead is unsafe, which nothing here is.
#[allow(deprecated)]
fn watched(descriptor: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::with_interest(descriptor, Interest::READABLE)
}

/// Runs a tool to its end.
pub(crate) async fn tool(register: &Arc<Register>, command: &mut Command) -> io::Result<Output> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = Child::start(register, command, None)?;
    let (stdout, stderr) = child.output()?;
    let read = |pipe: Option<OwnedFd>| async move {
        let mut told = Vec::new();
        if let Some(Ok(pipe)) = pipe.map(pipe::Receiver::from_owned_fd) {
            let _ = pipe.take(MOST_TOLD).read_to_end(&mut told).await;
        }
        told
    };
    let (stdout, stderr, ()) = tokio::join!(read(stdout), read(stderr), child.ended());
    Ok(Output { status: child.status()?.status, stdout, stderr })
}

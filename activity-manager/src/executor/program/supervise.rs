//! Supervises a running program: starts it, reads its output, stops it when it must end, and accounts for its usage.

use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use xavantes_model::definition::{ActivityType, Capture};
use xavantes_proto::v1;

use super::attempt_directories::WorkDir;
use super::captured_output::OutputPipe;
use super::cgroups::{Cgroup, CgroupUsage};
use super::child::ProgramChild;
use super::command_line::{cannot_start, command};
use super::container::{ContainerCgroup, ContainerEngine};
use super::invocation::Invocation;
use super::procfs;
use super::program_host::ProgramHost;
use super::program_results::ProgramExit;
use super::resource_limits::{ObservedUsage, format_limit, peak_memory};
use crate::attempt_failure::{AttemptFailure, failure, worker_failure};
use crate::attempts::job::Job;
use crate::logs::live_log::{AttemptLog, OutputStream};

/// A program that ends within this time is not watched: its output is read after its end.
const UNWATCHED_TIME: Duration = Duration::from_millis(5);
/// Interval between two looks at the usage of a container.
const CONTAINER_POLL_INTERVAL: Duration = Duration::from_millis(200);
/// Longest wait for more output after all processes of a program ended.
const LAST_OUTPUT_TIMEOUT: Duration = Duration::from_secs(2);
/// Interval between two looks whether all processes of a stopped program ended.
const STOP_POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Starts a program and returns when none of its processes runs any more.
pub(super) async fn supervise(
    host: &ProgramHost,
    job: &Job,
    log: &AttemptLog,
    workdir: &mut WorkDir,
    invocation: &Invocation,
    usage: &mut v1::Usage,
) -> Result<ProgramExit, AttemptFailure> {
    let activity = job.activity();
    let gpus = host.gpus.reserve(activity.requires.gpus);
    let (mut command, spec) = command(host, activity, workdir, invocation, &gpus.numbers)?;
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let unstarted = |error| cannot_start(&invocation.name, &error);
    let mut child = ProgramChild::start(&host.processes, &mut command, Some(spec)).map_err(unstarted)?;
    let (stdout, stderr) = child.output().map_err(unstarted)?;
    let mut stdout = OutputPipe::new(stdout, log, OutputStream::Stdout, captures(activity));
    let mut stderr = OutputPipe::new(stderr, log, OutputStream::Stderr, false);
    let engine = host.engine.as_ref().filter(|_| activity.launch.image.is_some());
    let mut container = ContainerUsage::default();
    let forced = match tokio::time::timeout(UNWATCHED_TIME, child.ended()).await {
        Ok(()) => None,
        Err(_) => {
            let reading = async { tokio::join!(stdout.watch(), stderr.watch()) };
            let ending = wait_or_stop(host, job, &child, workdir);
            let polling = async {
                match engine {
                    Some(engine) => poll_container(host, engine, workdir, &mut container).await,
                    None => poll_young_program(&child).await,
                }
            };
            tokio::pin!(reading, ending, polling);
            let (mut read_all, mut polled) = (false, false);
            loop {
                tokio::select! {
                    forced = &mut ending => break forced,
                    _ = &mut reading, if !read_all => read_all = true,
                    () = &mut polling, if !polled => polled = true,
                }
            }
        }
    };
    // The kernel forgets these numbers when the exit status is read.
    let io = procfs::io_bytes(child.pid());
    let cleared = match child.tracked() {
        Some(tracked) => host.processes.clear(tracked).await,
        None => true,
    };
    if !cleared {
        workdir.prevent_reuse();
    }
    if !(stdout.drain() & stderr.drain()) {
        let rest = async { tokio::join!(stdout.watch(), stderr.watch()) };
        let _ = tokio::time::timeout(LAST_OUTPUT_TIMEOUT, rest).await;
    }
    let ended = child.status().map_err(|error| worker_failure("cannot wait for the program", &error))?;
    let exit = ProgramExit { status: ended.status, stdout: stdout.captured, stderr: stderr.captured };
    let mut counted = child.tracked().and_then(|tracked| tracked.cgroup()).map(Cgroup::usage);
    match engine {
        Some(_) => {
            (usage.user_ms, usage.system_ms) = (container.cgroup.user_ms, container.cgroup.system_ms);
            usage.peak_memory = container.peak_memory;
            counted = Some(container.cgroup);
        }
        None => {
            (usage.read_bytes, usage.written_bytes) = (io.read, io.written);
            account(&child, &ended.rusage, counted.as_ref(), usage);
        }
    }
    let contained = after_container(host, activity, workdir, &exit).await;
    match forced {
        Some(ForcedEnd::Stopped) => {
            let mut failed = job.stop_failure();
            failed.stderr = exit.last_lines();
            Err(failed)
        }
        Some(ForcedEnd::Limit(message)) => Err(limit_failure(&invocation.name, &message, &exit)),
        None => {
            contained?;
            let failed = !succeeded(activity, &exit);
            let exceeded = match counted.filter(|_| failed).and_then(|counted| counted.exceeded(&activity.requires)) {
                None => scratch_exceeded(host, &child).await,
                exceeded => exceeded,
            };
            match exceeded {
                Some(message) => Err(limit_failure(&invocation.name, &message, &exit)),
                None => Ok(exit),
            }
        }
    }
}

/// Checks the disk usage of an ended program. It may have been too short to be seen while it ran.
async fn scratch_exceeded(host: &ProgramHost, child: &ProgramChild) -> Option<String> {
    let tracked = child.tracked().filter(|tracked| tracked.is_scratch_limited())?.clone();
    tokio::task::spawn_blocking({
        let processes = host.processes.clone();
        move || processes.scratch_exceeded(&tracked)
    })
    .await
    .ok()
    .flatten()
}

/// Why this worker ended a program.
enum ForcedEnd {
    Stopped,
    Limit(String),
}

/// Waits for the end of a program, and ends it if its attempt must stop or if it exceeds a limit.
async fn wait_or_stop(host: &ProgramHost, job: &Job, child: &ProgramChild, workdir: &WorkDir) -> Option<ForcedEnd> {
    let tracked = child.tracked()?;
    let processes = &host.processes;
    let engine = host.engine.as_ref().filter(|_| job.activity().launch.image.is_some());
    tokio::select! {
        biased;
        () = child.ended() => None,
        message = tracked.exceeded() => {
            if let Some(engine) = engine {
                engine.remove(processes, workdir).await;
            }
            // Without a grace: the program would go on using more.
            processes.signal(tracked, Signal::KILL);
            child.ended().await;
            Some(ForcedEnd::Limit(message))
        }
        () = job.stop.requested() => {
            match engine {
                Some(engine) => engine.stop(processes, workdir, host.grace).await,
                None => drop(processes.signal(tracked, Signal::TERM)),
            }
            let until = Instant::now() + host.grace;
            while processes.count(tracked) > 0 && Instant::now() < until {
                tokio::time::sleep(STOP_POLL_INTERVAL).await;
            }
            processes.signal(tracked, Signal::KILL);
            child.ended().await;
            Some(ForcedEnd::Stopped)
        }
    }
}

/// Fills in the usage of a program: of its control group if it has one, otherwise as the kernel counted it for the program
/// and the children that it waited for.
fn account(child: &ProgramChild, rusage: &wait4::ResourceUsage, cgroup: Option<&CgroupUsage>, usage: &mut v1::Usage) {
    usage.user_ms = rusage.utime.as_millis() as u64;
    usage.system_ms = rusage.stime.as_millis() as u64;
    let (seen, mut counted) = (child.tracked().map_or(0, |tracked| tracked.peak_memory()), rusage.maxrss);
    if let Some(cgroup) = cgroup {
        (usage.user_ms, usage.system_ms) = (cgroup.user_ms, cgroup.system_ms);
        if cgroup.peak_memory > 0 {
            counted = counted.min(cgroup.peak_memory);
        }
    }
    usage.peak_memory = peak_memory(seen, counted, procfs::own_peak_memory);
}

fn succeeded(activity: &ActivityType, exit: &ProgramExit) -> bool {
    exit.status.code().is_some_and(|code| activity.launch.success.contains(code))
}

/// The usage of a container, as last seen.
#[derive(Default)]
struct ContainerUsage {
    cgroup: CgroupUsage,
    /// Peak of the memory of all its processes together.
    peak_memory: u64,
}

/// Polls the usage of a container while it runs, because its control group disappears with it.
async fn poll_container(host: &ProgramHost, engine: &ContainerEngine, workdir: &WorkDir, usage: &mut ContainerUsage) {
    let cgroup = loop {
        tokio::time::sleep(CONTAINER_POLL_INTERVAL).await;
        match engine.cgroup(&host.processes, workdir).await {
            ContainerCgroup::NotRunning => {}
            ContainerCgroup::Invisible => return,
            ContainerCgroup::Found(cgroup) => break cgroup,
        }
    };
    loop {
        let memory = |pid: u32| procfs::OsProcess::find(pid).map_or(0, |process| process.memory);
        let processes = cgroup.processes();
        if !processes.is_empty() {
            usage.cgroup = cgroup.usage();
            usage.peak_memory = usage.peak_memory.max(processes.into_iter().map(memory).sum());
        }
        tokio::time::sleep(CONTAINER_POLL_INTERVAL).await;
    }
}

/// Polls the memory of a young program, at ever longer intervals, until the process table observes it.
async fn poll_young_program(child: &ProgramChild) {
    let mut pause = UNWATCHED_TIME;
    while let Some(tracked) = child.tracked().filter(|tracked| tracked.is_young()) {
        tracked.on_observed(ObservedUsage { memory: procfs::peak_memory(child.pid()), scratch: 0, processes: 1 });
        tokio::time::sleep(pause).await;
        pause *= 2;
    }
}

fn limit_failure(name: &str, message: &str, exit: &ProgramExit) -> AttemptFailure {
    let mut failed = failure(v1::FailureKind::Limit, format!("{name} {message}"));
    failed.stderr = exit.last_lines();
    failed
}

/// Removes an ended container. Fails if the container ended for a reason that is not its program's.
async fn after_container(
    host: &ProgramHost,
    activity: &ActivityType,
    workdir: &WorkDir,
    exit: &ProgramExit,
) -> Result<(), AttemptFailure> {
    let (Some(engine), Some(image)) = (&host.engine, &activity.launch.image) else { return Ok(()) };
    let processes = &host.processes;
    let memory = activity.requires.memory;
    let failed = !succeeded(activity, exit);
    let out_of_memory = memory > 0 && failed && engine.ran_out_of_memory(processes, workdir).await;
    let never_started = engine.never_started(processes, workdir, exit.status.code()).await;
    engine.remove(processes, workdir).await;
    if out_of_memory {
        let message = format!("used more memory than its limit of {}", format_limit(memory));
        return Err(limit_failure("the container", &message, exit));
    }
    if never_started {
        let mut failed = failure(v1::FailureKind::Worker, format!("a container of {image:?} cannot be started"));
        failed.stderr = exit.last_lines();
        return Err(failed);
    }
    Ok(())
}

/// True if the standard output of the program is a result.
fn captures(activity: &ActivityType) -> bool {
    activity.parameters.iter().zip(&activity.launch.captures).any(|(variable, capture)| match capture {
        Some(capture) => *capture != Capture::ExitStatus,
        None => variable.direction.is_out() && &*variable.name == "stdout",
    })
}

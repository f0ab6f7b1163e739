//! Programs: commands and scripts, each in a directory of its own, watched, limited, and ended with all that it started.
//!
//! | file | is about |
//! |---|---|
//! | `workshop` | what all programs of a worker share |
//! | `invocation` | the command and environment of an attempt |
//! | `interpreters` | which programs run which languages |
//! | `container` | Docker and Podman |
//! | `folder` | the directories of attempts |
//! | `guard` | what ends programs when the node is killed |
//! | `child`, `register`, `system` | processes: started, watched, ended; those that they leave |
//! | `limits` | what is too much; pure |
//! | `cgroups` | limits that the system itself enforces |
//! | `output`, `results` | what comes out |

mod cgroups;
mod child;
mod container;
mod folder;
mod guard;
mod interpreters;
mod invocation;
mod limits;
mod output;
mod register;
mod results;
mod system;
mod workshop;

use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use xavantes_model::definition::{ActivityCode, ActivityType, Capture};
use xavantes_proto::v1;

use crate::desk::{Desk, Job};
use crate::logs::{Log, Title, Which};
use crate::staging::Staged;
pub use cgroups::Cgroups;
use cgroups::{Cgroup, Told};
use child::Child;
use container::Engine;
use folder::Folder;
pub use guard::guard;
pub(crate) use invocation::evaluate;
use invocation::{Invocation, invocation, parameters_json};
use limits::{Limits, Used, peak, size};
use output::Outlet;
use register::Program;
use results::{Ended, check_complete, collect, judge};
pub use workshop::Options;
pub(crate) use workshop::Workshop;

/// Why an attempt failed.
pub(crate) type Failed = Box<v1::Failure>;

/// What ends within this time is not watched: what it wrote is read when it has ended.
const SOON: Duration = Duration::from_millis(5);
/// How often it is looked what a container takes.
const LOOK_INSIDE: Duration = Duration::from_millis(200);
/// How long output may still come when everything that could write it has ended.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// How often it is looked whether everything has ended that was asked to.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

pub(crate) fn failure(kind: v1::FailureKind, message: impl Into<String>) -> Failed {
    let permanent = kind == v1::FailureKind::Parameter;
    Box::new(v1::Failure { kind: kind.into(), message: message.into(), permanent, ..v1::Failure::default() })
}

fn worker_failure(what: &str, error: &std::io::Error) -> Failed {
    failure(v1::FailureKind::Worker, format!("{what}: {error}"))
}

/// What becomes of an attempt that was asked to stop.
pub(crate) fn stopped(job: &Job) -> Failed {
    job.over_time().unwrap_or_else(|| failure(v1::FailureKind::Cancelled, "stopped"))
}

/// Runs an attempt to its end.
pub(crate) async fn run(desk: Arc<Desk>, job: Arc<Job>) {
    let shop = &desk.workshop;
    let log = shop.shelf.begin(title(&job));
    let began = Instant::now();
    let mut usage = v1::Usage { node: shop.node.clone(), ..v1::Usage::default() };
    let done = attempt(&desk, &job, &log, &mut usage).await;
    usage.wall_ms = began.elapsed().as_millis() as u64;
    let outcome = match done {
        Ok(results) => v1::answer::Outcome::Completed(v1::Completed { results }),
        Err(_) if job.stop.is_cancelled() => v1::answer::Outcome::Cancelled(v1::Nothing {}),
        Err(mut failure) => {
            failure.worker = Some(desk.node.clone());
            failure.line.get_or_insert(job.activity().line);
            v1::answer::Outcome::Failed(*failure)
        }
    };
    shop.shelf.finish(&log, &outcome, &usage);
    desk.finish(&job, outcome, Some(usage));
}

/// What the log of an attempt is called.
pub(crate) fn title(job: &Job) -> Title {
    Title { realm: job.key.realm.to_string(), path: job.path.to_string(), attempt: job.key.attempt }
}

async fn attempt(desk: &Desk, job: &Job, log: &Log, usage: &mut v1::Usage) -> Result<Vec<v1::Value>, Failed> {
    let folders = &desk.workshop.folders;
    let mut folder = folders.make().map_err(|error| worker_failure("cannot make a working directory", &error))?;
    let done = within(desk, job, log, &mut folder, usage).await;
    let failed = done.is_err() && !job.stop.is_cancelled();
    // Readable, and different for each attempt.
    let name = failed.then(|| format!("{}-{}", job.path.replace('/', "."), job.key.attempt));
    match (folder.close(name.as_deref()).await, done) {
        (Some(kept), Err(mut failure)) => {
            failure.message += &format!("; its directory is kept as {}", kept.display());
            Err(failure)
        }
        (_, done) => done,
    }
}

/// An attempt in its directory: what goes in, the program, what comes out.
async fn within(
    desk: &Desk,
    job: &Job,
    log: &Log,
    folder: &mut Folder,
    usage: &mut v1::Usage,
) -> Result<Vec<v1::Value>, Failed> {
    let staged = desk.staging.bring(job, &folder.work()).await?;
    let done = equipped(desk, job, log, folder, &staged, usage).await;
    // What is kept is kept whole.
    if done.is_ok() || !desk.workshop.folders.keeps_failures() {
        staged.lift();
    }
    done
}

/// An attempt that has its files.
async fn equipped(
    desk: &Desk,
    job: &Job,
    log: &Log,
    folder: &mut Folder,
    staged: &Staged,
    usage: &mut v1::Usage,
) -> Result<Vec<v1::Value>, Failed> {
    let (shop, activity) = (&desk.workshop, job.activity());
    let command = |language: &str| match activity.launch.image {
        Some(_) => Some(vec![interpreters::usual(language).to_owned()]),
        None => shop.interpreters.command(language).map(<[String]>::to_vec),
    };
    let invocation = invocation(job, &staged.parameters, command, folder)?;
    let unwritten = |error| worker_failure("cannot write what the program needs", &error);
    if let ActivityCode::Interpreter { text, .. } = &activity.code {
        folder.write(folder.script(), text.as_bytes()).map_err(unwritten)?;
    }
    if !job.parameters.is_empty() {
        folder.write(folder.parameters(), parameters_json(job, &staged.parameters).as_bytes()).map_err(unwritten)?;
    }
    if job.stop.is_asked() {
        return Err(stopped(job));
    }
    let ended = conduct(shop, job, log, folder, &invocation, usage).await?;
    judge(&activity.launch, &invocation.name, &ended)?;
    let (mut results, told) = collect(job, &folder.results(), &ended)?;
    desk.staging.take(job, &folder.work(), staged, &mut results).await?;
    check_complete(activity, &results, &told)?;
    Ok(results)
}

/// Starts a program and stays with it until nothing of it runs any more.
async fn conduct(
    shop: &Workshop,
    job: &Job,
    log: &Log,
    folder: &mut Folder,
    invocation: &Invocation,
    usage: &mut v1::Usage,
) -> Result<Ended, Failed> {
    let activity = job.activity();
    let gpus = shop.gpus.take(activity.requires.gpus);
    let (mut command, program) = command(shop, activity, folder, invocation, &gpus.numbers)?;
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let unstarted = |error| cannot_start(&invocation.name, &error);
    let mut child = Child::start(&shop.register, &mut command, Some(program)).map_err(unstarted)?;
    let (stdout, stderr) = child.output().map_err(unstarted)?;
    let mut stdout = Outlet::new(stdout, log, Which::Stdout, captures(activity));
    let mut stderr = Outlet::new(stderr, log, Which::Stderr, false);
    let engine = shop.engine.as_ref().filter(|_| activity.launch.image.is_some());
    let mut inside = Inside::default();
    let why = match tokio::time::timeout(SOON, child.ended()).await {
        Ok(()) => None,
        Err(_) => {
            let reading = async { tokio::join!(stdout.watch(), stderr.watch()) };
            let staying = stay(shop, job, &child, folder);
            let looking = async {
                match engine {
                    Some(engine) => look_inside(shop, engine, folder, &mut inside).await,
                    None => look_at_young(&child).await,
                }
            };
            tokio::pin!(reading, staying, looking);
            let (mut all_read, mut grown) = (false, false);
            loop {
                tokio::select! {
                    why = &mut staying => break why,
                    _ = &mut reading, if !all_read => all_read = true,
                    () = &mut looking, if !grown => grown = true,
                }
            }
        }
    };
    // Of this the system knows until the status is taken.
    let (read, wrote) = system::read_and_written(child.pid());
    let cleared = match child.tracked() {
        Some(tracked) => shop.register.clear(tracked).await,
        None => true,
    };
    if !cleared {
        folder.spoil();
    }
    if !(stdout.drain() & stderr.drain()) {
        let rest = async { tokio::join!(stdout.watch(), stderr.watch()) };
        let _ = tokio::time::timeout(LAST_WORDS, rest).await;
    }
    let over = child.status().map_err(|error| worker_failure("cannot wait for the program", &error))?;
    let ended = Ended { status: over.status, stdout: stdout.written, stderr: stderr.written };
    let mut told = child.tracked().and_then(|tracked| tracked.group()).map(Cgroup::told);
    match engine {
        Some(_) => {
            (usage.user_ms, usage.system_ms) = (inside.told.user_ms, inside.told.system_ms);
            usage.peak_memory = inside.memory;
            told = Some(inside.told);
        }
        None => {
            (usage.read_bytes, usage.written_bytes) = (read, wrote);
            account(&child, &over.rusage, told.as_ref(), usage);
        }
    }
    let contained = after_container(shop, activity, folder, &ended).await;
    match why {
        Some(Why::Stopped) => {
            let mut failed = stopped(job);
            failed.stderr = ended.last_lines();
            Err(failed)
        }
        Some(Why::Limit(message)) => Err(over_limit(&invocation.name, &message, &ended)),
        None => {
            contained?;
            let failed = !succeeded(activity, &ended);
            let exceeded = match told.filter(|_| failed).and_then(|told| told.exceeded(&activity.requires)) {
                None => too_much_left(shop, &child).await,
                exceeded => exceeded,
            };
            match exceeded {
                Some(message) => Err(over_limit(&invocation.name, &message, &ended)),
                None => Ok(ended),
            }
        }
    }
}

/// What a program that is over has left on the disk, if that is too much: it may have been too fast to be seen.
async fn too_much_left(shop: &Workshop, child: &Child) -> Option<String> {
    let tracked = child.tracked().filter(|tracked| tracked.is_scratch_limited())?.clone();
    let register = shop.register.clone();
    tokio::task::spawn_blocking(move || register.too_much_left(&tracked)).await.ok().flatten()
}

/// Why a program was made to end.
enum Why {
    Stopped,
    Limit(String),
}

/// Stays with a program until it has ended; makes it, if that is wanted, or if it uses too much.
async fn stay(shop: &Workshop, job: &Job, child: &Child, folder: &Folder) -> Option<Why> {
    let tracked = child.tracked()?;
    let register = &shop.register;
    let engine = shop.engine.as_ref().filter(|_| job.activity().launch.image.is_some());
    tokio::select! {
        biased;
        () = child.ended() => None,
        message = tracked.exceeded() => {
            if let Some(engine) = engine {
                engine.remove(register, folder).await;
            }
            // At once: it would go on using more.
            register.signal(tracked, Signal::KILL);
            child.ended().await;
            Some(Why::Limit(message))
        }
        () = job.stop.asked() => {
            match engine {
                Some(engine) => engine.stop(register, folder, shop.grace).await,
                None => drop(register.signal(tracked, Signal::TERM)),
            }
            let until = Instant::now() + shop.grace;
            while register.count(tracked) > 0 && Instant::now() < until {
                tokio::time::sleep(LOOK_AGAIN).await;
            }
            register.signal(tracked, Signal::KILL);
            child.ended().await;
            Some(Why::Stopped)
        }
    }
}

/// What a program took: as the system counted it for the program and those that it waited for, or for all that was in its
/// control group.
fn account(child: &Child, counted: &wait4::ResourceUsage, told: Option<&Told>, usage: &mut v1::Usage) {
    usage.user_ms = counted.utime.as_millis() as u64;
    usage.system_ms = counted.stime.as_millis() as u64;
    let (seen, mut most) = (child.tracked().map_or(0, |tracked| tracked.peak()), counted.maxrss);
    if let Some(told) = told {
        (usage.user_ms, usage.system_ms) = (told.user_ms, told.system_ms);
        if told.peak > 0 {
            most = most.min(told.peak);
        }
    }
    usage.peak_memory = peak(seen, most, system::own_peak);
}

fn succeeded(activity: &ActivityType, ended: &Ended) -> bool {
    ended.status.code().is_some_and(|code| activity.launch.success.contains(code))
}

/// What was seen of a container.
#[derive(Default)]
struct Inside {
    told: Told,
    /// The most memory of all processes in it.
    memory: u64,
}

/// Looks again and again what a container takes, for as long as it runs: what is counted for it goes with it.
async fn look_inside(shop: &Workshop, engine: &Engine, folder: &Folder, inside: &mut Inside) {
    let group = loop {
        tokio::time::sleep(LOOK_INSIDE).await;
        if let Some(group) = engine.group(&shop.register, folder).await {
            break group;
        }
    };
    let Some(group) = group else { return };
    loop {
        let memory = |pid: u32| system::Process::find(pid).map_or(0, |process| process.memory);
        let processes = group.processes();
        if !processes.is_empty() {
            inside.told = group.told();
            inside.memory = inside.memory.max(processes.into_iter().map(memory).sum());
        }
        tokio::time::sleep(LOOK_INSIDE).await;
    }
}

/// Looks how much memory a program has, at ever longer intervals, until the register does it.
async fn look_at_young(child: &Child) {
    let mut pause = SOON;
    while let Some(tracked) = child.tracked().filter(|tracked| tracked.is_young()) {
        tracked.saw(Used { memory: system::peak(child.pid()), scratch: 0, processes: 1 });
        tokio::time::sleep(pause).await;
        pause *= 2;
    }
}

fn over_limit(name: &str, message: &str, ended: &Ended) -> Failed {
    let mut failed = failure(v1::FailureKind::Limit, format!("{name} {message}"));
    failed.stderr = ended.last_lines();
    failed
}

/// Whether a container failed for a reason that is not its program's; then it is removed.
async fn after_container(
    shop: &Workshop,
    activity: &ActivityType,
    folder: &Folder,
    ended: &Ended,
) -> Result<(), Failed> {
    let (Some(engine), Some(image)) = (&shop.engine, &activity.launch.image) else { return Ok(()) };
    let memory = activity.requires.memory;
    let failed = !succeeded(activity, ended);
    let out_of_memory = memory > 0 && failed && engine.ran_out_of_memory(&shop.register, folder).await;
    let failed_to_start = engine.has_failed(&shop.register, folder, ended.status.code()).await;
    engine.remove(&shop.register, folder).await;
    if out_of_memory {
        return Err(over_limit(
            "the container",
            &format!("used more memory than its limit of {}", size(memory)),
            ended,
        ));
    }
    if failed_to_start {
        let mut failed = failure(v1::FailureKind::Worker, format!("a container of {image:?} cannot be started"));
        failed.stderr = ended.last_lines();
        return Err(failed);
    }
    Ok(())
}

/// Is what the program prints a result?
fn captures(activity: &ActivityType) -> bool {
    activity.parameters.iter().zip(&activity.launch.captures).any(|(variable, capture)| match capture {
        Some(capture) => *capture != Capture::ExitStatus,
        None => variable.direction.is_out() && &*variable.name == "stdout",
    })
}

/// What is started, and what is to be known of it.
fn command(
    shop: &Workshop,
    activity: &ActivityType,
    folder: &Folder,
    invocation: &Invocation,
    gpus: &[u32],
) -> Result<(Command, Program), Failed> {
    let requires = &activity.requires;
    let mut environment = vec![
        ("HOME".to_owned(), folder.work().to_string_lossy().into_owned()),
        ("TMPDIR".to_owned(), folder.temporary().to_string_lossy().into_owned()),
    ];
    if shop.gpus.count > 0 {
        let numbers: Vec<String> = gpus.iter().map(u32::to_string).collect();
        environment.push(("CUDA_VISIBLE_DEVICES".to_owned(), numbers.join(",")));
    }
    environment.extend(invocation.environment.iter().map(|(name, value)| (name.clone(), value.clone())));
    if let (Some(engine), Some(image)) = (&shop.engine, &activity.launch.image) {
        // Programs are found where the image has them.
        let shared = shop.environment.iter().filter(|(name, _)| name != "PATH");
        let text = |it: &OsString| it.to_string_lossy().into_owned();
        environment.splice(0..0, shared.map(|(name, value)| (text(name), text(value))));
        let command = engine.command(image, invocation, &environment, requires, gpus, folder);
        let limits = Limits { scratch: requires.scratch, ..Limits::default() };
        return Ok((command, Program { directory: folder.path().to_owned(), limits, group: None }));
    }
    let program = &invocation.command[0];
    // With its whole path it is started without a copy of this program's memory.
    let found = shop.search(program).ok_or_else(|| {
        failure(v1::FailureKind::Worker, format!("cannot start {program:?}: there is no such program on this node"))
    })?;
    let group = match &shop.cgroups {
        Some(groups) => groups.make(requires).map_err(|error| worker_failure("cannot make a control group", &error))?,
        None => None,
    };
    let mut command = match (requires.open_files, &group) {
        (0, None) => Command::new(found),
        (most, group) => {
            check_program(&folder.work().join(&found)).map_err(|error| cannot_start(&invocation.name, &error))?;
            limited(&found, most, group.as_ref())
        }
    };
    command.args(&invocation.command[1..]).current_dir(folder.work()).env_clear();
    command.envs(shop.environment.iter().map(|(name, value)| (name, value))).envs(environment);
    let watched = |controller: &str, limit: u64| match &shop.cgroups {
        Some(groups) if groups.limits(controller) => 0,
        _ => limit,
    };
    let limits = Limits {
        memory: watched("memory", requires.memory),
        scratch: requires.scratch,
        processes: watched("pids", requires.processes.into()),
    };
    Ok((command, Program { directory: folder.path().to_owned(), limits, group }))
}

/// A program that is limited before it begins. What a process inherits, and the control group that it is in, it can set for
/// itself alone.
fn limited(program: &Path, open_files: u32, group: Option<&Cgroup>) -> Command {
    let (mut script, mut values) = (String::new(), Vec::<OsString>::new());
    if open_files > 0 {
        script += "ulimit -n \"$1\" && shift && ";
        values.push(open_files.to_string().into());
    }
    if let Some(group) = group {
        script += "echo 0 > \"$1\" && shift && ";
        values.push(group.entrance().into());
    }
    script += "exec \"$@\"";
    let mut command = Command::new("/bin/sh");
    command.arg("-c").arg(script).arg("sh").args(values).arg(program);
    command
}

/// Whether a program can be started, as the system would tell.
fn check_program(program: &Path) -> std::io::Result<()> {
    let about = std::fs::metadata(program)?;
    match about.is_file() && about.permissions().mode() & 0o111 != 0 {
        true => Ok(()),
        false => Err(ErrorKind::PermissionDenied.into()),
    }
}

fn cannot_start(name: &str, error: &std::io::Error) -> Failed {
    let (kind, why) = match error.kind() {
        ErrorKind::ArgumentListTooLong => (
            v1::FailureKind::Parameter,
            "its arguments are too long; it finds its parameters in the file that XAVANTES_PARAMETERS names".to_owned(),
        ),
        ErrorKind::NotFound => (v1::FailureKind::Worker, "there is no such program on this node".to_owned()),
        ErrorKind::PermissionDenied => (v1::FailureKind::Worker, "it may not be executed".to_owned()),
        _ => (v1::FailureKind::Worker, error.to_string()),
    };
    failure(kind, format!("cannot start {name}: {why}"))
}

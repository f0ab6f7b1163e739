//! The operating system command of an attempt, with its environment and its limits.

use std::ffi::OsString;
use std::io::{self, ErrorKind};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use xavantes_model::definition::ActivityType;
use xavantes_proto::v1;

use super::attempt_directories::WorkDir;
use super::cgroups::Cgroup;
use super::invocation::Invocation;
use super::program_host::{COMMAND_VARIABLE, ProgramHost};
use super::resource_limits::UsageLimits;
use super::tracked_program::ProgramSpec;
use crate::attempt_failure::{AttemptFailure, failure, worker_failure};

/// The command of an attempt, and what the process table must know of it.
pub(super) fn command(
    host: &ProgramHost,
    activity: &ActivityType,
    workdir: &WorkDir,
    invocation: &Invocation,
    gpus: &[u32],
) -> Result<(Command, ProgramSpec), AttemptFailure> {
    let requires = &activity.requires;
    let mut variables = vec![
        ("HOME".to_owned(), workdir.work().to_string_lossy().into_owned()),
        ("TMPDIR".to_owned(), workdir.temporary().to_string_lossy().into_owned()),
    ];
    if host.gpus.count > 0 {
        let numbers: Vec<String> = gpus.iter().map(u32::to_string).collect();
        variables.push(("CUDA_VISIBLE_DEVICES".to_owned(), numbers.join(",")));
    }
    variables.extend(invocation.environment.iter().map(|(name, value)| (name.clone(), value.clone())));
    if let (Some(engine), Some(image)) = (&host.engine, &activity.launch.image) {
        // The image has a PATH and commands of its own.
        let shared = host.variables.iter().filter(|(name, _)| name != "PATH" && name != COMMAND_VARIABLE);
        let text = |it: &OsString| it.to_string_lossy().into_owned();
        variables.splice(0..0, shared.map(|(name, value)| (text(name), text(value))));
        let command = engine.command(image, invocation, &variables, requires, gpus, workdir);
        let limits = UsageLimits { scratch: requires.scratch, ..UsageLimits::default() };
        return Ok((command, ProgramSpec { directory: workdir.path().to_owned(), limits, cgroup: None }));
    }
    let program = &invocation.command[0];
    // With an absolute path the standard library starts a program without copying this process's memory.
    let found = host.search(program).ok_or_else(|| {
        failure(v1::FailureKind::Worker, format!("cannot start {program:?}: there is no such program on this node"))
    })?;
    let cgroup = match &host.cgroups {
        Some(cgroups) => {
            cgroups.make(requires).map_err(|error| worker_failure("cannot make a control group", &error))?
        }
        None => None,
    };
    let mut command = match (requires.open_files, &cgroup) {
        (0, None) => Command::new(found),
        (open_files, cgroup) => {
            check_program(&workdir.work().join(&found)).map_err(|error| cannot_start(&invocation.name, &error))?;
            limited_command(&found, open_files, cgroup.as_ref())
        }
    };
    command.args(&invocation.command[1..]).current_dir(workdir.work()).env_clear();
    command.envs(host.variables.iter().map(|(name, value)| (name, value))).envs(variables);
    // The process table enforces the limits that the kernel does not.
    let observed = |controller: &str, limit: u64| match &host.cgroups {
        Some(cgroups) if cgroups.limits(controller) => 0,
        _ => limit,
    };
    let limits = UsageLimits {
        memory: observed("memory", requires.memory),
        scratch: requires.scratch,
        processes: observed("pids", requires.processes.into()),
    };
    Ok((command, ProgramSpec { directory: workdir.path().to_owned(), limits, cgroup }))
}

/// A shell that limits itself and then becomes the program. A process can set inherited limits, and enter a control group,
/// for itself only.
fn limited_command(program: &Path, open_files: u32, cgroup: Option<&Cgroup>) -> Command {
    let (mut script, mut values) = (String::new(), Vec::<OsString>::new());
    if open_files > 0 {
        script += "ulimit -n \"$1\" && shift && ";
        values.push(open_files.to_string().into());
    }
    if let Some(cgroup) = cgroup {
        script += "echo 0 > \"$1\" && shift && ";
        values.push(cgroup.entrance().into());
    }
    script += "exec \"$@\"";
    let mut command = Command::new("/bin/sh");
    command.arg("-c").arg(script).arg("sh").args(values).arg(program);
    command
}

/// Checks that a program can be started, with the errors that starting it would give.
fn check_program(program: &Path) -> io::Result<()> {
    let metadata = std::fs::metadata(program)?;
    match metadata.is_file() && metadata.permissions().mode() & 0o111 != 0 {
        true => Ok(()),
        false => Err(ErrorKind::PermissionDenied.into()),
    }
}

/// The failure of a program that could not be started.
pub(super) fn cannot_start(name: &str, error: &io::Error) -> AttemptFailure {
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

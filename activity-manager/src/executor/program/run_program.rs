//! Runs one attempt of an external program: working directory, files in, program, results and files out.

use std::sync::{Arc, Weak};
use std::time::Instant;

use parking_lot::Mutex;
use tokio::runtime::Handle;
use xavantes_model::definition::ActivityCode;
use xavantes_proto::v1;

use super::attempt_directories::WorkDir;
use super::call_channel::CallChannel;
use super::code_prelude::write_prelude;
use super::interpreters::usual_interpreter;
use super::invocation::{invocation, parameters_json};
use super::program_host::ProgramHost;
use super::program_results::{check_complete, check_exit, collect};
use super::program_values::ProgramObjects;
use super::supervise::supervise;
use crate::attempt_failure::{AttemptFailure, failure, worker_failure};
use crate::attempts::job::Job;
use crate::executor::host::ActivityHost;
use crate::logs::live_log::AttemptLog;
use crate::staging::Staging;
use crate::staging::stage_in::StagedInputs;

/// Runs external programs.
pub(crate) struct ProgramExecutor {
    pub program_host: ProgramHost,
    staging: Staging,
    host: Weak<dyn ActivityHost>,
}

impl ProgramExecutor {
    pub fn new(program_host: ProgramHost, staging: Staging, host: Weak<dyn ActivityHost>) -> Self {
        Self { program_host, staging, host }
    }

    /// Starts an attempt on the runtime, whichever thread calls this.
    pub fn start(self: &Arc<Self>, runtime: &Handle, job: Arc<Job>) {
        let this = self.clone();
        // The host waits for no attempt after it is dropped.
        let Some(host) = self.host.upgrade() else { return };
        runtime.spawn(async move { this.run(&host, &job).await });
    }

    /// Runs an attempt to its end.
    async fn run(&self, host: &Arc<dyn ActivityHost>, job: &Arc<Job>) {
        let programs = &self.program_host;
        let log = programs.logs.begin(job.log_title());
        let began = Instant::now();
        let mut usage = v1::Usage { node: programs.node.clone(), ..v1::Usage::default() };
        let done = self.run_in_new_workdir(host, job, &log, &mut usage).await;
        usage.wall_ms = began.elapsed().as_millis() as u64;
        let outcome = match done {
            Ok(results) => v1::answer::Outcome::Completed(v1::Completed { results }),
            Err(_) if job.stop.is_cancelled() => v1::answer::Outcome::Cancelled(v1::Nothing {}),
            Err(mut failure) => {
                failure.worker = Some(programs.node.clone());
                failure.line.get_or_insert(job.activity().line);
                v1::answer::Outcome::Failed(*failure)
            }
        };
        programs.logs.finish(&log, &outcome, &usage);
        host.on_finished(job, outcome, Some(usage));
    }

    async fn run_in_new_workdir(
        &self,
        host: &Arc<dyn ActivityHost>,
        job: &Arc<Job>,
        log: &AttemptLog,
        usage: &mut v1::Usage,
    ) -> Result<Vec<v1::Value>, AttemptFailure> {
        let workdirs = &self.program_host.workdirs;
        let mut workdir = workdirs.make().map_err(|error| worker_failure("cannot make a working directory", &error))?;
        let done = self.run_with_staging(host, job, log, &mut workdir, usage).await;
        let failed = done.is_err() && !job.stop.is_cancelled();
        // A name that people can read, and that differs for each attempt.
        let name = failed.then(|| format!("{}-{}", job.path.replace('/', "."), job.attempt.key.attempt));
        match (workdir.close(name.as_deref()).await, done) {
            (Some(kept), Err(mut failure)) => {
                failure.message += &format!("; its directory is kept as {}", kept.display());
                Err(failure)
            }
            (_, done) => done,
        }
    }

    async fn run_with_staging(
        &self,
        host: &Arc<dyn ActivityHost>,
        job: &Arc<Job>,
        log: &AttemptLog,
        workdir: &mut WorkDir,
        usage: &mut v1::Usage,
    ) -> Result<Vec<v1::Value>, AttemptFailure> {
        let staged = self.staging.stage_in(job, &workdir.work()).await?;
        let done = self.run_staged(host, job, log, workdir, &staged, usage).await;
        // A directory that stays for inspection keeps its input files.
        if done.is_ok() || !self.program_host.workdirs.keeps_failures() {
            staged.remove();
        }
        done
    }

    async fn run_staged(
        &self,
        host: &Arc<dyn ActivityHost>,
        job: &Arc<Job>,
        log: &AttemptLog,
        workdir: &mut WorkDir,
        staged: &StagedInputs,
        usage: &mut v1::Usage,
    ) -> Result<Vec<v1::Value>, AttemptFailure> {
        let (programs, activity) = (&self.program_host, job.activity());
        let interpreter = |language: &str| match activity.launch.image {
            Some(_) => Some(vec![usual_interpreter(language).to_owned()]),
            None => programs.interpreters.command(language).map(<[String]>::to_vec),
        };
        let mut invocation = invocation(job, &staged.parameters, interpreter, workdir)?;
        let unwritten = |error| worker_failure("cannot write what the program needs", &error);
        if let ActivityCode::Interpreter { text, .. } = &activity.code {
            workdir.write(workdir.script(), text.as_bytes()).map_err(unwritten)?;
        }
        let mut objects = ProgramObjects::default();
        for parameter in &staged.parameters {
            objects.add(parameter).map_err(|problem| failure(v1::FailureKind::Limit, problem))?;
        }
        if let Some(language) = activity.language() {
            write_prelude(language, activity, &staged.parameters, &mut objects, workdir).map_err(unwritten)?;
        }
        let has_objects = !objects.is_empty();
        let objects = Arc::new(Mutex::new(objects));
        let mut channel = None;
        if has_objects {
            let socket = workdir.socket();
            invocation.environment.insert("XAVANTES_SHARED".to_owned(), socket.to_string_lossy().into_owned());
            channel = Some(CallChannel::open(socket, host, job, &objects)?);
        }
        if !job.parameters.is_empty() {
            let json = parameters_json(job, &staged.parameters);
            workdir.write(workdir.parameters(), json.as_bytes()).map_err(unwritten)?;
        }
        if job.stop.is_requested() {
            return Err(job.stop_failure());
        }
        let exit = supervise(programs, job, log, workdir, &invocation, usage).await;
        if let Some(channel) = channel {
            channel.close().await;
        }
        let exit = exit?;
        check_exit(&activity.launch, &invocation.name, &exit)?;
        let (mut results, unused) = collect(job, &staged.parameters, &objects.lock(), workdir, &exit)?;
        self.staging.stage_out(job, &workdir.work(), staged, &mut results).await?;
        check_complete(activity, &results, &unused)?;
        Ok(results)
    }
}

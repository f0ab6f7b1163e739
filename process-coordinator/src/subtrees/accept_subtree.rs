//! A subtree of another coordinator's process arrives, and is started or refused.

use std::sync::Arc;

use tracing::warn;
use xavantes_proto::message_limits::{check_job, check_path};
use xavantes_proto::v1;
use xavantes_proto::v1::refusal_reason::Kind as RefusalKind;
use xavantes_repository::Error;
use xavantes_telemetry::{DelegationSide, metrics};

use crate::coordinator::Coordinator;
use crate::process::driver_input::ProcessInput;
use crate::process::handle::LiveInput;
use crate::process::start_process::{StartError, StartOptions};
use crate::subtrees::hosted_subtrees::{self, Caller};
use crate::subtrees::parent_links::ParentAttempt;
use crate::subtrees::parent_streams::Parent;
use xavantes_proto::AttemptKey;

/// Upper bound on the coordinators that are asked for the files of a subtree: a deeper subtree does not ask those further
/// out.
const MAX_RELAYS: usize = 4;

impl Coordinator {
    /// Starts a subtree, or refuses it. `stream` is the number of the stream that it arrived by.
    pub(crate) async fn accept_subtree(
        self: &Arc<Self>,
        caller: &Caller,
        stream: u64,
        hello: &v1::CoordinatorHello,
        job: v1::Job,
    ) {
        let parents = &self.parents;
        let invalid = check_job(&job).and_then(|()| check_path("the process of the job", process_of(&job))).err();
        let (Some(id), Some(subtree)) = (job.id, job.subtree) else { return };
        if let Some(problem) = invalid {
            return warn!(coordinator = %caller, %problem, "ignored an invalid job");
        }
        let (key, path): (_, Arc<str>) = (AttemptKey::from(&id), job.path.into());
        let process = hosted_subtrees::process_id(caller, &key, &path);
        let parent = Parent { attempt: ParentAttempt { caller: caller.clone(), key }, parents: parents.clone() };
        if !parents.arrive(&parent.attempt, stream, &process, job.epoch) {
            return;
        }
        if !self.accepts_group(&hello.group) {
            return parent.refuse(RefusalKind::GroupNotAccepted(v1::Nothing {}));
        }
        let loaded = match self.programs.fetch(&job.program).await {
            Ok(Some(loaded)) => loaded,
            Ok(None) => return parent.refuse(RefusalKind::UnknownProgram(v1::Nothing {})),
            Err(error) => return parent.refuse(RefusalKind::NotRecorded(error.to_string())),
        };
        let options = StartOptions {
            no_reuse: subtree.no_reuse,
            recipes: job.recipes,
            relays: job.relays.into_iter().take(MAX_RELAYS).collect(),
            ..StartOptions::default()
        };
        let start = match hosted_subtrees::start_from(&loaded.program, path, job.parameters, subtree) {
            Ok(start) => start,
            Err(unfit) => return parent.refuse(RefusalKind::InvalidJob(unfit.0.to_owned())),
        };
        let origin = parent.attempt.origin(hello.address.clone());
        match self.start(process, loaded, start, options, Some((origin, parent.clone()))).await {
            Ok(epoch) => {
                metrics().delegations.of(DelegationSide::Host).inc();
                self.report_place(parent, hello.address.clone(), epoch, true);
            }
            Err(StartError::IdTaken) => parent.refuse(RefusalKind::TakenElsewhere(v1::Nothing {})),
            Err(StartError::InvalidParameters(problems)) => {
                parent.refuse(RefusalKind::InvalidJob(problems));
            }
            Err(StartError::NotStored(error)) => {
                parent.refuse(RefusalKind::NotRecorded(error.to_string()));
            }
        }
    }

    fn accepts_group(&self, group: &String) -> bool {
        let allowed = &self.options.foreign_groups;
        *group == self.options.group || allowed.is_empty() || allowed.contains(group)
    }

    /// Sends an input to a process that runs a subtree, if it runs. A subtree that is held can be cancelled; an error if
    /// the repository does not answer now.
    pub(crate) async fn notify_subtree(&self, process: Option<Arc<str>>, input: LiveInput) -> Result<(), Error> {
        let Some(process) = process else { return Ok(()) };
        if let Some(handle) = self.processes.find(&process) {
            handle.notify(input).await;
        } else if matches!(input, ProcessInput::ParentCancelled)
            && let Err(error) = self.cancel_held(&process).await
        {
            warn!(%process, %error, "could not cancel a held subtree");
            if matches!(error, Error::Unavailable(_)) {
                return Err(error);
            }
        }
        Ok(())
    }
}

fn process_of(job: &v1::Job) -> &str {
    job.id.as_ref().map_or("", |id| &id.process)
}

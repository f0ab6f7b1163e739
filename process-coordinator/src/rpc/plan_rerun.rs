//! `PlanRerun`: what a rerun would take over and what it would run, in parts. Starts and stores nothing.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use tonic::Status;
use xavantes_engine::Start;
use xavantes_model::digest::Digest;
use xavantes_model::script::{Sandbox, ScriptLimits};
use xavantes_proto::{v1, value};

use crate::coordinator::Coordinator;
use crate::engine_messages::references;
use crate::memo::former_activities::FormerActivities;
use crate::process::rerun_plan::PlannedRerun;
use crate::rpc::outputs::PartStream;
use crate::rpc::submit::CheckedSubmission;

/// A plan takes at most this long.
const MAX_TIME: Duration = Duration::from_secs(10);
/// Upper bound on the files of results that a plan looks for. It takes for granted that there are more of them.
const MAX_FILES: usize = 20_000;
/// Number of files that nodes are asked for at once.
const FILES_AT_ONCE: usize = 500;

pub(super) async fn plan_rerun(
    coordinator: &Coordinator,
    mut request: v1::SubmitRequest,
) -> Result<PartStream, Status> {
    let _permit = coordinator.plans.acquire().await;
    let CheckedSubmission { loaded, process, parameters, former } =
        CheckedSubmission::check(coordinator, &mut request).await?;
    let former = former.ok_or_else(|| Status::invalid_argument("the request names no former process"))?;
    for (name, given) in &parameters {
        if let Some(file) = coordinator.pinning.missing(&[value(given)]).await.first() {
            return Err(Status::failed_precondition(format!(
                "no node has the file {:?} of parameter {name:?} any more: give it again with -p {name}=@PATH",
                file.uri
            )));
        }
    }
    let gone = gone_files(coordinator, &former).await;
    let planned = PlannedRerun {
        start: Start::new(request.rerun_of, process, parameters),
        program: loaded.program,
        max_bytes: coordinator.options.process_bytes,
        former,
        gone,
    };
    let planning = tokio::task::spawn_blocking(move || {
        let began = Instant::now();
        let mut sandbox = Sandbox::new(ScriptLimits::CONTROL, false).map_err(|error| vec![error.to_string()])?;
        planned.plan(&mut sandbox, || began.elapsed() > MAX_TIME)
    });
    let plan = planning.await.map_err(|_| Status::internal("the plan failed because of an error in this program"))?;
    let plan = plan.map_err(|problems| Status::invalid_argument(problems.join("\n")))?;
    Ok(Box::pin(tokio_stream::iter(xavantes_proto::split(&plan).map(Ok))))
}

/// Files among the results of a former process that no node has any more.
async fn gone_files(coordinator: &Coordinator, former: &FormerActivities) -> HashSet<Digest> {
    let with_files = former.results().flat_map(|completed| completed.results);
    let with_files: Vec<v1::Value> = with_files.filter(|value| !references(value).is_empty()).take(MAX_FILES).collect();
    let mut gone = HashSet::new();
    for some in with_files.chunks(FILES_AT_ONCE) {
        let missing = coordinator.pinning.missing(some).await;
        let digest = |file: v1::FileReference| Digest::from_bytes(&file.content?.digest);
        gone.extend(missing.into_iter().filter_map(digest));
    }
    gone
}

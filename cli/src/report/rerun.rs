//! What a rerun takes over and what it runs.

#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;
use xavantes_proto::v1;

use super::reuse::Reuse;

/// What a rerun takes over and what it runs.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct RerunPlan {
    /// Id of the former process
    pub former: String,
    /// Activities whose results are taken over
    pub taken_over: u64,
    /// Activities that will run, of those whose inputs are known
    pub will_run: u64,
    /// Places of the definition whose activities wait for activities that will run. They run or are taken over, depending on
    /// their inputs
    pub later: u64,
    /// Completed activities of the former process that the plan does not take over
    pub not_used: u64,
    /// Completed activities of the former process whose results were too large to be kept
    pub left_out: u64,
    /// Why the plan ended early: the numbers are lower bounds then
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stopped: Option<PlanLimit>,
    /// Activity types
    pub types: Vec<RerunType>,
}

/// The limit at which the plan of a rerun ends early.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub(crate) enum PlanLimit {
    /// It took too long
    Time,
    /// More activities will run than a plan lists
    Activities,
}

/// What a rerun does with the activities of a type.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct RerunType {
    /// Name of the activity type
    pub r#type: String,
    /// Activities whose results are taken over
    pub taken_over: u64,
    /// Activities that will run
    pub will_run: u64,
    /// Places whose activities wait for activities that will run
    pub later: u64,
    /// The first activities that will run
    pub running: Vec<RerunActivity>,
    /// The first activities that are taken over
    pub taken: Vec<RerunActivity>,
    /// Paths of the first places that wait; `[*]` stands for the iterations of a loop
    pub waiting: Vec<String>,
}

/// An activity of a rerun.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct RerunActivity {
    /// Path of the activity, without the id of the process
    pub path: String,
    /// From where its results come, or why it runs
    pub reuse: Reuse,
}

impl From<v1::RerunPlan> for RerunPlan {
    fn from(plan: v1::RerunPlan) -> Self {
        let stopped = match plan.stopped() {
            v1::RerunStop::Unspecified => None,
            v1::RerunStop::Time => Some(PlanLimit::Time),
            v1::RerunStop::Activities => Some(PlanLimit::Activities),
        };
        Self {
            former: plan.former,
            taken_over: plan.taken_over,
            will_run: plan.will_run,
            later: plan.later,
            not_used: plan.not_used,
            left_out: plan.left_out,
            stopped,
            types: plan.types.into_iter().map(RerunType::from).collect(),
        }
    }
}

impl From<v1::RerunType> for RerunType {
    fn from(of_type: v1::RerunType) -> Self {
        let activities =
            |listed: Vec<v1::RerunActivity>| listed.into_iter().map(RerunActivity::from).collect::<Vec<_>>();
        Self {
            r#type: of_type.r#type,
            taken_over: of_type.taken_over,
            will_run: of_type.will_run,
            later: of_type.later,
            running: activities(of_type.running),
            taken: activities(of_type.taken),
            waiting: of_type.waiting,
        }
    }
}

impl From<v1::RerunActivity> for RerunActivity {
    fn from(activity: v1::RerunActivity) -> Self {
        let decision = v1::ExplainResponse { reason: activity.reason, ..v1::ExplainResponse::default() };
        Self { path: activity.path, reuse: Reuse::from(&decision) }
    }
}

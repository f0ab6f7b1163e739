//! Plans: schedules with their objective values, and comparisons of planners.

#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;
use xavantes_foresight::assumption::{Assumed, Assumption};
use xavantes_foresight::forecast::{Basis, TaskKind};
use xavantes_scheduling::objective::machine_bills;
use xavantes_scheduling::{LowerBounds, Objective, Placement, PlanValue, Problem, Schedule, TaskId};

use crate::planning::goal::{Goal, gap};
use crate::planning::planning_problem::Planned;

/// A plan: where and when each task runs.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[cfg_attr(test, schemars(rename = "Plan"))]
pub(crate) struct PlanReport {
    /// Planner that made it
    pub algorithm: &'static str,
    /// What the planner made small
    pub objective: ObjectiveReport,
    /// When the last task ends
    pub makespan_seconds: f64,
    /// What all machines cost
    pub money: f64,
    /// Lower bounds: no schedule is better
    pub lower_bounds: BoundsReport,
    /// How far the objective is above its lower bound, relative to it; `null` if the bound is 0
    pub gap: Option<f64>,
    /// Seconds that the planner took
    pub elapsed_seconds: f64,
    /// Whether Ctrl-C ended the search; the plan is the best one so far
    pub interrupted: bool,
    /// Seed of the search
    pub seed: u64,
    /// Threads of the search
    pub threads: usize,
    /// The machines
    pub machines: Vec<MachineUse>,
    /// The tasks, in the order of their starts
    pub tasks: Vec<ScheduledTask>,
    /// Machines that store files, if the plan decides it
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<StoredFile>,
    /// What the plan assumes about the process; plan again when it is known
    pub assumptions: Vec<AssumptionReport>,
}

/// What a planner makes small.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[cfg_attr(test, schemars(rename = "Objective"))]
pub(crate) struct ObjectiveReport {
    /// Quantity
    pub kind: ObjectiveKind,
    /// Value of the plan; in a comparison that of the best plan
    pub value: Option<f64>,
    /// Weight of the makespan, if both count
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<f64>,
    /// What the makespan is divided by, if both count
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_scale_seconds: Option<f64>,
    /// What the money is divided by, if both count
    #[serde(skip_serializing_if = "Option::is_none")]
    pub money_scale: Option<f64>,
    /// Time within which the workflow must end
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline_seconds: Option<f64>,
    /// What the machines may cost
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget: Option<f64>,
}

/// Quantity that a planner makes small.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ObjectiveKind {
    Makespan,
    Money,
    Weighted,
}

/// Lower bounds of a problem.
#[derive(Debug, Clone, Copy, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[cfg_attr(test, schemars(rename = "LowerBounds"))]
pub(crate) struct BoundsReport {
    /// No schedule ends earlier
    pub makespan_seconds: f64,
    /// Longest chain of tasks, each on its fastest machine
    pub critical_path_seconds: f64,
    /// All tasks spread over all cores
    pub area_seconds: f64,
    /// No schedule costs less
    pub money: f64,
    /// No schedule has a smaller objective
    pub objective: f64,
}

/// What a plan does with a machine.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct MachineUse {
    /// Name of the machine
    pub machine: String,
    /// Tasks that it runs
    pub tasks: usize,
    /// Seconds that its cores are busy, together
    pub busy_seconds: f64,
    /// Part of its cores' time until the end of the plan in which they are busy
    pub utilisation: f64,
    /// What it costs
    pub money: f64,
}

/// Where and when a task runs.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct ScheduledTask {
    /// Name of the task; of a process the path of the activity
    pub task: String,
    /// Machine
    pub machine: String,
    /// When it begins
    pub start_seconds: f64,
    /// When it ends
    pub finish_seconds: f64,
    /// Whether this is a second run, which saves a transfer
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub duplicate: bool,
    /// Activity type, if the task is an activity of a process
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub activity: Option<String>,
    /// Iterations that the task stands for, if there are several
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iterations: Option<u64>,
    /// Where its duration comes from, if the task is an activity of a process
    #[serde(skip_serializing_if = "Option::is_none")]
    pub basis: Option<BasisReport>,
}

/// Where the duration of an activity comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[cfg_attr(test, schemars(rename = "Basis"))]
#[serde(rename_all = "kebab-case")]
pub(crate) enum BasisReport {
    /// `ESTIMATE` of the activity or its type
    Estimate,
    /// Past runs
    History,
    /// Nothing is known; a default
    Default,
}

/// A file and the machine that stores it.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct StoredFile {
    /// Name of the file
    pub file: String,
    /// Machine
    pub machine: String,
}

/// An assumption about an element of the process.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[cfg_attr(test, schemars(rename = "Assumption"))]
pub(crate) struct AssumptionReport {
    /// Names of elements down to this one, without iterations
    pub element: String,
    /// What is assumed
    pub kind: AssumptionKind,
    /// The same as a sentence
    pub text: String,
}

/// What is assumed of an element.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub(crate) enum AssumptionKind {
    /// Number of iterations
    Iterations,
    /// Case of a switch
    Branch,
    /// Several iterations as one task
    Chunks,
    /// No `JOIN` or `EXIT_CONDITION` ends the controller before all of its elements
    AllElements,
    /// Calls of process types that are planned as one task
    Recursion,
    /// Code that fails with what is known
    Code,
    /// Duration of activities of a type
    Seconds,
}

/// Planners beside each other.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct Comparison {
    /// What to make small, and the least value that was found
    pub objective: ObjectiveReport,
    /// Lower bounds: no schedule is better
    pub lower_bounds: BoundsReport,
    /// Tasks of the workflow
    pub tasks: usize,
    /// Machines
    pub machines: usize,
    /// Whether Ctrl-C ended the comparison
    pub interrupted: bool,
    /// Seed of searches
    pub seed: u64,
    /// Threads of searches
    pub threads: usize,
    /// The planners, best first
    pub planners: Vec<ComparedPlanner>,
    /// What the plans assume about the process
    pub assumptions: Vec<AssumptionReport>,
}

/// A planner beside others.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct ComparedPlanner {
    /// Name of the planner
    pub algorithm: &'static str,
    /// How it works: `list`, `search`, …
    pub kind: &'static str,
    /// Value of the objective; `null` if there is no plan
    pub objective: Option<f64>,
    /// When the last task ends
    pub makespan_seconds: Option<f64>,
    /// What all machines cost
    pub money: Option<f64>,
    /// How far the objective is above its lower bound, relative to it
    pub gap: Option<f64>,
    /// Seconds that the planner took
    pub elapsed_seconds: Option<f64>,
    /// Why there is no plan, or which limit the plan breaks
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

impl ObjectiveReport {
    pub(crate) fn new(goal: &Goal, value: Option<PlanValue>) -> Self {
        let mut report = Self {
            kind: ObjectiveKind::Makespan,
            value: value.map(|value| goal.objective.score(value).value),
            weight: None,
            time_scale_seconds: None,
            money_scale: None,
            deadline_seconds: goal.deadline,
            budget: goal.budget,
        };
        match goal.objective {
            Objective::Makespan | Objective::MakespanWithinBudget { .. } => {}
            Objective::Money | Objective::MoneyWithinDeadline { .. } => report.kind = ObjectiveKind::Money,
            Objective::Weighted { weight, time_scale, money_scale } => {
                report.kind = ObjectiveKind::Weighted;
                report.weight = Some(weight);
                report.time_scale_seconds = Some(time_scale);
                report.money_scale = Some(money_scale);
            }
        }
        report
    }
}

impl BoundsReport {
    pub(crate) fn new(bounds: &LowerBounds, objective: Objective) -> Self {
        Self {
            makespan_seconds: bounds.makespan,
            critical_path_seconds: bounds.critical_path,
            area_seconds: bounds.area,
            money: bounds.money,
            objective: bounds.value(objective),
        }
    }
}

impl AssumptionReport {
    pub(crate) fn all(assumptions: &[Assumption]) -> Vec<Self> {
        assumptions.iter().map(Self::new).collect()
    }

    fn new(assumption: &Assumption) -> Self {
        let kind = match &assumption.what {
            Assumed::Iterations { .. } => AssumptionKind::Iterations,
            Assumed::Branch { .. } => AssumptionKind::Branch,
            Assumed::Chunks { .. } => AssumptionKind::Chunks,
            Assumed::AllElements => AssumptionKind::AllElements,
            Assumed::Recursion => AssumptionKind::Recursion,
            Assumed::Code { .. } => AssumptionKind::Code,
            Assumed::Seconds { .. } => AssumptionKind::Seconds,
        };
        Self { element: assumption.element.clone(), kind, text: assumption.to_string() }
    }
}

/// How a plan was made.
pub(crate) struct Making {
    pub algorithm: &'static str,
    pub elapsed_seconds: f64,
    pub interrupted: bool,
    pub seed: u64,
    pub threads: usize,
}

impl PlanReport {
    pub(crate) fn new(
        planned: &Planned,
        schedule: &Schedule,
        goal: &Goal,
        bounds: &LowerBounds,
        making: Making,
    ) -> Self {
        let problem = &planned.problem;
        let value = PlanValue::of(problem, schedule);
        let mut runs: Vec<(usize, (TaskId, Placement))> = schedule.runs().enumerate().collect();
        runs.retain(|(_, (task, _))| !planned.is_join(*task));
        runs.sort_by(|(_, (a, one)), (_, (b, other))| one.start.total_cmp(&other.start).then(a.cmp(b)));
        let tasks = runs
            .iter()
            .map(|(run, (task, placement))| scheduled(planned, *task, *placement, *run >= problem.task_count()));
        let files = problem.workflow().files().filter_map(|file| {
            let machine = schedule.stored_on(file)?;
            let name = problem.workflow().file_name(file).to_owned();
            Some(StoredFile { file: name, machine: problem.machine(machine).name.clone() })
        });
        Self {
            algorithm: making.algorithm,
            objective: ObjectiveReport::new(goal, Some(value)),
            makespan_seconds: value.makespan,
            money: value.money,
            lower_bounds: BoundsReport::new(bounds, goal.objective),
            gap: gap(problem, goal.objective, value, bounds),
            elapsed_seconds: making.elapsed_seconds,
            interrupted: making.interrupted,
            seed: making.seed,
            threads: making.threads,
            machines: machine_uses(planned, schedule),
            tasks: tasks.collect(),
            files: files.collect(),
            assumptions: AssumptionReport::all(&planned.assumptions),
        }
    }
}

fn scheduled(planned: &Planned, task: TaskId, placement: Placement, duplicate: bool) -> ScheduledTask {
    let (activity, iterations, basis) = match planned.kinds.get(&task) {
        Some(TaskKind::Activity { activity, iterations, basis, .. }) => {
            let basis = match basis {
                Basis::Estimate => BasisReport::Estimate,
                Basis::History => BasisReport::History,
                Basis::Default => BasisReport::Default,
            };
            (Some(activity.to_string()), (*iterations > 1).then_some(*iterations), Some(basis))
        }
        _ => (None, None, None),
    };
    ScheduledTask {
        task: planned.problem.workflow().name(task).to_owned(),
        machine: planned.problem.machine(placement.machine).name.clone(),
        start_seconds: placement.start,
        finish_seconds: placement.finish,
        duplicate,
        activity,
        iterations,
        basis,
    }
}

/// What a schedule does with each machine.
pub(crate) fn machine_uses(planned: &Planned, schedule: &Schedule) -> Vec<MachineUse> {
    let problem: &Problem = &planned.problem;
    let mut uses = vec![(0usize, 0.0f64); problem.machine_count()];
    for (task, placement) in schedule.runs() {
        let (tasks, busy) = &mut uses[placement.machine.index()];
        *tasks += usize::from(!planned.is_join(task));
        *busy += (placement.finish - placement.start) * f64::from(problem.workflow().cores(task));
    }
    let (makespan, bills) = (schedule.makespan(), machine_bills(problem, schedule));
    let machines = problem.platform().machines.iter().zip(uses).zip(bills);
    let report = |((machine, (tasks, busy)), money): ((&xavantes_scheduling::Machine, (usize, f64)), f64)| MachineUse {
        machine: machine.name.clone(),
        tasks,
        busy_seconds: busy,
        utilisation: if makespan > 0.0 { busy / makespan / f64::from(machine.cores) } else { 0.0 },
        money,
    };
    machines.map(report).collect()
}

//! `xavantes plan`: where and when the tasks of a workflow run, by one planner or by all of them.

use clap::Args;
use xavantes_scheduling::catalogue::{self, CatalogueEntry};
use xavantes_scheduling::{LowerBounds, Objective, PlanError, PlanValue, Schedule};

use crate::chart;
use crate::exit::Exit;
use crate::output::printer::Output;
use crate::output::terminal;
use crate::planning::args::PlanningArgs;
use crate::planning::goal::{Broken, Goal, gap};
use crate::planning::picture::gantt;
use crate::planning::planning_problem::{self, Planned};
use crate::planning::search::{Made, PlannerRunner, faults, interruptible, planner};
use crate::report::plan::{
    AssumptionKind, AssumptionReport, BoundsReport, ComparedPlanner, Comparison, Making, ObjectiveReport, PlanReport,
};

/// How long the program looks for the best that is possible when a limit cannot be kept.
const EXPLAIN_TIME: std::time::Duration = std::time::Duration::from_secs(2);

#[derive(Args)]
pub(crate) struct PlanArgs {
    #[command(flatten)]
    pub planning: PlanningArgs,
    /// Compare planners instead of printing one plan: all, or names separated by commas
    #[arg(long, value_name = "all|NAME,NAME", conflicts_with = "algorithm")]
    pub compare: Option<String>,
}

pub(crate) async fn plan(arguments: PlanArgs, output: Output) -> Result<Exit, Exit> {
    let entries = match &arguments.compare {
        Some(names) => Some(chosen(names)?),
        None => None,
    };
    let entry = planner(&arguments.planning.algorithm)?;
    let task = PlanningTask::new(&arguments.planning, output)?;
    let done = interruptible(move |interrupt| {
        let search = PlannerRunner::new(&arguments.planning, interrupt.clone(), output);
        let chart = arguments.planning.chart.as_deref();
        match entries {
            Some(entries) => task.compare(&entries, &search, chart, output),
            None => task.make(entry, &search).and_then(|made| {
                if let Some(file) = chart {
                    chart::write(
                        file,
                        &chart::gantt::draw(&gantt(
                            &task.planned,
                            &made.schedule,
                            &task.goal,
                            &task.bounds,
                            entry.name,
                        )),
                    )?;
                }
                Ok(output.report(&task.report(entry, &made, &search)))
            }),
        }
    });
    done.await?
}

/// The planners of `--compare`.
fn chosen(names: &str) -> Result<Vec<&'static CatalogueEntry>, Exit> {
    match names {
        "all" => Ok(catalogue::ALL.iter().collect()),
        names => names.split(',').map(|name| planner(name.trim())).collect(),
    }
}

/// What is to be planned.
pub(super) struct PlanningTask {
    pub planned: Planned,
    pub goal: Goal,
    pub bounds: LowerBounds,
}

impl PlanningTask {
    /// Reads what the arguments name, and warns of durations that nobody knows.
    pub(super) fn new(arguments: &PlanningArgs, output: Output) -> Result<Self, Exit> {
        let planned = planning_problem::read(arguments, output)?;
        let bounds = LowerBounds::of(&planned.problem);
        let goal = Goal::new(arguments.objective, arguments.deadline, arguments.budget, &bounds);
        let assumed = AssumptionReport::all(&planned.assumptions);
        for assumption in assumed.iter().filter(|assumption| assumption.kind == AssumptionKind::Seconds) {
            output.note(&format!("warning: {}\n", assumption.text));
        }
        Ok(Self { planned, goal, bounds })
    }

    /// Makes a plan that keeps all limits, or prints why there is none.
    pub(super) fn make(&self, entry: &CatalogueEntry, search: &PlannerRunner) -> Result<Made, Exit> {
        let made = search.make(entry, &self.planned.problem, self.goal.objective);
        let made = match made {
            Ok(made) => made,
            Err(PlanError::LimitMissed { limit, .. }) => {
                return Err(self.explain(self.goal.limit(limit), None, search));
            }
            Err(error) => return Err(terminal::error(&format!("{}: {error}", entry.name))),
        };
        if let Some(broken) = self.goal.broken(made.value) {
            return Err(self.explain(broken, Some(made.value), search));
        }
        match faults(&self.planned.problem, &made.schedule).first() {
            None => Ok(made),
            Some(fault) => {
                terminal::error(&format!("{} made a schedule that is not valid: {fault}", entry.name));
                Err(Exit::Failed)
            }
        }
    }

    /// Prints why a limit cannot be kept, and what is possible.
    fn explain(&self, broken: Broken, found: Option<PlanValue>, search: &PlannerRunner) -> Exit {
        let possible = match self.broken_by_bounds(broken) {
            true => None,
            false => self.nearest(broken.nearest(), search),
        };
        let better = |one: PlanValue, other: PlanValue| match broken {
            Broken::Deadline { .. } if other.makespan < one.makespan => other,
            Broken::Budget { .. } if other.money < one.money => other,
            _ => one,
        };
        let found = found.into_iter().chain(possible).reduce(better);
        terminal::error(&broken.explain(&self.bounds, found))
    }

    fn broken_by_bounds(&self, broken: Broken) -> bool {
        match broken {
            Broken::Deadline { limit } => self.bounds.makespan > limit,
            Broken::Budget { limit } => self.bounds.money > limit,
        }
    }

    /// The best that can be found in a short time without limits.
    fn nearest(&self, objective: Objective, search: &PlannerRunner) -> Option<PlanValue> {
        let unlimited = self.planned.problem.clone();
        let mut limits = unlimited.limits().clone();
        (limits.deadline, limits.budget) = (None, None);
        let unlimited = unlimited.with_limits(limits).ok()?;
        let made = search.with_time_limit(EXPLAIN_TIME).make(catalogue::find("auto")?, &unlimited, objective).ok()?;
        Some(made.value)
    }

    fn report(&self, entry: &CatalogueEntry, made: &Made, search: &PlannerRunner) -> PlanReport {
        let making = Making {
            algorithm: entry.name,
            elapsed_seconds: made.elapsed.as_secs_f64(),
            interrupted: search.interrupt.is_set(),
            seed: search.seed,
            threads: search.threads,
        };
        PlanReport::new(&self.planned, &made.schedule, &self.goal, &self.bounds, making)
    }

    /// Runs planners one after the other, and prints them beside each other.
    fn compare(
        &self,
        entries: &[&'static CatalogueEntry],
        search: &PlannerRunner,
        chart: Option<&std::path::Path>,
        output: Output,
    ) -> Result<Exit, Exit> {
        let mut rows: Vec<(Option<PlanValue>, ComparedPlanner)> = Vec::new();
        let mut best: Option<(PlanValue, Schedule, &'static str)> = None;
        for entry in entries {
            let (made, problem) = self.try_one(entry, search);
            let value = made.as_ref().map(|made| made.value);
            rows.push((value.filter(|_| problem.is_none()), self.row(entry, made.as_ref(), problem.clone())));
            let Some(made) = made.filter(|_| problem.is_none()) else { continue };
            let objective = self.goal.objective;
            if best.as_ref().is_none_or(|(value, ..)| objective.score(made.value).beats(&objective.score(*value))) {
                best = Some((made.value, made.schedule, entry.name));
            }
        }
        let score =
            |value: &Option<PlanValue>| value.map_or(f64::INFINITY, |value| self.goal.objective.score(value).value);
        // The order of the catalogue decides among equals.
        rows.sort_by(|(a, _), (b, _)| score(a).total_cmp(&score(b)));
        if let (Some(file), Some((_, schedule, name))) = (chart, &best) {
            let picture = gantt(&self.planned, schedule, &self.goal, &self.bounds, name);
            chart::write(file, &chart::gantt::draw(&picture))?;
        }
        let value = best.as_ref().map(|(value, ..)| *value);
        let exit = output.report(&Comparison {
            objective: ObjectiveReport::new(&self.goal, value),
            lower_bounds: BoundsReport::new(&self.bounds, self.goal.objective),
            tasks: self.planned.problem.tasks().filter(|task| !self.planned.is_join(*task)).count(),
            machines: self.planned.problem.machine_count(),
            interrupted: search.interrupt.is_set(),
            seed: search.seed,
            threads: search.threads,
            planners: rows.into_iter().map(|(_, row)| row).collect(),
            assumptions: AssumptionReport::all(&self.planned.assumptions),
        });
        Ok(exit.or(if value.is_some() { Exit::Success } else { Exit::Usage }))
    }

    /// A plan, and why it does not count.
    fn try_one(&self, entry: &CatalogueEntry, search: &PlannerRunner) -> (Option<Made>, Option<String>) {
        let problem = &self.planned.problem;
        if search.interrupt.is_set() {
            return (None, Some("interrupted".into()));
        }
        if !entry.suits(problem) {
            return (None, Some("the problem is too large".into()));
        }
        let made = match search.make(entry, problem, self.goal.objective) {
            Ok(made) => made,
            Err(error) => return (None, Some(error.to_string())),
        };
        let broken = self.goal.broken(made.value).map(|broken| match broken {
            Broken::Deadline { .. } => "breaks the deadline".to_owned(),
            Broken::Budget { .. } => "breaks the budget".to_owned(),
        });
        let fault = || faults(problem, &made.schedule).first().map(|fault| format!("not valid: {fault}"));
        let problem = broken.or_else(fault);
        (Some(made), problem)
    }

    fn row(&self, entry: &CatalogueEntry, made: Option<&Made>, problem: Option<String>) -> ComparedPlanner {
        let value = made.map(|made| made.value);
        let objective = self.goal.objective;
        ComparedPlanner {
            algorithm: entry.name,
            kind: entry.kind.name(),
            objective: value.map(|value| objective.score(value).value),
            makespan_seconds: value.map(|value| value.makespan),
            money: value.map(|value| value.money),
            gap: value.and_then(|value| gap(&self.planned.problem, objective, value, &self.bounds)),
            elapsed_seconds: made.map(|made| made.elapsed.as_secs_f64()),
            problem,
        }
    }
}

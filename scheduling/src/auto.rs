//! What `--algorithm auto` chooses: every cheap planner first; if the problem is small, a short search and then a proof;
//! otherwise, or if the proof takes too long, the relay search on all threads.
//!
//! The result is no worse than that of any just-in-time, list or quality-of-service planner of the catalogue, because
//! these run first and the best schedule of all phases wins. A stop ends the search with the best schedule so far; the
//! cheap planners always run. Without a stop, equal seeds and threads give equal schedules.
//!
//! Deadlines and budgets come with the objective or with the limits of the problem. The planner fails if its best
//! schedule breaks one of them.

use crate::exact::branch::{Branch, Scope};
use crate::objective::{Objective, PlanValue, Score};
use crate::planner::{PlanError, Planner, Progress, Run};
use crate::planner_list::{Effort, OTHERS, PlannerLimit};
use crate::problem::Problem;
use crate::rank::Ranks;
use crate::schedule::Schedule;
use crate::search::solution::Solution;
use crate::search::{GraspIls, ParallelSearch, Relay};
use crate::validate::validate;

/// The planner that chooses for its user.
#[derive(Debug, Clone, Copy)]
pub struct Auto {
    /// Threads of the search; at least one.
    pub threads: usize,
    /// Whether the search goes on until it is stopped.
    pub until_stopped: bool,
    /// Problems with at most this many tasks times machines are searched for a proof.
    pub provable: usize,
    /// The search for a proof gives up after this many nodes.
    pub max_nodes: u64,
    /// The search, with its effort when it is not stopped.
    pub relay: Relay,
}

impl Default for Auto {
    fn default() -> Self {
        Self { threads: 1, until_stopped: false, provable: 40, max_nodes: 300_000, relay: Relay::default() }
    }
}

impl Planner for Auto {
    fn name(&self) -> &'static str {
        "auto"
    }

    fn plan(&self, problem: &Problem, run: &mut Run<'_>) -> Result<Schedule, PlanError> {
        let judge = Judge::new(problem, run.objective);
        let mut best = Best { judge, schedule: None, failed: None };
        for goal in judge.goals() {
            self.cheap(goal, &mut best, run);
        }
        if let Some((score, _)) = &best.schedule {
            (run.progress)(Progress { rounds: 0, best: *score });
        }
        for goal in judge.goals() {
            if self.search(goal, &mut best, run) {
                break;
            }
        }
        best.finish()
    }
}

impl Auto {
    /// Every planner that ends soon by itself.
    fn cheap(&self, goal: Objective, best: &mut Best<'_>, run: &Run<'_>) {
        let problem = best.judge.problem;
        for entry in OTHERS.iter().filter(|entry| entry.is_cheap() && entry.suits(problem)) {
            let wanted = match entry.needs {
                PlannerLimit::Nothing => true,
                PlannerLimit::Deadline => best.judge.deadline.is_some(),
                PlannerLimit::Budget => best.judge.budget.is_some(),
            };
            if wanted {
                let mut silence = |_| ();
                let mut own = Run { objective: goal, seed: run.seed, stop: run.stop, progress: &mut silence };
                best.offer((entry.build)(Effort::default()).plan(problem, &mut own));
            }
        }
    }

    /// Proves a small problem, or searches. Says whether the schedule is proved to be the best for this goal.
    fn search(&self, goal: Objective, best: &mut Best<'_>, run: &mut Run<'_>) -> bool {
        let problem = best.judge.problem;
        let mut own = Run { objective: goal, seed: run.seed, stop: run.stop, progress: run.progress };
        if problem.task_count() * problem.machine_count() <= self.provable {
            let grasp_ils = GraspIls { constructions: 4, rounds: 20, ..self.relay.grasp_ils };
            let first = Relay { steps: 2_000, grasp_ils, doublings: 1, ..self.relay };
            best.offer(first.plan(problem, &mut own));
            if self.prove(goal, best, own.stop) {
                return best.judge.goals().len() == 1;
            }
        }
        let relay = if self.until_stopped { self.relay.endless() } else { self.relay };
        best.offer(ParallelSearch { planner: relay, threads: self.threads }.plan(problem, &mut own));
        false
    }
}

impl Auto {
    /// Branch and bound from the best schedule so far. Says whether nothing is left to try.
    fn prove(&self, goal: Objective, best: &mut Best<'_>, stop: &(dyn Fn() -> bool + Sync)) -> bool {
        let problem = best.judge.problem;
        let incumbent = best.schedule.as_ref().map(|(_, schedule)| Solution::of_schedule(problem, schedule));
        let order = Ranks::of(problem).order(problem);
        let scope = Scope { tasks: &order, domains: &[], all_orders: true, max_nodes: self.max_nodes };
        let mut branch = Branch::new(problem, goal, incumbent);
        branch.search(&scope, stop);
        if let Some((_, solution)) = branch.best() {
            best.offer(Ok(solution.decode(problem)));
        }
        !branch.gave_up()
    }
}

/// Compares schedules by the objective and all limits.
#[derive(Clone, Copy)]
struct Judge<'p> {
    problem: &'p Problem,
    objective: Objective,
    deadline: Option<f64>,
    budget: Option<f64>,
}

impl<'p> Judge<'p> {
    fn new(problem: &'p Problem, objective: Objective) -> Self {
        let limits = problem.limits();
        let (mut deadline, mut budget) = (limits.deadline, limits.budget);
        let tighter = |one: Option<f64>, other: f64| Some(one.map_or(other, |one| one.min(other)));
        match objective {
            Objective::MakespanWithinBudget { budget: own } => budget = tighter(budget, own),
            Objective::MoneyWithinDeadline { deadline: own } => deadline = tighter(deadline, own),
            _ => {}
        }
        Self { problem, objective, deadline, budget }
    }

    /// What planners are asked for, one after the other: they know one limit at a time.
    fn goals(&self) -> Vec<Objective> {
        let within_budget = self.budget.map(|budget| Objective::MakespanWithinBudget { budget });
        let within_deadline = self.deadline.map(|deadline| Objective::MoneyWithinDeadline { deadline });
        match self.objective {
            Objective::Makespan | Objective::MakespanWithinBudget { .. } => {
                vec![within_budget.unwrap_or(self.objective)]
            }
            Objective::Money | Objective::MoneyWithinDeadline { .. } => vec![within_deadline.unwrap_or(self.objective)],
            Objective::Weighted { .. } => {
                [Some(self.objective), within_budget, within_deadline].into_iter().flatten().collect()
            }
        }
    }

    fn score(&self, schedule: &Schedule) -> Score {
        let value = PlanValue::of(self.problem, schedule);
        let over = |found: f64, limit: f64| {
            if found <= limit * (1.0 + 1e-9) { 0.0 } else { (found - limit) / limit.max(1e-9) }
        };
        let mut score = Score { excess: 0.0, ..self.objective.score(value) };
        score.excess += self.deadline.map_or(0.0, |deadline| over(value.makespan, deadline));
        score.excess += self.budget.map_or(0.0, |budget| over(value.money, budget));
        for (task, deadline) in &self.problem.limits().task_deadlines {
            score.excess += over(schedule.placement(*task).finish, *deadline);
        }
        score
    }
}

/// The best schedule of all phases.
struct Best<'p> {
    judge: Judge<'p>,
    schedule: Option<(Score, Schedule)>,
    failed: Option<PlanError>,
}

impl Best<'_> {
    fn offer(&mut self, found: Result<Schedule, PlanError>) {
        match found {
            Ok(schedule) => {
                let score = self.judge.score(&schedule);
                let better = self.schedule.as_ref().is_none_or(|(best, _)| score.beats(best));
                // Searches count files without room as an excess, so what they return may not be valid.
                if better && validate(self.judge.problem, &schedule).is_ok() {
                    self.schedule = Some((score, schedule));
                }
            }
            Err(error) => {
                self.failed.get_or_insert(error);
            }
        }
    }

    fn finish(self) -> Result<Schedule, PlanError> {
        let judge = self.judge;
        let Some((score, schedule)) = self.schedule else {
            return match self.failed {
                Some(error) => Err(error),
                None => Ok(Schedule::of_tasks(judge.problem, Vec::new())),
            };
        };
        if score.excess <= 0.0 {
            return Ok(schedule);
        }
        let value = PlanValue::of(judge.problem, &schedule);
        let broken = |limit: Option<f64>, found: f64| limit.filter(|limit| found > limit * (1.0 + 1e-9));
        if let Some(limit) = broken(judge.budget, value.money) {
            return Err(PlanError::LimitMissed { what: "budget", limit });
        }
        if let Some(limit) = broken(judge.deadline, value.makespan) {
            return Err(PlanError::LimitMissed { what: "deadline", limit });
        }
        let tasks = judge.problem.limits().task_deadlines.iter();
        let late =
            tasks.filter(|(task, deadline)| schedule.placement(**task).finish > **deadline).map(|(_, limit)| *limit);
        Err(PlanError::LimitMissed { what: "deadline of a task", limit: late.fold(f64::INFINITY, f64::min) })
    }
}

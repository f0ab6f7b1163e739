//! PPSA (performance prediction based scheduling) of Monge, Bělohradský, García Garino and Železný: branch and bound
//! over the machines of tasks, with critical tasks pre-assigned to the most powerful machines.
//!
//! The paper leaves much open. Here tasks go by upward rank, machines by the end of the task, the first schedule to
//! beat is the best of HEFT and Min-Min, the most powerful third of the machines are those with the least seconds for
//! the task, and a task is critical if it has no slack with mean times. Without pre-assignment and with all orders the
//! result is optimal; large workflows are searched in parts, which is not exact.

use super::branch::{Branch, Scope};
use crate::id::{MachineId, TaskId};
use crate::just_in_time::MinMin;
use crate::list::Heft;
use crate::objective::Score;
use crate::planner::{PlanError, Planner, Run};
use crate::problem::Problem;
use crate::rank::Ranks;
use crate::schedule::Schedule;
use crate::search::solution::Solution;

/// The PPSA planner.
#[derive(Debug, Clone, Copy)]
pub struct Ppsa {
    /// Whether critical tasks run on powerful machines only.
    pub preassign: bool,
    /// Whether all orders of tasks are tried, or the one of ranks alone.
    pub all_orders: bool,
    /// The search of a part gives up after this many nodes.
    pub max_nodes: u64,
    /// Tasks of a part.
    pub part: usize,
}

impl Default for Ppsa {
    fn default() -> Self {
        Self { preassign: true, all_orders: false, max_nodes: 200_000, part: 12 }
    }
}

impl Ppsa {
    /// Tries everything: no pre-assignment, all orders, one part, no limit.
    pub fn exact() -> Self {
        Self { preassign: false, all_orders: true, max_nodes: u64::MAX, part: usize::MAX }
    }
}

/// What a search found.
#[derive(Debug, Clone, PartialEq)]
pub struct Solved {
    /// The best schedule.
    pub schedule: Schedule,
    /// Whether no schedule is better.
    pub optimal: bool,
    /// Nodes of the search.
    pub nodes: u64,
}

impl Ppsa {
    /// Searches and says whether the result is optimal.
    pub fn solve(&self, problem: &Problem, run: &mut Run<'_>) -> Result<Solved, PlanError> {
        let objective = run.objective;
        let mut incumbent: Option<(Score, Solution, Schedule)> = None;
        let mut failed = None;
        for planner in [&Heft::default() as &dyn Planner, &MinMin] {
            match planner.plan(problem, run) {
                Ok(schedule) => {
                    let solution = Solution::of_schedule(problem, &schedule);
                    let score = solution.score(problem, objective);
                    if incumbent.as_ref().is_none_or(|(best, ..)| score.beats(best)) {
                        let schedule = solution.decode(problem);
                        incumbent = Some((score, solution, schedule));
                    }
                }
                Err(error) => failed = Some(error),
            }
        }
        let Some((score, solution, schedule)) = incumbent else {
            return failed.map_or_else(|| Ok(self.nothing(problem)), Err);
        };
        let ranks = Ranks::of(problem);
        let domains = if self.preassign { preassigned(problem, &ranks) } else { Vec::new() };
        let order = ranks.order(problem);
        if order.len() <= self.part {
            let mut branch = Branch::new(problem, objective, Some(solution));
            let scope =
                Scope { tasks: &order, domains: &domains, all_orders: self.all_orders, max_nodes: self.max_nodes };
            branch.search(&scope, run.stop);
            let schedule = branch.best().map_or(schedule, |(_, solution)| solution.decode(problem));
            let optimal = !branch.gave_up() && !self.preassign && self.all_orders;
            return Ok(Solved { schedule, optimal, nodes: branch.nodes() });
        }
        let (found, nodes) = self.in_parts(problem, run, solution.clone(), &order, &domains)?;
        let better = found.score(problem, objective).beats(&score);
        let schedule = if better { found.decode(problem) } else { schedule };
        Ok(Solved { schedule, optimal: false, nodes })
    }

    fn nothing(&self, problem: &Problem) -> Solved {
        Solved { schedule: Schedule::of_tasks(problem, Vec::new()), optimal: true, nodes: 0 }
    }

    /// Part by part along the ranks: the machines of one part are free, those of all other tasks are fixed to the best
    /// solution so far. Every part can only improve it.
    fn in_parts(
        &self,
        problem: &Problem,
        run: &mut Run<'_>,
        mut best: Solution,
        order: &[TaskId],
        domains: &[Option<Vec<MachineId>>],
    ) -> Result<(Solution, u64), PlanError> {
        let mut nodes = 0;
        for part in order.chunks(self.part.max(1)) {
            if (run.stop)() {
                break;
            }
            let fixed: Vec<_> = problem
                .tasks()
                .map(|task| {
                    if part.contains(&task) {
                        domains.get(task.index()).cloned().flatten()
                    } else {
                        Some(vec![best.machines[task.index()]])
                    }
                })
                .collect();
            // The order of the best solution, so that its own machines give the best schedule again.
            let scope =
                Scope { tasks: &best.order.clone(), domains: &fixed, all_orders: false, max_nodes: self.max_nodes };
            let mut branch = Branch::new(problem, run.objective, Some(best.clone())).with_homes(&best);
            branch.search(&scope, run.stop);
            nodes += branch.nodes();
            if let Some((_, solution)) = branch.best() {
                best = solution.clone();
            }
        }
        Ok((best, nodes))
    }
}

/// The machines that critical tasks may use: the most powerful third for each.
fn preassigned(problem: &Problem, ranks: &Ranks) -> Vec<Option<Vec<MachineId>>> {
    let length = |task: TaskId| ranks.upward[task.index()] + ranks.downward[task.index()];
    let longest = problem.tasks().map(length).fold(0.0, f64::max);
    let powerful = |task: TaskId| {
        let seconds = |machine: &MachineId| problem.compute_seconds(task, *machine);
        let mut machines: Vec<_> = problem.machines().filter(|machine| seconds(machine).is_finite()).collect();
        machines.sort_by(|a, b| seconds(a).total_cmp(&seconds(b)));
        machines.truncate(problem.machine_count().div_ceil(3));
        machines
    };
    let critical = |task: TaskId| length(task) >= longest * (1.0 - 1e-9);
    problem.tasks().map(|task| critical(task).then(|| powerful(task))).collect()
}

impl Planner for Ppsa {
    fn name(&self) -> &'static str {
        match (self.preassign, self.all_orders) {
            (true, _) => "ppsa",
            (false, false) => "ppsa-free",
            (false, true) => "exact",
        }
    }

    fn plan(&self, problem: &Problem, run: &mut Run<'_>) -> Result<Schedule, PlanError> {
        Ok(self.solve(problem, run)?.schedule)
    }
}

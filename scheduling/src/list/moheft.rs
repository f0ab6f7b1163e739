//! MOHEFT (multi-objective HEFT) of Durillo and Prodan, Cluster Computing 17(2), 2014: tasks by upward rank; each of
//! several partial schedules is extended by the task on every machine, and the best trade-offs of time and money by
//! crowding distance go on. The result is a Pareto set.

use crate::objective::{ParetoSet, PlanValue};
use crate::partial_schedule::{Candidate, Partial};
use crate::planner::{PlanError, Planner, Run};
use crate::problem::Problem;
use crate::rank::Ranks;
use crate::schedule::Schedule;
use crate::timeline::Fill;

/// Partial schedules are copied for every task; larger problems keep fewer of them.
const MAX_COPIED_ENTRIES: usize = 400_000_000;

/// The MOHEFT planner.
#[derive(Debug, Clone, Copy)]
pub struct Moheft {
    /// How many partial schedules go on.
    pub keep: usize,
}

impl Default for Moheft {
    fn default() -> Self {
        Self { keep: 10 }
    }
}

impl Moheft {
    /// All trade-offs that were found.
    pub fn front(&self, problem: &Problem, run: &Run<'_>) -> Result<ParetoSet<Schedule>, PlanError> {
        let tasks = problem.task_count().max(1);
        let keep = self.keep.min(MAX_COPIED_ENTRIES / tasks / tasks).max(2);
        let mut states = vec![(0.0, Partial::new(problem))];
        for task in Ranks::of(problem).order(problem) {
            let mut extended: ParetoSet<(usize, Candidate, f64)> = ParetoSet::new();
            for (state, (money, partial)) in states.iter().enumerate() {
                for machine in problem.machines() {
                    let Some(candidate) = partial.candidate(task, machine, Fill::Insert) else {
                        continue;
                    };
                    let money = money + partial.added_money(task, &candidate);
                    let value = PlanValue { makespan: partial.makespan().max(candidate.finish), money };
                    extended.insert(value, (state, candidate, money));
                }
            }
            if extended.members().is_empty() {
                return Err(states[0].1.impossible(task));
            }
            // After a stop only one schedule goes on, so that the rest is as fast as HEFT.
            if (run.stop)() {
                let members = extended.into_members();
                let score = |value: &PlanValue| run.objective.score(*value).scalar();
                let best = members.into_iter().min_by(|a, b| score(&a.0).total_cmp(&score(&b.0)));
                states = best.map(|(_, member)| extend(&states, task, member)).into_iter().collect();
                continue;
            }
            extended.thin(keep);
            states = extended.into_members().into_iter().map(|(_, member)| extend(&states, task, member)).collect();
        }
        let mut front = ParetoSet::new();
        for (_, partial) in states {
            let schedule = partial.into_schedule()?;
            front.insert(PlanValue::of(problem, &schedule), schedule);
        }
        Ok(front)
    }
}

fn extend<'p>(
    states: &[(f64, Partial<'p>)],
    task: crate::TaskId,
    (state, candidate, money): (usize, Candidate, f64),
) -> (f64, Partial<'p>) {
    let mut partial = states[state].1.clone();
    partial.place(task, candidate);
    (money, partial)
}

impl Planner for Moheft {
    fn name(&self) -> &'static str {
        "moheft"
    }

    fn plan(&self, problem: &Problem, run: &mut Run<'_>) -> Result<Schedule, PlanError> {
        let members = self.front(problem, run)?.into_members();
        let score = |value: &PlanValue| run.objective.score(*value);
        let best =
            members.into_iter().reduce(|best, next| if score(&next.0).beats(&score(&best.0)) { next } else { best });
        match best {
            Some((_, schedule)) => Ok(schedule),
            None => Ok(Schedule::of_tasks(problem, Vec::new())),
        }
    }
}

//! Any planner on several cores: each thread has a seed of its own, and the best schedule wins. Equal seeds and numbers
//! of threads give equal schedules unless a stop ends the search.

use crate::planner::{PlanError, Planner, Run};
use crate::problem::Problem;
use crate::schedule::Schedule;

/// A planner on several cores.
#[derive(Debug, Clone, Copy)]
pub struct ParallelSearch<P> {
    /// The planner.
    pub planner: P,
    /// Threads; at least one.
    pub threads: usize,
}

impl<P: Planner + Sync> Planner for ParallelSearch<P> {
    fn name(&self) -> &'static str {
        self.planner.name()
    }

    fn plan(&self, problem: &Problem, run: &mut Run<'_>) -> Result<Schedule, PlanError> {
        let threads = self.threads.max(1) as u64;
        let (objective, seed, stop) = (run.objective, run.seed, run.stop);
        // Progress of the other threads is not heard of: the caller's ear is for one thread.
        let others: Vec<_> = std::thread::scope(|scope| {
            let plan = |thread: u64| {
                let mut silence = |_| ();
                let seed = seed.wrapping_mul(threads).wrapping_add(thread);
                self.planner.plan(problem, &mut Run { objective, seed, stop, progress: &mut silence })
            };
            let handles: Vec<_> = (1..threads).map(|thread| scope.spawn(move || plan(thread))).collect();
            let first_seed = seed.wrapping_mul(threads);
            let first =
                self.planner.plan(problem, &mut Run { objective, seed: first_seed, stop, progress: run.progress });
            let joined = handles.into_iter().filter_map(|handle| handle.join().ok());
            std::iter::once(first).chain(joined).collect()
        });
        let score = |schedule: &Schedule| objective.of(problem, schedule);
        let better = |one: Schedule, other: Schedule| if score(&other).beats(&score(&one)) { other } else { one };
        let mut best: Option<Schedule> = None;
        let mut failed = None;
        for result in others {
            match result {
                Ok(schedule) => best = Some(best.map_or(schedule.clone(), |best| better(best, schedule))),
                Err(error) => failed = Some(error),
            }
        }
        match (best, failed) {
            (Some(best), _) => Ok(best),
            (None, Some(error)) => Err(error),
            (None, None) => Ok(Schedule::of_tasks(problem, Vec::new())),
        }
    }
}

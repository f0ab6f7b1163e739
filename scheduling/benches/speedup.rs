//! The experiment of Monge and others, section 5, with records of our own: how much shorter PPSA's schedules are than
//! those of the three readings of Myopic. `cargo bench -p xavantes-scheduling --bench speedup`.

use xavantes_scheduling::exact::Ppsa;
use xavantes_scheduling::generate::dense::{RunTimes, problem};
use xavantes_scheduling::just_in_time::{Myopic, MyopicRule};
use xavantes_scheduling::list::Heft;
use xavantes_scheduling::planner::plan;
use xavantes_scheduling::{Objective, Planner};

const GRAPHS: u64 = 10;

fn main() {
    let myopic = [MyopicRule::Fastest, MyopicRule::FastestIdle, MyopicRule::EarliestFinish];
    println!("published: density 0.4, 0.6, 0.8: speed-up 1.38, 1.48, 1.77");
    for run_times in [RunTimes::Related, RunTimes::Unrelated] {
        println!("{run_times:?}   density   all on fastest   fastest idle   earliest finish   HEFT over PPSA");
        for density in [0.4, 0.6, 0.8] {
            let mut speedups = [0.0; 4];
            for tasks in (10..=100).step_by(10) {
                let mut sums = [0.0; 5];
                for graph in 0..GRAPHS {
                    let Ok(problem) = problem(tasks, density, run_times, tasks as u64 * 1000 + graph) else {
                        continue;
                    };
                    let ppsa = Ppsa { max_nodes: 3000, part: 8, ..Ppsa::default() };
                    let heft = Heft::default();
                    let [one, two, three] = myopic.map(|rule| Myopic { rule });
                    let planners: [&dyn Planner; 5] = [&one, &two, &three, &heft, &ppsa];
                    for (sum, planner) in sums.iter_mut().zip(planners) {
                        *sum += plan(planner, &problem, Objective::Makespan).map_or(0.0, |plan| plan.makespan());
                    }
                }
                for (speedup, sum) in speedups.iter_mut().zip(sums) {
                    *speedup += sum / sums[4] / 10.0;
                }
            }
            let [fastest, idle, earliest, heft] = speedups;
            println!("{density:19.1} {fastest:16.2} {idle:14.2} {earliest:17.2} {heft:16.2}");
        }
    }
}

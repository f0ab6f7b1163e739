//! The experiment of Monge and others, section 5, with records of our own: how much shorter PPSA's schedules are than
//! those of the three readings of Myopic.

use xavantes_scheduling::exact::Ppsa;
use xavantes_scheduling::generate::dense::{RunTimes, problem};
use xavantes_scheduling::just_in_time::{Myopic, MyopicRule};
use xavantes_scheduling::list::Heft;
use xavantes_scheduling::planner::plan;
use xavantes_scheduling::{Objective, Planner};

use crate::Scale;
use crate::page::Page;

const SIZES: [usize; 10] = [10, 20, 30, 40, 50, 60, 70, 80, 90, 100];

pub fn experiment(page: &Page, scale: Scale) {
    // The published experiment has ten graphs of each size and density.
    let graphs = scale.seeds;
    let mut table = format!(
        "{graphs} graphs of each size. Printed: 1.38, 1.48, 1.77.\n\n| run times | density | all on the fastest | the \
         fastest idle | earliest finish | HEFT |\n|---|---:|---:|---:|---:|---:|\n"
    );
    let mut groups = Vec::new();
    for (name, run_times) in [("by MFlops", RunTimes::Related), ("by type", RunTimes::Unrelated)] {
        for density in [0.4, 0.6, 0.8] {
            let mut speedups = [0.0; 4];
            for tasks in SIZES {
                let mut sums = [0.0; 5];
                for graph in 0..graphs {
                    let problem = problem(tasks, density, run_times, tasks as u64 * 1000 + graph);
                    let problem = problem.expect("the generator makes problems");
                    let ppsa = Ppsa { max_nodes: 3000, part: 8, ..Ppsa::default() };
                    let rules = [MyopicRule::Fastest, MyopicRule::FastestIdle, MyopicRule::EarliestFinish];
                    let [one, two, three] = rules.map(|rule| Myopic { rule });
                    let planners: [&dyn Planner; 5] = [&one, &two, &three, &Heft::default(), &ppsa];
                    for (sum, planner) in sums.iter_mut().zip(planners) {
                        *sum += plan(planner, &problem, Objective::Makespan).map_or(0.0, |plan| plan.makespan());
                    }
                }
                let part = 1.0 / SIZES.len() as f64;
                speedups.iter_mut().zip(sums).for_each(|(speedup, sum)| *speedup += sum / sums[4] * part);
            }
            let [fastest, idle, earliest, heft] = speedups;
            table += &format!("| {name} | {density} | {fastest:.2} | {idle:.2} | {earliest:.2} | {heft:.2} |\n");
            groups.push((format!("{name}, density {density}"), vec![fastest, idle, earliest]));
        }
    }
    page.replace("speedup", &table);
    let series = ["all on the fastest", "the fastest idle", "earliest finish"];
    page.bars("scheduling-speedup.svg", "Makespan of Myopic divided by that of PPSA", &series, &groups);
}

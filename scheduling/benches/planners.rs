//! Seconds of planners on large problems: `cargo bench -p xavantes-scheduling`.

use std::time::Instant;

use xavantes_scheduling::generate::layered;
use xavantes_scheduling::just_in_time::{MaxMin, MinMin, Myopic, Sufferage};
use xavantes_scheduling::list::{Cpop, Heft, Hybrid, Peft, Tanh};
use xavantes_scheduling::planner::plan;
use xavantes_scheduling::timeline::Fill;
use xavantes_scheduling::{LowerBounds, Objective, Planner};

fn main() {
    let planners: Vec<Box<dyn Planner>> = vec![
        Box::new(Heft { fill: Fill::Insert }),
        Box::new(Heft { fill: Fill::Append }),
        Box::new(Cpop),
        Box::new(Peft),
        Box::new(Hybrid),
        Box::new(Tanh),
        Box::new(Myopic::default()),
        Box::new(MinMin),
        Box::new(MaxMin),
        Box::new(Sufferage),
    ];
    for (tasks, machines, width) in [(10_000, 100, 500), (100_000, 100, 1_000)] {
        let options = layered::Options { tasks, machines, width, ..layered::Options::default() };
        let Ok(problem) = layered::problem(&options, 1) else {
            continue;
        };
        let bounds = LowerBounds::of(&problem);
        println!("{tasks} tasks, {machines} machines, lower bound {:.0} s", bounds.makespan);
        for planner in &planners {
            let begin = Instant::now();
            match plan(planner.as_ref(), &problem, Objective::Makespan) {
                Ok(schedule) => {
                    let seconds = begin.elapsed().as_secs_f64();
                    println!("  {:12} {seconds:8.3} s, makespan {:.0} s", planner.name(), schedule.makespan());
                }
                Err(error) => println!("  {:12} {error}", planner.name()),
            }
        }
    }
}

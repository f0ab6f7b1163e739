//! Seconds of planners on large problems.

use std::time::Instant;

use xavantes_scheduling::catalogue::{Effort, find};
use xavantes_scheduling::generate::layered;
use xavantes_scheduling::planner::plan;
use xavantes_scheduling::{LowerBounds, Objective};

use crate::Scale;
use crate::measure::cpu_seconds;
use crate::page::Page;

const NAMES: [&str; 10] =
    ["heft", "heft-append", "cpop", "peft", "hybrid", "tanh", "myopic", "min-min", "max-min", "sufferage"];

pub fn large(page: &Page, scale: Scale) {
    let sizes: &[(usize, usize)] = if scale.time < 1.0 { &[(10_000, 500)] } else { &[(10_000, 500), (100_000, 1_000)] };
    let mut table = String::from(
        "| tasks | machines | planner | CPU seconds | makespan / lower bound |\n|---:|---:|---|---:|---:|\n",
    );
    for (tasks, width) in sizes {
        let machines = 100;
        let options = layered::Options { tasks: *tasks, machines, width: *width, ..layered::Options::default() };
        let problem = layered::problem(&options, 1).expect("the generator makes problems");
        let bound = LowerBounds::of(&problem).makespan;
        for name in NAMES {
            let planner = (find(name).expect("the catalogue has it").build)(Effort::default());
            let begin = Instant::now();
            let first = cpu_seconds(begin);
            let schedule = plan(planner.as_ref(), &problem, Objective::Makespan).expect("every task has a machine");
            let seconds = cpu_seconds(begin) - first;
            let ratio = schedule.makespan() / bound;
            table += &format!("| {tasks} | {machines} | `{name}` | {seconds:.2} | {ratio:.3} |\n");
        }
    }
    page.replace("speed", &table);
}

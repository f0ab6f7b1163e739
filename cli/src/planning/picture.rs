//! A schedule as a chart: which bars there are, what they are called, and what the title says.

use xavantes_scheduling::{LowerBounds, Placement, PlanValue, Schedule, TaskId};

use super::goal::{Goal, gap};
use super::planning_problem::Planned;
use crate::chart::colours::Colours;
use crate::chart::gantt::{Bar, Gantt, Lane, Mark};
use crate::output::text::units::{money, percent, precise};
use crate::report::plan::machine_uses;

const RED: &str = "#bb2222";
const GREY: &str = "#666666";

/// The chart of a schedule.
pub(crate) fn gantt(
    planned: &Planned,
    schedule: &Schedule,
    goal: &Goal,
    bounds: &LowerBounds,
    algorithm: &str,
) -> Gantt {
    let problem = &planned.problem;
    let workflow = problem.workflow();
    let colours = Colours::of(workflow, |task| planned.activity(task).map(str::to_owned));
    let bar = |(task, placement): (TaskId, Placement)| {
        let name = workflow.name(task);
        Bar {
            lane: placement.machine.index(),
            start: placement.start,
            finish: placement.finish,
            cores: workflow.cores(task) as usize,
            colour: colours.of[task.index()].clone(),
            label: name.rsplit('/').next().unwrap_or(name).to_owned(),
            details: details(planned, task, placement),
        }
    };
    let bars = schedule.runs().filter(|(task, _)| !planned.is_join(*task)).map(bar).collect();
    let uses = machine_uses(planned, schedule);
    let lanes = uses.iter().map(|it| Lane { name: it.machine.clone(), used: it.utilisation }).collect();
    let value = PlanValue::of(problem, schedule);
    let distance =
        gap(problem, goal.objective, value, bounds).map(|gap| format!(", {} above the lower bound", percent(gap)));
    let cost = if value.money > 0.0 { format!(", money {}", money(value.money)) } else { String::new() };
    let mut marks = vec![Mark { at: bounds.makespan, label: "lower bound".into(), colour: GREY }];
    marks.extend(goal.deadline.map(|at| Mark { at, label: "deadline".into(), colour: RED }));
    let tasks = problem.tasks().filter(|task| !planned.is_join(*task)).count();
    Gantt {
        title: format!("{}: makespan {}{cost}", planned.name, precise(value.makespan)),
        subtitle: {
            let (machines, distance) = (problem.machine_count(), distance.unwrap_or_default());
            format!("{tasks} tasks on {machines} machines, planned by {algorithm}{distance}")
        },
        lanes,
        bars,
        legend: colours.legend,
        marks,
    }
}

/// What appears under the pointer.
fn details(planned: &Planned, task: TaskId, placement: Placement) -> String {
    let mut lines = vec![planned.problem.workflow().name(task).to_owned()];
    lines.extend(planned.activity(task).map(|activity| format!("type {activity}")));
    lines.push(format!("on {}", planned.problem.machine(placement.machine).name));
    lines.push(format!("{} to {}", precise(placement.start), precise(placement.finish)));
    lines.push(format!("takes {}", precise(placement.finish - placement.start)));
    lines.join("\n")
}

//! Plans and comparisons of planners.

use std::fmt::Write as _;

use super::text_table::table;
use super::units::{money, percent, precise};
use crate::output::printer::Report;
use crate::report::plan::{AssumptionReport, BoundsReport, Comparison, ObjectiveKind, ObjectiveReport, PlanReport};

impl Report for PlanReport {
    fn text(&self) -> String {
        let interrupted = if self.interrupted { ", interrupted" } else { "" };
        let elapsed = precise(self.elapsed_seconds);
        // Writing to a string does not fail, here and below.
        let mut text = format!("algorithm    {} ({elapsed}{interrupted})\n", self.algorithm);
        let _ = writeln!(text, "objective    {}", objective(&self.objective));
        let _ = writeln!(text, "makespan     {}", precise(self.makespan_seconds));
        let _ = writeln!(text, "money        {}", money(self.money));
        let _ = writeln!(text, "lower bound  {}", bound(&self.lower_bounds, &self.objective, self.gap));
        text += &assumptions(&self.assumptions);
        let machines = self.machines.iter().map(|machine| {
            vec![
                machine.machine.clone(),
                machine.tasks.to_string(),
                precise(machine.busy_seconds),
                percent(machine.utilisation),
                money(machine.money),
            ]
        });
        let _ = write!(text, "\n{}", table(&["MACHINE", "TASKS", "BUSY", "USED", "MONEY"], machines));
        let tasks = self.tasks.iter().map(|task| {
            let times = task.iterations.map(|iterations| format!(" ({iterations} iterations)")).unwrap_or_default();
            let again = if task.duplicate { " (again)" } else { "" };
            let name = format!("{}{times}{again}", task.task);
            vec![
                format!("{:.2}", task.start_seconds),
                format!("{:.2}", task.finish_seconds),
                task.machine.clone(),
                name,
            ]
        });
        let _ = write!(text, "\n{}", table(&["START", "END", "MACHINE", "TASK"], tasks));
        if !self.files.is_empty() {
            let files = self.files.iter().map(|file| vec![file.machine.clone(), file.file.clone()]);
            let _ = write!(text, "\n{}", table(&["STORED ON", "FILE"], files));
        }
        text
    }
}

impl Report for Comparison {
    fn text(&self) -> String {
        let mut text = format!("objective    {}\n", objective(&self.objective));
        let _ = writeln!(text, "tasks        {} on {} machines", self.tasks, self.machines);
        let _ = writeln!(text, "lower bound  {}", bound(&self.lower_bounds, &self.objective, None));
        text += &assumptions(&self.assumptions);
        let weighted = self.objective.kind == ObjectiveKind::Weighted;
        let number = |number: Option<f64>, show: &dyn Fn(f64) -> String| number.map_or_else(|| "-".into(), show);
        let rows = self.planners.iter().map(|planner| {
            let mut row = vec![planner.algorithm.to_owned(), planner.kind.to_owned()];
            if weighted {
                row.push(number(planner.objective, &|value| format!("{value:.6}")));
            }
            row.extend([
                number(planner.makespan_seconds, &precise),
                number(planner.money, &money),
                number(planner.gap, &percent),
                number(planner.elapsed_seconds, &precise),
                planner.problem.clone().unwrap_or_default(),
            ]);
            row
        });
        let mut head = vec!["PLANNER", "KIND", "MAKESPAN", "MONEY", "GAP", "TIME", ""];
        if weighted {
            head.insert(2, "OBJECTIVE");
        }
        let _ = write!(text, "\n{}", table(&head, rows));
        if self.interrupted {
            text += "\nCtrl-C ended the comparison.\n";
        }
        text
    }
}

fn objective(objective: &ObjectiveReport) -> String {
    let mut text = match objective.kind {
        ObjectiveKind::Makespan => "makespan".to_owned(),
        ObjectiveKind::Money => "money".to_owned(),
        ObjectiveKind::Weighted => {
            let weight = objective.weight.unwrap_or_default();
            let time = objective.time_scale_seconds.unwrap_or(1.0);
            let scale = objective.money_scale.unwrap_or(1.0);
            let value = objective.value.map(|value| format!("{value:.6} = ")).unwrap_or_default();
            format!("{value}{weight} · makespan / {time:.2} s + {:.2} · money / {scale:.4}", 1.0 - weight)
        }
    };
    if let Some(deadline) = objective.deadline_seconds {
        let _ = write!(text, ", within {}", precise(deadline));
    }
    if let Some(budget) = objective.budget {
        let _ = write!(text, ", for at most {}", money(budget));
    }
    text
}

fn bound(bounds: &BoundsReport, objective: &ObjectiveReport, gap: Option<f64>) -> String {
    let bound = match objective.kind {
        ObjectiveKind::Makespan => precise(bounds.makespan_seconds),
        ObjectiveKind::Money => money(bounds.money),
        ObjectiveKind::Weighted => format!("{:.6}", bounds.objective),
    };
    let gap = gap.map(|gap| format!(" (gap {})", percent(gap))).unwrap_or_default();
    format!("{bound}{gap}")
}

/// One line for each assumption.
pub(super) fn assumptions(assumptions: &[AssumptionReport]) -> String {
    let mut text = String::new();
    for assumption in assumptions {
        let _ = writeln!(text, "assumed      {}", crate::output::visible::visible_line(&assumption.text));
    }
    if !assumptions.is_empty() {
        text += "             Plan again when this is known.\n";
    }
    text
}

//! Simulated runs of a plan.

use std::fmt::Write as _;

use super::plan::assumptions;
use super::text_table::table;
use super::units::{money, percent, precise};
use crate::output::printer::Report;
use crate::report::simulation::{Distribution, SimulationReport};

impl Report for SimulationReport {
    fn text(&self) -> String {
        let online = if self.online { ", online" } else { "" };
        let mut text = format!("algorithm    {}{online}\n", self.algorithm);
        // Writing to a string does not fail.
        let _ =
            writeln!(text, "planned      {}, {}", precise(self.planned_makespan_seconds), money(self.planned_money));
        let interrupted = if self.interrupted { ", interrupted" } else { "" };
        let _ = writeln!(text, "runs         {}{interrupted}", self.runs);
        text += &assumptions(&self.assumptions);
        let row = |name: &str, values: &Distribution, show: &dyn Fn(f64) -> String| {
            let numbers = [values.min, values.median, values.mean, values.p95, values.max];
            std::iter::once(name.to_owned()).chain(numbers.map(show)).collect()
        };
        let mut rows = vec![row("makespan", &self.makespan_seconds, &precise), row("money", &self.money, &money)];
        if self.failures.max > 0.0 {
            rows.push(row("failures", &self.failures, &|count| format!("{count:.1}")));
        }
        let _ = write!(text, "\n{}", table(&["", "MIN", "MEDIAN", "MEAN", "95 %", "MAX"], rows));
        if let Some(deadline) = &self.deadline {
            let _ = writeln!(
                text,
                "\ndeadline     {} met by {} of the runs",
                precise(deadline.limit),
                percent(deadline.met)
            );
        }
        if let Some(budget) = &self.budget {
            let _ =
                writeln!(text, "\nbudget       {} kept by {} of the runs", money(budget.limit), percent(budget.met));
        }
        text
    }
}

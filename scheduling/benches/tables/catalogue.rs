//! The table of all planners.

use xavantes_scheduling::catalogue::{ALL, PlannerLimit};

use crate::Scale;
use crate::page::Page;

pub fn planners(page: &Page, _: Scale) {
    let mut table =
        String::from("| planner | kind | what it does | source | limit | objective |\n|---|---|---|---|---|---|\n");
    for entry in ALL {
        let limit = match entry.needs {
            PlannerLimit::Nothing => "",
            PlannerLimit::Deadline => "deadline",
            PlannerLimit::Budget => "budget",
        };
        let objective = if entry.honours_objective { "any" } else { "" };
        let (name, kind) = (entry.name, entry.kind.name());
        table += &format!("| `{name}` | {kind} | {} | {} | {limit} | {objective} |\n", entry.description, entry.source);
    }
    page.replace("catalogue", &table);
}

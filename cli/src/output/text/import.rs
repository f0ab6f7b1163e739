//! Imported workflows and pictures, in a few lines.

use std::fmt::Write as _;

use crate::output::printer::Report;
use crate::report::import::{DrawReport, ImportReport};

impl Report for ImportReport {
    fn text(&self) -> String {
        let mut text = format!(
            "{}: process {}, {} tasks, {} edges, {} files\n",
            self.file, self.process, self.tasks, self.edges, self.files
        );
        if self.form == "structured" {
            match self.linked {
                0 => text.push_str("nested controllers only\n"),
                linked => drop(writeln!(text, "nested controllers; {linked} elements need AFTER")),
            }
        }
        match self.renamed {
            0 => {}
            1 => text.push_str("1 task has another name than in the workflow\n"),
            renamed => drop(writeln!(text, "{renamed} tasks have other names than in the workflow")),
        }
        for input in &self.inputs {
            let _ = writeln!(text, "takes {} as parameter {}", input.file, input.parameter);
        }
        for result in &self.outputs {
            let _ = writeln!(text, "gives {} as result {}", result.file, result.parameter);
        }
        text
    }
}

impl Report for DrawReport {
    fn text(&self) -> String {
        let file = self.file.as_deref().unwrap_or_default();
        let collapsed = if self.collapsed { "; elements that look alike are drawn once" } else { "" };
        format!("{file}: {} activities in {} boxes{collapsed}\n", self.activities, self.boxes)
    }
}

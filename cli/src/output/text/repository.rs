//! The repository of a node.

use std::fmt::Write as _;

use crate::output::printer::Report;
use crate::report::repository::{BackedUp, DatabaseState, RepositoryState, Restored, WitnessState};

impl Report for RepositoryState {
    fn text(&self) -> String {
        let mut text = format!("processes    {}\ndocuments    {}\n", self.processes, self.documents);
        let database = match self.database {
            DatabaseState::Whole => "whole",
            DatabaseState::Incomplete => "incomplete: acknowledged records were missing",
            DatabaseState::Unreadable => "unreadable",
        };
        let witness = match self.witness {
            WitnessState::Whole => "whole",
            WitnessState::Damaged => "damaged: not everything can be checked",
            WitnessState::Missing => "missing: nothing tells whether the database is complete",
        };
        // Writing to a string does not fail.
        let _ = writeln!(text, "database     {database}");
        if let Some(problem) = &self.database_problem {
            let _ = writeln!(text, "             {problem}");
        }
        let _ = writeln!(text, "witness      {witness}");
        if self.restored_records > 0 {
            let _ = writeln!(text, "found again  {} records", self.restored_records);
        }
        if let Some(path) = &self.moved_to {
            let _ = writeln!(text, "moved to     {}", path.display());
        }
        for damaged in &self.damaged {
            let _ = writeln!(text, "damaged      process {}: {}", damaged.process, damaged.problem);
        }
        for document in &self.damaged_documents {
            let _ = writeln!(text, "damaged      document {document}");
        }
        text.trim_end().to_owned()
    }
}

impl Report for BackedUp {
    fn text(&self) -> String {
        String::new()
    }
}

impl Report for Restored {
    fn text(&self) -> String {
        String::new()
    }
}

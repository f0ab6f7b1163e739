//! What a process was submitted with.

use super::process::assignments;
use crate::output::printer::Report;
use crate::report::definition::{Definition, ProcessParameters};

impl Report for Definition {
    /// One document is printed as it is. Several come one after the other, each behind a line with its name.
    fn text(&self) -> String {
        match &self.documents[..] {
            [document] => document.text.clone(),
            documents => {
                let with_name = documents.iter().map(|it| format!("==> {} <==\n{}", it.name, it.text.trim_end()));
                with_name.collect::<Vec<_>>().join("\n\n") + "\n"
            }
        }
    }
}

impl Report for ProcessParameters {
    fn text(&self) -> String {
        assignments(&self.parameters).map(|line| line + "\n").collect()
    }
}

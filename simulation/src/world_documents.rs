//! The process types of all worlds, and their right results.

use std::sync::Arc;

use xavantes_model::definition::Program;
use xavantes_model::diagnostic::Source;
use xavantes_model::load::load;
use xavantes_model::script::{Sandbox, ScriptLimits};
use xavantes_proto::v1;

const DOCUMENT: &str = include_str!("processes.xml");

/// The program and the sandbox that all worlds share.
pub struct Tools {
    pub(crate) sandbox: Sandbox,
    pub(crate) program: Arc<Program>,
    pub(crate) wire: Arc<v1::Program>,
}

impl Tools {
    /// Loads the process types.
    pub fn new() -> Result<Self, String> {
        let program = load(&[Source::new("processes.xml", DOCUMENT)])
            .map_err(|problems| problems.iter().map(|it| it.message.clone()).collect::<Vec<_>>().join("\n"))?;
        let document = v1::Document { name: "processes.xml".into(), text: String::new() };
        let wire = v1::Program { digest: "processes".into(), documents: vec![document] };
        let sandbox = Sandbox::new(ScriptLimits::CONTROL, false).map_err(|error| error.message)?;
        Ok(Self { sandbox, program: Arc::new(program), wire: Arc::new(wire) })
    }
}

/// The process types that users submit.
pub const TYPES: [&str; 6] = ["Flat", "Deep", "Mixed", "Calls", "Timed", "Held"];
/// The process type whose state is large. Its sum is [`EXCESS_SUM`] if an element of it exceeded the budget.
pub const LARGE: &str = "Large";
/// See [`LARGE`].
pub const EXCESS_SUM: i64 = -1;

/// Parts of a process with a `TIMEOUT` that may begin again at any time.
pub fn restarting_parts(process_type: &str) -> &'static [&'static str] {
    if process_type == "Timed" { &["kinds/near", "kinds/far"] } else { &[] }
}

/// A change that a user may make with `set`.
#[derive(Debug, Clone, Copy)]
pub struct SetChange {
    /// Path of the element in its process.
    pub element: &'static str,
    pub key: &'static str,
    pub value: i64,
}

/// The change that a user may make to a process.
pub fn change(process_type: &str, n: i64) -> Option<SetChange> {
    match process_type {
        "Flat" => Some(SetChange { element: "all", key: "TO", value: n + 3 }),
        "Mixed" => Some(SetChange { element: "turns", key: "TO", value: 6 }),
        "Calls" => Some(SetChange { element: "graph/second", key: "base", value: 2000 }),
        _ => None,
    }
}

/// The right result of a process: the sum of the values of its activities, and the number of activities. `changed` says
/// that a user has made the [`change`].
pub fn expected(process_type: &str, n: i64, changed: bool) -> (i64, u64) {
    let numbers: Vec<i64> = match process_type {
        "Flat" => (1..=if changed { n + 3 } else { n }).collect(),
        LARGE => (1..=n).collect(),
        "Deep" => (1..=3).flat_map(|row| (1..=n / 3).map(move |cell| row * 100 + cell)).collect(),
        "Mixed" => (1..=if changed { 6 } else { 4 })
            .flat_map(|turn| match turn % 2 {
                1 => (1..=n / 4).map(|part| turn * 100 + part).collect(),
                _ => vec![turn],
            })
            .collect(),
        "Timed" => {
            (1..=n / 2).chain((1..=n / 6).map(|step| step + 100)).chain((1..=n / 8).map(|step| step + 200)).collect()
        }
        "Held" => (1..=n / 2).chain((1..=n / 8).map(|step| step + 100)).collect(),
        _ => {
            let base = if changed { 2000 } else { 1000 };
            (1..=n / 4).flat_map(|part| [part, part + 1, part + base, part + base + 1]).chain([7]).collect()
        }
    };
    (numbers.iter().map(|number| value(*number)).sum(), numbers.len() as u64)
}

/// The result of the activity with this number.
pub fn value(number: i64) -> i64 {
    number * number + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_is_valid() {
        let tools = Tools::new().expect("a valid document");
        for process_type in TYPES.into_iter().chain([LARGE]) {
            assert!(tools.program.entry(Some(process_type)).is_ok());
        }
    }
}

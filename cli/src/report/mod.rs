//! Reports: what a command answers, as one typed value. Text and JSON are both made from it, so that the same fact has
//! the same name everywhere. docs/json.md and docs/output.schema.json are generated from these types.
//!
//! | module | reports |
//! |---|---|
//! | `process` | processes: that one runs, how it runs, how it ended, what its elements return |
//! | `definition` | what a process was submitted with |
//! | `element` | an element of a process and everything in it |
//! | `reuse` | whether a result came from the cache |
//! | `rerun` | what a rerun takes over and what it runs |
//! | `reason` | failures, and why something waits or stands still |
//! | `grid` | nodes, groups, types, sources |
//! | `shared_value` | what a call of a shared object returned |
//! | `silent_action` | commands that change something |
//! | `repository` | the repository of a node |
//! | `log_lines` | the output of an activity |
//! | `plan`, `simulation`, `prediction` | plans, simulated runs of them, predictions |
//! | `import` | imported workflows and pictures |
//! | `validation` | problems of definitions |
//! | `json_schema` | the JSON Schema of all of them |

pub(crate) mod definition;
pub(crate) mod element;
pub(crate) mod grid;
pub(crate) mod import;
#[cfg(test)]
mod json_schema;
pub(crate) mod log_lines;
pub(crate) mod plan;
pub(crate) mod prediction;
pub(crate) mod process;
pub(crate) mod reason;
pub(crate) mod repository;
pub(crate) mod rerun;
pub(crate) mod reuse;
pub(crate) mod shared_value;
pub(crate) mod silent_action;
pub(crate) mod simulation;
pub(crate) mod validation;

/// A text of the wire that may be absent.
pub(crate) fn some_text(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

/// A number of the wire in which 0 means absent.
fn some_number<N: Default + PartialEq>(number: N) -> Option<N> {
    (number != N::default()).then_some(number)
}

/// A path as a word of a command line: shells take brackets for patterns.
fn shell_word(path: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./@:".contains(c);
    match path.chars().all(is_plain) {
        true => path.to_owned(),
        false => format!("'{}'", path.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::shell_word;

    #[test]
    fn printed_paths_can_be_pasted_into_a_shell() {
        assert_eq!(shell_word("S-1/loop"), "S-1/loop");
        assert_eq!(shell_word("S-1/loop/[12]/fly"), "'S-1/loop/[12]/fly'");
        assert_eq!(shell_word("a'b"), r"'a'\''b'");
    }
}

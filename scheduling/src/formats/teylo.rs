//! `.dag` files of the CPU instances of Stockinger 2020, which are those of Teylo 2016: seconds, megabytes, declared
//! edges, static files on machines of a `.vcl` file.
//!
//! ```text
//! <static files> <dynamic files> <tasks>
//! <file> <MB> <copies> <machine> …        for each static file
//! <file> <MB>                             for each dynamic file
//! <id> <name> <seconds> <inputs> <outputs> <file> …
//! <id> <children> <id> …
//! ```

use std::collections::HashMap;

use super::text::Words;
use super::{MEGABYTE, ReadError, check_length};
use crate::id::{FileId, MachineId, TaskId};
use crate::problem::{Work, Workflow, WorkflowBuilder};

/// Reads a workflow. Text after the last task is ignored, for the files end with a description of the format.
pub fn read(document: &str) -> Result<Workflow, ReadError> {
    check_length(document)?;
    let mut words = Words::new(document);
    let fixed = words.count("the number of static files")?;
    let dynamic = words.count("the number of dynamic files")?;
    let tasks = words.count("the number of tasks")?;
    let mut builder = WorkflowBuilder::new();
    let mut files = HashMap::new();
    for _ in 0..fixed {
        let file = read_file(&mut words, &mut builder, &mut files)?;
        builder.place_everywhere(file);
        for _ in 0..words.count("the number of copies")? {
            let machine = words.count("a machine")?;
            let machine = u32::try_from(machine).map_err(|_| words.error("a machine must have a small number"))?;
            builder.place(file, MachineId(machine));
        }
    }
    for _ in 0..dynamic {
        read_file(&mut words, &mut builder, &mut files)?;
    }
    let ids = read_tasks(&mut words, tasks, &mut builder, &files)?;
    for _ in 0..tasks {
        let parent = known(&mut words, &ids)?;
        for _ in 0..words.count("the number of children")? {
            let child = known(&mut words, &ids)?;
            builder.edge(parent, child);
        }
    }
    Ok(builder.build()?)
}

fn read_file<'a>(
    words: &mut Words<'a>,
    builder: &mut WorkflowBuilder,
    files: &mut HashMap<&'a str, FileId>,
) -> Result<FileId, ReadError> {
    let name = words.word("a file")?;
    let file = builder.file(name, words.number("the size of a file")? * MEGABYTE);
    match files.insert(name, file) {
        Some(_) => Err(words.error(format!("two files are called {name}"))),
        None => Ok(file),
    }
}

fn read_tasks<'a>(
    words: &mut Words<'a>,
    tasks: usize,
    builder: &mut WorkflowBuilder,
    files: &HashMap<&'a str, FileId>,
) -> Result<HashMap<&'a str, TaskId>, ReadError> {
    let mut ids = HashMap::new();
    for _ in 0..tasks {
        let id = words.word("the id of a task")?;
        words.word("the name of a task")?;
        let task = builder.task(id, Work::cpu(words.number("the seconds of a task")?));
        if ids.insert(id, task).is_some() {
            return Err(words.error(format!("two tasks are called {id}")));
        }
        let inputs = words.count("the number of inputs")?;
        let outputs = words.count("the number of outputs")?;
        let uses = inputs.checked_add(outputs).ok_or_else(|| words.error("the task has too many files"))?;
        for place in 0..uses {
            let name = words.word("a file")?;
            let file = files.get(name).ok_or_else(|| words.error(format!("there is no file {name}")))?;
            if place < inputs {
                builder.reads(task, *file);
            } else {
                builder.writes(task, *file);
            }
        }
    }
    Ok(ids)
}

fn known(words: &mut Words<'_>, ids: &HashMap<&str, TaskId>) -> Result<TaskId, ReadError> {
    let id = words.word("the id of a task")?;
    ids.get(id).copied().ok_or_else(|| words.error(format!("there is no task {id}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str =
        "1 2 2\nin 4 2 0 1\nmid 2\nout 1\na first 10 1 1\nin\nmid\nb second 20.5 1 1\nmid\nout\na 1\nb\nb 0\n";

    #[test]
    fn a_small_workflow_is_read() {
        let workflow = read(SMALL).unwrap();
        assert_eq!((workflow.task_count(), workflow.file_count(), workflow.edge_count()), (2, 3, 1));
        assert_eq!(workflow.copies(FileId(0)), [MachineId(0), MachineId(1)]);
        assert_eq!(workflow.children(TaskId(0))[0].bytes, 2.0 * MEGABYTE);
        assert_eq!(workflow.cpu_seconds(TaskId(1)), 20.5);
        assert!(workflow.is_fixed(FileId(0)) && !workflow.is_fixed(FileId(2)));
    }

    #[test]
    fn faults_have_a_line_and_a_reason() {
        let cases = [
            ("1 2", "line 1: the document ends where the number of tasks should be"),
            ("1 0 0\nin four", "line 2: the size of a file must be a number, not `four`"),
            ("0 2 0\nx 1\nx 1", "line 3: two files are called x"),
            ("0 0 1\na n 1 1 0\nx", "line 3: there is no file x"),
            ("0 0 1\na n 1 0 0\na 1 b", "line 3: there is no task b"),
            ("0 0 1\na n 1 0 0\na 1 a", "task a waits for itself, through 1 tasks"),
            (
                "99999999999999999999 0 0",
                "line 1: the number of static files must be a whole number, not `99999999999999999999`",
            ),
        ];
        for (document, message) in cases {
            assert_eq!(read(document).unwrap_err().to_string(), message);
        }
    }
}

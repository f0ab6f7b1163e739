//! WfFormat of WfCommons, versions 1.4 to 1.6: JSON with `workflow.specification` and `workflow.execution` (1.5, 1.6)
//! or with all in `workflow.tasks` (1.4). Sizes in bytes, run times in seconds.
//!
//! Edges are the union of declared parents and children. A task without a run time takes no time. Files that no task
//! writes are taken to be everywhere.

use std::collections::HashMap;

use serde::Deserialize;

use super::{ReadError, TextPlace, check_length};
use crate::id::{FileId, TaskId};
use crate::problem::{Work, Workflow, WorkflowBuilder};

#[derive(Deserialize)]
struct JsonDocument {
    workflow: WorkflowPart,
}

#[derive(Deserialize)]
struct WorkflowPart {
    specification: Option<Specification>,
    execution: Option<JsonExecution>,
    /// Version 1.4 has the tasks here.
    tasks: Option<Vec<JsonTask>>,
}

#[derive(Deserialize)]
struct Specification {
    tasks: Vec<JsonTask>,
    #[serde(default)]
    files: Vec<WfFile>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct JsonTask {
    name: String,
    id: Option<String>,
    #[serde(default)]
    parents: Vec<String>,
    #[serde(default)]
    children: Vec<String>,
    #[serde(default)]
    input_files: Vec<String>,
    #[serde(default)]
    output_files: Vec<String>,
    /// Version 1.4.
    #[serde(default)]
    files: Vec<LinkedFile>,
    #[serde(alias = "runtime")]
    runtime_in_seconds: Option<f64>,
    #[serde(alias = "coreCount")]
    cores: Option<f64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LinkedFile {
    link: Link,
    #[serde(alias = "id")]
    name: String,
    #[serde(alias = "size", default)]
    size_in_bytes: f64,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Link {
    Input,
    Output,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WfFile {
    id: String,
    #[serde(default)]
    size_in_bytes: f64,
}

#[derive(Deserialize)]
struct JsonExecution {
    #[serde(default)]
    tasks: Vec<Executed>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Executed {
    id: String,
    #[serde(default)]
    runtime_in_seconds: f64,
    core_count: Option<f64>,
}

/// Reads a workflow.
pub fn read(document: &str) -> Result<Workflow, ReadError> {
    check_length(document)?;
    let document: JsonDocument =
        serde_json::from_str(document).map_err(|error| ReadError::line(error.line(), json_reason(&error)))?;
    let (path, tasks, files) = match (document.workflow.specification, document.workflow.tasks) {
        (Some(specification), _) => ("workflow.specification", specification.tasks, specification.files),
        (None, Some(tasks)) => ("workflow", tasks, Vec::new()),
        (None, None) => return Err(fault("workflow", "neither specification nor tasks are there")),
    };
    let mut state = WfFormatReader { path, ..WfFormatReader::default() };
    for file in files {
        let known = state.file(&file.id);
        state.builder.at_least(known, file.size_in_bytes);
    }
    state.tasks(&tasks)?;
    for (index, task) in
        document.workflow.execution.map(|execution| execution.tasks).unwrap_or_default().iter().enumerate()
    {
        let place = || format!("workflow.execution.tasks[{index}]");
        let id = state.ids.get(&task.id).ok_or_else(|| fault(place(), format!("there is no task {}", task.id)))?;
        state.builder.work(*id, Work::cpu(task.runtime_in_seconds));
        if let Some(cores) = task.core_count {
            state.builder.cores(*id, cores as u32);
        }
    }
    state.edges(&tasks)?;
    Ok(state.builder.build()?)
}

#[derive(Default)]
struct WfFormatReader {
    path: &'static str,
    builder: WorkflowBuilder,
    ids: HashMap<String, TaskId>,
    files: HashMap<String, FileId>,
}

impl WfFormatReader {
    fn file(&mut self, name: &str) -> FileId {
        if let Some(file) = self.files.get(name) {
            return *file;
        }
        let file = self.builder.file(name, 0.0);
        self.files.insert(name.to_owned(), file);
        file
    }

    fn tasks(&mut self, tasks: &[JsonTask]) -> Result<(), ReadError> {
        for (index, task) in tasks.iter().enumerate() {
            let id = task.id.as_ref().unwrap_or(&task.name);
            let work = Work::cpu(task.runtime_in_seconds.unwrap_or(0.0));
            let known = self.builder.task(id.as_str(), work);
            if self.ids.insert(id.clone(), known).is_some() {
                return Err(fault(format!("{}.tasks[{index}]", self.path), format!("another task has the id {id}")));
            }
            self.builder.kind(known, step(&task.name));
            if let Some(cores) = task.cores {
                self.builder.cores(known, cores as u32);
            }
            for name in &task.input_files {
                let file = self.file(name);
                self.builder.reads(known, file);
            }
            for name in &task.output_files {
                let file = self.file(name);
                self.builder.writes(known, file);
            }
            for linked in &task.files {
                let file = self.file(&linked.name);
                self.builder.at_least(file, linked.size_in_bytes);
                match linked.link {
                    Link::Input => self.builder.reads(known, file),
                    Link::Output => self.builder.writes(known, file),
                }
            }
        }
        Ok(())
    }

    fn edges(&mut self, tasks: &[JsonTask]) -> Result<(), ReadError> {
        // Version 1.4 names parents and children by their names.
        let names: HashMap<_, _> =
            tasks.iter().enumerate().map(|(index, task)| (task.name.as_str(), TaskId::new(index))).collect();
        for (index, task) in tasks.iter().enumerate() {
            for (list, of) in [("parents", &task.parents), ("children", &task.children)] {
                for (entry, name) in of.iter().enumerate() {
                    let other = self.ids.get(name).or_else(|| names.get(name.as_str())).copied();
                    let other = other.ok_or_else(|| {
                        let place = format!("{}.tasks[{index}].{list}[{entry}]", self.path);
                        fault(place, format!("there is no task {name}"))
                    })?;
                    match list {
                        "parents" => self.builder.edge(other, TaskId::new(index)),
                        _ => self.builder.edge(TaskId::new(index), other),
                    }
                }
            }
        }
        Ok(())
    }
}

/// The name of a task without the number of the task: `mProject_ID0000001` is an `mProject`.
fn step(name: &str) -> &str {
    let without = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let without = without.strip_suffix("ID").unwrap_or(without);
    without.strip_suffix('_').filter(|step| !step.is_empty()).unwrap_or(name)
}

fn fault(path: impl Into<String>, reason: impl Into<String>) -> ReadError {
    ReadError::syntax(TextPlace::Path(path.into()), reason)
}

/// The message without the place, which the error has of its own.
fn json_reason(error: &serde_json::Error) -> String {
    let message = error.to_string();
    message.rfind(" at line ").map_or(message.as_str(), |end| &message[..end]).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEW: &str = r#"{"schemaVersion": "1.5", "workflow": {
 "specification": {
  "tasks": [{"name": "a", "id": "a.1", "parents": [], "children": ["b-1"], "inputFiles": ["x"], "outputFiles": ["y"]},
            {"name": "b", "id": "b-1", "parents": ["a.1"], "children": [], "inputFiles": ["y"], "outputFiles": []}],
  "files": [{"id": "x", "sizeInBytes": 10}, {"id": "y", "sizeInBytes": 20}]},
 "execution": {"tasks": [{"id": "a.1", "runtimeInSeconds": 3.5, "coreCount": 2}, {"id": "b-1", "runtimeInSeconds": 4}]}}}"#;

    const OLD: &str = r#"{"schemaVersion": "1.4", "workflow": {"tasks": [
  {"name": "a_1", "id": "ID1", "parents": [], "runtimeInSeconds": 3.5, "cores": 2,
   "files": [{"link": "input", "name": "x", "sizeInBytes": 10}, {"link": "output", "name": "y", "sizeInBytes": 20}]},
  {"name": "b_1", "id": "ID2", "parents": ["a_1"], "runtime": 4, "files": [{"link": "input", "name": "y", "size": 20}]}]}}"#;

    #[test]
    fn new_and_old_versions_give_the_same_workflow() {
        for document in [NEW, OLD] {
            let workflow = read(document).unwrap();
            assert_eq!((workflow.task_count(), workflow.file_count(), workflow.edge_count()), (2, 2, 1));
            assert_eq!((workflow.cpu_seconds(TaskId(0)), workflow.cpu_seconds(TaskId(1))), (3.5, 4.0));
            assert_eq!((workflow.cores(TaskId(0)), workflow.cores(TaskId(1))), (2, 1));
            assert_eq!(workflow.children(TaskId(0))[0].bytes, 20.0);
        }
    }

    #[test]
    fn faults_have_a_place_and_a_reason() {
        let cases = [
            (NEW.replace("[\"b-1\"]", "[\"c\"]"), "workflow.specification.tasks[0].children[0]: there is no task c"),
            (
                NEW.replace("\"id\": \"b-1\", \"p", "\"id\": \"a.1\", \"p"),
                "workflow.specification.tasks[1]: another task has the id a.1",
            ),
            (NEW.replace("3.5", "\"soon\""), "line 6: invalid type: string \"soon\", expected f64"),
            (NEW.replace("3.5", "-3.5"), "work of task a.1 is -3.5"),
            (
                NEW.replace("[\"b-1\"]", &format!("[\"{}\"]", "é".repeat(9999))),
                &format!("workflow.specification.tasks[0].children[0]: there is no task {}…", "é".repeat(191)),
            ),
            ("{".into(), "line 1: EOF while parsing an object"),
            ("{\"workflow\": {}}".into(), "workflow: neither specification nor tasks are there"),
            ("[".repeat(1000), "line 1: invalid type: sequence"),
        ];
        for (document, message) in cases {
            let error = read(&document).unwrap_err().to_string();
            assert!(error.starts_with(message), "{error}");
        }
    }
}

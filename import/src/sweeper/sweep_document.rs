//! The tasks of a Sweeper document, with their grids of parameters expanded.

use std::collections::HashMap;

use xavantes_model::diagnostic::did_you_mean;

use super::yaml::{YamlNode, YamlValue, fault, read};
use crate::importers::ImportError;

/// A workflow with more tasks is refused: its document would exceed that of a process.
const MAX_TASKS: usize = 50_000;
const KEYS: [&str; 6] = ["name", "command", "depends", "include_files", "download_files", "param_grid"];

/// A task as it is written.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct WrittenTask {
    /// Its line, from 1.
    pub line: usize,
    pub name: String,
    pub command: String,
    /// Positions of the written tasks that it waits for.
    pub depends: Vec<usize>,
    pub include_files: Vec<String>,
    pub download_files: Vec<String>,
    /// Axes of the grid with their values; every combination is one task.
    pub grid: Vec<(String, Vec<String>)>,
}

/// One combination of the values of a grid.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Expanded {
    /// Position of the written task.
    pub written: usize,
    /// Original name; that of a task with a grid has the number of the combination.
    pub name: String,
    /// YamlValue of each axis.
    pub values: Vec<String>,
}

/// The tasks of a document.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Document {
    pub written: Vec<WrittenTask>,
    pub expanded: Vec<Expanded>,
    /// Pairs of positions among `expanded`: the second one waits for the first one.
    pub edges: Vec<(usize, usize)>,
}

/// Reads a document.
pub(super) fn parse(text: &str) -> Result<Document, ImportError> {
    let root = read(text)?;
    let YamlValue::Map(sections) = &root.value else { return fault(root.line, "expected a map with the key workflow") };
    let is_workflow = |(key, _): &&(YamlNode, YamlNode)| key.value == YamlValue::Text("workflow".into());
    let Some((_, tasks)) = sections.iter().find(is_workflow) else {
        return fault(root.line, "there is no key workflow");
    };
    let YamlValue::List(tasks) = &tasks.value else { return fault(tasks.line, "workflow must be a list of tasks") };
    let mut written = Vec::new();
    let mut depends: Vec<Vec<(usize, String)>> = Vec::new();
    let mut names: HashMap<String, usize> = HashMap::new();
    for node in tasks {
        let (task, waits_for) = read_task(node)?;
        if names.insert(task.name.clone(), written.len()).is_some() {
            return fault(node.line, format!("another task has the name {:?}", task.name));
        }
        written.push(task);
        depends.push(waits_for);
    }
    for (task, waits_for) in depends.into_iter().enumerate() {
        for (line, name) in waits_for {
            let Some(found) = names.get(&name) else {
                let hint = did_you_mean(&name, written.iter().map(|task| task.name.as_str()));
                let hint = hint.map(|hint| format!("; {hint}")).unwrap_or_default();
                return fault(line, format!("there is no task {name:?}{hint}"));
            };
            if !written[task].depends.contains(found) {
                written[task].depends.push(*found);
            }
        }
    }
    expand(written, root.line)
}

fn read_task(node: &YamlNode) -> Result<(WrittenTask, Vec<(usize, String)>), ImportError> {
    let YamlValue::Map(entries) = &node.value else { return fault(node.line, "a task must be a map") };
    let (mut task, mut depends) = (WrittenTask { line: node.line, ..WrittenTask::default() }, Vec::new());
    let mut seen: Vec<&str> = Vec::new();
    for (key, value) in entries {
        let YamlValue::Text(name) = &key.value else { return fault(key.line, "a key must be a text") };
        if seen.contains(&name.as_str()) {
            return fault(key.line, format!("the task has two {name}"));
        }
        seen.push(name);
        match name.as_str() {
            "name" => task.name = text(value, name)?,
            "command" => task.command = text(value, name)?,
            "depends" => depends = texts(value, name)?,
            "include_files" => task.include_files = texts(value, name)?.into_iter().map(|(_, text)| text).collect(),
            "download_files" => task.download_files = texts(value, name)?.into_iter().map(|(_, text)| text).collect(),
            "param_grid" => task.grid = grid(value)?,
            _ => {
                let hint = did_you_mean(name, KEYS).unwrap_or_else(|| format!("a task has {}", KEYS.join(", ")));
                return fault(key.line, format!("there is no key {name:?}; {hint}"));
            }
        }
    }
    for needed in ["name", "command"] {
        if !seen.contains(&needed) {
            return fault(node.line, format!("the task has no {needed}"));
        }
    }
    match task.name.is_empty() {
        true => fault(node.line, "the name of the task is empty"),
        false => Ok((task, depends)),
    }
}

fn text(node: &YamlNode, key: &str) -> Result<String, ImportError> {
    match &node.value {
        YamlValue::Text(text) => Ok(text.clone()),
        _ => fault(node.line, format!("{key} must be a text")),
    }
}

/// A list of texts, each with its line. A single text counts as a list of one.
fn texts(node: &YamlNode, key: &str) -> Result<Vec<(usize, String)>, ImportError> {
    match &node.value {
        YamlValue::Text(text) if text.is_empty() => Ok(Vec::new()),
        YamlValue::Text(text) => Ok(vec![(node.line, text.clone())]),
        YamlValue::List(items) => items.iter().map(|item| Ok((item.line, text(item, key)?))).collect(),
        YamlValue::Map(_) => fault(node.line, format!("{key} must be a list")),
    }
}

fn grid(node: &YamlNode) -> Result<Vec<(String, Vec<String>)>, ImportError> {
    let YamlValue::Map(axes) = &node.value else { return fault(node.line, "param_grid must be a map of lists") };
    let mut grid: Vec<(String, Vec<String>)> = Vec::new();
    for (key, values) in axes {
        let name = text(key, "the name of a parameter")?;
        let is_name = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        if !is_name || name.as_bytes()[0].is_ascii_digit() {
            return fault(key.line, format!("{name:?} is no name of a parameter: use letters, digits and _"));
        }
        if KEYS.contains(&name.as_str()) {
            return fault(key.line, format!("{name} stands in param_grid; it belongs beside it"));
        }
        if grid.iter().any(|(known, _)| *known == name) {
            return fault(key.line, format!("param_grid has two {name}"));
        }
        let values: Vec<String> = texts(values, &name)?.into_iter().map(|(_, value)| value).collect();
        if values.is_empty() {
            return fault(key.line, format!("{name} has no values"));
        }
        grid.push((name, values));
    }
    Ok(grid)
}

/// Makes one task of each combination.
fn expand(written: Vec<WrittenTask>, line: usize) -> Result<Document, ImportError> {
    let mut expanded: Vec<Expanded> = Vec::new();
    let mut positions: Vec<std::ops::Range<usize>> = Vec::new();
    for (number, task) in written.iter().enumerate() {
        let count = task.grid.iter().try_fold(1usize, |count, (_, values)| count.checked_mul(values.len()));
        let count = count.filter(|count| expanded.len().saturating_add(*count) <= MAX_TASKS);
        let Some(count) = count else {
            return fault(line, format!("with {:?} there are more than {MAX_TASKS} tasks", task.name));
        };
        let begin = expanded.len();
        for combination in 0..count {
            let mut rest = combination;
            let mut values: Vec<String> = Vec::new();
            for (_, axis) in task.grid.iter().rev() {
                values.push(axis[rest % axis.len()].clone());
                rest /= axis.len();
            }
            values.reverse();
            let name = match task.grid.is_empty() {
                true => task.name.clone(),
                false => format!("{}_{}", task.name, combination + 1),
            };
            expanded.push(Expanded { written: number, name, values });
        }
        positions.push(begin..expanded.len());
    }
    let mut edges = Vec::new();
    for (number, task) in written.iter().enumerate() {
        for depends in &task.depends {
            for later in positions[number].clone() {
                edges.extend(positions[*depends].clone().map(|earlier| (earlier, later)));
            }
        }
        if edges.len() > 40 * MAX_TASKS {
            return fault(line, format!("there are more than {} edges", 40 * MAX_TASKS));
        }
    }
    Ok(Document { written, expanded, edges })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grid_becomes_one_task_for_each_combination() {
        let document = parse(
            "workflow:\n- name: a\n  command: x\n- name: b\n  command: y @p @q\n  depends: [a]\n  param_grid:\n    p: [1, 2]\n    q: [u, v, w]\n- name: c\n  command: z\n  depends: b\n",
        )
        .unwrap();
        assert_eq!((document.expanded.len(), document.edges.len()), (8, 12));
        assert_eq!(
            (document.expanded[1].name.as_str(), &document.expanded[1].values[..]),
            ("b_1", &["1".to_owned(), "u".into()][..])
        );
        assert_eq!(document.expanded[6].values, ["2", "w"]);
    }

    #[test]
    fn mistakes_are_found_with_their_lines() {
        for (text, expected) in [
            ("[]", "line 1: expected a map"),
            ("tasks: []", "line 1: there is no key workflow"),
            ("workflow:\n  a: 1", "line 2: workflow must be a list"),
            ("workflow:\n- name: a", "line 2: the task has no command"),
            ("workflow:\n- command: a", "line 2: the task has no name"),
            (
                "workflow:\n- name: a\n  command: b\n  depend: [c]",
                "line 4: there is no key \"depend\"; did you mean \"depends\"",
            ),
            (
                "workflow:\n- name: abc\n  command: b\n  depends: [\n   abd]",
                "line 5: there is no task \"abd\"; did you mean \"abc\"",
            ),
            ("workflow:\n- name: a\n  command: b\n- name: a\n  command: c", "line 4: another task has the name \"a\""),
            ("workflow:\n- name: a\n  command: b\n  param_grid: [1]", "line 4: param_grid must be a map"),
            (
                "workflow:\n- name: a\n  command: b\n  param_grid:\n    include_files: [x]",
                "line 5: include_files stands in param_grid",
            ),
            ("workflow:\n- name: a\n  command: b\n  param_grid:\n    p: []", "line 5: p has no values"),
            ("workflow:\n- name: a\n  command: [b]", "line 3: command must be a text"),
            ("workflow:\n- a\n", "line 2: a task must be a map"),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{text}: {error}");
        }
        let axes: String = (0..20).map(|axis| format!("    p{axis}: [1, 2]\n")).collect();
        let many = format!("workflow:\n- name: a\n  command: b\n  param_grid:\n{axes}");
        assert!(parse(&many).unwrap_err().to_string().contains("more than 50000 tasks"));
    }
}

//! A Sweeper document as a process that runs its commands. Each task gets the working directories of the tasks that it
//! waits for, puts them over each other, adds its `include_files`, and hands the result on.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use xavantes_model::working_path::{check_path, check_pattern};
use xavantes_scheduling::formats::ReadError;
use xavantes_scheduling::problem::{Work, Workflow, WorkflowBuilder};

use super::sweep_document::{Document, Expanded, WrittenTask, parse};
use super::yaml::fault;
use crate::importers::{ImportError, Imported, lay_out};
use crate::name_maker::{Alphabet, NameMaker};
use crate::order::reduce;
use crate::process_layout::{MAX_PASSED_ON, TaskOutput};
use crate::process_xml::{Activity, ProcessText, write};
use crate::xml_text::{attribute, content, literal};

/// What a task does before its command: the directories of its parents become one, later ones over earlier ones.
const SET_UP: &str = r#"mkdir -p work
for parent in parents/*/work include; do
  if [ -d "$parent" ]; then cp -Rf "$parent/." work/ && chmod -R u+w work || exit; fi
done
cd work && exec bash -c "$1""#;

/// Position of the working directory among the results of a task; the files to download follow.
const WORK: usize = 0;

/// A file that the process gives: name of the parameter, file, and the result of a task that it is.
type Given = (String, String, TaskOutput);

/// Imports a document.
pub(crate) fn import(text: &str, name: &str, structured: bool) -> Result<Imported, ImportError> {
    let document = parse(text)?;
    let workflow = workflow(&document)?;
    let task_names = NameMaker::new(Alphabet::Code).all(document.expanded.iter().map(|task| task.name.as_str()));
    let mut names = NameMaker::new(Alphabet::Code);
    names.all(task_names.iter().map(String::as_str));
    let mut writer = SweepWriter::new(&document, names);
    let activities: Vec<Activity> =
        document.expanded.iter().zip(&task_names).map(|(task, name)| writer.activity(task, name)).collect();
    let given = writer.given()?;
    let types = writer.types()?;
    let reads = handed_on(&workflow);
    let products: Vec<TaskOutput> = given.iter().map(|(.., product)| *product).collect();
    let taken: Vec<String> = task_names.iter().chain(writer.inputs.values()).cloned().collect();
    let taken: Vec<String> = taken.into_iter().chain(given.iter().map(|(name, ..)| name.clone())).collect();
    let (layout, form, linked) = lay_out(&workflow, structured, &reads, &products, &task_names, || {
        let mut names = NameMaker::new(Alphabet::Code);
        names.all(taken.iter().map(String::as_str));
        names
    });
    let process = NameMaker::new(Alphabet::Type).make(name);
    let (tasks, edges, files) = (workflow.task_count(), workflow.edge_count(), writer.inputs.len() + given.len());
    let results: Vec<(String, TaskOutput)> = given.iter().map(|(name, _, product)| (name.clone(), *product)).collect();
    let xml = write(
        &ProcessText {
            name: &process,
            description: &format!("Imported from Sweeper: {tasks} tasks, {edges} edges, {files} files."),
            parameters: writer.parameters(&given),
            task_names: &task_names,
            activities: &activities,
            reads: &reads,
            reading: "parents",
            port: &|product| writer.port(product),
            results: &results,
            types,
        },
        &layout,
    );
    let renamed = activities.iter().filter(|activity| activity.original.is_some()).count();
    let inputs = writer.inputs.into_iter().map(|(file, name)| (name, file)).collect();
    let outputs = given.into_iter().map(|(name, file, _)| (name, file)).collect();
    Ok(Imported { xml, process, tasks, edges, files, renamed, form, linked, inputs, outputs })
}

fn workflow(document: &Document) -> Result<Workflow, ImportError> {
    let mut builder = WorkflowBuilder::new();
    let tasks: Vec<_> = document.expanded.iter().map(|task| builder.task(task.name.as_str(), Work::cpu(0.0))).collect();
    document.edges.iter().for_each(|(earlier, later)| builder.edge(tasks[*earlier], tasks[*later]));
    Ok(builder.build().map_err(ReadError::from)?)
}

/// The directories that each task gets, in an order in which a later one may replace files of an earlier one. A task that
/// another parent waits for gives nothing new: its directory is in that of the other parent.
fn handed_on(workflow: &Workflow) -> Vec<Vec<TaskOutput>> {
    let children: Vec<Vec<usize>> =
        workflow.tasks().map(|task| workflow.children(task).iter().map(|edge| edge.task.index()).collect()).collect();
    let order: Vec<usize> = workflow.order().iter().map(|task| task.index()).collect();
    let reduced = reduce(&children, &order);
    let mut reads: Vec<Vec<TaskOutput>> = vec![Vec::new(); children.len()];
    for earlier in &order {
        reduced[*earlier].iter().for_each(|later| reads[*later].push(TaskOutput { task: *earlier, port: WORK }));
    }
    reads
}

struct SweepWriter<'a> {
    document: &'a Document,
    names: NameMaker,
    type_names: Vec<String>,
    /// For each written task: the parameters for the axes of its grid.
    axes: Vec<Vec<String>>,
    /// Parameters of the process, by the file that they take.
    inputs: BTreeMap<String, String>,
}

impl<'a> SweepWriter<'a> {
    fn new(document: &'a Document, names: NameMaker) -> Self {
        let type_names = NameMaker::new(Alphabet::Type).all(document.written.iter().map(|task| task.name.as_str()));
        let axes = document.written.iter().map(|task| {
            let mut names = NameMaker::new(Alphabet::Code);
            names.all(["parents", "work", "attempt"].into_iter());
            (1..=task.include_files.len()).for_each(|place| drop(names.make(&format!("include{place}"))));
            (1..=task.download_files.len()).for_each(|place| drop(names.make(&format!("download{place}"))));
            // Attributes set only parameters that begin with a lower-case letter.
            let lower = |axis: &str| axis.starts_with(|c: char| c.is_ascii_lowercase());
            let name = |(axis, _): &(String, _)| if lower(axis) { axis.clone() } else { format!("p_{axis}") };
            task.grid.iter().map(|axis| names.make(&name(axis))).collect()
        });
        Self { document, names, type_names, axes: axes.collect(), inputs: BTreeMap::new() }
    }

    /// The name and type of a result.
    fn port(&self, product: TaskOutput) -> (String, &'static str) {
        if product.port == WORK {
            return ("work".into(), "directory");
        }
        let task = &self.document.written[self.document.expanded[product.task].written];
        let ty = if is_pattern(&task.download_files[product.port - 1]) { "list" } else { "file" };
        (format!("download{}", product.port), ty)
    }

    fn activity(&mut self, task: &Expanded, name: &str) -> Activity {
        let written = &self.document.written[task.written];
        let axes = &self.axes[task.written];
        let mut parameters: Vec<(String, String)> =
            axes.iter().zip(&task.values).map(|(axis, value)| (axis.clone(), literal(value))).collect();
        for (place, file) in written.include_files.iter().enumerate() {
            let file = substitute(file, &written.grid, |axis| task.values[axis].clone());
            let parameter = self.inputs.entry(file).or_insert_with_key(|file| self.names.make(file));
            parameters.push((format!("include{}", place + 1), format!("${{{parameter}}}")));
        }
        let original = (name != task.name).then(|| task.name.clone());
        Activity { type_name: self.type_names[task.written].clone(), original, parameters, ..Activity::default() }
    }

    /// The files to download.
    fn given(&mut self) -> Result<Vec<Given>, ImportError> {
        let mut given = Vec::new();
        for (number, task) in self.document.expanded.iter().enumerate() {
            let written = &self.document.written[task.written];
            for (place, file) in written.download_files.iter().enumerate() {
                let file = substitute(file, &written.grid, |axis| task.values[axis].clone());
                given.push((self.names.make(&file), file, TaskOutput { task: number, port: place + 1 }));
            }
        }
        match given.len() {
            found if found > MAX_PASSED_ON => Err(ImportError::TooManyResults { found, most: MAX_PASSED_ON }),
            _ => Ok(given),
        }
    }

    /// The parameters of the process.
    fn parameters(&self, given: &[Given]) -> String {
        let mut text = String::new();
        for name in self.inputs.values() {
            let _ = writeln!(text, "    <IN_PARAMETER TYPE=\"file\" NAME=\"{name}\"/>");
        }
        for (name, _, product) in given {
            let _ = writeln!(text, "    <OUT_PARAMETER TYPE=\"{}\" NAME=\"{name}\"/>", self.port(*product).1);
        }
        text
    }

    fn types(&self) -> Result<String, ImportError> {
        let mut text = String::new();
        for (number, task) in self.document.written.iter().enumerate() {
            self.activity_type(number, task, &mut text)?;
        }
        Ok(text)
    }

    fn activity_type(&self, number: usize, task: &WrittenTask, text: &mut String) -> Result<(), ImportError> {
        let name = &self.type_names[number];
        let template = |text: &str| self.template(text, number);
        let _ = writeln!(text, "  <ACTIVITY_TYPE{}>", attribute("NAME", name));
        if *name != task.name {
            text.push_str("    <DESCRIPTION>");
            content(text, &task.name);
            text.push_str("</DESCRIPTION>\n");
        }
        text.push_str("    <IN_PARAMETER TYPE=\"list\" NAME=\"parents\" OPTIONAL=\"true\"/>\n");
        for axis in &self.axes[number] {
            let _ = writeln!(text, "    <IN_PARAMETER TYPE=\"string\" NAME=\"{axis}\"/>");
        }
        let mut staged = "    <INPUT PARAMETER=\"parents\" PATH=\"parents\"/>\n".to_owned();
        for (place, file) in task.include_files.iter().enumerate() {
            let _ = writeln!(text, "    <IN_PARAMETER TYPE=\"file\" NAME=\"include{}\"/>", place + 1);
            // A file from elsewhere goes into the working directory under its own name.
            let path = if check_path(file).is_ok() { file } else { file.rsplit('/').next().unwrap_or(file) };
            if let Err(problem) = check_path(path) {
                return fault(task.line, format!("include_files: {file:?} {problem}"));
            }
            let path = attribute("PATH", &format!("include/{}", template(path)));
            let _ = writeln!(staged, "    <INPUT PARAMETER=\"include{}\"{path}/>", place + 1);
        }
        text.push_str("    <OUT_PARAMETER TYPE=\"directory\" NAME=\"work\"/>\n");
        staged.push_str("    <OUTPUT PARAMETER=\"work\" PATTERN=\"work\"/>\n");
        for (place, file) in task.download_files.iter().enumerate() {
            if let Err(problem) = check_pattern(file) {
                return fault(task.line, format!("download_files: {file:?} {problem}"));
            }
            let ty = if is_pattern(file) { "list" } else { "file" };
            let _ = writeln!(text, "    <OUT_PARAMETER TYPE=\"{ty}\" NAME=\"download{}\"/>", place + 1);
            let pattern = attribute("PATTERN", &format!("work/{}", template(file)));
            let _ = writeln!(staged, "    <OUTPUT PARAMETER=\"download{}\"{pattern}/>", place + 1);
        }
        text.push_str(&staged);
        text.push_str("    <CODE LANGUAGE=\"command\">\n");
        for argument in ["bash", "-c", &literal(SET_UP), "bash", &template(&task.command)] {
            text.push_str("      <ARG>");
            content(text, argument);
            text.push_str("</ARG>\n");
        }
        text.push_str("    </CODE>\n  </ACTIVITY_TYPE>\n");
        Ok(())
    }

    /// A text of a task in which `@axis` is an expression.
    fn template(&self, text: &str, task: usize) -> String {
        let axes = &self.axes[task];
        substitute(&literal(text), &self.document.written[task].grid, |axis| format!("${{{}}}", axes[axis]))
    }
}

fn is_pattern(file: &str) -> bool {
    file.contains(['*', '?', '['])
}

/// Replaces each `@axis` by its value.
fn substitute(text: &str, grid: &[(String, Vec<String>)], value: impl Fn(usize) -> String) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('@') {
        let length = after.bytes().take_while(|b| b.is_ascii_alphanumeric() || *b == b'_').count();
        let axis = grid.iter().position(|(axis, _)| *axis == after[..length]);
        out.push_str(before);
        match axis {
            Some(axis) => {
                // `$` before an expression would make it a literal text: the `$` becomes an expression, too.
                let value = value(axis);
                if value.starts_with("${") && out.ends_with('$') {
                    out.pop();
                    out.push_str("${'$'}");
                }
                out.push_str(&value);
                rest = &after[length..];
            }
            None => {
                out.push('@');
                rest = after;
            }
        }
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_grid_are_replaced_and_nothing_else() {
        let grid = vec![("p".to_owned(), vec![]), ("config_file".to_owned(), vec![])];
        let value = |axis: usize| format!("<{axis}>");
        assert_eq!(substitute("a @p @p_x b@p.c @config_file.csv @", &grid, value), "a <0> @p_x b<0>.c <1>.csv @");
        let expression = |axis: usize| format!("${{x{axis}}}");
        assert_eq!(substitute("$@p", &grid, expression), "${'$'}${x0}");
    }
}

//! The importers: read a workflow, find its structure, write it as a process.

use thiserror::Error;
use xavantes_model::xml::MAX_BYTES;
use xavantes_scheduling::formats::{ReadError, dax, wfformat};
use xavantes_scheduling::id::{FileId, TaskId};
use xavantes_scheduling::problem::Workflow;

use crate::name_maker::{Alphabet, NameMaker};
use crate::order::{StructurePart, reduce, structure};
use crate::process_layout::{Layout, TaskOutput};
use crate::process_xml::{Activity, ProcessText, write};
use crate::stand_in::{StandIn, StandIns};
use crate::sweeper;
use crate::xml_text::{literal, number};

/// The format of a workflow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SourceFormat {
    /// Pegasus DAX (XML).
    Dax,
    /// WfCommons WfFormat (JSON).
    Wfformat,
    /// Sweeper's YAML.
    Sweeper,
}

/// How to write a process.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Nested controllers where the graph allows it, instead of one `PAR` with `AFTER`.
    pub structured: bool,
    /// What activities do. Sweeper's run the commands of the document.
    pub stand_in: StandIn,
    /// Default of the factor by which stand-ins shorten times and files.
    pub scale: f64,
    /// Activities make files of the estimated sizes and hand them on.
    pub files: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { structured: false, stand_in: StandIn::None, scale: 1.0, files: false }
    }
}

/// The form of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImportForm {
    /// One `PAR`, with every edge of the workflow in an `AFTER`.
    Graph,
    /// Nested `BLOCK`s and `PAR`s, with `AFTER` where the graph is not series-parallel.
    Structured,
}

/// A workflow as a process.
#[derive(Debug, Clone)]
pub struct Imported {
    /// The document.
    pub xml: String,
    /// Name of the process type.
    pub process: String,
    /// Tasks of the workflow; each is one activity.
    pub tasks: usize,
    /// Edges of the workflow.
    pub edges: usize,
    /// Files of the workflow.
    pub files: usize,
    /// Tasks whose names the language does not allow.
    pub renamed: usize,
    /// How the process was written. Structure that one script cannot pass results through stays a graph.
    pub form: ImportForm,
    /// Tasks or parts that stand in a `PAR` with `AFTER`; 0 for a series-parallel workflow in structured form.
    pub linked: usize,
    /// Parameters of the process that take files, and the files.
    pub inputs: Vec<(String, String)>,
    /// Parameters of the process that give files, and the files.
    pub outputs: Vec<(String, String)>,
}

/// Why a document cannot be imported.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum ImportError {
    /// The document is no workflow of its format.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The document is not Sweeper's YAML.
    #[error("line {line}: {reason}")]
    Sweeper {
        /// Line, from 1.
        line: usize,
        /// What is wrong.
        reason: String,
    },
    /// The scale is no factor.
    #[error("the scale must be a number from 0 to 1000, not {0}")]
    Scale(f64),
    /// The process would be larger than a document may be.
    #[error("the process takes {bytes} bytes of XML; a document has at most {MAX_BYTES}")]
    TooLarge {
        /// Its bytes.
        bytes: usize,
    },
    /// The workflow gives more files than the code of one process can pass on.
    #[error("the workflow downloads {found} files; at most {most} are possible")]
    TooManyResults {
        /// Files.
        found: usize,
        /// Limit.
        most: usize,
    },
}

/// Imports a document. `name` is that of the new process type.
pub fn import(format: SourceFormat, document: &str, name: &str, options: Options) -> Result<Imported, ImportError> {
    if !(0.0..=1000.0).contains(&options.scale) {
        return Err(ImportError::Scale(options.scale));
    }
    let imported = match format {
        SourceFormat::Dax => stand_ins(&dax::read(document)?, "DAX", name, options),
        SourceFormat::Wfformat => stand_ins(&wfformat::read(document)?, "WfFormat", name, options),
        SourceFormat::Sweeper => sweeper::import(document, name, options.structured)?,
    };
    match imported.xml.len() {
        bytes if bytes > MAX_BYTES => Err(ImportError::TooLarge { bytes }),
        _ => Ok(imported),
    }
}

/// The graph of a workflow, and the parts that its controllers are made of.
pub(crate) fn parts(workflow: &Workflow, structured: bool) -> StructurePart {
    let order: Vec<usize> = workflow.order().iter().map(|task| task.index()).collect();
    if !structured {
        let mut position = vec![0; order.len()];
        order.iter().enumerate().for_each(|(place, task)| position[*task] = place);
        let parents = |task: usize| {
            let parents = workflow.parents(TaskId::new(task)).iter();
            parents.map(|edge| position[edge.task.index()]).collect()
        };
        return StructurePart::Graph(order.iter().map(|task| (StructurePart::Task(*task), parents(*task))).collect());
    }
    let children: Vec<Vec<usize>> =
        workflow.tasks().map(|task| workflow.children(task).iter().map(|edge| edge.task.index()).collect()).collect();
    structure(&reduce(&children, &order))
}

/// Elements of graphs in a part.
pub(crate) fn linked(part: &StructurePart) -> usize {
    match part {
        StructurePart::Task(_) => 0,
        StructurePart::Series(parts) | StructurePart::Parallel(parts) => parts.iter().map(linked).sum(),
        StructurePart::Graph(parts) => parts.len() + parts.iter().map(|(part, _)| linked(part)).sum::<usize>(),
    }
}

/// Lays a workflow out, as a graph if its structure cannot pass the results on.
pub(crate) fn lay_out(
    workflow: &Workflow,
    structured: bool,
    reads: &[Vec<TaskOutput>],
    given: &[TaskOutput],
    task_names: &[String],
    names: impl Fn() -> NameMaker,
) -> (Layout, ImportForm, usize) {
    let forms = if structured { vec![ImportForm::Structured, ImportForm::Graph] } else { vec![ImportForm::Graph] };
    let mut found = None;
    for form in forms {
        let part = parts(workflow, form == ImportForm::Structured);
        let layout = Layout::new(&part, reads, given, task_names, &mut names());
        let fits = !layout.is_too_wide();
        found = Some((layout, form, linked(&part)));
        if fits {
            break;
        }
    }
    found.unwrap_or_else(|| {
        (Layout::new(&StructurePart::Series(Vec::new()), &[], &[], &[], &mut names()), ImportForm::Graph, 0)
    })
}

/// Writes a workflow with stand-ins for its programs.
fn stand_ins(workflow: &Workflow, format: &str, name: &str, options: Options) -> Imported {
    let originals: Vec<&str> = workflow.tasks().map(|task| workflow.name(task)).collect();
    let task_names = NameMaker::new(Alphabet::Code).all(originals.iter().copied());
    let names = || {
        let mut names = NameMaker::new(Alphabet::Code);
        names.all(task_names.iter().map(String::as_str));
        names
    };
    let process = NameMaker::new(Alphabet::Type).make(name);
    let mut types = StandIns::new(options.stand_in, options.files, NameMaker::new(Alphabet::Type));
    let mut activities = Vec::new();
    for task in workflow.tasks() {
        let kind = Some(workflow.kind(task)).filter(|kind| !kind.is_empty()).unwrap_or("Task");
        let outputs = workflow.outputs(task);
        let made = if options.files { outputs.len() } else { 0 };
        let name = &task_names[task.index()];
        let mut activity = Activity {
            type_name: types.type_name(kind, made),
            original: (name != workflow.name(task)).then(|| workflow.name(task).to_owned()),
            seconds: Some(workflow.cpu_seconds(task)).filter(|seconds| seconds.is_finite()),
            ..Activity::default()
        };
        if types.takes_time() {
            activity.parameters.push(("seconds".into(), number(activity.seconds.unwrap_or(0.0))));
        }
        if types.takes_time() || options.files {
            activity.parameters.push(("scale".into(), "${scale}".into()));
        }
        match options.files {
            true => make_files(workflow, outputs, &mut activity),
            false => use_files(workflow, task, &mut activity),
        }
        activities.push(activity);
    }
    let reads: Vec<Vec<TaskOutput>> =
        workflow.tasks().map(|task| if options.files { inputs(workflow, task) } else { Vec::new() }).collect();
    let (layout, form, linked) = lay_out(workflow, options.structured, &reads, &[], &task_names, names);
    let scaled = types.takes_time() || options.files;
    let parameters = match scaled {
        true => format!("    <IN_PARAMETER TYPE=\"float\" NAME=\"scale\" DEFAULT=\"{}\"/>\n", number(options.scale)),
        false => String::new(),
    };
    let (tasks, edges, files) = (workflow.task_count(), workflow.edge_count(), workflow.file_count());
    let description = format!("Imported from {format}: {tasks} tasks, {edges} edges, {files} files.");
    let renamed = activities.iter().filter(|activity| activity.original.is_some()).count();
    let document = ProcessText {
        name: &process,
        description: &description,
        parameters,
        task_names: &task_names,
        activities: &activities,
        reads: &reads,
        reading: "inputs",
        port: &|product| (format!("out{}", product.port + 1), "file"),
        results: &[],
        types: types.text,
    };
    let xml = write(&document, &layout);
    let (inputs, outputs) = (Vec::new(), Vec::new());
    Imported { xml, process, tasks, edges, files, renamed, form, linked, inputs, outputs }
}

/// The activity makes its files and says how large they are.
fn make_files(workflow: &Workflow, outputs: &[FileId], activity: &mut Activity) {
    if outputs.is_empty() {
        return;
    }
    let names: Vec<String> = outputs.iter().map(|file| plain_name(workflow.file_name(*file))).collect();
    let sizes: Vec<String> = outputs.iter().map(|file| number(workflow.file_bytes(*file).ceil())).collect();
    activity.parameters.push(("names".into(), literal(&names.join("/"))));
    activity.parameters.push(("sizes".into(), format!("[{}]", sizes.join(", "))));
    let sizes = outputs.iter().enumerate();
    activity.sizes = sizes.map(|(place, file)| (format!("out{}", place + 1), workflow.file_bytes(*file))).collect();
}

/// The last part of a path, as a name that neither a shell nor a pattern reads in another way.
fn plain_name(path: &str) -> String {
    let last = path.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    let plain = |c: char| if c.is_ascii_alphanumeric() || "._-+=@,:~".contains(c) { c } else { '_' };
    let name: String = last.chars().take(100).map(plain).collect();
    if name.is_empty() || name.starts_with(['.', '-']) { format!("_{name}") } else { name }
}

/// The activity says which files it uses. Writers say how large a file is, and readers of a file that nobody writes.
fn use_files(workflow: &Workflow, task: TaskId, activity: &mut Activity) {
    for file in workflow.inputs(task) {
        let bytes = workflow.writers(*file).is_empty().then(|| workflow.file_bytes(*file));
        activity.files.push((workflow.file_name(*file).to_owned(), false, bytes));
    }
    for file in workflow.outputs(task) {
        activity.files.push((workflow.file_name(*file).to_owned(), true, Some(workflow.file_bytes(*file))));
    }
}

/// The files that a task reads from its parents. A file that only others write is not there when the task starts.
fn inputs(workflow: &Workflow, task: TaskId) -> Vec<TaskOutput> {
    let mut products = Vec::new();
    for file in workflow.inputs(task) {
        let writers = workflow
            .writers(*file)
            .iter()
            .filter(|writer| workflow.parents(task).iter().any(|edge| edge.task == **writer));
        products.extend(writers.filter_map(|writer| {
            let port = workflow.outputs(*writer).iter().position(|output| output == file)?;
            Some(TaskOutput { task: writer.index(), port })
        }));
    }
    products.sort_unstable();
    products.dedup();
    products
}

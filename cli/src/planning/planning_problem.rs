//! Makes one scheduling problem of workflow files, machines and the facts about them that the user gave.

use std::collections::BTreeMap;
use std::path::Path;

use xavantes_foresight::forecast::TaskKind;
use xavantes_foresight::{Assumption, Expectations, Histories, Options, StoredInput, unfold};
use xavantes_model::definition::Requires;
use xavantes_model::diagnostic::Source;
use xavantes_scheduling::formats::{ReadError, dax, gpu, teylo, vcl, wds, wfformat};
use xavantes_scheduling::problem::{CostModel, Limits};
use xavantes_scheduling::{MachineId, Problem, TaskId, Workflow};

use super::args::{PlanningArgs, WorkflowFormat};
use super::combine::{PrefixedWorkflow, combine};
use super::documents::{guess, read_text};
use super::machine_file::{self, Machines};
use super::{histories, machine_file::quantity};
use crate::documents::load_sources;
use crate::exit::Exit;
use crate::output::printer::Output;
use crate::output::terminal;
use crate::report::validation::Validation;
use crate::{definition, transfer};

/// Tasks that the loops of a definition become at most, by planning them in chunks.
const MAX_TASKS: usize = 100_000;
/// Iterations of a loop of which nothing is known and nothing is expected.
const DEFAULT_ITERATIONS: u64 = 10;
/// Seconds of an activity of which nothing is known.
const DEFAULT_SECONDS: f64 = 60.0;
/// Upper bound on the tasks that an error message names.
const MAX_NAMED_TASKS: usize = 5;

/// A problem, and where its tasks come from.
pub(crate) struct Planned {
    /// What the files are called, for titles.
    pub name: String,
    pub problem: Problem,
    /// Of tasks of a process definition, by their position: what they stand for.
    pub kinds: BTreeMap<TaskId, TaskKind>,
    pub assumptions: Vec<Assumption>,
}

impl Planned {
    /// The activity type of a task of a definition.
    pub(crate) fn activity(&self, task: TaskId) -> Option<&str> {
        match self.kinds.get(&task) {
            Some(TaskKind::Activity { activity, .. }) => Some(activity),
            _ => None,
        }
    }

    /// Whether a task only joins others, which nobody wants to see.
    pub(crate) fn is_join(&self, task: TaskId) -> bool {
        matches!(self.kinds.get(&task), Some(TaskKind::Join))
    }
}

/// Reads everything that the arguments name. All problems are printed.
pub(crate) fn read(arguments: &PlanningArgs, output: Output) -> Result<Planned, Exit> {
    let mut documents = Vec::new();
    for file in &arguments.files {
        let document = read_text(file).map_err(|problem| terminal::error(&problem))?;
        let format = arguments.format.or_else(|| guess(&document)).ok_or_else(|| {
            let name = &document.name;
            terminal::error(&format!(
                "cannot tell the format of {name}: say --format (xml, dax, wfformat, teylo, gpu, wds)"
            ))
        })?;
        documents.push((format, document));
    }
    let carries = |format: &WorkflowFormat| matches!(format, WorkflowFormat::Gpu | WorkflowFormat::Wds);
    if documents.iter().any(|(format, _)| carries(format)) {
        return with_own_machines(arguments, &documents);
    }
    let name = documents.iter().map(|(_, document)| prefix(document)).collect::<Vec<_>>().join(", ");
    let machines = machines(arguments, output)?;
    let mut reader = ProblemReader { arguments, machines: &machines, kinds: BTreeMap::new(), assumptions: Vec::new() };
    let mut parts = Vec::new();
    let (definitions, others): (Vec<_>, Vec<_>) =
        documents.into_iter().partition(|(format, _)| *format == WorkflowFormat::Xml);
    if !definitions.is_empty() {
        let sources: Vec<Source> = definitions.into_iter().map(|(_, source)| source).collect();
        parts.push(reader.definition(&sources, output)?);
    }
    let mut inline = false;
    for (format, document) in &others {
        let read = match format {
            WorkflowFormat::Dax => dax::read(&document.text),
            WorkflowFormat::Wfformat => wfformat::read(&document.text),
            _ => teylo::read(&document.text),
        };
        inline |= *format == WorkflowFormat::Teylo;
        let workflow = read.map_err(|error| wrong_document(document, &error))?;
        parts.push(PrefixedWorkflow { prefix: prefix(document), workflow, placed: *format == WorkflowFormat::Teylo });
    }
    let ProblemReader { kinds, assumptions, .. } = reader;
    let cannot = |error: xavantes_scheduling::problem::ProblemError| terminal::error(&error.to_string());
    let workflow = combine(parts, &machines).map_err(cannot)?;
    let model = if inline { CostModel::inline_cpu() } else { CostModel::overlapped() };
    let allowed = allowed_machines(&kinds, &machines);
    let limits = Limits { deadline: arguments.deadline, budget: arguments.budget, allowed, ..Limits::default() };
    let requirements = Requirements { kinds: &kinds };
    let problem =
        Problem::new(workflow, machines.platform, model).and_then(|it| it.with_limits(limits)).map_err(cannot)?;
    check_tasks(&problem, &requirements)?;
    Ok(Planned { name, problem, kinds, assumptions })
}

/// Reads the one document that has its own machines.
fn with_own_machines(arguments: &PlanningArgs, documents: &[(WorkflowFormat, Source)]) -> Result<Planned, Exit> {
    let [(format, document)] = documents else {
        return Err(terminal::error("a gpu or wds file has machines of its own, so it is planned alone"));
    };
    if arguments.machines.is_some() || arguments.cluster.is_some() {
        let name = &document.name;
        return Err(terminal::error(&format!("{name} has machines of its own: leave --machines and --cluster out")));
    }
    let read = match format {
        WorkflowFormat::Gpu => gpu::read(&document.text),
        _ => wds::read(&document.text),
    };
    let problem = read.map_err(|error| wrong_document(document, &error))?;
    let limits = Limits { deadline: arguments.deadline, budget: arguments.budget, ..Limits::default() };
    let problem = problem.with_limits(limits).map_err(|error| terminal::error(&error.to_string()))?;
    let kinds = BTreeMap::new();
    check_tasks(&problem, &Requirements { kinds: &kinds })?;
    Ok(Planned { name: prefix(document), problem, kinds, assumptions: Vec::new() })
}

fn wrong_document(document: &Source, error: &ReadError) -> Exit {
    terminal::error(&format!("{}: {error}", document.name))
}

/// What tasks of a document are called in front of their names when several are planned together.
fn prefix(document: &Source) -> String {
    let stem = Path::new(&*document.name).file_stem().map(|stem| stem.to_string_lossy().into_owned());
    stem.unwrap_or_else(|| document.name.to_string())
}

/// The machines that the arguments name.
fn machines(arguments: &PlanningArgs, output: Output) -> Result<Machines, Exit> {
    if let Some(file) = &arguments.cluster {
        let document = read_text(file).map_err(|problem| terminal::error(&problem))?;
        let platform = vcl::read(&document.text).map_err(|error| wrong_document(&document, &error))?;
        return Ok(Machines::of_platform(platform));
    }
    let Some(file) = &arguments.machines else {
        return Err(terminal::error(
            "which machines are there? Say --machines FILE.toml (docs/planning.md explains the file)",
        ));
    };
    let document = read_text(file).map_err(|problem| terminal::error(&problem))?;
    machine_file::read(&document.text).map_err(|problems| {
        output.report(&Validation::new(&[document], &problems));
        Exit::Usage
    })
}

struct ProblemReader<'a> {
    arguments: &'a PlanningArgs,
    machines: &'a Machines,
    kinds: BTreeMap<TaskId, TaskKind>,
    assumptions: Vec<Assumption>,
}

impl ProblemReader<'_> {
    /// The task graph of a process. Its tasks are the first ones.
    fn definition(&mut self, sources: &[Source], output: Output) -> Result<PrefixedWorkflow, Exit> {
        let program = load_sources(sources, output)?;
        let arguments = &self.arguments.definition;
        let process = program.entry(arguments.process.as_deref()).map_err(|message| terminal::error(&message))?;
        let of_type = &program.processes[process];
        let given = definition::GivenParameters {
            former: BTreeMap::new(),
            file: arguments.params.as_deref(),
            arguments: &arguments.parameters,
        };
        let parameters = definition::parameters(of_type, &given).map_err(|problems| {
            for problem in problems {
                terminal::error(&problem);
            }
            Exit::Usage
        })?;
        let expectations =
            Expectations::parse(&arguments.expect).map_err(|error| terminal::error(&error.to_string()))?;
        let histories = match &arguments.history {
            Some(path) => histories::read(path).map_err(|problem| terminal::error(&problem))?,
            None => Histories::new(),
        };
        let options = Options {
            expectations: &expectations,
            histories: &histories,
            input: &|name| self.input(name),
            unroll: arguments.unroll,
            max_tasks: MAX_TASKS,
            iterations: DEFAULT_ITERATIONS,
            seconds: DEFAULT_SECONDS,
        };
        let forecast =
            unfold(&program, process, &parameters, &options).map_err(|error| terminal::error(&error.to_string()))?;
        if let Some(unused) = expectations.unused().first() {
            return Err(terminal::error(&format!(
                "nothing is to be expected by {unused:?}: {} has no such element whose number of iterations or case is unknown",
                of_type.name
            )));
        }
        self.kinds = forecast.tasks.into_iter().enumerate().map(|(task, kind)| (TaskId::new(task), kind)).collect();
        self.assumptions = forecast.assumptions;
        Ok(PrefixedWorkflow { prefix: of_type.name.to_string(), workflow: forecast.workflow, placed: true })
    }

    /// What is known of an input: the machine file, or the size of a local file.
    fn input(&self, name: &str) -> StoredInput {
        let mut known = self.machines.input(name).unwrap_or_default();
        if known.bytes.is_none() {
            let local = transfer::local(name).and_then(|path| std::fs::metadata(path).ok());
            known.bytes = local.filter(std::fs::Metadata::is_file).map(|file| file.len() as f64);
        }
        known
    }
}

/// The machines for tasks that need more than any machine has: memory, GPUs, tags.
fn allowed_machines(kinds: &BTreeMap<TaskId, TaskKind>, machines: &Machines) -> BTreeMap<TaskId, Vec<MachineId>> {
    let suits = |requires: &Requires, machine: usize| {
        requires.memory as f64 <= machines.memory[machine]
            && requires.gpus <= machines.platform.machines[machine].gpus
            && requires.tags.iter().all(|tag| machines.tags[machine].iter().any(|own| **own == **tag))
    };
    let mut allowed = BTreeMap::new();
    for (task, kind) in kinds {
        let TaskKind::Activity { requires, .. } = kind else { continue };
        if requires.memory == 0 && requires.gpus == 0 && requires.tags.is_empty() {
            continue;
        }
        let suitable = (0..machines.platform.machines.len()).filter(|machine| suits(requires, *machine));
        allowed.insert(*task, suitable.map(MachineId::new).collect());
    }
    allowed
}

struct Requirements<'a> {
    kinds: &'a BTreeMap<TaskId, TaskKind>,
}

impl Requirements<'_> {
    /// What a task needs, in words.
    fn of(&self, workflow: &Workflow, task: TaskId) -> String {
        let mut needs = Vec::new();
        let cores = workflow.cores(task);
        if cores > 1 {
            needs.push(format!("{cores} cores"));
        }
        if let Some(TaskKind::Activity { requires, .. }) = self.kinds.get(&task) {
            if requires.memory > 0 {
                needs.push(format!(
                    "{:.1} GiB of memory",
                    requires.memory as f64 / quantity::bytes("1 GiB").unwrap_or(1.0)
                ));
            }
            if requires.gpus > 0 {
                needs.push(format!("{} GPU", requires.gpus));
            }
            needs.extend(requires.tags.iter().map(|tag| format!("the tag {tag:?}")));
        } else if workflow.cpu_seconds(task).is_infinite() {
            needs.push("a GPU".into());
        }
        if needs.is_empty() { String::new() } else { format!(": it needs {}", needs.join(", ")) }
    }
}

/// Checks that every task has a machine.
fn check_tasks(problem: &Problem, requirements: &Requirements<'_>) -> Result<(), Exit> {
    let possible = |task: &TaskId| problem.machines().any(|machine| problem.can_run(*task, machine));
    let impossible: Vec<TaskId> = problem.tasks().filter(|task| !possible(task)).collect();
    for task in impossible.iter().take(MAX_NAMED_TASKS) {
        let workflow = problem.workflow();
        let (name, needs) = (workflow.name(*task), requirements.of(workflow, *task));
        terminal::error(&format!("no machine can run {name}{needs}"));
    }
    if impossible.len() > MAX_NAMED_TASKS {
        terminal::error(&format!("{} more tasks have no machine", impossible.len() - MAX_NAMED_TASKS));
    }
    if impossible.is_empty() { Ok(()) } else { Err(Exit::Usage) }
}

//! Several workflows as one, and inputs on machines: readers take inputs to be everywhere, the machine file may know
//! better.

use std::collections::HashSet;

use xavantes_scheduling::problem::{Edge, ProblemError, Work, WorkflowBuilder};
use xavantes_scheduling::{TaskId, Workflow};

use super::machine_file::Machines;

/// A workflow, and what its tasks are called in front of their names.
pub(super) struct PrefixedWorkflow {
    pub prefix: String,
    pub workflow: Workflow,
    /// Whether its inputs were placed already.
    pub placed: bool,
}

/// Joins workflows, which share nothing but the machines.
pub(super) fn combine(mut parts: Vec<PrefixedWorkflow>, machines: &Machines) -> Result<Workflow, ProblemError> {
    if parts.len() == 1 && (parts[0].placed || !machines.places_files()) {
        return Ok(parts.remove(0).workflow);
    }
    let alone = parts.len() == 1;
    let mut builder = WorkflowBuilder::new();
    for part in &parts {
        add(&mut builder, part, alone, machines);
    }
    builder.build()
}

fn add(builder: &mut WorkflowBuilder, part: &PrefixedWorkflow, alone: bool, machines: &Machines) {
    let workflow = &part.workflow;
    let named = |name: &str| if alone { name.to_owned() } else { format!("{}/{name}", part.prefix) };
    let first = builder.task_count() as u32;
    let own = |task: TaskId| TaskId(first + task.0);
    for task in workflow.tasks() {
        let finite = |seconds: f64| seconds.is_finite().then_some(seconds);
        let work = Work { cpu: finite(workflow.cpu_seconds(task)), gpu: finite(workflow.gpu_seconds(task)) };
        let id = builder.task(named(workflow.name(task)), work);
        builder.cores(id, workflow.cores(task));
    }
    let mut files = Vec::with_capacity(workflow.file_count());
    for file in workflow.files() {
        let known = match workflow.is_fixed(file) && !part.placed {
            true => machines.input(workflow.file_name(file)),
            false => None,
        };
        let bytes = known.as_ref().and_then(|known| known.bytes).unwrap_or_else(|| workflow.file_bytes(file));
        let id = builder.file(named(workflow.file_name(file)), bytes);
        let copies = known.map_or_else(|| workflow.copies(file).to_vec(), |known| known.machines);
        if workflow.is_fixed(file) {
            builder.place_everywhere(id);
            copies.into_iter().for_each(|machine| builder.place(id, machine));
        }
        files.push(id);
    }
    for task in workflow.tasks() {
        workflow.inputs(task).iter().for_each(|file| builder.reads(own(task), files[file.index()]));
        workflow.outputs(task).iter().for_each(|file| builder.writes(own(task), files[file.index()]));
        for edge in workflow.children(task) {
            builder.edge_with_data(own(task), own(edge.task), beside_files(workflow, task, edge));
        }
    }
}

/// The bytes of an edge that are not those of files: the builder adds these again.
fn beside_files(workflow: &Workflow, task: TaskId, edge: &Edge) -> f64 {
    let written: HashSet<_> = workflow.outputs(task).iter().collect();
    let shared = workflow.inputs(edge.task).iter().filter(|file| written.contains(file));
    let of_files: f64 = shared.filter(|file| !workflow.is_fixed(**file)).map(|file| workflow.file_bytes(*file)).sum();
    // The rest of a subtraction of equal sums is no data.
    let rest = edge.bytes - of_files;
    if rest > edge.bytes * 1e-9 { rest } else { 0.0 }
}

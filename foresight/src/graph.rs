//! The task graph under construction. Parts can be taken out again, because the walk compares the cases of a switch.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use xavantes_scheduling::problem::{ProblemError, Work, WorkflowBuilder};
use xavantes_scheduling::{FileId, MachineId, TaskId, Workflow};

use crate::forecast::TaskKind;
use crate::stored_input::StoredInput;

/// Tasks that must end before something begins.
pub(crate) type Frontier = Rc<[u32]>;

/// More edges between two sets of tasks go through a task without work in between.
const MAX_DIRECT_EDGES: usize = 10_000;

pub(crate) struct GraphTask {
    pub name: String,
    pub kind: TaskKind,
    pub work: Work,
    pub cores: u32,
    pub after: Frontier,
    pub reads: Vec<u32>,
    pub writes: Vec<u32>,
}

struct GraphFile {
    name: Arc<str>,
    bytes: f64,
}

/// A part of a graph: the tasks after a point.
pub(crate) struct GraphPart(Vec<GraphTask>);

impl GraphPart {
    /// Seconds of all tasks.
    pub(crate) fn seconds(&self) -> f64 {
        self.0.iter().map(|task| task.work.cpu.or(task.work.gpu).unwrap_or(0.0)).sum()
    }
}

#[derive(Default)]
pub(crate) struct Graph {
    tasks: Vec<GraphTask>,
    files: Vec<GraphFile>,
    by_name: HashMap<Arc<str>, u32>,
}

impl Graph {
    pub(crate) fn len(&self) -> usize {
        self.tasks.len()
    }

    pub(crate) fn add(&mut self, task: GraphTask) -> Frontier {
        self.tasks.push(task);
        Rc::new([(self.tasks.len() - 1) as u32])
    }

    /// Takes out all tasks from this number on. Files stay: a file that nobody uses does no harm.
    pub(crate) fn take_from(&mut self, first: usize) -> GraphPart {
        GraphPart(self.tasks.split_off(first))
    }

    /// Puts a part back that was taken out at the same number of tasks.
    pub(crate) fn put_back(&mut self, part: GraphPart) {
        self.tasks.extend(part.0);
    }

    /// A file of its own.
    pub(crate) fn new_file(&mut self, name: impl Into<Arc<str>>, bytes: f64) -> u32 {
        self.files.push(GraphFile { name: name.into(), bytes });
        (self.files.len() - 1) as u32
    }

    /// The file with this name, which all tasks share. Of several sizes the largest counts.
    pub(crate) fn shared_file(&mut self, name: &Arc<str>, bytes: Option<f64>) -> u32 {
        let file = match self.by_name.get(name) {
            Some(file) => *file,
            None => {
                let file = self.new_file(name.clone(), 0.0);
                self.by_name.insert(name.clone(), file);
                file
            }
        };
        let known = &mut self.files[file as usize].bytes;
        *known = known.max(bytes.unwrap_or(0.0));
        file
    }

    pub(crate) fn bytes(&self, file: u32) -> f64 {
        self.files[file as usize].bytes
    }

    /// The same frontier for `many` tasks, or one task that waits for it if there would be too many edges.
    pub(crate) fn narrow(&mut self, frontier: Frontier, many: usize, name: impl FnOnce() -> String) -> Frontier {
        if frontier.len() < 2 || frontier.len().saturating_mul(many) <= MAX_DIRECT_EDGES {
            return frontier;
        }
        let (reads, writes) = (Vec::new(), Vec::new());
        let (kind, work) = (TaskKind::Join, Work::cpu(0.0));
        self.add(GraphTask { name: name(), kind, work, cores: 1, after: frontier, reads, writes })
    }

    /// The workflow. `input` knows files that no task writes.
    pub(crate) fn build(self, input: &dyn Fn(&str) -> StoredInput) -> Result<(Workflow, Vec<TaskKind>), ProblemError> {
        let mut builder = WorkflowBuilder::new();
        let mut written = vec![false; self.files.len()];
        let mut used = vec![false; self.files.len()];
        for task in &self.tasks {
            task.writes.iter().for_each(|file| written[*file as usize] = true);
            task.reads.iter().chain(&task.writes).for_each(|file| used[*file as usize] = true);
        }
        let mut ids: Vec<Option<FileId>> = Vec::with_capacity(self.files.len());
        for (index, file) in self.files.iter().enumerate() {
            if !used[index] {
                ids.push(None);
                continue;
            }
            let mut bytes = file.bytes;
            let mut machines: Vec<MachineId> = Vec::new();
            if !written[index] {
                let known = input(&file.name);
                bytes = known.bytes.unwrap_or(bytes);
                machines = known.machines;
            }
            let id = builder.file(&*file.name, bytes);
            machines.into_iter().for_each(|machine| builder.place(id, machine));
            ids.push(Some(id));
        }
        let data = data_edges(&self.tasks, self.files.len());
        let mut kinds = Vec::with_capacity(self.tasks.len());
        for (index, task) in self.tasks.into_iter().enumerate() {
            let id = builder.task(task.name, task.work);
            builder.cores(id, task.cores);
            // The walk goes forward, so a task waits for earlier ones only.
            task.after.iter().for_each(|before| builder.edge(TaskId(*before), TaskId::new(index)));
            let files = |files: Vec<u32>| files.into_iter().filter_map(|file| ids[file as usize]).collect::<Vec<_>>();
            let (reads, writes) = (files(task.reads), files(task.writes));
            // What a task reads and writes is there before it, as far as it depends on others.
            reads.iter().filter(|file| !writes.contains(file)).for_each(|file| builder.reads(id, *file));
            writes.iter().for_each(|file| builder.writes(id, *file));
            kinds.push(task.kind);
        }
        data.into_iter().for_each(|(writer, reader)| builder.edge(TaskId(writer), TaskId(reader)));
        Ok((builder.build()?, kinds))
    }
}

/// Edges from tasks that write files to later tasks that read them. Tasks of a sequence wait for the one before alone,
/// and the data of earlier ones travel all the same. A file that is only written beside a task is none of its data: who
/// reads it must come after who writes it.
fn data_edges(tasks: &[GraphTask], files: usize) -> Vec<(u32, u32)> {
    let mut writers: Vec<Vec<u32>> = vec![Vec::new(); files];
    let mut edges = Vec::new();
    let mut search = Ancestors { seen: vec![u32::MAX; tasks.len()], steps: MAX_ANCESTOR_STEPS };
    for (index, task) in tasks.iter().enumerate() {
        let mut wanted: Vec<u32> = task.reads.iter().flat_map(|file| writers[*file as usize].iter().copied()).collect();
        wanted.sort_unstable();
        wanted.dedup();
        wanted.retain(|writer| !task.after.contains(writer));
        let found = search.among(tasks, index as u32, wanted);
        edges.extend(found.into_iter().map(|writer| (writer, index as u32)));
        task.writes.iter().for_each(|file| writers[*file as usize].push(index as u32));
    }
    edges
}

/// Steps of all searches for ancestors together. Graphs with more of them keep only the data of direct edges.
const MAX_ANCESTOR_STEPS: usize = 50_000_000;

/// Searches tasks among those that another one waits for, directly or not.
struct Ancestors {
    /// For each task the last search that came to it.
    seen: Vec<u32>,
    steps: usize,
}

impl Ancestors {
    fn among(&mut self, tasks: &[GraphTask], of: u32, mut wanted: Vec<u32>) -> Vec<u32> {
        let Some(first) = wanted.iter().copied().min() else { return Vec::new() };
        let mut found = Vec::new();
        let mut open = vec![of];
        while let Some(task) = open.pop() {
            for before in tasks[task as usize].after.iter().copied() {
                self.steps = self.steps.saturating_sub(1);
                // Tasks wait for earlier ones only, so nothing before the first one can be after it.
                if before < first || std::mem::replace(&mut self.seen[before as usize], of) == of {
                    continue;
                }
                if let Some(place) = wanted.iter().position(|wanted| *wanted == before) {
                    found.push(wanted.swap_remove(place));
                }
                if wanted.is_empty() || self.steps == 0 {
                    return found;
                }
                open.push(before);
            }
        }
        found
    }
}

/// The union of frontiers.
pub(crate) fn union(frontiers: impl IntoIterator<Item = Frontier>) -> Frontier {
    let mut frontiers = frontiers.into_iter();
    let Some(first) = frontiers.next() else { return Rc::new([]) };
    let mut all: Vec<u32> = Vec::new();
    for other in frontiers {
        if !Rc::ptr_eq(&other, &first) {
            all.extend(other.iter());
        }
    }
    if all.is_empty() {
        return first;
    }
    all.extend(first.iter());
    all.sort_unstable();
    all.dedup();
    all.into()
}

//! Builds workflows part by part, checks them and packs them into compact arrays.

use std::collections::VecDeque;

use super::ProblemError;
use super::workflow::{Edge, Work, Workflow};
use crate::csr::Rows;
use crate::formats::text::shorten;
use crate::id::{FileId, MachineId, TaskId};

/// At most this many tasks, files, edges, or uses of files: offsets have 32 bits, and a planner needs some 100 bytes
/// for each.
const MAX_ELEMENTS: usize = 100_000_000;

/// Collects the parts of a workflow.
#[derive(Debug, Clone, Default)]
pub struct WorkflowBuilder {
    names: Vec<Box<str>>,
    kinds: Vec<Box<str>>,
    cpu: Vec<f64>,
    gpu: Vec<f64>,
    cores: Vec<u32>,
    edges: Vec<(u32, u32, f64)>,
    file_names: Vec<Box<str>>,
    bytes: Vec<f64>,
    fixed: Vec<bool>,
    copies: Vec<(u32, MachineId)>,
    reads: Vec<(u32, FileId)>,
    writes: Vec<(u32, FileId)>,
}

impl WorkflowBuilder {
    /// A workflow without tasks.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a task that occupies one core.
    pub fn task(&mut self, name: impl Into<Box<str>>, work: Work) -> TaskId {
        self.names.push(name.into());
        self.kinds.push("".into());
        self.cpu.push(work.cpu.unwrap_or(f64::INFINITY));
        self.gpu.push(work.gpu.unwrap_or(f64::INFINITY));
        self.cores.push(1);
        TaskId::new(self.names.len() - 1)
    }

    /// Says which program a task runs, or which step of the workflow it belongs to.
    pub fn kind(&mut self, task: TaskId, kind: impl Into<Box<str>>) {
        self.kinds[task.index()] = kind.into();
    }

    /// Says how many cores a task occupies; at least one.
    pub fn cores(&mut self, task: TaskId, cores: u32) {
        self.cores[task.index()] = cores.max(1);
    }

    /// Changes the work of a task.
    pub fn work(&mut self, task: TaskId, work: Work) {
        self.cpu[task.index()] = work.cpu.unwrap_or(f64::INFINITY);
        self.gpu[task.index()] = work.gpu.unwrap_or(f64::INFINITY);
    }

    /// Adds a file.
    pub fn file(&mut self, name: impl Into<Box<str>>, bytes: f64) -> FileId {
        self.file_names.push(name.into());
        self.bytes.push(bytes);
        self.fixed.push(false);
        FileId::new(self.bytes.len() - 1)
    }

    /// Says that a file has at least this size.
    pub fn at_least(&mut self, file: FileId, bytes: f64) {
        let known = &mut self.bytes[file.index()];
        *known = known.max(bytes);
    }

    /// Says that a file is in place before the workflow starts, on this machine.
    pub fn place(&mut self, file: FileId, machine: MachineId) {
        self.fixed[file.index()] = true;
        self.copies.push((file.0, machine));
    }

    /// Says that a file is in place before the workflow starts, on every machine.
    pub fn place_everywhere(&mut self, file: FileId) {
        self.fixed[file.index()] = true;
    }

    /// Says that a task reads a file.
    pub fn reads(&mut self, task: TaskId, file: FileId) {
        self.reads.push((task.0, file));
    }

    /// Says that a task writes a file.
    pub fn writes(&mut self, task: TaskId, file: FileId) {
        self.writes.push((task.0, file));
    }

    /// Says that `later` waits for `earlier`.
    pub fn edge(&mut self, earlier: TaskId, later: TaskId) {
        self.edges.push((earlier.0, later.0, 0.0));
    }

    /// Says that `later` waits for `earlier` and for this many bytes from it, beside the bytes of files.
    pub fn edge_with_data(&mut self, earlier: TaskId, later: TaskId, bytes: f64) {
        self.edges.push((earlier.0, later.0, bytes));
    }

    /// Adds an edge from every task that writes a file to every task that reads it, except for fixed files.
    /// Ends when there are more edges than a workflow may have: few bytes of a document can make many.
    pub fn edges_from_files(&mut self) {
        self.edges_from_files_up_to(MAX_ELEMENTS);
    }

    fn edges_from_files_up_to(&mut self, most: usize) {
        let writers = Rows::from_pairs(self.bytes.len(), &swap(&self.writes));
        for (reader, file) in &self.reads {
            if self.edges.len() > most {
                return;
            }
            if !self.fixed[file.index()] {
                let other = writers.row(file.index()).iter().filter(|writer| writer.0 != *reader);
                self.edges.extend(other.map(|writer| (writer.0, *reader, 0.0)));
            }
        }
    }

    /// As [`Self::edges_from_files`], but a reader waits for the first task that writes a file and for no other one. The
    /// published runs of Stockinger 2020 with GPUs had such graphs: they lost edges where several tasks write one file.
    pub fn edges_from_first_writers(&mut self) {
        let writers = Rows::from_pairs(self.bytes.len(), &swap(&self.writes));
        for (reader, file) in &self.reads {
            let first = writers.row(file.index()).first().filter(|writer| writer.0 != *reader);
            if !self.fixed[file.index()] {
                self.edges.extend(first.map(|writer| (writer.0, *reader, 0.0)));
            }
        }
    }

    /// How many tasks there are so far.
    pub fn task_count(&self) -> usize {
        self.names.len()
    }

    /// Checks and packs the workflow. Edges that are said twice are merged.
    pub fn build(mut self) -> Result<Workflow, ProblemError> {
        self.check()?;
        let (tasks, files) = (self.names.len(), self.bytes.len());
        self.edges.sort_by_key(|(earlier, later, _)| (*earlier, *later));
        self.edges.dedup_by(|next, kept| {
            let same = (next.0, next.1) == (kept.0, kept.1);
            if same {
                kept.2 += next.2;
            }
            same
        });
        let (readers, writers) =
            (Rows::from_pairs(files, &swap(&self.reads)), Rows::from_pairs(files, &swap(&self.writes)));
        for file in 0..files {
            self.fixed[file] |= writers.row(file).is_empty();
        }
        let mut children =
            Rows::from_pairs(tasks, &ends(&self.edges, |(earlier, later, bytes)| (earlier, later, bytes)));
        let (written, read) = (self.moving_files(tasks, &self.writes), self.moving_files(tasks, &self.reads));
        for task in 0..tasks {
            for edge in children.row_mut(task) {
                edge.bytes += self.bytes_of_both(written.row(task), read.row(edge.task.index()));
            }
        }
        let edges = (0..tasks).flat_map(|task| children.row(task).iter().map(move |edge| (task as u32, edge)));
        let edges: Vec<_> =
            edges.map(|(task, edge)| (edge.task.0, Edge { task: TaskId(task), bytes: edge.bytes })).collect();
        let parents = Rows::from_pairs(tasks, &edges);
        let order = topological_order(&children, &parents).map_err(|stuck| self.cycle(&parents, &stuck))?;
        Ok(Workflow {
            names: self.names,
            kinds: self.kinds,
            cpu: self.cpu,
            gpu: self.gpu,
            cores: self.cores,
            children,
            parents,
            order,
            file_names: self.file_names,
            bytes: self.bytes,
            fixed: self.fixed,
            copies: Rows::from_pairs(files, &self.copies),
            inputs: Rows::from_pairs(tasks, &self.reads),
            outputs: Rows::from_pairs(tasks, &self.writes),
            readers,
            writers,
        })
    }

    /// For each task the files of these uses that are not in place before the workflow starts, by number.
    fn moving_files(&self, tasks: usize, uses: &[(u32, FileId)]) -> Rows<FileId> {
        let mut moving: Vec<_> = uses.iter().filter(|(_, file)| !self.fixed[file.index()]).copied().collect();
        moving.sort_unstable();
        Rows::from_pairs(tasks, &moving)
    }

    /// The bytes of the files that the first task of an edge writes and the second one reads. Each file of the shorter
    /// list is looked up in the longer one, so the cost follows edges and uses, not all pairs of writers and readers.
    fn bytes_of_both(&self, written: &[FileId], read: &[FileId]) -> f64 {
        let (few, many) = if written.len() <= read.len() { (written, read) } else { (read, written) };
        // A file that a task names twice moves twice.
        let times = |file: &FileId| many.partition_point(|one| one <= file) - many.partition_point(|one| one < file);
        few.iter().map(|file| self.bytes[file.index()] * times(file) as f64).sum()
    }

    fn check(&self) -> Result<(), ProblemError> {
        let counts = [
            ("tasks", self.names.len()),
            ("files", self.bytes.len()),
            ("edges", self.edges.len()),
            ("uses of files", self.reads.len().max(self.writes.len())),
        ];
        if let Some((what, _)) = counts.iter().find(|(_, count)| *count > MAX_ELEMENTS) {
            return Err(ProblemError::TooMany { what, limit: MAX_ELEMENTS });
        }
        for (task, name) in self.names.iter().enumerate() {
            let bad = |value: f64| value.is_nan() || value < 0.0 || value == f64::INFINITY;
            let (cpu, gpu) = (self.cpu[task], self.gpu[task]);
            if (bad(cpu) && cpu != f64::INFINITY) || (bad(gpu) && gpu != f64::INFINITY) || (bad(cpu) && bad(gpu)) {
                let value = if bad(cpu) { cpu } else { gpu };
                return Err(ProblemError::BadNumber { what: format!("work of task {}", shorten(name)), value });
            }
        }
        let sizes = self.bytes.iter().zip(&self.file_names).map(|(bytes, name)| ("size of file", name, *bytes));
        for (what, name, value) in sizes {
            if !value.is_finite() || value < 0.0 {
                return Err(ProblemError::BadNumber { what: format!("{what} {}", shorten(name)), value });
            }
        }
        for (earlier, later, bytes) in &self.edges {
            if let Some(task) = [earlier, later].into_iter().find(|task| **task as usize >= self.names.len()) {
                return Err(ProblemError::UnknownTask { what: "an edge", task: *task });
            }
            if !bytes.is_finite() || *bytes < 0.0 {
                return Err(ProblemError::BadNumber { what: "data of an edge".into(), value: *bytes });
            }
        }
        Ok(())
    }

    /// Walks back from a task that waits for ever until a task repeats.
    fn cycle(&self, parents: &Rows<Edge>, stuck: &[bool]) -> ProblemError {
        let mut seen = vec![usize::MAX; stuck.len()];
        let mut task = stuck.iter().position(|stuck| *stuck).unwrap_or_default();
        let mut steps = 0;
        while seen[task] == usize::MAX {
            seen[task] = steps;
            steps += 1;
            match parents.row(task).iter().find(|edge| stuck[edge.task.index()]) {
                Some(edge) => task = edge.task.index(),
                None => break,
            }
        }
        ProblemError::Cycle { task: shorten(&self.names[task]).to_owned(), length: steps - seen[task] }
    }
}

fn swap(pairs: &[(u32, FileId)]) -> Vec<(u32, TaskId)> {
    pairs.iter().map(|(task, file)| (file.0, TaskId(*task))).collect()
}

fn ends(edges: &[(u32, u32, f64)], pick: impl Fn((u32, u32, f64)) -> (u32, u32, f64)) -> Vec<(u32, Edge)> {
    let picked = edges.iter().map(|edge| pick(*edge));
    picked.map(|(row, task, bytes)| (row, Edge { task: TaskId(task), bytes })).collect()
}

/// The order, or the tasks that cannot be ordered.
fn topological_order(children: &Rows<Edge>, parents: &Rows<Edge>) -> Result<Vec<TaskId>, Vec<bool>> {
    let tasks = children.rows();
    let mut waits: Vec<_> = (0..tasks).map(|task| parents.row(task).len() as u32).collect();
    let mut ready: VecDeque<_> = (0..tasks).filter(|task| waits[*task] == 0).collect();
    let mut order = Vec::with_capacity(tasks);
    while let Some(task) = ready.pop_front() {
        order.push(TaskId::new(task));
        for edge in children.row(task) {
            let waits = &mut waits[edge.task.index()];
            *waits -= 1;
            if *waits == 0 {
                ready.push_back(edge.task.index());
            }
        }
    }
    if order.len() == tasks { Ok(order) } else { Err(waits.iter().map(|waits| *waits > 0).collect()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_writers_and_readers_of_a_file_take_bounded_memory() {
        let mut builder = WorkflowBuilder::new();
        let file = builder.file("f", 1.0);
        for task in 0..200 {
            let task = builder.task(task.to_string(), Work::cpu(1.0));
            builder.writes(task, file);
            builder.reads(task, file);
        }
        builder.edges_from_files_up_to(1000);
        assert!((1000..1200).contains(&builder.edges.len()));
    }

    /// The time of all pairs would be that of ten thousand million steps.
    #[test]
    fn many_writers_and_readers_of_a_file_with_few_edges_are_packed_at_once() {
        let mut builder = WorkflowBuilder::new();
        let file = builder.file("f", 5.0);
        let many = 100_000;
        let writers: Vec<_> = (0..many).map(|task| builder.task(format!("w{task}"), Work::cpu(1.0))).collect();
        let readers: Vec<_> = (0..many).map(|task| builder.task(format!("r{task}"), Work::cpu(1.0))).collect();
        for (writer, reader) in writers.iter().zip(&readers) {
            builder.writes(*writer, file);
            builder.reads(*reader, file);
            builder.edge(*writer, *reader);
        }
        let workflow = builder.build().unwrap();
        assert_eq!(workflow.children(writers[7]), [Edge { task: readers[7], bytes: 5.0 }]);
        assert_eq!(workflow.parents(readers[7]), [Edge { task: writers[7], bytes: 5.0 }]);
    }

    #[test]
    fn edges_carry_the_bytes_of_their_files() {
        let mut builder = WorkflowBuilder::new();
        let (a, b, c) =
            (builder.task("a", Work::cpu(1.0)), builder.task("b", Work::cpu(2.0)), builder.task("c", Work::cpu(3.0)));
        let (x, y) = (builder.file("x", 5.0), builder.file("y", 7.0));
        builder.writes(a, x);
        builder.writes(a, y);
        for reader in [b, c] {
            builder.reads(reader, x);
        }
        builder.reads(c, y);
        builder.edges_from_files();
        builder.edge_with_data(b, c, 2.0);
        let workflow = builder.build().unwrap();
        assert_eq!(workflow.children(a), [Edge { task: b, bytes: 5.0 }, Edge { task: c, bytes: 12.0 }]);
        assert_eq!(workflow.parents(c), [Edge { task: a, bytes: 12.0 }, Edge { task: b, bytes: 2.0 }]);
        assert_eq!(workflow.order(), [a, b, c]);
        assert_eq!(workflow.critical_path(|task| workflow.cpu_seconds(task)), 6.0);
        assert!(!workflow.is_fixed(x));
    }

    #[test]
    fn a_cycle_is_an_error_that_names_a_task() {
        let mut builder = WorkflowBuilder::new();
        let tasks: Vec<_> = ["a", "b", "c", "d"].map(|name| builder.task(name, Work::cpu(1.0))).into();
        builder.edge(tasks[0], tasks[1]);
        builder.edge(tasks[1], tasks[2]);
        builder.edge(tasks[2], tasks[1]);
        builder.edge(tasks[2], tasks[3]);
        let error = builder.build().unwrap_err();
        assert!(matches!(error, ProblemError::Cycle { length: 2, .. }), "{error}");
    }

    #[test]
    fn a_task_without_work_for_any_processor_is_an_error() {
        let mut builder = WorkflowBuilder::new();
        builder.task("a", Work { cpu: None, gpu: None });
        assert!(matches!(builder.build(), Err(ProblemError::BadNumber { .. })));
        let mut builder = WorkflowBuilder::new();
        builder.task("a", Work::cpu(f64::NAN));
        assert!(matches!(builder.build(), Err(ProblemError::BadNumber { .. })));
    }
}

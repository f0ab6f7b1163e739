//! `.dag` files of the CPU/GPU instances of Stockinger 2020: tasks, files and machines in one document. Edges follow
//! from files.
//!
//! ```text
//! <tasks> <files> <machines>
//! <id> <CPU seconds> <GPU seconds> <inputs> <file> … <outputs> <file> …     GPU seconds 0: CPU only
//! <file> <MB> <static?> [<copies> <machine> …]
//! CPU slowdowns / GPU slowdowns (0: no GPU) / storage in MB / prices for a second / bandwidth table in MB/s
//! ```

use super::text::Words;
use super::{MEGABYTE, ReadError, check_length};
use crate::id::{FileId, MachineId, TaskId};
use crate::problem::{CostModel, MAX_MACHINES, Machine, Network, Platform, Problem, Work, WorkflowBuilder};

/// What the instance formats of Stockinger 2020 differ in.
pub(super) struct Dialect {
    /// Tasks have GPU seconds, and machines GPU slowdowns and prices.
    pub(super) gpu: bool,
    /// The number of the first machine.
    pub(super) first_machine: usize,
    /// The cost model.
    pub(super) model: CostModel,
    /// Readers wait for the first writer of a file only.
    pub(super) first_writers_only: bool,
}

const DIALECT: Dialect =
    Dialect { gpu: true, first_machine: 0, model: CostModel::inline_gpu(), first_writers_only: false };

/// Reads a problem. Text after the bandwidth table is ignored.
pub fn read(document: &str) -> Result<Problem, ReadError> {
    read_dialect(document, &DIALECT)
}

/// Reads a problem whose tasks wait for the first writer of each file only: the graphs of the published runs, which lost
/// the edges from all other writers.
pub fn read_with_lost_edges(document: &str) -> Result<Problem, ReadError> {
    read_dialect(document, &Dialect { first_writers_only: true, ..DIALECT })
}

pub(super) fn read_dialect(document: &str, dialect: &Dialect) -> Result<Problem, ReadError> {
    check_length(document)?;
    let mut words = Words::new(document);
    let tasks = words.count("the number of tasks")?;
    let files = words.count("the number of files")?;
    let machines = words.count("the number of machines")?;
    if machines > MAX_MACHINES {
        return Err(words.error(format!("there are more than {MAX_MACHINES} machines")));
    }
    let mut builder = WorkflowBuilder::new();
    let uses = read_tasks(&mut words, tasks, dialect, &mut builder)?;
    let names = read_files(&mut words, files, machines, dialect, &mut builder)?;
    for FileUse { task, file, writes, line } in uses {
        let file = *names
            .get(file)
            .ok_or_else(|| ReadError::line(line, format!("there is no file {}", super::text::shorten(file))))?;
        if writes {
            builder.writes(task, file);
        } else {
            builder.reads(task, file);
        }
    }
    if dialect.first_writers_only {
        builder.edges_from_first_writers();
    } else {
        builder.edges_from_files();
    }
    let workflow = builder.build()?;
    let platform = read_platform(&mut words, machines, dialect)?;
    Ok(Problem::new(workflow, platform, dialect.model)?)
}

/// A task's use of a file that is defined later in the document.
struct FileUse<'a> {
    task: TaskId,
    file: &'a str,
    writes: bool,
    line: usize,
}

fn read_tasks<'a>(
    words: &mut Words<'a>,
    tasks: usize,
    dialect: &Dialect,
    builder: &mut WorkflowBuilder,
) -> Result<Vec<FileUse<'a>>, ReadError> {
    let mut uses = Vec::new();
    for _ in 0..tasks {
        let id = words.word("the id of a task")?;
        let cpu = words.number("the CPU seconds of a task")?;
        let gpu = if dialect.gpu { words.number("the GPU seconds of a task")? } else { 0.0 };
        let task = builder.task(id, Work { cpu: Some(cpu), gpu: (gpu > 0.0).then_some(gpu) });
        for writes in [false, true] {
            for _ in 0..words.count("the number of files of a task")? {
                let file = words.word("a file")?;
                uses.push(FileUse { task, file, writes, line: words.line() });
            }
        }
    }
    Ok(uses)
}

fn read_files<'a>(
    words: &mut Words<'a>,
    files: usize,
    machines: usize,
    dialect: &Dialect,
    builder: &mut WorkflowBuilder,
) -> Result<std::collections::HashMap<&'a str, FileId>, ReadError> {
    let mut names = std::collections::HashMap::new();
    for _ in 0..files {
        let name = words.word("a file")?;
        let file = builder.file(name, words.number("the size of a file")? * MEGABYTE);
        if names.insert(name, file).is_some() {
            return Err(words.error(format!("two files are called {name}")));
        }
        if words.count("whether a file is static (0 or 1)")? == 0 {
            continue;
        }
        builder.place_everywhere(file);
        for _ in 0..words.count("the number of copies")? {
            let machine = words.count("a machine")?;
            match machine.checked_sub(dialect.first_machine).filter(|machine| *machine < machines) {
                Some(machine) => builder.place(file, MachineId::new(machine)),
                None => return Err(words.error(format!("there is no machine {machine}"))),
            }
        }
    }
    Ok(names)
}

fn read_platform(words: &mut Words<'_>, count: usize, dialect: &Dialect) -> Result<Platform, ReadError> {
    let slowdowns = words.numbers(count, "a slowdown")?;
    let gpu_slowdowns = if dialect.gpu { words.numbers(count, "a GPU slowdown")? } else { vec![0.0; count] };
    let storage = words.numbers(count, "the storage of a machine")?;
    let prices = if dialect.gpu { words.numbers(count, "the price of a machine")? } else { vec![0.0; count] };
    let rates = words.numbers(count * count, "a bandwidth")?;
    let machine = |index: usize| {
        let gpu = gpu_slowdowns[index];
        Machine {
            gpus: u32::from(gpu > 0.0),
            gpu_slowdown: if gpu > 0.0 { gpu } else { 1.0 },
            storage: storage[index] * MEGABYTE,
            price: prices[index],
            ..Machine::with_slowdown(format!("m{index}"), slowdowns[index])
        }
    };
    let rates = rates.into_iter().map(|rate| rate * MEGABYTE).collect();
    Ok(Platform::new((0..count).map(machine).collect()).with_network(Network::matrix(count, rates)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = "2 3 2\nt0 60 23 1 0 1 1\nt1 10 0 1 1 1 2\n0 30 1 1 1\n1 50 0\n2 5 0\n0.2 0.05\n0.0 0.02\n\
        1000 900\n1 10\n0 15\n15 0\n";

    #[test]
    fn a_small_problem_is_read() {
        let problem = read(SMALL).unwrap();
        let workflow = problem.workflow();
        assert_eq!((workflow.task_count(), workflow.file_count(), workflow.edge_count()), (2, 3, 1));
        assert_eq!(problem.compute_seconds(TaskId(0), MachineId(0)), 12.0);
        assert_eq!(problem.compute_seconds(TaskId(0), MachineId(1)), 1.0);
        assert!(problem.uses_gpu(TaskId(0), MachineId(1)) && !problem.uses_gpu(TaskId(1), MachineId(1)));
        assert_eq!(problem.placed_access_seconds(FileId(0), MachineId(0)), 2.0);
        assert_eq!(problem.placed_access_seconds(FileId(0), MachineId(1)), 1.0);
    }

    #[test]
    fn lost_edges_are_those_from_all_writers_but_the_first() {
        let shared = "3 2 1\nt0 1 0 0 1 0\nt1 1 0 0 1 0\nt2 1 0 1 0 1 1\n0 5 0\n1 5 0\n1\n0\n1000\n1\n0\n";
        assert_eq!(read(shared).unwrap().workflow().edge_count(), 2);
        let lost = read_with_lost_edges(shared).unwrap();
        assert_eq!(lost.workflow().edge_count(), 1);
        assert_eq!(lost.workflow().parents(TaskId(2))[0].task, TaskId(0));
    }

    #[test]
    fn faults_have_a_line_and_a_reason() {
        let cases = [
            ("1 1 99999999", "line 1: there are more than 10000 machines"),
            ("1 0 1\nt0 1 0 1 7 0\n1 1 1 1 0", "line 2: there is no file 7"),
            ("0 1 1\n0 5 1 1 1\n", "line 2: there is no machine 1"),
            ("0 0 1\n0", "line 2: the document ends where a GPU slowdown should be"),
            ("0 0 1\n0 0 1 1 1", "slowdown of machine m0 is 0"),
        ];
        for (document, message) in cases {
            assert_eq!(read(document).unwrap_err().to_string(), message);
        }
    }
}

//! Real workflows: each one imports with the tasks, edges and files that its index says, in both forms, and the order of
//! its tasks stays as it was. The files are found through `XAVANTES_WORKFLOWS`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use xavantes_import::{ImportForm, Imported, Options, SourceFormat, StandIn, import};
use xavantes_model::definition::{DefinitionNodeId, FileName, Kind, ProcessType, Program};
use xavantes_model::diagnostic::Source;
use xavantes_model::load::load;

/// Comparing the order of all pairs takes time and memory that grow with the square of the tasks.
const MAX_COMPARED: usize = 2000;

struct Entry {
    path: PathBuf,
    format: SourceFormat,
    tasks: usize,
    files: usize,
    edges: usize,
    series_parallel: bool,
}

/// The workflows of the index that there is an importer for.
fn entries() -> Option<Vec<Entry>> {
    let Some(root) = std::env::var_os("XAVANTES_WORKFLOWS").map(PathBuf::from) else {
        eprintln!("SKIPPED: XAVANTES_WORKFLOWS does not say where the workflows are");
        return None;
    };
    let index = std::fs::read_to_string(root.join("INDEX.csv")).expect("the workflows have an index");
    let mut lines = index.lines();
    let header: Vec<&str> = lines.next().expect("the index has a header").split(',').collect();
    let column = |name: &str| header.iter().position(|column| *column == name).expect("the index has the column");
    let [file, fmt, tasks, files, edges, sp] =
        ["file", "fmt", "tasks", "files", "edges", "series_parallel"].map(column);
    let entries = lines.filter_map(|line| {
        let cells: Vec<&str> = line.split(',').collect();
        let format = match cells[fmt] {
            "dax" => SourceFormat::Dax,
            "wfformat" => SourceFormat::Wfformat,
            _ => return None,
        };
        let number = |column: usize| cells[column].parse().expect("it is a number");
        Some(Entry {
            path: root.join(cells[file]),
            format,
            tasks: number(tasks),
            files: number(files),
            edges: number(edges),
            series_parallel: cells[sp] == "True",
        })
    });
    Some(entries.collect())
}

fn program(imported: &Imported, what: &str) -> Program {
    load(&[Source::new(what, imported.xml.as_str())]).unwrap_or_else(|found| panic!("{what}: {:#?}", &found[..1]))
}

/// The activities of a process by their original names, with the order that the controllers give them.
struct Order<'p> {
    process: &'p ProcessType,
    /// For each pair of activities, by node: whether the first one ends before the second one starts.
    before: BTreeSet<(u32, u32)>,
}

impl Order<'_> {
    fn activities(&self, node: DefinitionNodeId) -> Vec<u32> {
        let range = node.0..self.process.nodes[node.index()].end.0;
        range.filter(|inner| self.process.nodes[*inner as usize].kind.is_activity()).collect()
    }

    fn precede(&mut self, earlier: DefinitionNodeId, later: DefinitionNodeId) {
        let later = self.activities(later);
        for one in self.activities(earlier) {
            self.before.extend(later.iter().map(|other| (one, *other)));
        }
    }

    fn read(&mut self) {
        for node in &self.process.nodes {
            let elements = &node.elements;
            match &node.kind {
                Kind::Sequence => {
                    for (place, later) in elements.iter().enumerate() {
                        elements[..place].iter().for_each(|earlier| self.precede(*earlier, *later));
                    }
                }
                Kind::Par { dependents, .. } => {
                    let mut reached: Vec<BTreeSet<usize>> = vec![BTreeSet::new(); elements.len()];
                    // Elements stand behind those that they wait for.
                    for place in (0..elements.len()).rev() {
                        for dependent in dependents[place].iter().map(|dependent| *dependent as usize) {
                            assert!(dependent > place);
                            let further: Vec<usize> = reached[dependent].iter().copied().collect();
                            reached[place].insert(dependent);
                            reached[place].extend(further);
                        }
                    }
                    for (place, later) in reached.iter().enumerate() {
                        later.iter().for_each(|later| self.precede(elements[place], elements[*later]));
                    }
                }
                _ => {}
            }
        }
    }
}

/// Pairs of names of tasks in order.
fn order(program: &Program, names: &[String]) -> BTreeSet<(u32, u32)> {
    let process = &program.processes[0];
    let mut order = Order { process, before: BTreeSet::new() };
    order.read();
    let position: BTreeMap<&str, u32> =
        names.iter().enumerate().map(|(place, name)| (name.as_str(), place as u32)).collect();
    let place = |node: u32| position[&*process.nodes[node as usize].name];
    order.before.iter().map(|(one, other)| (place(*one), place(*other))).collect()
}

fn activities(program: &Program) -> Vec<String> {
    let nodes = program.processes[0].nodes.iter().filter(|node| node.kind.is_activity());
    nodes.map(|node| node.name.to_string()).collect()
}

fn files(program: &Program) -> BTreeSet<&str> {
    let estimates = program.processes[0].nodes.iter().filter_map(|node| node.estimate.as_deref());
    let files = estimates.flat_map(|estimate| &estimate.files);
    files
        .map(|file| if let FileName::Plain(name) = &file.name { &**name } else { panic!("names are literal") })
        .collect()
}

fn edges(program: &Program) -> u32 {
    let pars = program.processes[0].nodes.iter().filter_map(|node| match &node.kind {
        Kind::Par { waits_for, .. } => Some(waits_for.iter().sum::<u32>()),
        _ => None,
    });
    pars.sum()
}

#[test]
fn every_workflow_of_the_index_imports_with_its_tasks_edges_and_files_in_both_forms() {
    let Some(entries) = entries() else { return };
    assert!(entries.len() >= 40, "the index has only {} workflows with an importer", entries.len());
    for entry in &entries {
        let what = entry.path.display().to_string();
        let text = std::fs::read_to_string(&entry.path).expect("the workflow can be read");
        let graph =
            import(entry.format, &text, "W", Options::default()).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!((graph.tasks, graph.edges, graph.files), (entry.tasks, entry.edges, entry.files), "{what}");
        assert_eq!(graph.form, ImportForm::Graph);
        let whole = program(&graph, &what);
        let names = activities(&whole);
        let used = files(&whole).len();
        assert_eq!((names.len(), edges(&whole) as usize), (entry.tasks, entry.edges), "{what}");
        assert!(used == entry.files, "{what}: {used} files of {}", entry.files);

        let options = Options { structured: true, ..Options::default() };
        let structured = import(entry.format, &text, "W", options).unwrap_or_else(|error| panic!("{what}: {error}"));
        let nested = program(&structured, &what);
        assert_eq!(structured.form, ImportForm::Structured, "{what}");
        assert_eq!(structured.linked == 0, entry.series_parallel, "{what}");
        assert_eq!(files(&nested), files(&whole), "{what}");
        let sorted = |program: &Program| activities(program).into_iter().collect::<BTreeSet<_>>();
        assert_eq!(sorted(&nested), sorted(&whole), "{what}");
        if entry.tasks <= MAX_COMPARED {
            assert!(order(&nested, &names) == order(&whole, &names), "{what}: the order of tasks changed");
        }
    }
}

#[test]
fn every_workflow_of_the_index_is_valid_with_stand_ins_that_make_files() {
    let Some(entries) = entries() else { return };
    for entry in entries.iter().filter(|entry| entry.tasks <= MAX_COMPARED) {
        let what = entry.path.display().to_string();
        let text = std::fs::read_to_string(&entry.path).expect("the workflow can be read");
        for structured in [false, true] {
            let options = Options { structured, stand_in: StandIn::Sleep, scale: 0.001, files: true };
            let imported = import(entry.format, &text, "W", options).unwrap_or_else(|error| panic!("{what}: {error}"));
            assert_eq!(activities(&program(&imported, &what)).len(), entry.tasks, "{what}");
        }
    }
}

#[test]
fn the_workflows_of_sweeper_have_their_tasks_and_edges() {
    let Some(root) = std::env::var_os("XAVANTES_WORKFLOWS").map(PathBuf::from) else {
        eprintln!("SKIPPED: XAVANTES_WORKFLOWS does not say where the workflows are");
        return;
    };
    let mut found = BTreeSet::new();
    for file in std::fs::read_dir(root.join("sweeper"))
        .expect("there is a folder")
        .map(|file| file.expect("it can be listed").path())
    {
        if file.extension().is_none_or(|extension| extension != "yaml") {
            continue;
        }
        let text = std::fs::read_to_string(&file).expect("the workflow can be read");
        for structured in [false, true] {
            let options = Options { structured, ..Options::default() };
            let imported = import(SourceFormat::Sweeper, &text, "W", options).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(activities(&program(&imported, "sweeper")).len(), imported.tasks);
            found.insert((imported.tasks, imported.edges));
        }
    }
    assert_eq!(found, BTreeSet::from([(4, 4), (10, 13)]));
}

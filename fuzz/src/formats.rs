//! Files of strangers that the planners read: workflows, platforms and histories. What a reader accepts is consistent and
//! within the limits; what it refuses gets a short reason with a place.

use xavantes_scheduling::formats::{ReadError, TextPlace, dax, gpu, teylo, vcl, wds, wfformat};
use xavantes_scheduling::predictor::arff;
use xavantes_scheduling::predictor::run_history::{ObservedValue, RunHistory};
use xavantes_scheduling::problem::{CostModel, MAX_MACHINES, Machine, Platform, Problem, Workflow};

/// Runs that a history keeps: few, so that inputs reach the limit.
const CAPACITY: usize = 8;
/// A message about a document is at most this long, whatever the document contains.
const MAX_REASON_BYTES: usize = 1024;

/// The first byte chooses the reader; the document follows.
pub fn check(bytes: &[u8]) {
    let Some((kind, text)) = bytes.split_first() else { return };
    let Ok(text) = str::from_utf8(text) else { return };
    let refused = match kind % 7 {
        0 => dax::read(text).map(on_workflow).err(),
        1 => wfformat::read(text).map(on_workflow).err(),
        2 => teylo::read(text).map(on_workflow).err(),
        3 => vcl::read(text).map(on_platform).err(),
        4 => gpu::read(text).map(|problem| on_problem(&problem)).err(),
        5 => wds::read(text).map(|problem| on_problem(&problem)).err(),
        _ => arff::read(text, CAPACITY).map(|history| on_history(&history)).err(),
    };
    refused.iter().for_each(|error| on_refused(text, error));
}

fn on_refused(text: &str, error: &ReadError) {
    let message = error.to_string();
    assert!(message.len() <= MAX_REASON_BYTES, "a message of {} bytes", message.len());
    if let ReadError::Syntax { place: TextPlace::Line(line), .. } = error {
        assert!((1..=text.split('\n').count()).contains(line), "{message}: there is no such line");
    }
}

/// Every task is behind its parents, and both ends know an edge.
fn on_workflow(workflow: Workflow) {
    let mut places = vec![usize::MAX; workflow.task_count()];
    for (place, task) in workflow.order().iter().enumerate() {
        assert_eq!(std::mem::replace(&mut places[task.index()], place), usize::MAX, "a task is twice in the order");
    }
    let mut edges = 0;
    for task in workflow.tasks() {
        assert!(workflow.cpu_seconds(task) >= 0.0 && workflow.gpu_seconds(task) >= 0.0, "the work is negative");
        assert!(workflow.cores(task) > 0, "a task without cores");
        for edge in workflow.children(task) {
            assert!(edge.bytes >= 0.0 && places[task.index()] < places[edge.task.index()], "an edge leads back");
            let back = workflow.parents(edge.task).iter().filter(|parent| parent.task == task);
            assert_eq!(back.count(), 1, "a child does not know its parent");
            edges += 1;
        }
        for file in workflow.inputs(task) {
            assert!(workflow.readers(*file).contains(&task), "a file does not know its reader");
        }
        for file in workflow.outputs(task) {
            assert!(workflow.writers(*file).contains(&task), "a file does not know its writer");
        }
    }
    assert_eq!(edges, workflow.edge_count());
    assert!(workflow.files().all(|file| workflow.file_bytes(file) >= 0.0), "the size of a file is negative");
    let platform = Platform::new(vec![Machine::with_speed("m", 1.0)]);
    if let Ok(problem) = Problem::new(workflow, platform, CostModel::overlapped()) {
        on_problem(&problem);
    }
}

fn on_platform(platform: Platform) {
    assert!(platform.machines.len() <= MAX_MACHINES);
}

/// Times are numbers; they may be infinite.
fn on_problem(problem: &Problem) {
    assert!((1..=MAX_MACHINES).contains(&problem.machine_count()));
    for task in problem.tasks().take(20) {
        for machine in problem.machines().take(20) {
            let seconds = problem.compute_seconds(task, machine);
            assert!(seconds >= 0.0, "a task takes {seconds} s");
        }
    }
}

/// What is written is read again, and predictions are numbers.
fn on_history(history: &RunHistory) {
    assert!(history.runs().len() <= CAPACITY);
    let runs = |history: &RunHistory| history.runs().map(<[ObservedValue]>::to_vec).collect::<Vec<_>>();
    let again = arff::read(&arff::write(history, "again"), CAPACITY).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((again.attributes(), runs(&again)), (history.attributes(), runs(history)));
    for run in history.runs() {
        if let Some(predicted) = history.predict_time(run) {
            assert!(predicted.neighbours > 0 && !predicted.mean.is_nan(), "{predicted:?}");
            assert!(predicted.distance >= 0.0, "{predicted:?}");
        }
    }
}

/// A document of every format.
pub fn samples() -> Vec<Vec<u8>> {
    let dax = r#"<adag><job id="A" runtime="10.5"><uses file="x" link="input" size="100"/>
<uses file="y" link="output" size="50"/></job><job id="B" runtime="2"><uses name="y" link="input" size="60"/></job>
<child ref="B"><parent ref="A"/></child></adag>"#;
    let wfformat = r#"{"schemaVersion": "1.5", "workflow": {"specification": {"tasks": [
{"name": "a", "id": "a", "parents": [], "children": ["b"], "inputFiles": ["x"], "outputFiles": ["y"]},
{"name": "b", "id": "b", "parents": ["a"], "children": [], "inputFiles": ["y"], "outputFiles": []}],
"files": [{"id": "x", "sizeInBytes": 10}, {"id": "y", "sizeInBytes": 20}]},
"execution": {"tasks": [{"id": "a", "runtimeInSeconds": 3.5, "coreCount": 2}]}}}"#;
    let old_wfformat = r#"{"workflow": {"tasks": [{"name": "a", "parents": [], "runtimeInSeconds": 3, "cores": 2,
"files": [{"link": "input", "name": "x", "sizeInBytes": 10}, {"link": "output", "name": "y", "size": 20}]},
{"name": "b", "parents": ["a"], "runtime": 4, "files": [{"link": "input", "name": "y", "size": 20}]}]}}"#;
    let teylo = "1 2 2\nin 4 2 0 1\nmid 2\nout 1\na first 10 1 1\nin\nmid\nb second 20.5 1 1\nmid\nout\na 1\nb\nb 0\n";
    let vcl = "1\n55 Cloud 1 30 2\n0 small 1.53 80 4.0 0.1\n1 large 0.77 120 9.0 0.2\n";
    let gpu = "2 3 2\nt0 60 23 1 0 1 1\nt1 10 0 1 1 1 2\n0 30 1 1 1\n1 50 0\n2 5 0\n0.2 0.05\n0.0 0.02\n1000 900\n1 10\n0 15\n15 0";
    let wds = "1 2 2\nt0 60 1 d0 1 d1\nd0 30 1 1 1\nd1 50 0\n0.2 0.05\n1000 1000\n0 15\n15 0";
    let arff = "% runs\n@relation r\n@attribute in-bytes numeric\n@attribute 'arg-mode' {slow, fast}\n@attribute time real\n\
        @data\n10, slow, 1.5\n20,'it\\'s',?\n30,fast,2\n";
    let all = [(0, dax), (1, wfformat), (1, old_wfformat), (2, teylo), (3, vcl), (4, gpu), (5, wds), (6, arff)];
    all.iter().map(|(kind, text)| [&[*kind], text.as_bytes()].concat()).collect()
}

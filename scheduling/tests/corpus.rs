//! All stored workflows are read with the tasks, files and edges of the index beside them. The corpus is no part of the
//! project: `XAVANTES_WORKFLOWS` names its folder.

mod common;

use xavantes_scheduling::Workflow;
use xavantes_scheduling::formats::{ReadError, dax, gpu, teylo, vcl, wds, wfformat};

fn read(format: &str, text: &str) -> Option<Result<Workflow, ReadError>> {
    Some(match format {
        "dax" => dax::read(text),
        "wfformat" => wfformat::read(text),
        "teylo" => teylo::read(text),
        "gpu" => gpu::read(text).map(|problem| problem.workflow().clone()),
        "wds" => wds::read(text).map(|problem| problem.workflow().clone()),
        _ => return None,
    })
}

#[test]
fn every_indexed_file_has_the_tasks_files_and_edges_of_the_index() {
    let Some(corpus) = common::corpus("the readers of formats") else {
        return;
    };
    let index = std::fs::read_to_string(corpus.join("INDEX.csv")).unwrap();
    let mut count = 0;
    for line in index.lines().skip(1) {
        let fields: Vec<_> = line.split(',').collect();
        let text = std::fs::read_to_string(corpus.join(fields[0])).unwrap();
        let Some(workflow) = read(fields[1], &text) else {
            continue;
        };
        let workflow = workflow.unwrap_or_else(|error| panic!("{}: {error}", fields[0]));
        let found =
            [workflow.task_count(), workflow.file_count(), workflow.edge_count()].map(|count| count.to_string());
        assert_eq!(found, [fields[2], fields[3], fields[4]], "{}: tasks, files, edges", fields[0]);
        let path = workflow.critical_path(|task| workflow.cpu_seconds(task));
        let expected: f64 = fields[13].parse().unwrap();
        assert!((path - expected).abs() <= 0.006 + expected * 1e-6, "{}: critical path {path}, {expected}", fields[0]);
        count += 1;
    }
    assert!(count >= 115, "{count} files");
}

#[test]
fn every_stored_cluster_is_read() {
    let Some(corpus) = common::corpus("the reader of clusters") else {
        return;
    };
    for entry in std::fs::read_dir(corpus.join("teylo/clusters")).unwrap() {
        let path = entry.unwrap().path();
        let platform = vcl::read(&std::fs::read_to_string(&path).unwrap());
        assert!(!platform.unwrap().machines.is_empty(), "{}", path.display());
    }
}

#[test]
fn damaged_documents_yield_errors_and_no_panics() {
    let Some(corpus) = common::corpus("damaged documents") else {
        return;
    };
    let samples = [
        ("dax", "dax/Montage_25.xml"),
        ("wfformat", "wfformat/helloworld-forkjoin-10-chameleon.json"),
        ("teylo", "teylo/cpu/Montage_25.xml.dag"),
        ("gpu", "teylo/gpu/3_toy_10_A.dag"),
        ("wds", "teylo/toy-wds/m3/toy_10_A.wds"),
    ];
    let mut random = xavantes_scheduling::SeededRandom::new(1);
    for (format, file) in samples {
        let text = std::fs::read_to_string(corpus.join(file)).unwrap();
        for _ in 0..200 {
            let mut bytes = text.clone().into_bytes();
            match random.below(3) {
                0 => bytes.truncate(random.below(bytes.len())),
                1 => {
                    let place = random.below(bytes.len());
                    bytes[place] = b' ' + random.below(95) as u8;
                }
                _ => {
                    let (from, to) = (random.below(bytes.len()), random.below(bytes.len()));
                    bytes.drain(from.min(to)..from.max(to));
                }
            }
            // Either is right; a panic is not.
            let _ = read(format, &String::from_utf8_lossy(&bytes));
        }
    }
}

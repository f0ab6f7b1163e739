//! HEFT, CPOP and Min-Min of the Python package `anrg-saga` on the same graphs: makespans, and how many times faster.

use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::Instant;

use serde_json::{Value as Json, json};
use xavantes_scheduling::catalogue::{Effort, find};
use xavantes_scheduling::planner::plan;
use xavantes_scheduling::problem::{CostModel, Network, Work, WorkflowBuilder};
use xavantes_scheduling::{Machine, Objective, Platform, Problem, SeededRandom};

use crate::Scale;
use crate::page::Page;

const SCRIPT: &str = include_str!("peer.py");

/// A layered graph on machines of different speed with equal links, for both sides.
fn graph(tasks: usize, data: bool, seed: u64) -> (Problem, Json) {
    let mut random = SeededRandom::new(seed);
    let mut builder = WorkflowBuilder::new();
    let (mut costs, mut edges) = (Vec::new(), Vec::new());
    for task in 0..tasks {
        let cost = random.between(10.0, 100.0);
        let id = builder.task(format!("t{task:05}"), Work::cpu(cost));
        costs.push(cost);
        for _ in 0..(1 + random.below(3)).min(task) {
            let parent = task - 1 - random.below(task.min(12));
            if edges.iter().any(|(from, to, _): &(usize, usize, f64)| (*from, *to) == (parent, task)) {
                continue;
            }
            let size = if data { random.between(1.0, 60.0) } else { 0.0 };
            let file = builder.file(format!("f{parent}-{task}"), size);
            builder.writes(xavantes_scheduling::TaskId::new(parent), file);
            builder.reads(id, file);
            edges.push((parent, task, size));
        }
    }
    builder.edges_from_files();
    let speeds: Vec<_> = (0..8).map(|_| random.between(0.5, 3.0)).collect();
    let machines = speeds.iter().enumerate().map(|(index, speed)| Machine::with_speed(format!("m{index}"), *speed));
    let platform = Platform::new(machines.collect()).with_network(Network::uniform(1.0));
    let workflow = builder.build().expect("edges go forward");
    let problem = Problem::new(workflow, platform, CostModel::overlapped()).expect("the platform is sound");
    (problem, json!({ "costs": costs, "edges": edges, "speeds": speeds }))
}

pub fn saga(page: &Page, _: Scale) {
    let Some(python) = std::env::var_os("XAVANTES_PEER_PYTHON") else {
        eprintln!("SKIPPED: XAVANTES_PEER_PYTHON is not set, so peers are not measured");
        return;
    };
    let mut table = String::from(
        "| tasks | edges carry | planner | makespan here | there | seconds here | there | times faster |\n\
         |---:|---|---|---:|---:|---:|---:|---:|\n",
    );
    for (tasks, data) in [(50, false), (200, false), (500, false), (50, true), (200, true), (500, true)] {
        let (problem, document) = graph(tasks, data, tasks as u64);
        let theirs = answer(&python, &document);
        for name in ["heft", "cpop", "min-min"] {
            let planner = (find(name).expect("the catalogue has it").build)(Effort::default());
            // The least of many runs is the one that other work disturbed least.
            let (mut makespan, mut own) = (0.0, f64::INFINITY);
            for _ in 0..100 {
                let begin = Instant::now();
                makespan = plan(planner.as_ref(), &problem, Objective::Makespan).expect("machines are able").makespan();
                own = own.min(begin.elapsed().as_secs_f64());
            }
            let number = |key: &str| theirs[name][key].as_f64().unwrap_or(f64::NAN);
            let (other, seconds) = (number("makespan"), number("seconds"));
            let carry = if data { "data" } else { "nothing" };
            table += &format!(
                "| {tasks} | {carry} | `{name}` | {makespan:.3} | {other:.3} | {own:.6} | {seconds:.3} | {:.0} |\n",
                seconds / own
            );
        }
    }
    page.replace("peers", &table);
}

fn answer(python: &std::ffi::OsStr, document: &Json) -> Json {
    let mut child = Command::new(python)
        .args(["-c", SCRIPT])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("XAVANTES_PEER_PYTHON is a Python");
    let mut input = child.stdin.take().expect("its input is a pipe");
    input.write_all(document.to_string().as_bytes()).expect("the script reads its input");
    drop(input);
    let output = child.wait_with_output().expect("the script ends");
    assert!(output.status.success(), "the package anrg-saga must be installed");
    serde_json::from_slice(&output.stdout).expect("the script writes JSON")
}

//! `plan` and `simulate` with the real program: plans, comparisons, charts, repeated runs, and every mistake.

mod common;

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use common::schema::Schema;
use common::{Ended, Folder, command, xavantes};
use serde_json::{Value as Json, json};

const SCHEMA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/output.schema.json");

const MACHINES: &str = r#"
[network]
bandwidth = "10 MB/s"

[[machine]]
name = "small"
count = 2
price = "0.36/h"

[[machine]]
name = "large"
speed = 4
cores = 2
price = "3.6/h"
billing = "started-hour"
start-up = "5 s"
"#;

/// A split, four parts in parallel, and a join.
const DAX: &str = r#"<adag>
<job id="split_1" runtime="20"><uses file="in" link="input" size="50000000"/><uses file="x" link="output" size="10000000"/></job>
<job id="part_1" runtime="100"><uses file="x" link="input" size="10000000"/></job>
<job id="part_2" runtime="90"><uses file="x" link="input" size="10000000"/></job>
<job id="part_3" runtime="80"><uses file="x" link="input" size="10000000"/></job>
<job id="part_4" runtime="70"><uses file="x" link="input" size="10000000"/></job>
<job id="join_1" runtime="30"/>
<child ref="part_1"><parent ref="split_1"/></child><child ref="part_2"><parent ref="split_1"/></child>
<child ref="part_3"><parent ref="split_1"/></child><child ref="part_4"><parent ref="split_1"/></child>
<child ref="join_1"><parent ref="part_1"/><parent ref="part_2"/><parent ref="part_3"/><parent ref="part_4"/></child>
</adag>"#;

const PROCESS: &str = r#"<XAVANTES VERSION="1"><PROCESS_TYPE NAME="Sweep"><IN_PARAMETER TYPE="int" NAME="count" DEFAULT="6"/>
<BODY><ACTIVITY NAME="first" TYPE="Known"/>
<PARFOR NAME="all" TO="${count}"><ITERATE><ACTIVITY NAME="fly" TYPE="Known"/></ITERATE></PARFOR>
<WHILE NAME="refine" CONDITION="first.n &gt; 0"><ITERATE><ACTIVITY NAME="step" TYPE="Unknown"/></ITERATE></WHILE>
</BODY></PROCESS_TYPE>
<ACTIVITY_TYPE NAME="Known"><OUT_PARAMETER TYPE="int" NAME="n"/><ESTIMATE SECONDS="10"/><CODE LANGUAGE="lua">n = 1</CODE></ACTIVITY_TYPE>
<ACTIVITY_TYPE NAME="Unknown"><CODE LANGUAGE="lua">local x = 1</CODE></ACTIVITY_TYPE></XAVANTES>"#;

struct Bench {
    folder: Folder,
    schema: Schema,
    machines: String,
    dax: String,
    process: String,
}

impl Bench {
    fn new() -> Self {
        let folder = Folder::new();
        let schema = std::fs::read_to_string(SCHEMA).expect("the schema is there");
        let [machines, dax, process] = [("m.toml", MACHINES), ("w.dax", DAX), ("p.xml", PROCESS)]
            .map(|(name, content)| folder.write(name, content));
        Self { schema: Schema(serde_json::from_str(&schema).expect("it is JSON")), folder, machines, dax, process }
    }

    /// The one document that a command prints, checked by the schema.
    #[track_caller]
    fn json(&self, name: &str, arguments: &[&str]) -> Json {
        let ended = xavantes(&[arguments, &["--output", "json", "--threads", "2"]].concat(), "");
        assert_eq!((ended.code, ended.stdout.lines().count()), (0, 1), "{ended:?}");
        let document = serde_json::from_str(&ended.stdout).expect("it is JSON");
        assert_eq!(self.schema.problem(name, &document), None, "{document:#}");
        document
    }

    #[track_caller]
    fn plan(&self, arguments: &[&str]) -> Json {
        self.json("Plan", &[&["plan", &self.dax, "--machines", &self.machines], arguments].concat())
    }

    /// Plans, and expects this message and the exit code 2.
    #[track_caller]
    fn refused(&self, arguments: &[&str], message: &str) -> Ended {
        let ended = xavantes(&[&["plan"], arguments].concat(), "");
        assert_eq!(ended.code, 2, "{ended:?}");
        assert!(ended.stderr.contains(message), "{message:?} is not in {}", ended.stderr);
        ended
    }
}

fn number(document: &Json, member: &str) -> f64 {
    document[member].as_f64().unwrap_or_else(|| panic!("{member}: {document:#}"))
}

#[test]
fn a_plan_says_where_and_when_each_task_runs() {
    let bench = Bench::new();
    let plan = bench.plan(&[]);
    assert_eq!((&plan["algorithm"], &plan["objective"]["kind"]), (&json!("auto"), &json!("makespan")));
    let tasks = plan["tasks"].as_array().expect("there are tasks");
    assert_eq!(tasks.len(), 6);
    assert_eq!((&tasks[0]["task"], &tasks[5]["task"]), (&json!("split_1"), &json!("join_1")));
    let last = tasks.iter().map(|task| number(task, "finish_seconds")).fold(0.0, f64::max);
    assert_eq!(last, number(&plan, "makespan_seconds"));
    assert!(last >= number(&plan["lower_bounds"], "makespan_seconds"));
    assert!(number(&plan, "gap") >= 0.0);
    let money: f64 = plan["machines"].as_array().unwrap().iter().map(|machine| number(machine, "money")).sum();
    assert!((money - number(&plan, "money")).abs() < 1e-9);
    let text = xavantes(&["plan", &bench.dax, "--machines", &bench.machines], "");
    assert_eq!(text.code, 0, "{text:?}");
    for part in ["algorithm    auto", "objective    makespan", "lower bound", "MACHINE", "large", "START", "split_1"] {
        assert!(text.stdout.contains(part), "{part}: {}", text.stdout);
    }
    assert_eq!(text.stderr, "");
}

#[test]
fn objectives_deadlines_and_budgets_change_the_plan() {
    let bench = Bench::new();
    let (fast, cheap) = (bench.plan(&[]), bench.plan(&["--objective", "money"]));
    assert!(number(&cheap, "money") < number(&fast, "money"), "{cheap:#}");
    assert!(number(&cheap, "makespan_seconds") > number(&fast, "makespan_seconds"));
    let deadline = bench.plan(&["--deadline", "4 min"]);
    assert_eq!(
        (&deadline["objective"]["kind"], &deadline["objective"]["deadline_seconds"]),
        (&json!("money"), &json!(240.0))
    );
    assert!(number(&deadline, "makespan_seconds") <= 240.0);
    let budget = bench.plan(&["--budget", "0.05"]);
    assert_eq!(budget["objective"]["kind"], "makespan");
    assert!(number(&budget, "money") <= 0.05);
    let weighted = bench.plan(&["--objective", "weighted=0.5,100,2"]);
    let value = 0.5 * number(&weighted, "makespan_seconds") / 100.0 + 0.5 * number(&weighted, "money") / 2.0;
    assert!((number(&weighted["objective"], "value") - value).abs() < 1e-9);
}

#[test]
fn every_planner_can_be_chosen_and_compared() {
    let bench = Bench::new();
    let comparison = bench
        .json("Comparison", &["plan", &bench.dax, "--machines", &bench.machines, "--compare", "all", "--seed", "7"]);
    let planners = comparison["planners"].as_array().expect("there are planners");
    assert!(planners.len() > 20, "{}", planners.len());
    let values: Vec<f64> = planners.iter().filter_map(|planner| planner["objective"].as_f64()).collect();
    assert!(values.is_sorted(), "{values:?}");
    let auto = planners.iter().find(|planner| planner["algorithm"] == "auto").expect("auto is there");
    assert!(number(auto, "objective") <= values[0] * (1.0 + 1e-9), "{auto} {values:?}");
    for planner in planners.iter().filter(|planner| planner["problem"].is_null()) {
        let name = planner["algorithm"].as_str().unwrap();
        let plan = bench.plan(&["--algorithm", name, "--seed", "7"]);
        assert_eq!(number(&plan, "makespan_seconds"), number(planner, "makespan_seconds"), "{name}");
    }
    let two = xavantes(&["plan", &bench.dax, "--machines", &bench.machines, "--compare", "heft,min-min"], "");
    assert_eq!(two.stdout.lines().filter(|line| line.contains(" list ") || line.contains("just in time")).count(), 2);
    bench.refused(&[&bench.dax, "--machines", &bench.machines, "--algorithm", "hefft"], "did you mean \"heft\"?");
    bench.refused(
        &[&bench.dax, "--machines", &bench.machines, "--compare", "heft,nobody"],
        "there is no planner \"nobody\"",
    );
}

#[test]
fn seeded_runs_repeat_exactly() {
    let bench = Bench::new();
    let same = |arguments: &[&str]| {
        let run = || {
            let mut plan = bench.plan(arguments);
            plan["elapsed_seconds"] = json!(0);
            plan
        };
        let (one, other) = (run(), run());
        assert_eq!(one, other);
        one
    };
    for name in ["auto", "grasp-ils", "genetic", "annealing"] {
        same(&["--algorithm", name, "--seed", "5"]);
    }
    let simulate = |seed: &str| {
        let disturbances = ["--noise", "0.3", "--failures", "2/h", "--runs", "20", "--seed", seed];
        let arguments =
            [&["simulate", &bench.dax, "--machines", &bench.machines, "--algorithm", "heft"], &disturbances[..]];
        bench.json("Simulation", &arguments.concat())
    };
    assert_eq!(simulate("1"), simulate("1"));
    assert_ne!(simulate("1")["makespan_seconds"], simulate("2")["makespan_seconds"]);
}

#[test]
fn a_process_is_planned_with_what_its_definition_tells_and_assumptions_for_the_rest() {
    let bench = Bench::new();
    let plan = |arguments: &[&str]| {
        bench.json("Plan", &[&["plan", &bench.process, "--machines", &bench.machines], arguments].concat())
    };
    let default = plan(&[]);
    assert_eq!(default["tasks"].as_array().map(Vec::len), Some(1 + 6 + 10));
    let kinds: Vec<_> = default["assumptions"].as_array().unwrap().iter().map(|it| it["kind"].clone()).collect();
    assert_eq!(kinds, ["iterations", "seconds"]);
    let expected = plan(&["-p", "count=2", "--expect", "refine=3"]);
    assert_eq!(expected["tasks"].as_array().map(Vec::len), Some(1 + 2 + 3));
    let fly =
        expected["tasks"].as_array().unwrap().iter().find(|task| task["task"] == "all/[2]/fly").expect("it is there");
    assert_eq!((&fly["type"], &fly["basis"]), (&json!("Known"), &json!("estimate")));
    let chunks = plan(&["-p", "count=5000", "--unroll", "10", "--expect", "refine=0"]);
    assert_eq!(chunks["tasks"].as_array().map(Vec::len), Some(11));
    let text = xavantes(&["plan", &bench.process, "--machines", &bench.machines], "");
    assert!(text.stderr.contains("warning: activities of the type Unknown take 60 s"), "{text:?}");
    assert!(text.stdout.contains("Plan again when this is known."), "{text:?}");
    bench.refused(
        &[&bench.process, "--machines", &bench.machines, "--expect", "all=3"],
        "nothing is to be expected by \"all=3\"",
    );
    bench.refused(
        &[&bench.process, "--machines", &bench.machines, "--expect", "all"],
        "expected PATH=COUNT or PATH=CASE",
    );
    bench.refused(&[&bench.process, "--machines", &bench.machines, "-p", "cuont=3"], "did you mean \"count\"?");
    let broken = bench.folder.write("broken.xml", PROCESS.replace("TYPE=\"Unknown\"", "TYPE=\"Unknwon\""));
    bench.refused(&[&broken, "--machines", &bench.machines], "did you mean \"Unknown\"?");
}

#[test]
fn history_replaces_defaults() {
    let bench = Bench::new();
    let runs = "@relation Unknown\n@attribute mach-speed numeric\n@attribute time numeric\n@data\n1,7\n1,7\n";
    let history = bench.folder.write("Unknown.arff", runs);
    let plan = bench.json(
        "Plan",
        &["plan", &bench.process, "--machines", &bench.machines, "--history", &history, "--expect", "refine=1"],
    );
    let step = plan["tasks"].as_array().unwrap().iter().find(|task| task["type"] == "Unknown").expect("it is there");
    assert_eq!(step["basis"], "history");
    assert!(plan["assumptions"].as_array().unwrap().iter().all(|it| it["kind"] != "seconds"), "{plan:#}");
    let nowhere = bench.folder.path("nowhere");
    bench.refused(&[&bench.process, "--machines", &bench.machines, "--history", &nowhere], "cannot read");
}

#[test]
fn several_workflows_are_planned_together() {
    let bench = Bench::new();
    let other = bench.folder.write("other.dax", DAX);
    let plan = bench.json("Plan", &["plan", &bench.dax, &other, &bench.process, "--machines", &bench.machines]);
    let tasks = plan["tasks"].as_array().unwrap();
    assert_eq!(tasks.len(), 6 + 6 + 17);
    for name in ["w/split_1", "other/split_1", "Sweep/first"] {
        assert!(tasks.iter().any(|task| task["task"] == name), "{name}");
    }
}

#[test]
fn inputs_lie_where_the_machine_file_says() {
    let bench = Bench::new();
    let far = format!("{MACHINES}\n[[file]]\nname = \"in\"\nsize = \"1 GB\"\nmachines = [\"small-2\"]\n");
    let far = bench.folder.write("far.toml", far);
    let plan = bench.json("Plan", &["plan", &bench.dax, "--machines", &far, "--algorithm", "heft"]);
    // A gigabyte needs 100 s to any other machine, so the first task runs beside its input.
    assert_eq!(plan["tasks"][0]["machine"], "small-2", "{plan:#}");
    assert_eq!(number(&plan["tasks"][0], "start_seconds"), 0.0);
}

#[test]
fn machine_files_are_checked_with_line_and_advice() {
    let bench = Bench::new();
    let file = bench.folder.write("bad.toml", "[[machine]]\nname = \"a\"\nmemory = \"8 XB\"\nspede = 2\n");
    let ended = bench.refused(&[&bench.dax, "--machines", &file], "bad.toml:3:10");
    for part in ["a size is a number with one of B, kB, MB, GB", "did you mean \"speed\"?", "2 problems"] {
        assert!(ended.stderr.contains(part), "{part}: {}", ended.stderr);
    }
    let ended = xavantes(&["plan", &bench.dax, "--machines", &file, "--output", "json"], "");
    let document: Json = serde_json::from_str(&ended.stdout).expect("it is JSON");
    assert_eq!((ended.code, bench.schema.problem("Validation", &document)), (2, None));
    assert_eq!(document["problems"][0]["start"], json!({"line": 3, "column": 10}));
    bench.refused(&[&bench.dax, "--machines", &bench.folder.path("none.toml")], "cannot read");
    bench.refused(&[&bench.dax], "which machines are there? Say --machines");
}

#[test]
fn what_cannot_be_planned_is_said_with_the_exit_code_2() {
    let bench = Bench::new();
    let machines = ["--machines", &bench.machines];
    let refused = |arguments: &[&str], message: &str| bench.refused(&[arguments, &machines].concat(), message);
    let cycle = DAX.replace(
        "<child ref=\"part_1\"><parent ref=\"split_1\"/></child>",
        "<child ref=\"split_1\"><parent ref=\"join_1\"/></child>",
    );
    refused(&[&bench.folder.write("cycle.dax", cycle)], "waits for itself, through 3 tasks");
    let wide = DAX.replace("id=\"part_1\"", "cores=\"64\" id=\"part_1\"");
    refused(&[&bench.folder.write("wide.dax", wide)], "no machine can run part_1: it needs 64 cores");
    let picky = PROCESS.replace(
        "<ACTIVITY_TYPE NAME=\"Known\">",
        "<ACTIVITY_TYPE NAME=\"Known\"><REQUIRES GPUS=\"1\" MEMORY=\"8GiB\"/>",
    );
    refused(&[&bench.folder.write("picky.xml", picky)], "it needs 8.0 GiB of memory, 1 GPU");
    refused(&[&bench.dax, "--deadline", "1 s"], "no schedule can end within 1.00 s: the least possible is");
    refused(&[&bench.dax, "--budget", "0.0001"], "no schedule can cost 0.0001 or less: the least possible is");
    refused(
        &[&bench.dax, "--deadline", "55 s"],
        "no schedule was found that ends within 55.00 s; the shortest schedule found takes",
    );
    refused(&[&bench.dax, "--deadline", "soon"], "a time is a number with one of ms, s, min, h, d");
    refused(&[&bench.dax, "--budget", "-1"], "an amount of money is a number from 0");
    refused(&[&bench.dax, "--objective", "speed"], "an objective is makespan, money, or weighted=");
    refused(&[&bench.dax, "--chart", "plan.png"], "the name of a chart ends with .svg or .html");
    refused(&[&bench.folder.write("what.txt", "hello")], "cannot tell the format of");
    refused(
        &[&bench.folder.write("bad.dax", DAX.replace("\"20\"", "\"long\""))],
        "bad.dax: line 2: the attribute runtime must be a number",
    );
    refused(&[&bench.folder.path("nothing.dax")], "cannot read");
    let toy =
        bench.folder.write("toy.wds", "1 2 2\nt0 60 1 d0 1 d1\nd0 30 1 1 1\nd1 50 0\n0.2 0.05\n1000 1000\n0 15\n15 0");
    refused(&[&toy], "has machines of its own: leave --machines");
    bench.refused(&[&toy, &bench.dax], "a gpu or wds file has machines of its own, so it is planned alone");
}

#[test]
fn instances_with_machines_of_their_own_are_planned_in_their_own_model() {
    let bench = Bench::new();
    let toy = "1 2 2\nt0 60 1 d0 1 d1\nd0 30 1 1 1\nd1 50 0\n0.2 0.05\n1000 1000\n0 15\n15 0";
    let toy = bench.folder.write("toy.wds", toy);
    let plan = bench.json("Plan", &["plan", &toy]);
    // On the fast machine: two seconds for 30 MB at 15 MB/s, three to compute, one to write.
    assert_eq!(number(&plan, "makespan_seconds"), 6.0, "{plan:#}");
    assert_eq!(plan["files"].as_array().map(Vec::len), Some(1));
    let dag = bench.folder.write("small.dag", "0 1 2\nm 10\na first 10 0 1\nm\nb second 20 1 0\nm\na 1\nb\nb 0\n");
    let cluster = bench.folder.write("two.vcl", "1\n55 Cloud 1 30 2\n0 small 1 80 4.0 0.1\n1 large 0.5 120 9.0 0.2\n");
    let plan = bench.json("Plan", &["plan", &dag, "--cluster", &cluster]);
    assert_eq!(number(&plan, "makespan_seconds"), 15.0);
}

#[test]
fn charts_are_well_formed_and_need_nothing_else() {
    let bench = Bench::new();
    let draw = |arguments: &[&str], name: &str| {
        let file = bench.folder.path(name);
        let ended = xavantes(&[arguments, &["--machines", &bench.machines, "--chart", &file]].concat(), "");
        assert_eq!(ended.code, 0, "{ended:?}");
        std::fs::read_to_string(file).expect("the chart was written")
    };
    let odd = bench.folder.write("odd.dax", DAX.replace("join_1", "&lt;join&gt;&amp;&quot;1"));
    for (arguments, name, bars) in [
        (&["plan", odd.as_str()][..], "odd.svg", 6),
        (&["plan", &bench.process], "process.html", 17),
        (&["plan", &bench.dax, "--compare", "heft,cpop"], "best.svg", 6),
    ] {
        let chart = draw(arguments, name);
        let options = roxmltree::ParsingOptions { allow_dtd: true, ..roxmltree::ParsingOptions::default() };
        let document = roxmltree::Document::parse_with_options(&chart, options)
            .unwrap_or_else(|error| panic!("{name}: {error}\n{chart}"));
        let found = document.descendants().filter(|node| node.attribute("class") == Some("bar")).count();
        assert_eq!(found, bars, "{name}");
        let outside =
            document.descendants().any(|node| node.attribute("src").is_some() || node.attribute("href").is_some());
        assert!(!outside && !chart.contains("url("), "{name} refers to other files");
    }
    let histogram =
        draw(&["simulate", &bench.dax, "--algorithm", "heft", "--noise", "0.2", "--deadline", "4min"], "runs.svg");
    assert!(
        roxmltree::Document::parse(&histogram)
            .is_ok_and(|_| histogram.contains("deadline") && histogram.contains("median"))
    );
    bench.refused(
        &[&bench.dax, "--machines", &bench.machines, "--chart", "/nowhere/plan.svg"],
        "cannot write /nowhere/plan.svg",
    );
}

#[test]
fn simulated_runs_have_distributions() {
    let bench = Bench::new();
    let simulate = |arguments: &[&str]| {
        bench.json(
            "Simulation",
            &[&["simulate", &bench.dax, "--machines", &bench.machines, "--algorithm", "min-min"], arguments].concat(),
        )
    };
    let calm = simulate(&[]);
    assert_eq!(calm["runs"], 100);
    assert!(number(&calm["makespan_seconds"], "max") <= number(&calm, "planned_makespan_seconds") + 1e-9);
    assert_eq!(calm["makespan_seconds"]["min"], calm["makespan_seconds"]["max"]);
    let noisy = simulate(&["--noise", "0.3", "--deadline", "5min", "--runs", "50"]);
    let spread = &noisy["makespan_seconds"];
    let order = ["min", "median", "p95", "max"].map(|member| number(spread, member));
    assert!(order.is_sorted() && order[0] < order[3], "{spread}");
    let met = number(&noisy["deadline"], "met");
    assert!((0.0..=1.0).contains(&met));
    let failing = simulate(&["--failures", "60/h", "--repair", "10s"]);
    assert!(number(&failing["failures"], "mean") > 0.5, "{failing:#}");
    let crowded = simulate(&["--contention"]);
    assert!(number(&crowded["makespan_seconds"], "max") >= number(&calm["makespan_seconds"], "max"));
    for name in ["myopic", "min-min", "max-min", "sufferage"] {
        let online = bench.json(
            "Simulation",
            &["simulate", &bench.dax, "--machines", &bench.machines, "--algorithm", name, "--online", "--noise", "0.3"],
        );
        assert_eq!((&online["algorithm"], &online["online"]), (&json!(name), &json!(true)));
    }
    let text =
        xavantes(&["simulate", &bench.dax, "--machines", &bench.machines, "--deadline", "5min", "--noise", "0.1"], "");
    assert!(text.stdout.contains("MEDIAN") && text.stdout.contains("of the runs"), "{text:?}");
    for (arguments, message) in [
        (&["--online"][..], "auto cannot decide online"),
        (&["--noise", "much"], "noise is a number from 0 to 10"),
        (&["--failures", "3"], "failures are a number per s, min, h or d"),
        (&["--runs", "0"], "0 is not in 1..=1000000"),
    ] {
        let ended = xavantes(&[&["simulate", &bench.dax, "--machines", &bench.machines], arguments].concat(), "");
        assert!(ended.code == 2 && ended.stderr.contains(message), "{message}: {ended:?}");
    }
}

#[test]
fn ctrl_c_ends_a_search_with_the_best_plan_so_far() {
    let bench = Bench::new();
    let mut child = command(&["plan", &bench.dax, "--machines", &bench.machines, "--algorithm", "annealing"])
        .args(["--time-limit", "1h", "--output", "json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program was built for these tests");
    // The search would take an hour; before it begins, Ctrl-C ends the program as usual.
    std::thread::sleep(Duration::from_secs(2));
    let sent = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(sent.is_ok_and(|status| status.success()));
    let ended = common::until("the search ends", || child.try_wait().expect("it can be asked"));
    let output = child.wait_with_output().expect("it has ended");
    assert_eq!(ended.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let plan: Json = serde_json::from_slice(&output.stdout).expect("it is JSON");
    assert_eq!(bench.schema.problem("Plan", &plan), None);
    assert_eq!((&plan["interrupted"], plan["tasks"].as_array().map(Vec::len)), (&json!(true), Some(6)));
}

/// The folder of stored workflows, or nothing after a loud message.
fn corpus() -> Option<PathBuf> {
    let folder = std::env::var_os("XAVANTES_WORKFLOWS").map(PathBuf::from);
    if folder.is_none() {
        eprintln!("SKIPPED: XAVANTES_WORKFLOWS is not set, so plan is not tested with stored workflows");
    }
    folder
}

/// The files of a folder whose names end in one of these ways.
fn files(folder: &Path, extensions: &[&str]) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<_> = entries.map(|entry| entry.expect("it can be read").path()).collect();
    files.retain(|file| file.extension().is_some_and(|own| extensions.iter().any(|extension| own == *extension)));
    files.sort();
    files
}

#[test]
fn stored_workflows_are_planned_without_a_word_about_their_formats() {
    let Some(corpus) = corpus() else { return };
    let bench = Bench::new();
    let cluster = corpus.join("teylo/clusters/cluster.vcl");
    // Some tasks of the corpus need 256 cores.
    let wide = bench.folder.write("wide.toml", format!("{MACHINES}\n[[machine]]\nname = \"wide\"\ncores = 512\n"));
    let own: [&[&str]; 3] = [&["--machines", &wide], &["--cluster", cluster.to_str().unwrap()], &[]];
    let mut planned = 0;
    for (folder, extensions, machines) in [
        ("dax", &["xml", "dax"][..], 0),
        ("wfformat", &["json"], 0),
        ("teylo/cpu", &["dag"], 1),
        ("teylo/gpu", &["dag"], 2),
        ("teylo/toy-wds/m3", &["wds"], 2),
        ("teylo/toy-wds/m5", &["wds"], 2),
    ] {
        for file in files(&corpus.join(folder), extensions) {
            let name = file.to_str().expect("the path is UTF-8");
            let ended =
                xavantes(&[&["plan", name, "--algorithm", "min-min", "--output", "json"], own[machines]].concat(), "");
            // The files of these workflows are larger than all storage of their machines together.
            let large = name.contains("SciPhy") || name.contains("SchedGPU");
            let fits = !large || !ended.stderr.contains("no machine has room for the files");
            assert_eq!(ended.code, if fits { 0 } else { 2 }, "{name}: {}", ended.stderr);
            planned += usize::from(fits);
        }
    }
    assert!(planned > 80, "{planned}");
}

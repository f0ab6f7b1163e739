//! `import` and `draw` with the real binary: workflows of other systems become processes that run.

mod common;

use std::path::{Path, PathBuf};

use common::{Folder, xavantes};
use serde_json::Value as Json;

const DIAMOND: &str = r#"<adag xmlns="http://pegasus.isi.edu/schema/DAX">
<job id="ID.1" name="split" runtime="0.2"><uses file="all" link="input" size="10"/><uses file="a" link="output" size="3000"/>
<uses file="b" link="output" size="200"/></job>
<job id="left" name="work" runtime="0.1"><uses file="a" link="input" size="3000"/><uses file="c" link="output" size="70"/></job>
<job id="right" name="work" runtime="0.1"><uses file="b" link="input" size="200"/><uses file="c" link="output" size="70"/></job>
<job id="end" name="join" runtime="0"><uses file="c" link="input" size="70"/></job>
<child ref="left"><parent ref="ID.1"/></child><child ref="right"><parent ref="ID.1"/></child>
<child ref="end"><parent ref="left"/><parent ref="right"/></child></adag>"#;

const SWEEP: &str = "workflow:
  - name: make data
    command: |
      set -e
      mkdir -p data
      cp base.txt data/base
      echo 'a $HOME ${x:-y} \"q\"' > data/odd
    include_files: [base.txt]
  - name: fit
    command: expr @n '*' $(cat data/base) > data/fit-@n-@word; echo \\$@word > data/dollar-@n-@word
    depends: [make data]
    param_grid:
      n: [2, 3]
      word: [up, down]
  - name: merge
    command: cat data/fit-* | sort -n > sum; cat data/odd data/dollar-2-up > odd; ls data > list
    depends: [fit, make data]
    download_files: [sum, odd, list]
";

/// Imports a document with these arguments, and returns the report.
#[track_caller]
fn imported(folder: &Folder, format: &str, name: &str, text: &str, arguments: &[&str]) -> (String, Json) {
    let (from, to) = (folder.write(name, text), folder.path(&format!("{name}.xml")));
    let ended = xavantes(&[&["import", format, &from, "-o", &to, "--output", "json"], arguments].concat(), "");
    assert_eq!((ended.code, ended.stderr.as_str()), (0, ""), "{arguments:?}");
    (to, serde_json::from_str(&ended.stdout).expect("the report is JSON"))
}

#[track_caller]
fn run(file: &str, arguments: &[&str]) -> Json {
    let ended = xavantes(&[&["run", file, "--output", "json", "--quiet", "--timeout", "120s"], arguments].concat(), "");
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    serde_json::from_str(&ended.stdout).expect("the outcome is JSON")
}

#[test]
fn a_dax_runs_with_every_kind_of_stand_in() {
    let folder = Folder::new();
    for stand_in in ["none", "sleep", "burn"] {
        for more in
            [&["--scale", "0.1"][..], &["--structured", "--scale", "0.1"], &["--files"], &["--files", "--structured"]]
        {
            let arguments = [&["--stand-in", stand_in], more].concat();
            let (file, report) = imported(&folder, "dax", "diamond", DIAMOND, &arguments);
            assert_eq!((&report["tasks"], &report["edges"], &report["files"]), (&4.into(), &4.into(), &4.into()));
            // `ID.1` has a dot, and `end` is a word of Lua.
            assert_eq!(report["renamed"], 2);
            let ran = run(&file, &[]);
            assert_eq!(ran["activities"]["completed"], 4, "{arguments:?} {ran}");
        }
    }
}

#[test]
fn files_of_stand_ins_have_the_sizes_of_the_workflow() {
    let folder = Folder::new();
    let (file, _) = imported(&folder, "dax", "diamond", DIAMOND, &["--files", "--scale", "0.5"]);
    // The process gives nothing, so a result that reads a file of the first task is added to it.
    let text = std::fs::read_to_string(&file).expect("it was written");
    assert!(text.contains("<DESCRIPTION>ID.1</DESCRIPTION>"), "{text}");
    let text = text.replace("<BODY>", "<OUT_PARAMETER TYPE=\"list\" NAME=\"made\"/><BODY>").replace(
        "</PAR>",
        "<OUT_PARAMETER TYPE=\"list\" NAME=\"made\"/><POST_CODE>made = {ID_1.out1, ID_1.out2, left.out1}</POST_CODE></PAR>
         <POST_CODE>made = graph.made</POST_CODE>",
    );
    let ran = run(&folder.write("made.xml", text), &[]);
    let made = ran["results"]["made"].as_array().expect("it is a list");
    let file = |place: usize, member: &str| made[place]["$file"][member].clone();
    assert_eq!([file(0, "size"), file(1, "size"), file(2, "size")], [1500.into(), 100.into(), 35.into()] as [Json; 3]);
    assert_eq!(file(0, "name"), "a");
}

#[test]
fn a_sweeper_workflow_runs_its_commands_and_hands_its_files_on() {
    let folder = Folder::new();
    let base = folder.write("base.txt", "7\n");
    for form in [&[][..], &["--structured"]] {
        let (file, report) = imported(&folder, "sweeper", "sweep", SWEEP, form);
        assert_eq!((&report["tasks"], &report["edges"]), (&6.into(), &9.into()));
        assert_eq!(report["inputs"][0], serde_json::json!({"parameter": "base_txt", "file": "base.txt"}));
        let download = folder.path(&format!("got{}", form.len()));
        let ran = run(&file, &["-p", &format!("base_txt=@{base}"), "--download", &download]);
        assert_eq!(ran["activities"]["completed"], 6);
        let got =
            |name: &str| std::fs::read_to_string(Path::new(&download).join(name).join(name)).expect("it came back");
        assert_eq!(got("sum"), "14\n14\n21\n21\n");
        assert_eq!(got("odd"), "a $HOME ${x:-y} \"q\"\n$up\n");
        assert_eq!(got("list").lines().count(), 10, "{}", got("list"));
    }
}

#[test]
fn many_parents_hand_their_files_to_one_task() {
    let folder = Folder::new();
    let values: Vec<String> = (0..200).map(|n| n.to_string()).collect();
    let text = format!(
        "workflow:\n- name: one\n  command: echo @n > part-@n\n  param_grid:\n    n: [{}]\n- name: all\n  command: cat part-* | \
         sort -n | tail -1 > last; cat part-* | wc -l >> last\n  depends: [one]\n  download_files: last\n",
        values.join(", ")
    );
    let (file, report) = imported(&folder, "sweeper", "wide", &text, &["--structured"]);
    assert_eq!(
        (&report["tasks"], &report["form"]),
        (&201.into(), &"graph".into()),
        "one script cannot pass 200 results on"
    );
    let download = folder.path("got");
    run(&file, &["--download", &download]);
    assert_eq!(std::fs::read_to_string(Path::new(&download).join("last/last")).expect("it came back"), "199\n200\n");
}

#[test]
fn bad_workflows_are_refused_with_their_place() {
    let folder = Folder::new();
    for (format, text, expected) in [
        ("dax", "<adag><job id=\"a\"", "line 1"),
        ("dax", "<adag>\n<child ref=\"b\"><parent ref=\"a\"/></child></adag>", "line 2"),
        ("dax", "<x/>", "no element adag"),
        (
            "dax",
            "<adag><job id=\"a\"/><job id=\"b\"/><child ref=\"a\"><parent ref=\"b\"/></child><child ref=\"b\"><parent ref=\"a\"/></child></adag>",
            "waits for itself",
        ),
        ("wfformat", "{\"workflow\": {}}", "workflow"),
        ("wfformat", "{\n\"workflow\": 7}", "line 2"),
        ("sweeper", "workflow:\n- name: a\n  comand: b", "line 3"),
        ("sweeper", "workflow:\n- name: a\n  command: b\n  depends: [a]", "waits for itself"),
        ("sweeper", "workflow:\n- name: a\n  command: b\n  download_files: [../../etc/passwd]", "line 2"),
    ] {
        let (from, to) = (folder.write("bad", text), folder.path("bad.xml"));
        let ended = xavantes(&["import", format, &from, "-o", &to], "");
        assert_eq!((ended.code, ended.stdout.as_str()), (2, ""), "{text}");
        assert!(ended.stderr.contains(expected) && ended.stderr.contains("bad"), "{text}: {}", ended.stderr);
        assert!(!Path::new(&to).exists(), "{text}");
    }
    let (from, to) = (folder.write("good", DIAMOND), folder.path("good.xml"));
    assert_eq!(xavantes(&["import", "dax", &from, "-o", &to, "--scale", "-1"], "").code, 2);
    assert!(xavantes(&["import", "dax", &from, "-o", "-"], "").stdout.starts_with("<XAVANTES"));
    assert_eq!(xavantes(&["import", "dax", &from, "-o", "-", "--output", "json"], "").code, 2);
    assert_eq!(xavantes(&["import", "dax", &folder.path("none"), "-o", &to], "").code, 2);
    assert_eq!(xavantes(&["import", "sweeper", &from, "-o", &to, "--stand-in", "none"], "").code, 2);
}

#[test]
fn a_definition_is_drawn_to_a_file_or_to_standard_output() {
    let folder = Folder::new();
    let (file, _) = imported(&folder, "dax", "diamond", DIAMOND, &[]);
    let picture = folder.path("picture.svg");
    let ended = xavantes(&["draw", &file, "-o", &picture], "");
    assert_eq!((ended.code, ended.stdout.trim()), (0, format!("{picture}: 4 activities in 6 boxes").as_str()));
    let written = std::fs::read_to_string(&picture).expect("it was written");
    assert_eq!(xavantes(&["draw", &file], "").stdout, written);
    let dot = xavantes(&["draw", &file, "--format", "dot"], "").stdout;
    assert!(dot.starts_with("digraph ") && dot.matches(" -> ").count() == 4, "{dot}");
    assert_eq!(xavantes(&["draw", &folder.write("wrong.xml", "<X/>")], "").code, 2);
}

#[test]
fn a_real_workflow_of_sweeper_gives_the_right_sums() {
    let Some(root) = std::env::var_os("XAVANTES_WORKFLOWS").map(PathBuf::from) else {
        eprintln!("SKIPPED: XAVANTES_WORKFLOWS does not say where the workflows are");
        return;
    };
    let folder = Folder::new();
    let read = |name: &str| std::fs::read_to_string(root.join("sweeper").join(name)).expect("it can be read");
    // The workflow trains on seven of ten lines, and its models add the first column.
    let table = read("train.csv");
    let lines = table.lines().enumerate().filter(|(place, _)| (place + 1) % 10 < 7);
    let first =
        lines.map(|(_, line)| line.split(',').next().expect("it has a column").parse::<u64>().expect("a number"));
    let sum: u64 = first.sum();
    let expected: String = ["bnb", "gnb", "rf", "xt"].iter().map(|model| format!("{model},{sum}\n")).collect();
    for form in [&[][..], &["--structured"]] {
        let (file, _) = imported(&folder, "sweeper", "forests", &read("forests.yaml"), form);
        let (download, train) = (folder.path(&format!("got{}", form.len())), root.join("sweeper/train.csv"));
        run(&file, &["-p", &format!("train_csv=@{}", train.display()), "--download", &download]);
        let got = Path::new(&download).join("out_AllResults_csv/AllResults.csv");
        assert_eq!(std::fs::read_to_string(got).expect("it came back"), expected);
        let (file, _) = imported(&folder, "sweeper", "test", &read("test.yaml"), form);
        assert_eq!(run(&file, &[])["activities"]["completed"], 4);
    }
}

#[test]
fn every_real_workflow_of_at_most_1000_tasks_runs_with_stand_ins_in_both_forms() {
    let Some(root) = std::env::var_os("XAVANTES_WORKFLOWS").map(PathBuf::from) else {
        eprintln!("SKIPPED: XAVANTES_WORKFLOWS does not say where the workflows are");
        return;
    };
    let index = std::fs::read_to_string(root.join("INDEX.csv")).expect("the workflows have an index");
    let folder = Folder::new();
    let mut ran = 0;
    for line in index.lines().skip(1) {
        let cells: Vec<&str> = line.split(',').collect();
        let (name, format, tasks) = (cells[0], cells[1], cells[2].parse::<u64>().expect("it is a number"));
        if !["dax", "wfformat"].contains(&format) || tasks > 1000 {
            continue;
        }
        for form in [&[][..], &["--structured"]] {
            let to = folder.path("workflow.xml");
            let from = root.join(name).display().to_string();
            let ended = xavantes(&[&["import", format, &from, "-o", &to], form].concat(), "");
            assert_eq!(ended.code, 0, "{name}: {}", ended.stderr);
            let outcome = run(&to, &[]);
            let counts = (&outcome["state"], &outcome["activities"]["completed"]);
            assert_eq!(counts, (&"completed".into(), &tasks.into()), "{name} {form:?}");
        }
        ran += 1;
    }
    assert!(ran >= 40, "only {ran} workflows ran");
}

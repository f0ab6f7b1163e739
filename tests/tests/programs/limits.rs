//! Resources of programs are limited, and their usage is recorded.

use serde_json::json;
use xavantes_tests::until;

use crate::kit::{TestWorker, assert_tells, sh};

/// Code in Python; nothing if this machine has no Python.
fn python(place: &TestWorker, code: &str) -> Option<String> {
    let nodes = place.grid.nodes(&place.address);
    let there = nodes
        .iter()
        .any(|node| node["interpreters"].as_array().is_some_and(|languages| languages.contains(&json!("python"))));
    if !there {
        eprintln!("SKIPPED: python is not installed");
    }
    there.then(|| format!("<CODE LANGUAGE=\"python\"><![CDATA[{code}]]></CODE>"))
}

#[test]
fn a_program_that_exceeds_its_memory_is_killed_with_a_clear_error() {
    let mut place = TestWorker::new(&[]);
    let Some(code) =
        python(&place, "import time\nall = []\nwhile True:\n  all.append(bytearray(4 << 20))\n  time.sleep(0.01)")
    else {
        return;
    };
    let error = place.failing(&format!("<REQUIRES MEMORY=\"96MiB\"/>{code}"));
    assert_tells(&error, &["the python code used ", "of memory, its limit is 96 MiB"]);
}

#[test]
fn the_memory_of_helpers_counts() {
    let mut place = TestWorker::new(&[]);
    let grow = "import time; a = bytearray(60 << 20); time.sleep(300)";
    let code = format!(
        "import subprocess, sys\nall = [subprocess.Popen([sys.executable, '-c', '{grow}']) for _ in range(3)]\nall[0].wait()"
    );
    let Some(code) = python(&place, &code) else { return };
    let error = place.failing(&format!("<REQUIRES MEMORY=\"128MiB\"/>{code}"));
    assert_tells(&error, &["of memory, its limit is 128 MiB"]);
}

#[test]
fn a_program_that_fills_the_disk_is_killed_with_a_clear_error() {
    let mut place = TestWorker::new(&[]);
    let script = "while true; do head -c 4000000 /dev/zero >> large; sleep 0.02; done";
    let error = place.failing(&format!("<REQUIRES SCRATCH=\"20MB\"/>{}", sh(script)));
    assert_tells(&error, &["the sh code used ", "of disk, its limit is 19.1 MiB"]);
    // Even if it writes faster than the worker measures.
    let error = place.failing(&format!("<REQUIRES SCRATCH=\"5MB\"/>{}", sh("head -c 30000000 /dev/zero > large")));
    assert_tells(&error, &["the sh code used ", "of disk, its limit is 4.8 MiB"]);
}

#[test]
fn a_program_that_starts_too_many_others_is_killed_with_a_clear_error() {
    let mut place = TestWorker::new(&[]);
    let script = "for n in 1 2 3 4 5 6 7 8 9 10 11 12; do sleep 300 & done; wait";
    let error = place.failing(&format!("<REQUIRES PROCESSES=\"8\"/>{}", sh(script)));
    assert_tells(&error, &["had 13 processes at once, its limit is 8"]);
}

#[test]
fn open_files_are_limited() {
    let mut place = TestWorker::new(&[]);
    let types = |most: u32| {
        format!(
            "<OUT_PARAMETER TYPE=\"int\" NAME=\"most\" FROM=\"stdout-trimmed\"/><REQUIRES OPEN_FILES=\"{most}\"/>{}",
            sh("ulimit -n")
        )
    };
    assert_eq!(place.run(&types(64))["results"]["most"], 64);
}

#[test]
fn memory_and_gpus_are_never_overcommitted() {
    let mut place = TestWorker::new(&["--slots", "8", "--memory-mib", "300", "--gpus", "2"]);
    let gate = place.sign("gate");
    let document = format!(
        r#"<XAVANTES VERSION="1"><PROCESS_TYPE NAME="P"><OUT_PARAMETER TYPE="list" NAME="gpus"/>
        <BODY><PARFOR NAME="all" TO="6" COLLECT="work.gpus" DELEGATE="never"><ITERATE>
        <ACTIVITY TYPE="Work" NAME="work"/></ITERATE></PARFOR><POST_CODE>gpus = all.results</POST_CODE></BODY></PROCESS_TYPE>
        <ACTIVITY_TYPE NAME="Work"><OUT_PARAMETER TYPE="string" NAME="gpus" FROM="stdout-trimmed"/>
        <REQUIRES MEMORY="100MiB" GPUS="1"/>
        <CODE LANGUAGE="sh">echo $CUDA_VISIBLE_DEVICES; while [ ! -e {} ]; do sleep 0.05; done</CODE></ACTIVITY_TYPE>
        </XAVANTES>"#,
        gate.display()
    );
    let file = place.grid.write("gpus.xml", &document);
    let process = place.grid.submit(&place.address, &file, &[]);
    until("two activities run", 60, || (place.folders().len() == 2).then_some(()));
    xavantes_tests::stays("no more than two have a GPU", 500, || place.folders().len() == 2);
    std::fs::write(&gate, "").expect("tests can write here");
    let ended = place.grid.end(&place.address, &process);
    let mut gpus: Vec<&str> =
        ended["results"]["gpus"].as_array().expect("all ran").iter().filter_map(|gpu| gpu.as_str()).collect();
    gpus.sort_unstable();
    assert_eq!((gpus.len(), gpus.first(), gpus.last()), (6, Some(&"0"), Some(&"1")), "{ended}");
    // An activity waits if no worker has enough memory.
    let process = place.submit(&format!("<REQUIRES MEMORY=\"301MiB\"/>{}", sh("true")));
    let shown = until("the reason for waiting is shown", 60, || {
        let shown = place.grid.cli(&place.address, &["show", &format!("{process}/work")]).json();
        (shown["wait_reason"]["kind"] == "unmet").then_some(shown)
    });
    assert_eq!(shown["waits"], "no connected worker has 301.0 MiB of memory");
}

#[test]
fn the_usage_of_a_short_program_is_recorded() {
    let mut place = TestWorker::new(&[]);
    // The programs end before the worker measures. The second one uses more memory than the worker itself.
    for (script, least) in [("true", 1), ("head -c 310000000 /dev/zero | tail -c 300000000 > /dev/null", 300_000_000)] {
        let process = place.submit(&sh(script));
        assert_eq!(place.grid.end(&place.address, &process)["state"], "completed");
        let shown = place.grid.cli(&place.address, &["show", &format!("{process}/work")]).ok().json();
        let peak = shown["records"][0]["usage"]["peak_memory"].as_u64().unwrap_or_else(|| panic!("{shown}"));
        let most = if least > 1 { 2 * least } else { (place.grid.peak_mib("a/w") + 1) << 20 };
        assert!((least..=most).contains(&peak), "{script}: {peak}");
    }
}

#[test]
fn the_usage_of_an_attempt_is_recorded() {
    let mut place = TestWorker::new(&[]);
    let code = "import time\ndata = bytearray(50 << 20)\nend = time.process_time() + 0.5\nwhile time.process_time() < end: pass\nopen('x', 'wb').write(data)\nopen('x', 'rb').read()\ntime.sleep(0.3)";
    let Some(code) = python(&place, code) else { return };
    let process = place.submit(&code);
    assert_eq!(place.grid.end(&place.address, &process)["state"], "completed");
    let shown = place.grid.cli(&place.address, &["show", &format!("{process}/work")]).ok().json();
    assert_eq!((&shown["state"], &shown["worker"]), (&json!("completed"), &json!("w")), "{shown}");
    let usage = &shown["records"][0]["usage"];
    let number = |name: &str| usage[name].as_u64().unwrap_or_else(|| panic!("{name} in {shown}"));
    assert!(number("wall_ms") >= 800, "{shown}");
    assert!(number("user_ms") + number("system_ms") >= 400, "{shown}");
    assert!(number("peak_memory") >= 50 << 20, "{shown}");
    assert!(number("read_bytes") >= 50 << 20 && number("written_bytes") >= 50 << 20, "{shown}");
    assert_eq!(usage["node"], "w");
}

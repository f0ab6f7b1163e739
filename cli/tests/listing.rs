//! Finding processes: names, labels, filters of lists, beginnings of ids, and what failed activities wrote.

mod common;

use common::{Ended, Folder, Running, until};
use serde_json::Value as Json;

const TYPES: &str = r#"<XAVANTES VERSION="1">
  <PROCESS_TYPE NAME="Quick"><BODY/></PROCESS_TYPE>
  <PROCESS_TYPE NAME="Waits"><BODY><PARFOR NAME="all" TO="3"><ITERATE>
    <ACTIVITY TYPE="Sleep" NAME="sleep"/></ITERATE></PARFOR></BODY></PROCESS_TYPE>
  <PROCESS_TYPE NAME="Fails"><BODY><FOR NAME="some" TO="3"><ITERATE>
    <ACTIVITY TYPE="Fail" NAME="fail" n="${counter}" ON_FAILURE="continue"/></ITERATE></FOR>
    <ACTIVITY TYPE="Fail" NAME="last" n="9"/></BODY></PROCESS_TYPE>
  <ACTIVITY_TYPE NAME="Sleep"><CODE LANGUAGE="command"><ARG>sleep</ARG><ARG>600</ARG></CODE></ACTIVITY_TYPE>
  <ACTIVITY_TYPE NAME="Fail"><IN_PARAMETER NAME="n" TYPE="int"/>
    <CODE LANGUAGE="bash">echo "out $n"; echo "err $n" >&amp;2; exit $n</CODE></ACTIVITY_TYPE>
</XAVANTES>"#;

/// A node, and a file with process types.
struct Bench {
    node: Running,
    file: String,
    _folder: Folder,
}

impl Bench {
    fn new() -> Self {
        let folder = Folder::new();
        let file = folder.write("types.xml", TYPES);
        Self { node: Running::node(&["--in-memory", "--slots", "4"]), file, _folder: folder }
    }

    #[track_caller]
    fn submit(&self, process: &str, more: &[&str]) -> String {
        let ended = self.node.ask(&[&["submit", &self.file, "--process", process], more].concat());
        assert_eq!(ended.code, 0, "{ended:?}");
        ended.stdout.trim().to_owned()
    }

    fn json(&self, arguments: &[&str]) -> Json {
        let ended = self.node.ask(&[arguments, &["--output", "json"]].concat());
        serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {ended:?}"))
    }

    /// The ids in a list.
    fn list(&self, arguments: &[&str]) -> Vec<String> {
        let listed = self.json(&[&["list"], arguments].concat());
        let all = listed["processes"].as_array().expect("a list").iter();
        all.map(|it| it["process"].as_str().expect("an id").to_owned()).collect()
    }

    #[track_caller]
    fn refused(&self, arguments: &[&str], message: &str) -> Ended {
        let ended = self.node.ask(arguments);
        assert_eq!((ended.code, &*ended.stdout), (2, ""), "{ended:?}");
        assert!(ended.stderr.contains(message), "{message:?} is not in {ended:?}");
        ended
    }
}

#[test]
fn lists_find_processes_by_name_label_type_state_and_time() {
    let bench = Bench::new();
    let quick = bench.submit("Quick", &["--name", "a b", "--label", "team=red", "--label", "year=1"]);
    let waits = bench.submit("Waits", &["--label", "team=red"]);
    let fails = bench.submit("Fails", &["--label", "team=blue", "--label", "empty="]);
    assert_eq!(bench.node.ask(&["wait", &quick]).code, 0);
    assert_eq!(bench.node.ask(&["wait", &fails]).code, 1);
    let newest_first = [&*fails, &waits, &quick];
    assert_eq!(bench.list(&[]), newest_first);
    until("an activity runs", || (bench.list(&["--state", "running"]) == [&*waits]).then_some(()));
    for (arguments, expected) in [
        (&["--limit", "2"][..], &[&*fails, &waits][..]),
        (&["--label", "team=red"], &[&waits, &quick]),
        (&["--label", "team=red", "--limit", "1"], &[&waits]),
        (&["--label", "team=red", "--label", "year=1"], &[&quick]),
        (&["--label", "empty="], &[&fails]),
        (&["--label", "team=green"], &[]),
        (&["--name", "a b"], &[&quick]),
        (&["--type", "Quick,Fails"], &[&fails, &quick]),
        (&["--state", "failed,completed"], &[&fails, &quick]),
        (&["--failed"], &[&fails]),
        (&["--since", "1h"], &newest_first),
        (&["--since", "2100-01-01"], &[]),
    ] {
        assert_eq!(bench.list(arguments), expected, "{arguments:?}");
    }
    let listed = bench.json(&["list", "--name", "a b"]);
    assert_eq!(listed["processes"][0]["labels"], serde_json::json!({"team": "red", "year": "1"}));
    let shown = bench.json(&["show", &quick]);
    assert_eq!((&shown["name"], &shown["labels"]["year"]), (&"a b".into(), &"1".into()));
    assert_eq!(bench.json(&["show", &waits])["labels"]["team"], "red", "also of a process that runs");
    let text = bench.node.ask(&["list", "--failed"]).stdout;
    assert!(text.contains("ERROR") && text.contains("exit status 9"), "{text}");
    let text = bench.node.ask(&["list"]).stdout;
    assert!(!text.contains("TROUBLE"), "{text}");
    let head: Vec<&str> = text.lines().next().expect("a headline").split_whitespace().collect();
    assert_eq!(head[..5], ["PROCESS", "NAME", "STATE", "SUBMITTED", "DURATION"], "{text}");
    assert!(text.contains("team=red year=1") && text.contains("s ago"), "{text}");

    bench.refused(&["list", "--state", "runing"], "runing");
    bench.refused(&["list", "--since", "yesterday"], "expected an age such as 90m");
    let refused = |more: &[&str], message: &str| {
        bench.refused(&[&["submit", &bench.file, "--process", "Quick"], more].concat(), message);
    };
    refused(&["--label", "a=1", "--label", "a=2"], "must not appear twice: \"a\"");
    refused(&["--label", "=1"], "the key of a label is missing");
    refused(&["--name", "two\nlines"], "control character");
    refused(&["--label", &format!("a={}", "x".repeat(300))], "300 bytes; at most 256");
    assert_eq!(bench.list(&[]), newest_first, "nothing was started");
}

#[test]
fn the_beginning_of_an_id_is_enough() {
    let bench = Bench::new();
    let (quick, waits) = (bench.submit("Quick", &[]), bench.submit("Waits", &[]));
    let path = format!("{waits}/all/[2]/sleep");
    until("an activity runs", || (bench.json(&["show", &path])["state"] == "running").then_some(()));
    // Without brackets, and with a part of the id.
    assert_eq!(bench.json(&["show", "Wa/all/2/sleep"])["path"], path.as_str());
    assert_eq!(bench.json(&["wait", "Qui"])["processes"][0]["process"], quick.as_str());
    assert_eq!(bench.json(&["results", "Quick-"])["process"], quick.as_str());
    assert_eq!(bench.node.ask(&["tree", "Waits"]).code, 0);
    assert_eq!(bench.node.ask(&["explain", "W/all/2/sleep"]).code, 0);
    assert_eq!(bench.node.ask(&["pause", "Waits/all/2"]).code, 0);
    assert_eq!(bench.json(&["cancel", "Waits"])["path"], waits.as_str());
    let other = bench.submit("Quick", &[]);
    let ended = bench.refused(&["results", "Qu"], "\"Qu\" is the beginning of several ids: ");
    assert!(ended.stderr.contains(&quick) && ended.stderr.contains(&other), "{ended:?}");
    bench.refused(&["forget", "Quick-", &quick], "several ids");
    bench.refused(&["show", "Nobody"], "there is no process \"Nobody\" here");
    assert_eq!(bench.json(&["forget", &quick])["forgotten"][0], quick.as_str());
    assert_eq!(bench.node.ask(&["wait", "Quick"]).code, 0);
}

#[test]
fn the_output_of_all_failed_activities_is_one_answer() {
    let bench = Bench::new();
    let fails = bench.submit("Fails", &[]);
    assert_eq!(bench.node.ask(&["wait", &fails]).code, 1);
    let printed = bench.node.ask(&["logs", "--failed", "Fails"]);
    assert_eq!((printed.code, &*printed.stderr), (0, ""), "{printed:?}");
    for expected in ["out 1", "err 1", "out 3", "out 9", "/some/[2]/fail  attempt 1 on test", "exit status 9"] {
        assert!(printed.stdout.contains(expected), "{expected:?} is not in {}", printed.stdout);
    }
    let logs = bench.json(&["logs", "--failed", &fails, "--stderr"]);
    assert_eq!((&logs["logs"].as_array().map(Vec::len), &logs["left_out"]), (&Some(4), &0.into()), "{logs}");
    assert_eq!((&logs["logs"][3]["stderr"], logs["logs"][3].get("stdout")), (&"err 9\n".into(), None), "{logs}");
    let inner = bench.json(&["logs", "--failed", &format!("{fails}/some/2")]);
    assert_eq!(inner["logs"].as_array().map(Vec::len), Some(1), "{inner}");
    let quick = bench.submit("Quick", &[]);
    assert_eq!(bench.node.ask(&["wait", &quick]).code, 0);
    assert_eq!(bench.node.ask(&["logs", "--failed", &quick]).stdout, "no activity has failed\n");
}

#[test]
fn an_interrupted_wait_says_that_the_process_goes_on() {
    let bench = Bench::new();
    let waits = bench.submit("Waits", &[]);
    let arguments = ["wait", &waits, "--coordinator", &bench.node.address];
    let mut command = common::command(&arguments);
    let child = command.stderr(std::process::Stdio::piped()).spawn().expect("the program was built for these tests");
    let interrupt = || {
        let sent = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status();
        assert!(sent.expect("kill is installed").success());
    };
    // Before it listens for signals, the signal would end it without a word.
    let status = format!("/proc/{}/status", child.id());
    until("the command listens", || {
        let status = std::fs::read_to_string(&status).ok()?;
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"))?;
        (u64::from_str_radix(caught.trim(), 16).ok()? & 2 != 0).then_some(())
    });
    interrupt();
    let ended = child.wait_with_output().expect("it ends");
    assert_eq!(ended.status.code(), Some(130));
    let message = String::from_utf8_lossy(&ended.stderr);
    assert!(message.contains(&format!("{waits} goes on")) && message.contains("xavantes cancel"), "{message}");
    until("it runs", || (bench.list(&["--state", "running"]) == [&*waits]).then_some(()));
}

//! One node and the commands around it: settings, the data directory, health, and runs that continue after a kill.

mod common;

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use common::{Ended, Folder, Running, command, run, until, xavantes};
use serde_json::{Value as Json, json};

/// Asserts that a command ended with this code and wrote each of these messages to standard error.
#[track_caller]
fn assert_ended(ended: &Ended, code: i32, messages: &[&str]) {
    assert_eq!(ended.code, code, "{ended:?}");
    for message in messages {
        assert!(ended.stderr.contains(message), "{message:?} is not in:\n{}", ended.stderr);
    }
}

/// The settings that `node --print-config` prints.
#[track_caller]
fn settings(environment: &[(&str, &str)], arguments: &[&str]) -> toml::Table {
    let ended = run(command(&[&["node", "--print-config"], arguments].concat()).envs(environment.iter().copied()), "");
    assert_eq!((ended.code, ended.stderr.as_str()), (0, ""));
    ended.stdout.parse().expect("it is TOML")
}

#[test]
fn settings_come_from_the_file_then_the_environment_then_flags() {
    let folder = Folder::new();
    let file = r#"
        data-dir = "/file"
        in-memory = false
        repository = "postgres://file/db"
        retention-days = 1
        retention-mib = 2
        queue = 3
    "#;
    let file = folder.write("node.toml", file);
    let get = |table: &toml::Table| {
        let names = ["data-dir", "repository", "retention-days", "retention-mib", "queue"];
        names.map(|name| table[name].to_string().trim_matches('"').to_owned())
    };
    let from_file = settings(&[], &["--config", &file]);
    assert_eq!(get(&from_file), ["/file", "postgres://file/db", "1", "2", "3"]);
    let environment = [
        ("XAVANTES_CONFIG", file.as_str()),
        ("XAVANTES_DATA_DIR", "/environment"),
        ("XAVANTES_REPOSITORY", "postgres://environment/db"),
        ("XAVANTES_RETENTION_DAYS", "4"),
        ("XAVANTES_RETENTION_MIB", "5"),
        ("XAVANTES_QUEUE", "6"),
    ];
    let from_environment = settings(&environment, &[]);
    assert_eq!(get(&from_environment), ["/environment", "postgres://environment/db", "4", "5", "6"]);
    let flags = ["--data-dir=/flag", "--repository=postgres://flag/db", "--retention-days=7", "--retention-mib=8"];
    let from_flags = settings(&environment, &[&flags[..], &["--queue=9"]].concat());
    assert_eq!(get(&from_flags), ["/flag", "postgres://flag/db", "7", "8", "9"]);
    // The printed settings are a valid settings file.
    let printed = folder.write("printed.toml", toml::to_string(&from_flags).expect("it was TOML"));
    assert_eq!(settings(&[], &["--config", &printed]), from_flags);
}

#[test]
fn a_node_keeps_data_in_the_users_state_directory_by_default() {
    let at = |environment: &[(&str, &str)], arguments: &[&str]| {
        let arguments = [&["--name", "a", "--group", "g"], arguments].concat();
        settings(environment, &arguments).get("data-dir").and_then(|it| it.as_str()).map(str::to_owned)
    };
    let both = [("XDG_STATE_HOME", "/state"), ("HOME", "/home/me")];
    assert_eq!(at(&both, &[]).as_deref(), Some("/state/xavantes/g/a"));
    let home = [("XDG_STATE_HOME", ""), ("HOME", "/home/me")];
    assert_eq!(at(&home, &[]).as_deref(), Some("/home/me/.local/state/xavantes/g/a"));
    assert_eq!(at(&both, &["--data-dir", "/here"]).as_deref(), Some("/here"));
    assert_eq!(at(&both, &["--in-memory", "--data-dir", "/here"]), None);
    assert_eq!(at(&[both[0], ("XAVANTES_IN_MEMORY", "true")], &[]), None);
    let overruled = at(&[both[0], ("XAVANTES_IN_MEMORY", "true")], &["--in-memory=false"]);
    assert_eq!(overruled.as_deref(), Some("/state/xavantes/g/a"));
    let nowhere = [("XDG_STATE_HOME", ""), ("HOME", "")];
    let ended = run(command(&["node", "--listen", "127.0.0.1:0"]).envs(nowhere), "");
    assert_ended(&ended, 2, &["no home directory", "--data-dir", "--in-memory"]);
}

#[test]
fn invalid_settings_are_reported() {
    let folder = Folder::new();
    for (flags, message) in [
        (&["--name", "a b"][..], "name cannot be \"a b\""),
        (&["--name", ""], "name cannot be \"\""),
        (&["--group", "../up"], "group cannot be \"../up\""),
        (&["--join", "somewhere"], "\"somewhere\" is not an address: expected HOST:PORT"),
        (&["--adjacent", "a:1,b"], "\"b\" is not an address"),
        (&["--advertise", "http://a:1"], "is not an address"),
        (&["--retention-days", "0"], "--retention-days"),
        (&["--retention-mib", "0"], "--retention-mib"),
        (&["--roles", "activity-manager"], "--join"),
        (&["--data-dir", "/dev/null/here"], "cannot keep data in /dev/null/here"),
    ] {
        let ended = xavantes(&[&["node", "--listen", "127.0.0.1:0"], flags].concat(), "");
        assert_ended(&ended, 2, &[message]);
    }
    for (content, message) in [
        ("group = 'a/b'", "group cannot be \"a/b\""),
        ("retention-days = 0", "retention-days must be at least 1"),
        ("join = ['x']", "\"x\" is not an address"),
        ("data_dir = '/x'", "data_dir"),
    ] {
        let file = folder.write("node.toml", content);
        assert_ended(&xavantes(&["node", "--config", &file, "--listen", "127.0.0.1:0"], ""), 2, &[message]);
    }
    for arguments in [&["node", "--listen", "127.0.0.1:0"][..], &["repository", "migrate"]] {
        let ended = xavantes(&[arguments, &["--repository", "mysql://me:secret@there/db"]].concat(), "");
        assert_ended(&ended, 2, &["postgres://"]);
        assert!(!ended.stderr.contains("secret"), "{ended:?}");
    }
    assert_ended(&xavantes(&["repository", "migrate"], ""), 2, &["--repository"]);
}

#[test]
fn a_data_directory_belongs_to_one_node_at_a_time() {
    let folder = Folder::new();
    let data = folder.path("deep/data");
    let mut node = Running::node(&["--data-dir", &data]);
    let mode = |path: &str| std::fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
    assert_eq!((mode(&folder.path("deep")), mode(&data)), (0o700, 0o700));
    let second = xavantes(&["node", "--listen", "127.0.0.1:0", "--data-dir", &data], "");
    assert_ended(&second, 2, &[&data, "is in use", "--data-dir"]);
    let file = folder.write("p.xml", endless());
    assert_ended(&xavantes(&["run", &file, "--data-dir", &data], ""), 2, &["is in use"]);
    // Nothing has to be removed after a node was killed.
    node.kill();
    drop(Running::node(&["--data-dir", &data]));
}

#[test]
fn an_address_belongs_to_one_node_at_a_time() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("there are free ports");
    let address = taken.local_addr().expect("it has an address").to_string();
    let ended = xavantes(&["node", "--in-memory", "--listen", &address], "");
    assert_ended(&ended, 2, &[&format!("cannot listen on {address}: the address is in use"), "--listen"]);
}

#[test]
fn the_health_of_a_node_is_an_exit_code() {
    let mut node = Running::node(&["--in-memory"]);
    let ended = node.ask(&["health"]);
    assert_eq!((ended.code, ended.stdout.as_str(), ended.stderr.as_str()), (0, "serving\n", ""));
    let ended = node.ask(&["health", "--output", "json"]);
    let printed: Json = serde_json::from_str(&ended.stdout).expect("it is JSON");
    assert_eq!((ended.code, printed), (0, json!({"address": node.address, "state": "serving"})));
    node.kill();
    assert_ended(&node.ask(&["health"]), 3, &[&node.address]);
    assert_ended(&xavantes(&["health", "--coordinator", "nowhere"], ""), 2, &["\"nowhere\" is not an address"]);
}

#[test]
fn forget_removes_ended_processes() {
    let folder = Folder::new();
    let node = Running::node(&["--in-memory"]);
    let file = folder.write("answer.xml", ANSWER);
    let submit = || node.ask(&["submit", &file]).stdout.trim().to_owned();
    let (one, other) = (submit(), submit());
    assert_eq!(node.ask(&["wait", &one, &other]).code, 0);
    assert_eq!(node.ask(&["forget", &one]).code, 0);
    until("one is gone", || (!node.ask(&["list"]).stdout.contains(&one)).then_some(()));
    assert!(node.ask(&["list"]).stdout.contains(&other));
    assert_ended(&node.ask(&["results", &one]), 2, &[&one]);
    assert_ended(&xavantes(&["forget"], ""), 2, &["forget"]);
}

#[test]
fn sources_are_added_listed_and_removed_and_outlive_the_node() {
    let folder = Folder::new();
    let data = folder.path("data");
    let mut node = Running::node(&["--data-dir", &data]);
    until("the node leads its group", || {
        (node.ask(&["sources", "add", "genes", "file:///genes"]).code == 0).then_some(())
    });
    assert_eq!(node.ask(&["sources", "add", "maps", "file:///maps"]).code, 0);
    assert_eq!(node.ask(&["sources", "remove", "maps"]).code, 0);
    assert_ended(&node.ask(&["sources", "add", "No Name", "file:///x"]), 2, &["error: "]);
    let list = |node: &Running| node.ask(&["sources"]).stdout;
    assert!(list(&node).contains("file:///genes") && !list(&node).contains("maps"), "{}", list(&node));
    node.kill();
    let node = Running::node(&["--data-dir", &data]);
    until("it is known again", || list(&node).contains("file:///genes").then_some(()));
}

#[test]
fn a_retry_elsewhere_goes_to_the_coordinator() {
    let node = Running::node(&["--in-memory"]);
    assert_ended(&node.ask(&["retry", "Nobody-1/work", "--elsewhere"]), 2, &["Nobody-1"]);
}

const ANSWER: &str = r#"<XAVANTES VERSION="1"><PROCESS_TYPE NAME="Answer"><OUT_PARAMETER NAME="out" TYPE="int"/>
<BODY><PRE_CODE>out = 42</PRE_CODE></BODY></PROCESS_TYPE></XAVANTES>"#;

fn endless() -> String {
    waiting("/dev/null/never")
}

/// A process that completes an activity, prints a line, and then waits for a file.
fn waiting(file: &str) -> String {
    format!(
        r#"<XAVANTES VERSION="1"><PROCESS_TYPE NAME="Main"><OUT_PARAMETER NAME="out" TYPE="int"/><BODY>
<ACTIVITY NAME="first" TYPE="Six"/><ACTIVITY NAME="second" TYPE="Wait"/>
<POST_CODE>out = first.n * 7</POST_CODE></BODY></PROCESS_TYPE>
<ACTIVITY_TYPE NAME="Six"><OUT_PARAMETER NAME="n" TYPE="int"/>
<CODE LANGUAGE="lua">print("first is done") n = 6</CODE></ACTIVITY_TYPE>
<ACTIVITY_TYPE NAME="Wait">
<CODE LANGUAGE="command"><ARG>sh</ARG><ARG>-c</ARG><ARG>until [ -e {file} ]; do sleep 0.05; done</ARG></CODE>
</ACTIVITY_TYPE></XAVANTES>"#
    )
}

#[test]
fn the_results_of_a_run_stay_in_its_data_directory() {
    let folder = Folder::new();
    let (file, data) = (folder.write("answer.xml", ANSWER), folder.path("data"));
    let ended = xavantes(&["run", &file, "--data-dir", &data], "");
    assert_eq!((ended.code, ended.stdout.as_str()), (0, "out = 42\n"), "{ended:?}");
    let resumed = || xavantes(&["run", "--resume", "--data-dir", &data], "");
    assert_eq!((resumed().code, resumed().stdout.as_str()), (0, "out = 42\n"));
    // Another run in the same place; then that one is the last.
    let other = folder.write("other.xml", ANSWER.replace("42", "43"));
    assert_eq!(xavantes(&["run", &other, "--data-dir", &data], "").stdout, "out = 43\n");
    assert_eq!(resumed().stdout, "out = 43\n");
    let failed = folder.write("failed.xml", ANSWER.replace("out = 42", "error('no luck')"));
    assert_ended(&xavantes(&["run", &failed, "--data-dir", &data], ""), 1, &["no luck"]);
    assert_ended(&resumed(), 1, &["no luck"]);
}

#[test]
fn a_killed_run_continues_with_resume() {
    let folder = Folder::new();
    let (data, sign) = (folder.path("data"), folder.path("sign"));
    let file = folder.write("waiting.xml", waiting(&sign));
    let arguments = ["run", &file, "--data-dir", &data];
    let mut killed = command(&arguments);
    // A killed program cannot remove the folders of its activities.
    killed.env("TMPDIR", folder.path("")).stderr(Stdio::piped()).stdout(Stdio::null());
    let mut child = killed.spawn().expect("it runs");
    let mut printed = BufReader::new(child.stderr.take().expect("it is a pipe")).lines();
    let first = printed.next().expect("it prints something").expect("it is text");
    assert!(first.ends_with("first: first is done"), "{first}");
    let process = first.split('/').next().expect("a path begins with the process").to_owned();
    child.kill().expect("it runs");
    child.wait().expect("it was killed");

    let again = xavantes(&arguments, "");
    assert_ended(&again, 2, &[&process, "has not ended", "--resume"]);
    std::fs::write(&sign, "").expect("tests can write here");
    let ended = xavantes(&["run", "--resume", "--data-dir", &data, "--output", "json"], "");
    let printed: Json = serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {ended:?}"));
    assert_eq!((ended.code, &printed["process"], &printed["results"]), (0, &json!(process), &json!({"out": 42})));
    assert_eq!(printed["activities"]["completed"], 2, "{printed}");
}

#[test]
fn resume_needs_a_process_to_continue() {
    let folder = Folder::new();
    let (file, data) = (folder.write("answer.xml", ANSWER), folder.path("data"));
    assert_ended(&xavantes(&["run", "--resume", "--data-dir", &data], ""), 2, &["nothing to resume", &data]);
    assert!(!std::path::Path::new(&data).exists(), "nothing is made");
    assert_ended(&xavantes(&["run", "--resume"], ""), 2, &["--data-dir"]);
    assert_ended(&xavantes(&["run"], ""), 2, &["FILES"]);
    for more in [&[file.as_str()][..], &["-p", "a=1"], &["--params", "x"], &["--process", "X"]] {
        let ended = xavantes(&[&["run", "--resume", "--data-dir", &data], more].concat(), "");
        assert_ended(&ended, 2, &["--resume"]);
    }
    // A directory in which nothing was begun.
    drop(Running::node(&["--data-dir", &data]));
    assert_ended(&xavantes(&["run", "--resume", "--data-dir", &data], ""), 2, &["nothing to resume"]);
}

#[test]
fn every_setting_of_a_node_has_a_flag_a_variable_and_a_line_in_the_documentation() {
    let page = include_str!("../../docs/nodes.md");
    let help = xavantes(&["node", "--help"], "").stdout;
    let variable = |line: &str| Some(line.split_once("[env: XAVANTES_")?.1.split(['=', ']']).next()?.to_owned());
    let settings: Vec<String> = help.lines().filter_map(variable).collect();
    assert!(settings.len() > 15, "{help}");
    for setting in settings.iter().filter(|setting| *setting != "CONFIG") {
        let name = setting.to_lowercase().replace('_', "-");
        assert!(page.contains(&format!("| `{name}` | `--{name}` | `XAVANTES_{setting}` |")), "{name} is missing");
        assert!(help.contains(&format!("--{name}")), "{name} has another flag");
    }
    assert!(!help.contains("XAVANTES_PRINT_CONFIG") && !help.contains("XAVANTES_HELP"), "{help}");
}

#[test]
fn the_password_of_a_database_is_not_printed() {
    let url = "postgres://me:secret@127.0.0.1:1/db";
    for arguments in [&["--print-config"][..], &["--print-config", "--output", "json"]] {
        let ended = run(command(&[&["node"], arguments].concat()).env("XAVANTES_REPOSITORY", url), "");
        assert_eq!(ended.code, 0, "{ended:?}");
        assert!(ended.stdout.contains("me:***@") && !ended.stdout.contains("secret"), "{ended:?}");
    }
    let migrate = ["repository", "migrate", "--repository", url];
    let ended = run(&mut command(&migrate), "");
    assert!(ended.code == 3 && ended.stderr.contains("--repository-password-file"), "{ended:?}");
    assert!(!ended.stderr.contains("secret"), "{ended:?}");
    let ended = run(command(&migrate[..2]).env("XAVANTES_REPOSITORY", url), "");
    assert!(ended.code == 3 && !ended.stderr.contains("command line"), "{ended:?}");
}

//! Texts that would control the terminal of the person who reads them: in messages of failed activities, in their output and
//! in the names of nodes, types and files.

use std::process::{Command, Stdio};

use xavantes_tests::{Grid, free_address, program};

/// Writes to the clipboard, clears the screen, sets the title with an eight-bit sequence, and turns text around.
const ATTACK: &str = "\u{1b}]52;c;cm0gLXJm\u{7}\u{1b}[2J\u{9b}5n\u{202e}\u{8}";
/// The attack in a script of Lua.
const LUA_ATTACK: &str = r"\27]52;c;cm0gLXJm\7\27[2J\194\1555n\226\128\174\8";
/// The attack for `printf`, with an eight-bit byte that is no UTF-8.
const SHELL_ATTACK: &str = r"\033]52;c;cm0gLXJm\007\033[2J\302\2335n\342\200\256\010\233";

/// Runs a command at a terminal. Returns everything that the terminal got.
fn at_terminal(arguments: &[&str]) -> String {
    let quoted: Vec<String> = arguments.iter().map(|it| format!("'{}'", it.replace('\'', r"'\''"))).collect();
    let line = format!("{} {}", program().display(), quoted.join(" "));
    let mut command = Command::new("script");
    command.args(["-qec", &line, "/dev/null"]).env_remove("NO_COLOR").env_remove("RUST_LOG").stdin(Stdio::null());
    let ended = command.output().expect("script is part of util-linux, which these tests need");
    String::from_utf8_lossy(&ended.stdout).into_owned()
}

/// Whether this machine can open a terminal for a command.
fn has_terminal() -> bool {
    let found = Command::new("script").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    let found = found.is_ok_and(|status| status.success());
    if !found {
        eprintln!("SKIPPED: there is no program `script` (util-linux), so nothing can run at a terminal");
    }
    found
}

/// Asserts that a terminal obeys nothing in a text: of all sequences only those of the program are in it, which colour text, and
/// draw the progress of a process in place.
#[track_caller]
fn assert_harmless(what: &str, text: &str) {
    let mut rest = text;
    while let Some((_, after)) = rest.split_once('\u{1b}') {
        let sequence = after.strip_prefix('[').unwrap_or_default();
        let end = sequence.trim_start_matches(|c: char| c.is_ascii_digit() || c == ';');
        let own = end.starts_with(['m', 'A']) || sequence.starts_with(['J', 'K']);
        assert!(own, "{what}: {text:?}");
        rest = after;
    }
    for active in ['\u{7}', '\u{8}', '\u{9b}', '\u{202e}', '\u{7f}'] {
        assert!(!text.contains(active), "{what} has {active:?}: {text:?}");
    }
}

fn definition() -> String {
    format!(
        r#"<XAVANTES VERSION="1"><PROCESS_TYPE NAME="Bad"><OUT_PARAMETER NAME="said" TYPE="string"/><BODY>
        <ACTIVITY NAME="say" TYPE="Say"/><POST_CODE>said = "{LUA_ATTACK}"</POST_CODE></BODY></PROCESS_TYPE>
        <PROCESS_TYPE NAME="Worse"><BODY><ACTIVITY NAME="say" TYPE="Say"/><ACTIVITY NAME="fail" TYPE="Fail"/></BODY></PROCESS_TYPE>
        <ACTIVITY_TYPE NAME="Say"><CODE LANGUAGE="command"><ARG>sh</ARG><ARG>-c</ARG>
        <ARG>printf 'out {SHELL_ATTACK}\n'; printf 'err {SHELL_ATTACK}\n' >&amp;2</ARG></CODE></ACTIVITY_TYPE>
        <ACTIVITY_TYPE NAME="Fail"><CODE LANGUAGE="lua">print("{LUA_ATTACK}") error("{LUA_ATTACK}")</CODE></ACTIVITY_TYPE>
        </XAVANTES>"#
    )
}

#[test]
fn no_command_passes_sequences_on_to_a_terminal() {
    if !has_terminal() {
        return;
    }
    let mut grid = Grid::new();
    let address = grid.group("a", &[2], &[]);
    let file = grid.write("bad.xml", &definition());
    let process = grid.cli(&address, &["submit", &file, "--process", "Worse"]).ok().json()["process"].clone();
    let process = process.as_str().expect("a process has an id");
    grid.end(&address, process);
    grid.cli(&address, &["sources", "add", "s", "https://x/\u{1b}]52;c;cm0=\u{7}"]);
    let (say, fail) = (format!("{process}/say"), format!("{process}/fail"));
    for arguments in [
        &["tree", process][..],
        &["show", process],
        &["show", &fail],
        &["explain", &fail],
        &["results", process],
        &["wait", process],
        &["logs", &say],
        &["list"],
        &["nodes"],
        &["groups"],
        &["sources"],
        &["types"],
        &["show", ATTACK],
        &["validate", "/nowhere/\u{1b}]52;c;cm0=\u{7}.xml"],
        &["list", "--\u{1b}]52;c;cm0=\u{7}"],
        &["list", "--output", "json"],
        &["tree", process, "--output", "json"],
        &["logs", &say, "--output", "json"],
    ] {
        let seen = at_terminal(&[arguments, &["--coordinator", &address]].concat());
        assert_harmless(&arguments.join(" "), &seen);
    }
    let shown = at_terminal(&["show", process, "--coordinator", &address]);
    assert!(shown.contains("\\x1b]52;c;cm0gLXJm\\x07\\x1b[2J\\x9b5n\\u{202e}\\x08"), "{shown:?}");
    let logged = at_terminal(&["logs", &say, "--coordinator", &address]);
    assert!(logged.contains("out \\x1b]52;") && logged.contains("\\x08\\x9b\r\n"), "{logged:?}");
    assert!(!logged.contains('\u{fffd}'), "bytes that are no text became escapes: {logged:?}");
    // The user may want it.
    let raw = at_terminal(&["logs", &say, "--raw", "--coordinator", &address]);
    assert!(raw.contains("out \u{1b}]52;c;"), "{raw:?}");
    // What is no terminal gets the text as it is, except in JSON, where C1 and overrides are escaped as well.
    let piped = xavantes_tests::xavantes(&["logs", &say, "--coordinator", &address]);
    assert!(piped.stdout.contains("out \u{1b}]52;c;"), "{piped:?}");
    let json = grid.cli(&address, &["show", process]);
    assert_harmless("JSON", &json.stdout);
    assert!(json.json()["error"].as_str().is_some_and(|error| error.contains(ATTACK)), "{json:?}");
}

#[test]
fn neither_run_nor_the_log_of_a_node_pass_sequences_on() {
    if !has_terminal() {
        return;
    }
    let mut grid = Grid::new();
    let file = grid.write("bad.xml", &definition());
    for process in ["Bad", "Worse"] {
        let seen = at_terminal(&["run", &file, "--process", process, "--quiet"]);
        assert_harmless("run", &seen);
        // Results are shown in the notation of JSON.
        assert!(seen.contains("\\x1b]52;") || seen.contains("\\u001b]52;"), "{seen:?}");
    }
    // The node logs lines that activities print, and they do not begin lines of the log.
    let address = free_address();
    grid.start("a/all", &address, &[]);
    let forging = r#"<XAVANTES VERSION="1"><PROCESS_TYPE NAME="P"><BODY><ACTIVITY NAME="a" TYPE="A"/></BODY></PROCESS_TYPE>
        <ACTIVITY_TYPE NAME="A"><CODE LANGUAGE="lua">print("\27[2J\226\128\174 here") error("\n2026-01-01 forged")</CODE></ACTIVITY_TYPE>
        </XAVANTES>"#;
    let file = grid.write("forging.xml", forging);
    let process = grid.submit(&address, &file, &[]);
    grid.end(&address, &process);
    let log = grid.log("a/all");
    assert_harmless("the log", &log);
    assert!(log.contains(" here"), "{log}");
    assert!(!log.lines().any(|line| line.starts_with("2026-01-01 forged")), "{log}");
}

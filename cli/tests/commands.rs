//! Exit codes, messages, and the streams they are written to.

mod common;

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::{Ended, Folder, xavantes};
use serde_json::{Value as Json, json};

/// A process with parameters of several types that does nothing but answer.
const ANSWER: &str = r#"<XAVANTES VERSION="1">
  <PROCESS_TYPE NAME="Answer">
    <IN_PARAMETER NAME="count" TYPE="int"/>
    <IN_PARAMETER NAME="scale" TYPE="float"/>
    <IN_PARAMETER NAME="label" TYPE="string" DEFAULT="none"/>
    <IN_PARAMETER NAME="items" TYPE="list" OPTIONAL="true"/>
    <OUT_PARAMETER NAME="answer" TYPE="string"/>
    <OUT_PARAMETER NAME="product" TYPE="float"/>
    <BODY>
      <PRE_CODE>answer, product = label .. count, count * scale</PRE_CODE>
    </BODY>
  </PROCESS_TYPE>
</XAVANTES>
"#;

/// Three problems, in lines 3, 5 and 6.
const WRONG: &str = r#"<XAVANTES VERSION="1">
  <PROCESS_TYPE NAME="Main">
    <OUT_PARAMETER NAME="out" TYPE="integer"/>
    <BODY>
      <ACTIVTY NAME="work" TYPE="Work"/>
      <PRE_CODE>local x = 1 ot = 1</PRE_CODE>
    </BODY>
  </PROCESS_TYPE>
</XAVANTES>
"#;

fn process(body: &str) -> String {
    format!(
        r#"<XAVANTES VERSION="1">
<PROCESS_TYPE NAME="Main"><OUT_PARAMETER NAME="out" TYPE="int" OPTIONAL="true"/><BODY>{body}</BODY></PROCESS_TYPE>
<ACTIVITY_TYPE NAME="Talk"><OUT_PARAMETER NAME="n" TYPE="int"/>
<CODE LANGUAGE="lua">print("heard") n = 7</CODE></ACTIVITY_TYPE>
<ACTIVITY_TYPE NAME="Endless"><CODE LANGUAGE="lua">while true do end</CODE></ACTIVITY_TYPE>
<ACTIVITY_TYPE NAME="Broken"><CODE LANGUAGE="lua">
error("no luck")</CODE></ACTIVITY_TYPE>
</XAVANTES>"#
    )
}

/// Asserts that a command ended with this code, wrote nothing to standard output, and each of these to standard error.
#[track_caller]
fn assert_ended(ended: &Ended, code: i32, messages: &[&str]) {
    assert_eq!((ended.code, ended.stdout.as_str()), (code, ""), "{ended:?}");
    for message in messages {
        assert!(ended.stderr.contains(message), "{message:?} is not in:\n{}", ended.stderr);
    }
}

fn json(ended: &Ended) -> Json {
    serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {ended:?}"))
}

#[test]
fn a_valid_file_ends_with_0_and_silence() {
    let folder = Folder::new();
    let file = folder.write("answer.xml", ANSWER);
    assert_ended(&xavantes(&["validate", &file], ""), 0, &[]);
    assert_eq!(xavantes(&["validate", &file], "").stderr, "");
    let ended = xavantes(&["validate", &file, "--output", "json"], "");
    assert_eq!((ended.code, json(&ended)), (0, json!({"valid": true, "problems": []})));
}

#[test]
fn all_problems_of_a_file_are_printed_with_place_source_line_and_marker() {
    let folder = Folder::new();
    let file = folder.write("wrong.xml", WRONG);
    let ended = xavantes(&["validate", &file], "");
    assert_ended(&ended, 2, &["error[bad-value]", "error[unknown-element]", "error[unknown-name]"]);
    assert_ended(&ended, 2, &["did you mean \"ACTIVITY\"?", "\n3 problems\n"]);
    assert!(!ended.stderr.contains('\x1b'), "no colours in a pipe: {}", ended.stderr);
    let lines: Vec<&str> = ended.stderr.lines().collect();
    let place = lines.iter().position(|line| line.ends_with(&format!("{file}:3:37"))).expect("file:line:column");
    assert!(lines[place + 2].contains(r#"<OUT_PARAMETER NAME="out" TYPE="integer"/>"#), "{}", ended.stderr);
    let marked = lines[place + 2].find("integer").expect("the source line");
    assert_eq!(lines[place + 3].find("^^^^^^^"), Some(marked), "{}", ended.stderr);
}

#[test]
fn problems_are_printed_as_json_with_stable_names() {
    let folder = Folder::new();
    let file = folder.write("wrong.xml", WRONG);
    let ended = xavantes(&["validate", "--output", "json", &file], "");
    assert_eq!((ended.code, ended.stderr.as_str()), (2, ""));
    let printed = json(&ended);
    assert_eq!(printed["valid"], json!(false));
    let problems = printed["problems"].as_array().expect("a list");
    let codes: Vec<&Json> = problems.iter().map(|problem| &problem["code"]).collect();
    assert_eq!(codes, ["bad-value", "unknown-element", "unknown-name"]);
    for problem in problems {
        let members: Vec<&String> = problem.as_object().expect("an object").keys().collect();
        assert_eq!(members, ["code", "end", "file", "help", "message", "severity", "start"]);
        assert_eq!(problem["file"], json!(file));
    }
    assert_eq!(problems[0]["start"], json!({"line": 3, "column": 37}));
    assert_eq!(problems[0]["end"], json!({"line": 3, "column": 44}));
}

#[test]
fn columns_count_characters_in_text_and_in_json() {
    let folder = Folder::new();
    let body = "<PRE_CODE>local a = 'éé€😀' b = 1</PRE_CODE>";
    let file = folder.write("wide.xml", process(body));
    let printed = json(&xavantes(&["validate", "--output", "json", &file], ""));
    let start = &printed["problems"][0]["start"];
    let line = process(body).lines().nth(1).expect("there is a second line").to_owned();
    let column = line[..line.find("b = 1").expect("it is there")].chars().count() + 1;
    assert_eq!(*start, json!({"line": 2, "column": column}), "{printed}");
    assert_ended(&xavantes(&["validate", &file], ""), 2, &[&format!("{file}:2:{column}\n")]);
}

#[test]
fn files_given_together_use_each_others_types() {
    let folder = Folder::new();
    let work = r#"<ACTIVITY NAME="work" TYPE="Work"/>"#;
    let main =
        format!(r#"<XAVANTES VERSION="1"><PROCESS_TYPE NAME="Main"><BODY>{work}</BODY></PROCESS_TYPE></XAVANTES>"#);
    let main = folder.write("main.xml", main);
    let types = r#"<XAVANTES VERSION="1"><ACTIVITY_TYPE NAME="Work"><CODE LANGUAGE="lua"/></ACTIVITY_TYPE></XAVANTES>"#;
    let types = folder.write("types.xml", types);
    assert_ended(&xavantes(&["validate", &main, &types], ""), 0, &[]);
    assert_ended(&xavantes(&["validate", &types, &main], ""), 0, &[]);
    assert_ended(&xavantes(&["validate", &main], ""), 2, &["there is no activity type \"Work\"", "1 problem\n"]);
    let twice = xavantes(&["validate", &types, &types], "");
    assert_ended(&twice, 2, &["duplicate-name"]);
}

#[test]
fn a_minus_is_standard_input() {
    assert_ended(&xavantes(&["validate", "-"], ANSWER), 0, &[]);
    assert_ended(&xavantes(&["validate", "-"], WRONG), 2, &["<stdin>:3:37"]);
    let ended = xavantes(&["run", "-", "-p", "count=2", "-p", "scale=1.5"], ANSWER);
    assert_eq!((ended.code, ended.stdout.as_str()), (0, "answer = \"none2\"\nproduct = 3.0\n"));
}

#[test]
fn files_that_cannot_be_read_are_reported() {
    let folder = Folder::new();
    let missing = folder.write("there.xml", "").replace("there", "missing");
    let directory = env!("CARGO_MANIFEST_DIR");
    let latin = folder.write("latin.xml", b"<XAVANTES VERSION=\"1\"><!-- \xE9 --></XAVANTES>");
    let wide = folder.write("wide.xml", [0xFF, 0xFE, b'<', 0]);
    let large = folder.write("large.xml", vec![b' '; 17 << 20]);
    for command in ["validate", "run"] {
        let ended = xavantes(&[command, &missing], "");
        assert_ended(&ended, 2, &[&format!("error: cannot read {missing}: ")]);
        assert_ended(&xavantes(&[command, directory], ""), 2, &[&format!("error: cannot read {directory}: ")]);
        assert_ended(&xavantes(&[command, &latin], ""), 2, &[&latin, "UTF-8", "27"]);
        assert_ended(&xavantes(&[command, &wide], ""), 2, &[&wide, "UTF-16"]);
        assert_ended(&xavantes(&[command, &large], ""), 2, &[&format!("error: {large} is larger than 16 MiB")]);
        assert_ended(&xavantes(&[command, &folder.write("empty.xml", "")], ""), 2, &["no root element"]);
    }
    let ended = xavantes(&["validate", &missing, &latin, &large], "");
    assert_ended(&ended, 2, &[&missing, &latin, &large]);
}

#[test]
fn a_file_may_be_called_like_standard_input() {
    let folder = Folder::new();
    folder.write("<stdin>", WRONG);
    let output = Command::new(env!("CARGO_BIN_EXE_xavantes"))
        .args(["validate", "<stdin>"])
        .current_dir(std::path::Path::new(&folder.write("here", "")).parent().expect("it is in the folder"))
        .stdin(Stdio::null())
        .output()
        .expect("the program runs");
    assert!(String::from_utf8_lossy(&output.stderr).contains("3 problems"), "{output:?}");
}

#[test]
fn the_schema_is_printed_as_it_is_and_is_well_formed() {
    let ended = xavantes(&["schema"], "");
    assert_eq!((ended.code, ended.stderr.as_str()), (0, ""));
    assert_eq!(ended.stdout, xavantes_model::SCHEMA);
    let schema = roxmltree::Document::parse(&ended.stdout).expect("it is well-formed");
    assert_eq!(schema.root_element().tag_name().name(), "schema");
}

#[test]
fn completions_are_printed_for_the_usual_shells() {
    for (shell, sign) in [("bash", "complete -F"), ("zsh", "#compdef xavantes"), ("fish", "complete -c xavantes")] {
        let ended = xavantes(&["completions", shell], "");
        assert_eq!((ended.code, ended.stderr.as_str()), (0, ""), "{shell}");
        assert!(ended.stdout.contains(sign) && ended.stdout.contains("validate"), "{shell}: {}", ended.stdout);
    }
    assert_ended(&xavantes(&["completions", "dos"], ""), 2, &["dos"]);
}

#[test]
fn bad_usage_ends_with_2() {
    for arguments in [&["validate"][..], &["run"], &["fly"], &["schema", "--fast"], &[]] {
        assert_eq!(xavantes(arguments, "").code, 2, "{arguments:?}");
    }
    for option in [["--workers", "0"], ["--timeout", "5"], ["-p", "count"], ["--output", "xml"]] {
        assert_ended(&xavantes(&["run", "x.xml", option[0], option[1]], ""), 2, &[option[0]]);
    }
    assert_eq!(xavantes(&["--version"], "").code, 0);
    assert_eq!(xavantes(&["--help"], "").code, 0);
}

#[test]
fn readers_that_go_away_are_no_error() {
    let folder = Folder::new();
    let (answer, wrong) = (folder.write("answer.xml", ANSWER), folder.write("wrong.xml", WRONG));
    let talk = folder.write("talk.xml", process(r#"<ACTIVITY NAME="talk" TYPE="Talk"/>"#));
    for (arguments, code) in [
        (&["schema"][..], 0),
        (&["completions", "bash"], 0),
        (&["--help"], 0),
        (&["run", &answer, "-p", "count=1", "-p", "scale=1"], 0),
        (&["run", &answer], 2),
        (&["run", &talk], 0),
        (&["validate", &wrong], 2),
        (&["validate", &wrong, "--output", "json"], 2),
    ] {
        // Both streams go to a pipe without a reader, as in `2>&1 | head -0`.
        let (reader, writer) = std::io::pipe().expect("pipes can be made");
        drop(reader);
        let status = Command::new(env!("CARGO_BIN_EXE_xavantes"))
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(writer.try_clone().expect("pipes can be shared"))
            .stderr(writer)
            .status()
            .expect("the program runs");
        assert_eq!(status.code(), Some(code), "{arguments:?}");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_is_an_error() {
    let full = std::fs::File::options().write(true).open("/dev/full").expect("Linux has it");
    let output = Command::new(env!("CARGO_BIN_EXE_xavantes"))
        .arg("schema")
        .stdout(full)
        .stderr(Stdio::piped())
        .output()
        .expect("the program runs");
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).starts_with("error: cannot write: "), "{output:?}");
}

#[test]
fn an_unknown_process_type_is_reported_with_a_suggestion() {
    let folder = Folder::new();
    let file = folder.write("answer.xml", ANSWER);
    let ended = xavantes(&["run", &file, "--process", "Anwser"], "");
    assert_ended(&ended, 2, &["there is no process type \"Anwser\"", "did you mean \"Answer\"?"]);
    let ended = xavantes(&["run", &file, "--process", "Something"], "");
    assert_ended(&ended, 2, &["there is no process type \"Something\"", "Answer"]);
}

#[test]
fn the_process_type_to_run_must_be_clear() {
    let folder = Folder::new();
    let file = |types: &str| folder.write("types.xml", format!(r#"<XAVANTES VERSION="1">{types}</XAVANTES>"#));
    let one = r#"<PROCESS_TYPE NAME="One"><BODY/></PROCESS_TYPE>"#;
    let other = r#"<PROCESS_TYPE NAME="Two"><BODY/></PROCESS_TYPE>"#;
    let ended = xavantes(&["run", &file(&format!("{one}{other}"))], "");
    assert_ended(&ended, 2, &["--process", "One, Two"]);
    assert_eq!(xavantes(&["run", &file(&format!("{one}{other}")), "--process", "Two"], "").code, 0);
    // The only one that no other calls is meant.
    let caller = r#"<PROCESS_TYPE NAME="Two"><BODY><PROCESS NAME="p" TYPE="One"/></BODY></PROCESS_TYPE>"#;
    assert_eq!(xavantes(&["run", &file(&format!("{one}{caller}"))], "").code, 0);
    assert_ended(&xavantes(&["run", &file("")], ""), 2, &["no process type"]);
}

#[test]
fn all_problems_with_parameters_are_reported_at_once() {
    let folder = Folder::new();
    let file = folder.write("answer.xml", ANSWER);
    assert_ended(&xavantes(&["run", &file], ""), 2, &["\"count\" is missing", "\"scale\" is missing"]);
    let ended = xavantes(&["run", &file, "-p", "count=many", "-p", "lable=x", "-p", "answer=x", "-p", "items=[1"], "");
    assert_ended(&ended, 2, &["parameter \"count\": expected int, got \"many\"", "no IN parameter \"lable\""]);
    assert_ended(&ended, 2, &["did you mean \"label\"?", "no IN parameter \"answer\"", "parameter \"items\": "]);
    assert_ended(&ended, 2, &["parameter \"scale\" is missing"]);
    assert_eq!(ended.stderr.lines().count(), 5, "{}", ended.stderr);
    assert!(ended.stderr.lines().all(|line| line.starts_with("error: ")), "{}", ended.stderr);

    let parameters = json!({"count": 1.5, "lable": "x", "items": {}, "label": 5});
    let parameters = folder.write("parameters.json", parameters.to_string());
    let ended = xavantes(&["run", &file, "--params", &parameters, "-p", "count=x"], "");
    assert_ended(&ended, 2, &["\"count\": expected int, got 1.5", "\"count\": expected int, got \"x\"", "\"lable\""]);
    assert_ended(&ended, 2, &["did you mean \"label\"?", "\"items\": expected list", "\"label\": expected string"]);
    assert_ended(&ended, 2, &["\"scale\" is missing"]);
}

#[test]
fn parameters_come_from_a_file_and_the_command_line_wins() {
    let folder = Folder::new();
    let file = folder.write("answer.xml", ANSWER);
    let parameters = folder.write("parameters.json", r#"{"count": 3, "scale": 2, "label": "x", "items": null}"#);
    let ended = xavantes(&["run", &file, "--params", &parameters, "-p", "label=y=z", "-p", "label=a b"], "");
    assert_eq!((ended.code, ended.stdout.as_str()), (0, "answer = \"a b3\"\nproduct = 6.0\n"), "{ended:?}");
}

#[test]
fn a_file_of_parameters_must_be_one_object() {
    let folder = Folder::new();
    let file = folder.write("answer.xml", ANSWER);
    for (content, message) in [
        ("[1]", "expected one JSON object"),
        ("5", "expected one JSON object"),
        ("{", "line 1"),
        ("", "line 1"),
        ("{\"count\": 99999999999999999999}", "count"),
    ] {
        let parameters = folder.write("parameters.json", content);
        let ended = xavantes(&["run", &file, "--params", &parameters, "-p", "scale=1"], "");
        assert_ended(&ended, 2, &[message]);
        if !message.contains("count") {
            assert_ended(&ended, 2, &[&parameters]);
        }
    }
    assert_ended(&xavantes(&["run", &file, "--params", "/nowhere.json"], ""), 2, &["cannot read /nowhere.json"]);
}

#[test]
fn a_definition_with_problems_does_not_run() {
    let folder = Folder::new();
    let file = folder.write("wrong.xml", WRONG);
    assert_ended(&xavantes(&["run", &file], ""), 2, &["3 problems"]);
    let ended = xavantes(&["run", &file, "--output", "json"], "");
    assert_eq!((ended.code, &json(&ended)["valid"]), (2, &json!(false)));
}

#[test]
fn a_process_that_fails_ends_with_1_and_reports_path_and_line() {
    let folder = Folder::new();
    let body = r#"<BLOCK NAME="outer"><ACTIVITY NAME="work" TYPE="Broken"/></BLOCK>"#;
    let file = folder.write("fails.xml", process(body));
    assert_ended(
        &xavantes(&["run", &file], ""),
        1,
        &["error: Main-", "/outer/work (fails.xml:7): no luck, on local\n"],
    );
    let ended = xavantes(&["run", &file, "--output", "json"], "");
    let printed = json(&ended);
    assert_eq!((ended.code, &printed["state"], &printed["results"]), (1, &json!("failed"), &json!({})));
    assert!(
        printed["error"].as_str().is_some_and(|error| error.contains("/outer/work (fails.xml:7): no luck")),
        "{printed}"
    );
    assert!(ended.stderr.contains("/outer/work (fails.xml:7): no luck"), "{ended:?}");
    let file = folder.write("code.xml", process("<PRE_CODE>\n\nerror('bad start')</PRE_CODE>"));
    assert_ended(&xavantes(&["run", &file], ""), 1, &["error: Main-", " (code.xml:4): bad start\n"]);
}

#[test]
fn a_time_out_ends_an_endless_process() {
    let folder = Folder::new();
    let endless = r#"<ACTIVITY NAME="work" TYPE="Endless"/>"#;
    for (what, body) in [
        ("an activity", endless.to_owned()),
        ("activities", format!(r#"<PARFOR NAME="all" TO="1000"><ITERATE>{endless}</ITERATE></PARFOR>"#)),
        ("a loop without activities", r#"<WHILE NAME="on" CONDITION="true"><ITERATE/></WHILE>"#.to_owned()),
        ("a parallel loop without activities", r#"<PARWHILE NAME="on" CONDITION="true"><ITERATE/></PARWHILE>"#.into()),
    ] {
        let file = folder.write("endless.xml", process(&body));
        let began = Instant::now();
        let ended = xavantes(&["run", &file, "--timeout", "200ms", "--workers", "2"], "");
        assert_ended(&ended, 124, &["error: time is out"]);
        // Far more than it needs, but much less than any other limit.
        assert!(began.elapsed() < Duration::from_secs(20), "{what} took {:?}", began.elapsed());
        assert!(began.elapsed() >= Duration::from_millis(200), "{what} took {:?}", began.elapsed());
    }
    let ended =
        xavantes(&["run", &folder.write("e.xml", process(endless)), "--timeout", "1ms", "--output", "json"], "");
    assert_eq!((ended.code, &json(&ended)["state"]), (124, &json!("cancelled")));
}

#[test]
fn a_time_out_that_is_not_reached_changes_nothing() {
    let folder = Folder::new();
    let file = folder.write("talk.xml", process("<PRE_CODE>out = 1</PRE_CODE>"));
    let ended = xavantes(&["run", &file, "--timeout", "1h"], "");
    assert_eq!((ended.code, ended.stdout.as_str(), ended.stderr.as_str()), (0, "out = 1\n", ""));
}

#[test]
fn results_go_to_standard_output_and_nothing_else_does() {
    let folder = Folder::new();
    let body = r#"<ACTIVITY NAME="talk" TYPE="Talk"/><POST_CODE>out = talk.n</POST_CODE>"#;
    let file = folder.write("talk.xml", process(body));
    let ended = xavantes(&["run", &file], "");
    assert_eq!((ended.code, ended.stdout.as_str()), (0, "out = 7\n"));
    let said = ended.stderr.strip_prefix("Main-").and_then(|rest| rest.split_once('/'));
    assert_eq!(said.map(|(_, rest)| rest), Some("talk: heard\n"), "{ended:?}");

    let ended = xavantes(&["run", &file, "--output", "json"], "");
    let printed = json(&ended);
    let members: Vec<&String> = printed.as_object().expect("an object").keys().collect();
    assert_eq!(members, ["activities", "elapsed_seconds", "process", "results", "state"]);
    assert_eq!((&printed["state"], &printed["results"]), (&json!("completed"), &json!({"out": 7})));
    assert_eq!(printed["activities"], json!({"completed": 1, "failed": 0, "attempts": 1, "reused": 0}));
    assert!(printed["process"].as_str().is_some_and(|id| id.starts_with("Main-")), "{printed}");
    assert!(printed["elapsed_seconds"].as_f64().is_some_and(|seconds| seconds > 0.0), "{printed}");
    assert_eq!(ended.stdout.lines().count(), 1, "one document");
}

#[test]
fn quiet_leaves_only_results_and_errors() {
    let folder = Folder::new();
    let talk = r#"<ACTIVITY NAME="talk" TYPE="Talk"/><POST_CODE>out = talk.n</POST_CODE>"#;
    let file = folder.write("talk.xml", process(talk));
    for quiet in ["-q", "--quiet"] {
        let ended = xavantes(&["run", &file, quiet], "");
        assert_eq!((ended.code, ended.stdout.as_str(), ended.stderr.as_str()), (0, "out = 7\n", ""));
    }
    let file = folder.write("fails.xml", process(r#"<ACTIVITY NAME="work" TYPE="Broken"/>"#));
    assert_ended(&xavantes(&["-q", "run", &file], ""), 1, &["no luck"]);
    assert_ended(&xavantes(&["-q", "validate", "-"], WRONG), 2, &["3 problems"]);
}

#[test]
fn a_process_that_can_never_run_here_fails_instead_of_waiting() {
    let folder = Folder::new();
    let text = process(r#"<ACTIVITY NAME="a" TYPE="Odd"/>"#).replace(
        "</XAVANTES>",
        r#"<ACTIVITY_TYPE NAME="Odd"><CODE LANGUAGE="cobol">1</CODE></ACTIVITY_TYPE></XAVANTES>"#,
    );
    let ended = xavantes(&["run", &folder.write("odd.xml", &text)], "");
    assert_ended(&ended, 1, &["a: no connected worker has an interpreter for \"cobol\"", "no other workers"]);
}

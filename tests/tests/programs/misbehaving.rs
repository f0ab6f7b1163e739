//! Programs that misbehave: each gets a clear error and leaves nothing behind.

use serde_json::json;

use crate::kit::{TestWorker, assert_tells, sh};

#[test]
fn each_kind_of_misbehaviour_has_a_clear_error() {
    let mut place = TestWorker::new(&[]);
    let failures: &[(&str, &[&str])] = &[
        ("kill -SEGV $$", &["the sh code was ended by signal 11 (SIGSEGV"]),
        ("kill -KILL $$", &["the sh code was ended by signal 9 (SIGKILL"]),
        ("echo before; echo why >&2; exit 4", &["the sh code failed, on w, exit status 4\nwhy"]),
        ("echo only this; exit 1", &["exit status 1\nonly this"]),
        ("printf 'a\\377b' >&2; exit 1", &["exit status 1\na\u{fffd}b"]),
        ("exec 0<&- 1>&- 2>&-; sleep 0.2; exit 5", &["exit status 5"]),
        ("echo '{' > $XAVANTES_RESULTS", &["the results file is not JSON"]),
        ("echo '[]' > $XAVANTES_RESULTS", &["the results file is not a JSON object"]),
        ("ln -s /etc/passwd $XAVANTES_RESULTS", &["the results file is a symbolic link"]),
        ("mkfifo $XAVANTES_RESULTS", &["the results file is not a file"]),
        ("mkdir $XAVANTES_RESULTS", &["the results file is not a file"]),
        ("truncate -s 100M $XAVANTES_RESULTS", &["the results file has 100 MiB, at most 16 MiB are read"]),
        ("mkdir -p a/b; touch a/b/c; chmod 0 a/b a; rm -rf $XAVANTES_DIRECTORY/tmp; exit 1", &["exit status 1"]),
        (
            "cd /; mv $XAVANTES_DIRECTORY/work $XAVANTES_DIRECTORY/w; ln -s / $XAVANTES_DIRECTORY/work; exit 1",
            &["exit status 1"],
        ),
    ];
    for (script, words) in failures {
        let error = place.failing(&sh(script));
        assert_tells(&error, words);
    }
    assert!(std::path::Path::new("/etc/passwd").exists());
}

#[test]
fn a_program_that_cannot_start_has_a_clear_error() {
    let mut place = TestWorker::new(&[]);
    let command = |arguments: &[&str]| {
        let arguments: String = arguments.iter().map(|it| format!("<ARG>{it}</ARG>")).collect();
        format!("<CODE LANGUAGE=\"command\">{arguments}</CODE>")
    };
    let big = "${string.rep('x', 200000)}";
    let cases: &[(&[&str], &[&str])] = &[
        (&["no-such-program"], &["cannot start \"no-such-program\": there is no such program on this node"]),
        (&["/no/such/program"], &["cannot start \"/no/such/program\": there is no such program"]),
        (&["/etc/passwd"], &["cannot start \"/etc/passwd\": it may not be executed"]),
        (&["echo", "a${'\\0'}b"], &["argument 1 has a NUL character in it"]),
        (&["echo", big], &["argument 1 has 200000 bytes", "XAVANTES_PARAMETERS"]),
        (&["${''}"], &["the command has no program"]),
    ];
    for (arguments, words) in cases {
        let error = place.failing(&command(arguments));
        assert_tells(&error, words);
    }
    let error = place.failing(&format!("<ENV NAME=\"A\" VALUE=\"a${{'\\0'}}\"/>{}", command(&["true"])));
    assert_tells(&error, &["the environment variable A has a NUL character in it"]);
}

#[test]
fn values_that_are_too_large_for_the_environment_are_in_the_parameters_file() {
    let mut place = TestWorker::new(&[]);
    let process = place.submit_with(
        "text=\"${string.rep('x', 3000000)}\"",
        &format!(
            "<IN_PARAMETER TYPE=\"string\" NAME=\"text\"/><OUT_PARAMETER TYPE=\"string\" NAME=\"seen\" FROM=\"stdout-trimmed\"/>{}",
            sh("echo $(env | grep -c ^text=) ${#text} $(wc -c < $XAVANTES_PARAMETERS)")
        ),
    );
    let ended = place.grid.end(&place.address, &process);
    assert_tells(ended["results"]["seen"].as_str().expect("it ran"), &["0 3000000 30000"]);
}

#[test]
fn a_program_that_writes_without_end_runs_until_its_timeout() {
    let mut place = TestWorker::new(&["--log-mib", "1"]);
    let before = place.descriptors();
    let process = place.submit_with("TIMEOUT=\"3s\"", &sh("yes"));
    let ended = place.grid.end(&place.address, &process);
    assert_eq!(ended["state"], "failed", "{ended}");
    assert!(place.grid.peak_mib("a/w") < 300, "{} MiB", place.grid.peak_mib("a/w"));
    place.assert_clean(before);
    // The same with a pipe that the program itself closes.
    assert_eq!(place.sh("yes | head -n 1")["state"], json!("completed"));
}

#[test]
fn a_program_has_ended_although_its_children_run() {
    let mut place = TestWorker::new(&[]);
    let before = place.descriptors();
    let ended = place.sh("sleep 300 & sleep 300 & exit 0");
    assert_eq!(ended["state"], "completed", "{ended}");
    place.assert_clean(before);
}

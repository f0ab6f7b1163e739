//! Parameters, environment and results of programs.

use serde_json::json;
use xavantes_tests::{Grid, until};

use crate::kit::{TestWorker, assert_tells, sh};

#[test]
fn scripts_run_in_all_installed_languages() {
    let mut place = TestWorker::new(&[]);
    let worker = place.grid.nodes(&place.address).into_iter().find(|node| node["node"] == "w").expect("it is there");
    let languages = worker["interpreters"].as_array().expect("workers announce their interpreters").clone();
    let code = [
        ("sh", "printf %s \"$word\" | wc -c"),
        ("bash", "echo ${#word}"),
        ("python", "import os\nprint(len(os.environ['word']))"),
        ("perl", "print length($ENV{word});"),
        ("node", "console.log(process.env.word.length)"),
        ("R", "cat(nchar(Sys.getenv('word')))"),
        ("ruby", "puts ENV['word'].length"),
        ("julia", "println(length(ENV[\"word\"]))"),
    ];
    let mut seen = 0;
    for (language, code) in code {
        if !languages.contains(&json!(language)) {
            eprintln!("SKIPPED: this machine has no interpreter for {language}");
            continue;
        }
        seen += 1;
        let types = format!(
            "<IN_PARAMETER TYPE=\"string\" NAME=\"word\" DEFAULT=\"seven!!\"/>
            <OUT_PARAMETER TYPE=\"int\" NAME=\"length\" FROM=\"stdout-trimmed\"/>
            <CODE LANGUAGE=\"{language}\"><![CDATA[{code}]]></CODE>"
        );
        let ended = place.run(&types);
        assert_eq!(ended["results"]["length"], 7, "{language}: {ended}");
    }
    assert!(seen >= 2, "every machine has sh and bash");
}

#[test]
fn a_script_may_be_indented_like_the_document_around_it() {
    let mut place = TestWorker::new(&[]);
    let ended = place.run(
        "<OUT_PARAMETER TYPE=\"string\" NAME=\"text\" FROM=\"stdout\"/>
            <CODE LANGUAGE=\"bash\">
              if true; then

                cat &lt;&lt;END
              a
                b
END
              fi
            </CODE>",
    );
    // One line has no indentation, so the script stays as it is written.
    assert_eq!(ended["results"]["text"], "              a\n                b\n", "{ended}");
    let ended = place.run(
        "<OUT_PARAMETER TYPE=\"string\" NAME=\"text\" FROM=\"stdout\"/>
            <CODE LANGUAGE=\"bash\">
              cat &lt;&lt;END
              a
                b
              END
            </CODE>",
    );
    assert_eq!(ended["results"]["text"], "a\n  b\n", "{ended}");
}

#[test]
fn no_output_is_lost_even_if_a_program_ends_fast() {
    const COUNT: usize = 200;
    let mut grid = Grid::new();
    let address = grid.group("a", &[8], &[]);
    for (code, least) in [
        ("echo $i", 1),
        ("sleep 0.0$((i % 3)); echo $i", 1),
        ("seq 20000", 108_894),
        ("seq 20000; sleep 0.0$((i % 3))", 108_894),
        ("(sleep 0.01; seq 10000) &amp; wait; echo $i", 48_895),
    ] {
        let document = format!(
            r#"<XAVANTES VERSION="1"><PROCESS_TYPE NAME="All"><OUT_PARAMETER TYPE="list" NAME="short"/><BODY>
              <PARFOR NAME="all" TO="{COUNT}" COLLECT="string.len(write.text)"><ITERATE>
                <ACTIVITY TYPE="Write" NAME="write" i="${{counter}}"/></ITERATE></PARFOR>
              <POST_CODE>short = {{}}
                for _, length in all.results do if length &lt; {least} then table.insert(short, length) end end</POST_CODE>
            </BODY></PROCESS_TYPE>
            <ACTIVITY_TYPE NAME="Write"><IN_PARAMETER TYPE="int" NAME="i"/>
              <OUT_PARAMETER TYPE="string" NAME="text" FROM="stdout"/>
              <CODE LANGUAGE="bash">{code}</CODE></ACTIVITY_TYPE></XAVANTES>"#
        );
        let file = grid.write("all.xml", &document);
        let process = grid.submit(&address, &file, &[]);
        let ended = grid.end(&address, &process);
        assert_eq!(ended["results"]["short"], json!([]), "{code}: {ended}");
    }
}

#[test]
fn parameters_arrive_by_environment_and_file_and_results_return() {
    let mut place = TestWorker::new(&[]);
    let types = format!(
        "<IN_PARAMETER TYPE=\"int\" NAME=\"n\" DEFAULT=\"41\"/>
        <IN_PARAMETER TYPE=\"list\" NAME=\"items\" DEFAULT='[1, \"two\"]'/>
        <IN_PARAMETER TYPE=\"string\" NAME=\"none\" OPTIONAL=\"true\"/>
        <IN_PARAMETER TYPE=\"string\" NAME=\"PATH\" DEFAULT=\"/nowhere\"/>
        <OUT_PARAMETER TYPE=\"int\" NAME=\"next\"/>
        <OUT_PARAMETER TYPE=\"string\" NAME=\"seen\"/>
        <OUT_PARAMETER TYPE=\"map\" NAME=\"given\"/>
        <OUT_PARAMETER TYPE=\"int\" NAME=\"status\" FROM=\"exit-status\"/>
        <OUT_PARAMETER TYPE=\"list\" NAME=\"printed\" FROM=\"stdout-json\"/>
        <ENV NAME=\"DOUBLE\" VALUE=\"${{n * 2}}\"/><ENV NAME=\"PLAIN\" VALUE=\"a 'b' &quot;\"/>
        <REQUIRES CPUS=\"2\" MEMORY=\"64MiB\"/>{}",
        sh("
            cat > \"$XAVANTES_RESULTS\" <<END
            {\"next\": $((n + 1)), \"given\": $(cat $XAVANTES_PARAMETERS), \"status\": 7,
             \"seen\": \"$items|${none-unset}|$DOUBLE|$PLAIN|$XAVANTES_ATTEMPT|$XAVANTES_NODE|$XAVANTES_CPUS|$XAVANTES_MEMORY\"}
END
            sed -i 's/\\[1,\\(.*\\)\\]|/LIST|/; s/\"|1|/|1|/' \"$XAVANTES_RESULTS\"
            case $XAVANTES_PATH in P-*/work) printf '[\"%s\", \"%s\"]' \"${PWD##*/}\" \"${HOME##*/}\" ;; esac
            exit 3
        ")
        .replace("<CODE ", "<CODE SUCCESS=\"0,3\" ")
    );
    let ended = place.run(&types);
    assert_eq!(ended["state"], "completed", "{ended}");
    let results = &ended["results"];
    assert_eq!(results["next"], 42, "{ended}");
    assert_eq!(results["status"], 3, "what FROM says comes first: {ended}");
    assert_eq!(results["printed"], json!(["work", "work"]), "{ended}");
    assert_eq!(results["given"]["items"], json!([1, "two"]), "{ended}");
    assert_eq!(results["given"]["PATH"], "/nowhere", "{ended}");
    assert_eq!(results["seen"], "LIST|unset|82|a 'b' |1|w|2|67108864", "{ended}");
}

#[test]
fn the_environment_has_only_declared_and_passed_variables() {
    let mut place = TestWorker::new(&["--pass-environment", "LICENCE,TZ"]);
    // The node itself has more variables.
    let types = format!(
        "<OUT_PARAMETER TYPE=\"string\" NAME=\"names\" FROM=\"stdout-trimmed\"/>{}",
        sh("env | sed 's/=.*//' | sort | tr '\\n' ' '")
    );
    let ended = place.run(&types);
    let names: Vec<&str> = ended["results"]["names"].as_str().expect("it ran").split(' ').collect();
    let own = ["HOME", "LANG", "PATH", "PWD", "TMPDIR", "TZ", "LICENCE", "_", "SHLVL", "OLDPWD"];
    for name in &names {
        assert!(own.contains(name) || name.starts_with("XAVANTES_"), "{name} in {names:?}");
    }
    assert!(["HOME", "PATH", "TMPDIR"].iter().all(|name| names.contains(name)), "{names:?}");
}

#[test]
fn standard_output_becomes_a_result_as_is_trimmed_or_parsed() {
    let mut place = TestWorker::new(&[]);
    let types = |ty: &str, from: &str, script: &str| {
        format!("<OUT_PARAMETER TYPE=\"{ty}\" NAME=\"x\" FROM=\"{from}\"/>{}", sh(script))
    };
    for (ty, from, script, expected) in [
        ("string", "stdout", "printf ' a\\n\\n'", json!(" a\n\n")),
        ("string", "stdout-trimmed", "printf ' a b\\n\\n'", json!("a b")),
        ("float", "stdout-trimmed", "echo 1.5", json!(1.5)),
        ("boolean", "stdout-trimmed", "echo true", json!(true)),
        ("map", "stdout-json", "echo '{\"a\": [1]}'", json!({"a": [1]})),
        ("string", "stdout", "printf 'a\\377b'", json!("a\u{fffd}b")),
        ("bytes", "stdout", "printf '\\001\\377x'", json!({"$bytes": "01ff78"})),
    ] {
        let ended = place.run(&types(ty, from, script));
        assert_eq!(ended["results"]["x"], expected, "{ended}");
    }
    let error = place.failing(&types("int", "stdout-trimmed", "echo many"));
    assert_tells(&error, &["result \"x\"", "expected int, got \"many\""]);
    let error = place.failing(&types("int", "stdout-json", "echo {"));
    assert_tells(&error, &["result \"x\"", "what the program printed is not JSON"]);
    let error = place.failing(&types("string", "stdout", "head -c 20000000 /dev/zero"));
    assert_tells(&error, &["it printed 19.1 MiB, as a result at most 16 MiB are taken"]);
}

#[test]
fn a_result_that_a_program_does_not_write_keeps_its_value_or_is_an_error() {
    let mut place = TestWorker::new(&[]);
    let document = r#"<XAVANTES VERSION="1"><PROCESS_TYPE NAME="P"><OUT_PARAMETER TYPE="list" NAME="n"/><BODY>
        <ACTIVITY TYPE="Keep" NAME="keep" n="4"/><ACTIVITY TYPE="Change" NAME="change" n="4"/>
        <POST_CODE>n = {keep.n, change.n}</POST_CODE></BODY></PROCESS_TYPE>
        <ACTIVITY_TYPE NAME="Keep"><INOUT_PARAMETER TYPE="int" NAME="n"/><CODE LANGUAGE="sh">:</CODE></ACTIVITY_TYPE>
        <ACTIVITY_TYPE NAME="Change"><INOUT_PARAMETER TYPE="int" NAME="n"/>
        <CODE LANGUAGE="sh">echo '{"n": 5}' > $XAVANTES_RESULTS</CODE></ACTIVITY_TYPE></XAVANTES>"#;
    let file = place.grid.write("inout.xml", document);
    let process = place.grid.submit(&place.address, &file, &[]);
    assert_eq!(place.grid.end(&place.address, &process)["results"], json!({"n": [4, 5]}));
    let types = |script: &str| format!("<OUT_PARAMETER TYPE=\"int\" NAME=\"count\"/>{}", sh(script));
    let error = place.failing(&types("echo '{\"Count\": 1}' > $XAVANTES_RESULTS"));
    assert_tells(&error, &["result \"count\": the program did not give it: the results file has \"Count\""]);
    let error = place.failing(&types("echo 1"));
    assert_tells(&error, &["result \"count\"", "XAVANTES_RESULTS", "FROM=\"stdout\""]);
    let error = place.failing(&types("echo '{\"count\": NaN}' > $XAVANTES_RESULTS"));
    assert_tells(&error, &["the results file is not JSON", "NaN and Infinity are not JSON"]);
}

#[test]
fn the_exit_status_decides_about_success_and_retries() {
    let mut place = TestWorker::new(&[]);
    let count = place.sign("count");
    let script = |last: u32| {
        sh(&format!("echo x >> {0}; [ $(wc -l < {0}) -lt 3 ] && exit 75; exit {last}", count.display()))
            .replace("<CODE ", "<CODE RETRY=\"75, 100-110\" SUCCESS=\"0,3\" ")
    };
    let process = place.submit_with("RETRIES=\"10\"", &script(3));
    let ended = place.grid.end(&place.address, &process);
    assert_eq!((&ended["state"], &ended["activities"]["attempts"]), (&json!("completed"), &json!(3)), "{ended}");
    // Any other status is final, however many retries are left.
    std::fs::remove_file(&count).expect("it was written");
    let process = place.submit_with("RETRIES=\"10\"", &script(9));
    let ended = place.grid.end(&place.address, &process);
    assert_eq!((&ended["state"], &ended["activities"]["attempts"]), (&json!("failed"), &json!(3)), "{ended}");
    assert_tells(ended["error"].as_str().expect("an error is reported"), &["the sh code failed", "exit status 9"]);
}

#[test]
fn an_activity_waits_for_its_interpreter_and_does_not_block_others() {
    let mut grid = Grid::new();
    let address = grid.group("a", &[1], &[]);
    let document = r#"<XAVANTES VERSION="1"><PROCESS_TYPE NAME="P"><OUT_PARAMETER TYPE="string" NAME="said"/>
        <BODY><PAR NAME="both"><OUT_PARAMETER TYPE="string" NAME="said"/>
        <ACTIVITY TYPE="Rare" NAME="rare"/><ACTIVITY TYPE="Usual" NAME="usual"/>
        <POST_CODE>said = rare.said</POST_CODE></PAR><POST_CODE>said = both.said</POST_CODE></BODY></PROCESS_TYPE>
        <ACTIVITY_TYPE NAME="Rare"><OUT_PARAMETER TYPE="string" NAME="said" FROM="stdout-trimmed"/>
        <CODE LANGUAGE="rare">echo rare things</CODE></ACTIVITY_TYPE>
        <ACTIVITY_TYPE NAME="Usual"><CODE LANGUAGE="sh">true</CODE></ACTIVITY_TYPE></XAVANTES>"#;
    let file = grid.write("rare.xml", document);
    let process = grid.submit(&address, &file, &[]);
    let path = format!("{process}/both/rare");
    until("the other activity has ended", 60, || {
        (grid.status(&address, &process)["activities"]["completed"] == 1).then_some(())
    });
    let shown = until("the reason for waiting is shown", 60, || {
        let shown = grid.cli(&address, &["show", &path]).json();
        (shown["wait_reason"]["kind"] == "unmet").then_some(shown)
    });
    assert_eq!(shown["waits"], "no connected worker has an interpreter for \"rare\"", "{shown}");
    let config = grid.write("worker.toml", "[interpreters]\nrare = [\"/bin/sh\", \"-u\"]\n");
    grid.worker("a/special", &address, &["--config", &config, "--slots", "1"]);
    let ended = grid.end(&address, &process);
    assert_eq!(ended["results"]["said"], "rare things", "{ended}");
}

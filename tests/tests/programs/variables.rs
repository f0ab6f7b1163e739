//! Parameters and results as variables of the code, in every language that is installed here.

use serde_json::json;

use crate::kit::{TestWorker, assert_tells};

/// Languages with code that gives the same results in all of them.
const SAME: [(&str, &str); 8] = [
    (
        "python",
        "count = n + len(items)\nhalf = x / 2\nflag = not b\ntext = word + '!' + str(len(raw))\n\
         all = items + [opts['a']]\ntable = {'k': opts['a'], 'deep': (1, {'z': 'y'})}",
    ),
    (
        "node",
        "const count = n + items.length; half = x / 2; flag = !b; let text = word + '!' + raw.length\n\
         all = [...items, opts.a]; table = { k: opts.a, deep: [1, { z: 'y' }] }",
    ),
    (
        "perl",
        "use strict; use warnings;\n$count = $n + @items; my $half = $x / 2; $flag = !$b; $text = $word . '!' . length($raw);\n\
         @all = (@items, $opts{a}); my %table = (k => $opts{a}, deep => [1, { z => 'y' }]);",
    ),
    (
        "ruby",
        "count = n + items.size; half = x / 2; flag = !b; text = \"#{word}!#{raw.size}\"\n\
         all = items + [opts['a']]; table = { k: opts['a'], deep: [1, { z: 'y' }] }\nexit 0",
    ),
    (
        "R",
        "count <- n + length(items); half <- x / 2; flag <- !b; text <- paste0(word, '!', length(raw))\n\
         all <- c(items, opts$a); table <- list(k = opts$a, deep = list(1, list(z = 'y')))",
    ),
    (
        "julia",
        "count = n + length(items); half = x / 2; flag = !b; text = word * \"!\" * string(length(raw))\n\
         all = [items; opts[\"a\"]]; table = Dict(\"k\" => opts[\"a\"], \"deep\" => [1, Dict(\"z\" => \"y\")])",
    ),
    (
        "bash",
        "count=$((n + ${#items[@]})); half=2.5; flag=false; text=\"$word!${#raw}\"\n\
         all=(\"${items[@]}\" 7); table='{\"k\": 7, \"deep\": [1, {\"z\": \"y\"}]}'; exit 0",
    ),
    (
        "sh",
        "count=$((n + 3)); half=2.5; flag=false; text=\"$word!${#raw}\"; test \"$b\" = true\n\
         all='[1, \"two\", 3.5, 7]'; table='{\"k\": 7, \"deep\": [1, {\"z\": \"y\"}]}'",
    ),
];

/// The languages that this worker has; the others are named.
pub fn installed(place: &TestWorker) -> Vec<&'static str> {
    let worker = place.grid.nodes(&place.address).into_iter().find(|node| node["node"] == "w").expect("it is there");
    let found = worker["interpreters"].as_array().expect("workers announce their interpreters").clone();
    let (here, missing): (Vec<&str>, Vec<&str>) =
        SAME.iter().map(|(language, _)| *language).partition(|language| found.contains(&json!(language)));
    for language in missing {
        eprintln!("SKIPPED: this machine has no interpreter for {language}");
    }
    assert!(here.len() >= 2, "every machine has sh and bash");
    here
}

pub fn code(language: &str, text: &str) -> String {
    format!("<CODE LANGUAGE=\"{language}\"><![CDATA[{text}]]></CODE>")
}

#[test]
fn parameters_and_results_are_variables_of_the_same_types() {
    let mut place = TestWorker::new(&[]);
    let installed = installed(&place);
    for (language, text) in SAME.iter().filter(|(language, _)| installed.contains(language)) {
        let types = format!(
            "<IN_PARAMETER TYPE=\"int\" NAME=\"n\" DEFAULT=\"41\"/><IN_PARAMETER TYPE=\"float\" NAME=\"x\" DEFAULT=\"5\"/>
            <IN_PARAMETER TYPE=\"boolean\" NAME=\"b\" DEFAULT=\"true\"/>
            <IN_PARAMETER TYPE=\"string\" NAME=\"word\" DEFAULT=\"it's né\"/>
            <IN_PARAMETER TYPE=\"bytes\" NAME=\"raw\" DEFAULT=\"ab\"/>
            <IN_PARAMETER TYPE=\"list\" NAME=\"items\" DEFAULT='[1, \"two\", 3.5]'/>
            <IN_PARAMETER TYPE=\"map\" NAME=\"opts\" DEFAULT='{{\"a\": 7}}'/>
            <OUT_PARAMETER TYPE=\"int\" NAME=\"count\"/><OUT_PARAMETER TYPE=\"float\" NAME=\"half\"/>
            <OUT_PARAMETER TYPE=\"boolean\" NAME=\"flag\"/><OUT_PARAMETER TYPE=\"string\" NAME=\"text\"/>
            <OUT_PARAMETER TYPE=\"list\" NAME=\"all\"/><OUT_PARAMETER TYPE=\"map\" NAME=\"table\"/>{}",
            code(language, text)
        );
        let ended = place.run(&types);
        let expected = json!({
            "count": 44, "half": 2.5, "flag": false, "text": "it's né!2", "all": [1, "two", 3.5, 7],
            "table": {"k": 7, "deep": [1, {"z": "y"}]},
        });
        assert_eq!(ended["results"], expected, "{language}: {ended}");
    }
}

#[test]
fn errors_of_interpreters_have_the_lines_of_the_code() {
    let mut place = TestWorker::new(&[]);
    let installed = installed(&place);
    for (language, line, expected) in [
        ("python", "undefined_thing", "script\", line 3"),
        ("node", "undefined_thing", "script:3"),
        ("perl", "die 'undefined_thing';", "script line 3"),
        ("ruby", "undefined_thing", "script:3"),
        ("R", "x <- (1 undefined_thing", "script:3"),
        ("julia", "undefined_thing", "script:3"),
        ("bash", "undefined_thing", "script: line 3"),
        ("sh", "undefined_thing", ": 3: "),
    ] {
        if installed.contains(&language) {
            let error = place.failing(&code(language, &format!("\n\n{line}\n")));
            assert_tells(&error, &["undefined_thing", expected]);
        }
    }
}

#[test]
fn results_that_are_missing_or_wrong_are_named() {
    let mut place = TestWorker::new(&[]);
    let installed = installed(&place);
    for (language, wrong) in [
        ("python", "count = 'many'"),
        ("node", "count = 'many'"),
        ("perl", "$count = 'many'"),
        ("ruby", "count = 'many'"),
        ("R", "count <- 'many'"),
        ("julia", "count = \"many\""),
        ("bash", "count=many"),
        ("sh", "count=many"),
    ] {
        if !installed.contains(&language) {
            continue;
        }
        let types = |text: &str| format!("<OUT_PARAMETER TYPE=\"int\" NAME=\"count\"/>{}", code(language, text));
        let error = place.failing(&types(wrong));
        assert_tells(&error, &["result \"count\"", "expected", "many"]);
        let error = place.failing(&types(""));
        assert_tells(&error, &[&format!("result \"count\": the {language} code never assigned the variable count")]);
    }
    if installed.contains(&"python") {
        let types = "<OUT_PARAMETER TYPE=\"list\" NAME=\"csv\"/><CODE LANGUAGE=\"python\">import csv</CODE>";
        assert_tells(&place.failing(types), &["result \"csv\": a Python value of the type module is no value"]);
    }
}

#[test]
fn files_are_paths_and_unchanged_parameters_stay() {
    let mut place = TestWorker::new(&[]);
    let document = r#"<XAVANTES VERSION="1"><PROCESS_TYPE NAME="P"><OUT_PARAMETER TYPE="list" NAME="seen"/><BODY>
        <ACTIVITY TYPE="Make" NAME="make"/><ACTIVITY TYPE="Pass" NAME="pass" data="${make.data}"/>
        <ACTIVITY TYPE="Read" NAME="read" tables="${ {pass.data, make.data} }"/>
        <POST_CODE>seen = {pass.size, read.lines}</POST_CODE></BODY></PROCESS_TYPE>
        <ACTIVITY_TYPE NAME="Make"><OUT_PARAMETER TYPE="file" NAME="data"/>
          <CODE LANGUAGE="bash">seq 5 &gt; numbers.txt; data=numbers.txt</CODE></ACTIVITY_TYPE>
        <ACTIVITY_TYPE NAME="Pass"><INOUT_PARAMETER TYPE="file" NAME="data"/><OUT_PARAMETER TYPE="int" NAME="size"/>
          <CODE LANGUAGE="sh">size=$(wc -c &lt; "$data")</CODE></ACTIVITY_TYPE>
        <ACTIVITY_TYPE NAME="Read"><IN_PARAMETER TYPE="list" NAME="tables"/><OUT_PARAMETER TYPE="int" NAME="lines"/>
          <CODE LANGUAGE="bash">lines=$(cat "${tables[@]}" | wc -l)</CODE></ACTIVITY_TYPE></XAVANTES>"#;
    let file = place.grid.write("paths.xml", document);
    let process = place.grid.submit(&place.address, &file, &[]);
    let ended = place.grid.end(&place.address, &process);
    assert_eq!(ended["results"], json!({"seen": [10, 10]}), "{ended}");
}

#[test]
fn shells_are_strict_unless_the_author_relaxes_them() {
    let mut place = TestWorker::new(&[]);
    for (language, text) in
        [("sh", "false\ntrue"), ("bash", "false\ntrue"), ("bash", "false | true"), ("sh", "echo \"$nothing\"")]
    {
        let strict = code(language, text);
        assert_tells(&place.failing(&strict), &[&format!("the {language} code failed")]);
        let ended = place.run(&strict.replace("<CODE ", "<CODE STRICT=\"false\" "));
        assert_eq!(ended["state"], "completed", "{text}: {ended}");
    }
}

/// A process in which each of these activities has a set, a counter and a map.
fn sharing(activities: &[(&str, String)]) -> String {
    let objects = [("RemoteSet", "set"), ("RemoteCounter", "total"), ("RemoteMap", "table")];
    let declared = |tag: &str| objects.map(|(ty, name)| format!("<{tag} TYPE=\"{ty}\" NAME=\"{name}\"/>")).concat();
    let elements: String = activities
        .iter()
        .map(|(name, _)| {
            format!(
                "<ACTIVITY TYPE=\"{name}\" NAME=\"{name}\" set=\"${{set}}\" total=\"${{total}}\" table=\"${{table}}\"/>"
            )
        })
        .collect();
    let types: String = activities
        .iter()
        .map(|(name, code)| {
            format!("<ACTIVITY_TYPE NAME=\"{name}\">{}{code}</ACTIVITY_TYPE>", declared("IN_PARAMETER"))
        })
        .collect();
    format!(
        "<XAVANTES VERSION=\"1\"><PROCESS_TYPE NAME=\"P\">{}<BODY>
        <PRE_CODE>set, total, table = RemoteSet.new(), RemoteCounter.new(), RemoteMap.new()</PRE_CODE>
        <PAR NAME=\"all\">{elements}</PAR></BODY></PROCESS_TYPE>{types}</XAVANTES>",
        declared("OUT_PARAMETER")
    )
}

#[test]
fn shared_objects_are_called_from_every_language() {
    let mut place = TestWorker::new(&[]);
    let installed = installed(&place);
    let calls = [
        (
            "python",
            "for i in range(10): total.add()\nset.add('python'); table.put('python', [1, {'a': None}])\nassert 'python' in set and len(set) > 0",
        ),
        (
            "node",
            "for (let i = 0; i < 10; i++) total.add(1)\nset.add('node'); table.put('node', [1, {a: null}])\nif (!set.contains('node')) throw 1",
        ),
        (
            "perl",
            "$total->add(1) for 1..10; $set->add('perl'); $table->put('perl', [1, {a => undef}]); $set->contains('perl') or die",
        ),
        (
            "ruby",
            "10.times { total.add }\nputs set; set.add('ruby'); table.put('ruby', [1, {a: nil}]); set.contains('ruby') or raise 'it'",
        ),
        (
            "R",
            "for (i in 1:10) total$add()\nset$add('R'); table$put('R', list(1, list(a = NULL))); stopifnot(set$contains('R'))",
        ),
        (
            "julia",
            "for i in 1:10 total.add(1) end\nset.add(\"julia\"); table.put(\"julia\", [1, Dict(\"a\" => nothing)]); @assert set.contains(\"julia\")",
        ),
        (
            "bash",
            "for i in {1..10}; do xavantes shared total add > /dev/null; done\nxavantes shared set add bash\nxavantes shared table put bash '[1, {\"a\": null}]'\ntest \"$(xavantes shared set contains bash)\" = true",
        ),
        (
            "sh",
            "\"$XAVANTES_COMMAND\" shared total add 10; xavantes shared set add sh; xavantes shared table put sh '[1, {\"a\": null}]'",
        ),
    ];
    let activities: Vec<(&str, String)> = calls
        .iter()
        .filter(|(language, _)| installed.contains(language))
        .map(|(language, text)| (*language, code(language, text)))
        .collect();
    let file = place.grid.write("sharing.xml", &sharing(&activities));
    let process = place.grid.submit(&place.address, &file, &[]);
    let ended = place.grid.end(&place.address, &process);
    let mut names: Vec<&str> = installed.clone();
    names.sort_unstable();
    assert_eq!(ended["results"]["set"], json!(names), "{ended}");
    assert_eq!(ended["results"]["total"], 10 * names.len(), "{ended}");
    for name in names {
        assert_eq!(ended["results"]["table"][name][0], 1, "{name}: {ended}");
    }
}

#[test]
fn wrong_calls_of_shared_objects_say_what_is_wrong() {
    let mut place = TestWorker::new(&[]);
    let mut failing = |text: &str| {
        let file = place.grid.write("sharing.xml", &sharing(&[("A", code("bash", text))]));
        let process = place.grid.submit(&place.address, &file, &[]);
        let ended = place.grid.end(&place.address, &process);
        ended["error"].as_str().unwrap_or_else(|| panic!("it completed: {ended}")).to_owned()
    };
    for (call, told) in [
        ("set ad 1", "a RemoteSet has no method \"ad\"; did you mean \"add\"?"),
        ("set add", "RemoteSet:add takes 1 arguments, got 0"),
        ("sets add 1", "this activity has no shared object \"sets\"; did you mean \"set\"?"),
        ("total add x", "RemoteCounter:add"),
    ] {
        assert_tells(&failing(&format!("xavantes shared {call}")), &[told]);
    }
    // Calls after a refused one still count.
    let text = "xavantes shared set ad 1 || xavantes shared set add 1; printf '%s\\n' '{' '{\"object\": 99, \"method\": \
                \"size\"}' '{\"object\": \"set\", \"method\": \"size\"}' | xavantes shared --stream >&2; exit 3";
    let error = failing(text);
    assert_tells(&error, &["the call is not JSON", "this shared object is unknown here", "{\"value\":1}"]);
    // Integers look as everywhere else.
    let error = failing("xavantes shared total set 9007199254740993; xavantes shared total get >&2; exit 3");
    assert_tells(&error, &["\n9007199254740993"]);
    let outside = xavantes_tests::xavantes(&["shared", "set", "size"]);
    assert_eq!(outside.code, 2, "{outside:?}");
    assert_tells(&outside.stderr, &["there are no shared objects here", "XAVANTES_SHARED is not set"]);
}

#[test]
fn a_program_may_have_many_connections_for_shared_objects_but_not_too_many() {
    let mut place = TestWorker::new(&[]);
    if !installed(&place).contains(&"python") {
        return;
    }
    let text = r#"
import json, os, resource, socket
most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
def ask(line):
    stream = socket.socket(socket.AF_UNIX)
    stream.connect(os.environ["XAVANTES_SHARED"])
    stream.sendall(line + b"\n")
    return stream, json.loads(stream.makefile().readline())
size = b'{"object": "set", "method": "size"}'
held = [ask(size) for _ in range(70)]
assert all("value" in answer for _, answer in held), held
while "value" in held[-1][1] and len(held) <= 1024:
    held.append(ask(size))
assert "connections for shared objects already" in held[-1][1]["error"], held[-1]
held.clear()
"#;
    let many = r#"
import json, os, socket
def ask(line):
    stream = socket.socket(socket.AF_UNIX)
    stream.connect(os.environ["XAVANTES_SHARED"])
    stream.sendall(line + b"\n")
    return json.loads(stream.makefile().readline())
zeros = b"0," * 3000000 + b"0"
answer = ask(b'{"object": "set", "method": "add", "arguments": [' + zeros + b"]}")
assert "more than 2097152 values" in answer["error"], answer
answer = ask(b'{"object": "set", "method": "add", "arguments": [1, 2]}')
assert "takes 1 arguments, got 2" in answer["error"], answer
answer = ask(b'{"object": "set", "method": "add", "arguments": ["' + b"x" * 3000000 + b'"]}')
assert "value" in answer, answer
"#;
    let file = place.grid.write("sharing.xml", &sharing(&[("A", code("python", text)), ("B", code("python", many))]));
    let process = place.grid.submit(&place.address, &file, &[]);
    let ended = place.grid.end(&place.address, &process);
    assert_eq!(ended["state"], "completed", "{ended}");
}

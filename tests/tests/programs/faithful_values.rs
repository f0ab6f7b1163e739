//! Values that interpreters like to change on their way: the code gets them, and gives them back, as they are.

use serde_json::{Value as Json, json};

use crate::kit::{TestWorker, assert_tells};
use crate::variables::{code, installed};

/// Runs code whose parameters are these, and asserts its results.
#[track_caller]
fn assert_results(place: &mut TestWorker, language: &str, parameters: &str, text: &str, expected: Json) {
    let ended = place.run(&format!("{parameters}{}", code(language, text)));
    assert_eq!(ended["results"], expected, "{language}: {text}: {ended}");
}

fn out(ty: &str, name: &str) -> String {
    format!("<OUT_PARAMETER TYPE=\"{ty}\" NAME=\"{name}\"/>")
}

fn input(ty: &str, name: &str, value: &str) -> String {
    format!("<IN_PARAMETER TYPE=\"{ty}\" NAME=\"{name}\" DEFAULT='{value}'/>")
}

#[test]
fn code_may_use_every_name() {
    let mut place = TestWorker::new(&[]);
    if !installed(&place).contains(&"python") {
        return;
    }
    let parameters =
        [input("list", "list", "[3, 1]"), input("int", "len", "2"), out("string", "str"), out("list", "r")];
    let text = "from gzip import open\nimport pickle, multiprocessing\nisinstance, dict = 1, 2\nstr = 'abc'.upper()\n\
                def twice(n):\n  return n * len\nclass Kept: pass\nassert pickle.loads(pickle.dumps(Kept()))\n\
                if __name__ == '__main__':\n  with multiprocessing.get_context('fork').Pool(2) as pool:\n    r = pool.map(twice, list)";
    assert_results(&mut place, "python", &parameters.concat(), text, json!({"str": "ABC", "r": [6, 2]}));
}

#[test]
fn perl_keeps_digits_texts_and_truth_values() {
    let mut place = TestWorker::new(&[]);
    if !installed(&place).contains(&"perl") {
        return;
    }
    let text = input("string", "text", "naïve");
    let printed = "<OUT_PARAMETER TYPE=\"string\" NAME=\"printed\" FROM=\"stdout\"/>";
    let list = input("list", "items", r#"[true, "1", 0.1, {"ü": false}, "inf"]"#);
    for (parameters, code, expected) in [
        (out("float", "r"), "$r = 0.1 + 0.2;", json!({"r": 0.1 + 0.2})),
        (out("string", "r"), "$r = \"é\";", json!({"r": "é"})),
        (format!("{text}{printed}"), "print $text;", json!({"printed": "naïve"})),
        (format!("{text}{printed}"), "use utf8; print $text, length $text;", json!({"printed": "naïve5"})),
        (
            format!("{list}{}", out("list", "r")),
            "my $n = $items[1] + 1; @r = (@items, 1 == 1, 1 / 3);",
            json!({"r": [true, "1", 0.1, {"ü": false}, "inf", true, 1.0 / 3.0]}),
        ),
        // Wherever the code ends.
        (out("int", "r"), "use strict; my $r = 42; exit 0;", json!({"r": 42})),
    ] {
        assert_results(&mut place, "perl", &parameters, code, expected);
    }
    let error = place.failing(&format!("{}{}", out("string", "r"), code("perl", "$r = \"\\xff\";")));
    assert_tells(&error, &["result \"r\": its text is not valid UTF-8"]);
}

#[test]
fn r_keeps_lists_and_texts() {
    let mut place = TestWorker::new(&[]);
    if !installed(&place).contains(&"R") {
        return;
    }
    let map = input("map", "m", r#"{"a": [5], "e": [], "o": {}}"#);
    for (parameters, code, expected) in [
        (out("list", "r"), "r <- character(0)", json!({"r": []})),
        (out("map", "r"), "r <- list(none = character(0))", json!({"r": {"none": []}})),
        (format!("{map}{}", out("map", "r")), "r <- m", json!({"r": {"a": [5], "e": [], "o": {}}})),
        (format!("{map}{}", out("int", "r")), "r <- m$a + 1L", json!({"r": 6})),
        (
            format!("{}{}<ENV NAME=\"LC_ALL\" VALUE=\"C\"/>", input("string", "text", "naïve"), out("list", "r")),
            "r <- list(text, 'é', nchar(text))",
            json!({"r": ["naïve", "é", 5]}),
        ),
        (
            format!("{}{}", input("list", "many", &json!(vec![7; 30_000]).to_string()), out("int", "r")),
            "r <- sum(many)",
            json!({"r": 210_000}),
        ),
    ] {
        assert_results(&mut place, "R", &parameters, code, expected);
    }
}

#[test]
fn parameters_that_the_code_does_not_change_keep_their_values() {
    let mut place = TestWorker::new(&[]);
    let value = json!([[1], [2.5], {"a": [5.5], "b": true, "c": "1", "d": null, "e": "naïve", "f": []}]);
    for language in installed(&place) {
        let document = format!(
            "<XAVANTES VERSION=\"1\"><PROCESS_TYPE NAME=\"P\"><OUT_PARAMETER TYPE=\"list\" NAME=\"r\"/><BODY>
            <ACTIVITY TYPE=\"Work\" NAME=\"work\"/><POST_CODE>r = work.v</POST_CODE></BODY></PROCESS_TYPE>
            <ACTIVITY_TYPE NAME=\"Work\"><INOUT_PARAMETER TYPE=\"list\" NAME=\"v\" DEFAULT='{value}'/>{}</ACTIVITY_TYPE>
            </XAVANTES>",
            code(language, "")
        );
        let file = place.grid.write("kept.xml", &document);
        let process = place.grid.submit(&place.address, &file, &[]);
        let ended = place.grid.end(&place.address, &process);
        assert_eq!(ended["results"]["r"], value, "{language}: {ended}");
    }
}

#[test]
fn shells_keep_bytes_and_digits() {
    let mut place = TestWorker::new(&[]);
    for language in ["bash", "sh"] {
        for text in [r"raw=$(printf '\377\376')", r#"raw='{"$bytes": "fffe"}'"#] {
            assert_results(&mut place, language, &out("bytes", "raw"), text, json!({"raw": {"$bytes": "fffe"}}));
        }
    }
    let text = "r=(12345678901234567890123 7)";
    assert_results(&mut place, "bash", &out("list", "r"), text, json!({"r": ["12345678901234567890123", 7]}));
}

#[test]
fn traps_of_shells_run_and_results_stay() {
    let mut place = TestWorker::new(&[]);
    for language in ["bash", "sh"] {
        let parameters =
            format!("{}<OUT_PARAMETER TYPE=\"string\" NAME=\"printed\" FROM=\"stdout-trimmed\"/>", out("int", "r"));
        for (text, expected) in [
            ("trap 'echo bye' EXIT\nr=5", json!({"r": 5, "printed": "bye"})),
            ("trap 'echo bye' EXIT\nr=5\nexit 0", json!({"r": 5, "printed": "bye"})),
            ("trap 'r=6; echo $?' 0 TERM\nr=5", json!({"r": 6, "printed": "0"})),
            ("r=5\n(trap 'echo inner' EXIT)\ntrap 'echo bye' EXIT\ntrap - EXIT", json!({"r": 5, "printed": "inner"})),
        ] {
            assert_results(&mut place, language, &parameters, text, expected);
        }
        let status = format!("{}<OUT_PARAMETER TYPE=\"int\" NAME=\"status\" FROM=\"exit-status\"/>", out("int", "r"));
        let types = format!("{status}{}", code(language, "trap 'true' EXIT\nr=5\nexit 3"));
        let ended = place.run(&types.replace("<CODE ", "<CODE SUCCESS=\"3\" "));
        assert_eq!(ended["results"], json!({"r": 5, "status": 3}), "{language}: {ended}");
    }
}

#[test]
fn objects_that_are_no_data_are_converted_or_named() {
    let mut place = TestWorker::new(&[]);
    let installed = installed(&place);
    for (language, ty, text, expected) in [
        ("node", "string", "r = new Date(0)", json!("1970-01-01T00:00:00.000Z")),
        ("node", "string", "r = new URL('http://x/y')", json!("http://x/y")),
        ("python", "map", "import collections\nr = collections.ChainMap({'a': 1})", json!({"a": 1})),
        ("python", "map", "import types\nr = types.MappingProxyType({'a': (1, 2)})", json!({"a": [1, 2]})),
        ("ruby", "map", "r = Struct.new(:a).new(1)", json!({"a": 1})),
    ] {
        if installed.contains(&language) {
            assert_results(&mut place, language, &out(ty, "r"), text, json!({"r": expected}));
        }
    }
    for (language, text, class) in [
        ("node", "r = [Promise.resolve(1)]", "Promise"),
        ("python", "r = open('/dev/null')", "TextIOWrapper"),
        ("python", "class Odd:\n  def __iter__(self): return iter('ab')\nr = Odd()", "Odd"),
        ("ruby", "r = [Time.now]", "Time"),
    ] {
        if installed.contains(&language) {
            let error = place.failing(&format!("{}{}", out("list", "r"), code(language, text)));
            assert_tells(&error, &["result \"r\"", class, "is no value of a process"]);
        }
    }
}

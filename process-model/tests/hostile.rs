//! Documents written to do harm. Each is accepted or refused with the finding that is expected, without exhausting a
//! small stack, in bounded time and memory.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

use xavantes_model::definition::{ActivityCode, AxisValues, Kind, Program, Source as Loop};
use xavantes_model::diagnostic::{Diagnostic, Source};
use xavantes_model::load::{condition_override, load};
use xavantes_model::script::{Form, NameUse, SyntaxError, check};
use xavantes_model::xml;

/// Only against hanging: the slowest of these documents takes a few seconds on a slow machine.
const CEILING: Duration = Duration::from_secs(30);
/// Only against explosion: a document has at most 16 MiB.
const MOST_MEMORY: usize = 2 << 30;
const STACK: usize = 2 << 20;

/// Runs `work` on a small stack, alone, so that its time and memory are its own.
fn bounded<T: Send + 'static>(name: &str, work: impl FnOnce() -> T + Send + 'static) -> T {
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    reset_peak();
    let begun = Instant::now();
    let (send, receive) = mpsc::channel();
    let thread = std::thread::Builder::new().stack_size(STACK).spawn(move || send.send(work())).unwrap();
    let outcome = match receive.recv_timeout(CEILING) {
        Ok(outcome) => outcome,
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("{name} takes longer than {CEILING:?}"),
        Err(mpsc::RecvTimeoutError::Disconnected) => panic!("{name} panicked: {:?}", thread.join()),
    };
    let peak = peak().unwrap_or(0);
    println!("{name}: {:?}, {} MiB", begun.elapsed(), peak >> 20);
    assert!(peak < MOST_MEMORY, "{name} took {} MiB", peak >> 20);
    outcome
}

/// The memory that this process took at most since the peak was reset, where the system tells.
fn peak() -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.parse::<usize>().ok().map(|kilobytes| kilobytes << 10)
}

fn reset_peak() {
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}

/// Expects the document to be refused with exactly these codes, or accepted if there are none.
fn expect(name: &str, document: impl Into<String>, codes: &[&str]) -> Vec<Diagnostic> {
    let text = document.into();
    let found = bounded(name, move || {
        let sources = [Source::new("hostile.xml", text)];
        match load(&sources) {
            Ok(program) => {
                all_code_compiles(&program);
                Vec::new()
            }
            Err(found) => {
                findings_can_be_shown(&sources[0].text, &found);
                found
            }
        }
    });
    let told: BTreeSet<&str> = found.iter().map(|diagnostic| diagnostic.code).collect();
    let expected: BTreeSet<&str> = codes.iter().copied().collect();
    assert_eq!(told, expected, "{name}: {:#?}", &found[..found.len().min(3)]);
    found
}

fn findings_can_be_shown(text: &str, found: &[Diagnostic]) {
    assert!(!found.is_empty() && found.len() <= 201, "{} findings", found.len());
    for diagnostic in found {
        assert!(text.get(diagnostic.span.bytes.clone()).is_some(), "{diagnostic:?} is not in the text");
        let help = diagnostic.help.as_deref().unwrap_or("");
        for told in [diagnostic.message.as_str(), help] {
            assert!(told.len() < 4096, "{}: {} bytes", diagnostic.code, told.len());
            let unseen = |c: char| c.is_control() || matches!(c, '\u{200E}' | '\u{200F}' | '\u{202A}'..='\u{202E}');
            assert!(!told.contains(unseen), "{told:?}");
        }
    }
}

/// What is accepted must not turn out to be wrong only when it runs.
fn all_code_compiles(program: &Program) {
    for activity in &program.activities {
        if let ActivityCode::Lua { code, .. } | ActivityCode::Command { code, .. } = &activity.code {
            code.verify().unwrap();
        }
    }
    for node in program.processes.iter().flat_map(|process| &process.nodes) {
        let bindings = node.bindings.iter().flat_map(|bindings| &bindings.script);
        node.scripts().chain(bindings).for_each(|script| script.code.verify().unwrap());
    }
}

fn document(types: &str) -> String {
    format!("<XAVANTES VERSION=\"1\">{types}</XAVANTES>")
}

fn body(content: &str) -> String {
    document(&format!("<PROCESS_TYPE NAME=\"P\"><BODY>{content}</BODY></PROCESS_TYPE>"))
}

fn many(count: usize, part: impl FnMut(usize) -> String) -> String {
    (0..count).map(part).collect()
}

fn escaped(code: &str) -> String {
    code.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;").replace('\n', "&#10;")
}

/// A document for each place where statements stand.
fn places_of_statements(code: &str) -> Vec<(&'static str, String)> {
    let code = escaped(code);
    let activity = format!("<ACTIVITY_TYPE NAME=\"A\"><CODE LANGUAGE=\"lua\">{code}</CODE></ACTIVITY_TYPE>");
    vec![
        ("PRE_CODE", body(&format!("<PRE_CODE>{code}</PRE_CODE>"))),
        ("POST_CODE", body(&format!("<BLOCK NAME=\"b\"><POST_CODE>{code}</POST_CODE></BLOCK>"))),
        ("CODE", document(&activity)),
    ]
}

/// A document for each place where an expression stands.
fn places_of_expressions(code: &str) -> Vec<(&'static str, String)> {
    let code = escaped(code);
    let command = "<ACTIVITY_TYPE NAME=\"A\"><CODE LANGUAGE=\"command\">";
    let block = "<BLOCK NAME=\"b\" x=\"VALUE\"><IN_PARAMETER NAME=\"x\" TYPE=\"string\"/></BLOCK>";
    let grid = "<PARAM_GRID><AXIS NAME=\"a\" TYPE=\"int\" VALUES=\"${CODE}\"/></PARAM_GRID>";
    [
        ("CONDITION", body("<WHILE NAME=\"w\" CONDITION=\"CODE\"><ITERATE/></WHILE>")),
        ("CONDITION child", body("<WHILE NAME=\"w\"><CONDITION>CODE</CONDITION><ITERATE/></WHILE>")),
        ("CASE", body("<SWITCH NAME=\"s\"><CASE CONDITION=\"CODE\"/></SWITCH>")),
        ("EXIT_CONDITION", body("<PAR NAME=\"p\" EXIT_CONDITION=\"CODE\"/>")),
        ("EXIT_CONDITION child", body("<PAR NAME=\"p\"><EXIT_CONDITION>CODE</EXIT_CONDITION></PAR>")),
        ("COLLECT", body("<FOR NAME=\"f\" TO=\"1\" COLLECT=\"CODE\"><ITERATE/></FOR>")),
        ("FROM", body("<FOR NAME=\"f\" FROM=\"${CODE}\" TO=\"1\"><ITERATE/></FOR>")),
        ("TO", body("<FOR NAME=\"f\" TO=\"${CODE}\"><ITERATE/></FOR>")),
        ("STEP", body("<FOR NAME=\"f\" TO=\"1\" STEP=\"${CODE}\"><ITERATE/></FOR>")),
        ("EACH", body("<FOR NAME=\"f\" EACH=\"${CODE}\"><ITERATE/></FOR>")),
        ("JOIN", body("<PAR NAME=\"p\" JOIN=\"${CODE}\"/>")),
        ("MAX_PARALLEL", body("<PAR NAME=\"p\" MAX_PARALLEL=\"${CODE}\"/>")),
        ("VALUES", body(&format!("<FOR NAME=\"f\">{grid}<ITERATE/></FOR>"))),
        ("binding", body(&block.replace("VALUE", "${CODE}"))),
        ("binding with text", body(&block.replace("VALUE", "a ${CODE} b"))),
        ("ARG", document(&format!("{command}<ARG>x</ARG><ARG>${{CODE}}</ARG></CODE></ACTIVITY_TYPE>"))),
        ("ARG with text", document(&format!("{command}<ARG>a ${{CODE}} b</ARG></CODE></ACTIVITY_TYPE>"))),
    ]
    .into_iter()
    .map(|(place, document)| {
        (place, document.replace("CODE}", &format!("{code}}}")).replace("CODE\"", &format!("{code}\"")))
    })
    .map(|(place, document)| (place, document.replace(">CODE<", &format!(">{code}<"))))
    .collect()
}

fn checked(text: &str, form: Form) -> Result<Vec<NameUse>, SyntaxError> {
    let text = text.to_owned();
    bounded("check", move || {
        let outcome = check(&text, form);
        if let Err(error) = &outcome {
            assert!(text.get(error.at.clone()).is_some(), "{error:?} is not in {text:?}");
        }
        outcome
    })
}

#[test]
fn entities_and_document_types_are_refused() {
    let laughs = many(10, |i| format!("<!ENTITY l{} \"{}\">", i + 1, format!("&l{i};").repeat(10)));
    for (name, code, text) in [
        ("billion laughs", "dtd", format!("<!DOCTYPE a [<!ENTITY l0 \"ha\">{laughs}]><XAVANTES>&l10;</XAVANTES>")),
        ("external entity", "dtd", "<!DOCTYPE a [<!ENTITY f SYSTEM \"file:///etc/passwd\">]><a>&f;</a>".into()),
        ("external subset", "dtd", "<!DOCTYPE a SYSTEM \"http://localhost:1/a.dtd\"><a/>".into()),
        ("lower case", "dtd", "<!doctype a><a/>".into()),
        ("behind a mark", "dtd", "\u{FEFF}<?xml version=\"1.0\"?>\n<!DOCTYPE a><a/>".into()),
        ("inside", "dtd", document("<!DOCTYPE a>")),
        ("a declaration alone", "malformed-xml", document("<!ENTITY a \"b\">")),
        ("an entity in text", "entity", body("<PRE_CODE>&boom;</PRE_CODE>")),
        ("an entity in a value", "entity", body("<BLOCK NAME=\"&boom;\"/>")),
        ("a reference to nothing", "entity", body("<PRE_CODE>&#0;</PRE_CODE>")),
        ("a reference to a surrogate", "entity", body("<PRE_CODE>&#xD800;</PRE_CODE>")),
        ("a huge reference", "entity", body(&format!("<PRE_CODE>&#{};</PRE_CODE>", "9".repeat(100_000)))),
        ("a reference into another tag", "entity", body("<PRE_CODE>&am<BLOCK NAME=\"b\"/>p;</PRE_CODE>")),
    ] {
        expect(name, text, &[code]);
    }
    // References are replaced once, so what they spell is text.
    expect("markup by reference", body("<PRE_CODE>print(\"&lt;/PRE_CODE&gt; &amp;lt;\")</PRE_CODE>"), &[]);
}

#[test]
fn sizes_are_bounded() {
    let nested = |depth: usize| {
        let open = many(depth, |i| format!("<BLOCK NAME=\"b{i}\">"));
        body(&format!("{open}{}", "</BLOCK>".repeat(depth)))
    };
    expect("1,000 levels", nested(997), &[]);
    expect("1,001 levels", nested(998), &["too-deep"]);
    let unnamed = |depth: usize| body(&format!("{}{}", "<BLOCK>".repeat(depth), "</BLOCK>".repeat(depth)));
    expect("a million levels", unnamed(1_000_000), &["too-deep"]);
    expect("a million levels that stay open", "<A>".repeat(1_000_000), &["too-deep"]);
    expect("17 MiB", body(&format!("<PRE_CODE>{}</PRE_CODE>", " ".repeat(17 << 20))), &["too-large"]);
    expect("17 MiB of nothing", " ".repeat(17 << 20), &["too-large"]);
    let giant = "a".repeat(15 << 20);
    for (attribute, codes) in [
        ("NAME=\"b\" x", &["unknown-parameter"][..]),
        ("NAME", &["bad-name"]),
        ("NAME=\"b\" RETRIES", &["bad-value"]),
        ("NAME=\"b\" TIMEOUT", &["bad-value"]),
        ("NAME=\"b\" ON_FAILURE", &["bad-value"]),
        ("NAME=\"b\" AFTER", &["unknown-attribute"]),
    ] {
        expect(attribute, body(&format!("<BLOCK {attribute}=\"{giant}\"/>")), codes);
    }
    expect("a giant type", body(&format!("<PROCESS NAME=\"p\" TYPE=\"{giant}\"/>")), &["unknown-type"]);
    expect("a giant version", format!("<XAVANTES VERSION=\"{giant}\"/>"), &["bad-value"]);
    expect("a giant name in code", body(&format!("<PRE_CODE>print({giant})</PRE_CODE>")), &["lua-syntax"]);
    expect(
        "a giant name in an expression",
        body(&format!("<PAR NAME=\"p\" JOIN=\"${{{giant}}}\"/>")),
        &["unknown-name"],
    );
    expect("a giant expression", body(&format!("<PAR NAME=\"p\" JOIN=\"${{({giant})}}\"/>")), &["lua-syntax"]);
    let attributes = many(100_000, |i| format!(" a{i}=\"\""));
    expect("100,000 attributes", body(&format!("<BLOCK NAME=\"b\"{attributes}/>")), &["too-large"]);
    let attributes = many(255, |i| format!(" a{i}=\"${{b}}\""));
    expect(
        "as many attributes as fit",
        body(&format!("<BLOCK NAME=\"b\"{attributes}/>")),
        &["too-many", "unknown-parameter"],
    );
}

#[test]
fn names_are_plain() {
    for name in [
        "a\u{1F600}",
        "\u{202E}a",
        "a\u{200F}",
        "a\u{200D}b",
        "a\u{301}",
        "а",
        "a b",
        "a&#10;b",
        "a&#9;",
        "\u{9B}31m",
        "",
        " a",
        "a'",
    ] {
        expect(name, body(&format!("<BLOCK NAME=\"{name}\"/>")), &["bad-name"]);
        expect(name, document(&format!("<PROCESS_TYPE NAME=\"{name}\"><BODY/></PROCESS_TYPE>")), &["bad-name"]);
        let parameter = format!("<IN_PARAMETER NAME=\"{name}\" TYPE=\"int\" OPTIONAL=\"true\"/>");
        expect(name, body(&parameter), &["bad-name"]);
    }
    for character in ['\0', '\u{1}', '\u{8}', '\u{B}', '\u{1B}', '\u{FFFE}'] {
        expect("a character", body(&format!("<BLOCK NAME=\"a{character}\"/>")), &["malformed-xml"]);
        expect("a character", body(&format!("<!--{character}-->")), &["malformed-xml"]);
        expect("a character", body(&format!("<PRE_CODE>{character}</PRE_CODE>")), &["malformed-xml"]);
    }
    for tag in ["\u{202E}A", "A\u{9B}31m", "\u{1F600}!", "-A"] {
        expect(tag, document(&format!("<{tag}/>")), &["bad-name"]);
        expect(tag, document(&format!("<BODY {tag}=\"\"/>")), &["bad-name"]);
    }
    expect("an emoji is a name in XML", document("<\u{1F600}/>"), &["unknown-element"]);
    expect("a name that joins", document("<PROCESS_TYPE\u{200D}/>"), &["unknown-element"]);
    expect("right to left in a type", body("<PROCESS NAME=\"p\" TYPE=\"\u{202E}P\"/>"), &["unknown-type"]);
    expect("right to left in code", body("<PRE_CODE>print(\u{202E}x)</PRE_CODE>"), &["lua-syntax"]);
    expect("right to left in a string", body("<PRE_CODE>print('\u{202E}x')</PRE_CODE>"), &[]);
}

/// Each takes a depth.
const NESTED_EXPRESSIONS: [(&str, &str, &str); 16] = [
    ("(", "1", ")"),
    ("{", "", "}"),
    ("- ", "1", ""),
    ("#", "a", ""),
    ("not ", "1", ""),
    ("1 .. ", "1", ""),
    ("1 ^ ", "1", ""),
    ("1 + ", "1", ""),
    ("1 == ", "1", ""),
    ("f(", "", ")"),
    ("f{", "", "}"),
    ("function() return ", "1", " end"),
    ("if 1 then 1 else ", "1", ""),
    ("`{", "1", "}`"),
    ("a[", "1", "]"),
    ("", "string", ".x"),
];

const NESTED_STATEMENTS: [(&str, &str, &str); 14] = [
    ("do ", "", " end"),
    ("if 1 then ", "", " end"),
    ("while 1 do ", "", " end"),
    ("repeat ", "", " until 1"),
    ("for i = 1, 2 do ", "", " end"),
    ("for i in pairs({}) do ", "", " end"),
    ("local function f() ", "", " end"),
    ("if 1 then else", "if 1 then", " end"),
    ("local x = function() ", "", " end"),
    ("local x : {", "number", "}"),
    ("local x : (", "number", ")"),
    ("local x : (number) -> ", "number", ""),
    ("type A = B<", "number", ">"),
    ("local x : typeof(", "1", ")"),
];

fn nested((open, inner, close): (&str, &str, &str), depth: usize) -> String {
    // Types stand behind one declaration only.
    let (first, again) = match open.rsplit_once([':', '=']) {
        Some((_, again)) if open.starts_with("local x :") || open.starts_with("type") => (open, again),
        _ => (open, open),
    };
    format!("{first}{}{inner}{}", again.repeat(depth - 1), close.repeat(depth))
}

#[test]
fn deep_code_is_refused_wherever_it_stands() {
    for depth in [5_000, 100_000] {
        for part in NESTED_EXPRESSIONS {
            for (place, text) in places_of_expressions(&nested(part, depth)) {
                // A table is also seen to be of the wrong type where something else is wanted.
                let seen =
                    part.0 == "{" && matches!(place, "FROM" | "TO" | "STEP" | "JOIN" | "MAX_PARALLEL" | "binding");
                let codes: &[&str] = if seen { &["bad-value", "lua-syntax"] } else { &["lua-syntax"] };
                expect(&format!("{depth} {part:?} in {place}"), text, codes);
            }
        }
        for part in NESTED_STATEMENTS {
            for (place, text) in places_of_statements(&nested(part, depth)) {
                expect(&format!("{depth} {part:?} in {place}"), text, &["lua-syntax"]);
            }
        }
    }
}

/// Around the depth at which Luau gives up, what is accepted still compiles with the wrapper around it.
#[test]
fn code_at_the_edge_of_its_depth_is_refused_or_runs() {
    let expressions = NESTED_EXPRESSIONS.map(|part| (part, Form::Expression));
    let statements = NESTED_STATEMENTS.map(|part| (part, Form::Statements));
    for (part, form) in expressions.into_iter().chain(statements) {
        let edge = bounded(&format!("edge of {part:?}"), move || {
            let (mut least, mut most) = (1, 2_000);
            while least + 1 < most {
                let middle = (least + most) / 2;
                if check(&nested(part, middle), form).is_ok() { least = middle } else { most = middle }
            }
            least
        });
        for depth in edge.saturating_sub(3).max(1)..=edge {
            let code = nested(part, depth);
            let places = match form {
                Form::Expression => places_of_expressions(&code),
                Form::Statements => places_of_statements(&code),
            };
            for (place, text) in places {
                bounded(&format!("{depth} {part:?} in {place}"), move || {
                    if let Ok(program) = load(&[Source::new("hostile.xml", text)]) {
                        all_code_compiles(&program);
                    }
                });
            }
        }
    }
}

#[test]
fn code_stays_in_its_wrapper() {
    for code in [
        "end)() os.exit() (function()",
        "end)() print(1) return (function() return 1",
        "1) end)() (function() return (1",
        "end end end",
        "--[[",
        "--[==[ ]]",
        "x = [[",
        "x = [==[ ]=]",
        "]]",
        "x = 'a",
        "x = \"a\\",
        "x = `{",
        "x = `{1",
        "return ...",
        "local a = ...",
        "return 1 return 2",
        "export local x = 1",
        "#!/bin/sh\nlocal x = 1",
        "goto x",
        "break",
        "continue",
        "::x::",
        "@native local x = 1",
    ] {
        for (place, text) in places_of_statements(code) {
            expect(&format!("{code} in {place}"), text, &["lua-syntax"]);
        }
    }
    for code in [
        "1) os.exit(",
        "1), (2",
        "1, 2",
        "1;",
        "1 ;; ",
        "1; --",
        "1 end",
        "1 return 2",
        "x = 1",
        "local x = 1",
        "1 --[[",
        "[[",
        "]]",
        "...",
        "(...)",
        "tostring{...}",
        "select('#', ...)",
        "",
        "  ",
        "-- 1",
        "return 1",
        "1 do end",
        "#!/bin/sh",
    ] {
        for (place, text) in places_of_expressions(code) {
            // An unclosed long string hides the closing brace.
            let hidden = code.contains("[[") && text.contains("${");
            expect(&format!("{code} in {place}"), text, &[if hidden { "bad-value" } else { "lua-syntax" }]);
        }
    }
    // A comment does not swallow what follows.
    for code in ["f() -- x", "f() --[[ x ]]", "f() --", "f() -- ]]", "f()\n-- x\n", "f() --[==[ x ]==] --"] {
        for (place, text) in places_of_expressions(&code.replace("f()", "tostring(1)")) {
            expect(&format!("{code} in {place}"), text, &[]);
        }
    }
}

/// Luau reads a NUL as the end of the text, and a form feed as a space. No document can have them, but a condition that
/// is given to a running controller can.
#[test]
fn code_has_no_control_characters() {
    for code in ["x\0", "x = 1 --\0", "\0", "x = 'a\0'", "x = 1\0 end)() os.exit()", "f\0@", "x :: T\u{C}", "x\u{B}"] {
        for form in [Form::Statements, Form::Expression] {
            let error = checked(code, form).unwrap_err();
            assert!(code[error.at.clone()].contains(char::is_control), "{code:?} {error:?}");
            assert!(error.message.contains("not allowed in code"), "{code:?} {error:?}");
        }
    }
    let program = load(&[Source::new("hostile.xml", body("<PAR NAME=\"p\"/>"))]).unwrap();
    let node = program.processes[0].nodes[1].id;
    assert!(condition_override(&program, 0, node, "true --\0").is_err());
}

/// What is missing at the end is told at the last character, which may be more than a byte.
#[test]
fn findings_do_not_split_characters() {
    for code in ["f( --é\n", "f( --\u{1F600}\n\n", "x = 'é", "é", "x = {\n--\u{FEFF}\n"] {
        for form in [Form::Statements, Form::Expression] {
            assert!(checked(code, form).is_err(), "{code:?}");
        }
        for (place, text) in places_of_statements(code) {
            expect(&format!("{code} in {place}"), text, &["lua-syntax"]);
        }
    }
}

/// Luau takes more than the second parser knows, and that one must not bring the program down for it.
#[test]
fn syntax_that_only_one_parser_knows_is_refused() {
    for code in [
        "local x : | number = 1",
        "local x : & number = 1",
        "local x = 1 :: | number",
        "@[native] function f() end",
        "@[deprecated {use = 'g'}] local function f() end",
        "local x = f<<number>>(1)",
        "type function f(t) return t end",
        "class A end",
        "const x = 1",
        "local x = 1 // 2 // 0b1_0 // 0x_F",
    ] {
        for (place, text) in places_of_statements(code) {
            bounded(&format!("{code} in {place}"), move || match load(&[Source::new("hostile.xml", text)]) {
                Ok(program) => all_code_compiles(&program),
                Err(found) => assert!(found.iter().all(|it| matches!(it.code, "lua-syntax" | "unknown-name"))),
            });
        }
    }
}

#[test]
fn advice_stays_cheap() {
    let long = |kind: &str, i: usize| format!("{kind}{i:06}{}", "abcdefgh".repeat(4));
    let types = many(50_000, |i| format!("<PROCESS_TYPE NAME=\"{}\"><BODY/></PROCESS_TYPE>", long("T", i)));
    let uses = many(100_000, |i| format!("<PROCESS NAME=\"p{i}\" TYPE=\"t{i:06}\"/>"));
    let process = format!("<PROCESS_TYPE NAME=\"P\"><BODY>{uses}</BODY></PROCESS_TYPE>");
    let found = expect("100,000 unknown types", document(&format!("{types}{process}")), &["too-many", "unknown-type"]);
    assert_eq!(found.len(), 201);
    let uses = many(40_000, |i| format!("<PROCESS NAME=\"p{i}\" TYPE=\"{}\"/>", long("X", i)));
    let process = format!("<PROCESS_TYPE NAME=\"P\"><BODY>{uses}</BODY></PROCESS_TYPE>");
    expect("long unknown types", document(&format!("{types}{process}")), &["too-many", "unknown-type"]);

    let names = many(20_000, |i| format!("f(n{i}) "));
    let parameters =
        many(50_000, |i| format!("<IN_PARAMETER NAME=\"{}\" TYPE=\"int\" OPTIONAL=\"true\"/>", long("n", i)));
    expect(
        "20,000 unknown names",
        body(&format!("{parameters}<PRE_CODE>{names}</PRE_CODE>")),
        &["too-many", "unknown-name"],
    );
    let names = many(3_000, |i| format!("f({}) ", long("m", i)));
    expect(
        "long unknown names",
        body(&format!("{parameters}<PRE_CODE>{names}</PRE_CODE>")),
        &["too-many", "unknown-name"],
    );
    let words = many(100_000, |i| format!("{} ", long("m", i)));
    let elements = many(50_000, |i| format!("<BLOCK NAME=\"{}\"/>", long("n", i)));
    expect(
        "unknown names in AFTER",
        body(&format!("<PAR NAME=\"p\">{elements}<BLOCK NAME=\"b\" AFTER=\"{words}\"/></PAR>")),
        &["bad-after", "too-many"],
    );
    expect(
        "100,000 unknown elements",
        document(&many(100_000, |i| format!("<A{i}/>"))),
        &["too-many", "unknown-element"],
    );
    expect("100,000 missing attributes", body(&"<BLOCK/>".repeat(100_000)), &["missing-attribute", "too-many"]);
    expect(
        "100,000 wrong values",
        body(&many(100_000, |i| format!("<BLOCK NAME=\"b{i}\" RETRIES=\"x\"/>"))),
        &["bad-value", "too-many"],
    );
}

#[test]
fn wide_documents_are_bounded() {
    expect("a million siblings", body(&"<BLOCK NAME=\"a\"/>".repeat(1_000_000)), &["too-large"]);
    expect(
        "450,000 siblings of one name",
        body(&"<BLOCK NAME=\"a\"/>".repeat(450_000)),
        &["duplicate-name", "too-many"],
    );
    expect(
        "100,000 parallel loops",
        body(&many(100_000, |i| format!("<PARFOR NAME=\"p{i}\" TO=\"1\"><ITERATE/></PARFOR>"))),
        &[],
    );
    expect(
        "50,000 types",
        document(&many(50_000, |i| {
            format!(
                "<PROCESS_TYPE NAME=\"P{i}\"><BODY><PROCESS NAME=\"p\" TYPE=\"P{}\"/></BODY></PROCESS_TYPE>",
                (i + 1) % 50_000
            )
        })),
        &[],
    );
    expect("a type that calls itself", body(&many(100_000, |i| format!("<PROCESS NAME=\"p{i}\" TYPE=\"P\"/>"))), &[]);
    let parameters =
        |kind: &str, more: &str, count| many(count, |i| format!("<{kind} NAME=\"n{i}\" TYPE=\"int\"{more}/>"));
    let wide = |parameters: &str, elements: &str| {
        document(&format!(
            "<ACTIVITY_TYPE NAME=\"A\">{parameters}<CODE LANGUAGE=\"bash\"/></ACTIVITY_TYPE>\
             <PROCESS_TYPE NAME=\"P\"><BODY>{elements}</BODY></PROCESS_TYPE>"
        ))
    };
    let elements = many(150_000, |i| format!("<ACTIVITY NAME=\"a{i}\" TYPE=\"A\"/>"));
    expect(
        "many elements with many parameters",
        wide(&parameters("IN_PARAMETER", " OPTIONAL=\"true\"", 120_000), &elements),
        &[],
    );
    expect("many elements with many results", wide(&parameters("OUT_PARAMETER", "", 150_000), &elements), &[]);
    expect(
        "many elements without their values",
        wide(&parameters("IN_PARAMETER", "", 120_000), &elements),
        &["missing-parameter", "too-many"],
    );
    let process =
        |i: usize| format!("<PROCESS_TYPE NAME=\"P{i}\">{}<BODY/></PROCESS_TYPE>", parameters("IN_PARAMETER", "", 100));
    expect("many types with many parameters", document(&many(3_000, process)), &[]);
}

#[test]
fn graphs_are_bounded() {
    let par = |elements: String| body(&format!("<PAR NAME=\"p\">{elements}</PAR>"));
    let after = |i: usize, after: &str| format!("<BLOCK NAME=\"b{i}\" AFTER=\"{after}\"/>");
    let count = 100_000;
    expect("a chain", par(many(count, |i| if i == 0 { after(0, "") } else { after(i, &format!("b{}", i - 1)) })), &[]);
    expect(
        "a chain backwards",
        par(many(count, |i| if i + 1 == count { after(i, "") } else { after(i, &format!("b{}", i + 1)) })),
        &[],
    );
    let found = expect("a cycle", par(many(count, |i| after(i, &format!("b{}", (i + 1) % count)))), &["after-cycle"]);
    assert_eq!(found.len(), 1);
    expect("many cycles", par(many(count, |i| after(i, &format!("b{}", i ^ 1)))), &["after-cycle", "too-many"]);
    expect(
        "a cycle with many tails",
        par(many(count, |i| after(i, if i == 0 { "b1" } else { "b0" }))),
        &["after-cycle"],
    );
    expect("each waits for itself", par(many(count, |i| after(i, &format!("b{i}")))), &["bad-after", "too-many"]);
    let all = many(1_300, |i| format!("b{i} "));
    expect("all wait for all", par(many(1_300, |i| after(i, &all))), &["bad-after", "too-many"]);
    expect("all wait for all before", par(many(1_300, |i| after(i, &many(i, |i| format!("b{i} "))))), &[]);
    expect("one name again and again", par(after(0, "") + &after(1, &"b0 ".repeat(4_000_000))), &[]);
    expect("one wrong name again and again", par(after(1, &"b0 ".repeat(4_000_000))), &["bad-after", "too-many"]);
}

#[test]
fn grids_are_counted_when_they_run() {
    let axes = |count: usize, values: &str| {
        let axes = many(count, |i| format!("<AXIS NAME=\"a{i}\" TYPE=\"int\" VALUES=\"{values}\"/>"));
        body(&format!("<PARFOR NAME=\"f\"><PARAM_GRID>{axes}</PARAM_GRID><ITERATE/></PARFOR>"))
    };
    let product = |text: String| {
        bounded("product", move || {
            let program = load(&[Source::new("hostile.xml", text)]).unwrap();
            let Kind::For { source: Loop::Grid(axes), .. } = &program.processes[0].nodes[1].kind else { panic!() };
            let sizes = axes.iter().map(|axis| match &axis.values {
                AxisValues::Literal(values) => values.len(),
                AxisValues::Code(_) => 0,
            });
            sizes.sum::<usize>()
        })
    };
    // 10^1000 combinations are a number of values all the same.
    assert_eq!(product(axes(1_000, "0,1,2,3,4,5,6,7,8,9")), 10_000);
    assert_eq!(product(axes(1, &vec!["1"; 4_000_000].join(","))), 4_000_000);
    expect("an axis of nothing", axes(1, &",".repeat(4_000_000)), &["bad-value"]);
    let empty = axes(1, &",".repeat(8_000_000)).replace("int", "string");
    expect("an axis of empty texts", empty, &[]);
    expect("many axes", axes(200_000, "1"), &[]);
    let list = |value: &str| {
        document(&format!(
            "<PROCESS_TYPE NAME=\"P\"><IN_PARAMETER NAME=\"l\" TYPE=\"list\" DEFAULT=\"{value}\"/><BODY/></PROCESS_TYPE>"
        ))
    };
    expect("a long list", list(&format!("[{}0]", "0,".repeat(7_000_000))), &[]);
    expect("a long list of lists", list(&format!("[{}[]]", "[],".repeat(5_000_000))), &[]);
    expect("a deep list", list(&format!("{}{}", "[".repeat(1_000_000), "]".repeat(1_000_000))), &["bad-value"]);
}

#[test]
fn templates_are_bounded() {
    let bound = |value: &str| {
        body(&format!("<BLOCK NAME=\"b\" x=\"{value}\"><IN_PARAMETER NAME=\"x\" TYPE=\"string\"/></BLOCK>"))
    };
    let argument = |value: &str| {
        document(&format!(
            "<ACTIVITY_TYPE NAME=\"A\"><CODE LANGUAGE=\"command\"><ARG>{value}</ARG></CODE></ACTIVITY_TYPE>"
        ))
    };
    for (name, value, codes) in [
        ("openings", "${".repeat(5_000_000), &["bad-value"][..]),
        ("escaped openings", "$${".repeat(5_000_000), &[]),
        ("dollars", "$".repeat(15_000_000), &[]),
        ("empty ones", "${}".repeat(1_000), &["lua-syntax", "too-many"]),
        ("nested ones", format!("{}{}", "${".repeat(1_000), "}".repeat(1_000)), &["lua-syntax"]),
        ("closings", format!("${{1}}{}", "}".repeat(5_000_000)), &[]),
        ("braces", format!("${{{}", "{".repeat(5_000_000)), &["bad-value"]),
        ("brackets", format!("${{{}}}", "[".repeat(5_000_000)), &["bad-value"]),
        ("long brackets", format!("${{{}}}", "[=[".repeat(5_000_000)), &["bad-value"]),
        (
            "long brackets of growing level",
            format!("${{{}}}", many(3_000, |i| format!("[{}", "=".repeat(i)))),
            &["bad-value"],
        ),
        ("ticks", format!("${{{}}}", "`{".repeat(5_000_000)), &["bad-value"]),
        ("quotes", format!("${{{}}}", "'".repeat(5_000_001)), &["bad-value"]),
        ("backslashes", format!("${{'{}}}", "\\".repeat(5_000_000)), &["bad-value"]),
        ("100 expressions", "${1} ".repeat(100), &[]),
        ("300 expressions", "${1} ".repeat(300), &[]),
        ("10,000 expressions", "${1} ".repeat(10_000), &[]),
        ("300 expressions without text", "${1}".repeat(300), &[]),
    ] {
        expect(name, bound(&value), codes);
        expect(name, argument(&value), codes);
    }
}

#[test]
fn large_code_is_bounded() {
    let places = |name: &str, code: &str, codes: &[&str]| {
        for (place, text) in places_of_statements(code) {
            expect(&format!("{name} in {place}"), text, codes);
        }
    };
    places("statements", &"do local x = 1 end ".repeat(13_000), &[]);
    let blank = " ".repeat(15 << 20);
    expect("white space", body(&format!("<PRE_CODE>{blank}</PRE_CODE>")), &[]);
    places("many statements", &"do local x = 1 end ".repeat(800_000), &["lua-syntax"]);
    places("a long comment", &format!("--[[{}]]", "x".repeat(15 << 20)), &["lua-syntax"]);
    let full = many(58, |i| format!(" a{i}=\"{}\"", "${1}".repeat(64 << 10)));
    let parameters = many(58, |i| format!("<IN_PARAMETER NAME=\"a{i}\" TYPE=\"string\"/>"));
    let block = format!("<BLOCK NAME=\"b\"{full}>{parameters}</BLOCK>");
    expect("nothing but expressions", body(&block), &["lua-syntax", "too-many"]);
    // Each function has as many locals as Luau allows, and the names in the innermost are none of them.
    let locals = many(100, |i| format!("local a{i} "));
    let functions = 150;
    let code = format!(
        "{}{}{}",
        format!("local function f() {locals}").repeat(functions),
        "tostring(print) ".repeat(6_000),
        " end".repeat(functions)
    );
    places("functions full of locals", &code, &[]);
}

#[test]
fn numbers_are_bounded() {
    let huge = "9".repeat(100_000);
    for attribute in ["RETRIES", "RETRY_DELAY", "RETRY_BACKOFF", "TIMEOUT"] {
        for value in
            [&huge, "-1", "1e999", "NaN", "inf", "0x10", "1_000", "", "٣", "99999999999999999999d", &format!("{huge}s")]
        {
            expect(attribute, body(&format!("<BLOCK NAME=\"b\" {attribute}=\"{value}\"/>")), &["bad-value"]);
        }
    }
    expect("many parts", body(&format!("<BLOCK NAME=\"b\" TIMEOUT=\"{}\"/>", "1ms".repeat(1_000_000))), &[]);
    for (attribute, value) in [
        ("FROM", huge.as_str()),
        ("TO", "9223372036854775808"),
        ("STEP", "-9223372036854775809"),
        ("STEP", "0"),
        ("TO", "1.5"),
    ] {
        let to = if attribute == "TO" { "" } else { " TO=\"1\"" };
        expect(
            attribute,
            body(&format!("<FOR NAME=\"f\" {attribute}=\"{value}\"{to}><ITERATE/></FOR>")),
            &["bad-value"],
        );
    }
    let extreme = "<FOR NAME=\"f\" FROM=\"-9223372036854775808\" TO=\"9223372036854775807\"><ITERATE/></FOR>";
    expect("all numbers", body(extreme), &[]);
    for requires in [
        "CPUS=\"0\"".to_owned(),
        "CPUS=\"4294967296\"".into(),
        "GPUS=\"-1\"".into(),
        format!("MEMORY=\"{huge}\""),
        format!("MEMORY=\"0.{huge}\""),
        "MEMORY=\"99999999999999999999TiB\"".into(),
        "MEMORY=\"9223372036854775808\"".into(),
        "MEMORY=\"1.5.5GB\"".into(),
    ] {
        let activity =
            format!("<ACTIVITY_TYPE NAME=\"A\"><REQUIRES {requires}/><CODE LANGUAGE=\"lua\"/></ACTIVITY_TYPE>");
        expect(&requires[..requires.len().min(40)], document(&activity), &["bad-value"]);
    }
    let default = |ty: &str, value: &str| {
        document(&format!(
            "<PROCESS_TYPE NAME=\"P\"><IN_PARAMETER NAME=\"l\" TYPE=\"{ty}\" DEFAULT=\"{value}\"/><BODY/></PROCESS_TYPE>"
        ))
    };
    expect("a huge int", default("int", &huge), &["bad-value"]);
    expect("a huge number in a list", default("list", &format!("[{huge}]")), &["bad-value"]);
    let literal = format!("<FOR NAME=\"f\" TO=\"${{{huge}}}\"><ITERATE/></FOR>");
    expect("a huge number in code", body(&literal), &["bad-value"]);
}

#[test]
fn only_utf8_is_read() {
    let document = body("");
    let utf16: Vec<u8> = document.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let wide: Vec<u8> = document.chars().flat_map(|c| (c as u32).to_be_bytes()).collect();
    for (name, bytes) in [
        ("UTF-16", utf16.clone()),
        ("UTF-16 with a mark", [&[0xFF, 0xFE], &utf16[..]].concat()),
        ("UTF-16, the other way", document.encode_utf16().flat_map(u16::to_be_bytes).collect()),
        ("UTF-32", wide.clone()),
        ("UTF-32 with a mark", [&[0, 0, 0xFE, 0xFF], &wide[..]].concat()),
        ("overlong", [b"<!--\xC0\xAF-->", document.as_bytes()].concat()),
        ("overlong NUL", [b"<!--\xC0\x80-->", document.as_bytes()].concat()),
        ("a surrogate", [b"<!--\xED\xA0\x80-->", document.as_bytes()].concat()),
        ("beyond Unicode", [b"<!--\xF4\x90\x80\x80-->", document.as_bytes()].concat()),
        ("Latin-1", [b"<!--\xE9-->", document.as_bytes()].concat()),
        ("cut off", [document.as_bytes(), b"\xF0\x9F\x98"].concat()),
    ] {
        let accepted = xml::decode(&bytes).is_ok_and(|text| load(&[Source::new("hostile.xml", text)]).is_ok());
        assert!(!accepted, "{name}");
    }
    expect("a mark", format!("\u{FEFF}{document}"), &[]);
    expect("two marks", format!("\u{FEFF}\u{FEFF}{document}"), &["malformed-xml"]);
    expect("a mark inside", format!("<?xml version=\"1.0\"?>\u{FEFF}{document}"), &["malformed-xml"]);
    expect("a mark at the end", format!("{document}\u{FEFF}"), &["malformed-xml"]);
    expect("another encoding", format!("<?xml version=\"1.0\" encoding=\"UTF-7\"?>{document}"), &["encoding"]);
    expect("nothing", "", &["malformed-xml"]);
}

#[test]
fn cdata_is_text_and_nothing_else() {
    for (name, code, codes) in [
        ("in two", "<![CDATA[print(]]><![CDATA[1)]]>", &[][..]),
        ("in many", &"<![CDATA[ ]]>".repeat(300_000), &[]),
        ("its own end", "<![CDATA[print(']]]]><![CDATA[>')]]>", &[]),
        ("nested", "<![CDATA[<![CDATA[]]>", &["lua-syntax"]),
        ("nested and closed twice", "<![CDATA[<![CDATA[]]>]]>", &["malformed-xml"]),
        ("unclosed", "<![CDATA[", &["malformed-xml"]),
        ("lower case", "<![cdata[]]>", &["malformed-xml"]),
        ("a tag in it", "<![CDATA[</PRE_CODE><BLOCK/>]]>", &["lua-syntax"]),
        ("a reference in it", "<![CDATA[&lt;]]>", &["lua-syntax"]),
        ("a document type in it", "<![CDATA[--<!DOCTYPE a>]]>", &[]),
        ("an end in text", "]]>", &["malformed-xml"]),
        ("a comment between", "print(<!-- ) -->1)", &[]),
        ("a name in two", "pri<![CDATA[nt]]>(1)", &[]),
    ] {
        expect(name, body(&format!("<PRE_CODE>{code}</PRE_CODE>")), codes);
    }
    expect("where no text belongs", body("<![CDATA[x]]>"), &["unexpected-text"]);
    expect("in an attribute", body("<BLOCK NAME=\"<![CDATA[b]]>\"/>"), &["malformed-xml"]);
    expect("before the root", format!("<![CDATA[]]>{}", body("")), &["malformed-xml"]);
    expect("behind the root", format!("{}<![CDATA[]]>", body("")), &["malformed-xml"]);
}

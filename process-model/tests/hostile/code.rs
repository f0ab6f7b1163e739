//! Lua that nests too deep, breaks out of its wrapper, or confuses one of the two parsers.

use xavantes_model::diagnostic::Source;
use xavantes_model::load::{compile_exit_condition, load};
use xavantes_model::script::{Form, check};

use crate::support::{
    all_code_compiles, body, bounded, checked, expect, many, places_of_expressions, places_of_statements,
};

/// Opening, innermost and closing text of expressions that nest.
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

/// Opening, innermost and closing text of statements that nest.
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
    // The declaration stands once; only the type behind it nests.
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
                // A table is also reported as the wrong type where a number or text is expected.
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

/// Near the depth at which Luau gives up, accepted code still compiles with the wrapper around it.
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
    // A comment does not swallow the code that follows it.
    for code in ["f() -- x", "f() --[[ x ]]", "f() --", "f() -- ]]", "f()\n-- x\n", "f() --[==[ x ]==] --"] {
        for (place, text) in places_of_expressions(&code.replace("f()", "tostring(1)")) {
            expect(&format!("{code} in {place}"), text, &[]);
        }
    }
}

/// Luau reads a NUL as the end of the text, a form feed as a space, and a carriage return as the end of a comment. Few
/// documents can contain them, but a new condition for a running controller can.
#[test]
fn code_has_no_control_characters() {
    for code in [
        "x\0",
        "x = 1 --\0",
        "\0",
        "x = 'a\0'",
        "x = 1\0 end)() os.exit()",
        "f\0@",
        "x :: T\u{C}",
        "x\u{B}",
        "x --\r;",
        "--\ry = 1",
    ] {
        for form in [Form::Statements, Form::Expression] {
            let error = checked(code, form).unwrap_err();
            assert!(code[error.at.clone()].contains(char::is_control), "{code:?} {error:?}");
            assert!(error.message.contains("not allowed in code"), "{code:?} {error:?}");
        }
    }
    let program = load(&[Source::new("hostile.xml", body("<PAR NAME=\"p\"/>"))]).unwrap();
    let node = program.processes[0].nodes[1].id;
    assert!(compile_exit_condition(&program, 0, node, "true --\0").is_err());
    assert!(compile_exit_condition(&program, 0, node, "true --\r;").is_err());
    assert!(checked("x = 1 -- one\r\ny = 2\r\n", Form::Statements).is_ok());
}

/// A missing token at the end is reported at the last character, which may be longer than a byte.
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

/// Luau accepts syntax that full_moon does not know, which must give a finding and not a panic.
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
    // Each function has 100 locals, and the innermost function uses none of them.
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

//! Mistakes that would show only when the process runs: results that nothing assigns, values read before they exist, texts
//! that look like names, settings that never apply.

use xavantes_model::diagnostic::{Severity, Source};
use xavantes_model::load::load;

use crate::support::{body, check, document, findings};

/// Checks that the document loads, with one warning at the mark.
fn warns(marked: &str, (code, message, help): (&str, &str, &str)) {
    let at = marked.find('¦').unwrap_or_else(|| panic!("no mark in {marked}"));
    let text = marked.replace('¦', "");
    let program = load(&[Source::new("test.xml", text.as_str())]).unwrap_or_else(|found| panic!("{found:#?}"));
    let [warning] = &program.warnings[..] else { panic!("one warning expected for {marked}: {:#?}", program.warnings) };
    assert_eq!(
        (warning.severity, warning.code, warning.span.bytes.start),
        (Severity::Warning, code, at),
        "{warning:#?}"
    );
    assert!(warning.message.contains(message), "{message:?} expected in {warning:#?}");
    assert!(warning.help.as_deref().unwrap_or("").contains(help), "{help:?} expected in {warning:#?}");
}

fn loads(types: &str) {
    let program = load(&[Source::new("test.xml", document(types))]).unwrap_or_else(|found| panic!("{found:#?}"));
    assert!(program.warnings.is_empty(), "{types}\n{:#?}", program.warnings);
}

#[test]
fn results_that_nothing_assigns_are_found() {
    let out = r#"<OUT_PARAMETER TYPE="int" NAME="¦x"/>"#;
    for (types, help) in [
        (format!(r#"<PROCESS_TYPE NAME="P">{out}<BODY/></PROCESS_TYPE>"#), "POST_CODE of this BODY"),
        (body(&format!(r#"<BLOCK NAME="b">{out}</BLOCK>"#)), "POST_CODE of this BLOCK: x = …"),
        (body(&format!(r#"<FOR NAME="f" TO="1"><ITERATE>{out}</ITERATE></FOR>"#)), "ITERATE"),
        (format!(r#"<ACTIVITY_TYPE NAME="A">{out}<CODE LANGUAGE="lua">local x = 1</CODE></ACTIVITY_TYPE>"#), "x = …"),
        (format!(r#"<ACTIVITY_TYPE NAME="A">{out}<CODE LANGUAGE="lua"/></ACTIVITY_TYPE>"#), "OPTIONAL"),
    ] {
        check(&document(&types), ("unassigned", "OUT parameter \"x\"", help));
    }
    let script =
        |code: &str| format!(r#"<ACTIVITY_TYPE NAME="A">{out}<CODE LANGUAGE="bash">{code}</CODE></ACTIVITY_TYPE>"#);
    warns(&document(&script("y=1")), ("unassigned", "never mentions", "stdout-trimmed"));
    let plain = |types: String| types.replace('¦', "");
    for types in [
        plain(script("x=1")),
        plain(script("echo > $XAVANTES_RESULTS")),
        plain(script("y=1")).replace("NAME=\"x\"", "NAME=\"x\" FROM=\"stdout-trimmed\""),
        plain(script("y=1")).replace("NAME=\"x\"", "NAME=\"x\" DEFAULT=\"1\""),
        plain(body(&format!(r#"<FOR NAME="f" TO="1">{out}<ITERATE><PRE_CODE>x = 1</PRE_CODE></ITERATE></FOR>"#))),
        plain(body(&format!(r#"<BLOCK NAME="f">{out}<CATCH><PRE_CODE>x = 1</PRE_CODE></CATCH></BLOCK>"#))),
        body(r#"<BLOCK NAME="b"><INOUT_PARAMETER TYPE="int" NAME="x" DEFAULT="1"/></BLOCK>"#),
        plain(body(&format!(r#"<BLOCK NAME="b">{out}<PRE_CODE>error("always")</PRE_CODE></BLOCK>"#))),
        plain(format!(r#"<ACTIVITY_TYPE NAME="A">{out}<CODE LANGUAGE="lua">error("always")</CODE></ACTIVITY_TYPE>"#)),
    ] {
        loads(&types);
    }
    // Code with an error may assign anything.
    let unclear = plain(body(&format!(r#"<BLOCK NAME="b">{out}<POST_CODE>nothing = 1</POST_CODE></BLOCK>"#)));
    let codes: Vec<_> = findings(&document(&unclear)).iter().map(|it| it.code).collect();
    assert_eq!(codes, ["unknown-name"]);
}

#[test]
fn results_cannot_be_read_before_they_exist() {
    let (a, b) = (r#"<ACTIVITY NAME="a" TYPE="Fit"/>"#, r#"<ACTIVITY NAME="b" TYPE="Fit" label="${¦a.model}"/>"#);
    for (content, help) in [
        (format!("{b}{a}"), "order"),
        (format!(r#"<FOR NAME="f" TO="1"><ITERATE><BLOCK NAME="x">{b}</BLOCK>{a}</ITERATE></FOR>"#), "PAR"),
        (format!("<PRE_CODE>local x = ¦a.model</PRE_CODE>{a}"), "POST_CODE"),
        (format!(r#"<PAR NAME="p"><PRE_CODE>local x = ¦a.model</PRE_CODE>{a}</PAR>"#), "POST_CODE"),
        (r#"<ACTIVITY NAME="a" TYPE="Fit" label="${¦a.model}"/>"#.to_owned(), "its own"),
        (format!(r#"<BLOCK NAME="b">{a}<POST_CODE>print(¦b.a.model)</POST_CODE></BLOCK>"#), "by their names"),
        (r#"<PAR NAME="p"><PRE_CODE>print(¦p.completed)</PRE_CODE></PAR>"#.to_owned(), "its own"),
    ] {
        warns(&document(&body(&content)), ("too-early", "no results yet", help));
    }
    let b = b.replace('¦', "");
    for content in [
        format!("{a}{b}"),
        format!(r#"<PAR NAME="p">{b}{a}</PAR>"#),
        format!("{a}<FINALLY><PRE_CODE>print(a.model)</PRE_CODE>{b}</FINALLY>"),
        format!(r#"<PRE_CODE>a.depth = 4 print(a.depth)</PRE_CODE>{a}"#),
        format!(r#"<FOR NAME="f" TO="1" COLLECT="a.model"><ITERATE>{a}</ITERATE></FOR>"#),
    ] {
        loads(&body(&content));
    }
}

#[test]
fn texts_that_look_like_names_are_found() {
    let activity = |attributes: &str| body(&format!(r#"<ACTIVITY NAME="a" TYPE="Fit" {attributes}/>"#));
    let name = ("text-like-name", "the text \"text\"", "did you mean ${text}?");
    warns(&document(&activity("label=¦\"text\"").replace("=¦\"", "=\"¦")), name);
    let result = r#"<ACTIVITY NAME="a" TYPE="Fit"/><ACTIVITY NAME="b" TYPE="Fit" label="¦a.model"/>"#;
    warns(&document(&body(result)), ("text-like-name", "", "did you mean ${a.model}?"));
    check(&document(&activity("depth=\"¦n\"")), ("bad-value", "depth", "did you mean ${n}?"));
    let loops = |attribute: &str| document(&body(&format!(r#"<FOR NAME="f" {attribute}><ITERATE/></FOR>"#)));
    check(&loops("TO=\"¦n\""), ("bad-value", "TO", "did you mean ${n}?"));
    check(&loops("EACH=\"¦list\""), ("bad-value", "EACH", "did you mean ${list}?"));
    check(&loops("EACH=\"¦1, 2\""), ("bad-value", "EACH", "[1, 2, 3]"));
    for right in [activity("label=\"other\""), activity("label=\"${text}\""), activity("label=\"a text\"")] {
        loads(&right);
    }
}

#[test]
fn settings_of_retries_that_never_apply_are_found() {
    let activity = |attributes: &str| document(&body(&format!(r#"<ACTIVITY NAME="a" TYPE="Fit" {attributes}/>"#)));
    let none = ("never-applies", "there are no retries", "RETRIES");
    warns(&activity("¦RETRY_DELAY=\"1s\""), none);
    warns(&activity("RETRIES=\"0\" ¦RETRY_BACKOFF=\"3\""), none);
    warns(&activity("RETRIES=\"2\" ¦RETRY_BACKOFF=\"3\""), ("never-applies", "no wait", "RETRY_DELAY"));
    warns(&document(&body(r#"<FOR NAME="f" TO="1"><ITERATE ¦RETRY_DELAY="1s"/></FOR>"#)), none);
    let typed = |of_type: &str, code: &str, attributes: &str| {
        document(&format!(
            r#"<ACTIVITY_TYPE NAME="T" {of_type}><CODE LANGUAGE="bash" {code}>true</CODE></ACTIVITY_TYPE>
            <PROCESS_TYPE NAME="P"><BODY><ACTIVITY NAME="a" TYPE="T" {attributes}/></BODY></PROCESS_TYPE>"#
        ))
    };
    warns(&typed("¦RETRY_DELAY=\"1s\"", "", ""), none);
    warns(&typed("", "¦RETRY=\"75\"", ""), none);
    for right in [
        activity("RETRIES=\"2\" RETRY_DELAY=\"1s\" RETRY_BACKOFF=\"3\""),
        typed("RETRY_DELAY=\"1s\"", "RETRY=\"75\"", "RETRIES=\"1\""),
        typed("RETRIES=\"1\" RETRY_DELAY=\"1s\"", "", "RETRY_BACKOFF=\"2\""),
    ] {
        let program = load(&[Source::new("test.xml", right)]).unwrap();
        assert!(program.warnings.is_empty(), "{:#?}", program.warnings);
    }
}

#[test]
fn misspelt_languages_are_found() {
    let activity = |language: &str| {
        document(&format!(r#"<ACTIVITY_TYPE NAME="A"><CODE LANGUAGE="{language}">x</CODE></ACTIVITY_TYPE>"#))
    };
    for (language, meant) in
        [("¦pyhton", "python"), ("¦pythn3", "python"), ("¦Bash", "bash"), ("¦Lua", "lua"), ("¦comand", "command")]
    {
        check(&activity(language), ("bad-value", "no interpreter", &format!("did you mean \"{meant}\"?")));
    }
    warns(&activity("¦mypython"), ("bad-value", "no interpreter", "did you mean \"python\"?"));
    // Many interpreters have short names.
    warns(&activity("¦bahs"), ("bad-value", "no interpreter", "did you mean \"bash\"?"));
    warns(&activity("¦nod"), ("bad-value", "no interpreter", "did you mean \"node\"?"));
    for language in [
        "python",
        "python3",
        "python3.11",
        "zsh",
        "ipython",
        "Rscript",
        "awk",
        "sbcl",
        "octave",
        "wolfram",
        "jython",
        "yash",
        "bsh",
        "osh",
        "cython",
    ] {
        let found = load(&[Source::new("test.xml", activity(language))]).map(|program| program.warnings);
        assert_eq!(found.as_deref(), Ok(&[][..]), "{language}");
    }
}

#[test]
fn results_in_loops_and_inside_of_elements_get_advice() {
    let a = r#"<ACTIVITY NAME="a" TYPE="Fit"/>"#;
    for (content, expected) in [
        (
            format!(r#"<FOR NAME="f" TO="2"><ITERATE>{a}</ITERATE></FOR><POST_CODE>print(¦f.a.model)</POST_CODE>"#),
            ("unknown-parameter", "once per iteration", "COLLECT=\"a.model\""),
        ),
        (
            format!(
                r#"<BLOCK NAME="b"><FOR NAME="f" TO="2"><ITERATE>{a}</ITERATE></FOR></BLOCK><POST_CODE>print(¦b.f.a.model)</POST_CODE>"#
            ),
            ("unknown-parameter", "\"b.f\"", "b.f.results"),
        ),
        (
            format!(r#"<BLOCK NAME="b">{a}</BLOCK><POST_CODE>print(¦b.a)</POST_CODE>"#),
            ("element-as-value", "\"b.a\" is an element", "b.a.model"),
        ),
        (
            format!(r#"<BLOCK NAME="b">{a}</BLOCK><POST_CODE>print(b.a.¦modle)</POST_CODE>"#),
            ("unknown-parameter", "\"b.a\" has no parameter", "\"model\""),
        ),
        (
            format!(r#"<PRE_CODE>¦b.a.depth = 1</PRE_CODE><BLOCK NAME="b">{a}</BLOCK>"#),
            ("bad-assignment", "inside \"b\"", "PRE_CODE of the BLOCK"),
        ),
    ] {
        check(&document(&body(&content)), expected);
    }
}

#[test]
fn a_quote_in_a_value_gets_advice() {
    for (text, help) in [
        (r#"<XAVANTES VERSION="1"><A x="say ¦"hello" now"/></XAVANTES>"#, "&quot;"),
        ("<XAVANTES VERSION=\"1\"><A x='it¦'s fine, isn't it'/></XAVANTES>", "&apos;"),
    ] {
        check(text, ("malformed-xml", "ended the value", help));
    }
    let second = r#"<XAVANTES VERSION="1"><A x="a == " ¦b""/></XAVANTES>"#;
    check(second, ("malformed-xml", "has no value", "&quot;"));
}

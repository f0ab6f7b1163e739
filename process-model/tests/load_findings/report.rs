//! Many findings at once: their order, their number, and damaged documents.

use xavantes_model::diagnostic::Source;
use xavantes_model::load::load;

use crate::support::{body, document, findings};

#[test]
fn all_findings_are_reported_at_once_and_in_order() {
    let text = document(&body(
        r#"<PRE_CODE>undeclared = 1 a.nothing = nn</PRE_CODE>
        <BLOK NAME="x"/>
        <ACTIVITY NAME="a" TYPE="Fit" RETRIES="x" dpth="1" depth="y"/>
        <ACTIVITY NAME="a" TYPE="Fti" whatever="${n +}"/>
        <FOR NAME="f"><PRE_CODE>if</PRE_CODE></FOR>
        <PAR NAME="p" JOIN="0"><BLOCK NAME="q" AFTER="r"/><ITERATE><WHIL/></ITERATE></PAR>"#,
    ));
    let other = document(r#"<PROCESS_TYPE NAME="Other"><BODY><PROCESS NAME="m" TYPE="Man"/></BODY></PROCESS_TYPE>"#);
    let sources = [Source::new("one.xml", text), Source::new("two.xml", other)];
    let found = load(&sources).unwrap_err();
    let codes: Vec<&str> = found.iter().map(|diagnostic| diagnostic.code).collect();
    assert_eq!(
        codes,
        [
            "unknown-name",
            "unknown-parameter",
            "unknown-name",
            "unknown-element",
            "bad-value",
            "unknown-parameter",
            "bad-value",
            "duplicate-name",
            "unknown-type",
            "lua-syntax",
            "missing-element",
            "lua-syntax",
            "bad-value",
            "bad-after",
            "misplaced-element",
            "unknown-element",
            "unknown-type",
        ],
        "{found:#?}"
    );
    assert!(found.is_sorted_by_key(|diagnostic| (diagnostic.span.source, diagnostic.span.bytes.start)));
    assert_eq!(found.last().unwrap().help.as_deref(), Some("did you mean \"Main\"?"));
}

#[test]
fn a_document_that_cannot_be_read_hides_only_its_own_types() {
    let sources = [
        Source::new("one.xml", document(&body(r#"<ACTIVITY NAME="a" TYPE="Elsewhere"/><BLOCK NAME="n"/>"#))),
        Source::new("two.xml", "<XAVANTES VERSION=\"1\"><ACTIVITY_TYPE NAME=\"Elsewhere\">"),
    ];
    let found = load(&sources).unwrap_err();
    assert_eq!(found.iter().map(|it| it.span.source).collect::<Vec<_>>(), [0, 1], "{found:#?}");
    assert_eq!(found[0].code, "duplicate-name");
}

#[test]
fn a_report_ends_after_200_findings() {
    for content in ["<BLOK/>".repeat(1000), "<BLOCK NAME=\"9\"/>".repeat(100_000), "<PRE_CODE/>".repeat(1000)] {
        let found = findings(&document(&body(&content)));
        assert_eq!(found.len(), 201);
        assert_eq!(found[200].code, "too-many");
    }
}

/// A truncated document, or one with a changed byte, gives findings and never a panic.
#[test]
fn damaged_documents_cause_no_panic() {
    let text = document(&body(
        r#"<PRE_CODE>par.x = n; out = {1, "a", {b = `x{n}`}}</PRE_CODE>
        <PAR NAME="par" JOIN="${n}"><IN_PARAMETER NAME="x" TYPE="int"/><ACTIVITY NAME="a" TYPE="Fit" label="q${x}w"/>
        <PARFOR NAME="b" AFTER="a" EACH="${list}" COLLECT="item"><ITERATE/><CATCH/></PARFOR></PAR>"#,
    ));
    let start = text.find("Main").unwrap();
    for at in (start..text.len()).filter(|at| text.is_char_boundary(*at)) {
        let _ = findings(&text[..at]);
        for replacement in ["\"", "}", "<", "$", "é", ""] {
            let end = at + text[at..].chars().next().unwrap().len_utf8();
            let _ = findings(&format!("{}{replacement}{}", &text[..at], &text[end..]));
        }
    }
}

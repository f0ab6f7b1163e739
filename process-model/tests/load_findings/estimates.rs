//! Findings about estimates.

use crate::support::{body, check, document};

#[test]
fn estimates_of_activities_are_checked() {
    for (estimate, expected) in [
        (r#"<ESTIMATE SECONDS="¦-1"/>"#, ("bad-value", "SECONDS: expected seconds from 0", "")),
        (r#"<ESTIMATE SECONDS="¦1h"/>"#, ("bad-value", "SECONDS", "")),
        (r#"<ESTIMATE SECONDS="¦2${n}"/>"#, ("bad-value", "SECONDS", "")),
        (r#"<ESTIMATE GPU_SECONDS="${¦text}"/>"#, ("bad-value", "expected float, but \"text\" is string", "")),
        (r#"<ESTIMATE SECONDS="${¦m}"/>"#, ("unknown-name", "there is no \"m\" here", "")),
        (r#"<ESTIMATE SECONDS="¦${n"/>"#, ("bad-value", "never closed", "")),
        (r#"<ESTIMATE SECONDS="${¦n +}"/>"#, ("lua-syntax", "", "")),
        (r#"<ESTIMATE ¦MINUTES="1"/>"#, ("unknown-attribute", "MINUTES", "SECONDS")),
        (r#"<ESTIMATE/><¦ESTIMATE/>"#, ("duplicate-element", "more than one ESTIMATE", "")),
        (r#"<ESTIMATE><SIZE PARAMETER="¦modell" BYTES="1"/></ESTIMATE>"#, ("unknown-parameter", "", "\"model\"")),
        (r#"<ESTIMATE><SIZE PARAMETER="¦depth" BYTES="1"/></ESTIMATE>"#, ("bad-value", "has no size", "")),
        (
            r#"<ESTIMATE><SIZE PARAMETER="model" BYTES="¦1 GB"/></ESTIMATE>"#,
            ("bad-value", "BYTES: expected a size", ""),
        ),
        (r#"<ESTIMATE><¦SIZE PARAMETER="model"/></ESTIMATE>"#, ("missing-attribute", "BYTES", "")),
        (
            r#"<ESTIMATE><SIZE PARAMETER="model" BYTES="1"/><SIZE PARAMETER="¦model" BYTES="1"/></ESTIMATE>"#,
            ("duplicate-element", "two SIZEs", ""),
        ),
        (r#"<ESTIMATE><FILE NAME="¦" USE="read"/></ESTIMATE>"#, ("bad-value", "name of a file", "")),
        (r#"<ESTIMATE><FILE NAME="a" USE="¦inout"/></ESTIMATE>"#, ("bad-value", "read or write", "")),
        (r#"<ESTIMATE>¦text</ESTIMATE>"#, ("unexpected-text", "", "")),
    ] {
        let activity = format!("<ACTIVITY NAME=\"a\" TYPE=\"Fit\">{estimate}</ACTIVITY>");
        check(&document(&body(&activity)), expected);
    }
    check(&document(&body(r#"<BLOCK NAME="b"><¦ESTIMATE/></BLOCK>"#)), ("misplaced-element", "", "ACTIVITY_TYPE"));
}

#[test]
fn estimates_of_types_use_what_is_known_before_an_activity_runs() {
    for (seconds, expected) in [
        ("${¦out}", ("unknown-name", "not known before", "IN and INOUT")),
        ("${a + ¦attempt}", ("unknown-name", "not known before", "")),
        ("${a + ¦b}", ("unknown-name", "there is no \"b\" here", "")),
        ("${¦'x'}", ("bad-value", "expected float", "")),
        ("${¦f}", ("bad-value", "\"f\" is file", "")),
    ] {
        let types = format!(
            r#"<ACTIVITY_TYPE NAME="T"><IN_PARAMETER NAME="a" TYPE="int"/><IN_PARAMETER NAME="f" TYPE="file"/>
            <OUT_PARAMETER NAME="out" TYPE="int"/><ESTIMATE SECONDS="{seconds}"/><CODE LANGUAGE="lua">out = a</CODE>
            </ACTIVITY_TYPE>"#
        );
        check(&document(&types), expected);
    }
}

//! Findings about names in code.

use crate::support::{body, check, document, findings};

#[test]
fn names_in_code_are_resolved_in_their_scope() {
    for (content, expected) in [
        ("<PRE_CODE>\n  out = 1\n  out = ¦nn</PRE_CODE>", ("unknown-name", "no \"nn\" here", "\"n\"")),
        ("<PRE_CODE><![CDATA[\n  out = 1\n  ¦out == 2]]></PRE_CODE>", ("lua-syntax", "", "")),
        ("<PRE_CODE>¦undeclared = 1</PRE_CODE>", ("unknown-name", "cannot be assigned", "local undeclared = …")),
        ("<PRE_CODE>¦print = 1</PRE_CODE>", ("unknown-name", "built in", "")),
        ("<PRE_CODE>out = ¦completed</PRE_CODE>", ("unknown-name", "completed", "POST_CODE of a loop")),
        ("<PRE_CODE>¦list.x = 1</PRE_CODE>", ("bad-assignment", "in place", "list = table.clone(list)")),
        ("<PRE_CODE>out = ¦...</PRE_CODE>", ("lua-syntax", "", "")),
        (r#"<PRE_CODE>¦fitt.depth = 1</PRE_CODE><BLOCK NAME="fit"/>"#, ("unknown-name", "", "\"fit\"")),
        (r#"<PRE_CODE>¦a = 1</PRE_CODE><ACTIVITY NAME="a" TYPE="Fit"/>"#, ("bad-assignment", "element", "a.depth")),
        (r#"<PRE_CODE>¦a.model = 1</PRE_CODE><ACTIVITY NAME="a" TYPE="Fit"/>"#, ("bad-assignment", "result", "")),
        (r#"<PRE_CODE>a.¦x = 1</PRE_CODE><ACTIVITY NAME="a" TYPE="Fit"/>"#, ("unknown-parameter", "", "it has depth")),
        (r#"<POST_CODE>out = ¦a[1]</POST_CODE><ACTIVITY NAME="a" TYPE="Fit"/>"#, ("element-as-value", "", "a.model")),
        (
            r#"<BLOCK NAME="b"><PRE_CODE>¦out = 1</PRE_CODE></BLOCK>"#,
            ("bad-assignment", "belongs to the BODY around", "OUT_PARAMETER"),
        ),
        (
            r#"<ACTIVITY NAME="a" TYPE="Fit"/><BLOCK NAME="b"><PRE_CODE>¦a.depth = 1</PRE_CODE></BLOCK>"#,
            ("bad-assignment", "belongs to the BODY around", "PRE_CODE of that BODY"),
        ),
        (
            r#"<FOR NAME="f" TO="1"><ITERATE><PRE_CODE>¦counter = 1</PRE_CODE></ITERATE></FOR>"#,
            ("bad-assignment", "only be read", "local"),
        ),
        (
            r#"<FOR NAME="f" TO="1"><ITERATE><PRE_CODE>¦out = 1</PRE_CODE></ITERATE></FOR>"#,
            ("bad-assignment", "belongs to the BODY", ""),
        ),
        (
            r#"<PARFOR NAME="f" TO="1"><OUT_PARAMETER NAME="x" TYPE="int"/><ITERATE><POST_CODE>¦x = 1</POST_CODE></ITERATE></PARFOR>"#,
            ("bad-assignment", "PARFOR", "use COLLECT or a shared object"),
        ),
        (
            r#"<PARSWITCH NAME="s"><OUT_PARAMETER NAME="x" TYPE="int"/><CASE CONDITION="true"><PRE_CODE>¦x = 1</PRE_CODE></CASE></PARSWITCH>"#,
            ("bad-assignment", "PARSWITCH", "use a shared object"),
        ),
        (
            r#"<PAR NAME="p"><POST_CODE>print(¦running)</POST_CODE></PAR>"#,
            ("unknown-name", "running", "EXIT_CONDITION"),
        ),
        (
            r#"<PAR NAME="p"><POST_CODE>¦completed = 1</POST_CODE></PAR>"#,
            ("bad-assignment", "the controller counts", ""),
        ),
        (r#"<PAR NAME="p" EXIT_CONDITION="¦results[1] == 1"/>"#, ("unknown-name", "results", "COLLECT")),
        (r#"<PAR NAME="p" EXIT_CONDITION="¦counter > 1"/>"#, ("unknown-name", "counter", "ITERATE")),
        (r#"<PAR NAME="p" JOIN="${¦completed}"/>"#, ("unknown-name", "completed", "")),
        (
            r#"<WHILE NAME="w" CONDITION="true"><ITERATE><PRE_CODE>print(¦item)</PRE_CODE></ITERATE></WHILE>"#,
            ("unknown-name", "item", ""),
        ),
        (
            r#"<FOR NAME="f" TO="1" COLLECT="a.¦modle"><ITERATE><ACTIVITY NAME="a" TYPE="Fit"/></ITERATE></FOR>"#,
            ("unknown-parameter", "modle", "\"model\""),
        ),
        (
            r#"<SWITCH NAME="s"><CASE CONDITION="¦inner.model == 1"><ACTIVITY NAME="inner" TYPE="Fit"/></CASE></SWITCH>"#,
            ("unknown-name", "inner", ""),
        ),
        (
            r#"<BLOCK NAME="b"><FINALLY><PRE_CODE>print(¦error2)</PRE_CODE></FINALLY></BLOCK>"#,
            ("unknown-name", "", "\"error\""),
        ),
    ] {
        check(&document(&body(content)), expected);
    }
}

#[test]
fn a_script_has_an_upper_bound_on_its_names() {
    let parameters = |count: usize| -> String {
        (0..count).map(|i| format!("<OUT_PARAMETER NAME=\"p{i}\" TYPE=\"int\" OPTIONAL=\"true\"/>")).collect()
    };
    let assign = |count: usize| (0..count).map(|i| format!("p{i}=1 ")).collect::<String>();
    let read = |count: usize| (0..count).map(|i| format!("p{i}")).collect::<Vec<_>>().join("+");
    let process = |code: String| {
        document(&format!(
            "<PROCESS_TYPE NAME=\"P\">{}<BODY><PRE_CODE>{code}</PRE_CODE></BODY></PROCESS_TYPE>",
            parameters(200)
        ))
    };
    let expected = ("too-many-names", "", "list or map");
    check(&process(format!("¦local x = {}", read(151))), expected);
    check(&process(format!("¦{}", assign(130))), expected);
    // At the bound the code still compiles.
    assert_eq!(findings(&process(format!("local x = {}", read(150)))), []);
    assert_eq!(findings(&process(assign(115))), []);
    let activity = |count| {
        let code = "<CODE LANGUAGE=\"lua\"/>";
        document(&format!("<¦ACTIVITY_TYPE NAME=\"A\">{}{code}</ACTIVITY_TYPE>", parameters(count)))
    };
    check(&activity(150), expected);
    assert_eq!(findings(&activity(100).replace('¦', "")), []);
}

#[test]
fn columns_are_exact_behind_references_and_cdata() {
    let text = document(&body(
        "<BLOCK NAME=\"b\">\n<PRE_CODE>local a = 'é' &lt; 'b'\n  <![CDATA[local b = 2 < 3]]> + wrong</PRE_CODE></BLOCK>",
    ));
    let found = findings(&text);
    assert_eq!(found.len(), 1);
    assert_eq!(&text[found[0].span.bytes.clone()], "wrong", "{found:#?}");
}

#[test]
fn syntax_errors_count_lines_as_the_document_does() {
    let text = document(&body("<PRE_CODE>\n  out = 1\n  if n > 1 then\n    out = 2\n</PRE_CODE>"));
    let line = text.lines().position(|line| line.contains("if n")).unwrap() + 1;
    let found = findings(&text.replace("n > 1", "n == 1"));
    assert_eq!(found.len(), 1, "{found:#?}");
    assert!(found[0].message.contains(&format!("'then' at line {line}")), "{found:#?}");
}

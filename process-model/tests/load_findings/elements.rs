//! Findings about elements, controllers and the parameters that attributes set.

use crate::support::{body, check, document, findings};

#[test]
fn elements_and_controllers_are_checked() {
    for (content, expected) in [
        (r#"<ACTIVITY NAME="a" TYPE="¦Fti"/>"#, ("unknown-type", "no activity type \"Fti\"", "\"Fit\"")),
        (r#"<ACTIVITY NAME="a" TYPE="¦Sub"/>"#, ("unknown-type", "", "PROCESS")),
        (r#"<PROCESS NAME="a" TYPE="¦Fit"/>"#, ("unknown-type", "no process type \"Fit\"", "ACTIVITY")),
        (r#"<¦ACTIVITY TYPE="Fit"/>"#, ("missing-attribute", "needs the attribute NAME", "")),
        (r#"<¦ACTIVITY NAME="a"/>"#, ("missing-attribute", "needs the attribute TYPE", "")),
        (r#"<ACTIVITY NAME="¦a-b" TYPE="Fit"/>"#, ("bad-name", "\"a-b\"", "")),
        (r#"<BLOCK NAME="¦catch"/>"#, ("bad-name", "\"catch\"", "")),
        (r#"<BLOCK NAME="a"/><BLOCK NAME="¦a"/>"#, ("duplicate-name", "\"a\" is already the name", "unique")),
        (r#"<BLOCK NAME="¦n"/>"#, ("duplicate-name", "already a variable of this BODY", "rename")),
        (r#"<BLOCK NAME="a" ¦AFTER="b"/><BLOCK NAME="b"/>"#, ("unknown-attribute", "directly in a PAR", "PAR")),
        (r#"<BLOCK NAME="a" DELEGATE="¦maybe"/>"#, ("bad-value", "auto or always or never", "")),
        (r#"<ACTIVITY NAME="a" TYPE="Fit" ¦DELEGATE="auto"/>"#, ("unknown-attribute", "DELEGATE", "")),
        (r#"<BLOCK NAME="a" ON_FAILURE="¦ignore"/>"#, ("bad-value", "fail or continue or hold", "")),
        (r#"<BLOCK NAME="a" ¦Depth="1"/>"#, ("unknown-attribute", "", "upper-case letter are set by code")),
        (r#"<¦ITERATE/>"#, ("misplaced-element", "ITERATE cannot stand in BODY", "FOR, WHILE")),
        (r#"<PAR NAME="p"><¦CASE CONDITION="true"/></PAR>"#, ("misplaced-element", "", "SWITCH, PARSWITCH")),
        (r#"<¦BLOK NAME="a"/>"#, ("unknown-element", "\"BLOK\"", "\"BLOCK\"")),
        (r#"<BLOCK NAME="b"><CATCH/><¦CATCH/></BLOCK>"#, ("duplicate-element", "more than one CATCH", "")),
        (r#"<SWITCH NAME="s"><¦CASE/></SWITCH>"#, ("missing-attribute", "CASE needs a CONDITION", "attribute")),
        (
            r#"<SWITCH NAME="s"><CASE CONDITION="true"><¦CONDITION>true</CONDITION></CASE></SWITCH>"#,
            ("duplicate-element", "both", ""),
        ),
        (
            r#"<SWITCH NAME="s"><DEFAULT/><¦CASE CONDITION="true"/></SWITCH>"#,
            ("case-after-default", "behind DEFAULT", "move"),
        ),
        (
            r#"<SWITCH NAME="s"><CASE CONDITION="true"/><CASE NAME="¦case1" CONDITION="true"/></SWITCH>"#,
            ("duplicate-name", "\"case1\"", ""),
        ),
        (r#"<¦WHILE NAME="w"><ITERATE/></WHILE>"#, ("missing-attribute", "WHILE needs a CONDITION", "")),
        (r#"<WHILE NAME="w"><¦CONDITION/><ITERATE/></WHILE>"#, ("lua-syntax", "missing", "")),
        (r#"<WHILE NAME="w" CONDITION="¦"><ITERATE/></WHILE>"#, ("lua-syntax", "missing", "")),
        (r#"<WHILE NAME="w" CONDITION="¦${n}"><ITERATE/></WHILE>"#, ("lua-syntax", "", "without ${ }")),
        (r#"<¦WHILE NAME="w" CONDITION="true"/>"#, ("missing-element", "no ITERATE", "")),
        (r#"<¦FOR NAME="f"><ITERATE/></FOR>"#, ("missing-attribute", "\"f\" has no bound", "f.counterEnd")),
        (r#"<¦FOR NAME="f" FROM="1"><ITERATE/></FOR>"#, ("missing-attribute", "has no bound", "TO=")),
        (r#"<FOR NAME="f" TO="¦x"><ITERATE/></FOR>"#, ("bad-value", "TO: expected a whole number", "${")),
        (r#"<FOR NAME="f" TO="¦1${n}"><ITERATE/></FOR>"#, ("bad-value", "cannot be mixed", "one ${")),
        (r#"<FOR NAME="f" TO="${¦text}"><ITERATE/></FOR>"#, ("bad-value", "expected int, but \"text\" is string", "")),
        (r#"<FOR NAME="f" TO="1" STEP="¦0"><ITERATE/></FOR>"#, ("bad-value", "STEP: must not be 0", "")),
        (r#"<FOR NAME="f" EACH="¦list"><ITERATE/></FOR>"#, ("bad-value", "expected list", "${list}")),
        (r#"<FOR NAME="f" EACH="${¦n}"><ITERATE/></FOR>"#, ("bad-value", "expected list", "")),
        (r#"<¦FOR NAME="f" TO="1" EACH="${list}"><ITERATE/></FOR>"#, ("bad-value", "TO and EACH", "")),
        (
            r#"<FOR NAME="f"><PARAM_GRID><AXIS NAME="a" TYPE="int" VALUES="¦1,x"/></PARAM_GRID><ITERATE/></FOR>"#,
            ("bad-value", "VALUES: expected int, got \"x\"", "commas"),
        ),
        (
            r#"<FOR NAME="f"><PARAM_GRID><AXIS NAME="a" TYPE="int" VALUES="¦"/></PARAM_GRID><ITERATE/></FOR>"#,
            ("bad-value", "no values", ""),
        ),
        (
            r#"<FOR NAME="f"><PARAM_GRID><AXIS NAME="a" TYPE="¦list" VALUES="${list}"/></PARAM_GRID><ITERATE/></FOR>"#,
            ("bad-value", "not list", ""),
        ),
        (
            r#"<FOR NAME="f"><PARAM_GRID><AXIS NAME="¦counter" TYPE="int" VALUES="1"/></PARAM_GRID><ITERATE/></FOR>"#,
            ("duplicate-name", "counter", ""),
        ),
        (r#"<FOR NAME="f"><¦PARAM_GRID/><ITERATE/></FOR>"#, ("missing-element", "no AXIS", "")),
        (r#"<FOR NAME="f" TO="1" ¦JOIN="1"><ITERATE/></FOR>"#, ("unknown-attribute", "JOIN", "")),
        (r#"<PAR NAME="p" JOIN="¦0"/>"#, ("bad-value", "JOIN: must be at least 1", "")),
        (r#"<PAR NAME="p" MAX_PARALLEL="¦${n"/>"#, ("bad-value", "never closed", "")),
        (
            r#"<PAR NAME="p" EXIT_CONDITION="true"><¦EXIT_CONDITION>true</EXIT_CONDITION></PAR>"#,
            ("duplicate-element", "both", ""),
        ),
        (
            r#"<PAR NAME="p"><BLOCK NAME="a" AFTER="¦before"/></PAR>"#,
            ("bad-after", "no element \"before\"", "same PAR"),
        ),
        (
            r#"<PAR NAME="p"><BLOCK NAME="load"/><BLOCK NAME="a" AFTER="load ¦laod"/></PAR>"#,
            ("bad-after", "\"laod\"", "did you mean \"load\"?"),
        ),
        (r#"<PAR NAME="p"><BLOCK NAME="a" AFTER="¦a"/></PAR>"#, ("bad-after", "cannot wait for itself", "")),
        (
            r#"<PAR NAME="p"><BLOCK NAME="x" AFTER="b"/><BLOCK NAME="a" AFTER="¦b"/><BLOCK NAME="b" AFTER="a"/></PAR>"#,
            ("after-cycle", "a → b → a", ""),
        ),
        (
            r#"<PAR NAME="p"><¦BLOCK NAME="a" x="${b.y}"><IN_PARAMETER TYPE="int" NAME="x"/><OUT_PARAMETER TYPE="int" NAME="y" OPTIONAL="true"/>
               <POST_CODE>y = x</POST_CODE></BLOCK><BLOCK NAME="b"><OUT_PARAMETER TYPE="int" NAME="y" OPTIONAL="true"/>
               <POST_CODE>y = a.y</POST_CODE></BLOCK></PAR>"#,
            ("after-cycle", "a → b → a", "reads a result"),
        ),
        (
            r#"<FOR NAME="f" TO="1"><IN_PARAMETER NAME="¦completed" TYPE="int" DEFAULT="1"/><ITERATE/></FOR>"#,
            ("duplicate-name", "every FOR", ""),
        ),
        (
            r#"<FOR NAME="f" TO="1"><IN_PARAMETER NAME="¦counterEnd" TYPE="int" DEFAULT="1"/><ITERATE/></FOR>"#,
            ("duplicate-name", "counterEnd", ""),
        ),
        (
            r#"<FOR NAME="f" TO="1"><ITERATE><OUT_PARAMETER NAME="¦item" TYPE="int" OPTIONAL="true"/></ITERATE></FOR>"#,
            ("duplicate-name", "item", ""),
        ),
        (
            r#"<PAR NAME="p"><OUT_PARAMETER NAME="¦running" TYPE="int" OPTIONAL="true"/></PAR>"#,
            ("duplicate-name", "every PAR", ""),
        ),
    ] {
        check(&document(&body(content)), expected);
    }
}

#[test]
fn bindings_are_checked_against_parameters() {
    for (attributes, expected) in [
        (r#"¦dpth="1""#, ("unknown-parameter", "no parameter \"dpth\"", "\"depth\"")),
        (r#"¦xyzzy="1""#, ("unknown-parameter", "", "it has depth, label, rate, state")),
        (r#"¦model="1""#, ("unknown-parameter", "is a result", "IN")),
        (r#"depth="¦x""#, ("bad-value", "depth: expected int, got \"x\"", "")),
        (r#"depth="¦1 ${n}""#, ("bad-value", "text with ${…}", "")),
        (r#"depth="${¦'x'}""#, ("bad-value", "expected int, got string", "")),
        (r#"depth="${¦1.5}""#, ("bad-value", "expected int", "")),
        (r#"depth="${¦{1}}""#, ("bad-value", "got a table", "")),
        (r#"depth="${¦text}""#, ("bad-value", "\"text\" is string", "")),
        (r#"label="${¦n}""#, ("bad-value", "expected string", "")),
        (r#"state="${¦other.model}""#, ("bad-value", "\"other.model\" is string", "")),
        (r#"depth="${¦n +}""#, ("lua-syntax", "", "")),
        (r#"depth="&#36;{¦m}""#, ("unknown-name", "\"m\"", "")),
        (r#"label="&lt;&amp; ${n} ${¦txt}""#, ("unknown-name", "\"txt\"", "\"text\"")),
        (r#"depth="${¦a}""#, ("element-as-value", "not a value", "write a.model")),
        (r#"depth="${other.¦modl}""#, ("unknown-parameter", "\"other\" has no parameter \"modl\"", "\"model\"")),
        (r#"depth="${¦...}""#, ("lua-syntax", "only be used inside a function", "")),
        (r#"depth="${n + #¦list2}""#, ("unknown-name", "", "\"list\"")),
        (r#"depth="${(function() ¦out = 1 return 1 end)()}""#, ("bad-assignment", "expression", "PRE_CODE")),
        (r#"state="¦[1]""#, ("bad-value", "expected map", "")),
    ] {
        let content = format!(r#"<ACTIVITY NAME="other" TYPE="Fit"/><ACTIVITY NAME="a" TYPE="Fit" {attributes}/>"#);
        check(&document(&body(&content)), expected);
    }
    for (content, expected) in [
        (
            r#"<PRE_CODE>a.Width = 1</PRE_CODE><¦ACTIVITY NAME="a" TYPE="Needy"/>"#,
            (
                "missing-parameter",
                "\"a\" gets no value for its parameter \"depth\"",
                "write depth=\"…\", or assign a.depth",
            ),
        ),
        (
            r#"<¦ACTIVITY NAME="a" TYPE="Needy" depth="1"/>"#,
            ("missing-parameter", "\"Width\"", "assign a.Width in the PRE_CODE of the BODY"),
        ),
        (
            r#"<POST_CODE>a.Width = 1</POST_CODE><¦ACTIVITY NAME="a" TYPE="Needy" depth="1"/>"#,
            ("missing-parameter", "\"Width\"", ""),
        ),
        (
            r#"<¦BLOCK NAME="b"><IN_PARAMETER NAME="x" TYPE="int"/></BLOCK>"#,
            ("missing-parameter", "\"x\"", "write x=\"…\""),
        ),
        (
            r#"<FOR NAME="f" TO="1"><ITERATE><IN_PARAMETER NAME="¦x" TYPE="int"/></ITERATE></FOR>"#,
            ("missing-parameter", "parameters are not passed to ITERATE", ""),
        ),
    ] {
        check(&document(&body(content)), expected);
    }
}

#[test]
fn long_cycles_are_found_and_shortened() {
    let element = |i: usize, after: usize| format!("<BLOCK NAME=\"e{i}\" AFTER=\"e{after}\"/>");
    let elements: String = (0..1000).map(|i| element(i, (i + 1) % 1000)).collect();
    let found = findings(&document(&body(&format!("<PAR NAME=\"p\">{elements}</PAR>"))));
    assert_eq!(found.len(), 1);
    assert!(found[0].message.contains("e0 → e1 → e2") && found[0].message.ends_with("e9 → … → e0"), "{found:?}");
    let pairs: String = (0..10).map(|i| element(2 * i, 2 * i + 1) + &element(2 * i + 1, 2 * i)).collect();
    let found = findings(&document(&body(&format!("<PAR NAME=\"p\">{pairs}</PAR>"))));
    assert_eq!(found.len(), 10);
}

//! Documents that are wrong, with what the author is told. A `¦` stands where the finding is expected.

use xavantes_model::diagnostic::{Diagnostic, LineIndex, Source};
use xavantes_model::load::load;

/// Types that the documents below use.
const TYPES: &str = r#"
<ACTIVITY_TYPE NAME="Fit">
  <IN_PARAMETER NAME="depth" TYPE="int" DEFAULT="3"/>
  <IN_PARAMETER NAME="label" TYPE="string" OPTIONAL="true"/>
  <IN_PARAMETER NAME="rate" TYPE="float" DEFAULT="0.5"/>
  <INOUT_PARAMETER NAME="state" TYPE="map" OPTIONAL="true"/>
  <OUT_PARAMETER NAME="model" TYPE="string"/>
  <CODE LANGUAGE="lua">model = label</CODE>
</ACTIVITY_TYPE>
<ACTIVITY_TYPE NAME="Needy">
  <IN_PARAMETER NAME="depth" TYPE="int"/>
  <IN_PARAMETER NAME="Width" TYPE="int" OPTIONAL="false"/>
  <CODE LANGUAGE="bash">true</CODE>
</ACTIVITY_TYPE>
<PROCESS_TYPE NAME="Sub"><IN_PARAMETER NAME="n" TYPE="int" DEFAULT="0"/><BODY/></PROCESS_TYPE>
"#;

/// A process type around what is in its `BODY`.
fn body(content: &str) -> String {
    format!(
        "{TYPES}<PROCESS_TYPE NAME=\"Main\"><IN_PARAMETER NAME=\"n\" TYPE=\"int\"/>\
         <IN_PARAMETER NAME=\"text\" TYPE=\"string\"/><IN_PARAMETER NAME=\"list\" TYPE=\"list\"/>\
         <IN_PARAMETER NAME=\"set\" TYPE=\"RemoteSet\"/><OUT_PARAMETER NAME=\"out\" TYPE=\"int\"/>\
         <BODY>\n{content}\n</BODY></PROCESS_TYPE>"
    )
}

fn document(types: &str) -> String {
    format!("<XAVANTES VERSION=\"1\">{types}</XAVANTES>")
}

fn findings(text: &str) -> Vec<Diagnostic> {
    load(&[Source::new("test.xml", text)]).err().unwrap_or_default()
}

/// Checks that the document has exactly one finding, at the mark.
fn check(marked: &str, (code, message, help): (&str, &str, &str)) {
    let at = marked.find('¦').unwrap_or_else(|| panic!("no mark in {marked}"));
    let text = marked.replace('¦', "");
    let found = findings(&text);
    assert_eq!(found.len(), 1, "one finding expected for {marked}\ngot {found:#?}");
    let lines = LineIndex::new(&text);
    let place = |offset| {
        let position = lines.position(&text, offset);
        (position.line, position.column)
    };
    let diagnostic = &found[0];
    let told = (diagnostic.code, place(diagnostic.span.bytes.start));
    assert_eq!(told, (code, place(at)), "{marked}\n{diagnostic:#?}");
    assert!(diagnostic.message.contains(message), "{message:?} expected in {diagnostic:#?}");
    assert!(diagnostic.help.as_deref().unwrap_or("").contains(help), "{help:?} expected in {diagnostic:#?}");
    assert!(text.get(diagnostic.span.bytes.clone()).is_some(), "{diagnostic:#?} is not in the text");
}

#[test]
fn grammar() {
    for (text, expected) in [
        ("<¦XAVANTE/>", ("unknown-element", "must be XAVANTES", "<XAVANTES VERSION")),
        ("<¦XAVANTES/>", ("missing-attribute", "needs the attribute VERSION", "")),
        (r#"<XAVANTES VERSION="¦2"/>"#, ("bad-value", "VERSION \"2\"", "VERSION=\"1\"")),
        (r#"<XAVANTES VERSION="1"><¦PROCES_TYPE/></XAVANTES>"#, ("unknown-element", "PROCES_TYPE", "\"PROCESS_TYPE\"")),
        (r#"<XAVANTES VERSION="1">¦hello </XAVANTES>"#, ("unexpected-text", "text is not allowed", "comment")),
        (r#"<XAVANTES VERSION="1"> <![CDATA[¦x]]></XAVANTES>"#, ("unexpected-text", "", "")),
        (r#"<XAVANTES VERSION="1"><!-- x -->¦&lt;</XAVANTES>"#, ("unexpected-text", "", "")),
        (
            r#"<XAVANTES VERSION="1" ¦A="1"/>"#,
            ("unknown-attribute", "XAVANTES has no attribute \"A\"", "takes VERSION"),
        ),
    ] {
        check(text, expected);
    }
    for (types, expected) in [
        (r#"<¦PROCESS_TYPE NAME="P"/>"#, ("missing-element", "PROCESS_TYPE has no BODY", "<BODY>")),
        (
            r#"<PROCESS_TYPE NAME="P"><BODY/><¦BODY/></PROCESS_TYPE>"#,
            ("duplicate-element", "more than one BODY", "keep"),
        ),
        (r#"<¦PROCESS_TYPE><BODY/></PROCESS_TYPE>"#, ("missing-attribute", "NAME", "")),
        (r#"<PROCESS_TYPE NAME="¦2P"><BODY/></PROCESS_TYPE>"#, ("bad-name", "\"2P\" is not a name", "letters")),
        (r#"<PROCESS_TYPE NAME="¦"><BODY/></PROCESS_TYPE>"#, ("bad-name", "empty", "")),
        (
            r#"<PROCESS_TYPE NAME="P"><BODY/></PROCESS_TYPE><PROCESS_TYPE NAME="¦P"><BODY/></PROCESS_TYPE>"#,
            ("duplicate-name", "two PROCESS_TYPEs \"P\"", "rename"),
        ),
        (
            r#"<PROCESS_TYPE NAME="P"><¦CODE LANGUAGE="lua"/><BODY/></PROCESS_TYPE>"#,
            ("misplaced-element", "CODE cannot stand in PROCESS_TYPE", "belongs in ACTIVITY_TYPE"),
        ),
        (r#"<¦XAVANTES VERSION="1"/>"#, ("misplaced-element", "", "outermost")),
        (r#"<¦ACTIVITY_TYPE NAME="A"/>"#, ("missing-element", "no CODE", "")),
        (r#"<ACTIVITY_TYPE NAME="A"><¦CODE/></ACTIVITY_TYPE>"#, ("missing-attribute", "LANGUAGE", "")),
        (
            r#"<PROCESS_TYPE NAME="P"><IN_PARAMETER NAME="a" TYPE="¦integer"/><BODY/></PROCESS_TYPE>"#,
            ("bad-value", "no type \"integer\"", "the types are int"),
        ),
        (
            r#"<PROCESS_TYPE NAME="P"><IN_PARAMETER NAME="a" TYPE="¦strin"/><BODY/></PROCESS_TYPE>"#,
            ("bad-value", "\"strin\"", "did you mean \"string\"?"),
        ),
        (
            r#"<PROCESS_TYPE NAME="P"><IN_PARAMETER NAME="¦end" TYPE="int"/><BODY/></PROCESS_TYPE>"#,
            ("bad-name", "keyword", "another"),
        ),
        (
            r#"<PROCESS_TYPE NAME="P"><IN_PARAMETER NAME="¦_xv1" TYPE="int"/><BODY/></PROCESS_TYPE>"#,
            ("bad-name", "_xv", "another"),
        ),
        (
            r#"<PROCESS_TYPE NAME="P"><IN_PARAMETER NAME="a" TYPE="int"/><OUT_PARAMETER NAME="¦a" TYPE="int"/><BODY/></PROCESS_TYPE>"#,
            ("duplicate-name", "\"a\" is declared twice", ""),
        ),
        (
            r#"<PROCESS_TYPE NAME="P"><IN_PARAMETER NAME="a" TYPE="int"/><BODY><OUT_PARAMETER NAME="¦a" TYPE="int"/></BODY></PROCESS_TYPE>"#,
            ("duplicate-name", "", ""),
        ),
        (
            r#"<PROCESS_TYPE NAME="P"><IN_PARAMETER NAME="a" TYPE="int" DEFAULT="¦x"/><BODY/></PROCESS_TYPE>"#,
            ("bad-value", "DEFAULT: expected int, got \"x\"", ""),
        ),
        (
            r#"<PROCESS_TYPE NAME="P"><IN_PARAMETER NAME="a" TYPE="string" DEFAULT="¦${x}"/><BODY/></PROCESS_TYPE>"#,
            ("bad-value", "must be a literal", ""),
        ),
        (
            r#"<PROCESS_TYPE NAME="P"><IN_PARAMETER NAME="a" TYPE="RemoteSet" DEFAULT="¦{}"/><BODY/></PROCESS_TYPE>"#,
            ("bad-value", "RemoteSet.new()", ""),
        ),
        (
            r#"<PROCESS_TYPE NAME="P"><IN_PARAMETER NAME="a" TYPE="int" OPTIONAL="¦yes"/><BODY/></PROCESS_TYPE>"#,
            ("bad-value", "expected true or false", ""),
        ),
        (
            r#"<PROCESS_TYPE NAME="P"><OUT_PARAMETER NAME="a" TYPE="int" ¦FROM="stdout"/><BODY/></PROCESS_TYPE>"#,
            ("unknown-attribute", "only for the results of activity types", "remove it"),
        ),
        (
            r#"<PROCESS_TYPE NAME="P"><BODY><IN_PARAMETER NAME="¦a" TYPE="int"/></BODY></PROCESS_TYPE>"#,
            ("missing-parameter", "parameters are not passed to BODY", "DEFAULT"),
        ),
    ] {
        check(&document(types), expected);
    }
}

#[test]
fn activity_types() {
    for (content, expected) in [
        (r#"<CODE LANGUAGE="¦wasm">x</CODE>"#, ("unsupported", "not supported yet", "lua")),
        (r#"<CODE LANGUAGE="¦/bin/sh">x</CODE>"#, ("bad-value", "interpreter", "bash")),
        (r#"<¦CODE LANGUAGE="command"/>"#, ("missing-element", "no ARG", "<ARG>")),
        (r#"<CODE LANGUAGE="command">¦ls<ARG>ls</ARG></CODE>"#, ("unexpected-text", "command", "<ARG>")),
        (r#"<CODE LANGUAGE="bash"><¦ARG>ls</ARG></CODE>"#, ("misplaced-element", "only for commands", "command")),
        (r#"<CODE LANGUAGE="command"><ARG>a ${¦dpth}</ARG></CODE>"#, ("unknown-name", "\"dpth\"", "\"depth\"")),
        (r#"<CODE LANGUAGE="command"><ARG>a ¦${depth</ARG></CODE>"#, ("bad-value", "never closed", "$${")),
        (r#"<CODE LANGUAGE="command"><ARG>${¦1 +}</ARG></CODE>"#, ("lua-syntax", "", "")),
        ("<CODE LANGUAGE=\"lua\"><![CDATA[\n  local a = 1\n  ¦if a < then end]]></CODE>", ("lua-syntax", "", "")),
        (r#"<CODE LANGUAGE="lua">depth = ¦modle</CODE>"#, ("unknown-name", "\"modle\"", "\"model\"")),
        (r#"<CODE LANGUAGE="lua">¦modle = 1</CODE>"#, ("unknown-name", "cannot be assigned", "\"model\"")),
        (r#"<CODE LANGUAGE="lua">¦print = 1</CODE>"#, ("unknown-name", "built in", "")),
        (r#"<CODE LANGUAGE="lua">¦attempt = 1</CODE>"#, ("bad-assignment", "only be read", "")),
        (r#"<CODE LANGUAGE="lua">local s = ¦RemoteSet.new()</CODE>"#, ("unknown-name", "cannot create", "parameter")),
        (r#"<CODE LANGUAGE="lua">local s = ¦...</CODE>"#, ("lua-syntax", "only be used inside a function", "")),
        (r#"<ENV NAME="¦A-B" VALUE=""/><CODE LANGUAGE="bash"/>"#, ("bad-value", "NAME: expected a name", "")),
        (r#"<ENV NAME="¦XAVANTES_PATH" VALUE=""/><CODE LANGUAGE="bash"/>"#, ("bad-value", "reserved for Xavantes", "")),
        (r#"<ENV NAME="A" VALUE="${¦dpth}"/><CODE LANGUAGE="bash"/>"#, ("unknown-name", "\"dpth\"", "\"depth\"")),
        (r#"<ENV NAME="A" VALUE="¦${depth"/><CODE LANGUAGE="bash"/>"#, ("bad-value", "never closed", "$${")),
        (
            r#"<ENV NAME="A" VALUE=""/><¦ENV NAME="A" VALUE=""/><CODE LANGUAGE="sh"/>"#,
            ("duplicate-name", "\"A\" is set twice", "keep one"),
        ),
        (r#"<¦ENV NAME="A" VALUE="a"/><CODE LANGUAGE="lua"/>"#, ("misplaced-element", "not for Lua", "bash")),
        (r#"<CODE LANGUAGE="lua" ¦IMAGE="debian"/>"#, ("unknown-attribute", "IMAGE is only for programs", "bash")),
        (r#"<CODE LANGUAGE="sh" IMAGE="¦--privileged"/>"#, ("bad-value", "IMAGE: expected the name", "")),
        (r#"<CODE LANGUAGE="sh" SUCCESS="¦256"/>"#, ("bad-value", "SUCCESS: expected exit statuses", "")),
        (r#"<CODE LANGUAGE="sh" RETRY="¦9-3"/>"#, ("bad-value", "RETRY: 9-3 is an empty range", "")),
        (
            r#"<OUT_PARAMETER NAME="a" TYPE="int" ¦FROM="stdout"/><CODE LANGUAGE="lua"/>"#,
            ("unknown-attribute", "FROM is only for programs", "bash"),
        ),
        (
            r#"<OUT_PARAMETER NAME="a" TYPE="int" FROM="¦stderr"/><CODE LANGUAGE="sh"/>"#,
            ("bad-value", "FROM: expected stdout or", ""),
        ),
        (r#"<REQUIRES PROCESSES="¦0"/><CODE LANGUAGE="lua"/>"#, ("bad-value", "PROCESSES: must be at least 1", "")),
        (r#"<REQUIRES SCRATCH="¦4 GB"/><CODE LANGUAGE="lua"/>"#, ("bad-value", "SCRATCH: expected a size", "")),
        (r#"<REQUIRES CPUS="¦0"/><CODE LANGUAGE="lua"/>"#, ("bad-value", "CPUS: must be at least 1", "")),
        (r#"<REQUIRES GPUS="¦-1"/><CODE LANGUAGE="lua"/>"#, ("bad-value", "GPUS", "")),
        (r#"<REQUIRES MEMORY="¦4 GB"/><CODE LANGUAGE="lua"/>"#, ("bad-value", "MEMORY: expected a size", "")),
        (r#"<REQUIRES ¦MEM="4GB"/><CODE LANGUAGE="lua"/>"#, ("unknown-attribute", "MEM", "MEMORY")),
        (
            r#"<¦INPUT PARAMETER="data"/><CODE LANGUAGE="sh"/>"#,
            ("missing-attribute", "INPUT needs the attribute PATH", ""),
        ),
        (
            r#"<INPUT PARAMETER="¦daat" PATH="a"/><CODE LANGUAGE="sh"/>"#,
            ("unknown-name", "no parameter \"daat\"", "\"data\""),
        ),
        (
            r#"<INPUT PARAMETER="¦depth" PATH="a"/><CODE LANGUAGE="sh"/>"#,
            ("unknown-name", "not an IN parameter of type", ""),
        ),
        (
            r#"<INPUT PARAMETER="¦parts" PATH="a"/><CODE LANGUAGE="sh"/>"#,
            ("unknown-name", "not an IN parameter of type", ""),
        ),
        (
            r#"<OUTPUT PARAMETER="¦data" PATTERN="a"/><CODE LANGUAGE="sh"/>"#,
            ("unknown-name", "not an OUT parameter", ""),
        ),
        (r#"<INPUT PARAMETER="data" PATH="¦/etc/passwd"/><CODE LANGUAGE="sh"/>"#, ("bad-value", "is absolute", "")),
        (
            r#"<INPUT PARAMETER="data" PATH="¦../x"/><CODE LANGUAGE="sh"/>"#,
            ("bad-value", "leads out of the directory", ""),
        ),
        (r#"<OUTPUT PARAMETER="parts" PATTERN="¦a["/><CODE LANGUAGE="sh"/>"#, ("bad-value", "without its", "")),
        (r#"<OUTPUT PARAMETER="parts" PATTERN="¦a**"/><CODE LANGUAGE="sh"/>"#, ("bad-value", "not a whole name", "")),
        (r#"<OUTPUT PARAMETER="parts" PATTERN="${¦nmber}"/><CODE LANGUAGE="sh"/>"#, ("unknown-name", "\"nmber\"", "")),
        (
            r#"<OUTPUT PARAMETER="parts" PATTERN="¦${depth"/><CODE LANGUAGE="sh"/>"#,
            ("bad-value", "never closed", "$${"),
        ),
        (
            r#"<OUTPUT PARAMETER="parts" PATTERN="a" TO="¦http://x/y"/><CODE LANGUAGE="sh"/>"#,
            ("bad-value", "source://", ""),
        ),
        (
            r#"<OUTPUT PARAMETER="parts" PATTERN="a"/><OUTPUT PARAMETER="¦parts" PATTERN="b"/><CODE LANGUAGE="sh"/>"#,
            ("unknown-name", "two OUTPUTs", ""),
        ),
        (
            r#"<¦INPUT PARAMETER="data" PATH="a"/><CODE LANGUAGE="lua"/>"#,
            ("misplaced-element", "is only for programs", ""),
        ),
        (r#"<IN_PARAMETER NAME="¦attempt" TYPE="int"/><CODE LANGUAGE="lua"/>"#, ("duplicate-name", "attempt", "")),
    ] {
        let parameters = r#"<IN_PARAMETER NAME="depth" TYPE="int"/><OUT_PARAMETER NAME="model" TYPE="string"/>
            <IN_PARAMETER NAME="data" TYPE="file" OPTIONAL="true"/><OUT_PARAMETER NAME="parts" TYPE="list" OPTIONAL="true"/>"#;
        check(&document(&format!(r#"<ACTIVITY_TYPE NAME="A">{parameters}{content}</ACTIVITY_TYPE>"#)), expected);
    }
    for (attributes, expected) in [
        (r#"RETRIES="¦-1""#, ("bad-value", "RETRIES: must be at least 0", "")),
        (r#"RETRIES="¦1000001""#, ("bad-value", "at most 1000000", "")),
        (r#"RETRY_DELAY="¦5""#, ("bad-value", "RETRY_DELAY: expected a duration", "")),
        (r#"RETRY_BACKOFF="¦0.5""#, ("bad-value", "from 1 to 1000", "")),
        (r#"TIMEOUT="¦0s""#, ("bad-value", "TIMEOUT: must be longer", "")),
        (r#"CACHE="¦yes""#, ("bad-value", "CACHE: expected true or false", "")),
        (r#"¦ON_FAILURE="fail""#, ("unknown-attribute", "ON_FAILURE", "takes NAME")),
        (r#"¦TIMOUT="1s""#, ("unknown-attribute", "TIMOUT", "\"TIMEOUT\"")),
    ] {
        let text = format!(r#"<ACTIVITY_TYPE NAME="A" {attributes}><CODE LANGUAGE="lua"/></ACTIVITY_TYPE>"#);
        check(&document(&text), expected);
    }
}

#[test]
fn results_that_cannot_be_used_again() {
    for (content, message) in [
        (r#"<IN_PARAMETER NAME="set" TYPE="RemoteSet"/><CODE LANGUAGE="lua"/>"#, "\"set\" is a shared object"),
        (r#"<INOUT_PARAMETER NAME="n" TYPE="RemoteCounter"/><CODE LANGUAGE="sh"/>"#, "\"n\" is a shared object"),
        (
            r#"<OUT_PARAMETER NAME="f" TYPE="file"/><OUTPUT PARAMETER="f" PATTERN="f" TO="source://a/b"/><CODE LANGUAGE="sh"/>"#,
            "written to a data source",
        ),
    ] {
        let of =
            |attribute: &str| document(&format!(r#"<ACTIVITY_TYPE NAME="A" {attribute}>{content}</ACTIVITY_TYPE>"#));
        check(&of("¦CACHE=\"true\""), ("not-reusable", message, "remove CACHE"));
        assert_eq!(findings(&of("CACHE=\"false\"")), []);
    }
    let activity = r#"<ACTIVITY NAME="a" TYPE="Fit" ¦CACHE="true"/>"#;
    check(&document(&body(activity)), ("unknown-attribute", "CACHE", ""));
}

#[test]
fn elements() {
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
        (r#"<FOR NAME="f" EACH="¦list"><ITERATE/></FOR>"#, ("bad-value", "gives a list", "${")),
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
            r#"<FOR NAME="f" TO="1"><IN_PARAMETER NAME="¦completed" TYPE="int" DEFAULT="1"/><ITERATE/></FOR>"#,
            ("duplicate-name", "every FOR", ""),
        ),
        (
            r#"<FOR NAME="f" TO="1"><IN_PARAMETER NAME="¦counterEnd" TYPE="int" DEFAULT="1"/><ITERATE/></FOR>"#,
            ("duplicate-name", "counterEnd", ""),
        ),
        (
            r#"<FOR NAME="f" TO="1"><ITERATE><OUT_PARAMETER NAME="¦item" TYPE="int"/></ITERATE></FOR>"#,
            ("duplicate-name", "item", ""),
        ),
        (r#"<PAR NAME="p"><OUT_PARAMETER NAME="¦running" TYPE="int"/></PAR>"#, ("duplicate-name", "every PAR", "")),
    ] {
        check(&document(&body(content)), expected);
    }
}

#[test]
fn bindings() {
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
fn names_in_code() {
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
fn too_many_names() {
    let parameters = |count: usize| -> String {
        (0..count).map(|i| format!("<OUT_PARAMETER NAME=\"p{i}\" TYPE=\"int\"/>")).collect()
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
    // What is let through runs.
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
fn all_that_is_wrong_is_told_at_once_and_in_order() {
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
fn after_200_findings_it_stops() {
    for content in ["<BLOK/>".repeat(1000), "<BLOCK NAME=\"9\"/>".repeat(100_000), "<PRE_CODE/>".repeat(1000)] {
        let found = findings(&document(&body(&content)));
        assert_eq!(found.len(), 201);
        assert_eq!(found[200].code, "too-many");
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

#[test]
fn columns_are_exact_behind_references_and_cdata() {
    let text = document(&body(
        "<BLOCK NAME=\"b\">\n<PRE_CODE>local a = 'é' &lt; 'b'\n  <![CDATA[local b = 2 < 3]]> + wrong</PRE_CODE></BLOCK>",
    ));
    let found = findings(&text);
    assert_eq!(found.len(), 1);
    assert_eq!(&text[found[0].span.bytes.clone()], "wrong", "{found:#?}");
}

/// Cutting a document short, or changing a byte of it, gives findings and never a panic.
#[test]
fn damaged_documents_do_no_harm() {
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

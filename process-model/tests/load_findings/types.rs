//! Findings about the grammar and about activity types.

use crate::support::{body, check, document, findings};

#[test]
fn elements_and_attributes_must_follow_the_grammar() {
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
        (r#"<¦IMPORTS TYPE="A" HASH="0123456789abcdef"/>"#, ("unknown-element", "IMPORTS", "\"IMPORT\"")),
        (r#"<¦IMPORT TYPE="A"/>"#, ("missing-attribute", "IMPORT needs the attribute HASH", "")),
        (r#"<IMPORT TYPE="A" HASH="¦0123"/>"#, ("bad-value", "\"0123\" is not the hash", "16 of the digits")),
        (
            r#"<IMPORT TYPE="A" HASH="¦0123456789abcdef"/><PROCESS_TYPE NAME="P"><BODY><ACTIVITY TYPE="A" NAME="a"/></BODY>
            </PROCESS_TYPE>"#,
            ("unknown-import", "the document with the hash 0123456789abcdef is not here", "--coordinator"),
        ),
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
            r#"<PROCESS_TYPE NAME="P"><IN_PARAMETER NAME="a" TYPE="int"/><OUT_PARAMETER NAME="¦a" TYPE="int" OPTIONAL="true"/><BODY/></PROCESS_TYPE>"#,
            ("duplicate-name", "\"a\" is declared twice", ""),
        ),
        (
            r#"<PROCESS_TYPE NAME="P"><IN_PARAMETER NAME="a" TYPE="int"/><BODY><OUT_PARAMETER NAME="¦a" TYPE="int" OPTIONAL="true"/></BODY></PROCESS_TYPE>"#,
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
            r#"<PROCESS_TYPE NAME="P"><OUT_PARAMETER NAME="a" TYPE="int" ¦FROM="stdout" OPTIONAL="true"/><BODY/></PROCESS_TYPE>"#,
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
fn activity_types_are_checked() {
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
        (r#"<CODE LANGUAGE="python" ¦STRICT="true"/>"#, ("unknown-attribute", "only for bash and sh", "remove")),
        (r#"<CODE LANGUAGE="sh" STRICT="¦yes"/>"#, ("bad-value", "STRICT: expected true or false", "")),
        (r#"<CODE LANGUAGE="sh" SUCCESS="¦256"/>"#, ("bad-value", "SUCCESS: expected exit statuses", "")),
        (
            r#"<IN_PARAMETER NAME="¦lambda" TYPE="float"/><CODE LANGUAGE="python"/>"#,
            ("bad-name", "\"lambda\" is a reserved word of python", "\"lambda_value\""),
        ),
        (
            r#"<OUT_PARAMETER NAME="¦PATH" TYPE="string"/><CODE LANGUAGE="bash"/>"#,
            ("bad-name", "a variable of bash itself", "\"path_value\""),
        ),
        (r#"<OUT_PARAMETER NAME="¦N" TYPE="int"/><CODE LANGUAGE="ruby"/>"#, ("bad-name", "a constant of ruby", "")),
        (r#"<CODE LANGUAGE="sh" RETRY="¦9-3"/>"#, ("bad-value", "RETRY: 9-3 is an empty range", "")),
        (
            r#"<OUT_PARAMETER NAME="a" TYPE="int" ¦FROM="stdout" OPTIONAL="true"/><CODE LANGUAGE="lua"/>"#,
            ("unknown-attribute", "FROM is only for programs", "bash"),
        ),
        (
            r#"<OUT_PARAMETER NAME="a" TYPE="int" FROM="¦stderr" OPTIONAL="true"/><CODE LANGUAGE="sh"/>"#,
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
        let parameters = r#"<IN_PARAMETER NAME="depth" TYPE="int"/><OUT_PARAMETER NAME="model" TYPE="string" OPTIONAL="true"/>
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
fn cache_is_refused_for_results_that_cannot_be_reused() {
    for (content, message) in [
        (r#"<IN_PARAMETER NAME="set" TYPE="RemoteSet"/><CODE LANGUAGE="lua"/>"#, "\"set\" is a shared object"),
        (r#"<INOUT_PARAMETER NAME="n" TYPE="RemoteCounter"/><CODE LANGUAGE="sh"/>"#, "\"n\" is a shared object"),
        (
            r#"<OUT_PARAMETER NAME="f" TYPE="file" OPTIONAL="true"/><OUTPUT PARAMETER="f" PATTERN="f" TO="source://a/b"/><CODE LANGUAGE="sh"/>"#,
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

//! Documents that are large, deep or wide, and numbers beyond all bounds.

use xavantes_model::definition::{Kind, ListValues, LoopSource};
use xavantes_model::diagnostic::Source;
use xavantes_model::load::load;

use crate::support::{body, bounded, document, expect, many};

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
fn grids_are_not_expanded_by_the_loader() {
    let axes = |count: usize, values: &str| {
        let axes = many(count, |i| format!("<AXIS NAME=\"a{i}\" TYPE=\"int\" VALUES=\"{values}\"/>"));
        body(&format!("<PARFOR NAME=\"f\"><PARAM_GRID>{axes}</PARAM_GRID><ITERATE/></PARFOR>"))
    };
    let total_values = |text: String| {
        bounded("values of a grid", move || {
            let program = load(&[Source::new("hostile.xml", text)]).unwrap();
            let Kind::For { source: LoopSource::Grid(axes), .. } = &program.processes[0].nodes[1].kind else {
                panic!()
            };
            let sizes = axes.iter().map(|axis| match &axis.values {
                ListValues::Literal(values) => values.len(),
                ListValues::Code(_) => 0,
            });
            sizes.sum::<usize>()
        })
    };
    // The loader stores the values of each axis, not the 10^1000 combinations.
    assert_eq!(total_values(axes(1_000, "0,1,2,3,4,5,6,7,8,9")), 10_000);
    assert_eq!(total_values(axes(1, &vec!["1"; 4_000_000].join(","))), 4_000_000);
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

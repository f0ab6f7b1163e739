//! Entities, names, encodings and CDATA sections.

use xavantes_model::diagnostic::Source;
use xavantes_model::load::load;
use xavantes_model::xml;

use crate::support::{body, document, expect, many};

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
    // References are replaced once, so markup that they spell is text.
    expect("markup by reference", body("<PRE_CODE>print(\"&lt;/PRE_CODE&gt; &amp;lt;\")</PRE_CODE>"), &[]);
}

#[test]
fn names_have_no_unusual_characters() {
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

//! Loads a document with a marked error and compares the finding.

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

/// Puts a process type around the content of its `BODY`.
pub fn body(content: &str) -> String {
    format!(
        "{TYPES}<PROCESS_TYPE NAME=\"Main\"><IN_PARAMETER NAME=\"n\" TYPE=\"int\"/>\
         <IN_PARAMETER NAME=\"text\" TYPE=\"string\"/><IN_PARAMETER NAME=\"list\" TYPE=\"list\"/>\
         <IN_PARAMETER NAME=\"set\" TYPE=\"RemoteSet\"/><OUT_PARAMETER NAME=\"out\" TYPE=\"int\" OPTIONAL=\"true\"/>\
         <BODY>\n{content}\n</BODY></PROCESS_TYPE>"
    )
}

pub fn document(types: &str) -> String {
    format!("<XAVANTES VERSION=\"1\">{types}</XAVANTES>")
}

/// The errors in a document.
pub fn findings(text: &str) -> Vec<Diagnostic> {
    let found = load(&[Source::new("test.xml", text)]).err().unwrap_or_default();
    found.into_iter().filter(Diagnostic::is_error).collect()
}

/// Checks that the document has exactly one finding, at the mark.
pub fn check(marked: &str, (code, message, help): (&str, &str, &str)) {
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
    let found = (diagnostic.code, place(diagnostic.span.bytes.start));
    assert_eq!(found, (code, place(at)), "{marked}\n{diagnostic:#?}");
    assert!(diagnostic.message.contains(message), "{message:?} expected in {diagnostic:#?}");
    assert!(diagnostic.help.as_deref().unwrap_or("").contains(help), "{help:?} expected in {diagnostic:#?}");
    assert!(text.get(diagnostic.span.bytes.clone()).is_some(), "{diagnostic:#?} is not in the text");
}

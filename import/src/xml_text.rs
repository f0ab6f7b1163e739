//! Text in XML: escapes, and what XML cannot say.

/// Characters that XML 1.0 has no way to write become this one.
const REPLACEMENT: char = '\u{FFFD}';

/// Appends a text as the content of an element, where line breaks stay.
pub(crate) fn content(out: &mut String, text: &str) {
    for (number, line) in text.split('\n').enumerate() {
        if number > 0 {
            out.push('\n');
        }
        escape(out, line);
    }
}

/// Appends a text, for content and for attributes in double quotes.
fn escape(out: &mut String, text: &str) {
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\n' => out.push_str("&#10;"),
            '\t' => out.push_str("&#9;"),
            '\r' => out.push_str("&#13;"),
            '\0'..='\u{1F}' | '\u{FFFE}' | '\u{FFFF}' => out.push(REPLACEMENT),
            c => out.push(c),
        }
    }
}

/// Returns an attribute with a blank before it.
pub(crate) fn attribute(name: &str, value: &str) -> String {
    let mut text = format!(" {name}=\"");
    escape(&mut text, value);
    text.push('"');
    text
}

/// Returns a text for a place in which `${…}` is an expression, so that all of it is literal.
pub(crate) fn literal(text: &str) -> String {
    text.replace("${", "$${")
}

/// Writes a number without an exponent.
pub(crate) fn number(number: f64) -> String {
    format!("{number}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_survive_the_reader_of_xml() {
        let text = "a<b>&\"c\n\td${x}";
        let document = format!("<A{}/>", attribute("X", text));
        let tree = xavantes_model::xml::parse(0, &document).unwrap();
        assert_eq!(tree.element(tree.root()).attribute("X").unwrap().value.value, text);
        let mut inner = String::new();
        content(&mut inner, text);
        let tree = xavantes_model::xml::parse(0, &format!("<A>{inner}</A>")).unwrap();
        assert_eq!(tree.text(tree.root()).unwrap().value, text);
        assert_eq!(attribute("X", "\u{1}"), " X=\"\u{FFFD}\"");
        assert_eq!((number(1e-7).as_str(), number(3.0).as_str()), ("0.0000001", "3"));
    }
}

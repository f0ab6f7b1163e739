//! SVG elements as text. Whatever others called a thing, the document stays well-formed.

use std::fmt::Write as _;

/// An SVG under construction.
pub(super) struct Svg {
    text: String,
}

/// Where a text stands relative to its point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

impl Anchor {
    fn name(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Middle => "middle",
            Self::End => "end",
        }
    }
}

impl Svg {
    /// A picture of this size on white ground.
    pub(super) fn new(width: f64, height: f64) -> Self {
        let mut text = String::new();
        // Writing to a string does not fail, here and below.
        let _ = writeln!(
            text,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
             viewBox=\"0 0 {width:.0} {height:.0}\" font-family=\"Helvetica, Arial, sans-serif\">\n\
             <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>"
        );
        Self { text }
    }

    pub(super) fn finish(mut self) -> String {
        self.text += "</svg>\n";
        self.text
    }

    /// A text.
    pub(super) fn text(&mut self, x: f64, y: f64, size: f64, anchor: Anchor, colour: &str, content: &str) {
        self.styled_text(x, y, size, anchor, colour, "", content);
    }

    /// A bold text.
    pub(super) fn bold(&mut self, x: f64, y: f64, size: f64, colour: &str, content: &str) {
        self.styled_text(x, y, size, Anchor::Start, colour, " font-weight=\"bold\"", content);
    }

    #[allow(clippy::too_many_arguments)] // Private, and each is a plain property of the text.
    fn styled_text(&mut self, x: f64, y: f64, size: f64, anchor: Anchor, colour: &str, style: &str, content: &str) {
        let anchor = match anchor {
            Anchor::Start => String::new(),
            other => format!(" text-anchor=\"{}\"", other.name()),
        };
        let content = escaped(content);
        let _ = writeln!(
            self.text,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"{size:.1}\"{anchor} fill=\"{colour}\"{style}>{content}</text>"
        );
    }

    /// A line.
    pub(super) fn line(&mut self, from: (f64, f64), to: (f64, f64), colour: &str, width: f64, dashes: &str) {
        let dashes = if dashes.is_empty() { String::new() } else { format!(" stroke-dasharray=\"{dashes}\"") };
        let _ = writeln!(
            self.text,
            "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" stroke=\"{colour}\" stroke-width=\"{width}\"{dashes}/>",
            from.0, from.1, to.0, to.1
        );
    }

    /// A rectangle without a border.
    pub(super) fn area(&mut self, x: f64, y: f64, width: f64, height: f64, colour: &str) {
        let _ = writeln!(
            self.text,
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" fill=\"{colour}\"/>"
        );
    }

    /// A bar with details that appear under the pointer.
    pub(super) fn bar(&mut self, x: f64, y: f64, width: f64, height: f64, colour: &str, details: &str) {
        let radius = (height / 6.0).min(width / 3.0).min(2.0);
        let details = escaped(details);
        let _ = writeln!(
            self.text,
            "<rect class=\"bar\" x=\"{x:.2}\" y=\"{y:.2}\" width=\"{width:.2}\" height=\"{height:.2}\" rx=\"{radius:.1}\" \
             fill=\"{colour}\"><title>{details}</title></rect>"
        );
    }
}

/// The width that a text takes, roughly: wide enough for most texts.
pub(super) fn text_width(text: &str, size: f64) -> f64 {
    let width = |c: char| match c {
        'i' | 'j' | 'l' | 'I' | '.' | ',' | ':' | ';' | '|' | '\'' | '[' | ']' | '/' | ' ' | 'f' | 't' | 'r' => 0.32,
        'm' | 'w' | 'M' | 'W' | '%' => 0.86,
        c if c.is_ascii_uppercase() => 0.70,
        c if c.is_ascii() => 0.56,
        _ => 1.0,
    };
    text.chars().map(width).sum::<f64>() * size
}

/// The text, shortened in the middle so that it fits.
pub(super) fn fitted(text: &str, size: f64, width: f64) -> String {
    if text_width(text, size) <= width {
        return text.to_owned();
    }
    let characters: Vec<char> = text.chars().take(500).collect();
    let mut kept = characters.len();
    while kept > 2 {
        kept -= 1;
        let (head, tail) = (kept.div_ceil(2), kept / 2);
        let short: String =
            characters[..head].iter().chain(&['…']).chain(&characters[characters.len() - tail..]).collect();
        if text_width(&short, size) <= width {
            return short;
        }
    }
    "…".into()
}

/// A text inside of an element or attribute. Characters that XML does not allow become �.
pub(super) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            '\n' | '\t' => out.push(c),
            c if c < ' ' || ('\u{7f}'..='\u{9f}').contains(&c) || matches!(c, '\u{fffe}' | '\u{ffff}') => {
                out.push('\u{fffd}');
            }
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_others_cannot_break_the_document() {
        assert_eq!(escaped("a<b>&\"\u{0}\u{1b}"), "a&lt;b&gt;&amp;&quot;\u{fffd}\u{fffd}");
    }

    #[test]
    fn long_texts_keep_both_ends() {
        assert_eq!(fitted("short", 10.0, 100.0), "short");
        let short = fitted("a-very-long-name-of-a-machine-1", 10.0, 80.0);
        assert!(short.starts_with("a-") && short.ends_with("-1") && text_width(&short, 10.0) <= 80.0, "{short}");
        assert_eq!(fitted("anything", 10.0, 1.0), "…");
    }
}

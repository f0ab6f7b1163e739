//! Builds the tree of a document and stops at the first violation of XML.
//!
//! `quick-xml` only cuts the text into tags, text and comments. It is lenient on purpose, so the parser and the scanner
//! check every rule of XML that quick-xml leaves to its caller. Nothing here recurses, so nesting cannot exhaust the
//! stack.

use std::ops::Range;

use quick_xml::Reader;
use quick_xml::events::Event;

use super::chars::{clip, is_space};
use super::document_limits::{MAX_ATTRIBUTES, MAX_BYTES, MAX_DEPTH, MAX_NODES};
use super::mapped_text::MappedText;
use super::scanner::{Fallible, Scanner};
use super::tree::{Attribute, Text, XmlChild, XmlElement, XmlElementId, XmlTree};
use crate::diagnostic::Diagnostic;

/// Namespace of the attributes that tell editors where the schema is.
const XSI_NAMESPACE: &str = "http://www.w3.org/2001/XMLSchema-instance";

/// Decodes the bytes of a file, which must be UTF-8. The error carries the offset of the first bad byte. A byte order
/// mark stays in the text, so that offsets in the text are offsets in the file; [`parse`] accepts it.
pub fn decode(bytes: &[u8]) -> Result<&str, (usize, String)> {
    if bytes.starts_with(&[0xFE, 0xFF])
        || bytes.starts_with(&[0xFF, 0xFE])
        || matches!(bytes, [0, b'<', ..] | [b'<', 0, ..])
    {
        return Err((0, "the document is written in UTF-16 or UTF-32; save it as UTF-8".into()));
    }
    std::str::from_utf8(bytes).map_err(|error| {
        let at = error.valid_up_to();
        (at, format!("the byte 0x{:02X} at offset {at} is not valid UTF-8; save the document as UTF-8", bytes[at]))
    })
}

/// Parses a document and stops at the first error. `source` is the position of the document among the sources; spans
/// carry it.
pub fn parse(source: usize, text: &str) -> Result<XmlTree, Vec<Diagnostic>> {
    let parser = Parser { scanner: Scanner { source, text }, elements: Vec::new(), open: None, nodes: 0 };
    parser.run().map_err(|diagnostic| vec![diagnostic])
}

/// State of one run of the parser.
struct Parser<'a> {
    scanner: Scanner<'a>,
    elements: Vec<XmlElement>,
    /// Innermost open element; the other open elements are its ancestors.
    open: Option<XmlElementId>,
    /// Elements, attributes and pieces of text so far; at most [`MAX_NODES`].
    nodes: usize,
}

impl<'a> Parser<'a> {
    fn run(mut self) -> Fallible<XmlTree> {
        if self.scanner.text.len() > MAX_BYTES {
            let message =
                format!("the document has {} bytes; at most {MAX_BYTES} are accepted", self.scanner.text.len());
            return Err(self.scanner.error("too-large", 0..0, message));
        }
        self.scanner.check_characters()?;
        // quick-xml would drop a byte order mark without counting it, which would shift every span.
        let body = self.scanner.text.strip_prefix('\u{FEFF}').unwrap_or(self.scanner.text);
        let base = self.scanner.text.len() - body.len();
        if body.starts_with('\u{FEFF}') {
            return Err(self.scanner.malformed(base..base + 3, "the document begins with two byte order marks"));
        }
        let mut reader = Reader::from_str(body);
        // `end_tag` compares the names, because it knows where the start tag is.
        let config = reader.config_mut();
        config.check_end_names = false;
        config.allow_unmatched_ends = true;
        loop {
            let start = base + reader.buffer_position() as usize;
            if self.scanner.begins(start, "<!DOCTYPE") {
                let (message, help) = ("document type declarations are not accepted", "remove the `<!DOCTYPE …>`");
                return Err(self.scanner.error("dtd", start..start + 9, message).help(help));
            }
            let event = reader.read_event();
            let span = start..base + reader.buffer_position() as usize;
            match event {
                Ok(Event::Start(_)) => self.start_tag(span, false)?,
                Ok(Event::Empty(_)) => self.start_tag(span, true)?,
                Ok(Event::End(_)) => self.end_tag(span)?,
                Ok(Event::Text(_)) => self.text(span)?,
                Ok(Event::GeneralRef(_)) => {
                    let character = self.scanner.reference(span.clone())?;
                    self.text_piece(&span)?.push(span, character.encode_utf8(&mut [0; 4]));
                }
                Ok(Event::CData(_)) => self.cdata(span)?,
                Ok(Event::Comment(_)) => {
                    let content = &self.scanner.text[span.start + 4..span.end - 3];
                    if content.contains("--") || content.ends_with('-') {
                        return Err(self
                            .scanner
                            .malformed(span, "a comment must not contain `--`, nor end with `--->`"));
                    }
                }
                Ok(Event::Decl(_) | Event::PI(_)) => self.scanner.instruction(span, base)?,
                Ok(Event::Eof) => return self.finish(base),
                Ok(Event::DocType(_)) | Err(_) => return Err(self.scanner.unreadable(start)),
            }
        }
    }

    fn finish(self, base: usize) -> Fallible<XmlTree> {
        if let Some(open) = self.open {
            let XmlElement { name, span, .. } = &self.elements[open.0 as usize];
            let help = format!("write `</{name}>` where the element ends");
            return Err(self
                .scanner
                .malformed(span.clone(), format!("the element `{name}` is never closed"))
                .help(help));
        }
        if self.elements.is_empty() {
            return Err(self.scanner.malformed(base..base, "the document has no root element"));
        }
        Ok(XmlTree { elements: self.elements })
    }

    /// Counts an element, attribute or piece of text before memory is allocated for it.
    fn count_node(&mut self, at: &Range<usize>) -> Fallible<()> {
        self.nodes += 1;
        if self.nodes > MAX_NODES {
            let message = format!("the document has more than {MAX_NODES} elements, attributes and pieces of text");
            return Err(self.scanner.error("too-large", at.clone(), message));
        }
        Ok(())
    }

    fn start_tag(&mut self, span: Range<usize>, closes_itself: bool) -> Fallible<()> {
        let end = span.end - if closes_itself { 2 } else { 1 };
        let name_span = span.start + 1..self.scanner.name_end(span.start + 1, end);
        if name_span.is_empty() {
            let help = "a `<` that is meant as text is written `&lt;`";
            return Err(self.scanner.malformed(span, "the tag has no name").help(help));
        }
        let name = self.scanner.check_name(name_span.clone())?;
        if name.contains(':') {
            let message = format!("the element `{name}` has a prefix; Xavantes documents have no namespace");
            return Err(self.scanner.error("namespace", name_span, message));
        }
        if self.open.is_none() && !self.elements.is_empty() {
            let help = format!("`<{}>` is already closed", self.elements[0].name);
            return Err(self.scanner.malformed(span, "a document has only one root element").help(help));
        }
        let depth = self.open.map_or(1, |parent| self.elements[parent.0 as usize].depth + 1);
        if depth > MAX_DEPTH {
            return Err(self.scanner.error("too-deep", span, format!("elements are nested deeper than {MAX_DEPTH}")));
        }
        self.count_node(&span)?;
        let attributes = self.attributes(name_span.end, end)?;
        let id = XmlElementId(self.elements.len() as u32);
        if let Some(parent) = self.open {
            self.elements[parent.0 as usize].children.push(XmlChild::Element(id));
        }
        let parent = self.open;
        let (name, end, children) = (name.to_owned(), span.end, Vec::new());
        self.elements.push(XmlElement { name, name_span, span, end, attributes, children, parent, depth });
        if !closes_itself {
            self.open = Some(id);
        }
        Ok(())
    }

    fn end_tag(&mut self, span: Range<usize>) -> Fallible<()> {
        let name_end = self.scanner.name_end(span.start + 2, span.end - 1);
        let name = &self.scanner.text[span.start + 2..name_end];
        let Some(open) = self.open else {
            return Err(self
                .scanner
                .malformed(span, format!("`</{}>` closes nothing: no element is open", clip(name))));
        };
        let element = &mut self.elements[open.0 as usize];
        if element.name != name {
            // Parsing ends with this diagnostic, so counting the lines from the start happens only once.
            let line = 1 + memchr::memchr_iter(b'\n', &self.scanner.text.as_bytes()[..element.span.start]).count();
            let help = format!("`<{0}>` was opened on line {line} and must be closed first, by `</{0}>`", element.name);
            let message = format!("`</{}>` does not close `<{}>`", clip(name), element.name);
            return Err(self.scanner.malformed(span, message).help(help));
        }
        if self.scanner.skip_space(name_end, span.end - 1) != span.end - 1 {
            return Err(self.scanner.malformed(span, "an end tag contains only a name"));
        }
        element.end = span.end;
        self.open = element.parent;
        Ok(())
    }

    /// Reads the attributes between `at` and `end`. Attributes that concern XML itself are checked and left out.
    fn attributes(&mut self, mut at: usize, end: usize) -> Fallible<Vec<Attribute>> {
        let on_root = self.elements.is_empty();
        let mut names: Vec<&str> = Vec::new();
        let mut attributes = Vec::new();
        let mut uses_xsi = None;
        while let Some((name_span, value_span)) = self.scanner.pair(&mut at, end)? {
            let name = self.scanner.check_name(name_span.clone())?;
            // A linear search is enough for at most MAX_ATTRIBUTES names.
            if names.contains(&name) {
                let message = format!("the attribute `{name}` is given twice");
                return Err(self.scanner.error("duplicate-attribute", name_span, message));
            }
            names.push(name);
            if names.len() > MAX_ATTRIBUTES {
                let message = format!("the element has more than {MAX_ATTRIBUTES} attributes");
                return Err(self.scanner.error("too-large", name_span, message));
            }
            self.count_node(&name_span)?;
            let mut value = MappedText::new(value_span.start);
            self.scanner.decode_into(&mut value, value_span.clone(), true)?;
            if name != "xmlns" && !name.contains(':') {
                attributes.push(Attribute { name: name.to_owned(), name_span, value, value_span });
                continue;
            }
            let message = match name {
                "xmlns" => "Xavantes documents have no namespace".to_owned(),
                "xmlns:xsi" if value.value != XSI_NAMESPACE => format!("`xmlns:xsi` must be `{XSI_NAMESPACE}`"),
                "xmlns:xsi" | "xsi:noNamespaceSchemaLocation" | "xsi:schemaLocation" | "xml:space" | "xml:lang" => {
                    if name.starts_with("xsi:") {
                        uses_xsi.get_or_insert(name_span.clone());
                    }
                    if on_root {
                        continue;
                    }
                    format!("`{name}` is accepted only on the root element")
                }
                _ => format!("the attribute `{name}` has a prefix; Xavantes documents have no namespace"),
            };
            return Err(self.scanner.error("namespace", name_span, message));
        }
        match uses_xsi {
            Some(span) if !names.contains(&"xmlns:xsi") => {
                let help = format!("add `xmlns:xsi=\"{XSI_NAMESPACE}\"`");
                Err(self.scanner.error("namespace", span, "the prefix `xsi` is not declared").help(help))
            }
            _ => Ok(attributes),
        }
    }

    fn text(&mut self, span: Range<usize>) -> Fallible<()> {
        let scanner = self.scanner;
        let content = &scanner.text[span.clone()];
        if self.open.is_none() && content.bytes().all(is_space) {
            return Ok(());
        }
        if let Some(at) = content.find("]]>") {
            let span = span.start + at..span.start + at + 3;
            return Err(scanner.malformed(span, "`]]>` is not allowed in text").help("write `]]&gt;`"));
        }
        scanner.decode_into(self.text_piece(&span)?, span, false)
    }

    fn cdata(&mut self, span: Range<usize>) -> Fallible<()> {
        let content = span.start + 9..span.end - 3;
        let mut value = MappedText::new(content.start);
        self.scanner.decode_into(&mut value, content, false)?;
        self.count_node(&span)?;
        self.open_children(&span)?.push(XmlChild::Text(Text { value, span, cdata: true }));
        Ok(())
    }

    /// Returns the piece of text that `span` belongs to: the piece that ends where `span` starts, so that a long run of
    /// references stays one piece, or else a new one.
    fn text_piece(&mut self, span: &Range<usize>) -> Fallible<&mut MappedText> {
        let goes_on = matches!(self.open_children(span)?.last(),
            Some(XmlChild::Text(text)) if !text.cdata && text.span.end == span.start);
        if !goes_on {
            self.count_node(span)?;
            let text = Text { value: MappedText::new(span.start), span: span.clone(), cdata: false };
            self.open_children(span)?.push(XmlChild::Text(text));
        }
        match self.open_children(span)?.last_mut() {
            Some(XmlChild::Text(text)) => {
                text.span.end = span.end;
                Ok(&mut text.value)
            }
            _ => unreachable!("the branch above added a piece of text if there was none"),
        }
    }

    fn open_children(&mut self, span: &Range<usize>) -> Fallible<&mut Vec<XmlChild>> {
        match self.open {
            Some(open) => Ok(&mut self.elements[open.0 as usize].children),
            None => Err(self.scanner.malformed(span.clone(), "text is not allowed outside of the root element")),
        }
    }
}

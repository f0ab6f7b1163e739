//! Reading XML strictly: what this module accepts is well-formed XML 1.0 without a document type, small enough to
//! be held, and every part of it knows the bytes that it came from.
//!
//! `quick-xml` only cuts the text into tags, text and comments here. It is lenient on purpose, so every rule of XML
//! that it leaves to its caller is checked below. Nothing recurses, so that nesting cannot exhaust the stack.

use std::ops::Range;

use quick_xml::Reader;
use quick_xml::events::Event;

use crate::diagnostic::{Diagnostic, Span};

/// Longest accepted document, in bytes.
pub const MAX_BYTES: usize = 16 * 1024 * 1024;
/// Deepest accepted nesting of elements; the root is at depth 1.
pub const MAX_DEPTH: usize = 1000;
/// Most attributes of one element.
pub const MAX_ATTRIBUTES: usize = 256;
/// Longest name of an element or attribute, in bytes.
pub const MAX_NAME: usize = 256;
/// Most elements, attributes and pieces of text in one document. It bounds memory: each of them takes a few hundred
/// bytes, although it may be written with only four.
pub const MAX_NODES: usize = 1_000_000;

const XSI: &str = "http://www.w3.org/2001/XMLSchema-instance";

/// An element of a [`Tree`]. It is meaningful only with the tree that gave it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Node(u32);

/// A whole document; it has a root.
#[derive(Debug, Clone)]
pub struct Tree {
    // In document order, so the root is first. Elements refer to each other by position: there is no deep drop.
    elements: Vec<Element>,
}

/// An element with what is in it. Comments and processing instructions are dropped.
#[derive(Debug, Clone)]
pub struct Element {
    /// Its name.
    pub name: String,
    /// Where the name is in the start tag.
    pub name_span: Range<usize>,
    /// The start tag, from `<` to `>`.
    pub span: Range<usize>,
    /// The byte after the end tag, or after the start tag when that closes itself.
    pub end: usize,
    /// The attributes in written order, without those that are about XML itself (`xmlns:xsi`, `xml:lang`, …).
    pub attributes: Vec<Attribute>,
    /// Elements and text in written order.
    pub children: Vec<Child>,
    /// The element around this one.
    pub parent: Option<Node>,
    /// How deep it is nested: 1 for the root.
    pub depth: usize,
}

/// What is directly inside an element.
#[derive(Debug, Clone)]
pub enum Child {
    /// An element.
    Element(Node),
    /// A piece of text.
    Text(Text),
}

/// A piece of text: either one CDATA section, or text and references up to the next markup.
#[derive(Debug, Clone)]
pub struct Text {
    /// The text, decoded.
    pub value: Mapped,
    /// Where it is written, with the delimiters of a CDATA section.
    pub span: Range<usize>,
    /// Whether it is a CDATA section.
    pub cdata: bool,
}

/// An attribute.
#[derive(Debug, Clone)]
pub struct Attribute {
    /// Its name.
    pub name: String,
    /// Where the name is.
    pub name_span: Range<usize>,
    /// The value, decoded and normalised.
    pub value: Mapped,
    /// Where the value is, without its quotes.
    pub value_span: Range<usize>,
}

/// Decoded text that knows which byte of the source each of its bytes came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mapped {
    /// The decoded text.
    pub value: String,
    // (offset in `value`, offset in the source) of each stretch in which both advance together; 32 bits are enough
    // for MAX_BYTES.
    runs: Vec<(u32, u32)>,
    end: usize,
}

impl Mapped {
    fn new(start: usize) -> Self {
        Self { value: String::new(), runs: Vec::new(), end: start }
    }

    /// Where in the source a byte offset of `value` is. A character that was written as a reference is at the `&`;
    /// the end of `value`, and anything past it, is where the text ends in the source.
    pub fn source_offset(&self, offset: usize) -> usize {
        let run = self.runs.partition_point(|(decoded, _)| *decoded as usize <= offset);
        match run.checked_sub(1).and_then(|run| self.runs.get(run)) {
            Some((decoded, source)) if offset < self.value.len() => *source as usize + (offset - *decoded as usize),
            _ => self.end,
        }
    }

    /// Where in the source a byte range of `value` is.
    pub fn source_range(&self, range: Range<usize>) -> Range<usize> {
        let start = self.source_offset(range.start);
        start..self.source_offset(range.end).max(start)
    }

    /// Appends `piece`, that stands for source bytes `from`.
    fn push(&mut self, from: Range<usize>, piece: &str) {
        let expected =
            self.runs.last().map(|(decoded, source)| *source as usize + self.value.len() - *decoded as usize);
        if expected != Some(from.start) && !piece.is_empty() {
            self.runs.push((self.value.len() as u32, from.start as u32));
        }
        self.value.push_str(piece);
        self.end = from.end;
    }

    fn append(&mut self, other: &Mapped) {
        let shift = self.value.len() as u32;
        self.runs.extend(other.runs.iter().map(|(decoded, source)| (decoded + shift, *source)));
        self.value.push_str(&other.value);
        self.end = other.end;
    }
}

impl Element {
    /// The attribute of that name.
    pub fn attribute(&self, name: &str) -> Option<&Attribute> {
        self.attributes.iter().find(|attribute| attribute.name == name)
    }

    /// The elements directly inside.
    pub fn elements(&self) -> impl Iterator<Item = Node> {
        self.children.iter().filter_map(|child| match child {
            Child::Element(node) => Some(*node),
            Child::Text(_) => None,
        })
    }

    /// The pieces of text directly inside.
    pub fn texts(&self) -> impl Iterator<Item = &Text> {
        self.children.iter().filter_map(|child| match child {
            Child::Element(_) => None,
            Child::Text(text) => Some(text),
        })
    }
}

impl Tree {
    /// The outermost element.
    pub fn root(&self) -> Node {
        Node(0)
    }

    /// Looks an element up.
    ///
    /// # Panics
    ///
    /// When the node was given by another, larger tree.
    pub fn element(&self, node: Node) -> &Element {
        &self.elements[node.0 as usize]
    }

    /// The elements directly inside `node`.
    pub fn children(&self, node: Node) -> impl Iterator<Item = (Node, &Element)> {
        self.element(node).elements().map(|child| (child, self.element(child)))
    }

    /// All elements in document order.
    pub fn elements(&self) -> impl Iterator<Item = (Node, &Element)> {
        self.elements.iter().enumerate().map(|(index, element)| (Node(index as u32), element))
    }

    /// All text that is directly inside `node`, joined; `None` if there is no piece of text. Text inside of child
    /// elements does not count.
    pub fn text(&self, node: Node) -> Option<Mapped> {
        let mut texts = self.element(node).texts();
        let mut joined = texts.next()?.value.clone();
        texts.for_each(|text| joined.append(&text.value));
        Some(joined)
    }
}

/// The text of a file. Only UTF-8 is read; the error has the offset of the first bad byte. A byte order mark stays,
/// so that offsets in the text are offsets in the file, and [`parse`] accepts it.
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

/// Reads a document; `source` is its position among the sources, for the spans. Reading stops at the first thing
/// that is wrong.
pub fn parse(source: usize, text: &str) -> Result<Tree, Vec<Diagnostic>> {
    let parser = Parser { scan: Scan { source, text }, elements: Vec::new(), open: None, nodes: 0 };
    parser.run().map_err(|diagnostic| vec![diagnostic])
}

type Fallible<T> = Result<T, Diagnostic>;

/// Builds the tree.
struct Parser<'a> {
    scan: Scan<'a>,
    elements: Vec<Element>,
    /// The innermost open element; the others are its ancestors.
    open: Option<Node>,
    nodes: usize,
}

impl<'a> Parser<'a> {
    fn run(mut self) -> Fallible<Tree> {
        if self.scan.text.len() > MAX_BYTES {
            let message = format!("the document has {} bytes; at most {MAX_BYTES} are accepted", self.scan.text.len());
            return Err(self.scan.error("too-large", 0..0, message));
        }
        self.scan.check_characters()?;
        // quick-xml would drop a byte order mark without counting it, which would shift every span.
        let body = self.scan.text.strip_prefix('\u{FEFF}').unwrap_or(self.scan.text);
        let base = self.scan.text.len() - body.len();
        if body.starts_with('\u{FEFF}') {
            return Err(self.scan.malformed(base..base + 3, "the document begins with two byte order marks"));
        }
        let mut reader = Reader::from_str(body);
        // End tags are compared here, where the place of the start tag is known.
        let config = reader.config_mut();
        config.check_end_names = false;
        config.allow_unmatched_ends = true;
        loop {
            let start = base + reader.buffer_position() as usize;
            if self.scan.begins(start, "<!DOCTYPE") {
                let (message, help) = ("document type declarations are not accepted", "remove the `<!DOCTYPE …>`");
                return Err(self.scan.error("dtd", start..start + 9, message).help(help));
            }
            let event = reader.read_event();
            let span = start..base + reader.buffer_position() as usize;
            match event {
                Ok(Event::Start(_)) => self.start_tag(span, false)?,
                Ok(Event::Empty(_)) => self.start_tag(span, true)?,
                Ok(Event::End(_)) => self.end_tag(span)?,
                Ok(Event::Text(_)) => self.text(span)?,
                Ok(Event::GeneralRef(_)) => {
                    let character = self.scan.reference(span.clone())?;
                    self.text_piece(&span)?.push(span, character.encode_utf8(&mut [0; 4]));
                }
                Ok(Event::CData(_)) => self.cdata(span)?,
                Ok(Event::Comment(_)) => {
                    let content = &self.scan.text[span.start + 4..span.end - 3];
                    if content.contains("--") || content.ends_with('-') {
                        return Err(self.scan.malformed(span, "a comment must not contain `--`, nor end with `--->`"));
                    }
                }
                Ok(Event::Decl(_) | Event::PI(_)) => self.scan.instruction(span, base)?,
                Ok(Event::Eof) => return self.finish(base),
                Ok(Event::DocType(_)) | Err(_) => return Err(self.scan.unreadable(start)),
            }
        }
    }

    fn finish(self, base: usize) -> Fallible<Tree> {
        if let Some(open) = self.open {
            let Element { name, span, .. } = &self.elements[open.0 as usize];
            let help = format!("write `</{name}>` where the element ends");
            return Err(self.scan.malformed(span.clone(), format!("the element `{name}` is never closed")).help(help));
        }
        if self.elements.is_empty() {
            return Err(self.scan.malformed(base..base, "the document has no root element"));
        }
        Ok(Tree { elements: self.elements })
    }

    /// Counts what takes memory, before it takes it.
    fn count_node(&mut self, at: &Range<usize>) -> Fallible<()> {
        self.nodes += 1;
        if self.nodes > MAX_NODES {
            let message = format!("the document has more than {MAX_NODES} elements, attributes and pieces of text");
            return Err(self.scan.error("too-large", at.clone(), message));
        }
        Ok(())
    }

    fn start_tag(&mut self, span: Range<usize>, closes_itself: bool) -> Fallible<()> {
        let end = span.end - if closes_itself { 2 } else { 1 };
        let name_span = span.start + 1..self.scan.name_end(span.start + 1, end);
        if name_span.is_empty() {
            let help = "a `<` that is meant as text is written `&lt;`";
            return Err(self.scan.malformed(span, "the tag has no name").help(help));
        }
        let name = self.scan.check_name(name_span.clone())?;
        if name.contains(':') {
            let message = format!("the element `{name}` has a prefix; Xavantes documents have no namespace");
            return Err(self.scan.error("namespace", name_span, message));
        }
        if self.open.is_none() && !self.elements.is_empty() {
            let help = format!("`<{}>` is already closed", self.elements[0].name);
            return Err(self.scan.malformed(span, "a document has only one root element").help(help));
        }
        let depth = self.open.map_or(1, |parent| self.elements[parent.0 as usize].depth + 1);
        if depth > MAX_DEPTH {
            return Err(self.scan.error("too-deep", span, format!("elements are nested deeper than {MAX_DEPTH}")));
        }
        self.count_node(&span)?;
        let attributes = self.attributes(name_span.end, end)?;
        let node = Node(self.elements.len() as u32);
        if let Some(parent) = self.open {
            self.elements[parent.0 as usize].children.push(Child::Element(node));
        }
        let parent = self.open;
        let (name, end, children) = (name.to_owned(), span.end, Vec::new());
        self.elements.push(Element { name, name_span, span, end, attributes, children, parent, depth });
        if !closes_itself {
            self.open = Some(node);
        }
        Ok(())
    }

    fn end_tag(&mut self, span: Range<usize>) -> Fallible<()> {
        let name_end = self.scan.name_end(span.start + 2, span.end - 1);
        let name = &self.scan.text[span.start + 2..name_end];
        let Some(open) = self.open else {
            return Err(self.scan.malformed(span, format!("`</{}>` closes nothing: no element is open", clip(name))));
        };
        let element = &mut self.elements[open.0 as usize];
        if element.name != name {
            // Found once, for the one diagnostic, so counting lines from the start is cheap enough.
            let line = 1 + memchr::memchr_iter(b'\n', &self.scan.text.as_bytes()[..element.span.start]).count();
            let help = format!("`<{0}>` was opened on line {line} and must be closed first, by `</{0}>`", element.name);
            let message = format!("`</{}>` does not close `<{}>`", clip(name), element.name);
            return Err(self.scan.malformed(span, message).help(help));
        }
        if self.scan.skip_space(name_end, span.end - 1) != span.end - 1 {
            return Err(self.scan.malformed(span, "an end tag contains only a name"));
        }
        element.end = span.end;
        self.open = element.parent;
        Ok(())
    }

    /// The attributes between `at` and `end`. Those about XML itself are checked and left out.
    fn attributes(&mut self, mut at: usize, end: usize) -> Fallible<Vec<Attribute>> {
        let on_root = self.elements.is_empty();
        let mut names: Vec<&str> = Vec::new();
        let mut attributes = Vec::new();
        let mut uses_xsi = None;
        while let Some((name_span, value_span)) = self.scan.pair(&mut at, end)? {
            let name = self.scan.check_name(name_span.clone())?;
            // Searched one by one: there are at most MAX_ATTRIBUTES.
            if names.contains(&name) {
                let message = format!("the attribute `{name}` is given twice");
                return Err(self.scan.error("duplicate-attribute", name_span, message));
            }
            names.push(name);
            if names.len() > MAX_ATTRIBUTES {
                let message = format!("the element has more than {MAX_ATTRIBUTES} attributes");
                return Err(self.scan.error("too-large", name_span, message));
            }
            self.count_node(&name_span)?;
            let mut value = Mapped::new(value_span.start);
            self.scan.decode_into(&mut value, value_span.clone(), true)?;
            if name != "xmlns" && !name.contains(':') {
                attributes.push(Attribute { name: name.to_owned(), name_span, value, value_span });
                continue;
            }
            let message = match name {
                "xmlns" => "Xavantes documents have no namespace".to_owned(),
                "xmlns:xsi" if value.value != XSI => format!("`xmlns:xsi` must be `{XSI}`"),
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
            return Err(self.scan.error("namespace", name_span, message));
        }
        match uses_xsi {
            Some(span) if !names.contains(&"xmlns:xsi") => {
                let help = format!("add `xmlns:xsi=\"{XSI}\"`");
                Err(self.scan.error("namespace", span, "the prefix `xsi` is not declared").help(help))
            }
            _ => Ok(attributes),
        }
    }

    fn text(&mut self, span: Range<usize>) -> Fallible<()> {
        let scan = self.scan;
        let content = &scan.text[span.clone()];
        if self.open.is_none() && content.bytes().all(is_space) {
            return Ok(());
        }
        if let Some(at) = content.find("]]>") {
            let span = span.start + at..span.start + at + 3;
            return Err(scan.malformed(span, "`]]>` is not allowed in text").help("write `]]&gt;`"));
        }
        scan.decode_into(self.text_piece(&span)?, span, false)
    }

    fn cdata(&mut self, span: Range<usize>) -> Fallible<()> {
        let content = span.start + 9..span.end - 3;
        let mut value = Mapped::new(content.start);
        self.scan.decode_into(&mut value, content, false)?;
        self.count_node(&span)?;
        self.open_children(&span)?.push(Child::Text(Text { value, span, cdata: true }));
        Ok(())
    }

    /// The piece of text to which `span` is to be added: the one that ends there, so that a long run of references
    /// is one piece, or else a new one.
    fn text_piece(&mut self, span: &Range<usize>) -> Fallible<&mut Mapped> {
        let goes_on = matches!(self.open_children(span)?.last(),
            Some(Child::Text(text)) if !text.cdata && text.span.end == span.start);
        if !goes_on {
            self.count_node(span)?;
            let text = Text { value: Mapped::new(span.start), span: span.clone(), cdata: false };
            self.open_children(span)?.push(Child::Text(text));
        }
        match self.open_children(span)?.last_mut() {
            Some(Child::Text(text)) => {
                text.span.end = span.end;
                Ok(&mut text.value)
            }
            _ => unreachable!("a piece of text was just found or added"),
        }
    }

    fn open_children(&mut self, span: &Range<usize>) -> Fallible<&mut Vec<Child>> {
        match self.open {
            Some(open) => Ok(&mut self.elements[open.0 as usize].children),
            None => Err(self.scan.malformed(span.clone(), "text is not allowed outside of the root element")),
        }
    }
}

/// Reads parts of the text without keeping anything.
#[derive(Clone, Copy)]
struct Scan<'a> {
    source: usize,
    text: &'a str,
}

impl<'a> Scan<'a> {
    fn error(self, code: &'static str, span: Range<usize>, message: impl Into<String>) -> Diagnostic {
        Diagnostic::new(code, Span::new(self.source, span), message)
    }

    fn malformed(self, span: Range<usize>, message: impl Into<String>) -> Diagnostic {
        self.error("malformed-xml", span, message)
    }

    /// Whether the text at `at` begins with `prefix`, in upper or lower case.
    fn begins(self, at: usize, prefix: &str) -> bool {
        let bytes = self.text.as_bytes().get(at..at + prefix.len());
        bytes.is_some_and(|bytes| bytes.eq_ignore_ascii_case(prefix.as_bytes()))
    }

    /// Says why quick-xml could not read on at `start`, in our words.
    fn unreadable(self, start: usize) -> Diagnostic {
        let here = start..self.text.len().min(start + 1);
        let rest = &self.text[start..];
        if rest.starts_with('&') {
            return self.bare_ampersand(here);
        }
        let message = if rest.starts_with("<!--") {
            "the comment is not closed: `-->` is missing"
        } else if rest.starts_with("<![CDATA[") {
            "the CDATA section is not closed: `]]>` is missing"
        } else if rest.starts_with("<!") {
            "`<!` begins neither a comment nor a CDATA section"
        } else if rest.starts_with("<?") {
            "the processing instruction is not closed: `?>` is missing"
        } else {
            "the tag is not closed: `>` or the closing quote of an attribute is missing"
        };
        self.malformed(here, message).help("a `<` that is meant as text is written `&lt;`")
    }

    fn bare_ampersand(self, span: Range<usize>) -> Diagnostic {
        let message = "`&` must be followed by the name of a character and `;`";
        self.error("entity", span, message).help("an `&` that is meant as text is written `&amp;`")
    }

    /// Checked once for the whole document, so that no part of it can be forgotten.
    fn check_characters(self) -> Fallible<()> {
        match self.text.char_indices().find(|(_, character)| !is_xml_char(*character)) {
            None => Ok(()),
            Some((at, character)) => {
                let message = format!("the character U+{:04X} is not allowed in XML", character as u32);
                Err(self.malformed(at..at + character.len_utf8(), message))
            }
        }
    }

    fn check_name(self, span: Range<usize>) -> Fallible<&'a str> {
        let name = &self.text[span.clone()];
        if name.len() > MAX_NAME {
            let message = format!("the name `{}` is longer than {MAX_NAME} bytes", clip(name));
            return Err(self.error("bad-name", span, message));
        }
        let mut characters = name.chars();
        if !characters.next().is_some_and(is_name_start) || !characters.all(is_name_char) {
            let help = "a name begins with a letter or `_`, and goes on with letters, digits, `_`, `-` and `.`";
            return Err(self.error("bad-name", span, format!("`{}` is not a name", clip(name))).help(help));
        }
        Ok(name)
    }

    /// The next `name="value"` between `at` and `end`, with the white space before it.
    fn pair(self, at: &mut usize, end: usize) -> Fallible<Option<(Range<usize>, Range<usize>)>> {
        let bytes = self.text.as_bytes();
        let start = self.skip_space(*at, end);
        if start == end {
            return Ok(None);
        }
        let found = self.text[start..end].chars().next().unwrap_or(' ');
        let here = start..start + found.len_utf8();
        if start == *at {
            return Err(self.malformed(here, format!("white space is missing before `{}`", found.escape_default())));
        }
        let name_span = start..self.name_end(start, end);
        let name = &self.text[name_span.clone()];
        if name_span.is_empty() {
            let message = format!("`{}` is not the beginning of an attribute", found.escape_default());
            return Err(self.malformed(here, message));
        }
        let equals = self.skip_space(name_span.end, end);
        if equals == end || bytes[equals] != b'=' {
            let message = format!("the attribute `{}` has no value", clip(name));
            return Err(self.malformed(name_span, message).help("write it as `name=\"value\"`"));
        }
        let open = self.skip_space(equals + 1, end);
        if open == end || !matches!(bytes[open], b'"' | b'\'') {
            let message = format!("the value of the attribute `{}` must be in quotes", clip(name));
            return Err(self.malformed(name_span, message).help("write it as `name=\"value\"`"));
        }
        let Some(length) = memchr::memchr(bytes[open], &bytes[open + 1..end]) else {
            return Err(self.malformed(open..open + 1, format!("the value of `{}` has no closing quote", clip(name))));
        };
        let value_span = open + 1..open + 1 + length;
        *at = value_span.end + 1;
        Ok(Some((name_span, value_span)))
    }

    /// An XML declaration or a processing instruction.
    fn instruction(self, span: Range<usize>, base: usize) -> Fallible<()> {
        let end = span.end - 2;
        let target_end = self.text.as_bytes()[span.start + 2..end].iter().position(|b| is_space(*b));
        let target_span = span.start + 2..target_end.map_or(end, |length| span.start + 2 + length);
        let target = self.check_name(target_span.clone())?;
        if target.contains(':') {
            let message = format!("the processing instruction `{target}` has a `:` in its name");
            return Err(self.error("bad-name", target_span, message));
        }
        if !target.eq_ignore_ascii_case("xml") {
            return Ok(());
        }
        if target != "xml" || span.start != base {
            let message = "an XML declaration is written `<?xml …?>` and stands at the very start of the document";
            return Err(self.malformed(span, message));
        }
        let mut at = target_span.end;
        let mut expected = ["version", "encoding", "standalone"].into_iter();
        while let Some((name_span, value_span)) = self.pair(&mut at, end)? {
            let (name, value) = (&self.text[name_span.clone()], &self.text[value_span.clone()]);
            let first = expected.len() == 3;
            if !expected.any(|candidate| candidate == name) || (first && name != "version") {
                let message = "an XML declaration contains `version`, then optionally `encoding` and `standalone`";
                return Err(self.malformed(name_span, message));
            }
            match name {
                "version" if value != "1.0" => return Err(self.malformed(value_span, "only XML 1.0 is accepted")),
                "encoding" if !value.eq_ignore_ascii_case("utf-8") => {
                    return Err(self.error("encoding", value_span, "only the encoding UTF-8 is accepted"));
                }
                "standalone" if !matches!(value, "yes" | "no") => {
                    return Err(self.malformed(value_span, "`standalone` is either `yes` or `no`"));
                }
                _ => {}
            }
        }
        if expected.len() == 3 {
            return Err(self.malformed(span, "the XML declaration has no `version`"));
        }
        Ok(())
    }

    /// Appends the text at `span` with its line ends normalised. In an attribute (where quick-xml leaves everything
    /// to us) white space becomes spaces, references are replaced, and `<` is refused.
    fn decode_into(self, out: &mut Mapped, span: Range<usize>, attribute: bool) -> Fallible<()> {
        let bytes = self.text.as_bytes();
        let special = |b: &u8| *b == b'\r' || (attribute && matches!(b, b'\t' | b'\n' | b'&' | b'<'));
        let mut at = span.start;
        while at < span.end {
            let plain = bytes[at..span.end].iter().position(special).unwrap_or(span.end - at);
            out.push(at..at + plain, &self.text[at..at + plain]);
            at += plain;
            if at == span.end {
                break;
            }
            let mut next = at + 1;
            match bytes[at] {
                b'<' => {
                    let help = "write `&lt;`, or check that the value has its closing quote";
                    return Err(self.malformed(at..next, "`<` is not allowed in the value of an attribute").help(help));
                }
                b'&' => {
                    let Some(length) = memchr::memchr(b';', &bytes[at..span.end]) else {
                        return Err(self.bare_ampersand(at..next));
                    };
                    next = at + length + 1;
                    out.push(at..next, self.reference(at..next)?.encode_utf8(&mut [0; 4]));
                }
                byte => {
                    if byte == b'\r' && next < span.end && bytes[next] == b'\n' {
                        next += 1;
                    }
                    out.push(at..next, if attribute { " " } else { "\n" });
                }
            }
            at = next;
        }
        Ok(())
    }

    /// The character that the reference at `span`, from `&` to `;`, stands for.
    fn reference(self, span: Range<usize>) -> Fallible<char> {
        let name = &self.text[span.start + 1..span.end - 1];
        let Some(number) = name.strip_prefix('#') else {
            return match name {
                "lt" => Ok('<'),
                "gt" => Ok('>'),
                "amp" => Ok('&'),
                "apos" => Ok('\''),
                "quot" => Ok('"'),
                _ if !name.is_empty() && name.chars().all(is_name_char) => {
                    let help = "only `&lt;`, `&gt;`, `&amp;`, `&apos;` and `&quot;` are known; \
                        an `&` that is meant as text is written `&amp;`";
                    Err(self.error("entity", span, format!("the entity `&{};` is not defined", clip(name))).help(help))
                }
                _ => Err(self.bare_ampersand(span.start..span.start + 1)),
            };
        };
        let (digits, radix) = number.strip_prefix('x').map_or((number, 10), |hexadecimal| (hexadecimal, 16));
        // Looked at first, because numbers in Rust may have a sign.
        let code =
            if digits.chars().all(|c| c.is_digit(radix)) { u32::from_str_radix(digits, radix).ok() } else { None };
        code.and_then(char::from_u32)
            .filter(|c| is_xml_char(*c))
            .ok_or_else(|| self.error("entity", span, format!("`&{};` is not a character that XML allows", clip(name))))
    }

    fn skip_space(self, at: usize, end: usize) -> usize {
        at + self.text.as_bytes()[at..end].iter().take_while(|b| is_space(**b)).count()
    }

    /// Where a name that begins at `at` stops, whether it is a legal one or not.
    fn name_end(self, at: usize, end: usize) -> usize {
        let stops = |b: &u8| is_space(*b) || matches!(b, b'=' | b'/' | b'<' | b'>' | b'"' | b'\'');
        at + self.text.as_bytes()[at..end].iter().position(stops).unwrap_or(end - at)
    }
}

/// Without the white space around it, as XML means it: other spaces of Unicode are characters like any other.
pub fn trim(text: &str) -> &str {
    text.trim_matches([' ', '\t', '\r', '\n'])
}

/// Whether there is nothing but white space, as XML means it.
pub fn is_blank(text: &str) -> bool {
    text.bytes().all(is_space)
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

/// XML 1.0, production 2 (`Char`); surrogates are no `char` to begin with.
fn is_xml_char(c: char) -> bool {
    !matches!(c, '\0'..='\x08' | '\x0B' | '\x0C' | '\x0E'..='\x1F' | '\u{FFFE}' | '\u{FFFF}')
}

/// XML 1.0 (fifth edition), production 4 (`NameStartChar`).
fn is_name_start(c: char) -> bool {
    matches!(c, ':' | '_' | 'A'..='Z' | 'a'..='z' | '\u{C0}'..='\u{D6}' | '\u{D8}'..='\u{F6}' | '\u{F8}'..='\u{2FF}'
        | '\u{370}'..='\u{37D}' | '\u{37F}'..='\u{1FFF}' | '\u{200C}' | '\u{200D}' | '\u{2070}'..='\u{218F}'
        | '\u{2C00}'..='\u{2FEF}' | '\u{3001}'..='\u{D7FF}' | '\u{F900}'..='\u{FDCF}' | '\u{FDF0}'..='\u{FFFD}'
        | '\u{10000}'..='\u{EFFFF}')
}

/// XML 1.0 (fifth edition), production 4a (`NameChar`).
fn is_name_char(c: char) -> bool {
    is_name_start(c) || matches!(c, '-' | '.' | '0'..='9' | '\u{B7}' | '\u{300}'..='\u{36F}' | '\u{203F}' | '\u{2040}')
}

/// As much of what an author wrote as fits in a message.
fn clip(written: &str) -> String {
    match written.char_indices().nth(40) {
        None => written.to_owned(),
        Some((at, _)) => format!("{}…", &written[..at]),
    }
}

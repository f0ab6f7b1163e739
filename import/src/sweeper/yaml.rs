//! YAML as a tree with lines. Anchors and aliases are refused, which bounds the tree by the document.

use saphyr_parser::{Event, Parser, ScanError};

use crate::importers::ImportError;

/// Larger documents are refused: a command has some hundred bytes, and a process at most 16 MiB.
const MAX_BYTES: usize = 16 << 20;
/// A workflow has four levels.
const MAX_DEPTH: usize = 20;

/// A value with its line, from 1.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct YamlNode {
    pub line: usize,
    pub value: YamlValue,
}

/// A value. Scalars are texts: Sweeper puts all of them into commands.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum YamlValue {
    Text(String),
    List(Vec<YamlNode>),
    Map(Vec<(YamlNode, YamlNode)>),
}

/// Makes an error at a line.
pub(super) fn fault<T>(line: usize, reason: impl Into<String>) -> Result<T, ImportError> {
    Err(ImportError::Sweeper { line, reason: reason.into() })
}

/// A list or map that is not complete yet.
enum Open {
    List(usize, Vec<YamlNode>),
    Map(usize, Vec<(YamlNode, YamlNode)>, Option<YamlNode>),
}

/// Reads one document.
pub(super) fn read(text: &str) -> Result<YamlNode, ImportError> {
    if text.len() > MAX_BYTES {
        return fault(1, format!("the document has {} bytes; the limit is {MAX_BYTES}", text.len()));
    }
    let mut open: Vec<Open> = Vec::new();
    let mut root: Option<YamlNode> = None;
    let mut parser = Parser::new_from_str(text);
    while let Some(event) = parser.next_event() {
        let (event, span) = event.map_err(|error| scan_error(&error))?;
        let line = span.start.line();
        let node = match event {
            Event::SequenceStart(anchor, _) | Event::MappingStart(anchor, _) if anchor > 0 => {
                return fault(line, "anchors are not supported");
            }
            Event::Alias(_) => return fault(line, "aliases are not supported"),
            Event::SequenceStart(..) => {
                open.push(Open::List(line, Vec::new()));
                None
            }
            Event::MappingStart(..) => {
                open.push(Open::Map(line, Vec::new(), None));
                None
            }
            Event::SequenceEnd | Event::MappingEnd => open.pop().map(|open| match open {
                Open::List(line, items) => YamlNode { line, value: YamlValue::List(items) },
                Open::Map(line, entries, _) => YamlNode { line, value: YamlValue::Map(entries) },
            }),
            Event::Scalar(text, ..) => Some(YamlNode { line, value: YamlValue::Text(text.into_owned()) }),
            Event::DocumentStart(_) if root.is_some() => return fault(line, "there is a second document"),
            _ => None,
        };
        if open.len() > MAX_DEPTH {
            return fault(line, format!("lists and maps nest deeper than {MAX_DEPTH} levels"));
        }
        let Some(node) = node else { continue };
        match open.last_mut() {
            None => root = Some(node),
            Some(Open::List(_, items)) => items.push(node),
            Some(Open::Map(_, entries, key)) => match key.take() {
                None => *key = Some(node),
                Some(key) => entries.push((key, node)),
            },
        }
    }
    root.map_or_else(|| fault(1, "the document is empty"), Ok)
}

fn scan_error(error: &ScanError) -> ImportError {
    ImportError::Sweeper { line: error.marker().line(), reason: error.info().to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        read(text).unwrap_err().to_string()
    }

    #[test]
    fn maps_lists_and_texts_have_lines() {
        let node = read("# comment\na:\n  - x\n  - |\n    two\n    lines\n").unwrap();
        let YamlValue::Map(entries) = &node.value else { panic!("{node:?}") };
        assert_eq!((entries[0].0.line, &entries[0].0.value), (2, &YamlValue::Text("a".into())));
        let YamlValue::List(items) = &entries[0].1.value else { panic!("{node:?}") };
        assert_eq!(items[1].value, YamlValue::Text("two\nlines\n".into()));
        assert_eq!(items[0].line, 3);
    }

    #[test]
    fn what_could_grow_is_refused_with_its_line() {
        assert_eq!(error("a: &x [1]\nb: *x\n"), "line 1: anchors are not supported");
        assert!(error(&"[".repeat(100)).contains("deeper than 20 levels"));
        assert!(error("a: [1\nb: 2").starts_with("line "));
        assert_eq!(error(""), "line 1: the document is empty");
        assert_eq!(error("a: 1\n---\nb: 2\n"), "line 2: there is a second document");
    }
}

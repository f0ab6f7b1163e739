//! Histories as ARFF, the text format of Weka: `@relation`, `@attribute name numeric|string|{a,b}`, `@data`, then a run
//! per line. `?` is a missing value, `%` begins a comment, names and words may stand in quotes.

use std::fmt::Write;

use super::run_history::{ObservedValue, RunHistory};
use crate::formats::{MAX_DOCUMENT_BYTES, ReadError, TextPlace};

/// Reads a history. It keeps at most `capacity` runs.
pub fn read(document: &str, capacity: usize) -> Result<RunHistory, ReadError> {
    if document.len() > MAX_DOCUMENT_BYTES {
        return Err(ReadError::TooLong { found: document.len() });
    }
    let mut attributes: Vec<(String, bool)> = Vec::new();
    let mut history: Option<RunHistory> = None;
    for (index, line) in document.lines().enumerate() {
        let error = |reason: String| ReadError::syntax(TextPlace::Line(index + 1), reason);
        let line = line.trim();
        if line.is_empty() || line.starts_with('%') {
            continue;
        }
        if let Some(history) = &mut history {
            history.observe(read_run(line, &attributes).map_err(error)?);
            continue;
        }
        let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        match word.to_ascii_lowercase().as_str() {
            "@relation" => {}
            "@attribute" => attributes.push(read_attribute(rest.trim()).map_err(error)?),
            "@data" => {
                let names = attributes.iter().map(|(name, _)| name.clone()).collect();
                history = Some(RunHistory::new(names, capacity));
            }
            _ => return Err(error(format!("`{word}` is neither @relation nor @attribute nor @data"))),
        }
    }
    let lines = document.lines().count();
    history
        .ok_or_else(|| ReadError::Syntax { place: TextPlace::Line(lines.max(1)), reason: "there is no @data".into() })
}

/// A name and whether it is of a number.
fn read_attribute(text: &str) -> Result<(String, bool), String> {
    let (name, rest) = word(text)?;
    let kind = rest.trim();
    match kind.to_ascii_lowercase().as_str() {
        "numeric" | "real" | "integer" => Ok((name, true)),
        "string" => Ok((name, false)),
        _ if kind.starts_with('{') && kind.ends_with('}') => Ok((name, false)),
        _ => Err(format!("attribute {name} must be numeric, string or a list in braces, not `{kind}`")),
    }
}

/// A word, in quotes or up to white space or a comma, and what follows it.
fn word(text: &str) -> Result<(String, &str), String> {
    let mut rest = text.chars();
    let Some(quote) = rest.next().filter(|first| matches!(first, '\'' | '"')) else {
        let end = text.find([',', ' ', '\t']).unwrap_or(text.len());
        return if end == 0 { Err("a word is missing".into()) } else { Ok((text[..end].to_owned(), &text[end..])) };
    };
    let mut word = String::new();
    while let Some(next) = rest.next() {
        match next {
            '\\' => word.extend(rest.next()),
            next if next == quote => return Ok((word, rest.as_str())),
            next => word.push(next),
        }
    }
    Err("a quote is not closed".into())
}

fn read_run(line: &str, attributes: &[(String, bool)]) -> Result<Vec<ObservedValue>, String> {
    let mut values = Vec::with_capacity(attributes.len());
    let mut rest = line;
    for (index, (name, numeric)) in attributes.iter().enumerate() {
        if index > 0 {
            let next = rest.trim_start().strip_prefix(',');
            rest = next.ok_or_else(|| format!("{index} values are there instead of {}", attributes.len()))?;
        }
        let (text, after) = word(rest.trim_start())?;
        rest = after;
        values.push(match (text.as_str(), numeric) {
            ("?", _) => ObservedValue::Missing,
            (_, true) => match text.parse::<f64>() {
                Ok(number) if number.is_finite() => ObservedValue::Number(number),
                _ => return Err(format!("{name} must be a number, not `{text}`")),
            },
            (_, false) => ObservedValue::Word(text),
        });
    }
    if rest.trim().is_empty() { Ok(values) } else { Err(format!("more than {} values are there", attributes.len())) }
}

/// Writes a history. Merged runs are written as one.
pub fn write(history: &RunHistory, relation: &str) -> String {
    let mut text = format!("@relation {}\n\n", quoted(relation));
    for (column, name) in history.attributes().iter().enumerate() {
        let words = history.runs().any(|run| matches!(run[column], ObservedValue::Word(_)));
        // Writing to a string cannot fail.
        let _ = writeln!(text, "@attribute {} {}", quoted(name), if words { "string" } else { "numeric" });
    }
    text.push_str("\n@data\n");
    for run in history.runs() {
        let values: Vec<_> = run
            .iter()
            .map(|value| match value {
                ObservedValue::Number(number) => number.to_string(),
                ObservedValue::Word(word) => quoted(word),
                ObservedValue::Missing => "?".into(),
            })
            .collect();
        let _ = writeln!(text, "{}", values.join(","));
    }
    text
}

fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/');
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\\', "\\\\").replace('\'', "\\'"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = "% runs\n@relation k-means\n@attribute in-bytes numeric\n@attribute 'arg mode' {slow, fast}\n\
        @ATTRIBUTE time REAL\n@data\n10, slow, 1.5\n20,'it\\'s',?\n";

    #[test]
    fn what_is_written_is_read_again() {
        let history = read(SMALL, 10).unwrap();
        let runs: Vec<_> = history.runs().map(<[ObservedValue]>::to_vec).collect();
        assert_eq!(runs[1], [ObservedValue::Number(20.0), ObservedValue::Word("it's".into()), ObservedValue::Missing]);
        let again = read(&write(&history, "a b"), 10).unwrap();
        assert_eq!(again.attributes(), history.attributes());
        assert_eq!(again.runs().map(<[ObservedValue]>::to_vec).collect::<Vec<_>>(), runs);
    }

    #[test]
    fn faults_have_a_line_and_a_reason() {
        let cases = [
            (SMALL.replace("1.5", "soon"), "line 7: time must be a number, not `soon`"),
            (SMALL.replace(", 1.5", ""), "line 7: 2 values are there instead of 3"),
            (SMALL.replace("1.5", "1.5, 2"), "line 7: more than 3 values are there"),
            (
                SMALL.replace("REAL", "date"),
                "line 5: attribute time must be numeric, string or a list in braces, not `date`",
            ),
            (SMALL.replace("'it\\'s'", "'it"), "line 8: a quote is not closed"),
            (SMALL.replace("@data", "@dates"), "line 6: `@dates` is neither @relation nor @attribute nor @data"),
            (String::new(), "line 1: there is no @data"),
        ];
        for (document, message) in cases {
            assert_eq!(read(&document, 10).unwrap_err().to_string(), message);
        }
    }
}

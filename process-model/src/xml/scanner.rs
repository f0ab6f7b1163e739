//! Checks and decodes stretches of the text of a document, without storing anything: names, attributes, references,
//! declarations.

use std::ops::Range;

use super::chars::{clip, is_name_char, is_name_start, is_space, is_xml_char};
use super::document_limits::MAX_NAME;
use super::mapped_text::MappedText;
use crate::diagnostic::{Diagnostic, Span};

pub(super) type Fallible<T> = Result<T, Diagnostic>;
/// The text of a document and its position among the sources.
#[derive(Clone, Copy)]
pub(super) struct Scanner<'a> {
    pub source: usize,
    pub text: &'a str,
}

impl<'a> Scanner<'a> {
    pub fn error(self, code: &'static str, span: Range<usize>, message: impl Into<String>) -> Diagnostic {
        Diagnostic::new(code, Span::new(self.source, span), message)
    }

    pub fn malformed(self, span: Range<usize>, message: impl Into<String>) -> Diagnostic {
        self.error("malformed-xml", span, message)
    }

    /// True if the text at `at` begins with `prefix`, in upper or lower case.
    pub fn begins(self, at: usize, prefix: &str) -> bool {
        let bytes = self.text.as_bytes().get(at..at + prefix.len());
        bytes.is_some_and(|bytes| bytes.eq_ignore_ascii_case(prefix.as_bytes()))
    }

    /// Explains why quick-xml could not read on at `start`.
    pub fn unreadable(self, start: usize) -> Diagnostic {
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

    pub fn bare_ampersand(self, span: Range<usize>) -> Diagnostic {
        let message = "`&` must be followed by the name of a character and `;`";
        self.error("entity", span, message).help("an `&` that is meant as text is written `&amp;`")
    }

    /// Refuses characters that XML does not allow. One pass over the whole document covers every part of it.
    pub fn check_characters(self) -> Fallible<()> {
        match self.text.char_indices().find(|(_, character)| !is_xml_char(*character)) {
            None => Ok(()),
            Some((at, character)) => {
                let message = format!("the character U+{:04X} is not allowed in XML", character as u32);
                Err(self.malformed(at..at + character.len_utf8(), message))
            }
        }
    }

    pub fn check_name(self, span: Range<usize>) -> Fallible<&'a str> {
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

    /// Reads the next `name="value"` between `at` and `end`, with the white space before it.
    pub fn pair(self, at: &mut usize, end: usize) -> Fallible<Option<(Range<usize>, Range<usize>)>> {
        let bytes = self.text.as_bytes();
        let start = self.skip_space(*at, end);
        if start == end {
            return Ok(None);
        }
        let found = self.text[start..end].chars().next().unwrap_or(' ');
        let here = start..start + found.len_utf8();
        if start == *at {
            return Err(match bytes.get(start.wrapping_sub(1)) {
                Some(quote @ (b'"' | b'\'')) => self.ended_value(start, *quote),
                _ => self.malformed(here, format!("white space is missing before `{}`", found.escape_default())),
            });
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
            let help = match bytes.get(equals) {
                Some(b'"' | b'\'') => {
                    "a quote may have ended the value before it: write &quot; or &apos; for a quote in a value"
                }
                _ => "write it as `name=\"value\"`",
            };
            return Err(self.malformed(name_span, message).help(help));
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

    /// Explains that the quote before `start` ended the value of an attribute, although something follows it directly.
    fn ended_value(self, start: usize, quote: u8) -> Diagnostic {
        let (name, reference, other) = match quote {
            b'"' => ("\"", "&quot;", "'"),
            _ => ("'", "&apos;", "\""),
        };
        let message = format!("this {name} ended the value of the attribute, but the text goes on behind it");
        let help = format!(
            "a {name} in the value is written {reference}, or the whole value stands in {other}…{other}; if the value ends \
             here, put a space behind the quote"
        );
        self.malformed(start - 1..start, message).help(help)
    }

    /// Checks an XML declaration or a processing instruction.
    pub fn instruction(self, span: Range<usize>, base: usize) -> Fallible<()> {
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

    /// Appends the text at `span` to `out` with its line ends normalised. quick-xml does not look into attributes, so
    /// in an attribute white space becomes spaces, references are replaced, and `<` is refused.
    pub fn decode_into(self, out: &mut MappedText, span: Range<usize>, attribute: bool) -> Fallible<()> {
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

    /// Returns the character that the reference at `span`, from `&` to `;`, stands for.
    pub fn reference(self, span: Range<usize>) -> Fallible<char> {
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
        // The digits are checked first, because `from_str_radix` accepts a sign.
        let code =
            if digits.chars().all(|c| c.is_digit(radix)) { u32::from_str_radix(digits, radix).ok() } else { None };
        code.and_then(char::from_u32)
            .filter(|c| is_xml_char(*c))
            .ok_or_else(|| self.error("entity", span, format!("`&{};` is not a character that XML allows", clip(name))))
    }

    pub fn skip_space(self, at: usize, end: usize) -> usize {
        at + self.text.as_bytes()[at..end].iter().take_while(|b| is_space(**b)).count()
    }

    /// Returns where a name that begins at `at` stops, whether the name is legal or not.
    pub fn name_end(self, at: usize, end: usize) -> usize {
        let stops = |b: &u8| is_space(*b) || matches!(b, b'=' | b'/' | b'<' | b'>' | b'"' | b'\'');
        at + self.text.as_bytes()[at..end].iter().position(stops).unwrap_or(end - at)
    }
}

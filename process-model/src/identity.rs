//! The identity of an activity as bytes: everything of its type that a result can depend on, and the values of its
//! parameters. The result cache hashes them. The encoding is the same on every node and in every run. Each part begins
//! with its length, so that different inputs never give the same bytes.

use crate::definition::{ActivityCode, ActivityFiles, ActivityType, Capture, Direction, FileText, Launch, Variable};
use crate::value::Value;

/// First byte of every encoding; a new encoding needs a new version.
const VERSION: u8 = 2;

/// Why a value has no identity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Undecided {
    /// The value is or contains a file or directory outside the grid, whose content is not known.
    Outside(String),
    /// The value is or contains a shared object, which changes.
    Shared,
}

/// Encodes an activity type: its code, its parameters, the launch of its program, its files. The name does not count,
/// nor do settings of where, how often and how long it may run.
pub fn activity_type(activity: &ActivityType) -> Vec<u8> {
    let mut bytes = Encoder(vec![VERSION]);
    bytes.number(activity.parameters.len());
    activity.parameters.iter().for_each(|parameter| bytes.parameter(parameter));
    match &activity.code {
        ActivityCode::Lua { text, .. } => {
            bytes.text("lua");
            bytes.text(text);
        }
        ActivityCode::Command { texts, .. } => {
            bytes.text("command");
            bytes.number(texts.len());
            texts.iter().for_each(|text| bytes.text(text));
        }
        ActivityCode::Interpreter { language, text, .. } => {
            bytes.text("interpreter");
            bytes.text(language);
            bytes.text(text);
        }
    }
    bytes.launch(&activity.launch);
    bytes.files(&activity.files);
    bytes.0
}

/// Encodes the value of a parameter. A file counts with its content, its name and whether it is executable, because a
/// program can see these; its holders do not count.
pub fn value(value: &Value) -> Result<Vec<u8>, Undecided> {
    let mut bytes = Encoder(vec![VERSION]);
    bytes.value(value)?;
    Ok(bytes.0)
}

/// Appends parts to an encoding.
struct Encoder(Vec<u8>);

impl Encoder {
    fn number(&mut self, number: usize) {
        self.0.extend_from_slice(&(number as u64).to_le_bytes());
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len());
        self.0.extend_from_slice(bytes);
    }

    fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    fn optional_text(&mut self, text: Option<&str>) {
        self.0.push(text.is_some().into());
        self.text(text.unwrap_or_default());
    }

    fn parameter(&mut self, parameter: &Variable) {
        self.text(&parameter.name);
        self.optional_text(parameter.ty.map(crate::value::Type::name));
        self.0.push(match parameter.direction {
            Direction::In => 0,
            Direction::Out => 1,
            Direction::InOut => 2,
            Direction::Local => 3,
        });
        self.0.push(parameter.optional.into());
        // No default differs from a default of null. Defaults are literals, so JSON encodes them completely.
        let default = parameter.default.as_ref().map(|default| default.to_json().to_string());
        self.optional_text(default.as_deref());
    }

    fn launch(&mut self, launch: &Launch) {
        self.optional_text(launch.image.as_deref());
        self.number(launch.environment.names.len());
        launch.environment.names.iter().for_each(|name| self.text(name));
        self.optional_text(launch.environment.code.as_ref().map(|code| code.text()));
        self.number(launch.success.0.len());
        launch.success.0.iter().for_each(|range| self.0.extend([*range.start(), *range.end()]));
        self.number(launch.captures.len());
        self.0.extend(launch.captures.iter().map(|capture| match capture {
            None => 0,
            Some(Capture::Stdout) => 1,
            Some(Capture::Trimmed) => 2,
            Some(Capture::Json) => 3,
            Some(Capture::ExitStatus) => 4,
        }));
        self.0.push(launch.relaxed.into());
    }

    fn files(&mut self, files: &ActivityFiles) {
        self.number(files.inputs.len());
        for input in &files.inputs {
            self.number(input.slot as usize);
            self.file_text(&input.path);
        }
        self.number(files.outputs.len());
        for output in &files.outputs {
            self.number(output.slot as usize);
            self.file_text(&output.pattern);
            self.0.push(output.to.is_some().into());
            output.to.iter().for_each(|to| self.file_text(to));
        }
        self.optional_text(files.code.as_ref().map(|code| code.text()));
    }

    fn file_text(&mut self, text: &FileText) {
        match text {
            FileText::Plain(text) => self.optional_text(Some(text)),
            FileText::Computed(number) => {
                self.optional_text(None);
                self.number(*number);
            }
        }
    }

    // `MAX_VALUE_DEPTH` bounds the recursion.
    fn value(&mut self, value: &Value) -> Result<(), Undecided> {
        match value {
            Value::Null => self.0.push(0),
            Value::Bool(truth) => self.0.extend([1, (*truth).into()]),
            Value::Int(number) => {
                self.0.push(2);
                self.0.extend_from_slice(&number.to_le_bytes());
            }
            Value::Float(number) => {
                self.0.push(3);
                self.0.extend_from_slice(&number.to_bits().to_le_bytes());
            }
            Value::Str(text) => {
                self.0.push(4);
                self.text(text);
            }
            Value::Bytes(bytes) => {
                self.0.push(5);
                self.bytes(bytes);
            }
            Value::List(items) => {
                self.0.push(6);
                self.number(items.len());
                items.iter().try_for_each(|item| self.value(item))?;
            }
            Value::Map(map) => {
                self.0.push(7);
                self.number(map.len());
                for (key, item) in map.iter() {
                    self.text(key);
                    self.value(item)?;
                }
            }
            Value::File(file) => {
                let content = file.content.as_ref().ok_or_else(|| Undecided::Outside(file.uri.to_string()))?;
                self.0.extend([8, file.directory.into(), content.executable.into()]);
                self.text(&file.uri);
                self.0.extend_from_slice(&content.digest.0);
            }
            Value::Shared(_) => return Err(Undecided::Shared),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::diagnostic::Source;
    use crate::digest::Digest;
    use crate::load::load;
    use crate::value::{Content, FileRef, SharedKind, SharedRef};

    fn encode(attributes: &str, inner: &str) -> Vec<u8> {
        let text =
            format!(r#"<XAVANTES VERSION="1"><ACTIVITY_TYPE NAME="A" {attributes}>{inner}</ACTIVITY_TYPE></XAVANTES>"#);
        let program = load(&[Source::new("a.xml", text.as_str())]).unwrap_or_else(|problems| panic!("{problems:?}"));
        activity_type(&program.activities[0])
    }

    const PLAIN: &str = r#"<IN_PARAMETER TYPE="file" NAME="a"/><OUT_PARAMETER TYPE="file" NAME="b"/>
      <OUTPUT PARAMETER="b" PATTERN="b"/><CODE LANGUAGE="bash">cp $a b</CODE>"#;

    #[test]
    fn settings_that_cannot_change_a_result_do_not_count() {
        let plain = encode("", PLAIN);
        assert_eq!(plain, encode("CACHE=\"true\" RETRIES=\"3\" TIMEOUT=\"1m\"", PLAIN));
        let more = format!("<DESCRIPTION>words</DESCRIPTION>\n\n<REQUIRES CPUS=\"2\" MEMORY=\"1GB\"/>{PLAIN}");
        assert_eq!(plain, encode("", &more));
        let estimated = format!("<ESTIMATE SECONDS=\"2\"><SIZE PARAMETER=\"b\" BYTES=\"1\"/></ESTIMATE>{PLAIN}");
        assert_eq!(plain, encode("", &estimated));
        assert_eq!(plain, encode("", &PLAIN.replace("LANGUAGE=\"bash\"", "LANGUAGE=\"bash\" RETRY=\"75\"")));
    }

    #[test]
    fn settings_that_can_change_a_result_count() {
        let mut seen = vec![encode("", PLAIN)];
        for (before, after) in [
            ("cp $a b", "cp $a  b"),
            ("\"bash\"", "\"sh\""),
            ("\"bash\"", "\"bash\" IMAGE=\"debian:12\""),
            ("\"bash\"", "\"bash\" SUCCESS=\"0,1\""),
            ("PATTERN=\"b\"", "PATTERN=\"b*\""),
            ("PATTERN=\"b\"", "PATTERN=\"${a}b\""),
            ("NAME=\"a\"", "NAME=\"a\" OPTIONAL=\"true\""),
            ("<OUTPUT", "<INPUT PARAMETER=\"a\" PATH=\"in\"/><OUTPUT"),
            ("<OUTPUT", "<ENV NAME=\"X\" VALUE=\"1\"/><OUTPUT"),
            ("<OUTPUT", "<ENV NAME=\"X\" VALUE=\"2\"/><OUTPUT"),
            ("<OUTPUT", "<ENV NAME=\"Y\" VALUE=\"2\"/><OUTPUT"),
            ("<OUTPUT", "<IN_PARAMETER TYPE=\"int\" NAME=\"n\" DEFAULT=\"1\"/><OUTPUT"),
            ("<OUTPUT", "<IN_PARAMETER TYPE=\"int\" NAME=\"n\" DEFAULT=\"2\"/><OUTPUT"),
            ("<OUTPUT", "<OUT_PARAMETER TYPE=\"int\" NAME=\"n\" FROM=\"exit-status\"/><OUTPUT"),
            ("<OUTPUT", "<OUT_PARAMETER TYPE=\"int\" NAME=\"n\" FROM=\"stdout-json\"/><OUTPUT"),
        ] {
            let changed = PLAIN.replace(before, after);
            assert_ne!(changed, PLAIN);
            let bytes = encode("", &changed);
            assert!(!seen.contains(&bytes), "{before} → {after}");
            seen.push(bytes);
        }
    }

    #[test]
    fn different_values_have_different_bytes() {
        let file = |uri: &str, number, executable, holder: &str| {
            let content = Content { digest: Digest([number; 32]), size: 1, executable, holders: vec![holder.into()] };
            Value::File(Arc::new(FileRef { uri: uri.into(), directory: false, content: Some(content) }))
        };
        let list = |items: &[&str]| Value::from(items.iter().map(|item| Value::from(*item)).collect::<Vec<_>>());
        let different = [
            Value::Null,
            Value::Bool(false),
            Value::Int(0),
            Value::Float(0.0),
            Value::Float(-0.0),
            Value::Float(f64::NAN),
            Value::from(""),
            Value::from("0"),
            Value::Bytes(Arc::from(&b"0"[..])),
            list(&[]),
            list(&["ab", "c"]),
            list(&["a", "bc"]),
            Value::from(vec![list(&["a"]), list(&[])]),
            Value::from(vec![list(&[]), list(&["a"])]),
            Value::Map(Arc::default()),
            file("a", 1, false, "x:1"),
            file("b", 1, false, "x:1"),
            file("a", 2, false, "x:1"),
            file("a", 1, true, "x:1"),
        ];
        for (number, one) in different.iter().enumerate() {
            for other in &different[..number] {
                assert_ne!(value(one), value(other), "{one:?} {other:?}");
            }
            assert_eq!(value(one), value(&one.clone()));
        }
        assert_eq!(value(&file("a", 1, false, "x:1")), value(&file("a", 1, false, "y:1")), "holders do not count");
    }

    #[test]
    fn values_that_may_change_have_no_identity() {
        let outside = Value::File(Arc::new(FileRef::outside("source://a/b", false)));
        let inside = Value::from(vec![Value::Int(1), outside]);
        assert_eq!(value(&inside), Err(Undecided::Outside("source://a/b".into())));
        let shared = SharedRef { kind: SharedKind::Set, home: "p".into(), id: 1 };
        assert_eq!(value(&Value::Shared(shared)), Err(Undecided::Shared));
    }
}

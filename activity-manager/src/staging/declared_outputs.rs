//! Which files of a working directory become which result: as the definition declares it, or as the program names them.

use std::path::Path;

use xavantes_model::definition::OutputFile;
use xavantes_model::value::Type;
use xavantes_model::working_path::{check_pattern, parse_source_uri};
use xavantes_proto::v1;

use super::resolve_text;
use crate::attempt_failure::{AttemptFailure, failure};

/// The files that become one result.
pub(super) struct OutputRule {
    /// Matches paths in the working directory.
    pub pattern: String,
    /// A data source that also gets the files.
    pub to: Option<String>,
}

impl OutputRule {
    /// The rule that the definition declares.
    pub fn declared(output: &OutputFile, texts: &[String]) -> Result<Self, AttemptFailure> {
        let pattern = resolve_text(&output.pattern, texts);
        check_pattern(pattern)
            .map_err(|why| failure(v1::FailureKind::Parameter, format!("PATTERN: {pattern:?} {why}")))?;
        let to = output.to.as_ref().map(|to| resolve_text(to, texts).to_owned());
        Ok(Self { pattern: pattern.to_owned(), to })
    }

    /// The rule for a result that names a file or directory: a relative path, or one in the working directory.
    pub fn named(result: &v1::Value, ty: Option<Type>, directory: &Path) -> Option<Self> {
        let path = match &result.kind {
            Some(v1::value::Kind::Text(path)) => path,
            Some(v1::value::Kind::File(file)) if file.content.is_none() => &file.uri,
            _ => return None,
        };
        if !matches!(ty, Some(Type::File | Type::Directory)) || parse_source_uri(path).is_some() {
            return None;
        }
        Some(Self::literal(path, directory))
    }

    /// The rule for exactly this path.
    pub fn literal(path: &str, directory: &Path) -> Self {
        let inside = Path::new(path).strip_prefix(directory).ok().and_then(Path::to_str);
        Self { pattern: escape_pattern(inside.unwrap_or(path)), to: None }
    }

    /// True if the pattern may match several paths.
    pub fn has_wildcards(&self) -> bool {
        self.pattern.contains(['*', '?', '['])
    }
}

/// A file or directory that a list or map of a result names.
pub(super) struct NestedFile {
    /// The path as the program wrote it.
    pub path: String,
    pub ty: Type,
}

/// The files in the working directory that a list or map names.
pub(super) fn nested_files(result: &v1::Value) -> Vec<NestedFile> {
    use v1::value::Kind;
    let (mut found, mut open) = (Vec::new(), vec![result]);
    while let Some(value) = open.pop() {
        match &value.kind {
            Some(Kind::File(file)) if file.content.is_none() && parse_source_uri(&file.uri).is_none() => {
                let ty = if file.directory { Type::Directory } else { Type::File };
                found.push(NestedFile { path: file.uri.clone(), ty });
            }
            Some(Kind::List(list)) => open.extend(&list.items),
            Some(Kind::Map(map)) => open.extend(map.entries.values()),
            _ => {}
        }
    }
    found
}

/// Replaces all references to a path by the stored file.
pub(super) fn replace_nested(result: &mut v1::Value, path: &str, stored: &v1::Value) {
    use v1::value::Kind;
    let mut open = vec![result];
    while let Some(value) = open.pop() {
        if matches!(&value.kind, Some(Kind::File(file)) if file.content.is_none() && file.uri == path) {
            *value = stored.clone();
            continue;
        }
        match &mut value.kind {
            Some(Kind::List(list)) => open.extend(&mut list.items),
            Some(Kind::Map(map)) => open.extend(map.entries.values_mut()),
            _ => {}
        }
    }
}

/// A pattern that matches this path only.
fn escape_pattern(path: &str) -> String {
    match path.contains(['*', '?', '[']) {
        false => path.to_owned(),
        true => path
            .chars()
            .flat_map(|c| match c {
                '*' | '?' | '[' => vec!['[', c, ']'],
                other => vec![other],
            })
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use xavantes_model::value::Value;
    use xavantes_proto::value;

    use super::*;

    #[test]
    fn paths_that_programs_name_match_literally() {
        let pattern = |path: &str| {
            let named = value(&Value::from(path));
            OutputRule::named(&named, Some(Type::File), Path::new("/scratch/1")).map(|rule| rule.pattern)
        };
        assert_eq!(pattern("out/a").as_deref(), Some("out/a"));
        assert_eq!(pattern("/scratch/1/out/a").as_deref(), Some("out/a"));
        assert_eq!(pattern("a*b").as_deref(), Some("a[*]b"));
        assert_eq!(pattern("/etc/passwd").as_deref(), Some("/etc/passwd"));
        assert_eq!(pattern("source://a/b"), None);
        assert!(OutputRule::named(&value(&Value::Int(1)), Some(Type::File), Path::new("/")).is_none());
        assert!(OutputRule::named(&value(&Value::from("x")), Some(Type::String), Path::new("/")).is_none());
    }
}

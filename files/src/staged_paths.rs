//! The paths at which the files of a value are staged.

use std::sync::Arc;

use xavantes_model::value::{Content, Value};
use xavantes_model::working_path::check_path;

/// A file or directory to stage.
#[derive(Debug, Clone)]
pub struct StageItem {
    /// The path in the working directory.
    pub path: String,
    /// The content, by digest.
    pub content: Content,
    /// True if the content is a directory.
    pub directory: bool,
}

/// The place of a value in the working directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StageTarget {
    /// At this path.
    At(String),
    /// In this folder, under the value's own name.
    In(String),
}

/// Plans the staging of a value: appends each file that the grid stores to `items`, and returns the value with paths in place
/// of those files. Each element of a list or map gets a folder, numbered by position, because elements may have equal names.
pub fn plan_stage_in(given: &Value, target: StageTarget, items: &mut Vec<StageItem>) -> Value {
    let numbered = |base: &str, at: usize, count: usize| {
        let width = count.to_string().len();
        StageTarget::In(format!("{base}/{:0width$}", at + 1))
    };
    match given {
        Value::File(file) => {
            let Some(content) = &file.content else { return Value::Str(file.uri.clone()) };
            let path = match target {
                StageTarget::At(path) => path,
                StageTarget::In(folder) => format!("{folder}/{}", file_name(&file.uri)),
            };
            let shown = Value::from(path.as_str());
            items.push(StageItem { path, content: content.clone(), directory: file.directory });
            shown
        }
        Value::List(list) => {
            let (StageTarget::At(base) | StageTarget::In(base)) = target;
            let elements = list.iter().enumerate();
            let staged = elements.map(|(at, item)| plan_stage_in(item, numbered(&base, at, list.len()), items));
            Value::List(Arc::new(staged.collect()))
        }
        Value::Map(map) => {
            let (StageTarget::At(base) | StageTarget::In(base)) = target;
            let staged = map
                .iter()
                .enumerate()
                .map(|(at, (key, item))| (key.clone(), plan_stage_in(item, numbered(&base, at, map.len()), items)));
            Value::Map(Arc::new(staged.collect()))
        }
        other => other.clone(),
    }
}

/// The file name of a URI or path; `file` if its last part is no valid name.
pub fn file_name(uri: &str) -> &str {
    let name = uri.rsplit('/').next().unwrap_or(uri);
    if check_path(name).is_ok() { name } else { "file" }
}

#[cfg(test)]
mod tests {
    use xavantes_model::digest::Digest;
    use xavantes_model::value::FileRef;

    use super::*;

    fn file(name: &str) -> Value {
        let content = Content { digest: Digest([1; 32]), size: 1, executable: false, holders: Vec::new() };
        Value::File(Arc::new(FileRef { uri: name.into(), directory: false, content: Some(content) }))
    }

    #[test]
    fn files_are_staged_under_their_parameter() {
        let mut items = Vec::new();
        let mut plan = |value: &Value, target| plan_stage_in(value, target, &mut items);
        assert_eq!(plan(&file("a.csv"), StageTarget::In("data".into())), Value::from("data/a.csv"));
        assert_eq!(plan(&file("a.csv"), StageTarget::At("in/x".into())), Value::from("in/x"));
        assert_eq!(plan(&file("../.."), StageTarget::In("data".into())), Value::from("data/file"));
        let parts = Value::from((0..10).map(|_| file("part")).collect::<Vec<_>>());
        let Value::List(staged) = plan(&parts, StageTarget::In("parts".into())) else { panic!("a list stays a list") };
        assert_eq!((&staged[0], &staged[9]), (&Value::from("parts/01/part"), &Value::from("parts/10/part")));
        // A file that the grid does not store keeps its own path.
        let outside = Value::File(Arc::new(FileRef::outside("/data/x", false)));
        assert_eq!(plan(&outside, StageTarget::In("data".into())), Value::from("/data/x"));
        assert_eq!(items.len(), 13);
    }
}

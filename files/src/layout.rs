//! Where the files of a value are laid.

use std::sync::Arc;

use xavantes_model::path::check_path;
use xavantes_model::value::{Content, Value};

/// Something to be laid.
#[derive(Debug, Clone)]
pub struct Piece {
    /// Where.
    pub path: String,
    /// What.
    pub content: Content,
    /// A directory.
    pub directory: bool,
}

/// Where a value goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// There.
    At(String),
    /// Under its own name there.
    In(String),
}

/// The value with paths where it has files that the grid keeps, which are added to the pieces. Those of lists and maps get a
/// folder each, by position, for they may have the same names.
pub fn lay_out(given: &Value, place: Place, pieces: &mut Vec<Piece>) -> Value {
    let folder = |base: &str, at: usize, count: usize| {
        let width = count.to_string().len();
        Place::In(format!("{base}/{:0width$}", at + 1))
    };
    match given {
        Value::File(file) => {
            let Some(content) = &file.content else { return Value::Str(file.uri.clone()) };
            let path = match place {
                Place::At(path) => path,
                Place::In(folder) => format!("{folder}/{}", last_name(&file.uri)),
            };
            let shown = Value::from(path.as_str());
            pieces.push(Piece { path, content: content.clone(), directory: file.directory });
            shown
        }
        Value::List(items) => {
            let (Place::At(base) | Place::In(base)) = place;
            let laid = items.iter().enumerate().map(|(at, item)| lay_out(item, folder(&base, at, items.len()), pieces));
            Value::List(Arc::new(laid.collect()))
        }
        Value::Map(map) => {
            let (Place::At(base) | Place::In(base)) = place;
            let entries = map.iter().enumerate();
            let laid =
                entries.map(|(at, (key, item))| (key.clone(), lay_out(item, folder(&base, at, map.len()), pieces)));
            Value::Map(Arc::new(laid.collect()))
        }
        other => other.clone(),
    }
}

/// What a file is called in a folder, whatever somebody else calls it.
pub fn last_name(uri: &str) -> &str {
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
    fn files_are_laid_under_their_parameter() {
        let mut pieces = Vec::new();
        let mut lay = |value: &Value, place| lay_out(value, place, &mut pieces);
        assert_eq!(lay(&file("a.csv"), Place::In("data".into())), Value::from("data/a.csv"));
        assert_eq!(lay(&file("a.csv"), Place::At("in/x".into())), Value::from("in/x"));
        assert_eq!(lay(&file("../.."), Place::In("data".into())), Value::from("data/file"));
        let parts = Value::from((0..10).map(|_| file("part")).collect::<Vec<_>>());
        let Value::List(laid) = lay(&parts, Place::In("parts".into())) else { panic!("it was a list") };
        assert_eq!((&laid[0], &laid[9]), (&Value::from("parts/01/part"), &Value::from("parts/10/part")));
        // What the grid does not keep is where it is.
        let outside = Value::File(Arc::new(FileRef::outside("/data/x", false)));
        assert_eq!(lay(&outside, Place::In("data".into())), Value::from("/data/x"));
        assert_eq!(pieces.len(), 13);
    }
}

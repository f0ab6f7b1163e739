//! A small lineage for tests.

use std::sync::Arc;

use xavantes_model::digest::Digest;
use xavantes_model::value::{Content, FileRef, Value};

use super::lineage::{Lineage, Recipe};

/// A digest for each number.
pub(super) fn digest(number: u8) -> Digest {
    Digest([number; 32])
}

/// The file with the digest of this number.
pub(super) fn file(number: u8) -> Value {
    let content = Content { digest: digest(number), size: 1, executable: false, holders: Vec::new() };
    Value::File(Arc::new(FileRef { uri: "f".into(), directory: false, content: Some(content) }))
}

/// The recipe of an activity.
pub(super) fn recipe(path: &str, parameters: Vec<Value>) -> Arc<Recipe> {
    Arc::new(Recipe { activity: 0, parameters, path: path.into() })
}

/// Activity a made files 1 and 2; activity b made file 3 from file 1.
pub(super) fn lineage() -> Lineage {
    let mut lineage = Lineage::default();
    lineage.add(&recipe("p/a", vec![]), &[digest(1), digest(2)]);
    lineage.add(&recipe("p/b", vec![file(1)]), &[digest(3)]);
    lineage
}

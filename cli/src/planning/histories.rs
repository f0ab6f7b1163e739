//! Past runs of activity types, in ARFF files: `TYPE.arff` has those of the type TYPE.

use std::path::{Path, PathBuf};

use xavantes_foresight::Histories;
use xavantes_scheduling::predictor::{RunHistory, arff};

use super::documents::read_text;

/// Runs that a history keeps; more are merged with the most similar ones.
pub(crate) const KEPT_RUNS: usize = 10_000;

/// At most this many files of a folder are read: an activity type each.
const MAX_FILES: usize = 10_000;

/// Reads the history of one type.
pub(crate) fn read_one(file: &Path) -> Result<RunHistory, String> {
    let document = read_text(file)?;
    arff::read(&document.text, KEPT_RUNS).map_err(|error| format!("{}: {error}", document.name))
}

/// The activity type that a file is about.
pub(crate) fn type_of(file: &Path) -> String {
    file.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default()
}

/// Reads a file, or all ARFF files of a folder.
pub(crate) fn read(path: &Path) -> Result<Histories, String> {
    let mut histories = Histories::new();
    for file in files(path)? {
        histories.insert(type_of(&file), read_one(&file)?);
    }
    Ok(histories)
}

/// The file, or all ARFF files of the folder, by name.
pub(crate) fn files(path: &Path) -> Result<Vec<PathBuf>, String> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let shown = path.display();
    let cannot = |error: std::io::Error| format!("cannot read {shown}: {error}");
    let mut files = Vec::new();
    for entry in std::fs::read_dir(path).map_err(cannot)? {
        let file = entry.map_err(cannot)?.path();
        if file.extension().is_some_and(|extension| extension == "arff") {
            files.push(file);
        }
        if files.len() > MAX_FILES {
            return Err(format!("{shown} has more than {MAX_FILES} histories"));
        }
    }
    files.sort();
    match files.is_empty() {
        true => Err(format!("{shown} has no file that ends with .arff")),
        false => Ok(files),
    }
}

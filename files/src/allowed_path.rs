//! The paths and symbolic links that are allowed: those that cannot lead out of the directory they are in.

use crate::error::Error;

/// Upper bound on the length of a link target, in bytes: file systems accept paths up to about this length.
const MAX_PATH_BYTES: usize = 4000;

/// Checks that a path is relative and stays inside its directory.
pub fn check_path(path: &str) -> Result<(), Error> {
    xavantes_model::working_path::check_path(path).map_err(|why| Error::path(path, why))
}

/// Checks that a symbolic link at `path` points to something in the same tree. A target may first go up, no further than
/// the root, and then down. It may not go up again after that: the directory it goes through may itself be a link.
pub(crate) fn check_link(path: &str, target: &str) -> Result<(), Error> {
    let wrong = |why: &str| Err(Error::path(path, format!("is a symbolic link to {target:?}, {why}")));
    if target.is_empty() || target.contains('\0') || target.len() > MAX_PATH_BYTES {
        return wrong("which is not a valid path");
    }
    if target.starts_with('/') {
        return wrong("an absolute path: only links that stay inside are allowed");
    }
    let mut depth = path.split('/').count() - 1;
    let mut descended = false;
    for name in target.split('/') {
        match name {
            "" | "." => {}
            ".." if descended || depth == 0 => return wrong("which leads outside"),
            ".." => depth -= 1,
            _ => descended = true,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_must_stay_inside() {
        for (path, target) in [("a", "b"), ("d/a", "../b"), ("d/e/a", "../../x/y"), ("a", "./b/"), ("d/a", ".")] {
            assert!(check_link(path, target).is_ok(), "{path} -> {target}");
        }
        let bad =
            [("a", "/etc/passwd"), ("a", ".."), ("d/a", "../../b"), ("d/a", "x/../../b"), ("a", ""), ("a", "b/..")];
        for (path, target) in bad {
            assert!(check_link(path, target).is_err(), "{path} -> {target}");
        }
    }
}

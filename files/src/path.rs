//! Which paths and links may be used: those that stay where they are, whatever is there.

use crate::Error;

/// Whether a path can be used.
pub fn check_path(path: &str) -> Result<(), Error> {
    xavantes_model::path::check_path(path).map_err(|why| Error::path(path, why))
}

/// The longest path that file systems take.
const LONGEST_PATH: usize = 4000;

/// Whether a symbolic link at `path` may point to `target`: to something in the same tree. First it goes up, no further than
/// the root, then down; up again after that could lead anywhere, for what it goes through may be a link itself.
pub(crate) fn check_link(path: &str, target: &str) -> Result<(), Error> {
    let wrong = |why: &str| Err(Error::path(path, format!("is a symbolic link to {target:?}, {why}")));
    if target.is_empty() || target.contains('\0') || target.len() > LONGEST_PATH {
        return wrong("which is no path");
    }
    if target.starts_with('/') {
        return wrong("an absolute path: only links that stay inside are allowed");
    }
    let mut room = path.split('/').count() - 1;
    let mut down = false;
    for name in target.split('/') {
        match name {
            "" | "." => {}
            ".." if down || room == 0 => return wrong("which leads outside"),
            ".." => room -= 1,
            _ => down = true,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_stay_inside_too() {
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

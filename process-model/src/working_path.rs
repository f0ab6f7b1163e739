//! Paths in a working directory: relative ones that cannot lead out of it.

/// Upper bound on the bytes of one name; file systems accept no more.
const MAX_NAME: usize = 255;
/// Upper bound on the bytes of a path; systems accept 4096, and the working directory needs some of them.
const MAX_PATH: usize = 4000;

/// Checks that a path is relative, without `.`, `..` and empty names. All characters but NUL are allowed, also line
/// breaks. The error is the predicate of a sentence whose subject is the path.
pub fn check_path(path: &str) -> Result<(), &'static str> {
    if path.is_empty() {
        return Err("is empty");
    }
    if path.len() > MAX_PATH {
        return Err("is too long for a path");
    }
    if path.starts_with('/') {
        return Err("is absolute: only paths inside the working directory are allowed");
    }
    for name in path.split('/') {
        match name {
            "" => return Err("has an empty name in it"),
            "." => return Err("has a \".\" in it"),
            ".." => return Err("leads out of the directory with \"..\""),
            name if name.len() > MAX_NAME => return Err("has a name that is too long"),
            name if name.contains('\0') => return Err("has a NUL character in it"),
            _ => {}
        }
    }
    Ok(())
}

/// Checks a pattern in the same way. `*`, `?` and `[…]` match characters of a name, `**` matches any number of names.
pub fn check_pattern(pattern: &str) -> Result<(), &'static str> {
    check_path(pattern)?;
    if pattern.split('/').any(|name| name.contains("**") && name != "**") {
        return Err("has a \"**\" that is not a whole name");
    }
    let mut rest = pattern;
    while let Some((_, after)) = rest.split_once('[') {
        // A closing bracket may be the first member of the brackets.
        let (_, tail) = after.char_indices().nth(1).map_or((after, ""), |(at, _)| after.split_at(at));
        rest = tail.split_once(']').ok_or("has a \"[\" without its \"]\"")?.1;
    }
    Ok(())
}

/// Splits `source://name/path` into the name of the data source and the path in it. Returns `None` for other texts.
pub fn parse_source_uri(uri: &str) -> Option<(&str, &str)> {
    uri.strip_prefix("source://")?.split_once('/')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_paths_that_stay_inside_are_accepted() {
        for good in ["a", "a/b", "a b/ü\n", "...", ".hidden", "-x", "a\\b"] {
            assert_eq!(check_path(good), Ok(()), "{good:?}");
        }
        let long = "x".repeat(256);
        let longer = "x/".repeat(3000);
        for bad in ["", "/", "/etc/passwd", "..", "../x", "a/../b", "a//b", "a/", ".", "a/./b", "a\0", &long, &longer] {
            assert!(check_path(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn patterns_are_paths_with_wildcards() {
        for good in ["a", "*.csv", "**/x?", "out/**", "[ab]/[!c].txt", "[]]", "a[*]b"] {
            assert_eq!(check_pattern(good), Ok(()), "{good}");
        }
        for bad in ["", "../*", "/*", "a**", "**b/c", "[ab", "[", "[]", "x[a]["] {
            assert!(check_pattern(bad).is_err(), "{bad}");
        }
        assert_eq!(parse_source_uri("source://a/b/c"), Some(("a", "b/c")));
        assert_eq!((parse_source_uri("source://a"), parse_source_uri("a/b")), (None, None));
    }
}

//! Counts and branches that a user expects of elements whose own numbers are not known before the process runs.

use std::cell::RefCell;
use std::collections::BTreeSet;

use thiserror::Error;

/// What is expected of elements: `search/refine=3` iterations, `test=large`, a case.
///
/// Paths are those of elements without the id of the process. An iteration may be left out: then the expectation is for
/// all iterations.
#[derive(Debug, Clone, Default)]
pub struct Expectations {
    all: Vec<Expectation>,
    used: RefCell<BTreeSet<usize>>,
}

#[derive(Debug, Clone)]
struct Expectation {
    path: Vec<String>,
    value: String,
    text: String,
}

/// Why a text is no expectation.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ExpectationError {
    /// There is no path or no value.
    #[error("expected PATH=COUNT or PATH=CASE, not {0:?}")]
    Form(String),
    /// A loop needs a count.
    #[error("{path}: a loop runs a whole number of iterations, not {value:?}")]
    Count {
        /// The path of the loop.
        path: String,
        /// What was expected of it.
        value: String,
    },
    /// A switch has no such case.
    #[error("{path} has no case {value:?}; it has {cases}")]
    Case {
        /// The path of the switch.
        path: String,
        /// What was expected of it.
        value: String,
        /// Its cases.
        cases: String,
    },
}

impl Expectations {
    /// Reads expectations, each of the form `PATH=VALUE`.
    pub fn parse<T: AsRef<str>>(texts: &[T]) -> Result<Self, ExpectationError> {
        let parse = |text: &T| {
            let text = text.as_ref();
            let (path, value) = text.rsplit_once('=').ok_or_else(|| ExpectationError::Form(text.to_owned()))?;
            let path: Vec<String> = path.split('/').map(|name| name.trim().to_owned()).collect();
            if path.iter().any(String::is_empty) || value.trim().is_empty() {
                return Err(ExpectationError::Form(text.to_owned()));
            }
            Ok(Expectation { path, value: value.trim().to_owned(), text: text.to_owned() })
        };
        Ok(Self { all: texts.iter().map(parse).collect::<Result<_, _>>()?, used: RefCell::default() })
    }

    /// What is expected of the element at this path. Of several expectations the last one counts.
    pub(crate) fn of(&self, path: &[String]) -> Option<&str> {
        let (index, found) =
            self.all.iter().enumerate().rev().find(|(_, expectation)| matches(&expectation.path, path))?;
        self.used.borrow_mut().insert(index);
        Some(&found.value)
    }

    /// Expectations that no element met, as they were written.
    pub fn unused(&self) -> Vec<&str> {
        let used = self.used.borrow();
        let unused = self.all.iter().enumerate().filter(|(index, _)| !used.contains(index));
        unused.map(|(_, expectation)| expectation.text.as_str()).collect()
    }
}

/// Whether a pattern describes a path: iterations of the path may be missing in the pattern.
fn matches(pattern: &[String], path: &[String]) -> bool {
    let mut wanted = pattern.iter().peekable();
    for name in path {
        if wanted.peek() == Some(&name) {
            wanted.next();
        } else if !name.starts_with('[') {
            return false;
        }
    }
    wanted.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> Vec<String> {
        text.split('/').map(str::to_owned).collect()
    }

    #[test]
    fn an_expectation_without_an_iteration_is_for_all_of_them() {
        let expected = Expectations::parse(&["a/b=3", "a/[2]/b=5", "c=large"]).unwrap();
        assert_eq!(expected.of(&path("a/[1]/b")), Some("3"));
        assert_eq!(expected.of(&path("a/[2]/b")), Some("5"));
        assert_eq!(expected.of(&path("a/x/b")), None);
        assert_eq!(expected.of(&path("a")), None);
        assert_eq!(expected.unused(), ["c=large"]);
    }

    #[test]
    fn a_text_without_path_or_value_is_refused() {
        for text in ["a", "=3", "a=", "a//b=3"] {
            assert_eq!(Expectations::parse(&[text]).unwrap_err(), ExpectationError::Form(text.into()));
        }
    }
}

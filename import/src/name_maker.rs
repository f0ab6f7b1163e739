//! Names that the language allows: every original name gets one, different ones get different ones, and a name that is
//! allowed already stays as it is.

use std::collections::{HashMap, HashSet};

/// Longest name that this module makes; the language allows 128 bytes.
const MAX_MADE: usize = 100;

/// Words that cannot name an element: keywords of Lua, parts of controllers, and what every controller calls something.
const RESERVED: [&str; 35] = [
    "and",
    "break",
    "continue",
    "do",
    "else",
    "elseif",
    "end",
    "false",
    "for",
    "function",
    "goto",
    "if",
    "in",
    "local",
    "nil",
    "not",
    "or",
    "repeat",
    "return",
    "then",
    "true",
    "until",
    "while",
    "catch",
    "finally",
    "default",
    "completed",
    "failed",
    "cancelled",
    "running",
    "results",
    "counter",
    "item",
    "error",
    "scale",
];

/// Which characters a name may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Alphabet {
    /// Names of elements and parameters.
    Code,
    /// Names of types, which may also have `.` and `-`.
    Type,
}

impl Alphabet {
    fn allows(self, c: char) -> bool {
        c.is_ascii_alphanumeric() || c == '_' || (self == Alphabet::Type && matches!(c, '.' | '-'))
    }

    fn is_name(self, text: &str) -> bool {
        let begins = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        begins
            && text.len() <= 128
            && !text.starts_with("_xv")
            && text.chars().all(|c| self.allows(c))
            && !RESERVED.contains(&text)
    }
}

/// Gives out names, each once.
pub(crate) struct NameMaker {
    alphabet: Alphabet,
    taken: HashSet<String>,
    /// For each beginning: the last number that was tried behind it.
    numbers: HashMap<String, usize>,
}

impl NameMaker {
    pub fn new(alphabet: Alphabet) -> Self {
        Self { alphabet, taken: HashSet::new(), numbers: HashMap::new() }
    }

    /// Returns a name for each original, in order. Originals that are names already keep them, wherever they stand.
    pub fn all<'a>(&mut self, originals: impl Iterator<Item = &'a str> + Clone) -> Vec<String> {
        let kept: HashSet<&str> = originals.clone().filter(|original| self.alphabet.is_name(original)).collect();
        let kept: HashSet<&str> =
            kept.into_iter().filter(|original| self.taken.insert((*original).to_owned())).collect();
        originals
            .map(|original| if kept.contains(original) { original.to_owned() } else { self.make(original) })
            .collect()
    }

    /// Makes a name that resembles `original` and was not given out before.
    pub fn make(&mut self, original: &str) -> String {
        if self.alphabet.is_name(original) && self.taken.insert(original.to_owned()) {
            return original.to_owned();
        }
        let mut base: String =
            original.chars().take(MAX_MADE).map(|c| if self.alphabet.allows(c) { c } else { '_' }).collect();
        if !self.alphabet.is_name(&base) {
            base = format!("t_{base}");
        }
        let number = self.numbers.entry(base.clone()).or_insert(0);
        loop {
            *number += 1;
            let name = if *number == 1 { base.clone() } else { format!("{base}_{number}") };
            if self.taken.insert(name.clone()) {
                return name;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_allowed_stay_and_others_never_take_them() {
        let originals = ["a.b", "a_b", "a-b", "end", "1x", "", "t_end", "é", "_xv1", "catch"];
        let names = NameMaker::new(Alphabet::Code).all(originals.iter().copied());
        assert_eq!(names[1], "a_b");
        assert_eq!(names[6], "t_end");
        let distinct: HashSet<&String> = names.iter().collect();
        assert_eq!(distinct.len(), originals.len(), "{names:?}");
        assert!(names.iter().all(|name| Alphabet::Code.is_name(name)), "{names:?}");
    }

    #[test]
    fn types_may_have_dots_and_long_names_are_cut() {
        let mut names = NameMaker::new(Alphabet::Type);
        assert_eq!(names.make("NFCORE.FASTQC-2"), "NFCORE.FASTQC-2");
        let long = "x".repeat(300);
        let (one, other) = (names.make(&long), names.make(&long));
        assert!(one != other && one.len() <= 128 && other.len() <= 128);
    }
}

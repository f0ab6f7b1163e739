//! Languages in which parameters are variables of the code: their names in definitions, and the names that they refuse.

use Language::{Bash, Julia, Node, Perl, Python, R, Ruby, Sh};

/// A language whose interpreter gets parameters as variables and gives results as variables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // The names say it.
pub enum Language {
    Bash,
    Julia,
    Node,
    Perl,
    Python,
    R,
    Ruby,
    Sh,
}

const PYTHON: &str = "False None True and as assert async await break class continue def del elif else except finally \
    for from global if import in is lambda nonlocal not or pass raise return try while with yield";
const NODE: &str = "arguments await break case catch class const continue debugger default delete do else enum eval \
    export extends false finally for function if implements import in instanceof interface let new null package \
    private protected public return static super switch this throw true try typeof undefined var void while with yield";
const R_WORDS: &str = "FALSE Inf NA NA_character_ NA_complex_ NA_integer_ NA_real_ NULL NaN TRUE break else for \
    function if in next repeat while";
const RUBY: &str = "__ENCODING__ __FILE__ __LINE__ alias and begin break case class def defined do else elsif end \
    ensure false for if in module next nil not or redo rescue retry return self super then true undef unless until \
    when while yield";
const JULIA: &str = "Base Core Main XavantesPrelude ans baremodule begin break catch const continue do else elseif end \
    export false finally for function global if import let local macro module quote return struct true try using while";
const PERL: &str = "ARGV ARGVOUT ENV INC STDERR STDIN STDOUT _";
const SHELL: &str = "BASHOPTS BASHPID COLUMNS DIRSTACK EPOCHREALTIME EPOCHSECONDS EUID FUNCNAME GROUPS HOME IFS LANG \
    LINENO LINES OLDPWD OPTARG OPTIND PATH PIPESTATUS POSIXLY_CORRECT PPID PS1 PS2 PS4 PWD RANDOM REPLY SECONDS \
    SHELLOPTS SHLVL SRANDOM TMPDIR UID _";

impl Language {
    /// All languages with their names in definitions.
    pub const ALL: [(&'static str, Language); 8] = [
        ("bash", Bash),
        ("sh", Sh),
        ("python", Python),
        ("R", R),
        ("perl", Perl),
        ("node", Node),
        ("ruby", Ruby),
        ("julia", Julia),
    ];

    /// Returns the language called `name`.
    pub fn from_name(name: &str) -> Option<Language> {
        Self::ALL.iter().find(|(known, _)| *known == name).map(|(_, language)| *language)
    }

    /// Returns the name in definitions.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, language)| *language == self).map_or("?", |(name, _)| name)
    }

    /// True for shells, which can be strict.
    pub fn is_shell(self) -> bool {
        matches!(self, Bash | Sh)
    }

    /// Says why a variable of the language cannot have this name, which Lua accepts.
    pub fn refuses(self, name: &str) -> Option<String> {
        let among = |words: &str| words.split_ascii_whitespace().any(|word| word == name);
        let reserved = || Some(format!("{name:?} is a reserved word of {}", self.name()));
        let own = || Some(format!("{name:?} is a variable of {} itself", self.name()));
        match self {
            Python if among(PYTHON) => reserved(),
            Node if among(NODE) => reserved(),
            R if among(R_WORDS) => reserved(),
            R if name.starts_with('_') => Some(format!("{name:?} begins with _, which R does not allow")),
            Ruby if among(RUBY) => reserved(),
            Ruby if name.starts_with(|c: char| c.is_ascii_uppercase()) => {
                Some(format!("{name:?} begins with a capital letter, which makes it a constant of ruby"))
            }
            Julia if among(JULIA) || name.bytes().all(|byte| byte == b'_') => reserved(),
            Perl if among(PERL) => own(),
            Bash | Sh if among(SHELL) || name.starts_with("BASH_") || name.starts_with("XAVANTES_") => own(),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_language_refuses_its_own_words() {
        for (language, word) in [
            ("python", "lambda"),
            ("node", "class"),
            ("R", "next"),
            ("R", "_a"),
            ("ruby", "N"),
            ("ruby", "rescue"),
            ("julia", "struct"),
            ("perl", "ENV"),
            ("bash", "PATH"),
            ("sh", "XAVANTES_NODE"),
        ] {
            let known = Language::from_name(language).expect("it is known");
            assert_eq!(known.name(), language);
            assert!(known.refuses(word).is_some(), "{language} {word}");
            assert!(known.refuses("n").is_none() && known.refuses("count_2").is_none(), "{language}");
        }
        assert!(Language::from_name("lisp").is_none());
    }
}

//! Interpreters: which program runs code of which language.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use xavantes_model::definition::Language;

/// The names of the interpreters of a language, in order of preference.
fn programs(language: Language) -> &'static [&'static str] {
    match language {
        Language::Bash => &["bash"],
        Language::Sh => &["sh"],
        Language::Python => &["python3", "python"],
        Language::R => &["Rscript"],
        Language::Perl => &["perl"],
        Language::Node => &["node", "nodejs"],
        Language::Ruby => &["ruby"],
        Language::Julia => &["julia"],
    }
}

/// Commands of interpreters by language. The path of the script follows the command.
#[derive(Debug, Clone, Default)]
pub(crate) struct Interpreters(BTreeMap<String, Vec<String>>);

impl Interpreters {
    /// Searches the folders of `path` for known interpreters, and adds the commands that the administrator gives. An empty
    /// command withdraws a language.
    pub fn find(path: &OsStr, named: &BTreeMap<String, Vec<String>>) -> Self {
        let mut found = BTreeMap::new();
        for (name, language) in Language::ALL {
            let mut programs = programs(language).iter();
            let program = programs.find_map(|program| search(path, program)?.into_os_string().into_string().ok());
            if let Some(program) = program {
                found.insert(name.to_owned(), vec![program]);
            }
        }
        found.extend(named.clone());
        found.retain(|_, command| !command.is_empty());
        Self(found)
    }

    /// The command of the interpreter for a language.
    pub fn command(&self, language: &str) -> Option<&[String]> {
        self.0.get(language).map(Vec::as_slice)
    }

    /// The languages, sorted.
    pub fn languages(&self) -> Vec<String> {
        self.0.keys().cloned().collect()
    }
}

/// The usual name of an interpreter, for images, which have interpreters of their own.
pub(crate) fn usual_interpreter(language: &str) -> &str {
    Language::from_name(language).map_or(language, |known| programs(known)[0])
}

/// Searches a program in the folders of `path`, as a shell does.
pub(crate) fn search(path: &OsStr, program: impl AsRef<OsStr>) -> Option<PathBuf> {
    let program = program.as_ref();
    if program.as_encoded_bytes().contains(&b'/') {
        return Some(program.into());
    }
    let runs = |file: &PathBuf| {
        std::fs::metadata(file).is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
    };
    std::env::split_paths(path).filter(|folder| folder.is_absolute()).map(|folder| folder.join(program)).find(runs)
}

/// The folders in which programs are searched.
pub(crate) fn default_path() -> OsString {
    std::env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interpreters_are_found_configured_and_withdrawn() {
        let path = default_path();
        let named = BTreeMap::from([
            ("python".to_owned(), vec!["/opt/python".to_owned(), "-u".to_owned()]),
            ("sh".to_owned(), Vec::new()),
            ("lisp".to_owned(), vec!["sbcl".to_owned(), "--script".to_owned()]),
        ]);
        let interpreters = Interpreters::find(&path, &named);
        assert_eq!(interpreters.command("python"), Some(&["/opt/python".to_owned(), "-u".to_owned()][..]));
        assert_eq!(interpreters.command("sh"), None);
        assert!(interpreters.languages().contains(&"lisp".to_owned()));
        let all = Interpreters::find(&path, &BTreeMap::new());
        assert!(all.command("sh").is_some_and(|command| command[0].starts_with('/')));
        assert!(Interpreters::find(OsStr::new("/nowhere"), &BTreeMap::new()).languages().is_empty());
        assert_eq!(
            (usual_interpreter("python"), usual_interpreter("R"), usual_interpreter("lisp")),
            ("python3", "Rscript", "lisp")
        );
    }

    #[test]
    fn programs_are_searched_like_a_shell_does() {
        let path = default_path();
        assert!(search(&path, "sh").is_some_and(|found| found.is_absolute()));
        assert_eq!(search(&path, "there-is-no-such-program"), None);
        assert_eq!(search(&path, "./here"), Some("./here".into()));
        assert_eq!(search(&path, ""), None);
        assert_eq!(search(&path, ".."), None);
    }
}

//! The rules of the house that a machine can check: files are short, modules of a crate do not import in circles, and the
//! name of a type or a file means one thing in all crates.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
/// A longer file is about two things, or says at its top why it is long.
const MAX_LINES: usize = 500;
/// The words with which the top of a longer file begins its reason.
const REASON: &str = "One file, because";

/// Folders that do one thing to many things, and name each file after the thing: the command `list`, its report and its
/// text have one name.
const FOLDERS_BY_SUBJECT: [&str; 9] = [
    "cli/src/commands",
    "cli/src/output/text",
    "cli/src/report",
    "engine/src/apply",
    "engine/src/decide",
    "fuzz/src",
    "node/src/roles",
    "process-coordinator/src/rpc",
    "process-model/src/load",
];

/// The common shape of crates and components, in files.
const COMMON_FILES: [&str; 9] =
    ["error.rs", "errors.rs", "fuzzing.rs", "lib.rs", "main.rs", "mod.rs", "options.rs", "service.rs", "tests.rs"];

/// The common shape of a component: each service has its options, its service and its errors. They are written with the
/// name of the crate or module before them.
const COMPONENT_SHAPE: [&str; 3] = ["Error", "Options", "Service"];

/// Every folder with sources of a crate, by the name of the crate.
fn crates() -> BTreeMap<String, PathBuf> {
    let folders = ["", "process-coordinator/", "tests/"].map(|folder| Path::new(ROOT).join(folder));
    let inside = folders.iter().flat_map(|folder| fs::read_dir(folder).expect("the repository is readable"));
    let inside = inside.map(|entry| entry.expect("the repository is readable").path());
    let with_sources = inside.filter(|path| path.join("Cargo.toml").is_file() && path.join("src").is_dir());
    with_sources.map(|path| (path.file_name().unwrap_or_default().to_string_lossy().into(), path.join("src"))).collect()
}

/// All Rust files below a folder.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("the repository is readable") {
        let path = entry.expect("the repository is readable").path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The path of the module that a file is, from the crate's root on.
fn module(folder: &Path, file: &Path) -> Vec<String> {
    let inner = file.strip_prefix(folder).unwrap_or(file).with_extension("");
    let mut names: Vec<String> = inner.iter().map(|name| name.to_string_lossy().into_owned()).collect();
    if names.last().is_some_and(|last| ["mod", "lib", "main"].contains(&last.as_str())) {
        names.pop();
    }
    names
}

/// The text without comments and without the tests at its end.
fn code(text: &str) -> String {
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    text.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

/// The single paths of a use tree: `a::{b, c::d}` has `a::b` and `a::c::d`.
fn expand(tree: &str) -> Vec<String> {
    let Some((prefix, group)) = tree.split_once('{') else {
        return vec![tree.split(" as ").next().unwrap_or_default().trim().to_owned()];
    };
    let group = group.trim_end().strip_suffix('}').unwrap_or(group);
    let (mut depth, mut parts) = (0, vec![String::new()]);
    for character in group.chars() {
        match character {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(String::new());
                continue;
            }
            _ => {}
        }
        parts.last_mut().expect("there is one").push(character);
    }
    let parts = parts.iter().map(|part| part.trim()).filter(|part| !part.is_empty());
    parts.flat_map(|part| expand(&format!("{}{part}", prefix.trim()))).collect()
}

/// Paths that the code of a module uses, and those that it exports again under its own name.
fn paths(code: &str) -> (Vec<String>, Vec<String>) {
    let (mut used, mut exported) = (Vec::new(), Vec::new());
    for statement in code.split(';') {
        let statement = statement.trim();
        let start = statement.rfind("use ").filter(|at| {
            let before = statement[..*at].trim_end();
            before.is_empty() || before.ends_with(['}', ']', ')']) || before.ends_with("pub") || before.ends_with('\n')
        });
        let Some(start) = start else { continue };
        let paths = expand(&statement[start + 4..]);
        match statement[..start].trim_end().ends_with(['b', ')']) {
            true => exported.extend(paths),
            false => used.extend(paths),
        }
    }
    for prefix in ["crate::", "super::"] {
        // `pub(in crate::…)` names a scope, not an import.
        for (at, _) in code.match_indices(prefix).filter(|(at, _)| !code[..*at].ends_with("(in ")) {
            let path = code[at..].split(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':')).next();
            used.extend(path.filter(|path| !path.ends_with("::")).map(str::to_owned));
        }
    }
    (used, exported)
}

/// For each module, the modules that it imports from.
type Edges<'a> = BTreeMap<&'a Vec<String>, BTreeSet<&'a Vec<String>>>;

/// All modules that the imports of a module lead to.
fn reach<'a>(edges: &Edges<'a>, from: &'a Vec<String>) -> BTreeSet<&'a Vec<String>> {
    let (mut seen, mut open) = (BTreeSet::new(), vec![from]);
    while let Some(at) = open.pop() {
        open.extend(edges.get(at).into_iter().flatten().filter(|next| seen.insert(**next)).copied());
    }
    seen
}

/// Imports between the modules of a crate.
struct Imports {
    modules: BTreeMap<Vec<String>, (Vec<String>, Vec<String>)>,
}

impl Imports {
    fn of(folder: &Path) -> Self {
        let files = sources(folder).into_iter().filter(|file| file.file_stem().is_some_and(|stem| stem != "tests"));
        Self { modules: files.map(|file| (module(folder, &file), paths(&code(&read(&file))))).collect() }
    }

    /// The path from the crate's root on, if it leads into the crate.
    fn absolute(&self, from: &[String], path: &str) -> Option<Vec<String>> {
        let mut names = path.split("::").peekable();
        let mut at: Vec<String> = match *names.peek()? {
            "crate" => Vec::new(),
            "self" | "super" => from.to_vec(),
            first if self.modules.contains_key(&[from, &[first.to_owned()]].concat()) => from.to_vec(),
            _ => return None,
        };
        for name in names {
            match name {
                "crate" | "self" => {}
                "super" => drop(at.pop()),
                name => at.push(name.to_owned()),
            }
        }
        Some(at)
    }

    /// The module in which the item at a path is defined.
    fn target(&self, path: &[String], depth: usize) -> Option<&Vec<String>> {
        let (module, (_, exported)) =
            (0..=path.len()).rev().find_map(|length| self.modules.get_key_value(&path[..length]))?;
        let item = path.get(module.len());
        let again =
            exported.iter().find(|exported| item.is_some_and(|item| exported.rsplit("::").next() == Some(item)));
        match again.and_then(|again| self.absolute(module, again)) {
            Some(inner) if depth < 8 => self.target(&inner, depth + 1),
            _ => Some(module),
        }
    }

    fn edges(&self) -> Edges<'_> {
        let targets = |module: &Vec<String>, used: &[String]| {
            let absolute = used.iter().filter_map(|path| self.absolute(module, path));
            absolute.filter_map(|path| self.target(&path, 0)).collect::<BTreeSet<_>>()
        };
        let all = self.modules.iter().map(|(module, (used, _))| (module, targets(module, used)));
        all.map(|(module, targets)| (module, targets.into_iter().filter(|target| *target != module).collect()))
            .collect()
    }

    /// Modules that lead back to themselves, each with the next one on the way.
    fn cycles(&self) -> Vec<String> {
        let edges = self.edges();
        let reached: BTreeMap<_, _> = edges.keys().map(|module| (*module, reach(&edges, module))).collect();
        let on_cycle = edges.iter().flat_map(|(module, targets)| targets.iter().map(move |target| (*module, *target)));
        let on_cycle = on_cycle.filter(|(module, target)| reached[*target].contains(*module));
        on_cycle.map(|(module, target)| format!("{} → {}", module.join("::"), target.join("::"))).collect()
    }
}

#[test]
fn modules_of_a_crate_do_not_import_in_circles() {
    let mut wrong = Vec::new();
    for (name, folder) in crates() {
        wrong.extend(Imports::of(&folder).cycles().into_iter().map(|edge| format!("{name}: {edge}")));
    }
    assert!(wrong.is_empty(), "these imports are parts of circles:\n{}", wrong.join("\n"));
}

#[test]
fn long_files_say_why_they_are_long() {
    let files = crates().into_values().flat_map(|folder| sources(&folder));
    let long = files.filter_map(|file| {
        let text = read(&file);
        let lines = text.lines().count();
        let top: String = text.lines().take_while(|line| line.starts_with("//!")).collect();
        (lines > MAX_LINES && !top.contains(REASON)).then(|| format!("{lines} {}", file.display()))
    });
    let long: Vec<String> = long.collect();
    assert!(long.is_empty(), "split these, or say at the top \"{REASON} …\":\n{}", long.join("\n"));
}

/// The names of the types that a text defines.
fn defined_types(text: &str) -> Vec<String> {
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let defined = text.lines().map(words).filter_map(|words| {
        let at = words.iter().position(|word| ["struct", "enum", "trait"].contains(&word.as_str()))?;
        let is_item = words[..at].iter().all(|word| word.starts_with("pub"));
        let name = words.get(at + 1)?.split(|c: char| !c.is_alphanumeric()).next()?;
        (is_item && name.starts_with(char::is_uppercase)).then(|| name.to_owned())
    });
    defined.collect()
}

#[test]
fn a_type_name_means_one_thing_in_all_crates() {
    let mut places: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (name, folder) in crates() {
        for file in sources(&folder) {
            for defined in defined_types(&code(&read(&file))) {
                places.entry(defined).or_default().insert(name.clone());
            }
        }
    }
    assert!(places.contains_key("Pool") && places.contains_key("Problem"), "the crates are not found");
    places.retain(|name, crates| crates.len() > 1 && !COMPONENT_SHAPE.contains(&name.as_str()));
    assert!(places.is_empty(), "these names are defined in several crates: {places:#?}");
    assert_eq!(defined_types("pub(crate) struct Pool<T> {\n    enum_: u8,\nenum Kind {"), ["Pool", "Kind"]);
}

#[test]
fn a_file_name_means_one_thing_in_all_crates() {
    let mut places: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (name, folder) in crates().into_iter().filter(|(name, _)| name != "tests" && name != "hostile") {
        for file in sources(&folder) {
            let place = file.strip_prefix(&folder).map(|inner| Path::new(&name).join("src").join(inner));
            let place = place.expect("it is inside");
            let named = place.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let by_subject = FOLDERS_BY_SUBJECT.iter().any(|folder| place.starts_with(folder));
            let is_test = place.iter().any(|part| part == "tests");
            if !by_subject && !is_test && !COMMON_FILES.contains(&named.as_str()) {
                places.entry(named).or_default().insert(name.clone());
            }
        }
    }
    places.retain(|_, crates| crates.len() > 1);
    assert!(places.is_empty(), "these files have one name in several crates: {places:#?}");
}

#[test]
fn the_architecture_page_names_places_that_exist() {
    let page = read(&Path::new(ROOT).join("ARCHITECTURE.md"));
    let files: Vec<String> = crates()
        .into_values()
        .flat_map(|folder| sources(&folder))
        .map(|file| file.with_extension("").to_string_lossy().into_owned())
        .collect();
    let is_place = |name: &&str| {
        name.trim_end_matches('/').contains('/') && name.chars().all(|c| c.is_ascii_lowercase() || "/-_.".contains(c))
    };
    let exists = |name: &str| {
        let module = format!("/{}", name.trim_end_matches(".rs"));
        Path::new(ROOT).join(name).exists() || files.iter().any(|file| file.ends_with(&module))
    };
    let quoted = page.split('`').skip(1).step_by(2).filter(is_place);
    let missing: Vec<&str> = quoted.filter(|name| !exists(name)).collect();
    assert!(missing.is_empty(), "ARCHITECTURE.md names places that do not exist: {missing:?}");
}

#[test]
fn circles_are_found() {
    let modules =
        [("a", "use crate::b::Thing;"), ("b", "pub use inner::Thing;"), ("b/inner", "use super::super::a::Other;")];
    let modules = modules.map(|(path, text)| (path.split('/').map(str::to_owned).collect(), paths(text)));
    let imports = Imports { modules: modules.into_iter().collect() };
    assert_eq!(imports.cycles(), ["a → b::inner", "b::inner → a"]);
    assert_eq!(expand("a::{b, c::{d, e as f}}"), ["a::b", "a::c::d", "a::c::e"]);
}

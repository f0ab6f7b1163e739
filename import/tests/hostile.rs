//! Damaged and hostile workflows: an importer answers with an error or with a process that is valid, and never panics.

use proptest::prelude::*;
use xavantes_import::{Options, SourceFormat, StandIn, import};
use xavantes_model::diagnostic::Source;
use xavantes_model::load::load;

const DAX: &str = r#"<adag><job id="a.b" name="x" runtime="1.5"><uses file="f&lt;" link="output" size="7"/></job>
<job id="end" name="x y" runtime="2"><uses file="f&lt;" link="input" size="7"/><uses file="${g}" link="input" size="1e3"/></job>
<job id="c"/><child ref="end"><parent ref="a.b"/></child><child ref="c"><parent ref="a.b"/></child></adag>"#;
const WFFORMAT: &str = r#"{"workflow": {"specification": {"tasks": [
{"name": "n_ID01", "id": "1", "parents": [], "children": ["2", "3"], "inputFiles": ["i"], "outputFiles": ["o", "p"]},
{"name": "n_ID02", "id": "2", "parents": ["1"], "children": [], "inputFiles": ["o"]},
{"name": "m", "id": "3", "parents": ["1"], "children": [], "inputFiles": ["p"]}], "files": [{"id": "o", "sizeInBytes": 5}]},
"execution": {"tasks": [{"id": "1", "runtimeInSeconds": 3.25}]}}}"#;
const SWEEPER: &str = "workflow:\n- name: a b\n  command: |\n    echo @p $@p ${x} <&>\n  param_grid:\n    p: [1, '${y}', '\"']\n  \
include_files: ['in/@p', /abs/x]\n- name: end\n  command: cat *\n  depends: [a b]\n  download_files: ['o[a]*', q]\n";

fn options() -> impl Strategy<Value = Options> {
    let stand_ins = prop_oneof![Just(StandIn::None), Just(StandIn::Sleep), Just(StandIn::Burn)];
    (any::<bool>(), stand_ins, any::<bool>()).prop_map(|(structured, stand_in, files)| Options {
        structured,
        stand_in,
        scale: 0.5,
        files,
    })
}

/// Imports a text; what comes out must be valid.
fn check(format: SourceFormat, text: &str, options: Options) -> bool {
    let Ok(imported) = import(format, text, "a name", options) else { return false };
    if let Err(found) = load(&[Source::new("imported.xml", imported.xml.as_str())]) {
        panic!("{text}\n{}\n{:#?}", imported.xml, &found[..1]);
    }
    true
}

#[test]
fn the_undamaged_workflows_import() {
    for (format, text) in
        [(SourceFormat::Dax, DAX), (SourceFormat::Wfformat, WFFORMAT), (SourceFormat::Sweeper, SWEEPER)]
    {
        for (structured, files) in [(false, false), (true, true)] {
            let options = Options { structured, files, ..Options::default() };
            assert!(check(format, text, options), "{:?}", import(format, text, "a", options).map(|_| ()));
        }
    }
}

#[test]
fn workflows_of_one_task_and_of_none_import() {
    let one = "workflow:\n- name: a\n  command: b\n  download_files: [c]\n";
    for structured in [false, true] {
        let options = Options { structured, ..Options::default() };
        assert!(check(SourceFormat::Sweeper, one, options));
        assert!(check(SourceFormat::Sweeper, "workflow: []", options));
        assert!(check(SourceFormat::Dax, "<adag><job id=\"a\" runtime=\"1\"/></adag>", options));
        assert!(check(SourceFormat::Dax, "<adag/>", options));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn damaged_workflows_give_errors_or_valid_processes(
        which in 0usize..3,
        edits in proptest::collection::vec((any::<prop::sample::Index>(), any::<char>(), 0usize..4), 1..4),
        options in options(),
    ) {
        let (format, text) = [(SourceFormat::Dax, DAX), (SourceFormat::Wfformat, WFFORMAT), (SourceFormat::Sweeper, SWEEPER)][which];
        let mut letters: Vec<char> = text.chars().collect();
        for (place, letter, kind) in edits {
            let place = place.index(letters.len());
            match kind {
                0 => letters[place] = letter,
                1 => letters.insert(place, letter),
                2 => drop(letters.remove(place)),
                _ => {
                    let end = (place + 30).min(letters.len());
                    let copied: Vec<char> = letters[place..end].to_vec();
                    letters.splice(place..place, copied);
                }
            }
        }
        check(format, &letters.into_iter().collect::<String>(), options);
    }

    #[test]
    fn any_text_gives_an_error_or_a_valid_process(which in 0usize..3, text in ".{0,200}") {
        check([SourceFormat::Dax, SourceFormat::Wfformat, SourceFormat::Sweeper][which], &text, Options::default());
    }
}

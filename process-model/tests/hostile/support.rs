//! Runs the loader within bounds and checks its findings.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

use xavantes_model::definition::{ActivityCode, Program};
use xavantes_model::diagnostic::{Diagnostic, Source};
use xavantes_model::load::load;
use xavantes_model::script::{Form, NameUse, SyntaxError, check};

/// Upper bound on the time for one document. The slowest takes a few seconds on a slow machine, so only a hang exceeds
/// it.
const MAX_TIME: Duration = Duration::from_secs(30);
/// Upper bound on the memory for one document of at most 16 MiB.
const MAX_MEMORY_BYTES: usize = 2 << 30;
const STACK_BYTES: usize = 2 << 20;

/// Runs `work` on a small stack, one at a time, so that time and memory are those of `work` alone.
pub fn bounded<T: Send + 'static>(name: &str, work: impl FnOnce() -> T + Send + 'static) -> T {
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    reset_peak();
    let started = Instant::now();
    let (send, receive) = mpsc::channel();
    let thread = std::thread::Builder::new().stack_size(STACK_BYTES).spawn(move || send.send(work())).unwrap();
    let outcome = match receive.recv_timeout(MAX_TIME) {
        Ok(outcome) => outcome,
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("{name} takes longer than {MAX_TIME:?}"),
        Err(mpsc::RecvTimeoutError::Disconnected) => panic!("{name} panicked: {:?}", thread.join()),
    };
    let peak = peak().unwrap_or(0);
    println!("{name}: {:?}, {} MiB", started.elapsed(), peak >> 20);
    assert!(peak < MAX_MEMORY_BYTES, "{name} took {} MiB", peak >> 20);
    outcome
}

/// Returns the peak of memory since `reset_peak`, on systems that report it.
fn peak() -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.parse::<usize>().ok().map(|kilobytes| kilobytes << 10)
}

fn reset_peak() {
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}

/// Expects the document to be refused with exactly these codes, or accepted if there are none.
pub fn expect(name: &str, document: impl Into<String>, codes: &[&str]) -> Vec<Diagnostic> {
    let text = document.into();
    let found = bounded(name, move || {
        let sources = [Source::new("hostile.xml", text)];
        match load(&sources) {
            Ok(program) => {
                all_code_compiles(&program);
                Vec::new()
            }
            Err(found) => {
                findings_can_be_shown(&sources[0].text, &found);
                found
            }
        }
    });
    let found_codes: BTreeSet<&str> = found.iter().map(|diagnostic| diagnostic.code).collect();
    let expected: BTreeSet<&str> = codes.iter().copied().collect();
    assert_eq!(found_codes, expected, "{name}: {:#?}", &found[..found.len().min(3)]);
    found
}

fn findings_can_be_shown(text: &str, found: &[Diagnostic]) {
    assert!(!found.is_empty() && found.len() <= 201, "{} findings", found.len());
    for diagnostic in found {
        assert!(text.get(diagnostic.span.bytes.clone()).is_some(), "{diagnostic:?} is not in the text");
        let help = diagnostic.help.as_deref().unwrap_or("");
        for text in [diagnostic.message.as_str(), help] {
            assert!(text.len() < 4096, "{}: {} bytes", diagnostic.code, text.len());
            let invisible = |c: char| c.is_control() || matches!(c, '\u{200E}' | '\u{200F}' | '\u{202A}'..='\u{202E}');
            assert!(!text.contains(invisible), "{text:?}");
        }
    }
}

/// Checks that no code of an accepted program fails to compile when it runs.
pub fn all_code_compiles(program: &Program) {
    for activity in &program.activities {
        if let ActivityCode::Lua { code, .. } | ActivityCode::Command { code, .. } = &activity.code {
            code.verify().unwrap();
        }
    }
    for node in program.processes.iter().flat_map(|process| &process.nodes) {
        let bindings = node.bindings.iter().flat_map(|bindings| &bindings.script);
        node.scripts().chain(bindings).for_each(|script| script.code.verify().unwrap());
    }
}

pub fn document(types: &str) -> String {
    format!("<XAVANTES VERSION=\"1\">{types}</XAVANTES>")
}

pub fn body(content: &str) -> String {
    document(&format!("<PROCESS_TYPE NAME=\"P\"><BODY>{content}</BODY></PROCESS_TYPE>"))
}

pub fn many(count: usize, part: impl FnMut(usize) -> String) -> String {
    (0..count).map(part).collect()
}

fn escaped(code: &str) -> String {
    code.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;").replace('\n', "&#10;")
}

/// Returns a document for each place that statements can stand in.
pub fn places_of_statements(code: &str) -> Vec<(&'static str, String)> {
    let code = escaped(code);
    let activity = format!("<ACTIVITY_TYPE NAME=\"A\"><CODE LANGUAGE=\"lua\">{code}</CODE></ACTIVITY_TYPE>");
    vec![
        ("PRE_CODE", body(&format!("<PRE_CODE>{code}</PRE_CODE>"))),
        ("POST_CODE", body(&format!("<BLOCK NAME=\"b\"><POST_CODE>{code}</POST_CODE></BLOCK>"))),
        ("CODE", document(&activity)),
    ]
}

/// Returns a document for each place that an expression can stand in.
pub fn places_of_expressions(code: &str) -> Vec<(&'static str, String)> {
    let code = escaped(code);
    let command = "<ACTIVITY_TYPE NAME=\"A\"><CODE LANGUAGE=\"command\">";
    let block = "<BLOCK NAME=\"b\" x=\"VALUE\"><IN_PARAMETER NAME=\"x\" TYPE=\"string\"/></BLOCK>";
    let grid = "<PARAM_GRID><AXIS NAME=\"a\" TYPE=\"int\" VALUES=\"${CODE}\"/></PARAM_GRID>";
    [
        ("CONDITION", body("<WHILE NAME=\"w\" CONDITION=\"CODE\"><ITERATE/></WHILE>")),
        ("CONDITION child", body("<WHILE NAME=\"w\"><CONDITION>CODE</CONDITION><ITERATE/></WHILE>")),
        ("CASE", body("<SWITCH NAME=\"s\"><CASE CONDITION=\"CODE\"/></SWITCH>")),
        ("EXIT_CONDITION", body("<PAR NAME=\"p\" EXIT_CONDITION=\"CODE\"/>")),
        ("EXIT_CONDITION child", body("<PAR NAME=\"p\"><EXIT_CONDITION>CODE</EXIT_CONDITION></PAR>")),
        ("COLLECT", body("<FOR NAME=\"f\" TO=\"1\" COLLECT=\"CODE\"><ITERATE/></FOR>")),
        ("FROM", body("<FOR NAME=\"f\" FROM=\"${CODE}\" TO=\"1\"><ITERATE/></FOR>")),
        ("TO", body("<FOR NAME=\"f\" TO=\"${CODE}\"><ITERATE/></FOR>")),
        ("STEP", body("<FOR NAME=\"f\" TO=\"1\" STEP=\"${CODE}\"><ITERATE/></FOR>")),
        ("EACH", body("<FOR NAME=\"f\" EACH=\"${CODE}\"><ITERATE/></FOR>")),
        ("JOIN", body("<PAR NAME=\"p\" JOIN=\"${CODE}\"/>")),
        ("MAX_PARALLEL", body("<PAR NAME=\"p\" MAX_PARALLEL=\"${CODE}\"/>")),
        ("VALUES", body(&format!("<FOR NAME=\"f\">{grid}<ITERATE/></FOR>"))),
        ("binding", body(&block.replace("VALUE", "${CODE}"))),
        ("binding with text", body(&block.replace("VALUE", "a ${CODE} b"))),
        ("ARG", document(&format!("{command}<ARG>x</ARG><ARG>${{CODE}}</ARG></CODE></ACTIVITY_TYPE>"))),
        ("ARG with text", document(&format!("{command}<ARG>a ${{CODE}} b</ARG></CODE></ACTIVITY_TYPE>"))),
    ]
    .into_iter()
    .map(|(place, document)| {
        (place, document.replace("CODE}", &format!("{code}}}")).replace("CODE\"", &format!("{code}\"")))
    })
    .map(|(place, document)| (place, document.replace(">CODE<", &format!(">{code}<"))))
    .collect()
}

pub fn checked(text: &str, form: Form) -> Result<Vec<NameUse>, SyntaxError> {
    let text = text.to_owned();
    bounded("check", move || {
        let outcome = check(&text, form);
        if let Err(error) = &outcome {
            assert!(text.get(error.at.clone()).is_some(), "{error:?} is not in {text:?}");
        }
        outcome
    })
}

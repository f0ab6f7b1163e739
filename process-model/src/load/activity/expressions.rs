//! Code of activity types: it sees the parameters of its type and the number of the attempt, nothing else.

use std::collections::HashSet;
use std::ops::Range;

use crate::diagnostic::did_you_mean;
use crate::load::code_limits::{check_code, check_count};
use crate::load::document::ParsedDocument;
use crate::load::problem::{CodeTooLarge, LoadProblem, ProblemPlace, report_unclosed};
use crate::load::report::{LoadReport, MAX_CANDIDATES};
use crate::load::signatures::TypeInfo;
use crate::load::template::{self, Piece, join};
use crate::script::{BUILTINS, Code, Form, NameUse, Port};
use crate::value::SharedKind;
use crate::xml::MappedText;

/// Name of the number of the attempt, in all code of activities.
pub(super) const ATTEMPT: &str = "attempt";

/// Returns the inputs of all code of an activity type.
pub(super) fn inputs(info: &TypeInfo) -> Vec<Port> {
    let names = info.parameters.variables.iter().map(|variable| variable.name.clone());
    names.chain([ATTEMPT.into()]).map(|name| Port { name, field: None }).collect()
}

/// Makes one expression of a text with `${…}` in it. Returns `None` if something is wrong with it, which is then
/// reported.
pub(super) fn expression(
    document: &ParsedDocument,
    info: &TypeInfo,
    mapped: &MappedText,
    report: &mut LoadReport,
) -> Option<String> {
    let pieces = match template::cut(&mapped.value) {
        Ok(pieces) => pieces,
        Err(at) => {
            report_unclosed(document, report, &mapped.source_range(at..mapped.value.len()));
            return None;
        }
    };
    let mut clean = true;
    for piece in &pieces {
        if let Piece::Code(range) = piece {
            clean &= check(document, info, mapped, range.clone(), Form::Expression, report);
        }
    }
    clean.then(|| join(&mapped.value, &pieces))
}

/// Compiles expressions over all parameters. `clean` says that every expression was checked without a finding.
pub(super) fn compile_all(
    document: &ParsedDocument,
    info: &TypeInfo,
    expressions: &[String],
    line: u32,
    clean: bool,
    report: &mut LoadReport,
) -> Code {
    let inputs = inputs(info);
    let mut fits = check_count(inputs.len(), inputs.len(), expressions.len());
    let code = Code::expressions(expressions, line, &inputs);
    if clean {
        fits = fits.and_then(|()| check_code(&code));
    }
    report_too_large(document, info, fits, report);
    code
}

/// Reports that the code of an activity type is too large.
pub(super) fn report_too_large(
    document: &ParsedDocument,
    info: &TypeInfo,
    outcome: Result<(), CodeTooLarge>,
    report: &mut LoadReport,
) {
    if let Err(CodeTooLarge { code, message, help }) = outcome {
        let span = document.span(&document.tree.element(info.node).name_span);
        report.add(code, span, message, || Some(help.into()));
    }
}

/// Checks a piece of code against the parameters of the type. Returns true if nothing is wrong with it.
pub(super) fn check(
    document: &ParsedDocument,
    info: &TypeInfo,
    mapped: &MappedText,
    range: Range<usize>,
    form: Form,
    report: &mut LoadReport,
) -> bool {
    let text = &mapped.value[range.clone()];
    let place = ProblemPlace { document, mapped, start: range.start };
    let uses = match document.free_names(text, form) {
        Ok(uses) => uses,
        Err(error) => {
            place.report_syntax_error(report, text, error);
            return false;
        }
    };
    let mut complained = HashSet::new();
    let problems = uses.iter().filter_map(|it| problem(info, it, form));
    let problems = problems.filter(|problem| complained.insert(problem.message.clone())).collect();
    place.report_problems(report, problems)
}

/// Returns the problem with one use of a name.
fn problem<'a>(info: &'a TypeInfo, it: &NameUse, form: Form) -> Option<LoadProblem<'a>> {
    let name = it.name.clone();
    let declared = info.parameters.slots.contains_key(name.as_str());
    let shared = SharedKind::ALL.iter().any(|kind| kind.type_name() == name);
    let built_in = BUILTINS.contains(&name.as_str());
    let (code, message, help): (_, _, Box<dyn FnOnce() -> Option<String>>) = if it.write && form == Form::Expression {
        ("bad-assignment", "an expression cannot assign anything".to_owned(), Box::new(|| None))
    } else if declared || (!it.write && (built_in || name == ATTEMPT)) {
        return None;
    } else if shared {
        let help = || Some("create it in a PRE_CODE and give it to the activity as a parameter".into());
        ("unknown-name", format!("an activity cannot create a {name}"), Box::new(help))
    } else if name == ATTEMPT {
        ("bad-assignment", format!("{name:?} is set by the engine and can only be read"), Box::new(|| None))
    } else if it.write {
        let message = match built_in {
            true => format!("{name:?} is built in and cannot be assigned"),
            false => format!("{name:?} is not declared, so it cannot be assigned"),
        };
        ("unknown-name", message, Box::new(move || name_help(info, &name, false)))
    } else {
        ("unknown-name", format!("there is no {name:?} here"), Box::new(move || name_help(info, &name, true)))
    };
    Some(LoadProblem { code, at: it.at.clone(), message, write: it.write, warning: false, help })
}

/// Advises on an unknown name.
fn name_help(info: &TypeInfo, name: &str, built_in: bool) -> Option<String> {
    let parameters = info.parameters.variables.iter().take(MAX_CANDIDATES).map(|variable| &*variable.name);
    let others = built_in.then_some(BUILTINS.into_iter().chain([ATTEMPT])).into_iter().flatten();
    did_you_mean(name, parameters.chain(others)).or_else(|| Some("declare it as a parameter, or make it local".into()))
}

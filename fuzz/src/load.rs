//! The loader makes of any bytes either a consistent program, or findings that lie in the text.

use xavantes_model::definition::{
    DefinitionNode, DefinitionNodeId, Direction, Kind, LoopSource, ProcessType, Program, Script, ScriptInput,
    ScriptTarget,
};
use xavantes_model::diagnostic::{Diagnostic, Source as Text};
use xavantes_model::load::load;
use xavantes_model::xml;

/// Checks a document.
pub fn check(bytes: &[u8]) {
    let Ok(text) = xml::decode(bytes) else { return };
    match load(&[Text::new("fuzz.xml", text)]) {
        Ok(program) => program.processes.iter().for_each(|process| check_process(&program, process)),
        Err(found) => check_findings(text, &found),
    }
}

fn check_findings(text: &str, found: &[Diagnostic]) {
    assert!(!found.is_empty(), "refused without a reason");
    assert!(found.iter().any(Diagnostic::is_error), "refused without an error");
    assert!(found.len() <= 252, "{} findings", found.len());
    for diagnostic in found {
        assert!(text.get(diagnostic.span.bytes.clone()).is_some(), "not in the text: {diagnostic:?}");
        assert!(diagnostic.message.len() <= 4096, "a message of {} bytes", diagnostic.message.len());
    }
}

fn check_process(program: &Program, process: &ProcessType) {
    let nodes = &process.nodes;
    assert!(nodes[0].parent.is_none() && nodes[0].end.index() == nodes.len());
    assert!(process.parameters <= nodes[0].variables.len());
    for (index, node) in nodes.iter().enumerate() {
        assert_eq!(node.id.index(), index);
        assert!(index < node.end.index() && node.end.index() <= nodes.len());
        if let Some(parent) = node.parent {
            let parent = &nodes[parent.index()];
            assert!(parent.id < node.id && node.end <= parent.end, "{index} is not inside its parent");
            let places = parent.elements.iter().chain(&parent.catch).chain(&parent.finally);
            assert_eq!(places.filter(|child| **child == node.id).count(), 1, "{index} is not a child of its parent");
        }
        for child in node.elements.iter().chain(&node.catch).chain(&node.finally) {
            assert_eq!(nodes[child.index()].parent, Some(node.id));
        }
        assert!(node.local_slots().end <= node.variables.len());
        assert!(node.summary as usize <= node.variables.len());
        for forward in &node.forwards {
            assert!(node.elements.contains(&forward.element));
            let _ = &program.signature(&nodes[forward.element.index()])[forward.from as usize];
            assert!(node.variables[forward.to as usize].implicit);
        }
        check_kind(program, node);
        for script in node.scripts() {
            check_script(program, process, script);
        }
        if let Some(bindings) = &node.bindings {
            let signature = program.signature(node);
            let slots = bindings.literals.iter().map(|(slot, _)| *slot).chain(bindings.targets.iter().copied());
            slots.for_each(|slot| assert!(signature[slot as usize].direction.is_in()));
            assert_eq!(bindings.script.is_some(), !bindings.targets.is_empty());
            bindings.script.iter().for_each(|script| check_script(program, process, script));
        }
        for input in process.captures(node.id) {
            let (ScriptInput::Variable { node: from, .. } | ScriptInput::Element { scope: from, .. }) = input else {
                panic!()
            };
            assert!(from < node.id, "{index} captures from behind it");
        }
    }
}

fn check_kind(program: &Program, node: &DefinitionNode) {
    match &node.kind {
        Kind::Activity { activity } => assert!(*activity < program.activities.len()),
        Kind::Process { process } => assert!(*process < program.processes.len()),
        Kind::Sequence => {}
        Kind::Switch { conditions, .. } => {
            assert!(matches!(node.elements.len() - conditions.len(), 0 | 1));
        }
        Kind::For { source, .. } => {
            assert_eq!(node.elements.len(), 1);
            match source {
                LoopSource::Count { inputs, .. } => assert!(*inputs as usize + 4 <= node.variables.len()),
                LoopSource::Grid(axes) => assert!(!axes.is_empty()),
                LoopSource::Each(_) => {}
            }
        }
        Kind::While { .. } => assert_eq!(node.elements.len(), 1),
        Kind::Par { waits_for, dependents, .. } => {
            assert!(waits_for.len() == node.elements.len() && dependents.len() == node.elements.len());
            let waiting: u32 = waits_for.iter().sum();
            assert_eq!(waiting as usize, dependents.iter().map(Vec::len).sum::<usize>());
        }
    }
}

fn check_script(program: &Program, process: &ProcessType, script: &Script) {
    let variable = |node: DefinitionNodeId, slot: u32| &process.nodes[node.index()].variables[slot as usize];
    let parameter =
        |element: DefinitionNodeId, slot: u32| &program.signature(&process.nodes[element.index()])[slot as usize];
    for input in &script.inputs {
        match *input {
            ScriptInput::Variable { node, slot } => drop(variable(node, slot)),
            ScriptInput::Element { scope, element, slot } => {
                assert_eq!(process.nodes[element.index()].parent, Some(scope));
                let _ = parameter(element, slot);
            }
            ScriptInput::LoopSummary(_) => {}
        }
    }
    for output in &script.outputs {
        match *output {
            ScriptTarget::Variable { node, slot } => assert_ne!(variable(node, slot).direction, Direction::Local),
            ScriptTarget::Element { element, slot } => assert!(parameter(element, slot).direction.is_in()),
        }
    }
    script.code.verify().unwrap_or_else(|error| panic!("accepted, but {error:?}"));
}

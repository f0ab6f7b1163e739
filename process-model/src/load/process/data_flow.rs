//! Which elements of a `PAR` read results of which others. Such an element waits for what it reads, as if its `AFTER` named it.

use std::collections::HashMap;

use super::after::{self, Links, Read};
use super::linker::Linker;
use super::scope::element_around;
use crate::definition::{DefinitionNode, DefinitionNodeId, Kind, ScriptInput};

impl Linker<'_> {
    /// Orders the elements of every `PAR`, when the names of all code are resolved.
    pub fn order_pars(&mut self) {
        let reads = reads(&self.nodes);
        for index in 0..self.nodes.len() {
            if !matches!(self.nodes[index].kind, Kind::Par { .. }) {
                continue;
            }
            let elements: Vec<_> = self.nodes[index]
                .elements
                .iter()
                .map(|element| (&*self.nodes[element.index()].name, self.drafts[element.index()].xml))
                .collect();
            let reads = reads.get(&self.nodes[index].id).map_or(&[][..], Vec::as_slice);
            let Links { waits_for, dependents } = after::links(self.document, &elements, reads, self.report);
            if let Kind::Par { waits_for: waits, dependents: waiting, .. } = &mut self.nodes[index].kind {
                (*waits, *waiting) = (waits_for, dependents);
            }
        }
    }
}

/// What the elements of each `PAR` read from each other. An element reads what its attributes and all code inside it read.
fn reads(nodes: &[DefinitionNode]) -> HashMap<DefinitionNodeId, Vec<Read>> {
    let mut reads: HashMap<DefinitionNodeId, Vec<Read>> = HashMap::new();
    for node in nodes {
        let bindings = node.bindings.as_ref().and_then(|bindings| bindings.script.as_ref());
        for input in node.scripts().chain(bindings).flat_map(|script| &script.inputs) {
            let ScriptInput::Element { scope, element, .. } = input else { continue };
            let par = &nodes[scope.index()];
            let is_par = matches!(par.kind, Kind::Par { .. });
            let (Some(reader), true) = (element_around(nodes, par, node.id), is_par) else { continue };
            if reader != *element {
                let (reader, read) = (nodes[reader.index()].position, nodes[element.index()].position);
                reads.entry(*scope).or_default().push(Read { reader, read });
            }
        }
    }
    reads
}

//! Results of elements in controllers, which code around the controllers reads as `controller.element.result`. The controller
//! gets a hidden result that takes the value when the controller completes. So such a result lives, travels and counts as
//! every other result does.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use crate::definition::{DefinitionNode, DefinitionNodeId, Direction, Forward, Variable};

/// Hidden results while a type is built. Scripts ask for them while they share the nodes.
#[derive(Default)]
pub(super) struct Forwards {
    wanted: RefCell<HashMap<DefinitionNodeId, Vec<(Forward, Variable)>>>,
    known: RefCell<HashMap<(DefinitionNodeId, DefinitionNodeId, u32), u32>>,
    /// Elements by name, of the controllers that some path leads through.
    names: RefCell<HashMap<DefinitionNodeId, HashMap<Arc<str>, DefinitionNodeId>>>,
}

impl Forwards {
    /// Returns the element of a controller that has this name.
    pub fn inner(
        &self,
        nodes: &[DefinitionNode],
        controller: DefinitionNodeId,
        name: &str,
    ) -> Option<DefinitionNodeId> {
        let mut names = self.names.borrow_mut();
        let elements = names.entry(controller).or_insert_with(|| {
            let elements = nodes[controller.index()].elements.iter().rev();
            elements.map(|element| (nodes[element.index()].name.clone(), *element)).collect()
        });
        elements.get(name).copied()
    }

    /// Returns the slot of the hidden result of `controller` that takes the value of `variable`, the parameter `from` of
    /// `element`.
    pub fn slot(
        &self,
        nodes: &[DefinitionNode],
        controller: DefinitionNodeId,
        (element, from): (DefinitionNodeId, u32),
        variable: &Variable,
    ) -> u32 {
        let mut known = self.known.borrow_mut();
        *known.entry((controller, element, from)).or_insert_with(|| {
            let mut wanted = self.wanted.borrow_mut();
            let wanted = wanted.entry(controller).or_default();
            let to = (nodes[controller.index()].variables.len() + wanted.len()) as u32;
            wanted.push((Forward { element, from, to }, hidden(nodes, element, variable)));
            to
        })
    }
}

impl Forwards {
    /// Gives the controllers their hidden results, when the names of all code are resolved.
    pub fn add_to(self, nodes: &mut [DefinitionNode]) {
        for (controller, wanted) in self.wanted.into_inner() {
            let node = &mut nodes[controller.index()];
            node.forwards = wanted.iter().map(|(forward, _)| *forward).collect();
            node.variables.extend(wanted.into_iter().map(|(_, variable)| variable));
        }
    }
}

/// The hidden result of a controller that takes the value of a parameter of its element.
pub(super) fn hidden(nodes: &[DefinitionNode], element: DefinitionNodeId, variable: &Variable) -> Variable {
    Variable {
        name: format!("{}.{}", nodes[element.index()].name, variable.name).into(),
        ty: variable.ty,
        direction: Direction::Out,
        default: None,
        optional: true,
        implicit: true,
        secret: variable.secret,
    }
}

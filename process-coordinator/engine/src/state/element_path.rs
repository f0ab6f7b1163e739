//! Paths of elements: the path of a live element, and the element at a path.

use xavantes_model::definition::{DefinitionNodeId, Program};
use xavantes_model::diagnostic::did_you_mean;

use crate::element_id::ElementId;
use crate::rejection::Rejection;
use crate::state::EngineState;
use crate::state::body::Body;

/// What a path names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PathTarget {
    /// A live element.
    Live(ElementId),
    /// An element of a live scope that has not begun, or has ended.
    Absent { scope: ElementId, element: DefinitionNodeId },
}

impl EngineState {
    /// The path of a live element: `FindPrimes-7f3a/parfor/[12]/findPrimes`.
    pub fn path(&self, program: &Program, id: ElementId) -> String {
        let mut segments = Vec::new();
        let mut next = Some(id);
        while let Some(instance) = next.and_then(|id| self.instances.get(id)) {
            segments.push(match instance.parent.and_then(|parent| self.instances.get(parent)) {
                None => self.process.to_string(),
                Some(around) => {
                    let site = program.node(instance.site_process as usize, instance.site);
                    match &around.body {
                        Body::Loop(body) if site.tag == "ITERATE" => {
                            format!("[{}]", body.range.counter(instance.ordinal))
                        }
                        _ => site.name.to_string(),
                    }
                }
            });
            next = instance.parent;
        }
        segments.reverse();
        segments.join("/")
    }

    /// The element at a path. The rejection names the first segment that does not fit.
    pub(crate) fn find(&self, program: &Program, path: &str) -> Result<PathTarget, Rejection> {
        // The id of a delegated process is the path of its root, with slashes.
        let rest = path.strip_prefix(&*self.process).filter(|rest| rest.is_empty() || rest.starts_with('/'));
        let Some(rest) = rest else {
            return Err(Rejection::no_such_element(format!("{path:?} is not in process {:?}", self.process)));
        };
        let mut segments = rest.split('/').skip(1).peekable();
        let mut id = self.root.ok_or(Rejection::Ended)?;
        let mut so_far = self.process.to_string();
        while let Some(segment) = segments.next() {
            let instance = self.instances.get(id).ok_or(Rejection::Ended)?;
            if instance.delegated {
                return Err(Rejection::Delegated { element: id, attempt: instance.attempts });
            }
            let node = program.node(instance.process as usize, instance.node);
            let child = match (&instance.body, segment.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'))) {
                (Body::Loop(body), Some(counter)) => {
                    let ordinal = counter.parse().ok().and_then(|counter| body.range.ordinal(counter));
                    let live = ordinal.and_then(|ordinal| body.join.live.get(&ordinal).copied());
                    Some(live.ok_or_else(|| {
                        Rejection::no_such_element(format!("{so_far} has no iteration {segment} now"))
                    })?)
                }
                _ => instance.children().find(|child| {
                    let child = self.instances.get(*child);
                    child.is_some_and(|child| {
                        let site = program.node(child.site_process as usize, child.site);
                        *site.name == *segment && site.tag != "ITERATE"
                    })
                }),
            };
            let Some(child) = child else {
                let known = node.elements.iter().map(|element| program.node(instance.process as usize, *element));
                let known = known.filter(|element| element.tag != "ITERATE");
                let element = known.clone().find(|element| *element.name == *segment);
                return match element {
                    Some(element) if segments.peek().is_none() => {
                        Ok(PathTarget::Absent { scope: id, element: element.id })
                    }
                    Some(_) => Err(Rejection::no_such_element(format!("{so_far}/{segment} has ended or not begun"))),
                    None => {
                        let hint = did_you_mean(segment, known.take(1000).map(|element| &*element.name));
                        let hint = hint.map_or_else(String::new, |hint| format!("; {hint}"));
                        Err(Rejection::no_such_element(format!("{so_far} has no element {segment:?}{hint}")))
                    }
                };
            };
            id = child;
            so_far = format!("{so_far}/{segment}");
        }
        Ok(PathTarget::Live(id))
    }
}

//! The order of the elements of a `PAR`: an element waits for those that its `AFTER` names and for those whose results it
//! reads, without cycles.

use std::collections::HashMap;
use std::ops::Range;

use crate::diagnostic::did_you_mean;
use crate::load::document::ParsedDocument;
use crate::load::report::{LoadReport, MAX_CANDIDATES};
use crate::xml::{self, Attribute};

/// For each element, by position: the number of elements it waits for, and the elements that wait for it.
#[derive(Debug, Default)]
pub(super) struct Links {
    pub waits_for: Vec<u32>,
    pub dependents: Vec<Vec<u32>>,
}

/// Upper bound on the names that the message about a cycle shows.
const MAX_SHOWN: usize = 10;

/// An element of a `PAR` reads a result of another one. Both by position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Read {
    pub reader: u32,
    pub read: u32,
}

/// Makes the links between the elements of a `PAR`, given with their names in order.
pub(super) fn links(
    document: &ParsedDocument,
    elements: &[(&str, xml::XmlElementId)],
    reads: &[Read],
    report: &mut LoadReport,
) -> Links {
    let mut positions: HashMap<&str, usize> = HashMap::new();
    for (position, (name, _)) in elements.iter().enumerate() {
        positions.entry(name).or_insert(position);
    }
    let mut before: Vec<Vec<u32>> = vec![Vec::new(); elements.len()];
    for Read { reader, read } in reads {
        before[*reader as usize].push(*read);
    }
    let mut dependents: Vec<Vec<u32>> = vec![Vec::new(); elements.len()];
    for (position, (name, node)) in elements.iter().enumerate() {
        let attribute = document.tree.element(*node).attribute("AFTER");
        for (word, span) in attribute.into_iter().flat_map(words) {
            match positions.get(word) {
                Some(found) if *found == position => {
                    let message = format!("{name:?} cannot wait for itself");
                    report.add("bad-after", document.span(&span), message, || Some("remove it from AFTER".into()));
                }
                Some(found) => before[position].push(*found as u32),
                None => {
                    let message = format!("there is no element {word:?} in this PAR");
                    report.add("bad-after", document.span(&span), message, || {
                        did_you_mean(word, elements.iter().take(MAX_CANDIDATES).map(|(name, _)| *name))
                            .or_else(|| Some("AFTER names elements of the same PAR, separated by spaces".into()))
                    });
                }
            }
        }
        before[position].sort_unstable();
        before[position].dedup();
        before[position].iter().for_each(|found| dependents[*found as usize].push(position as u32));
    }
    report_cycles(document, elements, &before, &dependents, report);
    Links { waits_for: before.iter().map(|before| before.len() as u32).collect(), dependents }
}

/// The words of an attribute, each with its place in the document.
fn words(attribute: &Attribute) -> impl Iterator<Item = (&str, Range<usize>)> {
    let text = &attribute.value.value;
    text.split_ascii_whitespace().map(move |word| {
        let start = word.as_ptr().addr() - text.as_ptr().addr();
        (word, attribute.value.source_range(start..start + word.len()))
    })
}

fn report_cycles(
    document: &ParsedDocument,
    elements: &[(&str, xml::XmlElementId)],
    before: &[Vec<u32>],
    dependents: &[Vec<u32>],
    report: &mut LoadReport,
) {
    let mut missing: Vec<usize> = before.iter().map(Vec::len).collect();
    let mut ready: Vec<usize> = (0..elements.len()).filter(|position| missing[*position] == 0).collect();
    while let Some(done) = ready.pop() {
        for dependent in dependents[done].iter().map(|dependent| *dependent as usize) {
            missing[dependent] -= 1;
            if missing[dependent] == 0 {
                ready.push(dependent);
            }
        }
    }
    // Each remaining element waits for another remaining one, so following such links from any of them leads into a
    // cycle.
    let next = |position: usize| before[position].iter().map(|b| *b as usize).find(|b| missing[*b] > 0);
    let mut walk = vec![0; elements.len()];
    for start in (0..elements.len()).filter(|position| missing[*position] > 0) {
        let mut at = start;
        while walk[at] == 0 {
            walk[at] = start + 1;
            match next(at) {
                Some(following) => at = following,
                None => break,
            }
        }
        if walk[at] != start + 1 {
            continue;
        }
        // `at` is in a cycle that no earlier walk reached.
        let mut cycle = vec![at];
        while let Some(following) = next(cycle[cycle.len() - 1]).filter(|following| *following != at) {
            cycle.push(following);
        }
        let first = cycle.iter().enumerate().min_by_key(|(_, position)| **position).map_or(0, |(index, _)| index);
        cycle.rotate_left(first);
        let mut names: Vec<&str> = cycle.iter().take(MAX_SHOWN).map(|position| elements[*position].0).collect();
        if cycle.len() > MAX_SHOWN {
            names.push("…");
        }
        names.push(elements[cycle[0]].0);
        let first = document.tree.element(elements[cycle[0]].1);
        let span = first.attribute("AFTER").map_or(&first.name_span, |attribute| &attribute.value_span);
        let message = format!("these elements wait for each other: {}", names.join(" → "));
        report.add("after-cycle", document.span(span), message, || {
            Some("each names the next in its AFTER or reads a result of it; remove one of these links".into())
        });
    }
}

//! Excerpts of what users see: texts of activities may be large, answers may not. Pure.

use xavantes_proto::{Message, cut_text, v1};

/// Upper bound on the causes of a failure in an excerpt, and on the lost files that it names.
const MAX_CAUSES: usize = 4;
const MAX_LOST_FILES: usize = 16;
/// About the size of an element without texts.
const ELEMENT_BYTES: usize = 100;

/// Cuts what is too long in a failure and its causes.
pub(crate) fn cut_failure(failure: &mut v1::Failure) {
    let mut failure = failure;
    for depth in 1.. {
        cut_text(&mut failure.message);
        cut_text(&mut failure.path);
        failure.stderr.as_mut().map(cut_text);
        failure.gone.truncate(MAX_LOST_FILES);
        if depth > MAX_CAUSES {
            failure.cause = None;
        }
        match failure.cause.as_deref_mut() {
            Some(cause) => failure = cause,
            None => return,
        }
    }
}

/// Cuts what is too long in a status.
pub(crate) fn cut_status(status: &mut v1::ProcessStatus) {
    use v1::held_reason::Kind as Held;
    use v1::stall_reason::Kind as Stall;
    status.failure.as_mut().map(cut_failure);
    match status.stalled.as_mut().and_then(|reason| reason.kind.as_mut()) {
        Some(Stall::RepositoryUnavailable(text) | Stall::Unreadable(text)) => cut_text(text),
        Some(Stall::Held(reason)) => match &mut reason.kind {
            Some(Held::Damaged(text) | Held::Unreadable(text) | Held::InternalError(text)) => cut_text(text),
            Some(Held::OverBudget(_) | Held::CrashedOwners(_)) | None => {}
        },
        Some(Stall::CoordinatorFull(_)) | None => {}
    }
}

/// Cuts what is too long in a tree. The element itself keeps its failure.
pub(crate) fn cut_tree(root: &mut v1::Element, max_bytes: usize) {
    let mut left = max_bytes;
    cut_remarks(root);
    let mut level = vec![root];
    while !level.is_empty() {
        let mut below = Vec::new();
        for v1::Element { children, hidden, .. } in level {
            let mut shown = 0;
            for child in &mut *children {
                child.failure.as_mut().map(cut_failure);
                cut_remarks(child);
                let Some(rest) = left.checked_sub(own_bytes(child)) else { break };
                (left, shown) = (rest, shown + 1);
            }
            *hidden = hidden.saturating_add((children.len() - shown) as u32);
            children.truncate(shown);
            below.extend(children);
        }
        level = below;
    }
}

fn cut_remarks(element: &mut v1::Element) {
    for remark in &mut element.remarks {
        match &mut remark.what {
            Some(v1::remark::What::Failed(failure)) => cut_failure(failure),
            Some(v1::remark::What::Steered(text)) => cut_text(text),
            None => {}
        }
    }
    element.records.iter_mut().for_each(|record| cut_text(&mut record.reason));
}

/// About the encoded size of an element without its children.
fn own_bytes(element: &v1::Element) -> usize {
    let texts = element.path.len() + element.r#type.len() + element.worker.len() + element.counted_at.len();
    let failure = element.failure.as_ref().map_or(0, Message::encoded_len);
    let records: usize = element.records.iter().map(Message::encoded_len).sum();
    ELEMENT_BYTES + texts + failure + records
}

#[cfg(test)]
mod tests {
    use xavantes_proto::MAX_TEXT_BYTES;

    use super::*;

    fn failure(message: &str) -> v1::Failure {
        v1::Failure { message: message.into(), ..v1::Failure::default() }
    }

    #[test]
    fn a_failure_is_bounded_however_many_causes_it_has() {
        let long = "x".repeat(100_000);
        let mut all = failure(&long);
        for _ in 0..50 {
            let gone = vec![vec![0; 32]; 1000];
            all = v1::Failure { stderr: Some(long.clone()), gone, cause: Some(Box::new(all)), ..failure(&long) };
        }
        cut_failure(&mut all);
        assert!(all.encoded_len() < (MAX_CAUSES + 1) * (3 * MAX_TEXT_BYTES), "{}", all.encoded_len());
    }

    #[test]
    fn a_tree_is_bounded_from_below() {
        let leaf = |n: usize| v1::Element {
            path: format!("P/{n}"),
            failure: Some(failure(&"x".repeat(100_000))),
            ..v1::Element::default()
        };
        let inner = |_| v1::Element { children: (0..100).map(leaf).collect(), ..leaf(0) };
        let mut root = v1::Element { children: (0..100).map(inner).collect(), ..leaf(0) };
        cut_tree(&mut root, 1 << 20);
        assert_eq!(root.children.len(), 100);
        assert_eq!(root.failure.as_ref().map(|it| it.message.len()), Some(100_000));
        let shown: usize = root.children.iter().map(|inner| inner.children.len()).sum();
        let hidden: u32 = root.children.iter().map(|inner| inner.hidden).sum();
        assert!((100..400).contains(&shown) && shown + hidden as usize == 10_000, "{shown} {hidden}");
        assert!(root.encoded_len() < (1 << 20) + 200_000, "{}", root.encoded_len());
    }
}

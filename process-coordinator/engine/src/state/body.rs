//! The progress of an element's body: which of its elements live, which come next, and how many ended.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use xavantes_model::definition::{DefinitionNode, Kind};
use xavantes_model::value::Value;

use crate::element_id::ElementId;

/// The progress of an element's body.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum Body {
    /// An activity or delegated element: its body runs outside this engine.
    Leaf,
    /// Elements one after the other.
    Sequence { next: u32, current: Option<ElementId> },
    /// A `SWITCH`: at most one of its cases.
    Choice { chosen: bool, current: Option<ElementId> },
    /// A loop, sequential or parallel.
    Loop(Box<Loop>),
    /// A `PAR` or `PARSWITCH`.
    Par(Box<Par>),
}

impl Body {
    /// The body of an element that begins to run `node`.
    #[inline]
    pub fn new(node: &DefinitionNode) -> Body {
        match &node.kind {
            // A call's body is the BODY of the called type, which is a sequence.
            Kind::Sequence | Kind::Process { .. } => Body::Sequence { next: 0, current: None },
            Kind::Activity { .. } => Body::Leaf,
            Kind::Switch { parallel: None, .. } => Body::Choice { chosen: false, current: None },
            Kind::Switch { parallel: Some(_), .. } => {
                Body::Par(Box::new(Par { waits_for: Vec::new(), ready: VecDeque::new(), join: Join::default() }))
            }
            Kind::For { .. } | Kind::While { .. } => {
                Body::Loop(Box::new(Loop { range: Range::Open, next: 0, closed: false, join: Join::default() }))
            }
            Kind::Par { waits_for, .. } => {
                let free = waits_for.iter().enumerate().filter(|(_, count)| **count == 0);
                let ready = free.map(|(position, _)| position as u32).collect();
                Body::Par(Box::new(Par { waits_for: waits_for.clone(), ready, join: Join::default() }))
            }
        }
    }

    #[inline]
    pub fn join(&self) -> Option<&Join> {
        match self {
            Body::Loop(body) => Some(&body.join),
            Body::Par(body) => Some(&body.join),
            _ => None,
        }
    }

    #[inline]
    pub fn join_mut(&mut self) -> Option<&mut Join> {
        match self {
            Body::Loop(body) => Some(&mut body.join),
            Body::Par(body) => Some(&mut body.join),
            _ => None,
        }
    }
}

/// The progress of a loop, sequential or parallel.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Loop {
    pub range: Range,
    /// The ordinal of the next iteration.
    pub next: u64,
    /// The loop begins no more iterations, because its condition was false.
    pub closed: bool,
    pub join: Join,
}

/// The progress of a `PAR` or `PARSWITCH`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Par {
    /// For each element: the number of elements that must end before it begins, or one of the values below.
    pub waits_for: Vec<u32>,
    /// Positions of elements that may begin, in this order.
    pub ready: VecDeque<u32>,
    pub join: Join,
}

impl Par {
    /// The element never begins, because one that it waits for was cancelled.
    const NEVER: u32 = u32::MAX;
    /// The element does not begin, because one that it waits for is unfinished. A reopened process begins it.
    const SUSPENDED: u32 = u32::MAX - 1;
    /// The element ended, and those that wait for it may begin.
    const DONE: u32 = u32::MAX - 2;
    /// The element was cancelled. Every smaller value is a number of elements.
    const CANCELLED: u32 = u32::MAX - 3;

    /// The element at `position` has begun, and perhaps ended.
    pub fn has_begun(&self, position: u32) -> bool {
        match self.waits_for.get(position as usize).copied().unwrap_or(0) {
            0 => !self.ready.contains(&position),
            waits => matches!(waits, Par::DONE | Par::CANCELLED),
        }
    }

    /// The element at `position` does not begin in this run of the process.
    pub fn never_begins(&self, position: u32) -> bool {
        matches!(self.waits_for.get(position as usize), Some(&(Par::NEVER | Par::SUSPENDED)))
    }

    /// The element at `position` has not begun, and may begin.
    pub fn is_pending(&self, position: u32) -> bool {
        let waits = self.waits_for.get(position as usize).copied().unwrap_or(0);
        (waits > 0 && waits < Par::CANCELLED) || self.ready.contains(&position)
    }

    /// Updates `waits_for` and `ready` after the element at `position` ended. If it was cancelled, no element that waits
    /// for it ever begins, nor one that waits for such an element. Returns the number of elements that never begin.
    pub fn release(&mut self, dependents: &[Vec<u32>], position: u32, cancelled: bool) -> u64 {
        if cancelled {
            self.waits_for[position as usize] = Par::CANCELLED;
            return self.stop_dependents(dependents, position, Par::NEVER);
        }
        self.waits_for[position as usize] = Par::DONE;
        for dependent in &dependents[position as usize] {
            let waits = &mut self.waits_for[*dependent as usize];
            if *waits < Par::CANCELLED {
                *waits -= 1;
                if *waits == 0 {
                    self.ready.push_back(*dependent);
                }
            }
        }
        0
    }

    /// The element at `position` was cancelled, and a reopened process goes on with it. Until then no element that waits
    /// for it begins. Returns their number.
    pub fn suspend(&mut self, dependents: &[Vec<u32>], position: u32) -> u64 {
        self.stop_dependents(dependents, position, Par::SUSPENDED)
    }

    fn stop_dependents(&mut self, dependents: &[Vec<u32>], position: u32, mark: u32) -> u64 {
        let (mut stopped, mut pending) = (0, vec![position]);
        while let Some(position) = pending.pop() {
            for dependent in &dependents[position as usize] {
                let waits = &mut self.waits_for[*dependent as usize];
                if *waits < Par::CANCELLED {
                    *waits = mark;
                    stopped += 1;
                    pending.push(*dependent);
                }
            }
        }
        stopped
    }

    /// Computes `waits_for` and `ready` again, after unfinished elements came back to life. `original` is the number of
    /// elements that each one waits for in the definition. Returns how many elements are suspended no longer.
    pub fn reopen(&mut self, original: &[u32], dependents: &[Vec<u32>]) -> u64 {
        let suspended = self.waits_for.iter().filter(|waits| **waits == Par::SUSPENDED).count() as u64;
        for (waits, original) in self.waits_for.iter_mut().zip(original) {
            if !matches!(*waits, Par::NEVER | Par::DONE | Par::CANCELLED) {
                *waits = *original;
            }
        }
        let done: Vec<usize> = (0..self.waits_for.len()).filter(|at| self.waits_for[*at] == Par::DONE).collect();
        for dependent in done.into_iter().flat_map(|position| &dependents[position]) {
            let waits = &mut self.waits_for[*dependent as usize];
            if *waits < Par::CANCELLED {
                *waits -= 1;
            }
        }
        let ready = (0u32..)
            .zip(&self.waits_for)
            .filter(|(position, waits)| **waits == 0 && !self.join.live.contains_key(&u64::from(*position)));
        self.ready = ready.map(|(position, _)| position).collect();
        suspended
    }
}

/// The elements of a loop or parallel controller: the live ones, and how the others ended.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Join {
    /// Live elements: of a loop by ordinal, of a `PAR` by position.
    pub live: BTreeMap<u64, ElementId>,
    pub completed: u64,
    pub failed: u64,
    pub cancelled: u64,
    /// Collected values in order of completion.
    pub results: Vec<Value>,
    /// For each of `results`: the ordinal of its iteration.
    pub result_ordinals: Vec<u64>,
    /// `MAX_PARALLEL`.
    pub max: Option<u64>,
    /// `JOIN`: the controller exits when this many elements completed.
    pub at_least: Option<u64>,
    /// An exit condition from `set`, which replaces the one in the definition.
    pub exit: Option<Arc<str>>,
}

impl Join {
    /// The number of elements that ended.
    #[inline]
    pub fn ended(&self) -> u64 {
        self.completed + self.failed + self.cancelled
    }

    /// `MAX_PARALLEL` admits one more element.
    #[inline]
    pub fn admits_more(&self) -> bool {
        self.max.is_none_or(|max| (self.live.len() as u64) < max)
    }
}

/// The iterations of a loop.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Range {
    /// Numbers.
    Count {
        /// The first number.
        begin: i64,
        /// The difference between a number and the next.
        step: i64,
        /// The number of iterations.
        total: u64,
    },
    /// The items of a list.
    List(Arc<Vec<Value>>),
    /// All combinations of the values of several axes, and their number. The last axis varies fastest.
    Grid(Vec<Arc<Vec<Value>>>, u64),
    /// Iterations as long as a condition holds.
    Open,
}

impl Range {
    /// The number of iterations; `u64::MAX` if only a condition bounds it.
    #[inline]
    pub(crate) fn total(&self) -> u64 {
        match self {
            Range::Count { total, .. } | Range::Grid(_, total) => *total,
            Range::List(items) => items.len() as u64,
            Range::Open => u64::MAX,
        }
    }

    /// The value of `counter` in the iteration with that ordinal.
    pub(crate) fn counter(&self, ordinal: u64) -> i64 {
        match self {
            Range::Count { begin, step, .. } => begin.wrapping_add(step.wrapping_mul(ordinal as i64)),
            _ => ordinal as i64 + 1,
        }
    }

    /// The ordinal of the iteration in which `counter` has that value.
    pub(crate) fn ordinal(&self, counter: i64) -> Option<u64> {
        match self {
            Range::Count { begin, step, .. } => {
                let distance = i128::from(counter) - i128::from(*begin);
                let step = i128::from(*step);
                (step != 0 && distance % step == 0).then(|| u64::try_from(distance / step).ok()).flatten()
            }
            _ => u64::try_from(counter.checked_sub(1)?).ok(),
        }
    }
}

/// The number of integers from `begin` to `end`, both included, in steps of `step`; `None` if `step` is 0.
pub(crate) fn count_of(begin: i64, end: i64, step: i64) -> Option<u64> {
    if step == 0 {
        return None;
    }
    let distance = i128::from(end) - i128::from(begin);
    let steps = distance / i128::from(step);
    let reached = distance == 0 || (distance > 0) == (step > 0);
    Some(if reached { u64::try_from(steps + 1).unwrap_or(u64::MAX) } else { 0 })
}

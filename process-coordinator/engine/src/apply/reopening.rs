//! Reopened processes: unfinished elements come back to life.

use std::collections::VecDeque;

use xavantes_model::definition::{Kind, Program};

use crate::apply::ApplyError;
use crate::element_id::ElementId;
use crate::failure::{Failure, FailureKind};
use crate::outcome::StopReason;
use crate::state::EngineState;
use crate::state::body::Body;
use crate::state::instance::{Phase, Reached};
use crate::state::size::bytes_of;
use crate::state::unfinished::{Resumption, Unfinished};
use crate::time::Time;

impl EngineState {
    /// All unfinished elements come back to life under new ids, those around others first. They have all their retries
    /// and time again.
    pub(super) fn on_reopened(&mut self, program: &Program, at: Time) -> Result<(), ApplyError> {
        if !self.is_reopenable() {
            return Err(ApplyError::new("reopened, but there is nothing to go on with"));
        }
        let (_, results) = self.ended.take().ok_or_else(|| ApplyError::new("reopened, but not ended"))?;
        self.resize(0, bytes_of(results.values()));
        self.reopened += 1;
        let mut pending = VecDeque::from_iter(self.root.map(|root| (root, None)));
        let mut revived = Vec::new();
        while let Some((former, parent)) = pending.pop_front() {
            let (id, inner) = self.revive(program, former, parent, at)?;
            if parent.is_none() {
                self.root = Some(id);
            }
            pending.extend(inner.iter().map(|inner| (*inner, Some(id))));
            revived.push(id);
        }
        revived.into_iter().for_each(|id| self.reopen_par(program, id));
        Ok(())
    }

    /// Brings one element back to life in `parent`. Returns its new id, and the unfinished elements in it.
    fn revive(
        &mut self,
        program: &Program,
        former: ElementId,
        parent: Option<ElementId>,
        at: Time,
    ) -> Result<(ElementId, Vec<ElementId>), ApplyError> {
        let unfinished = self.unfinished.remove(&former).ok_or_else(|| ApplyError::no_element(former))?;
        let Unfinished { mut instance, failed, resumption } = unfinished;
        let inner = std::mem::take(&mut instance.unfinished);
        self.resize(0, instance.bytes());
        instance.parent = parent;
        instance.pending_failure = None;
        instance.handled = None;
        instance.failures = 0;
        let site = program.node(instance.site_process as usize, instance.site);
        let timeout = site.policy.timeout.filter(|_| parent.is_some() && !matches!(instance.body, Body::Leaf));
        instance.deadline = timeout.map(|timeout| at.after(timeout));
        instance.phase = match resumption {
            Resumption::Anew => {
                self.counts.delayed += 1;
                let error = Failure::new(FailureKind::Cancelled, "a user reopened the process");
                Phase::Waiting { until: at, error: Box::new(error) }
            }
            Resumption::Body => Phase::Running,
            Resumption::PostCode => Phase::Stopping(StopReason::Exit),
            Resumption::Finally => Phase::Posted,
            Resumption::Bounds => Phase::Prepared,
        };
        instance.reached = match resumption {
            Resumption::Anew | Resumption::Finally => Reached::Body,
            Resumption::Bounds => Reached::Prepared,
            Resumption::Body => Reached::Began,
            Resumption::PostCode => instance.reached,
        };
        let (process, ordinal, activity) = (instance.site_process, instance.ordinal, site.kind.is_activity());
        self.resize(instance.bytes(), 0);
        let id = self.instances.insert(instance);
        let Some(parent) = parent else { return Ok((id, inner)) };
        let tally = self.history.tally_mut(process, site.id);
        let count = if failed { &mut tally.failed } else { &mut tally.cancelled };
        *count = count.saturating_sub(1);
        if failed && activity {
            self.counts.failed = self.counts.failed.saturating_sub(1);
        }
        let around = self.instance(parent)?;
        let removed = around.kept.remove(&site.id).map_or(0, |values| bytes_of(&values));
        put_back(&mut around.body, id, site.position, ordinal);
        if let Some(join) = around.body.join_mut() {
            let count = if failed { &mut join.failed } else { &mut join.cancelled };
            *count = count.saturating_sub(1);
        }
        self.resize(0, removed);
        Ok((id, inner))
    }

    /// Elements of a `PAR` that waited for unfinished ones wait for them again.
    fn reopen_par(&mut self, program: &Program, id: ElementId) {
        let Some(instance) = self.instances.get_mut(id) else { return };
        let kind = &program.node(instance.process as usize, instance.node).kind;
        if let (Body::Par(body), Kind::Par { waits_for, dependents, .. }) = (&mut instance.body, kind) {
            let suspended = body.reopen(waits_for, dependents);
            body.join.cancelled = body.join.cancelled.saturating_sub(suspended);
        }
    }
}

/// Puts an element back into the body that it had left.
fn put_back(body: &mut Body, id: ElementId, position: u32, ordinal: u64) {
    match body {
        Body::Sequence { next, current } => {
            *current = Some(id);
            *next = position;
        }
        Body::Choice { current, .. } => *current = Some(id),
        Body::Loop(body) => drop(body.join.live.insert(ordinal, id)),
        Body::Par(body) => drop(body.join.live.insert(u64::from(position), id)),
        Body::Leaf => {}
    }
}

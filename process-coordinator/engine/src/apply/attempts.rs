//! Attempts of leaves and their calls of shared objects; failed tries and new tries.

use xavantes_model::definition::Program;
use xavantes_model::shared_objects::{Call, CallAnswer};
use xavantes_model::value::Value;

use crate::apply::ApplyError;
use crate::element_id::ElementId;
use crate::failure::Failure;
use crate::state::EngineState;
use crate::state::body::Body;
use crate::state::instance::{OWN_CALLS, Phase, first_phase};
use crate::state::size::{INSTANCE_BYTES, answer_bytes, bytes_of};
use crate::time::Time;

impl EngineState {
    #[inline]
    pub(super) fn on_sent(&mut self, id: ElementId, attempt: u32, deadline: Option<Time>) -> Result<(), ApplyError> {
        let instance = self.instance(id)?;
        if instance.phase != Phase::Ready {
            return Err(ApplyError::new("sent but not ready"));
        }
        instance.attempts = attempt;
        instance.deadline = deadline;
        instance.phase = Phase::Outstanding(Box::default());
        let delegated = instance.delegated;
        self.counts.ready -= 1;
        if delegated {
            self.counts.delegated += 1;
        } else {
            self.counts.outstanding += 1;
            self.counts.attempts += 1;
        }
        Ok(())
    }

    pub(super) fn on_called(
        &mut self,
        id: ElementId,
        caller: u64,
        sequence: u64,
        acknowledged: u64,
        call: &Call,
    ) -> Result<(), ApplyError> {
        let answer = self.objects.call(call);
        if caller == OWN_CALLS {
            self.objects.remember_call(id.bits(), sequence, call, &answer);
        }
        self.on_call_answered(id, caller, sequence, acknowledged, answer)
    }

    /// Answers a call that the element made before as it was answered then.
    pub(super) fn on_call_repeated(
        &mut self,
        id: ElementId,
        caller: u64,
        sequence: u64,
        acknowledged: u64,
        call: &Call,
    ) -> Result<(), ApplyError> {
        let answer = self.objects.remembered_answer(id.bits(), sequence, call).cloned();
        let answer = answer.ok_or_else(|| ApplyError::new("a repeated call that was not made before"))?;
        self.on_call_answered(id, caller, sequence, acknowledged, answer)
    }

    /// Stores the answer to a call for the case that the caller repeats the call.
    pub(super) fn on_call_answered(
        &mut self,
        id: ElementId,
        caller: u64,
        sequence: u64,
        acknowledged: u64,
        answer: CallAnswer,
    ) -> Result<(), ApplyError> {
        let Phase::Outstanding(attempt) = &mut self.instance(id)?.phase else {
            return Err(ApplyError::new("a call without an outstanding attempt"));
        };
        let window = attempt.calls.entry(caller).or_default();
        window.last = sequence;
        let (added, mut removed) = (answer_bytes(&answer), 0);
        window.answers.retain(|(number, answer)| {
            let stays = *number > acknowledged;
            removed += if stays { 0 } else { answer_bytes(answer) };
            stays
        });
        window.answers.push_back((sequence, answer));
        self.resize(added, removed);
        Ok(())
    }

    pub(super) fn on_lost(&mut self, id: ElementId) -> Result<(), ApplyError> {
        self.uncount_phase(id)?;
        let instance = self.instance(id)?;
        instance.phase = Phase::Ready;
        let (process, site) = (instance.site_process, instance.site);
        self.history.tally_mut(process, site).lost += 1;
        self.counts.ready += 1;
        Ok(())
    }

    /// A delegated element becomes a local one.
    pub(super) fn on_recalled(
        &mut self,
        program: &Program,
        id: ElementId,
        deadline: Option<Time>,
    ) -> Result<(), ApplyError> {
        self.uncount_phase(id)?;
        let instance = self.instance(id)?;
        let node = program.node(instance.process as usize, instance.node);
        instance.delegated = false;
        instance.body = Body::new(node);
        instance.phase = first_phase(node);
        instance.deadline = deadline;
        Ok(())
    }

    pub(super) fn on_waiting(&mut self, id: ElementId, until: Time, error: &Failure) -> Result<(), ApplyError> {
        self.uncount_phase(id)?;
        self.objects.forget_calls(id.bits());
        let instance = self.instance(id)?;
        instance.failures += u32::from(!instance.is_restarted());
        instance.phase = Phase::Waiting { until, error: Box::new(error.clone()) };
        self.counts.delayed += 1;
        Ok(())
    }

    pub(super) fn on_held(&mut self, id: ElementId, error: &Failure) -> Result<(), ApplyError> {
        self.uncount_phase(id)?;
        self.objects.forget_calls(id.bits());
        let instance = self.instance(id)?;
        instance.failures += 1;
        instance.phase = Phase::Held(Box::new(error.clone()));
        self.counts.held += 1;
        Ok(())
    }

    /// A new try keeps the element's counters and drops everything else that the last try left.
    pub(super) fn on_restarted(
        &mut self,
        program: &Program,
        id: ElementId,
        variables: &[Value],
        deadline: Option<Time>,
    ) -> Result<(), ApplyError> {
        self.uncount_phase(id)?;
        self.objects.forget_calls(id.bits());
        let instance = self.instance(id)?;
        // The bytes of its phase are subtracted already.
        let removed = instance.bytes() - instance.phase.bytes();
        let instance = self.instance(id)?;
        let leaf = matches!(instance.body, Body::Leaf);
        if leaf {
            instance.phase = Phase::Ready;
        } else {
            let node = program.node(instance.process as usize, instance.node);
            instance.body = Body::new(node);
            instance.phase = first_phase(node);
        }
        instance.restarts += 1;
        variables.clone_into(&mut instance.variables);
        instance.deadline = deadline;
        instance.inputs.clear();
        instance.kept.clear();
        instance.handler = None;
        instance.handled = None;
        instance.pending_failure = None;
        let owned = std::mem::take(&mut instance.owned);
        if instance.parent.is_some() {
            let (process, site) = (instance.site_process, instance.site);
            self.history.tally_mut(process, site).retried += 1;
        }
        self.counts.ready += u64::from(leaf);
        owned.into_iter().for_each(|object| self.objects.remove(object));
        self.resize(INSTANCE_BYTES + bytes_of(variables), removed);
        Ok(())
    }
}

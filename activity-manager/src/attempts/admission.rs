//! Which attempts may run now. The worker alone decides about its slots: several coordinators may count on the same ones.

use std::collections::VecDeque;

use xavantes_proto::v1::{ImpairmentReason, Nothing, refusal_reason, requirement};

/// The decision about an attempt that arrives.
#[derive(Debug, Clone, PartialEq)]
pub enum AdmissionVerdict {
    /// The attempt starts.
    Run,
    /// The attempt waits in the queue.
    Wait,
    /// The attempt cannot run here now.
    Refuse(refusal_reason::Kind),
    /// The attempt can never run here.
    Never(refusal_reason::Kind),
}

/// Resources that a worker has, or that an attempt occupies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Resources {
    /// Slots: each has room for one activity of one CPU.
    pub cpus: u32,
    /// Bytes of memory.
    pub memory: u64,
    /// Graphics processors.
    pub gpus: u32,
}

impl Resources {
    /// Slots, without memory and graphics processors.
    pub fn slots(cpus: u32) -> Self {
        Self { cpus, ..Self::default() }
    }

    fn holds(&self, used: Self, more: Self) -> bool {
        used.cpus.saturating_add(more.cpus) <= self.cpus
            && used.memory.saturating_add(more.memory) <= self.memory
            && used.gpus.saturating_add(more.gpus) <= self.gpus
    }

    fn add(&mut self, more: Self) {
        self.cpus += more.cpus;
        self.memory += more.memory;
        self.gpus += more.gpus;
    }

    fn subtract(&mut self, less: Self) {
        self.cpus = self.cpus.saturating_sub(less.cpus);
        self.memory = self.memory.saturating_sub(less.memory);
        self.gpus = self.gpus.saturating_sub(less.gpus);
    }

    /// Every attempt occupies at least one slot.
    pub(super) fn at_least_one_slot(self) -> Self {
        Self { cpus: self.cpus.max(1), ..self }
    }
}

/// How busy a worker is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Load {
    /// Slots in use.
    pub slots: u32,
    /// Attempts that wait for a slot.
    pub queued: u32,
}

/// The refusal reason for a worker that lacks something that an activity requires.
pub fn unmet(requirement: requirement::Kind) -> refusal_reason::Kind {
    refusal_reason::Kind::Unmet(requirement.into())
}

/// Resources, and a short queue: a slot that becomes free never waits for the network.
#[derive(Debug, Clone)]
pub struct Admission<T> {
    capacity: Resources,
    used: Resources,
    max_queued: usize,
    queue: VecDeque<(T, Resources)>,
    draining: bool,
    /// Why the worker takes no attempts for now.
    impaired: Option<ImpairmentReason>,
}

impl<T> Admission<T> {
    /// An idle worker with this capacity and at most `max_queued` waiting attempts.
    pub fn new(capacity: Resources, max_queued: usize) -> Self {
        Self {
            capacity,
            used: Resources::default(),
            max_queued,
            queue: VecDeque::new(),
            draining: false,
            impaired: None,
        }
    }

    /// Decides about an attempt that arrives.
    pub fn arrive(&mut self, attempt: T, needs: Resources) -> AdmissionVerdict {
        let needs = needs.at_least_one_slot();
        if self.draining {
            AdmissionVerdict::Refuse(refusal_reason::Kind::Draining(Nothing {}))
        } else if let Some(reason) = &self.impaired {
            AdmissionVerdict::Refuse(refusal_reason::Kind::Impaired(reason.clone()))
        } else if needs.cpus > self.capacity.cpus {
            AdmissionVerdict::Never(unmet(requirement::Kind::Slots(needs.cpus)))
        } else if needs.memory > self.capacity.memory {
            AdmissionVerdict::Never(unmet(requirement::Kind::MemoryBytes(needs.memory)))
        } else if needs.gpus > self.capacity.gpus {
            AdmissionVerdict::Never(unmet(requirement::Kind::Gpus(needs.gpus)))
        } else if self.queue.is_empty() && self.capacity.holds(self.used, needs) {
            self.used.add(needs);
            AdmissionVerdict::Run
        } else if self.queue.len() < self.max_queued {
            self.queue.push_back((attempt, needs));
            AdmissionVerdict::Wait
        } else {
            AdmissionVerdict::Refuse(refusal_reason::Kind::NoRoom(Nothing {}))
        }
    }

    /// A running attempt ended. Returns the queued attempts that start now.
    pub fn leave(&mut self, needs: Resources) -> Vec<T> {
        self.used.subtract(needs.at_least_one_slot());
        self.admit()
    }

    /// Takes the attempts that may start now out of the queue.
    pub fn admit(&mut self) -> Vec<T> {
        let mut next = Vec::new();
        // In order of arrival: small attempts must not overtake a large one for ever.
        while let Some((_, needs)) = self.queue.front()
            && self.capacity.holds(self.used, *needs)
        {
            if let Some((attempt, needs)) = self.queue.pop_front() {
                self.used.add(needs);
                next.push(attempt);
            }
        }
        next
    }

    /// Removes attempts from the queue; true if there were any. The caller may admit those behind them.
    pub fn withdraw(&mut self, gone: impl Fn(&T) -> bool) -> bool {
        let before = self.queue.len();
        self.queue.retain(|(attempt, _)| !gone(attempt));
        before != self.queue.len()
    }

    /// Refuses new attempts from now on. Returns the queued ones.
    pub fn drain(&mut self) -> Vec<T> {
        self.draining = true;
        self.queue.drain(..).map(|(attempt, _)| attempt).collect()
    }

    /// Refuses new attempts for this reason, or takes them again (`None`). Returns whether that is a change.
    pub fn set_impaired(&mut self, reason: Option<ImpairmentReason>) -> bool {
        let change = self.impaired != reason;
        self.impaired = reason;
        change
    }

    /// Why the worker takes no attempts for now.
    pub fn impaired(&self) -> Option<&ImpairmentReason> {
        self.impaired.as_ref()
    }

    /// True after [`Self::drain`].
    pub fn is_draining(&self) -> bool {
        self.draining
    }

    /// Slots in use and attempts that wait.
    pub fn load(&self) -> Load {
        Load { slots: self.used.cpus, queued: self.queue.len() as u32 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_run_then_wait_then_are_refused() {
        let mut admission = Admission::new(Resources::slots(2), 1);
        assert_eq!(admission.arrive("a", Resources::slots(1)), AdmissionVerdict::Run);
        assert_eq!(admission.arrive("b", Resources::slots(0)), AdmissionVerdict::Run);
        assert_eq!(admission.arrive("c", Resources::slots(1)), AdmissionVerdict::Wait);
        assert!(matches!(admission.arrive("d", Resources::slots(1)), AdmissionVerdict::Refuse(_)));
        assert_eq!(admission.leave(Resources::slots(1)), ["c"]);
        assert_eq!(admission.load(), Load { slots: 2, queued: 0 });
    }

    #[test]
    fn a_large_attempt_is_not_overtaken() {
        let mut admission = Admission::new(Resources::slots(4), 10);
        assert_eq!(admission.arrive("small", Resources::slots(1)), AdmissionVerdict::Run);
        assert_eq!(admission.arrive("large", Resources::slots(4)), AdmissionVerdict::Wait);
        assert_eq!(admission.arrive("late", Resources::slots(1)), AdmissionVerdict::Wait);
        assert_eq!(admission.leave(Resources::slots(1)), ["large"]);
        assert_eq!(admission.leave(Resources::slots(4)), ["late"]);
        assert!(matches!(admission.arrive("huge", Resources::slots(5)), AdmissionVerdict::Never(_)));
    }

    #[test]
    fn draining_returns_queued_attempts_and_refuses_new_ones() {
        let mut admission = Admission::new(Resources::slots(1), 10);
        admission.arrive(1, Resources::slots(1));
        admission.arrive(2, Resources::slots(1));
        admission.arrive(3, Resources::slots(1));
        assert!(admission.withdraw(|attempt| *attempt == 2));
        assert_eq!(admission.drain(), [3]);
        assert!(matches!(admission.arrive(4, Resources::slots(1)), AdmissionVerdict::Refuse(_)));
        assert_eq!(admission.leave(Resources::slots(1)), Vec::<i32>::new());
    }

    #[test]
    fn memory_and_gpus_count_as_slots_do() {
        let mut admission = Admission::new(Resources { cpus: 8, memory: 100, gpus: 1 }, 10);
        let needs = |memory, gpus| Resources { cpus: 1, memory, gpus };
        assert_eq!(admission.arrive("a", needs(60, 0)), AdmissionVerdict::Run);
        assert_eq!(admission.arrive("b", needs(60, 0)), AdmissionVerdict::Wait);
        assert_eq!(admission.leave(needs(60, 0)), ["b"]);
        assert_eq!(admission.arrive("c", needs(40, 1)), AdmissionVerdict::Run);
        assert_eq!(admission.arrive("d", needs(0, 1)), AdmissionVerdict::Wait);
        assert!(matches!(admission.arrive("e", needs(101, 0)), AdmissionVerdict::Never(_)));
        assert!(matches!(admission.arrive("f", needs(0, 2)), AdmissionVerdict::Never(_)));
        assert_eq!(admission.leave(needs(40, 1)), ["d"]);
    }
}

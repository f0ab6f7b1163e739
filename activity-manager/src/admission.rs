//! Who may run now. The manager is the authority on its own slots: coordinators may all believe that they have them.

use std::collections::VecDeque;

use xavantes_proto::v1::{Nothing, refusal_reason, requirement};

/// What is done with an attempt that arrives.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// It begins.
    Run,
    /// It waits here for a slot.
    Wait,
    /// It cannot run here now.
    Refuse(refusal_reason::Kind),
    /// It can never run here.
    Never(refusal_reason::Kind),
}

/// What a manager has, or an attempt takes of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Room {
    /// Slots: activities of one CPU.
    pub cpus: u32,
    /// Bytes of memory.
    pub memory: u64,
    /// Graphics processors.
    pub gpus: u32,
}

impl Room {
    /// So many slots, and nothing else.
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

    /// Whoever runs takes a slot.
    fn at_least_one(self) -> Self {
        Self { cpus: self.cpus.max(1), ..self }
    }
}

/// The reason for a node that lacks what an activity requires.
pub fn unmet(requirement: requirement::Kind) -> refusal_reason::Kind {
    refusal_reason::Kind::Unmet(requirement.into())
}

/// Room, and a short queue so that what becomes free never waits for the wire.
#[derive(Debug, Clone)]
pub struct Admission<T> {
    whole: Room,
    used: Room,
    most_waiting: usize,
    waiting: VecDeque<(T, Room)>,
    draining: bool,
}

impl<T> Admission<T> {
    /// So much room, and so many that may wait.
    pub fn new(whole: Room, most_waiting: usize) -> Self {
        Self { whole, used: Room::default(), most_waiting, waiting: VecDeque::new(), draining: false }
    }

    /// An attempt that takes so much arrives.
    pub fn arrive(&mut self, attempt: T, needs: Room) -> Verdict {
        let needs = needs.at_least_one();
        if self.draining {
            Verdict::Refuse(refusal_reason::Kind::Draining(Nothing {}))
        } else if needs.cpus > self.whole.cpus {
            Verdict::Never(unmet(requirement::Kind::Slots(needs.cpus)))
        } else if needs.memory > self.whole.memory {
            Verdict::Never(unmet(requirement::Kind::MemoryBytes(needs.memory)))
        } else if needs.gpus > self.whole.gpus {
            Verdict::Never(unmet(requirement::Kind::Gpus(needs.gpus)))
        } else if self.waiting.is_empty() && self.whole.holds(self.used, needs) {
            self.used.add(needs);
            Verdict::Run
        } else if self.waiting.len() < self.most_waiting {
            self.waiting.push_back((attempt, needs));
            Verdict::Wait
        } else {
            Verdict::Refuse(refusal_reason::Kind::NoRoom(Nothing {}))
        }
    }

    /// An attempt that ran is over: gives those that may begin now.
    pub fn leave(&mut self, needs: Room) -> Vec<T> {
        self.used.subtract(needs.at_least_one());
        self.admit()
    }

    /// Those of the queue that may begin now.
    pub fn admit(&mut self) -> Vec<T> {
        let mut next = Vec::new();
        // In order: a large one is not overtaken for ever by small ones.
        while let Some((_, needs)) = self.waiting.front()
            && self.whole.holds(self.used, *needs)
        {
            if let Some((attempt, needs)) = self.waiting.pop_front() {
                self.used.add(needs);
                next.push(attempt);
            }
        }
        next
    }

    /// Takes one that waits out of the queue; true if it was there. Others behind it may be admitted then.
    pub fn withdraw(&mut self, gone: impl Fn(&T) -> bool) -> bool {
        let before = self.waiting.len();
        self.waiting.retain(|(attempt, _)| !gone(attempt));
        before != self.waiting.len()
    }

    /// Takes nothing new from now on; gives those that waited.
    pub fn drain(&mut self) -> Vec<T> {
        self.draining = true;
        self.waiting.drain(..).map(|(attempt, _)| attempt).collect()
    }

    /// Nothing new is taken.
    pub fn is_draining(&self) -> bool {
        self.draining
    }

    /// Slots in use, and attempts that wait.
    pub fn load(&self) -> (u32, usize) {
        (self.used.cpus, self.waiting.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_run_wait_and_are_refused_in_this_order() {
        let mut admission = Admission::new(Room::slots(2), 1);
        assert_eq!(admission.arrive("a", Room::slots(1)), Verdict::Run);
        assert_eq!(admission.arrive("b", Room::slots(0)), Verdict::Run);
        assert_eq!(admission.arrive("c", Room::slots(1)), Verdict::Wait);
        assert!(matches!(admission.arrive("d", Room::slots(1)), Verdict::Refuse(_)));
        assert_eq!(admission.leave(Room::slots(1)), ["c"]);
        assert_eq!(admission.load(), (2, 0));
    }

    #[test]
    fn a_large_attempt_is_not_overtaken() {
        let mut admission = Admission::new(Room::slots(4), 10);
        assert_eq!(admission.arrive("small", Room::slots(1)), Verdict::Run);
        assert_eq!(admission.arrive("large", Room::slots(4)), Verdict::Wait);
        assert_eq!(admission.arrive("late", Room::slots(1)), Verdict::Wait);
        assert_eq!(admission.leave(Room::slots(1)), ["large"]);
        assert_eq!(admission.leave(Room::slots(4)), ["late"]);
        assert!(matches!(admission.arrive("huge", Room::slots(5)), Verdict::Never(_)));
    }

    #[test]
    fn a_draining_node_hands_back_what_waits() {
        let mut admission = Admission::new(Room::slots(1), 10);
        admission.arrive(1, Room::slots(1));
        admission.arrive(2, Room::slots(1));
        admission.arrive(3, Room::slots(1));
        assert!(admission.withdraw(|attempt| *attempt == 2));
        assert_eq!(admission.drain(), [3]);
        assert!(matches!(admission.arrive(4, Room::slots(1)), Verdict::Refuse(_)));
        assert_eq!(admission.leave(Room::slots(1)), Vec::<i32>::new());
    }

    #[test]
    fn memory_and_gpus_count_as_slots_do() {
        let mut admission = Admission::new(Room { cpus: 8, memory: 100, gpus: 1 }, 10);
        let needs = |memory, gpus| Room { cpus: 1, memory, gpus };
        assert_eq!(admission.arrive("a", needs(60, 0)), Verdict::Run);
        assert_eq!(admission.arrive("b", needs(60, 0)), Verdict::Wait);
        assert_eq!(admission.leave(needs(60, 0)), ["b"]);
        assert_eq!(admission.arrive("c", needs(40, 1)), Verdict::Run);
        assert_eq!(admission.arrive("d", needs(0, 1)), Verdict::Wait);
        assert!(matches!(admission.arrive("e", needs(101, 0)), Verdict::Never(_)));
        assert!(matches!(admission.arrive("f", needs(0, 2)), Verdict::Never(_)));
        assert_eq!(admission.leave(needs(40, 1)), ["d"]);
    }
}

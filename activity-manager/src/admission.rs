//! Who may run now. The manager is the authority on its own slots: coordinators may all believe that they have them.

use std::collections::VecDeque;

/// What is done with an attempt that arrives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It begins.
    Run,
    /// It waits here for a slot.
    Wait,
    /// It cannot run here now.
    Refuse(&'static str),
    /// It can never run here.
    Never(&'static str),
}

/// Slots, and a short queue so that a slot that becomes free never waits for the wire.
#[derive(Debug, Clone)]
pub struct Admission<T> {
    slots: u32,
    used: u32,
    most_waiting: usize,
    waiting: VecDeque<(T, u32)>,
    draining: bool,
}

impl<T> Admission<T> {
    /// So many slots, and so many that may wait.
    pub fn new(slots: u32, most_waiting: usize) -> Self {
        Self { slots, used: 0, most_waiting, waiting: VecDeque::new(), draining: false }
    }

    /// An attempt that needs so many slots arrives.
    pub fn arrive(&mut self, attempt: T, needs: u32) -> Verdict {
        let needs = needs.max(1);
        if self.draining {
            Verdict::Refuse("this node is draining")
        } else if needs > self.slots {
            Verdict::Never("this node has fewer slots than the activity requires")
        } else if self.waiting.is_empty() && self.used + needs <= self.slots {
            self.used += needs;
            Verdict::Run
        } else if self.waiting.len() < self.most_waiting {
            self.waiting.push_back((attempt, needs));
            Verdict::Wait
        } else {
            Verdict::Refuse("this node has no room")
        }
    }

    /// An attempt that ran is over: gives those that may begin now.
    pub fn leave(&mut self, needs: u32) -> Vec<T> {
        self.used = self.used.saturating_sub(needs.max(1));
        self.admit()
    }

    /// Those of the queue that may begin now.
    pub fn admit(&mut self) -> Vec<T> {
        let mut next = Vec::new();
        // In order: a large one is not overtaken for ever by small ones.
        while let Some((_, needs)) = self.waiting.front()
            && self.used + needs <= self.slots
        {
            if let Some((attempt, needs)) = self.waiting.pop_front() {
                self.used += needs;
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
        (self.used, self.waiting.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_run_wait_and_are_refused_in_this_order() {
        let mut admission = Admission::new(2, 1);
        assert_eq!(admission.arrive("a", 1), Verdict::Run);
        assert_eq!(admission.arrive("b", 0), Verdict::Run);
        assert_eq!(admission.arrive("c", 1), Verdict::Wait);
        assert!(matches!(admission.arrive("d", 1), Verdict::Refuse(_)));
        assert_eq!(admission.leave(1), ["c"]);
        assert_eq!(admission.load(), (2, 0));
    }

    #[test]
    fn a_large_attempt_is_not_overtaken() {
        let mut admission = Admission::new(4, 10);
        assert_eq!(admission.arrive("small", 1), Verdict::Run);
        assert_eq!(admission.arrive("large", 4), Verdict::Wait);
        assert_eq!(admission.arrive("late", 1), Verdict::Wait);
        assert_eq!(admission.leave(1), ["large"]);
        assert_eq!(admission.leave(4), ["late"]);
        assert!(matches!(admission.arrive("huge", 5), Verdict::Never(_)));
    }

    #[test]
    fn a_draining_node_hands_back_what_waits() {
        let mut admission = Admission::new(1, 10);
        admission.arrive(1, 1);
        admission.arrive(2, 1);
        admission.arrive(3, 1);
        assert!(admission.withdraw(|attempt| *attempt == 2));
        assert_eq!(admission.drain(), [3]);
        assert!(matches!(admission.arrive(4, 1), Verdict::Refuse(_)));
        assert_eq!(admission.leave(1), Vec::<i32>::new());
    }
}

//! The indices of the table follow from the states of the attempts, whatever happens to them.

use super::*;

impl PoolAttempts {
    /// Recomputes every index from the states of the attempts.
    fn assert_consistent(&self) {
        let mut expected: Vec<PeerAttempts> = self.peers.0.iter().map(|peer| new_peer(&peer.name)).collect();
        let mut count = 0;
        for (process, it) in &self.processes {
            let mut queued: Vec<Slot> = it.queue.iter().copied().collect();
            queued.sort();
            let slots = it.slots.values().copied();
            let mut of_state: Vec<Slot> =
                slots.filter(|it| self.attempts[*it].state == PoolAttemptState::Queued).collect();
            of_state.sort();
            assert_eq!(queued, of_state, "queue of {process}");
            let turns = self.turns.iter().filter(|turn| *turn == process).count();
            assert_eq!(turns, usize::from(!it.queue.is_empty()), "turns of {process}");
            for (id, slot) in &it.slots {
                count += 1;
                let attempt = &self.attempts[*slot];
                let key = &attempt.task.key;
                assert_eq!((&key.process, ElementAttempt::from(key)), (process, *id));
                match attempt.state {
                    PoolAttemptState::Assigned { peer, .. } => {
                        expected[peer.0].assigned.insert(*slot);
                        expected[peer.0].used.add(&attempt.task.needs);
                    }
                    PoolAttemptState::AwaitingConnection { coordinator, .. } => {
                        expected[coordinator.0].awaiting.push(key.clone());
                    }
                    PoolAttemptState::Queued | PoolAttemptState::Placing { .. } | PoolAttemptState::Unsettled => {}
                }
            }
        }
        assert_eq!(count, self.attempts.len(), "attempts without a process");
        assert!(self.turns.iter().all(|process| self.processes.contains_key(process)), "turns of unknown processes");
        for (peer, expected) in self.peers.0.iter().zip(&mut expected) {
            let mut awaiting = peer.awaiting.clone();
            awaiting.sort();
            expected.awaiting.sort();
            assert_eq!(awaiting, expected.awaiting, "awaiting {}", peer.name);
            assert_eq!((&peer.assigned, peer.used), (&expected.assigned, expected.used), "assigned to {}", peer.name);
        }
    }
}

fn new_peer(name: &Arc<str>) -> PeerAttempts {
    PeerAttempts { name: name.clone(), assigned: HashSet::new(), awaiting: Vec::new(), used: UsedResources::default() }
}

fn task(key: AttemptKey) -> Task {
    let needs = Needs { cpus: 1 + key.element as u32 % 3, memory: key.element * 10, gpus: 1, ..Needs::default() };
    let job = xavantes_proto::v1::Job::default();
    Task { key, program: Arc::default(), needs, files: Vec::new(), avoid: None, job }
}

#[derive(Debug, Clone)]
enum Operation {
    Insert(AttemptKey, PoolAttemptState),
    Transition(AttemptKey, PoolAttemptState),
    Confirm(AttemptKey, Confirmation),
    Remove(AttemptKey),
    RemoveProcess(Arc<str>),
    TakeTurn { position: usize, peer: PeerIndex },
    ReplacePeer(PeerIndex),
}

const PEERS: usize = 3;

/// A seeded generator (xorshift64*) of operations on few keys, so that they often meet.
struct Generator(u64);

impl Generator {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) % bound
    }

    fn process(&mut self) -> Arc<str> {
        format!("process-{}", self.below(3)).into()
    }

    fn key(&mut self) -> AttemptKey {
        AttemptKey::new(self.process(), self.below(6), 1 + self.below(2) as u32)
    }

    fn peer(&mut self) -> PeerIndex {
        PeerIndex(self.below(PEERS as u64) as usize)
    }

    fn confirmation(&mut self) -> Confirmation {
        use Confirmation::{Adopted, AskWhenRecorded, Asked, Confirmed};
        [Confirmed, Adopted, AskWhenRecorded, Asked][self.below(4) as usize]
    }

    fn state(&mut self) -> PoolAttemptState {
        match self.below(9) {
            0..=2 => PoolAttemptState::Queued,
            3 => PoolAttemptState::Placing { place: None },
            4 => PoolAttemptState::AwaitingConnection { coordinator: self.peer(), since: Duration::ZERO },
            5 => PoolAttemptState::Unsettled,
            _ => PoolAttemptState::Assigned { peer: self.peer(), confirmation: self.confirmation(), epoch: 0 },
        }
    }

    fn operation(&mut self) -> Operation {
        match self.below(22) {
            0..=5 => Operation::Insert(self.key(), self.state()),
            6..=11 => Operation::Transition(self.key(), self.state()),
            12 => Operation::Confirm(self.key(), self.confirmation()),
            13..=15 => Operation::Remove(self.key()),
            16 => Operation::RemoveProcess(self.process()),
            17 => Operation::ReplacePeer(self.peer()),
            _ => Operation::TakeTurn { position: self.below(3) as usize, peer: self.peer() },
        }
    }
}

fn apply(table: &mut PoolAttempts, operation: Operation) {
    match operation {
        Operation::Insert(key, state) => table.insert(PoolAttempt::new(task(key), state)),
        Operation::Transition(key, state) => {
            table.transition(&key, state.clone());
            assert!(table.get(&key).is_none_or(|attempt| *attempt.state() == state));
        }
        Operation::Confirm(key, to) => table.set_confirmation(&key, to),
        Operation::Remove(key) => {
            let known = table.get(&key).is_some();
            assert!(table.remove_if(&key, |_| false).is_none());
            assert_eq!((table.remove(&key).is_some(), table.get(&key).is_none()), (known, true));
        }
        Operation::RemoveProcess(process) => table.remove_process(&process),
        Operation::TakeTurn { position, peer } => {
            let mut expected = None;
            let assigned = table.take_turn(|queue, _| {
                expected = queue.tasks().nth(position).map(|(_, task)| task.key.clone());
                expected.is_some().then_some((position, peer))
            });
            assert_eq!(assigned.as_ref().map(|attempt| &attempt.task.key), expected.as_ref());
            assert!(assigned.is_none_or(|attempt| attempt.is_assigned_to(peer)));
        }
        Operation::ReplacePeer(peer) => {
            if !table.has_assigned(peer) && table.awaiting(peer).is_empty() {
                table.remove_peer(peer);
                assert_eq!(table.add_peer("new peer".into()), peer);
            }
        }
    }
}

fn table() -> PoolAttempts {
    let mut table = PoolAttempts::default();
    for peer in 0..PEERS {
        table.add_peer(format!("peer-{peer}").into());
    }
    table
}

#[test]
fn indices_follow_from_the_states() {
    for seed in 1..=300 {
        let (mut table, mut generator) = (table(), Generator(seed));
        for _ in 0..200 {
            let operation = generator.operation();
            apply(&mut table, operation);
            table.assert_consistent();
        }
    }
}

#[test]
fn processes_take_turns_and_a_refused_task_goes_first() {
    let mut table = table();
    let key = |process: &str, element| AttemptKey::new(process, element, 1);
    for (process, element) in [("p", 1), ("p", 2), ("p", 3), ("q", 4), ("q", 5)] {
        table.insert(PoolAttempt::new(task(key(process, element)), PoolAttemptState::Queued));
    }
    let turn = |table: &mut PoolAttempts| {
        table.take_turn(|_, _| Some((0, PeerIndex(0)))).map(|attempt| attempt.task.key.element)
    };
    assert_eq!([turn(&mut table), turn(&mut table)], [Some(1), Some(4)]);
    table.transition(&key("p", 1), PoolAttemptState::Queued);
    assert!(table.take_turn(|_, _| None).is_none(), "p has its turn and uses it not");
    assert_eq!([turn(&mut table), turn(&mut table)], [Some(5), Some(1)]);
    assert_eq!([turn(&mut table), turn(&mut table), turn(&mut table)], [Some(2), Some(3), None]);
    assert_eq!((table.waiting_processes(), table.assigned_to(PeerIndex(0)).len()), (0, 5));
}

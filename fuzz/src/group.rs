//! The state of a group manager with any messages of nodes, neighbours, coordinators and other managers. Whatever they send,
//! rosters and summaries fit into a message, loans stay within the slots, and the stored state gives the state back.

use std::time::Duration;

use xavantes_group_manager::Options;
use xavantes_group_manager::state::{ManagerState, PlaceAnswer};
use xavantes_proto::{MAX_MESSAGE_BYTES, Message, v1};

use crate::byte_choices::ByteChoices;

/// What a node or neighbour receives in one message, unless it asks for more.
const DEFAULT_MESSAGE_BYTES: usize = 4 << 20;
const FOREIGN_SLOTS: u32 = 6;

fn options() -> Options {
    Options {
        group: "g".into(),
        address: "second".into(),
        managers: vec!["first".into(), "second".into()],
        adjacent: vec!["there".into()],
        foreign_slots: FOREIGN_SLOTS,
        ..Options::default()
    }
}

fn needs(input: &mut ByteChoices<'_>) -> v1::ActivityNeeds {
    let (slots, tags, language) = (input.below(4).into(), vec![name(input)], name(input));
    v1::ActivityNeeds { slots, tags, language, ..v1::ActivityNeeds::default() }
}

/// A name of few possible ones, sometimes one that is too long or not a name.
fn name(input: &mut ByteChoices<'_>) -> String {
    match input.below(16) {
        0 => String::new(),
        1 => "x".repeat(usize::from(input.byte()) << input.below(9)),
        2 => String::from_utf8_lossy(input.bytes()).into_owned(),
        3 => "g".into(),
        number => ["a", "b", "c", "h", "i", "there"][usize::from(number % 6)].into(),
    }
}

fn node(input: &mut ByteChoices<'_>) -> v1::NodeDescription {
    let copies = if input.below(8) == 0 { usize::from(input.byte()) / 8 } else { 0 };
    v1::NodeDescription {
        name: name(input),
        address: name(input),
        roles: (0..input.below(3)).map(|_| i32::from(input.below(5))).collect(),
        slots: input.number() as u32,
        tags: vec![name(input); copies],
        memory: input.number(),
        ..Default::default()
    }
}

fn heartbeat(input: &mut ByteChoices<'_>) -> v1::Heartbeat {
    let impaired = (input.below(8) == 0).then(|| "x".repeat(usize::from(input.byte()) << 12));
    v1::Heartbeat {
        node: (input.below(16) > 0).then(|| node(input)),
        group: name(input),
        busy: input.number() as u32,
        processes: input.number() as u32,
        draining: input.below(8) == 0,
        life: input.number(),
        waiting: input.number() as u32,
        impaired: impaired.map(|error| v1::impairment_reason::Kind::AnswersUnwritable(error).into()),
    }
}

fn summary(input: &mut ByteChoices<'_>) -> v1::GroupSummary {
    v1::GroupSummary {
        group: name(input),
        managers: (0..input.below(10)).map(|_| name(input)).collect(),
        workers: input.number() as u32,
        slots: input.number() as u32,
        free_slots: input.number() as u32,
        coordinators: (0..input.below(4))
            .map(|_| v1::CoordinatorOffer { node: name(input), address: name(input), processes: input.number() as u32 })
            .collect(),
        hops: input.number() as u32,
        via: name(input),
        number: input.number(),
        age_ms: input.number().min(30) * 1000,
    }
}

fn group_state(input: &mut ByteChoices<'_>) -> v1::GroupState {
    if input.below(4) == 0 {
        return v1::GroupState::decode(input.bytes()).unwrap_or_default();
    }
    v1::GroupState {
        leads: input.below(3) > 0,
        epoch: input.number(),
        number: input.number(),
        nodes: (0..input.below(4))
            .map(|_| v1::KnownNode {
                heartbeat: Some(heartbeat(input)),
                drain: input.below(2) == 0,
                silent_ms: input.number(),
                lost: input.below(3) == 0,
            })
            .collect(),
        lent: (0..input.below(3))
            .map(|_| v1::Lent {
                group: name(input),
                coordinator: name(input),
                worker: name(input),
                slots: input.number() as u32,
                left_ms: input.number(),
            })
            .collect(),
        groups: (0..input.below(3)).map(|_| summary(input)).collect(),
        sources: (0..input.below(3)).map(|_| (name(input), format!("/{}", name(input)))).collect(),
        adjacent: (0..input.below(2))
            .map(|_| v1::AdjacentGroup { address: name(input), managers: vec![name(input); 3] })
            .collect(),
        kept_at_ms: input.number(),
    }
}

/// What every message leaves as it must be.
fn check_state(state: &mut ManagerState, lends: bool, now: Duration) {
    assert!(state.roster("a", now).encoded_len() < DEFAULT_MESSAGE_BYTES, "nodes cannot read the roster");
    let summaries = state.summaries_for("a", 1, now);
    assert!(summaries.encoded_len() < DEFAULT_MESSAGE_BYTES, "neighbours cannot read the summaries");
    let wire = state.to_wire(now);
    assert!(wire.encoded_len() < MAX_MESSAGE_BYTES, "other managers cannot read the state");
    if lends {
        let lent: u64 = wire.lent.iter().map(|loan| u64::from(loan.slots)).sum();
        assert!(lent <= FOREIGN_SLOTS.into(), "{lent} slots are lent");
    }
    // What is stored gives the same state, without the loans.
    let again = ManagerState::new(options(), wire.clone(), Duration::ZERO, now).to_wire(now);
    let lasting = |mut state: v1::GroupState| {
        state.groups.retain(|group| group.age_ms <= 10_000);
        v1::GroupState { leads: false, lent: Vec::new(), ..state }
    };
    assert_eq!(lasting(again), lasting(wire));
}

/// Checks a sequence of messages.
pub fn check(bytes: &[u8]) {
    let input = &mut ByteChoices(bytes);
    let mut now = Duration::from_secs(100);
    let stored = group_state(input);
    let mut state = ManagerState::new(options(), stored, Duration::from_millis(input.number()), now);
    // Loans of another manager may follow other settings.
    let mut lends = true;
    while input.has_more() {
        now += Duration::from_millis(input.number().min(20) * 200);
        match input.below(8) {
            0 | 1 => drop(state.on_heartbeat(heartbeat(input), now)),
            2 => {
                let summaries = (0..input.below(4)).map(|_| summary(input)).collect();
                let _ = state.on_summaries(v1::GroupSummaries { group: name(input), summaries }, now);
            }
            3 => {
                let replica = group_state(input);
                lends &= replica.lent.is_empty();
                state.on_replica_state(usize::from(input.below(3)), replica, now);
            }
            4 => drop(state.drain(&name(input))),
            5 => drop(state.tick(now)),
            _ => {
                let request = v1::PlaceRequest {
                    node: name(input),
                    group: name(input),
                    what: i32::from(input.below(4)),
                    renew: name(input),
                    renew_group: name(input),
                    needs: (0..input.below(3)).map(|_| needs(input)).collect(),
                    lenders: vec![name(input)],
                };
                if let PlaceAnswer::Local(answer) = state.place(&request, now) {
                    assert!(answer.slots == 0 || answer.node.is_some(), "slots of no worker are lent");
                }
            }
        }
        check_state(&mut state, lends, now);
    }
}

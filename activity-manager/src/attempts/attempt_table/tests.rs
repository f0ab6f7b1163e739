use super::*;

type Actions = Vec<TableAction<&'static str>>;

fn id(process: &str, element: u64) -> v1::AttemptId {
    v1::AttemptId { process: process.into(), element, attempt: 1 }
}

fn key(realm: &str, process: &str, element: u64) -> RealmAttempt {
    RealmAttempt::new(&realm.into(), &id(process, element))
}

fn connect(
    table: &mut AttemptTable<&'static str>,
    coordinator: &str,
    realm: &str,
) -> (CoordinatorStream, Welcome, Actions) {
    table.connect(&coordinator.into(), &realm.into())
}

/// A job of process `p` that needs one slot.
fn arrive(
    table: &mut AttemptTable<&'static str>,
    stream: &CoordinatorStream,
    element: u64,
    job: &'static str,
) -> Actions {
    table.on_job(stream, stream.attempt(&id("p", element)), 1, Ok(ReadyJob { needs: Resources::slots(1), job }))
}

fn claim(epoch: u64) -> Vec<v1::Claim> {
    vec![v1::Claim { process: "p".into(), epoch }]
}

fn done(key: &RealmAttempt) -> v1::Answer {
    key.answer(Outcome::Completed(v1::Completed::default()))
}

fn send_answer(to: &str, answer: v1::Answer) -> TableAction<&'static str> {
    TableAction::Send(to.into(), WorkerReport::Answer(Arc::new(answer)))
}

fn persist_answer(key: &RealmAttempt, owner: &str, answer: v1::Answer) -> TableAction<&'static str> {
    persist(key, &owner.into(), &Arc::new(answer))
}

fn known(to: &str, running: &[v1::AttemptId], answered: &[v1::AttemptId]) -> TableAction<&'static str> {
    let (running, answered) = (running.to_vec(), answered.to_vec());
    TableAction::Send(to.into(), WorkerReport::Known(v1::Known { processes: vec!["p".into()], running, answered }))
}

/// Runs an attempt of process `p` until its answer is durable and sent.
fn answered(table: &mut AttemptTable<&'static str>, stream: &CoordinatorStream, element: u64) -> RealmAttempt {
    let key = stream.attempt(&id("p", element));
    assert_eq!(arrive(table, stream, element, "job"), [TableAction::Start("job")]);
    assert_eq!(table.on_finished(&key, done(&key)), [persist_answer(&key, &stream.coordinator, done(&key))]);
    assert_eq!(table.on_persisted(&key), [send_answer(&stream.coordinator, done(&key))]);
    key
}

#[test]
fn an_answer_is_sent_when_durable_and_forgotten_when_acknowledged() {
    let mut table = AttemptTable::new(Resources::slots(1), 1);
    let (a, welcome, actions) = connect(&mut table, "g/a", "r");
    assert_eq!((welcome, actions), (Welcome::default(), vec![]));
    assert_eq!(arrive(&mut table, &a, 1, "one"), [TableAction::Start("one")]);
    assert_eq!(arrive(&mut table, &a, 1, "one"), []);
    assert_eq!(arrive(&mut table, &a, 2, "two"), []);
    assert_eq!(table.load(), Load { slots: 1, queued: 1 });
    let (one, two) = (key("r", "p", 1), key("r", "p", 2));
    assert_eq!(
        table.on_finished(&one, done(&one)),
        [persist_answer(&one, "g/a", done(&one)), TableAction::Start("two")]
    );
    assert!(table.is_persisting());
    // The answer is not durable yet: there is nothing to acknowledge, and sending the job again has no effect.
    assert_eq!(table.acknowledge(&a, &id("p", 1)), []);
    assert_eq!(arrive(&mut table, &a, 1, "one"), []);
    assert_eq!(table.on_persisted(&one), [send_answer("g/a", done(&one))]);
    assert_eq!(table.on_persisted(&one), []);
    assert!(!table.is_persisting());
    assert_eq!(arrive(&mut table, &a, 1, "one"), [send_answer("g/a", done(&one))]);
    assert_eq!(table.acknowledge(&a, &id("p", 1)), [TableAction::Forget(one.clone())]);
    assert_eq!(table.acknowledge(&a, &id("p", 1)), []);
    assert_eq!(table.cancel(&a, &id("p", 2)), [TableAction::Stop("two")]);
    assert_eq!(table.on_finished(&two, done(&two)), [persist_answer(&two, "g/a", done(&two))]);
    assert_eq!(table.load(), Load { slots: 0, queued: 0 });
}

#[test]
fn orders_of_a_coordinator_that_lost_the_process_have_no_effect() {
    let mut table = AttemptTable::new(Resources::slots(2), 1);
    let (a, ..) = connect(&mut table, "g/a", "r");
    let (b, ..) = connect(&mut table, "g/b", "r");
    arrive(&mut table, &a, 1, "one");
    assert_eq!(table.claim(&b, claim(2)), [known("g/b", &[id("p", 1)], &[])]);
    // These orders come after the claim of another coordinator.
    assert_eq!(arrive(&mut table, &a, 2, "two"), []);
    assert_eq!(arrive(&mut table, &a, 1, "one"), []);
    let nothing = v1::Known::default();
    assert_eq!(table.claim(&a, claim(1)), [TableAction::Send("g/a".into(), WorkerReport::Known(nothing))]);
    assert_eq!(table.cancel(&b, &id("p", 1)), [TableAction::Stop("one")]);
    assert_eq!(table.load(), Load { slots: 1, queued: 0 });
    let two = key("r", "p", 2);
    assert_eq!(
        table.on_job(&b, two, 2, Ok(ReadyJob { needs: Resources::slots(1), job: "two" })),
        [TableAction::Start("two")]
    );
}

#[test]
fn a_refused_attempt_leaves_no_trace() {
    let mut table = AttemptTable::new(Resources::slots(1), 0);
    let (a, ..) = connect(&mut table, "g/a", "r");
    arrive(&mut table, &a, 1, "one");
    for _ in 0..2 {
        let [TableAction::Send(_, WorkerReport::Answer(answer))] = &arrive(&mut table, &a, 2, "two")[..] else {
            panic!()
        };
        assert!(matches!(&answer.outcome, Some(Outcome::Refused(refusal)) if !refusal.permanent));
    }
    let refusal = v1::Refusal::permanent(refusal_reason::Kind::InvalidJob("unfit".into()));
    let unfit = key("r", "p", 3);
    let answer = unfit.answer(Outcome::Refused(refusal.clone()));
    assert_eq!(table.on_job(&a, unfit, 1, Err(refusal)), [send_answer("g/a", answer)]);
    assert_eq!(connect(&mut table, "g/a", "r").1, Welcome { running: vec![id("p", 1)], answered: vec![] });
}

#[test]
fn a_coordinator_that_reconnects_receives_what_it_missed() {
    let mut table = AttemptTable::new(Resources::slots(3), 0);
    let (a, ..) = connect(&mut table, "g/a", "r");
    let (b, ..) = connect(&mut table, "g/b", "r");
    let one = answered(&mut table, &a, 1);
    arrive(&mut table, &a, 2, "two");
    arrive(&mut table, &a, 3, "three");
    arrive(&mut table, &b, 4, "other");
    let (two, three) = (key("r", "p", 2), key("r", "p", 3));
    let (ticket, actions) = table.on_call(&two, v1::SharedCall::default());
    let call = Arc::new(v1::SharedCall { ticket, ..v1::SharedCall::default() });
    assert_eq!(actions, [TableAction::Send("g/a".into(), WorkerReport::Call(call.clone()))]);
    table.disconnect(&a);
    assert_eq!(table.listener(&two), None);
    // While the coordinator is disconnected, the answer becomes durable but is not sent.
    assert_eq!(table.on_finished(&three, done(&three)), [persist_answer(&three, "g/a", done(&three))]);
    let (a, welcome, actions) = connect(&mut table, "g/a", "r");
    assert_eq!(welcome, Welcome { running: vec![id("p", 2), id("p", 3)], answered: vec![id("p", 1)] });
    assert_eq!(actions, [send_answer("g/a", done(&one)), TableAction::Send("g/a".into(), WorkerReport::Call(call))]);
    table.disconnect(&a);
    assert_eq!(table.on_persisted(&three), []);
    let (_, welcome, actions) = connect(&mut table, "g/a", "r");
    assert_eq!((welcome.running.len(), welcome.answered.len(), actions.len()), (1, 2, 3));
}

#[test]
fn orders_on_an_older_stream_have_no_effect() {
    let mut table = AttemptTable::new(Resources::slots(2), 2);
    let (former, ..) = connect(&mut table, "g/a", "r");
    let one = answered(&mut table, &former, 1);
    arrive(&mut table, &former, 2, "two");
    let (ticket, _) = table.on_call(&key("r", "p", 2), v1::SharedCall::default());
    let (a, ..) = connect(&mut table, "g/a", "r");
    assert!(!table.is_current(&former));
    assert_eq!(arrive(&mut table, &former, 3, "late"), []);
    assert_eq!(table.cancel(&former, &id("p", 2)), []);
    assert_eq!(table.acknowledge(&former, &id("p", 1)), []);
    assert_eq!(table.claim(&former, claim(1)), []);
    assert!(!table.on_reply(&former, ticket));
    table.disconnect(&former);
    assert!(table.is_current(&a));
    assert!(table.on_reply(&a, ticket));
    assert!(!table.on_reply(&a, ticket));
    assert_eq!(table.acknowledge(&a, &id("p", 1)), [TableAction::Forget(one)]);
}

#[test]
fn a_claim_moves_attempts_and_answers_to_the_new_owner() {
    let mut table = AttemptTable::new(Resources::slots(3), 0);
    let (a, ..) = connect(&mut table, "g/a", "r");
    let one = answered(&mut table, &a, 1);
    arrive(&mut table, &a, 2, "two");
    let (two, three) = (key("r", "p", 2), key("r", "p", 3));
    arrive(&mut table, &a, 3, "three");
    let (ticket, _) = table.on_call(&two, v1::SharedCall::default());
    table.on_finished(&three, done(&three));
    let (stranger, ..) = connect(&mut table, "g/c", "other");
    assert_eq!(table.claim(&stranger, claim(9)), [known("g/c", &[], &[])]);
    let (b, welcome, _) = connect(&mut table, "g/b", "r");
    assert_eq!(welcome, Welcome::default());
    let call = Arc::new(v1::SharedCall { ticket, ..v1::SharedCall::default() });
    let expected = [
        known("g/b", &[id("p", 2), id("p", 3)], &[id("p", 1)]),
        persist_answer(&one, "g/b", done(&one)),
        send_answer("g/b", done(&one)),
        persist_answer(&three, "g/b", done(&three)),
        TableAction::Send("g/b".into(), WorkerReport::Call(call)),
    ];
    assert_eq!(table.claim(&b, claim(2)), expected);
    // The former owner can no longer decide, and an answer that becomes durable later goes to the new owner.
    assert_eq!(table.acknowledge(&a, &id("p", 1)), []);
    assert_eq!(table.cancel(&a, &id("p", 2)), []);
    assert!(!table.on_reply(&a, ticket));
    assert_eq!(table.on_persisted(&three), [send_answer("g/b", done(&three))]);
    assert_eq!(table.listener(&two), Some(&"g/b".into()));
    assert_eq!(table.acknowledge(&b, &id("p", 1)), [TableAction::Forget(one)]);
    assert_eq!(table.cancel(&b, &id("p", 2)), [TableAction::Stop("two")]);
    // The former owner finds none of its attempts when it connects again.
    assert_eq!(connect(&mut table, "g/a", "r").1, Welcome::default());
}

#[test]
fn attempts_of_another_realm_are_disowned_on_connect() {
    let mut table = AttemptTable::new(Resources::slots(3), 2);
    let (a, ..) = connect(&mut table, "g/a", "r");
    let (b, ..) = connect(&mut table, "g/b", "r");
    let theirs = answered(&mut table, &b, 9);
    let one = answered(&mut table, &a, 1);
    arrive(&mut table, &a, 2, "two");
    arrive(&mut table, &a, 3, "three");
    arrive(&mut table, &b, 8, "b's");
    arrive(&mut table, &a, 4, "waits");
    let (two, three) = (key("r", "p", 2), key("r", "p", 3));
    table.on_finished(&three, done(&three));
    arrive(&mut table, &a, 5, "waits too");
    assert_eq!(table.load(), Load { slots: 3, queued: 1 });
    let (_, welcome, actions) = connect(&mut table, "g/a", "s");
    assert_eq!(welcome, Welcome::default());
    assert_eq!(actions, [TableAction::Forget(one), TableAction::Stop("two"), TableAction::Stop("waits")]);
    // Disowned attempts occupy their slots until they have stopped.
    assert_eq!(table.load(), Load { slots: 3, queued: 0 });
    assert_eq!(table.on_finished(&two, done(&two)), []);
    assert_eq!(table.load(), Load { slots: 2, queued: 0 });
    assert_eq!(table.on_persisted(&three), [TableAction::Forget(three)]);
    // Other coordinators of the realm keep their attempts.
    assert_eq!(connect(&mut table, "g/b", "r").1, Welcome { running: vec![id("p", 8)], answered: vec![id("p", 9)] });
    // In its former realm the coordinator does not see the stopping attempt, and cannot run it twice at once.
    let (a, welcome, _) = connect(&mut table, "g/a", "r");
    assert_eq!(welcome, Welcome::default());
    let four = key("r", "p", 4);
    let [TableAction::Send(_, WorkerReport::Answer(answer))] = &arrive(&mut table, &a, 4, "four")[..] else { panic!() };
    assert!(matches!(&answer.outcome, Some(Outcome::Refused(refusal)) if !refusal.permanent));
    assert_eq!(table.on_finished(&four, done(&four)), []);
    assert_eq!(arrive(&mut table, &a, 4, "four"), [TableAction::Start("four")]);
    assert_eq!(table.claim(&a, claim(1))[1], persist_answer(&theirs, "g/a", done(&theirs)));
}

#[test]
fn a_cancelled_large_attempt_no_longer_blocks_those_behind_it() {
    let mut table = AttemptTable::new(Resources::slots(2), 9);
    let (a, ..) = connect(&mut table, "g/a", "r");
    arrive(&mut table, &a, 1, "small");
    let large = key("r", "p", 2);
    assert_eq!(table.on_job(&a, large.clone(), 1, Ok(ReadyJob { needs: Resources::slots(2), job: "large" })), []);
    assert_eq!(arrive(&mut table, &a, 3, "behind"), []);
    let answer = large.answer(Outcome::Cancelled(v1::Nothing {}));
    assert_eq!(table.cancel(&a, &id("p", 2)), [persist_answer(&large, "g/a", answer), TableAction::Start("behind")]);
}

#[test]
fn draining_hands_back_queued_attempts_and_keeps_running_ones() {
    let mut table = AttemptTable::new(Resources::slots(1), 9);
    let (a, ..) = connect(&mut table, "g/a", "r");
    arrive(&mut table, &a, 1, "runs");
    arrive(&mut table, &a, 2, "waits");
    let two = key("r", "p", 2);
    let refusal = v1::Refusal::for_now(refusal_reason::Kind::Draining(v1::Nothing {}));
    let back = send_answer("g/a", two.answer(Outcome::Refused(refusal)));
    assert_eq!(table.drain(), [TableAction::Send("g/a".into(), WorkerReport::Draining), back]);
    assert_eq!(table.stop_all(), [TableAction::Stop("runs")]);
    let (_, welcome, actions) = connect(&mut table, "g/a", "r");
    assert_eq!(welcome, Welcome { running: vec![id("p", 1)], answered: vec![] });
    assert_eq!(actions, [TableAction::Send("g/a".into(), WorkerReport::Draining)]);
}

#[test]
fn a_recall_hands_back_only_the_queued_attempts_of_its_coordinator() {
    let mut table = AttemptTable::new(Resources::slots(1), 9);
    let ((a, ..), (b, ..)) = (connect(&mut table, "g/a", "r"), connect(&mut table, "g/b", "s"));
    arrive(&mut table, &a, 1, "runs");
    arrive(&mut table, &a, 2, "waits");
    arrive(&mut table, &b, 3, "waits for another");
    let refusal = v1::Refusal::for_now(refusal_reason::Kind::Recalled(v1::Nothing {}));
    let back = send_answer("g/a", key("r", "p", 2).answer(Outcome::Refused(refusal)));
    assert_eq!(table.recall(&a), [back]);
    assert_eq!((table.recall(&a), table.load()), (Vec::new(), Load { slots: 1, queued: 1 }));
}

#[test]
fn a_coordinator_learns_how_many_slots_others_use_when_that_changes() {
    let mut table = AttemptTable::new(Resources::slots(4), 9);
    let ((a, ..), (b, ..)) = (connect(&mut table, "g/a", "r"), connect(&mut table, "g/b", "s"));
    assert_eq!(table.running(&a, |_| 0), None);
    arrive(&mut table, &b, 1, "one");
    let large = ReadyJob { needs: Resources::slots(2), job: "large" };
    table.on_job(&b, b.attempt(&id("p", 2)), 1, Ok(large));
    assert_eq!(table.running(&a, |_| 0), Some(v1::Running { slots_of_others: 3, ..v1::Running::default() }));
    assert_eq!(table.running(&a, |_| 0), None, "it knows");
    assert_eq!(table.running(&b, |_| 0).map(|it| (it.attempts.len(), it.slots_of_others)), Some((2, 0)));
    assert!(table.running(&b, |_| 0).is_some(), "its attempts run");
    let one = key("s", "p", 1);
    table.on_finished(&one, done(&one));
    assert_eq!(table.running(&a, |_| 0), Some(v1::Running { slots_of_others: 2, ..v1::Running::default() }));
    // A new stream has got no reports.
    let (a, ..) = connect(&mut table, "g/a", "r");
    assert_eq!(table.running(&a, |_| 0), Some(v1::Running { slots_of_others: 2, ..v1::Running::default() }));
}

#[test]
fn attempts_behind_a_recalled_large_one_start() {
    let mut table = AttemptTable::new(Resources::slots(2), 9);
    let ((a, ..), (b, ..)) = (connect(&mut table, "g/a", "r"), connect(&mut table, "g/b", "s"));
    arrive(&mut table, &a, 1, "runs");
    let large = ReadyJob { needs: Resources::slots(2), job: "large" };
    assert!(table.on_job(&a, a.attempt(&id("p", 2)), 1, Ok(large)).is_empty());
    assert!(arrive(&mut table, &b, 3, "behind the large one").is_empty());
    let actions = table.recall(&a);
    assert!(matches!(&actions[..], [TableAction::Send(..), TableAction::Start("behind the large one")]), "{actions:?}");
    assert_eq!(table.load(), Load { slots: 2, queued: 0 });
}

#[test]
fn a_worker_that_cannot_write_answers_all_the_same_and_takes_nothing_new() {
    let mut table = AttemptTable::new(Resources::slots(1), 9);
    let (a, ..) = connect(&mut table, "g/a", "r");
    let (one, two) = (key("r", "p", 1), key("r", "p", 2));
    arrive(&mut table, &a, 1, "one");
    arrive(&mut table, &a, 2, "two");
    assert_eq!(table.running(&a, |_| 0).unwrap().attempts, [id("p", 1)]);
    assert_eq!(table.on_finished(&one, done(&one))[0], persist_answer(&one, "g/a", done(&one)));
    arrive(&mut table, &a, 3, "three");
    let reason = v1::ImpairmentReason::from(v1::impairment_reason::Kind::AnswersUnwritable("full".into()));
    let impaired = refusal_reason::Kind::Impaired(reason.clone());
    let refused = |element| {
        let refusal = v1::Refusal::for_now(impaired.clone());
        send_answer("g/a", key("r", "p", element).answer(Outcome::Refused(refusal)))
    };
    let inform = |reason| TableAction::Send("g/a".into(), WorkerReport::Impairment(v1::Impairment { reason }));
    assert_eq!(table.set_impaired(Some(reason.clone())), [inform(Some(reason.clone())), refused(3)]);
    assert!(table.set_impaired(Some(reason.clone())).is_empty());
    assert_eq!(table.on_unwritable(&one), [send_answer("g/a", done(&one))]);
    assert_eq!(arrive(&mut table, &a, 4, "four"), [refused(4)]);
    // What runs goes on, and its answer is sent too.
    assert_eq!(table.running(&a, |_| 0).unwrap().attempts, [id("p", 2)]);
    table.on_finished(&two, done(&two));
    assert_eq!(table.on_unwritable(&two), [send_answer("g/a", done(&two))]);
    assert!(!table.is_persisting());
    // A coordinator that connects learns of it, and gets the answers again.
    let (a, welcome, actions) = connect(&mut table, "g/a", "r");
    assert_eq!(welcome.answered, [id("p", 1), id("p", 2)]);
    assert_eq!(actions.last(), Some(&inform(Some(reason))));
    assert_eq!(table.acknowledge(&a, &id("p", 1)), [TableAction::Forget(one.clone())]);
    // The disk has space again.
    assert!(table.on_persisted(&one).is_empty() && table.on_persisted(&two).is_empty());
    assert_eq!(table.set_impaired(None), [inform(None)]);
    assert_eq!(arrive(&mut table, &a, 5, "five"), [TableAction::Start("five")]);
}

#[test]
fn restored_answers_are_offered_to_their_owners() {
    let mut table = AttemptTable::<&str>::new(Resources::slots(1), 1);
    let (one, two) = (key("r", "p", 1), key("r", "p", 2));
    table.restore(OwnedAnswer { attempt: one.clone(), owner: "g/a".into(), answer: Arc::new(done(&one)) });
    table.restore(OwnedAnswer { attempt: two.clone(), owner: "g/b".into(), answer: Arc::new(done(&two)) });
    let (_, welcome, actions) = connect(&mut table, "g/a", "r");
    assert_eq!(welcome, Welcome { running: vec![], answered: vec![id("p", 1)] });
    assert_eq!(actions, [send_answer("g/a", done(&one))]);
    let (_, welcome, actions) = connect(&mut table, "g/b", "s");
    assert_eq!((welcome, actions), (Welcome::default(), vec![TableAction::Forget(two)]));
    assert_eq!(table.load(), Load { slots: 0, queued: 0 });
}

#[test]
fn a_coordinator_with_too_many_unacknowledged_answers_gets_its_queue_back_and_nothing_new() {
    let mut table = AttemptTable::new(Resources::slots(1), 9);
    let (a, ..) = connect(&mut table, "g/a", "r");
    let (b, ..) = connect(&mut table, "g/b", "r");
    let large = |key: &RealmAttempt| {
        let results = vec![v1::Value { kind: Some(v1::value::Kind::Text("x".repeat(130 << 20))) }];
        key.answer(Outcome::Completed(v1::Completed { results }))
    };
    let one = key("r", "p", 1);
    arrive(&mut table, &a, 1, "one");
    arrive(&mut table, &a, 2, "two");
    arrive(&mut table, &b, 3, "three");
    let is_refusal = |action: &TableAction<&'static str>| match action {
        TableAction::Send(to, WorkerReport::Answer(answer)) => {
            **to == *"g/a" && matches!(&answer.outcome, Some(Outcome::Refused(it)) if !it.permanent)
        }
        _ => false,
    };
    let informed = |action: &TableAction<&'static str>| match action {
        TableAction::Send(to, WorkerReport::Impairment(impairment)) if **to == *"g/a" => {
            Some(impairment.reason.is_some())
        }
        _ => None,
    };
    // The queued attempt returns, its coordinator learns why, and that of the other coordinator starts.
    let actions = table.on_finished(&one, large(&one));
    assert_eq!(actions.len(), 4);
    assert!(is_refusal(&actions[1]));
    assert_eq!(informed(&actions[2]), Some(true));
    assert_eq!(actions[3], TableAction::Start("three"));
    assert!(is_refusal(&arrive(&mut table, &a, 4, "four")[0]));
    // A coordinator that takes the process over has the answers then.
    table.on_persisted(&one);
    table.claim(&b, claim(2));
    assert_eq!(table.inform_of_backlogs().iter().find_map(informed), Some(false));
    table.claim(&a, claim(3));
    assert_eq!(table.inform_of_backlogs().iter().find_map(informed), Some(true));
    table.acknowledge(&a, &id("p", 1));
    assert_eq!(table.inform_of_backlogs().iter().find_map(informed), Some(false));
    let ready = ReadyJob { needs: Resources::slots(1), job: "four" };
    assert_eq!(table.on_job(&a, a.attempt(&id("p", 4)), 3, Ok(ready)), []);
    assert_eq!(table.load(), Load { slots: 1, queued: 1 });
}

#[test]
fn a_late_write_of_a_former_answer_does_not_cost_a_slot() {
    let mut table = AttemptTable::new(Resources::slots(1), 0);
    let (a, ..) = connect(&mut table, "g/a", "r");
    let one = answered(&mut table, &a, 1);
    // The answer is written again for a new owner, which acknowledges it before that, and sends the attempt again.
    let (b, ..) = connect(&mut table, "g/b", "r");
    assert_eq!(table.claim(&b, claim(2))[1], persist_answer(&one, "g/b", done(&one)));
    assert_eq!(table.acknowledge(&b, &id("p", 1)), [TableAction::Forget(one.clone())]);
    let again = ReadyJob { needs: Resources::slots(1), job: "again" };
    assert_eq!(table.on_job(&b, one.clone(), 2, Ok(again)), [TableAction::Start("again")]);
    let (_, _, actions) = connect(&mut table, "g/b", "s");
    assert_eq!(actions, [TableAction::Stop("again")]);
    assert_eq!(table.on_persisted(&one), []);
    assert_eq!(table.on_finished(&one, done(&one)), []);
    assert_eq!(table.load(), Load { slots: 0, queued: 0 });
}

#[test]
fn an_unwanted_answer_that_cannot_be_written_is_forgotten() {
    let mut table = AttemptTable::new(Resources::slots(1), 0);
    let (a, ..) = connect(&mut table, "g/a", "r");
    let one = key("r", "p", 1);
    arrive(&mut table, &a, 1, "one");
    table.on_finished(&one, done(&one));
    connect(&mut table, "g/a", "s");
    assert_eq!(table.on_unwritable(&one), [TableAction::Forget(one)]);
    let (a, ..) = connect(&mut table, "g/a", "r");
    assert_eq!(arrive(&mut table, &a, 1, "one"), [TableAction::Start("one")]);
}

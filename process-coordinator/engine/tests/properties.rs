//! Random processes under random inputs: failures, lost attempts, cancels, pauses, repeated answers and crashes at any
//! moment. The checks of the invariants run at every step.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use proptest::prelude::*;
use xavantes_engine::{
    Action, Answer, Command, ElementId, Engine, EngineState, Event, Failure, FailureKind, Input, Rejection, SharedCall,
    Start, StepOutput, StopReason, Time,
};
use xavantes_model::definition::{Kind, NodeId, Program};
use xavantes_model::diagnostic::Source;
use xavantes_model::load::load;
use xavantes_model::script::{Limits, Sandbox};
use xavantes_model::shared::Method;
use xavantes_model::value::Value;

/// An element of a random definition.
#[derive(Debug, Clone)]
enum Tree {
    Activity,
    Call,
    Node { tag: &'static str, elements: Vec<Tree>, options: Options },
}

/// Attributes and handlers of a random element.
#[derive(Debug, Clone)]
struct Options {
    retries: u8,
    delay: bool,
    timeout: bool,
    on_failure: u8,
    join: u8,
    max: u8,
    exit: u8,
    turns: u8,
    catch: bool,
    finally: bool,
    code: bool,
    links: u64,
    delegate: bool,
}

fn options() -> impl Strategy<Value = Options> {
    let numbers = (0..3u8, 0..8u8, 0..5u8, 0..4u8, 0..6u8, 0..5u8, any::<u64>());
    let flags = (any::<bool>(), 0..5u8, 0..4u8, 0..4u8, any::<bool>(), 0..6u8);
    (numbers, flags).prop_map(|((retries, on_failure, join, max, exit, turns, links), flags)| {
        let (delay, timeout, catch, finally, code, delegate) = flags;
        Options {
            retries,
            delay,
            timeout: timeout == 0,
            on_failure,
            join,
            max,
            exit,
            turns,
            catch: catch == 0,
            finally: finally == 0,
            code,
            links,
            delegate: delegate == 0,
        }
    })
}

fn trees() -> impl Strategy<Value = Tree> {
    let leaf = prop_oneof![6 => Just(Tree::Activity), 1 => Just(Tree::Call)];
    leaf.prop_recursive(4, 30, 4, |inner| {
        let tags =
            prop::sample::select(vec!["BLOCK", "SWITCH", "FOR", "WHILE", "PAR", "PARSWITCH", "PARFOR", "PARWHILE"]);
        (tags, proptest::collection::vec(inner, 0..4), options()).prop_map(|(tag, elements, options)| Tree::Node {
            tag,
            elements,
            options,
        })
    })
}

fn document(trees: &[Tree]) -> String {
    let mut body = String::new();
    trees.iter().enumerate().for_each(|(index, tree)| element(tree, index, "", &mut body));
    format!(
        r#"<XAVANTES VERSION="1">
<PROCESS_TYPE NAME="Main"><OUT_PARAMETER TYPE="RemoteSet" NAME="seen"/><BODY>
<PRE_CODE>seen = RemoteSet.new()</PRE_CODE>{body}</BODY></PROCESS_TYPE>
<PROCESS_TYPE NAME="Sub"><IN_PARAMETER TYPE="RemoteSet" NAME="set" OPTIONAL="true"/><BODY>
<ACTIVITY TYPE="A" NAME="one" set="${{set}}"/><ACTIVITY TYPE="A" NAME="two" RETRIES="1" set="${{set}}"/></BODY></PROCESS_TYPE>
<ACTIVITY_TYPE NAME="A"><IN_PARAMETER TYPE="RemoteSet" NAME="set" OPTIONAL="true"/>
<OUT_PARAMETER TYPE="int" NAME="value"/><CODE LANGUAGE="lua">value = 1</CODE></ACTIVITY_TYPE>
</XAVANTES>"#
    )
}

fn element(tree: &Tree, index: usize, extra: &str, out: &mut String) {
    let name = format!("e{index}");
    match tree {
        Tree::Activity => out.push_str(&format!(r#"<ACTIVITY TYPE="A" NAME="{name}" set="${{seen}}"{extra}/>"#)),
        Tree::Call => out.push_str(&format!(r#"<PROCESS TYPE="Sub" NAME="{name}" set="${{seen}}"{extra}/>"#)),
        Tree::Node { tag, elements, options: o } => {
            out.push_str(&format!(r#"<{tag} NAME="{name}"{extra} RETRIES="{}""#, o.retries));
            if o.delay {
                out.push_str(r#" RETRY_DELAY="1s""#);
            }
            if o.timeout {
                out.push_str(r#" TIMEOUT="20s""#);
            }
            out.push_str(match o.on_failure {
                0 => r#" ON_FAILURE="continue""#,
                1 => r#" ON_FAILURE="hold""#,
                _ => "",
            });
            out.push_str(if o.delegate { r#" DELEGATE="always""# } else { r#" DELEGATE="never""# });
            let parallel = tag.starts_with("PAR");
            if parallel && o.join < 3 {
                out.push_str(&format!(r#" JOIN="{}""#, o.join + 1));
            }
            if parallel && o.max > 0 {
                out.push_str(&format!(r#" MAX_PARALLEL="{}""#, o.max));
            }
            if parallel && o.exit == 0 {
                out.push_str(r#" EXIT_CONDITION="completed + failed > 1 and running &lt; 3""#);
            }
            match *tag {
                "FOR" | "PARFOR" if o.code => out.push_str(&format!(r#" EACH="${{table.create({}, 7)}}""#, o.turns)),
                "FOR" | "PARFOR" => out.push_str(&format!(r#" FROM="5" TO="{}" STEP="-1""#, 6 - i64::from(o.turns))),
                "WHILE" | "PARWHILE" => out.push_str(&format!(r#" CONDITION="counter &lt;= {}""#, o.turns)),
                _ => {}
            }
            let collects = matches!(*tag, "FOR" | "PARFOR" | "WHILE" | "PARWHILE") && o.exit % 2 == 0;
            if collects {
                out.push_str(r#" COLLECT="counter""#);
            }
            out.push('>');
            if o.code {
                out.push_str(r#"<INOUT_PARAMETER TYPE="int" NAME="n" DEFAULT="0"/><PRE_CODE>n = n + 1</PRE_CODE>"#);
                out.push_str("<POST_CODE>n = n + 1</POST_CODE>");
            }
            children(tag, elements, o, out);
            if o.catch {
                out.push_str(r#"<CATCH><ACTIVITY TYPE="A" NAME="c"/></CATCH>"#);
            }
            if o.finally {
                out.push_str(r#"<FINALLY><ACTIVITY TYPE="A" NAME="f"/></FINALLY>"#);
            }
            out.push_str(&format!("</{tag}>"));
        }
    }
}

fn children(tag: &str, elements: &[Tree], o: &Options, out: &mut String) {
    let each = |out: &mut String| elements.iter().enumerate().for_each(|(index, tree)| element(tree, index, "", out));
    match tag {
        "BLOCK" => each(out),
        "PAR" => {
            for (index, tree) in elements.iter().enumerate() {
                let after: Vec<String> = (0..index)
                    .filter(|other| o.links >> (index * 8 + other) & 1 == 1)
                    .map(|n| format!("e{n}"))
                    .collect();
                let after = if after.is_empty() { String::new() } else { format!(r#" AFTER="{}""#, after.join(" ")) };
                element(tree, index, &after, out);
            }
        }
        "SWITCH" | "PARSWITCH" => {
            for (index, tree) in elements.iter().enumerate() {
                let holds = o.links >> index & 1 == 1;
                out.push_str(&format!(r#"<CASE CONDITION="{holds}">"#));
                element(tree, index, "", out);
                out.push_str("</CASE>");
            }
            out.push_str(r#"<DEFAULT><ACTIVITY TYPE="A" NAME="d"/></DEFAULT>"#);
        }
        _ => {
            out.push_str(if o.links & 1 == 1 { r#"<ITERATE ON_FAILURE="continue">"# } else { "<ITERATE>" });
            each(out);
            out.push_str("</ITERATE>");
        }
    }
}

/// A generator of random numbers (SplitMix64). The same seed gives the same inputs.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
}

/// What the checker knows about a live element, from events alone.
#[derive(Debug, Clone)]
struct LiveElement {
    parent: Option<ElementId>,
    process: usize,
    node: NodeId,
    site: (usize, NodeId),
    handler: bool,
    finally: bool,
    cancelled: bool,
    ended: BTreeSet<u32>,
}

/// Checks the order of events without the engine's state.
#[derive(Debug, Default)]
struct Checker {
    live: BTreeMap<ElementId, LiveElement>,
    finished: bool,
}

impl Checker {
    fn on_event(&mut self, program: &Program, event: &Event) {
        match event {
            Event::Started { root_process, root, .. } => {
                let id = ElementId { index: 0, generation: 0 };
                let (process, node) = (*root_process as usize, *root);
                self.live.insert(
                    id,
                    LiveElement {
                        parent: None,
                        process,
                        node,
                        site: (process, node),
                        handler: false,
                        finally: false,
                        cancelled: false,
                        ended: BTreeSet::new(),
                    },
                );
            }
            Event::Entered { id, parent, site, .. } => {
                self.on_start(*parent, Some(program), Some(*site));
                let around = &self.live[parent];
                let process = around.process;
                let (controller, node) = (program.node(process, around.node), program.node(process, *site));
                let handler = Some(*site) == controller.catch || Some(*site) == controller.finally;
                if !handler {
                    match &controller.kind {
                        Kind::Sequence => {
                            let before: BTreeSet<u32> = (0..node.position).collect();
                            assert_eq!(around.ended, before, "{} began out of order", node.name);
                        }
                        Kind::Par { dependents, .. } => {
                            for (other, waiting) in dependents.iter().enumerate() {
                                let waits = waiting.contains(&node.position);
                                assert!(!waits || around.ended.contains(&(other as u32)), "{} did not wait", node.name);
                            }
                        }
                        _ => {}
                    }
                }
                let (inner, body) = match node.kind {
                    Kind::Process { process } => (process, NodeId::BODY),
                    _ => (process, *site),
                };
                let element = LiveElement {
                    parent: Some(*parent),
                    process: inner,
                    node: body,
                    site: (process, *site),
                    handler,
                    finally: Some(*site) == controller.finally,
                    cancelled: false,
                    ended: BTreeSet::new(),
                };
                assert!(self.live.insert(*id, element).is_none(), "an id was used twice");
            }
            Event::Sent { id, .. } => self.on_start(*id, None, None),
            Event::Stopping { id, stop: StopReason::Cancelled } => {
                self.live.get_mut(id).expect("the element is live").cancelled = true;
            }
            Event::Restarted { id, .. } => {
                self.on_start(*id, None, None);
                self.live.get_mut(id).expect("the element is live").ended.clear();
            }
            Event::Ended { id, .. } => {
                assert!(
                    !self.live.values().any(|other| other.parent == Some(*id)),
                    "an element ended before its children"
                );
                let ended = self.live.remove(id).expect("the element is live");
                match ended.parent {
                    Some(parent) if !ended.handler => {
                        let position = program.node(ended.site.0, ended.site.1).position;
                        self.live.get_mut(&parent).expect("the parent is live").ended.insert(position);
                    }
                    Some(_) => {}
                    None => self.finished = true,
                }
            }
            _ => {}
        }
    }

    /// Something starts in `id`. No scope around it may have been cancelled, unless it starts in a `FINALLY`.
    fn on_start(&self, id: ElementId, program: Option<&Program>, site: Option<NodeId>) {
        assert!(!self.finished, "an element starts after the end of the process");
        let mut in_handler = match (program, site) {
            (Some(program), Some(site)) => {
                let around = &self.live[&id];
                program.node(around.process, around.node).finally == Some(site)
            }
            _ => false,
        };
        let mut next = Some(id);
        while let Some(id) = next {
            let element = &self.live[&id];
            assert!(!element.cancelled || in_handler, "an element starts in {id} after its cancellation");
            in_handler |= element.finally;
            next = element.parent;
        }
    }
}

/// A driver that makes everything go wrong.
struct Driver {
    program: Arc<Program>,
    engine: Engine,
    sandbox: Sandbox,
    checker: Checker,
    random: Random,
    now: Time,
    journal: Vec<Event>,
    /// Serialised states, each with the length of the journal at that time.
    snapshots: Vec<(usize, Vec<u8>)>,
    /// Outstanding attempts, and whether each is delegated.
    outstanding: BTreeMap<(ElementId, u32), bool>,
    /// Answers that the engine has accepted.
    answered: Vec<Input>,
    /// The engine has work left: the next step must be `Input::Continued`.
    unfinished: bool,
}

const ID: &str = "Main-1";

impl Driver {
    fn new(program: Program, seed: u64) -> Self {
        let program = Arc::new(program);
        let mut out = StepOutput::default();
        let start = Start::new(ID, program.process("Main").unwrap(), Vec::new());
        let engine = Engine::start(program.clone(), start, Time(0), &mut out).unwrap();
        let mut driver = Driver {
            program,
            engine,
            sandbox: Sandbox::new(Limits::CONTROL, false).unwrap(),
            checker: Checker::default(),
            random: Random(seed),
            now: Time(0),
            journal: Vec::new(),
            snapshots: Vec::new(),
            outstanding: BTreeMap::new(),
            answered: Vec::new(),
            unfinished: true,
        };
        driver.on_output(out);
        driver
    }

    fn on_output(&mut self, output: StepOutput) {
        for event in &output.events {
            if std::env::var_os("SHOW_EVENTS").is_some() {
                eprintln!("{} {event:?}", self.now.0);
            }
            self.checker.on_event(&self.program, event);
        }
        self.journal.extend(output.events);
        for command in output.commands {
            match command {
                Command::Dispatch { element, attempt, .. } => {
                    assert!(
                        self.outstanding.insert((element, attempt), false).is_none(),
                        "an attempt was handed out twice"
                    );
                    let others = self.outstanding.keys().filter(|(other, _)| *other == element).count();
                    assert_eq!(others, 1, "two attempts of one element are outstanding");
                }
                Command::Delegate(delegation) => {
                    self.outstanding.insert((delegation.element, delegation.attempt), true);
                }
                Command::Cancel { element, attempt } => {
                    assert!(
                        self.outstanding.contains_key(&(element, attempt)),
                        "a cancel without an outstanding attempt"
                    );
                }
                Command::Continue => self.unfinished = true,
                Command::Finish { .. } | Command::Pause { .. } | Command::Reply { .. } => {}
            }
        }
    }

    fn step(&mut self, input: Input) -> Result<(), Rejection> {
        let mut out = StepOutput::default();
        if std::env::var_os("SHOW_EVENTS").is_some() {
            eprintln!("{} <- {input:?}", self.now.0);
        }
        let verdict = self.engine.step(&mut self.sandbox, input, self.now, &mut out);
        self.on_output(out);
        verdict
    }

    fn answer(&mut self, with_losses: bool) {
        let Some(((element, attempt), delegated)) = self.pick_attempt() else { return };
        let answer = match self.random.below(if with_losses { 12 } else { 6 }) {
            0 | 1 => Answer::Failed(Box::new(Failure::new(FailureKind::Code, "boom"))),
            2 if delegated => Answer::Refused,
            6..=8 => Answer::Lost,
            9 => Answer::Cancelled,
            _ if delegated => Answer::Refused,
            _ => Answer::Completed(vec![Value::Int(1)]),
        };
        self.outstanding.remove(&(element, attempt));
        let input = Input::Answered { element, attempt, answer };
        self.answered.push(input.clone());
        assert_eq!(self.step(input), Ok(()));
    }

    fn pick_attempt(&mut self) -> Option<((ElementId, u32), bool)> {
        let at = self.random.below(self.outstanding.len());
        self.outstanding.iter().nth(at).map(|(key, delegated)| (*key, *delegated))
    }

    /// Repeats an earlier answer, which must change nothing.
    fn repeat_answer(&mut self) {
        if self.answered.is_empty() {
            return;
        }
        let again = self.answered[self.random.below(self.answered.len())].clone();
        let before = self.engine.state().clone();
        let length = self.journal.len();
        // Any input also does the work that the last step left, so only check when none is left.
        if !self.unfinished {
            let verdict = self.step(again);
            assert!(matches!(verdict, Err(Rejection::NotRunning { .. })), "{verdict:?}");
            assert_eq!(self.journal.len(), length, "a repeated answer emitted events");
            assert_eq!(*self.engine.state(), before);
        }
    }

    /// Calls a shared object twice with the same number; the second call must change nothing.
    fn call(&mut self) {
        let Some(((element, attempt), false)) = self.pick_attempt() else { return };
        let object =
            xavantes_model::value::SharedRef { kind: xavantes_model::value::SharedKind::Set, home: ID.into(), id: 0 };
        let call = SharedCall {
            element,
            attempt,
            caller: 0,
            sequence: 1,
            acknowledged: 0,
            object,
            method: Method::Add,
            arguments: vec![Value::Int(self.random.below(5) as i64)],
        };
        let _ = self.step(Input::Called(Box::new(call.clone())));
        let before = self.engine.state().clone();
        let length = self.journal.len();
        if !self.unfinished {
            let _ = self.step(Input::Called(Box::new(call)));
            assert_eq!(self.journal.len(), length, "a repeated call took effect twice");
            assert_eq!(*self.engine.state(), before);
        }
    }

    fn steer(&mut self) {
        let live: Vec<ElementId> = self.checker.live.keys().copied().collect();
        let Some(id) = live.get(self.random.below(live.len())) else { return };
        let path = self.engine.path(*id);
        assert_eq!(self.engine.find(&path), Ok(Some(*id)), "{path} finds another element");
        let set = |key: &str, value: &str| Action::Set { key: key.into(), value: value.into() };
        let action = match self.random.below(14) {
            0 if self.checker.live[id].parent.is_some() || self.random.one_in(6) => Action::Cancel,
            1..=4 => Action::Pause,
            5..=8 => Action::Resume,
            9 => Action::Retry,
            10 => set("MAX_PARALLEL", "2"),
            11 => set("EXIT_CONDITION", "completed > 2"),
            12 => set("TO", "3"),
            _ => set("JOIN", "2"),
        };
        let before = self.engine.state().clone();
        let unfinished = self.unfinished;
        if self.step(Input::Steered { path, action }).is_err() && !unfinished {
            assert_eq!(*self.engine.state(), before, "a rejected action changed the state");
        }
    }

    fn pass_time(&mut self) {
        let ahead = self.random.below(3000) as u64;
        self.now = Time(self.now.0 + ahead);
        let _ = self.step(Input::TimePassed);
    }

    fn act_randomly(&mut self) {
        if self.unfinished {
            self.unfinished = false;
            let _ = self.step(Input::Continued);
        }
        match self.random.below(20) {
            0..=10 => self.answer(true),
            11 | 12 => self.repeat_answer(),
            13 => self.call(),
            14 | 15 => self.steer(),
            16 | 17 => self.pass_time(),
            18 => {
                self.engine.set_capacity(self.random.below(4) as u64);
                self.unfinished = true;
            }
            _ => self.crash(),
        }
        if self.random.one_in(5) {
            let bytes = postcard::to_stdvec(self.engine.state()).unwrap();
            self.snapshots.push((self.journal.len(), bytes));
        }
    }

    /// Replaces the engine by one from the journal, as after a crash of the coordinator.
    fn crash(&mut self) {
        let before = self.engine.state().clone();
        self.engine = Engine::replay(self.program.clone(), EngineState::default(), &self.journal).unwrap();
        assert_eq!(*self.engine.state(), before);
        self.engine.set_capacity(self.random.below(5) as u64);
        self.engine.set_max_delegations(2);
        let mut again = BTreeSet::new();
        for command in self.engine.outstanding() {
            match command {
                Command::Dispatch { element, attempt, .. } => drop(again.insert((element, attempt))),
                Command::Delegate(sent) => drop(again.insert((sent.element, sent.attempt))),
                _ => {}
            }
        }
        assert_eq!(
            again,
            self.outstanding.keys().copied().collect(),
            "the commands of a new engine are not those of the outstanding attempts"
        );
        self.unfinished = true;
    }

    /// Answers all attempts, resumes all pauses and cancels all held elements. The process must end.
    fn settle(&mut self) {
        self.engine.set_capacity(3);
        for _ in 0..20_000 {
            if self.checker.finished {
                return;
            }
            self.unfinished = false;
            let _ = self.step(Input::Continued);
            self.now = Time(self.now.0 + 500);
            let _ = self.step(Input::TimePassed);
            if !self.outstanding.is_empty() {
                self.answer(false);
                continue;
            }
            let live: Vec<ElementId> = self.checker.live.keys().copied().collect();
            for id in live {
                if let Some(view) = self.engine.view(id) {
                    if view.paused {
                        let _ = self.step(Input::Steered { path: view.path.clone(), action: Action::Resume });
                    }
                    if matches!(view.condition, xavantes_engine::Condition::Held(_)) {
                        let _ = self.step(Input::Steered { path: view.path, action: Action::Cancel });
                    }
                }
            }
        }
        let live: Vec<_> = self.checker.live.keys().filter_map(|id| self.engine.view(*id)).collect();
        let last = &self.journal[self.journal.len().saturating_sub(20)..];
        panic!("the process does not end: {live:#?}\noutstanding: {:?}\nlast events: {last:#?}", self.outstanding);
    }
}

fn check(trees: &[Tree], seed: u64, delegations: u64) {
    let text = document(trees);
    let program =
        load(&[Source::new("random.xml", text.as_str())]).unwrap_or_else(|problems| panic!("{problems:#?}\n{text}"));
    let mut driver = Driver::new(program, seed);
    driver.engine.set_capacity(2);
    driver.engine.set_max_delegations(delegations);
    for _ in 0..120 {
        if driver.checker.finished {
            break;
        }
        driver.act_randomly();
    }
    driver.settle();
    let last = driver.engine.state();
    assert_eq!(last.live(), 0, "elements are left");
    assert_eq!(last.shared_objects(), 0, "shared objects are left");
    let counts = last.counts();
    assert_eq!((counts.outstanding, counts.delegated, counts.resting, counts.paused), (0, 0, 0, 0));
    // Every prefix replays. A snapshot with the events after it results in the same state as the whole journal.
    let mut state = EngineState::default();
    let mut snapshots = driver.snapshots.iter().peekable();
    for (length, event) in driver.journal.iter().enumerate() {
        while let Some((_, bytes)) = snapshots.next_if(|(at, _)| *at == length) {
            let snapshot: EngineState = postcard::from_bytes(bytes).unwrap();
            assert_eq!(snapshot, state, "the snapshot after {length} events is not the replayed state");
            let whole = Engine::replay(driver.program.clone(), snapshot, &driver.journal[length..]).unwrap();
            assert_eq!(whole.state(), last);
        }
        state.apply(&driver.program, event).unwrap();
    }
    assert_eq!(state, *last);
    // An engine that replays the journal up to the middle of a step also ends the process.
    let cut = driver.random.below(driver.journal.len()).max(1);
    let mut other = Driver::new(Program::clone(&driver.program), seed);
    other.journal.clear();
    other.checker = Checker::default();
    other.outstanding.clear();
    other.journal.extend_from_slice(&driver.journal[..cut]);
    other.journal.iter().for_each(|event| other.checker.on_event(&driver.program, event));
    other.engine = Engine::replay(driver.program.clone(), EngineState::default(), &driver.journal[..cut]).unwrap();
    other.engine.set_max_delegations(delegations);
    for command in other.engine.outstanding() {
        match command {
            Command::Dispatch { element, attempt, .. } => drop(other.outstanding.insert((element, attempt), false)),
            Command::Delegate(sent) => drop(other.outstanding.insert((sent.element, sent.attempt), true)),
            _ => {}
        }
    }
    other.settle();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases.max(2000), max_shrink_iters: 4000, ..ProptestConfig::default() })]
    #[test]
    fn random_processes_keep_their_invariants(
        trees in proptest::collection::vec(trees(), 1..4),
        seed in any::<u64>(),
        delegations in 0..3u64,
    ) {
        check(&trees, seed, delegations);
    }
}

//! What is kept of a process when it has ended: what became of each element of its definitions, drawn as the tree that
//! its user wrote. Without I/O, clock or threads.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};
use xavantes_engine::{
    Failure, History, Intervention, MAX_RECORDED_FAILURES, MAX_RECORDED_INTERVENTIONS, Root, Tally, Time,
};
use xavantes_model::definition::{Kind, Node, NodeId, Program};
use xavantes_model::diagnostic::did_you_mean;
use xavantes_proto::v1;

use crate::convert::{failure, failure_from};

/// The history of a process or of subtrees of it, wherever they ran. Times are milliseconds since 1970.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Past {
    /// By process type and node.
    tallies: BTreeMap<(u32, u32), Tally>,
    failures: Vec<(Time, Failure)>,
    steered: Vec<Intervention>,
    /// By activity type.
    took: BTreeMap<u32, Took>,
}

/// What attempts of programs took together.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Took {
    attempts: u64,
    wall_ms: u64,
    longest_ms: u64,
    user_ms: u64,
    system_ms: u64,
    peak_memory: u64,
    read_bytes: u64,
    written_bytes: u64,
}

impl Took {
    /// What one attempt took.
    pub fn once(usage: &v1::Usage) -> Self {
        Self {
            attempts: 1,
            wall_ms: usage.wall_ms,
            longest_ms: usage.wall_ms,
            user_ms: usage.user_ms,
            system_ms: usage.system_ms,
            peak_memory: usage.peak_memory,
            read_bytes: usage.read_bytes,
            written_bytes: usage.written_bytes,
        }
    }

    /// Adds what others took.
    pub fn add(&mut self, other: &Self) {
        let sums = [
            (&mut self.attempts, other.attempts),
            (&mut self.wall_ms, other.wall_ms),
            (&mut self.user_ms, other.user_ms),
            (&mut self.system_ms, other.system_ms),
            (&mut self.read_bytes, other.read_bytes),
            (&mut self.written_bytes, other.written_bytes),
        ];
        for (sum, more) in sums {
            *sum = sum.saturating_add(more);
        }
        self.longest_ms = self.longest_ms.max(other.longest_ms);
        self.peak_memory = self.peak_memory.max(other.peak_memory);
    }

    fn to_wire(&self, activity: u32) -> v1::Took {
        v1::Took {
            activity,
            r#type: String::new(),
            attempts: self.attempts,
            wall_ms: self.wall_ms,
            longest_ms: self.longest_ms,
            user_ms: self.user_ms,
            system_ms: self.system_ms,
            peak_memory: self.peak_memory,
            read_bytes: self.read_bytes,
            written_bytes: self.written_bytes,
        }
    }

    fn from_wire(wire: &v1::Took) -> Self {
        Self {
            attempts: wire.attempts,
            wall_ms: wire.wall_ms,
            longest_ms: wire.longest_ms,
            user_ms: wire.user_ms,
            system_ms: wire.system_ms,
            peak_memory: wire.peak_memory,
            read_bytes: wire.read_bytes,
            written_bytes: wire.written_bytes,
        }
    }
}

impl Past {
    /// The history of a process whose clock began at that time.
    pub fn of(history: &History, began_ms: u64) -> Self {
        let when = |time: Time| Time(began_ms.saturating_add(time.0));
        let tally = |tally: &Tally| Tally { first: when(tally.first), last: when(tally.last), ..*tally };
        Self {
            tallies: history.tallies().map(|(place, it)| (place, tally(it))).collect(),
            failures: history.failures().iter().map(|(at, failure)| (when(*at), failure.clone())).collect(),
            steered: history.interventions().map(|it| Intervention { at: when(it.at), ..it.clone() }).collect(),
            took: BTreeMap::new(),
        }
    }

    /// Adds what programs of an activity type took.
    pub fn add_taken(&mut self, activity: u32, took: &Took) {
        self.took.entry(activity).or_default().add(took);
    }

    /// What programs took, by the names of their types.
    pub fn took(&self, program: &Program) -> Vec<v1::Took> {
        let named = |(activity, took): (&u32, &Took)| {
            let r#type = program.activities.get(*activity as usize)?.name.to_string();
            Some(v1::Took { r#type, ..took.to_wire(*activity) })
        };
        self.took.iter().filter_map(named).collect()
    }

    /// Adds what happened elsewhere.
    pub fn add(&mut self, other: &Past) {
        for (place, tally) in &other.tallies {
            self.tallies.entry(*place).or_default().add(tally);
        }
        self.failures.extend(other.failures.iter().cloned());
        self.failures.sort_by_key(|(at, _)| *at);
        self.failures.truncate(MAX_RECORDED_FAILURES);
        self.steered.extend(other.steered.iter().cloned());
        self.steered.sort_by_key(|it| it.at);
        self.steered.drain(..self.steered.len().saturating_sub(MAX_RECORDED_INTERVENTIONS));
        other.took.iter().for_each(|(activity, took)| self.add_taken(*activity, took));
    }

    /// For the wire, and for the repository.
    pub fn to_wire(&self) -> v1::History {
        use v1::remark::What;
        let tally = |(&(process, node), tally): (&(u32, u32), &Tally)| v1::Tally {
            process,
            node,
            began: tally.began,
            completed: tally.completed,
            failed: tally.failed,
            cancelled: tally.cancelled,
            retried: tally.retried,
            lost: tally.lost,
            first_ms: tally.first.0,
            last_ms: tally.last.0,
        };
        let remark = |at: Time, path: &str, what: What| v1::Remark { at_ms: at.0, path: path.into(), what: Some(what) };
        let failures = self.failures.iter().map(|(at, why)| remark(*at, &why.path, What::Failed(failure(why))));
        let steered = self.steered.iter().map(|it| remark(it.at, &it.path, What::Steered(it.what.clone())));
        let mut remarks: Vec<v1::Remark> = failures.chain(steered).collect();
        remarks.sort_by_key(|remark| remark.at_ms);
        let took = self.took.iter().map(|(activity, took)| took.to_wire(*activity)).collect();
        v1::History { tallies: self.tallies.iter().map(tally).collect(), remarks, took }
    }

    /// From the wire, or from the repository.
    pub fn from_wire(wire: v1::History) -> Self {
        let mut past = Self::default();
        for it in wire.tallies {
            let tally = Tally {
                began: it.began,
                completed: it.completed,
                failed: it.failed,
                cancelled: it.cancelled,
                retried: it.retried,
                lost: it.lost,
                first: Time(it.first_ms),
                last: Time(it.last_ms),
            };
            past.tallies.entry((it.process, it.node)).or_default().add(&tally);
        }
        wire.took.iter().for_each(|took| past.add_taken(took.activity, &Took::from_wire(took)));
        for v1::Remark { at_ms, path, what } in wire.remarks {
            match what {
                Some(v1::remark::What::Failed(why)) => past.failures.push((Time(at_ms), failure_from(why))),
                Some(v1::remark::What::Steered(what)) => {
                    past.steered.push(Intervention { at: Time(at_ms), path, what })
                }
                None => {}
            }
        }
        past
    }

    /// What became of the element at a path, and `depth` levels in it, each with so many elements at most.
    pub fn element(
        &self,
        program: &Program,
        (root, id): (Root, &str),
        path: &str,
        (depth, most): (u32, usize),
    ) -> Result<v1::Element, String> {
        let homes = Homes::of(self, program, root, id);
        let (place, path) = self.find(program, root, id, path)?;
        let mut element = self.draw(program, &homes, place, path, depth, most);
        if place.site.is_none() {
            element.remarks = self.to_wire().remarks;
            element.took = self.took(program);
        }
        Ok(element)
    }

    /// The place that a path names: the path itself, with all iterations as one.
    fn find(&self, program: &Program, root: Root, id: &str, path: &str) -> Result<(Place, String), String> {
        let mut place = Place { site: None, process: root.process, node: root.node };
        let rest = path.strip_prefix(id).filter(|rest| rest.is_empty() || rest.starts_with('/'));
        let rest = rest.ok_or_else(|| format!("{path:?} is not in process {id:?}"))?;
        let mut so_far = id.to_owned();
        for segment in rest.split('/').skip(1) {
            let all = || elements(program, place);
            let iteration = segment.starts_with('[') && segment.ends_with(']');
            let is_it = |node: &&Node| match node.tag {
                "ITERATE" => iteration,
                _ => *node.name == *segment,
            };
            let Some(node) = all().find(is_it) else {
                let hint = did_you_mean(segment, all().take(1000).map(|node| &*node.name));
                let hint = hint.map_or_else(String::new, |hint| format!("; {hint}"));
                return Err(format!("{so_far} has no element {segment:?}{hint}"));
            };
            so_far = join(&so_far, node);
            place = Place::of(place.process, node);
            if self.at(place).is_none() {
                return Err(format!("{so_far} never began"));
            }
        }
        Ok((place, so_far))
    }

    /// What became of the elements at a place; nothing is known of the root.
    fn at(&self, place: Place) -> Option<Tally> {
        match place.site {
            Some((process, node)) => self.tallies.get(&(process as u32, node.0)).copied(),
            None => None,
        }
    }

    fn draw(
        &self,
        program: &Program,
        homes: &Homes,
        place: Place,
        path: String,
        depth: u32,
        most: usize,
    ) -> v1::Element {
        let site = place.site.map(|(process, node)| program.node(process, node));
        let tally = self.at(place).unwrap_or_default();
        let number = |count: u64| (tally.began > 1).then_some(count);
        let kind = site.map(|site| &site.kind);
        let mut element = v1::Element {
            tag: site.map_or("PROCESS", |site| site.tag).into(),
            r#type: match kind {
                Some(Kind::Activity { activity }) => program.activities[*activity].name.to_string(),
                Some(Kind::Process { process }) => program.processes[*process].name.to_string(),
                Some(_) => String::new(),
                None => program.processes[place.process].name.to_string(),
            },
            condition: condition(&tally).into(),
            completed: number(tally.completed),
            failed: number(tally.failed),
            cancelled: number(tally.cancelled),
            runs: tally.began,
            retried: tally.retried,
            lost: tally.lost,
            began_ms: tally.first.0,
            ended_ms: tally.last.0,
            ..v1::Element::default()
        };
        let home = homes.0.get(&place.process).filter(|_| place.is_call());
        match home {
            Some(home) if *home != path => element.counted_at.clone_from(home),
            _ if depth == 0 => {}
            _ => {
                let inner = elements(program, place).map(|node| (Place::of(place.process, node), node));
                let mut reached = inner.filter(|(inner, _)| self.at(*inner).is_some());
                let shown = reached.by_ref().take(most);
                element.children = shown
                    .map(|(inner, node)| self.draw(program, homes, inner, join(&path, node), depth - 1, most))
                    .collect();
                element.hidden = reached.count() as u32;
            }
        }
        element.path = path;
        element
    }
}

/// A place of the definitions: where an element stands, and what it runs.
#[derive(Debug, Clone, Copy)]
struct Place {
    /// A node of a process type; the root of a process stands nowhere.
    site: Option<(usize, NodeId)>,
    process: usize,
    node: NodeId,
}

impl Place {
    fn of(process: usize, node: &Node) -> Self {
        let site = Some((process, node.id));
        match node.kind {
            Kind::Process { process } => Self { site, process, node: NodeId::BODY },
            _ => Self { site, process, node: node.id },
        }
    }

    /// Does it run a process type?
    fn is_call(self) -> bool {
        self.node == NodeId::BODY
    }
}

/// The first places from which process types were called: what is in a type is counted for all calls together, and
/// drawn there.
struct Homes(HashMap<usize, String>);

impl Homes {
    fn of(past: &Past, program: &Program, root: Root, id: &str) -> Self {
        let mut homes = HashMap::new();
        let mut pending = vec![(Place { site: None, process: root.process, node: root.node }, id.to_owned())];
        while let Some((place, path)) = pending.pop() {
            if place.is_call() && homes.contains_key(&place.process) {
                continue;
            }
            let inner: Vec<_> = elements(program, place)
                .map(|node| (Place::of(place.process, node), join(&path, node)))
                .filter(|(inner, _)| past.at(*inner).is_some())
                .collect();
            pending.extend(inner.into_iter().rev());
            if place.is_call() {
                homes.insert(place.process, path);
            }
        }
        Self(homes)
    }
}

/// The elements of what runs at a place, and what handles its failure and its end.
fn elements(program: &Program, place: Place) -> impl Iterator<Item = &Node> {
    let node = program.node(place.process, place.node);
    let inner = node.elements.iter().copied().chain(node.catch).chain(node.finally);
    inner.map(move |inner| program.node(place.process, inner))
}

fn join(path: &str, node: &Node) -> String {
    match node.tag {
        "ITERATE" => format!("{path}/[*]"),
        _ => format!("{path}/{}", node.name),
    }
}

fn condition(tally: &Tally) -> v1::Condition {
    match (tally.completed > 0, tally.failed > 0, tally.cancelled > 0) {
        (true, false, false) => v1::Condition::Completed,
        (false, true, false) => v1::Condition::Failed,
        (false, false, true) => v1::Condition::Cancelled,
        _ => v1::Condition::Ended,
    }
}

//! The machine file: machines, the network between them, and files that lie on them. docs/planning.md is its reference.
//!
//! | module | has |
//! |---|---|
//! | `quantity` | numbers with units |
//! | `table` | tables of TOML, with the places of mistakes |

pub(crate) mod quantity;
mod table;

use std::collections::BTreeMap;
use std::ops::Range;

use toml::de::DeTable;
use xavantes_foresight::StoredInput;
use xavantes_model::diagnostic::{Diagnostic, Span, did_you_mean};
use xavantes_scheduling::MachineId;
use xavantes_scheduling::problem::{Billing, MAX_MACHINES, Machine, Network, Platform};

use table::{MachineTable, Problems};

/// More machines cannot have links of their own: the table over all pairs grows with the square.
const MAX_LINKED_MACHINES: usize = 2000;

/// What a machine file says.
#[derive(Debug)]
pub(crate) struct Machines {
    pub platform: Platform,
    /// Bytes of memory of each machine; infinity if the file does not say.
    pub memory: Vec<f64>,
    /// Tags of each machine.
    pub tags: Vec<Vec<String>>,
    files: Vec<PlacedFile>,
}

/// A file, or all files whose names match.
#[derive(Debug)]
struct PlacedFile {
    name: String,
    bytes: Option<f64>,
    machines: Vec<MachineId>,
}

impl Machines {
    /// A platform from elsewhere, of which nothing else is known.
    pub(crate) fn of_platform(platform: Platform) -> Self {
        let count = platform.machines.len();
        Self { platform, memory: vec![f64::INFINITY; count], tags: vec![Vec::new(); count], files: Vec::new() }
    }

    /// What the file says about an input. Of several entries the last one that matches counts.
    pub(crate) fn input(&self, name: &str) -> Option<StoredInput> {
        let found = self.files.iter().rev().find(|file| matches(&file.name, name))?;
        Some(StoredInput { bytes: found.bytes, machines: found.machines.clone() })
    }

    /// Whether the file says anything about inputs.
    pub(crate) fn places_files(&self) -> bool {
        !self.files.is_empty()
    }
}

/// Whether a name is the pattern, in which `*` stands for any text.
fn matches(pattern: &str, name: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(mut name) = name.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let last = parts.pop().unwrap_or_default();
    for part in parts {
        match name.find(part) {
            Some(at) => name = &name[at + part.len()..],
            None => return false,
        }
    }
    name.len() >= last.len() && name.ends_with(last)
}

/// Reads a machine file. The error is all of its problems.
pub(crate) fn read(text: &str) -> Result<Machines, Vec<Diagnostic>> {
    let document = DeTable::parse(text).map_err(|error| {
        let place = error.span().unwrap_or(0..0);
        vec![Diagnostic::new("toml-syntax", Span::new(0, place), error.message().trim().to_owned())]
    })?;
    let mut problems = Problems::default();
    let machines = read_document(document.get_ref(), &mut problems);
    match problems.0.is_empty() {
        true => Ok(machines),
        false => {
            problems.0.sort_by_key(|problem| problem.span.bytes.start);
            Err(problems.0)
        }
    }
}

fn read_document(document: &DeTable<'_>, problems: &mut Problems) -> Machines {
    let root = MachineTable::new(document, 0..0, "a machine file", &["machine", "network", "link", "file"], problems);
    let mut fleet = Fleet::default();
    let tables = root.tables("machine", problems);
    if tables.is_empty() && problems.0.is_empty() {
        problems.add_with_help("no-machine", 0..0, "the file has no machine", "a machine begins with [[machine]]");
    }
    for (table, place) in tables {
        fleet.kind(table, place, problems);
    }
    let network = fleet.network(&root, problems);
    let files = fleet.files(&root, problems);
    let Fleet { machines, memory, tags, .. } = fleet;
    Machines { platform: Platform { machines, network }, memory, tags, files }
}

/// Machines so far, and the machines behind each name.
#[derive(Default)]
struct Fleet {
    machines: Vec<Machine>,
    memory: Vec<f64>,
    tags: Vec<Vec<String>>,
    rates: Vec<f64>,
    names: BTreeMap<String, Range<usize>>,
}

const MACHINE_KEYS: [&str; 13] = [
    "name",
    "count",
    "speed",
    "cores",
    "memory",
    "gpus",
    "gpu-speed",
    "storage",
    "price",
    "billing",
    "start-up",
    "bandwidth",
    "tags",
];

impl Fleet {
    fn kind(&mut self, table: &DeTable<'_>, place: Range<usize>, problems: &mut Problems) {
        let table = MachineTable::new(table, place, "a machine", &MACHINE_KEYS, problems);
        let (name, name_place) = match table.text("name", problems) {
            Some((name, place)) => (name.trim().to_owned(), place),
            None => {
                problems.add("no-name", table.place(), "a machine needs a name");
                return;
            }
        };
        if name.is_empty() || self.names.contains_key(&name) {
            problems.add("wrong-name", name_place, format!("another machine has the name {name:?}, or it is empty"));
            return;
        }
        let count = table.whole("count", 1, MAX_MACHINES as u32, problems).map_or(1, |(count, _)| count) as usize;
        let number = |found: table::Found<f64>, default: f64| found.map_or(default, |(number, _)| number);
        let speed = number(table.positive("speed", problems), 1.0);
        let gpu_speed = number(table.positive("gpu-speed", problems), 1.0);
        let cores = table.whole("cores", 1, 1_000_000, problems).map_or(1, |(cores, _)| cores);
        let gpus = table.whole("gpus", 0, 10_000, problems).map_or(0, |(gpus, _)| gpus);
        let storage = number(table.quantity("storage", quantity::bytes, problems), f64::INFINITY);
        let memory = number(table.quantity("memory", quantity::bytes, problems), f64::INFINITY);
        let price = number(table.quantity("price", quantity::price, problems), 0.0);
        let start_up = number(table.quantity("start-up", quantity::seconds, problems), 0.0);
        let rate = number(table.quantity("bandwidth", quantity::bytes_per_second, problems), f64::INFINITY);
        let billing = self.billing(&table, problems);
        let tags = table.texts("tags", problems).map(|(tags, _)| tags).unwrap_or_default();
        let first = self.machines.len();
        if first + count > MAX_MACHINES {
            problems.add("too-many", table.place(), format!("a plan has at most {MAX_MACHINES} machines"));
            return;
        }
        for index in 0..count {
            let own = if count == 1 { name.clone() } else { format!("{name}-{}", index + 1) };
            if count > 1 && self.names.insert(own.clone(), first + index..first + index + 1).is_some() {
                problems.add("wrong-name", name_place.clone(), format!("another machine has the name {own:?}"));
            }
            self.machines.push(Machine {
                cores,
                gpus,
                gpu_slowdown: 1.0 / gpu_speed,
                storage,
                price,
                billing,
                start_up,
                ..Machine::with_speed(own, speed)
            });
            self.memory.push(memory);
            self.rates.push(rate);
            self.tags.push(tags.iter().map(|(tag, _)| (*tag).to_owned()).collect());
        }
        self.names.insert(name, first..first + count);
    }

    fn billing(&self, table: &MachineTable<'_, '_>, problems: &mut Problems) -> Billing {
        let Some((text, place)) = table.text("billing", problems) else { return Billing::Busy };
        match text {
            "busy" => Billing::Busy,
            "rental" => Billing::Rental,
            "rental-from-start" => Billing::RentalFromStart,
            "started-hour" => Billing::started_hour(),
            other => match other.strip_prefix("started ").map(quantity::seconds) {
                Some(Ok(seconds)) if seconds > 0.0 => Billing::Period { seconds },
                _ => {
                    let allowed =
                        "busy, rental, rental-from-start, started-hour, or a period such as \"started 10 min\"";
                    problems.add("wrong-billing", place, format!("billing is {allowed}, not {other:?}"));
                    Billing::Busy
                }
            },
        }
    }

    fn network(&self, root: &MachineTable<'_, '_>, problems: &mut Problems) -> Network {
        let (mut rate, mut latency) = (f64::INFINITY, 0.0);
        if let Some((table, place)) = root.table("network", problems) {
            let table = MachineTable::new(table, place, "the network", &["bandwidth", "latency"], problems);
            rate = self.rate(&table, problems).unwrap_or(rate);
            latency = table.quantity("latency", quantity::seconds, problems).map_or(0.0, |(seconds, _)| seconds);
        }
        let own: Vec<f64> = self.rates.iter().map(|own| own.min(rate)).collect();
        let links = root.tables("link", problems);
        if links.is_empty() {
            let network = match own.first() {
                Some(first) if own.iter().all(|own| own == first) && first.is_infinite() => Network::unlimited(),
                Some(first) if own.iter().all(|own| own == first) => Network::uniform(*first),
                _ => Network::per_machine(own),
            };
            return network.with_latency(latency);
        }
        let count = self.machines.len();
        if count > MAX_LINKED_MACHINES {
            let message =
                format!("{count} machines are too many for links between them: the limit is {MAX_LINKED_MACHINES}");
            problems.add("too-many", links[0].1.clone(), message);
            return Network::unlimited();
        }
        let mut rates: Vec<f64> = own.iter().flat_map(|from| own.iter().map(|to| from.min(*to))).collect();
        for (table, place) in links {
            let table = MachineTable::new(table, place, "a link", &["between", "bandwidth"], problems);
            let rate = self.rate(&table, problems);
            let Some((ends, place)) = table.texts("between", problems) else {
                problems.add("no-ends", table.place(), "a link is between two machines: between = [\"a\", \"b\"]");
                continue;
            };
            let [(one, one_place), (other, other_place)] = &ends[..] else {
                problems.add("wrong-ends", place, "a link is between two machines: between = [\"a\", \"b\"]");
                continue;
            };
            let (one, other) = (self.find(one, one_place, problems), self.find(other, other_place, problems));
            let (Some(one), Some(other)) = (one, other) else { continue };
            let Some(rate) = rate else {
                problems.add("no-bandwidth", table.place(), "a link needs a bandwidth");
                continue;
            };
            for from in one.clone() {
                for to in other.clone().filter(|to| *to != from) {
                    rates[from * count + to] = rate;
                    rates[to * count + from] = rate;
                }
            }
        }
        Network::matrix(count, rates).with_latency(latency)
    }

    /// A bandwidth above 0.
    fn rate(&self, table: &MachineTable<'_, '_>, problems: &mut Problems) -> Option<f64> {
        let (rate, place) = table.quantity("bandwidth", quantity::bytes_per_second, problems)?;
        if rate <= 0.0 {
            problems.add("wrong-quantity", place, "a bandwidth is above 0");
            return None;
        }
        Some(rate)
    }

    fn files(&self, root: &MachineTable<'_, '_>, problems: &mut Problems) -> Vec<PlacedFile> {
        let mut files = Vec::new();
        for (table, place) in root.tables("file", problems) {
            let table = MachineTable::new(table, place, "a file", &["name", "size", "machines"], problems);
            let Some((name, _)) = table.text("name", problems) else {
                problems.add("no-name", table.place(), "a file needs a name, in which * stands for any text");
                continue;
            };
            let bytes = table.quantity("size", quantity::bytes, problems).map(|(bytes, _)| bytes);
            let named = table.texts("machines", problems).map(|(names, _)| names).unwrap_or_default();
            let ranges = named.iter().filter_map(|(name, place)| self.find(name, place, problems));
            let machines = ranges.flatten().map(MachineId::new).collect();
            files.push(PlacedFile { name: name.to_owned(), bytes, machines });
        }
        files
    }

    fn find(&self, name: &str, place: &Range<usize>, problems: &mut Problems) -> Option<Range<usize>> {
        let found = self.names.get(name).cloned();
        if found.is_none() {
            let help = did_you_mean(name, self.names.keys().map(String::as_str))
                .unwrap_or_else(|| "names are those of [[machine]], or one of several: name-1, name-2, …".into());
            problems.add_with_help("unknown-machine", place.clone(), format!("there is no machine {name:?}"), help);
        }
        found
    }
}

#[cfg(test)]
mod tests;

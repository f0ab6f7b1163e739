//! Three groups in a line work on one process while nodes are killed, frozen and cut off from each other. The process must
//! end with the right result, and activities may be executed again only if their worker was lost.
//!
//! `cargo test --release -p xavantes-tests --test torture -- --kills N --activities N --seed N [--minutes M]`
//!
//! Every activity appends a line to a file. The number of lines is the progress, which decides when the next fault begins. With
//! `--minutes`, round follows round, each with the next seed, until that time has passed.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use xavantes_tests::xml::{document, inputs, outputs, pass_on, process_type, shell_type};
use xavantes_tests::{Grid, TestLink, free_address, is_live, until};

const GROUPS: [&str; 3] = ["a", "b", "c"];
const WORKERS: [&str; 2] = ["w1", "w2"];
/// Slots of each worker.
const SLOTS: u64 = 2;
/// Loops in the process, each with the same number of activities.
const LOOPS: u64 = 5;
/// Upper bound on simultaneous faults.
const MAX_FAULTS: usize = 3;
/// A coordinator counts a worker as lost after 10 silent seconds. A worker that was frozen for longer than this may be lost.
const LONG_STOP: Duration = Duration::from_secs(8);
/// The amount of work for each fault, as the time that it takes.
const WORK_PER_FAULT: Duration = Duration::from_millis(1500);
/// Time in which the process must end after the last fault, in addition to the time for the remaining work.
const PATIENCE: Duration = Duration::from_secs(180);

/// The process under test. Each loop runs `count` commands. Each tenth iteration also marks its number in the shared objects of
/// the process.
fn definition() -> String {
    let passed = pass_on("count time file seen marks");
    let parameters = [
        inputs("string name, int count, string time, string file, RemoteSet seen, RemoteCounter marks"),
        outputs("int sum"),
    ];
    let torture = r#"
      <PRE_CODE>seen, marks = RemoteSet.new(), RemoteCounter.new()</PRE_CODE>
      <PAR NAME="parts">
        <OUT_PARAMETER TYPE="int" NAME="sum"/>
        <PROCESS TYPE="Loop" NAME="home" DELEGATE="never" name="home" PASSED/>
        <PROCESS TYPE="Part" NAME="east" DELEGATE="always" name="east" PASSED/>
        <PROCESS TYPE="Part" NAME="west" DELEGATE="always" name="west" PASSED/>
        <POST_CODE>sum = home.sum + east.sum + west.sum</POST_CODE>
      </PAR>
      <POST_CODE>sum = parts.sum</POST_CODE>"#;
    let part = r#"
      <PAR NAME="both">
        <OUT_PARAMETER TYPE="int" NAME="sum"/>
        <PROCESS TYPE="Loop" NAME="near" DELEGATE="never" name="${name .. '/near'}" PASSED/>
        <PROCESS TYPE="Loop" NAME="far" DELEGATE="always" name="${name .. '/far'}" PASSED/>
        <POST_CODE>sum = near.sum + far.sum</POST_CODE>
      </PAR>
      <POST_CODE>sum = both.sum</POST_CODE>"#;
    let repeated = r#"
      <PARFOR NAME="each" TO="${count}" DELEGATE="never" COLLECT="counter">
        <ITERATE>
          <ACTIVITY TYPE="Work" NAME="work" label="${name .. '/' .. counter}" time="${time}" file="${file}"/>
          <SWITCH NAME="tenth">
            <CASE CONDITION="counter % 10 == 0">
              <ACTIVITY TYPE="Mark" NAME="mark" label="${name .. '/' .. counter}" seen="${seen}" marks="${marks}"/>
            </CASE>
          </SWITCH>
        </ITERATE>
      </PARFOR>
      <POST_CODE>sum = 0 for _, number in each.results do sum += number end</POST_CODE>"#;
    let mark = r#"
  <ACTIVITY_TYPE NAME="Mark">
    <IN_PARAMETER TYPE="string" NAME="label"/>
    <IN_PARAMETER TYPE="RemoteSet" NAME="seen"/>
    <IN_PARAMETER TYPE="RemoteCounter" NAME="marks"/>
    <CODE LANGUAGE="lua">
      seen:add(label)
      marks:add()
    </CODE>
  </ACTIVITY_TYPE>
"#;
    let outer =
        [inputs("int count, string time, string file"), outputs("int sum, RemoteSet seen, RemoteCounter marks")];
    let script = r#"sleep "$3"; printf '%s %s\n' "$1" "$2" >> "$4"; sleep "$3""#;
    let arguments = ["${label}", "${attempt}", "${time}", "${file}"];
    document(&[
        process_type("Torture", &outer, &torture.replace(" PASSED", &passed)),
        process_type("Part", &parameters, &part.replace(" PASSED", &passed)),
        process_type("Loop", &parameters, repeated),
        shell_type("Work", &[inputs("string label, string time, string file")], script, &arguments),
        mark.into(),
    ])
}

#[derive(Debug, Clone, Copy)]
struct Options {
    kills: u64,
    activities: u64,
    seed: u64,
    minutes: u64,
}

impl Options {
    /// Reads the options of the command line. Returns `None` if a test filter excludes this test: other words are filters.
    fn read(mut arguments: impl Iterator<Item = String>) -> Result<Option<Self>, String> {
        let mut options = Self { kills: 8, activities: 600, seed: 1, minutes: 0 };
        while let Some(name) = arguments.next() {
            let place = match name.as_str() {
                "--kills" => &mut options.kills,
                "--activities" => &mut options.activities,
                "--seed" => &mut options.seed,
                "--minutes" => &mut options.minutes,
                "--nocapture" | "--quiet" => continue,
                name if !name.starts_with('-') && !"torture".contains(name) => return Ok(None),
                name if !name.starts_with('-') => continue,
                _ => {
                    return Err(format!("{name} is unknown; the options are --kills, --activities, --seed, --minutes"));
                }
            };
            let value = arguments.next().and_then(|value| value.parse().ok());
            *place = value.ok_or_else(|| format!("{name} needs a number"))?;
        }
        // All loops have the same number of activities, and each tenth activity is marked.
        let step = LOOPS * 10;
        options.activities = options.activities.div_ceil(step).max(1) * step;
        Ok(Some(options))
    }
}

/// Pseudo-random numbers (xorshift), the same for the same seed.
struct Dice(u64);

impl Dice {
    fn new(seed: u64) -> Self {
        // Small seeds have few bits, and zero would stay zero.
        let mut dice = Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        for _ in 0..8 {
            dice.below(2);
        }
        dice
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % limit
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FaultKind {
    Kill,
    Stop,
    Cut,
}

/// A fault of one node or link.
#[derive(Debug, Clone)]
struct Fault {
    kind: FaultKind,
    /// The node; for a cut the group whose link is cut.
    target: String,
    duration: Duration,
}

impl Fault {
    fn is_of_worker(&self) -> bool {
        WORKERS.iter().any(|worker| self.target.ends_with(worker))
    }
}

/// Plans the faults: `kills` kills, and half as many stops and cuts, in random order.
fn plan(kills: u64, dice: &mut Dice) -> Vec<Fault> {
    let mut kinds =
        [vec![FaultKind::Kill; kills as usize], [FaultKind::Stop, FaultKind::Cut].repeat(kills.div_ceil(2) as usize)]
            .concat();
    for last in (1..kinds.len()).rev() {
        kinds.swap(last, dice.below(last as u64 + 1) as usize);
    }
    let fault = |kind| {
        let group = GROUPS[dice.below(GROUPS.len() as u64) as usize];
        let node = ["main", "main", "w1", "w2"][dice.below(4) as usize];
        let (target, longest) = match kind {
            FaultKind::Kill => (format!("{group}/{node}"), 2000),
            FaultKind::Stop => (format!("{group}/{node}"), 3000),
            FaultKind::Cut => (group.to_owned(), 4000),
        };
        Fault { kind, target, duration: Duration::from_millis(dice.below(longest + 1)) }
    };
    kinds.into_iter().map(fault).collect()
}

/// The grid with its present and past faults.
struct Field {
    grid: Grid,
    /// For each group, the link through which other groups reach its main node.
    links: Vec<TestLink>,
    addresses: Vec<String>,
    /// Faults that have begun, with the time at which they began.
    open: Vec<(Fault, Instant)>,
    /// The number of faults of each kind.
    counts: BTreeMap<String, u64>,
    /// Upper bound on repeated executions that the faults explain.
    allowed: u64,
}

impl Field {
    fn new() -> Self {
        let mut grid = Grid::new();
        grid.keep();
        let addresses: Vec<String> = GROUPS.iter().map(|_| free_address()).collect();
        let links: Vec<TestLink> = addresses.iter().map(|address| TestLink::to(address)).collect();
        for (index, group) in GROUPS.into_iter().enumerate() {
            let roles = ["--roles", "group-manager,process-coordinator", "--advertise", links[index].address()];
            let adjacent = index.checked_sub(1).map(|before| ["--adjacent", links[before].address()]);
            grid.start(
                &format!("{group}/main"),
                &addresses[index],
                &[&roles[..], adjacent.as_ref().map_or(&[], |it| &it[..])].concat(),
            );
            for worker in WORKERS {
                grid.worker(&format!("{group}/{worker}"), &addresses[index], &["--slots", &SLOTS.to_string()]);
            }
        }
        for address in &addresses {
            grid.wait_for_nodes(address, WORKERS.len() + 1);
            until("the groups know each other", 120, || (others(&grid, address) + 1 == GROUPS.len()).then_some(()));
        }
        Self { grid, links, addresses, open: Vec::new(), counts: BTreeMap::new(), allowed: 0 }
    }

    fn link(&self, group: &str) -> &TestLink {
        let index = GROUPS.iter().position(|it| *it == group).expect("the group is in GROUPS");
        &self.links[index]
    }

    /// Whether a fault can begin now: a target has at most one fault at a time.
    fn can(&self, fault: &Fault) -> bool {
        self.open.len() < MAX_FAULTS && self.open.iter().all(|(other, _)| other.target != fault.target)
    }

    fn begin(&mut self, fault: Fault) {
        let target = if fault.is_of_worker() { "a worker" } else { "a coordinator and manager" };
        let description = match fault.kind {
            FaultKind::Kill => format!("kill {target}"),
            FaultKind::Stop => format!("stop {target}"),
            FaultKind::Cut => "cut a link".into(),
        };
        *self.counts.entry(description).or_default() += 1;
        match fault.kind {
            FaultKind::Kill => self.grid.kill(&fault.target),
            FaultKind::Stop => self.grid.freeze(&fault.target),
            FaultKind::Cut => self.link(&fault.target).cut(),
        }
        self.open.push((fault, Instant::now()));
    }

    /// Ends the faults whose duration has passed.
    fn heal(&mut self) {
        let (over, open): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.open).into_iter().partition(|(fault, since)| since.elapsed() >= fault.duration);
        self.open = open;
        for (fault, since) in over {
            match fault.kind {
                FaultKind::Kill => self.grid.restart(&fault.target),
                FaultKind::Stop => self.grid.thaw(&fault.target),
                FaultKind::Cut => self.link(&fault.target).mend(),
            }
            let lost = fault.kind == FaultKind::Kill || (fault.kind == FaultKind::Stop && since.elapsed() > LONG_STOP);
            if lost && fault.is_of_worker() {
                self.allowed += SLOTS;
            }
        }
    }
}

/// The number of other groups with free slots that the manager at this address knows.
fn others(grid: &Grid, address: &str) -> usize {
    let known = grid.cli(address, &["groups"]);
    let known = if known.code == 0 { known.json() } else { return 0 };
    let groups = known["groups"].as_array().into_iter().flatten();
    let other = |group: &&serde_json::Value| group["hops"] != 0;
    groups.filter(other).filter(|group| group["coordinators"] == 1 && group["free_slots"] != 0).count()
}

/// The lines that activities wrote: label and attempt.
fn executions(file: &Path) -> Vec<(String, String)> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let pair = |line: &str| line.split_once(' ').map(|(label, attempt)| (label.to_owned(), attempt.to_owned()));
    text.lines().map(|line| pair(line).unwrap_or_else(|| panic!("incomplete line: {line:?}"))).collect()
}

fn round(options: Options) {
    let began = Instant::now();
    let mut dice = Dice::new(options.seed);
    let faults = plan(options.kills, &mut dice);
    let (count, all) = (faults.len() as u64, options.activities);
    let slots = SLOTS * (GROUPS.len() * WORKERS.len()) as u64;
    let nap = (WORK_PER_FAULT.as_secs_f64() * count as f64 * slots as f64 / all as f64 / 2.0).clamp(0.002, 1.0);

    let mut field = Field::new();
    let document = field.grid.write("torture.xml", &definition());
    let file = PathBuf::from(field.grid.write("executions", ""));
    let parameters = [format!("count={}", all / LOOPS), format!("time={nap:.4}"), format!("file={}", file.display())];
    let home = field.addresses[0].clone();
    let process = field.grid.submit(&home, &document, &parameters.each_ref().map(String::as_str));
    let lines = || std::fs::read(&file).unwrap_or_default().iter().filter(|byte| **byte == b'\n').count() as u64;

    // The first fault begins early, and work remains after the last one.
    let mut next = 0;
    let mut progress = (0, Instant::now());
    while next < faults.len() || !field.open.is_empty() {
        field.heal();
        let written = lines();
        if written != progress.0 || !field.open.is_empty() {
            progress = (written, Instant::now());
        }
        assert!(progress.1.elapsed() < PATIENCE, "no progress after {written} of {all} activities");
        if let Some(fault) = faults.get(next)
            && written >= (next as u64 + 1) * all / (count + 2)
            && field.can(fault)
        {
            field.begin(fault.clone());
            next += 1;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let at_last = lines().min(all);
    let left = Duration::from_secs_f64((all - at_last) as f64 * 2.0 * nap / slots as f64);
    let ended = until("the process ends", (PATIENCE + 4 * left).as_secs(), || {
        let results = field.grid.cli(&home, &["results", &process]);
        (results.code != 3 && !results.stderr.contains("has not ended")).then_some(results)
    });
    let ended = ended.ok().json();

    let each = all / LOOPS;
    assert_eq!(ended["state"], "completed", "{ended}");
    assert_eq!(ended["results"]["sum"], LOOPS * each * (each + 1) / 2, "{ended}");
    let marked = ended["results"]["seen"].as_array().map_or(0, Vec::len) as u64;
    assert_eq!(marked, all / 10, "each tenth activity is marked");
    let marks = ended["results"]["marks"].as_u64().expect("marks is a number");
    assert!((marked..=marked + field.allowed).contains(&marks), "{marks} marks of {marked} activities");

    let executions = executions(&file);
    let labels: BTreeSet<&String> = executions.iter().map(|(label, _)| label).collect();
    assert_eq!(labels.len() as u64, all, "each activity was executed");
    let mut attempts = BTreeSet::new();
    for execution in &executions {
        assert!(attempts.insert(execution), "an attempt was executed twice: {execution:?}");
    }
    let excess = executions.len() as u64 - all;
    assert!(excess <= field.allowed, "{excess} repeated executions; the faults explain {}", field.allowed);
    for address in &field.addresses {
        until("all slots are free", 120, || {
            let nodes = field.grid.nodes(address);
            (nodes.len() == WORKERS.len() + 1 && nodes.iter().all(|node| node["busy"] == 0)).then_some(())
        });
        let list = field.grid.cli(address, &["list"]).ok().json();
        let alive = list["processes"].as_array().into_iter().flatten().find(|it| is_live(it));
        assert_eq!(alive, None, "{list}");
    }

    println!("seed {}: {all} activities, {count} faults, {:.0} s", options.seed, began.elapsed().as_secs_f64());
    for (kind, times) in &field.counts {
        println!("  {kind:<30} {times:>6}");
    }
    println!("  {:<30} {excess:>6} (at most {})", "repeated executions", field.allowed);
}

fn main() -> ExitCode {
    let mut options = match Options::read(std::env::args().skip(1)) {
        Ok(Some(options)) => options,
        Ok(None) => return ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("error: {problem}");
            return ExitCode::from(2);
        }
    };
    let began = Instant::now();
    loop {
        if catch_unwind(AssertUnwindSafe(|| round(options))).is_err() {
            let Options { kills, activities, seed, .. } = options;
            eprintln!("the round failed; repeat it with:");
            eprintln!(
                "cargo test --release -p xavantes-tests --test torture -- --kills {kills} --activities {activities} --seed {seed}"
            );
            return ExitCode::FAILURE;
        }
        options.seed += 1;
        if began.elapsed() >= Duration::from_secs(60 * options.minutes) {
            return ExitCode::SUCCESS;
        }
    }
}

//! The list of all planners except `auto`, which uses it, and what an entry of the catalogue says.

use crate::exact::Ppsa;
use crate::just_in_time::{MaxMin, MinMin, Myopic, MyopicRule, Sufferage};
use crate::list::{Cpop, Heft, Hybrid, Moheft, Peft, Tanh};
use crate::planner::Planner;
use crate::problem::Problem;
use crate::quality_of_service::{BackTracking, Ctc, DeadlineDistribution, DeadlineMdp, Gain, Loss};
use crate::search::{Annealing, Genetic, Grasp, GraspIls, Hea, ParallelSearch, ParticleSwarm, Relay};
use crate::timeline::Fill;

/// How a planner works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlannerKind {
    /// It decides as soon as tasks are ready.
    JustInTime,
    /// It orders all tasks first and places one after the other.
    List,
    /// It changes solutions and keeps what is better. It can be stopped at any time.
    Search,
    /// It tries everything that could be best. It can be stopped at any time.
    Exact,
    /// It keeps a deadline or a budget.
    QualityOfService,
}

impl PlannerKind {
    /// All kinds, in the order of the catalogue.
    pub const ALL: [Self; 5] = [Self::Search, Self::JustInTime, Self::List, Self::Exact, Self::QualityOfService];

    /// The kind in words, for tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::JustInTime => "just in time",
            Self::List => "list",
            Self::Search => "search",
            Self::Exact => "exact",
            Self::QualityOfService => "quality of service",
        }
    }
}

/// Which limit a planner works towards. Without this limit it makes a plain schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlannerLimit {
    /// None.
    Nothing,
    /// A deadline: of [`crate::Objective::MoneyWithinDeadline`] or of the problem's limits.
    Deadline,
    /// A budget: of [`crate::Objective::MakespanWithinBudget`] or of the problem's limits.
    Budget,
}

/// How much a planner of the catalogue may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Effort {
    /// Threads of planners that search.
    pub threads: usize,
    /// Searches go on until [`crate::Run::stop`] ends them; otherwise they end after a fixed number of rounds, and equal
    /// seeds and threads give equal schedules.
    pub until_stopped: bool,
}

impl Default for Effort {
    fn default() -> Self {
        Self { threads: 1, until_stopped: false }
    }
}

/// A planner that threads can share.
pub type SharedPlanner = Box<dyn Planner + Send + Sync>;

/// A planner of the catalogue.
#[derive(Debug, Clone, Copy)]
pub struct CatalogueEntry {
    /// Its name, which is also [`Planner::name`].
    pub name: &'static str,
    /// What it does, in one line.
    pub description: &'static str,
    /// Who published it.
    pub source: &'static str,
    /// How it works.
    pub kind: PlannerKind,
    /// The limit that it works towards.
    pub needs: PlannerLimit,
    /// Whether it makes the objective small; otherwise it makes the makespan small (or keeps its limit) whatever the
    /// objective.
    pub honours_objective: bool,
    /// Larger problems take it too long: tasks times machines.
    pub largest: usize,
    /// Makes the planner.
    pub build: fn(Effort) -> SharedPlanner,
}

impl CatalogueEntry {
    /// Whether the problem is not larger than what is sensible for this planner.
    pub fn suits(&self, problem: &Problem) -> bool {
        problem.task_count().saturating_mul(problem.machine_count()) <= self.largest
    }

    /// Whether the planner is fast and ends by itself, so that another planner can begin with its schedule.
    pub fn is_cheap(&self) -> bool {
        !matches!(self.kind, PlannerKind::Search | PlannerKind::Exact)
    }
}

/// Tasks times machines that simple planners handle in seconds.
pub(crate) const HUGE: usize = 100_000_000;
/// Tasks times machines for planners that look at all pairs of tasks, or copy schedules.
const LARGE: usize = 1_000_000;
/// Tasks times machines for searches: more, and they end soon after their start.
const MIDDLE: usize = 200_000;
/// Tasks times machines for proofs.
const SMALL: usize = 40;

/// Searches on several threads, each with a seed of its own.
fn search<P: Planner + Copy + Send + Sync + 'static>(planner: P, effort: Effort) -> SharedPlanner {
    match effort.threads {
        0 | 1 => Box::new(planner),
        threads => Box::new(ParallelSearch { planner, threads }),
    }
}

/// The number of rounds, or no end.
fn rounds(effort: Effort, rounds: u64) -> u64 {
    if effort.until_stopped { u64::MAX } else { rounds }
}

/// An entry that makes the makespan small and needs no limit.
pub(crate) const fn plain(
    name: &'static str,
    kind: PlannerKind,
    description: &'static str,
    source: &'static str,
    build: fn(Effort) -> SharedPlanner,
) -> CatalogueEntry {
    CatalogueEntry {
        name,
        description,
        source,
        kind,
        needs: PlannerLimit::Nothing,
        honours_objective: false,
        largest: HUGE,
        build,
    }
}

/// An entry that makes the objective small.
pub(crate) const fn objective(entry: CatalogueEntry, largest: usize) -> CatalogueEntry {
    CatalogueEntry { honours_objective: true, largest, ..entry }
}

/// An entry that works towards a limit.
const fn limited(entry: CatalogueEntry, needs: PlannerLimit) -> CatalogueEntry {
    CatalogueEntry { needs, largest: LARGE, ..entry }
}

/// All planners except `auto`, which begins with those that are cheap.
pub const OTHERS: &[CatalogueEntry] = &[
    objective(
        plain(
            "relay",
            PlannerKind::Search,
            "GRASP-ILS and annealing in turns, from list planners and constructions",
            "ours",
            |effort| {
                let relay = if effort.until_stopped { Relay::default().endless() } else { Relay::default() };
                search(relay, effort)
            },
        ),
        MIDDLE,
    ),
    objective(
        plain(
            "grasp-ils",
            PlannerKind::Search,
            "randomised construction, descent and iterated local search, with places of files",
            "Stockinger 2020, chapters 3 and 4",
            |effort| {
                let constructions = rounds(effort, GraspIls::default().constructions);
                search(GraspIls { constructions, ..GraspIls::default() }, effort)
            },
        ),
        MIDDLE,
    ),
    objective(
        plain(
            "hea",
            PlannerKind::Search,
            "hybrid evolutionary algorithm: population, local search and path relinking",
            "Teylo and others 2016, as told by Stockinger 2020, section 2.3.2",
            |effort| {
                let patience = rounds(effort, Hea::default().patience);
                search(Hea { patience, ..Hea::default() }, effort)
            },
        ),
        MIDDLE,
    ),
    objective(
        plain(
            "grasp",
            PlannerKind::Search,
            "random machines of a restricted list for each ready task, then descent",
            "Blythe and others 2005; Aguilar 2014, A.3.2",
            |effort| search(Grasp { rounds: rounds(effort, Grasp::default().rounds), ..Grasp::default() }, effort),
        ),
        MIDDLE,
    ),
    objective(
        plain(
            "annealing",
            PlannerKind::Search,
            "random changes, of which worse ones are accepted less and less",
            "Young and others 2003; Aguilar 2014, A.3.3",
            |effort| {
                let descents = rounds(effort, Annealing::default().descents);
                search(Annealing { descents, ..Annealing::default() }, effort)
            },
        ),
        MIDDLE,
    ),
    objective(
        plain(
            "genetic",
            PlannerKind::Search,
            "genetic algorithm with crossover of orders and machines",
            "Yu and Buyya 2006; Aguilar 2014, A.3.1",
            |effort| {
                let generations = rounds(effort, Genetic::default().generations);
                search(Genetic { generations, ..Genetic::default() }, effort)
            },
        ),
        MIDDLE,
    ),
    objective(
        plain(
            "particle-swarm",
            PlannerKind::Search,
            "particle swarm over random keys of machines and priorities",
            "Pandey and others 2010; Wu and others 2010",
            |effort| {
                let steps = rounds(effort, ParticleSwarm::default().steps);
                search(ParticleSwarm { steps, ..ParticleSwarm::default() }, effort)
            },
        ),
        MIDDLE,
    ),
    plain(
        "myopic",
        PlannerKind::JustInTime,
        "the first ready task where it ends first",
        "Ramamritham and others 1990; Aguilar 2014, A.1.1",
        |_| Box::new(Myopic { rule: MyopicRule::EarliestFinish }),
    ),
    plain(
        "myopic-fastest",
        PlannerKind::JustInTime,
        "the first ready task on the fastest machine",
        "Monge and others, section 5, one reading",
        |_| Box::new(Myopic { rule: MyopicRule::Fastest }),
    ),
    plain(
        "myopic-fastest-idle",
        PlannerKind::JustInTime,
        "the first ready task on the fastest machine that is idle",
        "Monge and others, section 5, another reading",
        |_| Box::new(Myopic { rule: MyopicRule::FastestIdle }),
    ),
    plain(
        "myopic-first-free",
        PlannerKind::JustInTime,
        "the first ready task on the machine that is free first",
        "Aguilar 2016, the code",
        |_| Box::new(Myopic { rule: MyopicRule::FirstFree }),
    ),
    plain(
        "min-min",
        PlannerKind::JustInTime,
        "of a ready set the task that can end first",
        "Maheswaran and others 1999; Aguilar 2014, A.1.3",
        |_| Box::new(MinMin),
    ),
    plain(
        "max-min",
        PlannerKind::JustInTime,
        "of a ready set the task whose best end is the latest",
        "Maheswaran and others 1999; Aguilar 2014, A.1.4",
        |_| Box::new(MaxMin),
    ),
    plain(
        "sufferage",
        PlannerKind::JustInTime,
        "of a ready set the task that loses most without its best machine",
        "Maheswaran and others 1999; Aguilar 2014, A.1.5",
        |_| Box::new(Sufferage),
    ),
    plain(
        "heft",
        PlannerKind::List,
        "tasks by upward rank, each where it ends first, gaps are used",
        "Topcuoglu, Hariri and Wu 2002; Aguilar 2014, A.1.6",
        |_| Box::new(Heft { fill: Fill::Insert }),
    ),
    plain(
        "heft-append",
        PlannerKind::List,
        "HEFT without the use of gaps",
        "Topcuoglu, Hariri and Wu 2002, as used by Teylo and others 2016",
        |_| Box::new(Heft { fill: Fill::Append }),
    ),
    plain("cpop", PlannerKind::List, "the critical path on one machine", "Topcuoglu, Hariri and Wu 2002", |_| {
        Box::new(Cpop)
    }),
    plain("peft", PlannerKind::List, "a table of optimistic costs looks ahead", "Arabnejad and Barbosa 2014", |_| {
        Box::new(Peft)
    }),
    plain(
        "hybrid",
        PlannerKind::List,
        "groups of independent tasks by rank, each scheduled as a batch",
        "Sakellariou and Zhao 2004; Aguilar 2014, A.1.7",
        |_| Box::new(Hybrid),
    ),
    plain(
        "tanh",
        PlannerKind::List,
        "clusters of tasks, with duplicates that save transfers",
        "Bajaj and Agrawal 2004; Aguilar 2014, A.1.8",
        |_| Box::new(Tanh),
    ),
    objective(
        plain(
            "moheft",
            PlannerKind::List,
            "HEFT that keeps several trade-offs of time and money",
            "Durillo and Prodan 2014",
            |_| Box::new(Moheft::default()),
        ),
        LARGE,
    ),
    objective(
        plain(
            "ppsa",
            PlannerKind::Exact,
            "branch and bound over machines, critical tasks on powerful machines, large workflows in parts",
            "Monge and others, section 3.1",
            |_| Box::new(Ppsa::default()),
        ),
        10_000,
    ),
    objective(
        plain("ppsa-free", PlannerKind::Exact, "PPSA without pre-assignment", "Monge and others, section 3.1", |_| {
            Box::new(Ppsa { preassign: false, ..Ppsa::default() })
        }),
        10_000,
    ),
    objective(
        plain(
            "exact",
            PlannerKind::Exact,
            "branch and bound over orders, machines and places of files; optimal when it is not stopped",
            "ours; Monge and others, section 3.1",
            |_| Box::new(Ppsa::exact()),
        ),
        SMALL,
    ),
    limited(
        plain(
            "loss",
            PlannerKind::QualityOfService,
            "from HEFT, the changes that lose least time for the money they save, until the budget holds",
            "Sakellariou and others 2007",
            |_| Box::new(Loss),
        ),
        PlannerLimit::Budget,
    ),
    limited(
        plain(
            "gain",
            PlannerKind::QualityOfService,
            "from the cheapest schedule, the changes that gain most time for their money, within the budget",
            "Sakellariou and others 2007",
            |_| Box::new(Gain),
        ),
        PlannerLimit::Budget,
    ),
    limited(
        plain(
            "back-tracking",
            PlannerKind::QualityOfService,
            "from the cheapest schedule, faster machines for critical tasks until the deadline holds",
            "Menascé and Casalicchio 2004",
            |_| Box::new(BackTracking),
        ),
        PlannerLimit::Deadline,
    ),
    limited(
        plain(
            "deadline-distribution",
            PlannerKind::QualityOfService,
            "a part of the deadline for each task, which runs on the cheapest machine that keeps it",
            "Yu, Buyya and Tham 2005",
            |_| Box::new(DeadlineDistribution),
        ),
        PlannerLimit::Deadline,
    ),
    limited(
        plain(
            "deadline-mdp",
            PlannerKind::QualityOfService,
            "a part of the deadline for each chain of tasks, and the cheapest machines that keep it",
            "Yu, Buyya and Tham 2005",
            |_| Box::new(DeadlineMdp),
        ),
        PlannerLimit::Deadline,
    ),
    limited(
        plain(
            "ctc",
            PlannerKind::QualityOfService,
            "the cheapest compromise of time and money that keeps the deadline",
            "Liu and others 2010",
            |_| Box::new(Ctc),
        ),
        PlannerLimit::Deadline,
    ),
];

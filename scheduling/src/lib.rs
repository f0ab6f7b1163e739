//! Planners that foresee where and when the tasks of a workflow run. Pure: no clock, no I/O, no threads of others.
//!
//! A [`Problem`] joins a workflow and a platform under a cost model. A planner makes a [`Schedule`] of it, `validate`
//! checks the schedule independently, and an [`Objective`] says how good it is. [`LowerBounds`] say how good any
//! schedule can be at most.
//!
//! # Sources
//!
//! Every algorithm names its source. Four theses and papers are named by their authors alone: F. Aguilar Reyes,
//! *Estudio de algoritmos de calendarización para flujos de trabajo*, ITAM 2014 (Aguilar 2014), and *Flujos de trabajo
//! intensivos en datos para cómputo en la nube*, ITAM 2016 (Aguilar 2016); M. B. Stockinger, *Escalonamento de tarefas
//! em CPU/GPU e alocação de arquivos de dados de workflows científicos em nuvens computacionais*, UFF 2020 (Stockinger
//! 2020); D. Monge, J. Bělohradský, C. García Garino, F. Železný, *A performance prediction module for workflow
//! scheduling* (Monge and others).
//!
//! # Modules
//!
//! | module | is about |
//! |---|---|
//! | [`problem`] | tasks, files, machines, network, cost models, limits |
//! | [`schedule`] | where and when tasks run and files are stored |
//! | [`validate`] | the independent check of schedules |
//! | [`objective`] | time, money, both, and Pareto sets |
//! | [`bounds`] | lower bounds of time and money |
//! | [`formats`] | readers of workflow formats |
//! | [`generate`] | problems with known results, and random problems |
//! | [`planner`] | what all planners have in common |
//! | [`catalogue`], `planner_list` | the table of all planners, by name; all of them except `auto` |
//! | [`auto`] | the planner that chooses for its user |
//! | [`just_in_time`] | planners that decide as soon as tasks are ready: Myopic, Min-Min, Max-Min, Sufferage |
//! | [`list`] | planners that order all tasks first: HEFT, CPOP, PEFT, Hybrid, TANH, MOHEFT |
//! | [`search`] | planners that search: GRASP-ILS, HEA, GRASP, annealing, genetic, particle swarm |
//! | [`exact`] | branch and bound: PPSA, and proofs for small problems |
//! | [`quality_of_service`] | planners that keep a budget or a deadline |
//! | [`blind`] | how many machines of which kind to rent |
//! | [`compact`] | ours: the cheapest machines of one kind that keep a deadline |
//! | [`predictor`] | durations and output sizes from past runs |
//! | [`schedule_simulator`] | what happens when a schedule meets noise, contention and failures |
//! | [`partial_schedule`], [`rank`] | what these planners share: schedules under construction, and priorities |
//! | [`seeded_random`] | the seeded generator behind everything random |
//! | [`csr`], [`id`] | compact rows, and indices as types |

pub mod auto;
pub mod blind;
pub mod bounds;
pub mod catalogue;
pub mod compact;
pub mod csr;
pub mod exact;
pub mod formats;
pub mod generate;
pub mod id;
pub mod just_in_time;
pub mod list;
pub mod objective;
mod ordered;
pub mod partial_schedule;
pub mod planner;
mod planner_list;
pub mod predictor;
pub mod problem;
pub mod quality_of_service;
pub mod rank;
pub mod schedule;
pub mod schedule_simulator;
pub mod search;
pub mod seeded_random;
pub mod timeline;
pub mod validate;

pub use auto::Auto;
pub use bounds::LowerBounds;
pub use id::{FileId, MachineId, TaskId};
pub use objective::{Objective, PlanValue, Score};
pub use planner::{PlanError, Planner, Run};
pub use problem::{Machine, Platform, Problem, Workflow};
pub use schedule::{Placement, Schedule};
pub use seeded_random::SeededRandom;

//! `xavantes simulate`: a plan, carried out many times with disturbances.

use clap::Args;
use xavantes_scheduling::schedule_simulator::simulate as simulate_schedule;
use xavantes_scheduling::schedule_simulator::{OnlineRule, Options, SimulatedRun, simulate_online};
use xavantes_scheduling::{Problem, Schedule};

use super::plan::PlanningTask;
use crate::chart;
use crate::chart::gantt::Mark;
use crate::chart::histogram::{Panel, draw};
use crate::exit::Exit;
use crate::output::printer::Output;
use crate::output::terminal;
use crate::output::text::units::precise;
use crate::planning::args::PlanningArgs;
use crate::planning::machine_file::quantity;
use crate::planning::search::{Interrupt, PlannerRunner, interruptible, planner};
use crate::report::plan::AssumptionReport;
use crate::report::simulation::{Distribution, LimitMet, SimulationReport};

#[derive(Args)]
pub(crate) struct SimulateArgs {
    #[command(flatten)]
    pub planning: PlanningArgs,
    /// Vary durations and transfers: their standard deviation relative to the plan, e.g. 0.2
    #[arg(long, value_name = "PART", default_value_t = 0.0, value_parser = noise, help_heading = "Disturbances")]
    pub noise: f64,
    /// Let attempts fail this often while they run, e.g. 0.5/h; they begin anew
    #[arg(long, value_name = "RATE", value_parser = failure_rate, help_heading = "Disturbances")]
    pub failures: Option<f64>,
    /// Time from a failure to the next attempt
    #[arg(long, value_name = "TIME", value_parser = quantity::seconds, requires = "failures", help_heading = "Disturbances")]
    pub repair: Option<f64>,
    /// Let machines serve one transfer at a time
    #[arg(long, help_heading = "Disturbances")]
    pub contention: bool,
    /// Simulated runs
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub runs: u64,
    /// Let a just-in-time planner (myopic, min-min, max-min, sufferage) decide in each run when tasks become ready
    #[arg(long)]
    pub online: bool,
}

fn noise(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(part) if (0.0..=10.0).contains(&part) => Ok(part),
        _ => Err(format!("noise is a number from 0 to 10, not {text:?}")),
    }
}

fn failure_rate(text: &str) -> Result<f64, String> {
    quantity::price(text).map_err(|_| format!("failures are a number per s, min, h or d, such as 0.5/h, not {text:?}"))
}

/// What runs of a plan took.
#[derive(Default)]
struct Runs {
    makespans: Vec<f64>,
    money: Vec<f64>,
    failures: Vec<f64>,
}

pub(crate) async fn simulate(arguments: SimulateArgs, output: Output) -> Result<Exit, Exit> {
    let entry = planner(&arguments.planning.algorithm)?;
    let rule = match arguments.online {
        false => None,
        true => Some(OnlineRule::of(entry.name).ok_or_else(|| {
            let names = "myopic, myopic-fastest, myopic-fastest-idle, myopic-first-free, min-min, max-min, sufferage";
            terminal::error(&format!("{} cannot decide online: say --algorithm with one of {names}", entry.name))
        })?),
    };
    let task = PlanningTask::new(&arguments.planning, output)?;
    let done = interruptible(move |interrupt| {
        let search = PlannerRunner::new(&arguments.planning, interrupt.clone(), output);
        let made = task.make(entry, &search)?;
        let runs = run(&arguments, &task.planned.problem, &made.schedule, rule, interrupt)?;
        let met = |values: &[f64], limit: f64| {
            let kept = values.iter().filter(|value| **value <= limit * (1.0 + 1e-9)).count();
            LimitMet { limit, met: kept as f64 / values.len().max(1) as f64 }
        };
        let report = SimulationReport {
            algorithm: entry.name,
            online: arguments.online,
            planned_makespan_seconds: made.value.makespan,
            planned_money: made.value.money,
            runs: runs.makespans.len() as u64,
            interrupted: interrupt.is_set(),
            seed: arguments.planning.seed,
            makespan_seconds: Distribution::of(&runs.makespans),
            money: Distribution::of(&runs.money),
            failures: Distribution::of(&runs.failures),
            deadline: task.goal.deadline.map(|deadline| met(&runs.makespans, deadline)),
            budget: task.goal.budget.map(|budget| met(&runs.money, budget)),
            assumptions: AssumptionReport::all(&task.planned.assumptions),
        };
        if let Some(file) = &arguments.planning.chart {
            chart::write(file, &histogram(&task.planned.name, &report, runs))?;
        }
        Ok(output.report(&report))
    });
    done.await?
}

/// Simulates all runs, each with a seed of its own, until the user interrupts. There is at least one.
fn run(
    arguments: &SimulateArgs,
    problem: &Problem,
    schedule: &Schedule,
    rule: Option<OnlineRule>,
    interrupt: &Interrupt,
) -> Result<Runs, Exit> {
    let mut runs = Runs::default();
    for number in 0..arguments.runs {
        if number > 0 && interrupt.is_set() {
            break;
        }
        let options = Options {
            seed: arguments.planning.seed.wrapping_add(number),
            compute_noise: arguments.noise,
            transfer_noise: arguments.noise,
            contention: arguments.contention,
            failures_per_second: arguments.failures.unwrap_or(0.0),
            repair_seconds: arguments.repair.unwrap_or(0.0),
        };
        let SimulatedRun { makespan, money, failures, .. } = match rule {
            None => simulate_schedule(problem, schedule, &options),
            Some(rule) => {
                simulate_online(problem, rule, &options).map_err(|error| terminal::error(&error.to_string()))?
            }
        };
        runs.makespans.push(makespan);
        runs.money.push(money);
        runs.failures.push(failures as f64);
    }
    Ok(runs)
}

fn histogram(name: &str, report: &SimulationReport, runs: Runs) -> chart::Chart {
    let mark = |at: f64, label: &str, colour: &'static str| Mark { at, label: label.into(), colour };
    let (grey, green, orange, red) = ("#555555", "#228833", "#cc7700", "#bb2222");
    let mut panels = Vec::new();
    for (name, values, spread, planned, limit, is_time) in [
        ("makespan", runs.makespans, report.makespan_seconds, report.planned_makespan_seconds, report.deadline, true),
        ("money", runs.money, report.money, report.planned_money, report.budget, false),
    ] {
        if spread.max <= 0.0 {
            continue;
        }
        let mut marks = vec![
            mark(planned, "planned", grey),
            mark(spread.median, "median", green),
            mark(spread.p95, "95 %", orange),
        ];
        marks.extend(limit.map(|limit| mark(limit.limit, if is_time { "deadline" } else { "budget" }, red)));
        panels.push(Panel { name: name.into(), values, marks, is_time });
    }
    let title = format!("{name}: {} simulated runs of a plan by {}", report.runs, report.algorithm);
    let subtitle = format!(
        "planned {}, median {}, 95 % of the runs within {}",
        precise(report.planned_makespan_seconds),
        precise(report.makespan_seconds.median),
        precise(report.makespan_seconds.p95)
    );
    draw(&title, &subtitle, &panels)
}

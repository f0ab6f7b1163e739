//! The experiment of Aguilar 2016, chapter 5: blind, Max-Min, Min-Min and Myopic beside our compact rental.

use xavantes_scheduling::blind::{BlindCost, IdleCores, rent};
use xavantes_scheduling::compact::{RentalCost, rent_within};
use xavantes_scheduling::generate::connected::{CONFIGURATIONS, workflow};
use xavantes_scheduling::just_in_time::{MaxMin, MinMin, Myopic, MyopicRule};
use xavantes_scheduling::planner::plan;
use xavantes_scheduling::{Machine, Objective, Planner, Schedule};

use crate::Scale;
use crate::page::Page;

/// Mean and standard deviation.
fn spread(values: &[f64]) -> String {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (values.len() as f64 - 1.0);
    format!("{mean:.2} ± {:.2}", variance.sqrt())
}

pub fn experiment(page: &Page, scale: Scale) {
    let kinds: Vec<Machine> = CONFIGURATIONS.iter().map(|kind| kind.machine(0)).collect();
    let planners: [&dyn Planner; 3] = [&MaxMin, &MinMin, &Myopic { rule: MyopicRule::FirstFree }];
    let mut table = format!(
        "{} workflows.\n\n| planner | idle cores | hours | money per core | money per machine |\n|---|---|---:|---:|---:|\n",
        scale.workflows
    );
    let printed = [
        ("blind, printed", "7.75 ± 3.93", "77.74 ± 51.78"),
        ("Max-Min, printed", "4.23 ± 2.70", "71.23 ± 52.05"),
        ("Min-Min, printed", "4.13 ± 2.10", "127.73 ± 79.21"),
        ("Myopic, printed", "5.93 ± 3.27", "226.37 ± 133.82"),
    ];
    for (name, hours, money) in printed {
        table += &format!("| {name} | | {hours} | {money} | |\n");
    }
    let mut notes = String::new();
    for idle in [IdleCores::Avoided, IdleCores::Allowed] {
        let mut values = vec![[Vec::new(), Vec::new(), Vec::new()]; 6];
        let (mut no_worse, mut better) = ([0; 2], [0; 2]);
        for seed in 0..scale.workflows {
            let workflow = workflow(seed).expect("the generator makes workflows");
            let rental = rent(&workflow, &kinds, BlindCost::Money, idle).expect("there are kinds of machine");
            let mut schedules = vec![rental.schedule.clone()];
            schedules.extend(
                planners.iter().filter_map(|planner| plan(*planner, &rental.problem, Objective::Makespan).ok()),
            );
            let row = |schedule: &Schedule| {
                let money = |cost: RentalCost| cost.of(&rental, schedule);
                [schedule.makespan() / 3600.0, money(RentalCost::PerCore), money(RentalCost::PerMachine)]
            };
            let rows: Vec<_> = schedules.iter().map(row).collect();
            let least = |column: usize| rows.iter().map(|row| row[column]).fold(f64::INFINITY, f64::min);
            for (place, row) in rows.iter().enumerate() {
                values[place].iter_mut().zip(row).for_each(|(column, value)| column.push(*value));
            }
            for (index, cost) in [RentalCost::PerCore, RentalCost::PerMachine].into_iter().enumerate() {
                let ours = rent_within(&workflow, &kinds, least(0) * 3600.0, cost).expect("there are kinds of machine");
                let ours = ours.expect("the fastest kind keeps the deadline");
                let hours = ours.schedule.makespan() / 3600.0;
                let money = cost.of(&ours, &ours.schedule);
                values[4 + index][0].push(hours);
                values[4 + index][1 + index].push(money);
                let slack = 1.0 + 1e-9;
                no_worse[index] += u32::from(hours <= least(0) * slack && money <= least(1 + index) * slack);
                better[index] += u32::from(hours * slack < least(0) && money * slack < least(1 + index));
            }
        }
        let reading = if idle == IdleCores::Avoided { "avoided" } else { "allowed" };
        let names = ["blind", "Max-Min", "Min-Min", "Myopic", "compact, per core", "compact, per machine"];
        for (name, columns) in names.iter().zip(&values) {
            let cells = columns.iter().map(|column| if column.is_empty() { String::new() } else { spread(column) });
            table += &format!("| {name} | {reading} | {} |\n", cells.collect::<Vec<_>>().join(" | "));
        }
        for (cost, index) in [("per core", 0), ("per machine", 1)] {
            notes += &format!(
                "- Idle cores {reading}, money {cost}: the compact plan is neither later nor dearer than the earliest and the \
                 cheapest of the four plans in {} workflows, and earlier and cheaper in {}.\n",
                no_worse[index], better[index]
            );
        }
    }
    page.replace("rental", &format!("{table}\n{notes}"));
}

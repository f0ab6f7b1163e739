//! Planners with a budget or a deadline keep it, or say that they found no schedule that does.

use proptest::prelude::*;
use xavantes_scheduling::generate::layered;
use xavantes_scheduling::list::Heft;
use xavantes_scheduling::planner::plan;
use xavantes_scheduling::problem::CostModel;
use xavantes_scheduling::quality_of_service::{BackTracking, Ctc, DeadlineDistribution, DeadlineMdp, Gain, Loss};
use xavantes_scheduling::validate::validate;
use xavantes_scheduling::{LowerBounds, Objective, PlanError, PlanValue, Planner};

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn limits_are_kept_or_reported(
        seed in any::<u64>(),
        tasks in 1usize..30,
        machines in 1usize..6,
        varied in any::<bool>(),
        inline in any::<bool>(),
        slack in 0.0f64..3.0,
    ) {
        let model = if inline { CostModel::inline_cpu() } else { CostModel::overlapped() };
        let options = layered::Options { tasks, machines, varied, model, ..layered::Options::default() };
        let problem = layered::problem(&options, seed).unwrap();
        let heft = PlanValue::of(&problem, &plan(&Heft::default(), &problem, Objective::Makespan).unwrap());
        let bounds = LowerBounds::of(&problem);
        let budget = bounds.money * (1.0 + slack);
        let deadline = heft.makespan * (0.8 + slack);
        let budgeted = Objective::MakespanWithinBudget { budget };
        let timed = Objective::MoneyWithinDeadline { deadline };
        let planners: [(&dyn Planner, Objective); 6] = [
            (&Loss, budgeted),
            (&Gain, budgeted),
            (&BackTracking, timed),
            (&DeadlineDistribution, timed),
            (&DeadlineMdp, timed),
            (&Ctc, timed),
        ];
        for (planner, objective) in planners {
            match plan(planner, &problem, objective) {
                Ok(schedule) => {
                    validate(&problem, &schedule).unwrap_or_else(|faults| panic!("{}: {faults:?}", planner.name()));
                    let score = objective.of(&problem, &schedule);
                    prop_assert!(score.excess <= 1e-6, "{}: {score:?}", planner.name());
                }
                Err(PlanError::LimitMissed { .. }) => {}
                Err(error) => panic!("{}: {error}", planner.name()),
            }
        }
    }
}

#[test]
fn more_time_costs_less_and_more_money_is_faster() {
    let problem = layered::problem(&layered::Options::default(), 4).unwrap();
    let heft = PlanValue::of(&problem, &plan(&Heft::default(), &problem, Objective::Makespan).unwrap());
    let value =
        |planner: &dyn Planner, objective| PlanValue::of(&problem, &plan(planner, &problem, objective).unwrap());
    for planner in [&BackTracking as &dyn Planner, &DeadlineDistribution, &DeadlineMdp, &Ctc] {
        let [tight, loose] = [1.2, 3.0]
            .map(|factor| value(planner, Objective::MoneyWithinDeadline { deadline: heft.makespan * factor }).money);
        assert!(loose < tight && tight <= heft.money, "{}: {loose} {tight} {}", planner.name(), heft.money);
    }
    for planner in [&Loss as &dyn Planner, &Gain] {
        let [poor, rich] = [0.85, 1.0]
            .map(|factor| value(planner, Objective::MakespanWithinBudget { budget: heft.money * factor }).makespan);
        assert!(rich < poor, "{}: {rich} {poor}", planner.name());
    }
}

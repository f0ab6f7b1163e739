//! Published makespans of HEFT and Min-Min: Teylo 2016, Tables 6.4 and 6.5, on the instances that Stockinger 2020 uses.

mod common;

use xavantes_scheduling::just_in_time::MinMin;
use xavantes_scheduling::list::Heft;
use xavantes_scheduling::partial::Fill;
use xavantes_scheduling::planner::plan;
use xavantes_scheduling::validate::validate;
use xavantes_scheduling::{Objective, Planner};

#[test]
fn heft_and_min_min_are_as_published() {
    let Some(corpus) = common::corpus("published makespans of HEFT and Min-Min") else {
        return;
    };
    println!("instance                       HEFT published  ours    %    Min-Min published  ours    %");
    for row in common::expected(&corpus, "teylo2016_table6.4_6.5.csv") {
        let problem = common::cpu_instance(&corpus, &row[0]);
        let minutes = |planner: &dyn Planner| {
            let schedule = plan(planner, &problem, Objective::Makespan).unwrap();
            validate(&problem, &schedule).unwrap();
            schedule.makespan() / 60.0
        };
        let (heft, min_min) = (minutes(&Heft { fill: Fill::Append }), minutes(&MinMin));
        let (published_min_min, published_heft): (f64, f64) = (row[1].parse().unwrap(), row[2].parse().unwrap());
        let above = |ours: f64, published: f64| (ours / published - 1.0) * 100.0;
        let (heft_above, min_min_above) = (above(heft, published_heft), above(min_min, published_min_min));
        print!("{:30} {published_heft:14.2} {heft:7.2} {heft_above:+5.1}  ", row[0]);
        println!("{published_min_min:16.2} {min_min:7.2} {min_min_above:+5.1}");
        // Both were measured with a code that prices some reads from the wrong machine, Montage most of all.
        assert!(heft_above <= 1.0 && (heft_above >= -1.0 || row[0].starts_with("Montage")), "{}: {heft}", row[0]);
        assert!(min_min_above <= 1.0, "{}: {min_min}", row[0]);
    }
}

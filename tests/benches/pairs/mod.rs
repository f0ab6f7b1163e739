//! Two ways to run the same process, compared in turn, so that what else the machine does hits both.

use std::process::ExitCode;

use xavantes_tests::Grid;

/// After a first one of each, which is not counted.
const PAIRS: usize = 5;

/// A process of `count` activities with this code.
pub fn document(grid: &mut Grid, code: &str) -> String {
    let text = format!(
        r#"<XAVANTES VERSION="1">
  <PROCESS_TYPE NAME="Many">
    <IN_PARAMETER TYPE="int" NAME="count"/>
    <BODY>
      <PARFOR NAME="each" TO="${{count}}" DELEGATE="never">
        <ITERATE><ACTIVITY TYPE="One" NAME="one"/></ITERATE>
      </PARFOR>
    </BODY>
  </PROCESS_TYPE>
  <ACTIVITY_TYPE NAME="One">{code}</ACTIVITY_TYPE>
</XAVANTES>
"#
    );
    grid.write("many.xml", &text)
}

/// Code that does nothing.
#[allow(dead_code)] // Each benchmark uses a part of this.
pub const NOTHING: &str = r#"<CODE LANGUAGE="lua"></CODE>"#;

pub fn submit(grid: &Grid, address: &str, file: &str, activities: u64) -> String {
    grid.submit(address, file, &[&format!("count={activities}")])
}

/// How long a process took, from its submission to its end.
pub fn seconds(grid: &Grid, address: &str, process: &str, activities: u64) -> f64 {
    let ended = grid.end(address, process);
    assert_eq!(
        (&ended["state"], &ended["activities"]["completed"]),
        (&"completed".into(), &activities.into()),
        "{ended}"
    );
    let status = grid.status(address, process);
    let time = |name: &str| status[name].as_u64().expect("the process has ended");
    (time("ended_ms") - time("submitted_ms")) as f64 / 1000.0
}

/// Runs the process to its end.
pub fn run(grid: &Grid, address: &str, file: &str, activities: u64) -> f64 {
    let process = submit(grid, address, file, activities);
    seconds(grid, address, &process, activities)
}

type Way<'a> = (&'a str, &'a mut dyn FnMut() -> f64);

/// Fails if the second way takes more than `most` times as long as the first, in the median.
pub fn compare(first: Way, second: Way, most: f64) -> ExitCode {
    let mut ratios = Vec::new();
    for pair in 0..=PAIRS {
        let (one, other) = (first.1(), second.1());
        let note = if pair == 0 { " (not counted)" } else { "" };
        println!("{} {one:.3} s, {} {other:.3} s, ratio {:.3}{note}", first.0, second.0, other / one);
        if pair > 0 {
            ratios.push(other / one);
        }
    }
    ratios.sort_by(f64::total_cmp);
    let median = ratios[PAIRS / 2];
    println!("median ratio {median:.3}, at most {most:.2}");
    if median <= most { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

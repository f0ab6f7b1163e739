//! The speed of the engine alone, on one core. A stub answers every activity at once. The benchmark prints rates and
//! ratios, and fails if the time is not linear or the memory not flat. Run with `cargo bench -p xavantes-engine`.

use std::sync::Arc;
use std::time::Instant;

use xavantes_engine::{Answer, Command, Engine, Input, Start, StepOutput, Time};
use xavantes_model::diagnostic::Source;
use xavantes_model::load::load;
use xavantes_model::script::{Sandbox, ScriptLimits};

/// Activities outstanding at once.
const CAPACITY: u64 = 64;

/// Runs a process and answers every attempt until it ends. Returns the seconds and the number of activities.
fn run(text: &str) -> (f64, u64) {
    let program = Arc::new(load(&[Source::new("bench.xml", text)]).unwrap_or_else(|problems| panic!("{problems:?}")));
    let mut sandbox = Sandbox::new(ScriptLimits::CONTROL, false).expect("a sandbox starts");
    let mut out = StepOutput::default();
    let began = Instant::now();
    let mut engine = Engine::start(program, Start::new("Bench-1", 0, Vec::new()), Time(0), &mut out)
        .expect("the process has no parameters");
    engine.set_capacity(CAPACITY);
    let mut inputs = vec![Input::Continued];
    while engine.state().ended().is_none() {
        for input in inputs.drain(..) {
            engine.step(&mut sandbox, input, Time(0), &mut out).expect("the attempt of the input is running");
        }
        // A driver would journal the events here.
        out.events.clear();
        for command in out.commands.drain(..) {
            match command {
                Command::Dispatch { element, attempt, .. } => {
                    inputs.push(Input::Answered { element, attempt, answer: Answer::Completed(Vec::new()) });
                }
                Command::Continue => inputs.push(Input::Continued),
                _ => {}
            }
        }
    }
    (began.elapsed().as_secs_f64(), engine.state().counts().completed)
}

fn document(body: &str) -> String {
    format!(
        r#"<XAVANTES VERSION="1"><PROCESS_TYPE NAME="Bench"><BODY>{body}</BODY></PROCESS_TYPE>
<ACTIVITY_TYPE NAME="Nothing"><IN_PARAMETER TYPE="int" NAME="n" DEFAULT="0"/><CODE LANGUAGE="lua"></CODE></ACTIVITY_TYPE>
<ACTIVITY_TYPE NAME="Plain"><CODE LANGUAGE="lua"></CODE></ACTIVITY_TYPE></XAVANTES>"#
    )
}

fn parfor(count: u64, code: bool) -> String {
    let (pre, name) = if code { ("<PRE_CODE>a.n = counter * 2</PRE_CODE>", "Nothing") } else { ("", "Plain") };
    document(&format!(
        r#"<PARFOR NAME="p" FROM="1" TO="{count}"><ITERATE>{pre}<ACTIVITY TYPE="{name}" NAME="a"/></ITERATE></PARFOR>"#
    ))
}

fn chain(length: usize) -> String {
    document(&(0..length).map(|n| format!(r#"<ACTIVITY TYPE="Plain" NAME="a{n}"/>"#)).collect::<String>())
}

fn linked(length: usize) -> String {
    let one = |n: usize| match n {
        0 => r#"<ACTIVITY TYPE="Plain" NAME="a0"/>"#.to_owned(),
        _ => format!(r#"<ACTIVITY TYPE="Plain" NAME="a{n}" AFTER="a{}"/>"#, n - 1),
    };
    document(&format!(r#"<PAR NAME="p">{}</PAR>"#, (0..length).map(one).collect::<String>()))
}

/// A loop inside `depth` nested blocks.
fn nested(depth: usize, count: u64) -> String {
    let open: String = (0..depth).map(|n| format!(r#"<BLOCK NAME="b{n}">"#)).collect();
    let inner = format!(
        r#"<PARFOR NAME="p" FROM="1" TO="{count}"><ITERATE><ACTIVITY TYPE="Plain" NAME="a"/></ITERATE></PARFOR>"#
    );
    document(&format!("{open}{inner}{}", "</BLOCK>".repeat(depth)))
}

fn resident_mib() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap_or("VmHWM: 0 kB");
    line.split_whitespace().nth(1).and_then(|kib| kib.parse::<f64>().ok()).unwrap_or(0.0) / 1024.0
}

/// Activities a second of a process, and the cost of one of its activities relative to one of another process. Both
/// processes run in turn and for as many activities, so that other load on the machine slows both. The results are
/// medians of several such pairs.
fn compare(text: &str, other: &str) -> (f64, f64) {
    let (mut rates, mut ratios) = (Vec::new(), Vec::new());
    for _ in 0..7 {
        let (seconds, count) = run(text);
        let (mut other_seconds, mut other_count) = (0.0, 0);
        while other_count < count {
            let (seconds, count) = run(other);
            other_seconds += seconds;
            other_count += count;
        }
        rates.push(count as f64 / seconds);
        ratios.push(seconds / count as f64 / (other_seconds / other_count as f64));
    }
    (median(rates), median(ratios))
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    let mut failed = false;
    let mut verdict = |what: &str, value: f64, unit: &str, good: bool| {
        println!("{} {what}: {value:.2}{unit}", if good { "ok  " } else { "FAIL" });
        failed |= !good;
    };
    let (rate, cost) = compare(&parfor(1_000_000, false), &parfor(100_000, false));
    verdict("PARFOR of 1,000,000, activities a second", rate, "", rate >= 300_000.0);
    verdict("cost per activity against PARFOR of 100,000", cost, "", cost < 1.1);
    let (rate, cost) = compare(&parfor(1_000_000, true), &parfor(100_000, true));
    verdict("the same with a line of PRE_CODE, activities a second", rate, "", rate >= 100_000.0);
    verdict("cost per activity against PARFOR of 100,000", cost, "", cost < 1.1);
    verdict("peak memory so far", resident_mib(), " MiB", resident_mib() < 100.0);
    for (what, text, other, against) in [
        ("200 deep", nested(200, 100_000), nested(1, 100_000), "1 deep"),
        ("chain of 100,000", chain(100_000), chain(10_000), "a chain of 10,000"),
        ("AFTER chain of 100,000", linked(100_000), linked(10_000), "an AFTER chain of 10,000"),
    ] {
        let (rate, cost) = compare(&text, &other);
        verdict(&format!("{what}, activities a second"), rate, "", true);
        verdict(&format!("cost per activity against {against}"), cost, "", cost < 1.1);
    }
    if failed {
        std::process::exit(1);
    }
}

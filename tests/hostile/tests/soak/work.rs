//! Honest work: processes that complete and fail, one after the other. Ended ones are removed, as retention would remove them.

use std::sync::atomic::{AtomicBool, Ordering};

use xavantes_tests::Grid;

const WORK: &str = r#"<XAVANTES VERSION="1">
  <ACTIVITY_TYPE NAME="Count"><IN_PARAMETER TYPE="int" NAME="n"/><OUT_PARAMETER TYPE="int" NAME="r"/>
    <CODE LANGUAGE="lua">r = n + 1</CODE></ACTIVITY_TYPE>
  <ACTIVITY_TYPE NAME="Say"><CODE LANGUAGE="command"><ARG>echo</ARG><ARG>hello</ARG></CODE></ACTIVITY_TYPE>
  <ACTIVITY_TYPE NAME="Fail"><CODE LANGUAGE="lua">error(string.rep("x", 1000000))</CODE></ACTIVITY_TYPE>
  <PROCESS_TYPE NAME="Many"><OUT_PARAMETER TYPE="int" NAME="sum"/><BODY>
    <PARFOR NAME="all" TO="200" COLLECT="count.r"><ITERATE><ACTIVITY NAME="count" TYPE="Count" n="${counter}"/></ITERATE></PARFOR>
    <PARFOR NAME="say" TO="5"><ITERATE><ACTIVITY NAME="hello" TYPE="Say"/></ITERATE></PARFOR>
    <POST_CODE>sum = 0 for _, n in all.results do sum += n end</POST_CODE></BODY></PROCESS_TYPE>
  <PROCESS_TYPE NAME="Fails"><BODY><ACTIVITY NAME="fail" TYPE="Fail"/></BODY></PROCESS_TYPE>
</XAVANTES>"#;

pub struct Documents {
    file: String,
}

impl Documents {
    pub fn write(grid: &mut Grid) -> Self {
        Self { file: grid.write("work.xml", WORK) }
    }
}

/// Runs processes until `stop`. Panics if one does not end as it must, whatever the hostile peers do.
pub fn submit_until(grid: &Grid, address: &str, documents: &Documents, stop: &AtomicBool) {
    let mut rounds = 0;
    while !stop.load(Ordering::SeqCst) {
        let (name, state) = if rounds % 4 == 3 { ("Fails", "failed") } else { ("Many", "completed") };
        let submitted = retry(stop, || grid.cli(address, &["submit", &documents.file, "--process", name]));
        let Some(submitted) = submitted else { return };
        let process = submitted.json()["process"].as_str().expect("a process has an id").to_owned();
        let Some(ended) = retry(stop, || {
            grid.cli(address, &["wait", &process]);
            let mut results = grid.cli(address, &["results", &process]);
            // `results` ends with the code of the process.
            results.code = i32::from(!results.stdout.contains(&format!("\"{state}\"")));
            results
        }) else {
            return;
        };
        assert_eq!(ended.json()["state"], state);
        retry(stop, || grid.cli(address, &["forget", &process]));
        rounds += 1;
    }
    println!("{address}: {rounds} processes");
}

/// Tries a command until it succeeds: hostile peers may take the connections of this machine for a moment.
fn retry(stop: &AtomicBool, command: impl Fn() -> xavantes_tests::Ended) -> Option<xavantes_tests::Ended> {
    for _ in 0..60 {
        let ended = command();
        if ended.code == 0 {
            return Some(ended);
        }
        if stop.load(Ordering::SeqCst) {
            return None;
        }
        std::thread::sleep(std::time::Duration::from_millis(500));
    }
    panic!("a command does not succeed: {:?}", command());
}

//! Activities that append a line to a file when they begin, so that a test can count executions.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::Value as Json;
use xavantes_tests::xml::{document, inouts, inputs, outputs, pass_on, process_type, shell_type};
use xavantes_tests::{Grid, until};

use crate::delegation::delegated;

/// Upper bound on any wait, in seconds, even on a busy machine.
pub const LONG: u64 = 120;

/// A loop of such activities. Iterations up to `free` end at once, the others when the gate is open.
fn definition(delegate: &str) -> String {
    let body = r#"
      <PARFOR NAME="each" TO="${count}" COLLECT="line.number" DELEGATE="WHERE">
        <ITERATE><ACTIVITY TYPE="Line" NAME="line" number="${counter}" PASSED/></ITERATE>
      </PARFOR>
      <POST_CODE>sum = 0 for _, number in each.results do sum += number end</POST_CODE>"#;
    let body = body.replace("WHERE", delegate).replace(" PASSED", &pass_on("free file gate"));
    let script = r#"
        printf '%s %s\n' "$1" "$2" >> "$3"
        sleep 0.02
        while [ "$1" -gt "$4" ] && [ ! -e "$5" ]; do sleep 0.05; done
        printf '{"number": %s}' "$1" > "$XAVANTES_RESULTS"
    "#;
    let arguments = ["${number}", "${attempt}", "${file}", "${free}", "${gate}"];
    let parameters = [inputs("int count, int free, string file, string gate"), outputs("int sum")];
    let declarations = [inouts("int number"), inputs("int free, string file, string gate")];
    document(&[process_type("Lines", &parameters, &body), shell_type("Line", &declarations, script, &arguments)])
}

/// A process of such activities.
pub struct Lines {
    /// The path of the definition.
    pub document: String,
    count: u64,
    free: u64,
    file: PathBuf,
    gate: PathBuf,
}

impl Lines {
    /// Activities in the local group.
    pub fn new(grid: &mut Grid, count: u64, free: u64) -> Self {
        Self::with(grid, count, free, "never")
    }

    /// Activities that another coordinator runs.
    pub fn elsewhere(grid: &mut Grid, count: u64, free: u64) -> Self {
        Self::with(grid, count, free, "always")
    }

    fn with(grid: &mut Grid, count: u64, free: u64, delegate: &str) -> Self {
        let document = grid.write("lines.xml", &definition(delegate));
        let file = PathBuf::from(grid.write("lines", ""));
        let gate = file.with_extension("gate");
        Self { document, count, free, file, gate }
    }

    /// The parameters of the process.
    pub fn parameters(&self) -> Vec<String> {
        let shown = |path: &Path| path.display().to_string();
        let (count, free, file, gate) = (self.count, self.free, shown(&self.file), shown(&self.gate));
        vec![format!("count={count}"), format!("free={free}"), format!("file={file}"), format!("gate={gate}")]
    }

    pub fn submit(&self, grid: &Grid, address: &str) -> String {
        let parameters = self.parameters();
        grid.submit(address, &self.document, &parameters.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// Lets the waiting activities end.
    pub fn open_gate(&self) {
        std::fs::write(&self.gate, "").expect("tests can write here");
    }

    /// The executions so far: number and attempt.
    pub fn executed(&self) -> Vec<(u64, u64)> {
        let text = std::fs::read_to_string(&self.file).expect("it is there");
        let number = |text: &str| text.parse().expect("a number");
        text.lines()
            .filter_map(|line| line.split_once(' '))
            .map(|(it, attempt)| (number(it), number(attempt)))
            .collect()
    }

    /// Waits until `count` activities have begun.
    pub fn wait_for(&self, count: usize) {
        until(&format!("{count} activities have begun"), LONG, || (self.executed().len() >= count).then_some(()));
    }

    /// Waits until `count` activities wait at the gate.
    pub fn wait_for_gate(&self, count: usize) {
        let waiting = || self.executed().iter().filter(|(number, _)| *number > self.free).count();
        until(&format!("{count} activities wait at the gate"), LONG, || (waiting() >= count).then_some(()));
    }

    /// Waits for the end of the process. Its result must be right, `repeated` activities must have been executed again, and no
    /// attempt twice.
    #[track_caller]
    pub fn assert_end(&self, grid: &Grid, address: &str, process: &str, repeated: u64) {
        let ended = self.result(grid, address, process);
        let executed = self.executed();
        let distinct: BTreeSet<(u64, u64)> = executed.iter().copied().collect();
        assert_eq!(distinct.len(), executed.len(), "an attempt was executed twice: {executed:?}");
        assert_eq!(executed.len() as u64, self.count + repeated, "{executed:?}");
        let counts = &ended["activities"];
        assert_eq!((counts["completed"].as_u64(), counts["failed"].as_u64()), (Some(self.count), Some(0)), "{ended}");
        // An attempt that was on its way when the coordinator was killed counts, although no worker began it.
        assert!(counts["attempts"].as_u64() >= Some(self.count + repeated), "{ended}");
    }

    /// Waits for the end of the process. Its result must be right.
    #[track_caller]
    pub fn result(&self, grid: &Grid, address: &str, process: &str) -> Json {
        let ended = ended(grid, address, process);
        assert_eq!((&ended["state"], &ended["results"]["sum"]), (&"completed".into(), &self.sum().into()), "{ended}");
        ended
    }

    pub fn sum(&self) -> u64 {
        self.count * (self.count + 1) / 2
    }
}

/// Waits for the end of a process, even if its coordinator is killed meanwhile. Returns the output of `results`.
pub fn ended(grid: &Grid, address: &str, process: &str) -> Json {
    until(&format!("{process} ends"), LONG, || {
        let results = grid.cli(address, &["results", process]);
        (results.code != 3 && !results.stderr.contains("has not ended")).then(|| results.json())
    })
}

/// Waits until the coordinator at this address delegates: it learns of other groups a little later than its manager does. After
/// this, all slots of the other group are free again.
pub fn wait_for_delegation(grid: &mut Grid, address: &str, other: &str) {
    let trial = Lines::elsewhere(grid, 1, 0);
    let parameters = trial.parameters();
    let parameters: Vec<&str> = parameters.iter().map(String::as_str).collect();
    let process = delegated(grid, address, &trial.document, &parameters, "each");
    grid.cli(address, &["cancel", &process]).ok();
    assert_eq!(ended(grid, address, &process)["state"], "cancelled");
    until("all slots are free", LONG, || grid.nodes(other).iter().all(|node| node["busy"] == 0).then_some(()));
}

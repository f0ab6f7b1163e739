//! Activities that leave a line in a file when they begin, so that it can be seen what was executed, and how often.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::Value as Json;
use xavantes_tests::{Grid, until};

use crate::delegation::delegated;

/// Longer than anything here takes, also on a machine that does much else.
pub const LONG: u64 = 120;

/// Iterations up to `free` end at once, those after it when the gate is open.
const LINES: &str = r#"<XAVANTES VERSION="1">
  <PROCESS_TYPE NAME="Lines">
    <IN_PARAMETER TYPE="int" NAME="count"/>
    <IN_PARAMETER TYPE="int" NAME="free"/>
    <IN_PARAMETER TYPE="string" NAME="file"/>
    <IN_PARAMETER TYPE="string" NAME="gate"/>
    <OUT_PARAMETER TYPE="int" NAME="sum"/>
    <BODY>
      <PARFOR NAME="each" TO="${count}" COLLECT="line.number" DELEGATE="WHERE">
        <ITERATE>
          <ACTIVITY TYPE="Line" NAME="line" number="${counter}" free="${free}" file="${file}" gate="${gate}"/>
        </ITERATE>
      </PARFOR>
      <POST_CODE>sum = 0 for _, number in each.results do sum += number end</POST_CODE>
    </BODY>
  </PROCESS_TYPE>
  <ACTIVITY_TYPE NAME="Line">
    <INOUT_PARAMETER TYPE="int" NAME="number"/>
    <IN_PARAMETER TYPE="int" NAME="free"/>
    <IN_PARAMETER TYPE="string" NAME="file"/>
    <IN_PARAMETER TYPE="string" NAME="gate"/>
    <CODE LANGUAGE="command">
      <ARG>sh</ARG><ARG>-c</ARG>
      <ARG><![CDATA[
        printf '%s %s\n' "$1" "$2" >> "$3"
        sleep 0.02
        while [ "$1" -gt "$4" ] && [ ! -e "$5" ]; do sleep 0.05; done
        printf '{"number": %s}' "$1" > "$XAVANTES_RESULTS"
      ]]></ARG>
      <ARG>sh</ARG><ARG>${number}</ARG><ARG>${attempt}</ARG><ARG>${file}</ARG><ARG>${free}</ARG><ARG>${gate}</ARG>
    </CODE>
  </ACTIVITY_TYPE>
</XAVANTES>
"#;

/// One run of such activities.
pub struct Lines {
    /// The file of the definition.
    pub document: String,
    count: u64,
    free: u64,
    file: PathBuf,
    gate: PathBuf,
}

impl Lines {
    /// In the own group.
    pub fn new(grid: &mut Grid, count: u64, free: u64) -> Self {
        Self::with(grid, count, free, "never")
    }

    /// On another coordinator.
    pub fn elsewhere(grid: &mut Grid, count: u64, free: u64) -> Self {
        Self::with(grid, count, free, "always")
    }

    fn with(grid: &mut Grid, count: u64, free: u64, delegate: &str) -> Self {
        let document = grid.write("lines.xml", &LINES.replace("WHERE", delegate));
        let file = PathBuf::from(grid.write("lines", ""));
        let gate = file.with_extension("gate");
        Self { document, count, free, file, gate }
    }

    /// What the process is started with.
    pub fn parameters(&self) -> Vec<String> {
        let shown = |path: &Path| path.display().to_string();
        let (count, free, file, gate) = (self.count, self.free, shown(&self.file), shown(&self.gate));
        vec![format!("count={count}"), format!("free={free}"), format!("file={file}"), format!("gate={gate}")]
    }

    pub fn submit(&self, grid: &Grid, address: &str) -> String {
        let parameters = self.parameters();
        grid.submit(address, &self.document, &parameters.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// Lets those end that wait.
    pub fn open_gate(&self) {
        std::fs::write(&self.gate, "").expect("tests can write here");
    }

    /// What was executed: the number, and the attempt.
    pub fn executed(&self) -> Vec<(u64, u64)> {
        let text = std::fs::read_to_string(&self.file).expect("it is there");
        let number = |text: &str| text.parse().expect("a number");
        text.lines()
            .filter_map(|line| line.split_once(' '))
            .map(|(it, attempt)| (number(it), number(attempt)))
            .collect()
    }

    /// Waits for so many executions.
    pub fn wait_for(&self, count: usize) {
        until(&format!("{count} activities have begun"), LONG, || (self.executed().len() >= count).then_some(()));
    }

    /// Waits for the end, which must be the right one, with so many executions more than there are activities, none of
    /// the same attempt.
    #[track_caller]
    pub fn assert_end(&self, grid: &Grid, address: &str, process: &str, repeated: u64) {
        let ended = self.result(grid, address, process);
        let executed = self.executed();
        let distinct: BTreeSet<(u64, u64)> = executed.iter().copied().collect();
        assert_eq!(distinct.len(), executed.len(), "an attempt was executed twice: {executed:?}");
        assert_eq!(executed.len() as u64, self.count + repeated, "{executed:?}");
        let counts = &ended["activities"];
        assert_eq!((counts["completed"].as_u64(), counts["failed"].as_u64()), (Some(self.count), Some(0)), "{ended}");
        // One that was on its way when its coordinator was killed counts, though nobody began it.
        assert!(counts["attempts"].as_u64() >= Some(self.count + repeated), "{ended}");
    }

    /// Waits for the end, which must have the right result.
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

/// Waits for the end of a process, whatever happens to the coordinator meanwhile, and gives what `results` prints.
pub fn ended(grid: &Grid, address: &str, process: &str) -> Json {
    until(&format!("{process} ends"), LONG, || {
        let results = grid.cli(address, &["results", process]);
        (results.code != 3 && !results.stderr.contains("has not ended")).then(|| results.json())
    })
}

/// Waits until the coordinator at this address delegates: it hears of other groups a little later than its manager. Then
/// the group of the other manager has all its room again.
pub fn wait_for_delegation(grid: &mut Grid, address: &str, other: &str) {
    let trial = Lines::elsewhere(grid, 1, 0);
    let parameters = trial.parameters();
    let parameters: Vec<&str> = parameters.iter().map(String::as_str).collect();
    let process = delegated(grid, address, &trial.document, &parameters, "each");
    grid.cli(address, &["cancel", &process]).ok();
    assert_eq!(ended(grid, address, &process)["state"], "cancelled");
    until("there is room", LONG, || grid.nodes(other).iter().all(|node| node["busy"] == 0).then_some(()));
}

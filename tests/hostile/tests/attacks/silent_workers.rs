//! Workers that take work and stay silent, answer twice, or answer for others.

use xavantes_hostile::fake_worker::{FakeWorker, completed, int};
use xavantes_tests::Grid;

/// A process with `count` parallel activities that each return 1; `types` is the attributes of the activity type.
fn adding(count: usize, types: &str) -> String {
    format!(
        r#"<XAVANTES VERSION="1">
  <ACTIVITY_TYPE NAME="One" {types}>
    <OUT_PARAMETER TYPE="int" NAME="one"/>
    <CODE LANGUAGE="lua">one = 1</CODE>
  </ACTIVITY_TYPE>
  <PROCESS_TYPE NAME="Adding">
    <OUT_PARAMETER TYPE="int" NAME="sum"/>
    <BODY>
      <PARFOR NAME="all" TO="{count}" COLLECT="one.one">
        <ITERATE><ACTIVITY TYPE="One" NAME="one"/></ITERATE>
      </PARFOR>
      <POST_CODE>sum = 0 for _, number in all.results do sum += number end</POST_CODE>
    </BODY>
  </PROCESS_TYPE>
</XAVANTES>"#
    )
}

#[test]
fn an_answer_counts_once_however_often_a_worker_sends_it() {
    let mut grid = Grid::new();
    let address = grid.group("a", &[], &[]);
    let worker = FakeWorker::join(&address, "a", "twice", 4, |coordinator, order| {
        for id in order.jobs.into_iter().filter_map(|job| job.id) {
            coordinator.answer(completed(id.clone(), vec![int(1)]));
            coordinator.answer(completed(id, vec![int(1000)]));
        }
    });
    let file = grid.write("adding.xml", &adding(20, ""));
    let process = grid.submit(&address, &file, &[]);
    let end = grid.end(&address, &process);
    assert_eq!(end["results"]["sum"], 20, "{end}");
    assert_eq!(worker.jobs().len(), 20);
}

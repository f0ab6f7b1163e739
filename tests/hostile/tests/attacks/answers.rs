//! Answers that would be too large for a client: long messages of failures, many processes, many types, long paths.

use xavantes_hostile::{block_on, connect};
use xavantes_proto::v1;
use xavantes_proto::v1::process_coordinator_client::ProcessCoordinatorClient;
use xavantes_tests::Grid;
use xavantes_tests::xml::document;

/// Fails with a message of 12 MB.
const LOUD: &str = r#"<PROCESS_TYPE NAME="Loud"><BODY><ACTIVITY NAME="shout" TYPE="Shout"/></BODY></PROCESS_TYPE>
    <ACTIVITY_TYPE NAME="Shout"><CODE LANGUAGE="lua">error(string.rep("x", 12000000))</CODE></ACTIVITY_TYPE>"#;
const QUICK: &str = r#"<PROCESS_TYPE NAME="Quick"><BODY><ACTIVITY NAME="a" TYPE="Nothing"/></BODY></PROCESS_TYPE>
    <ACTIVITY_TYPE NAME="Nothing"><CODE LANGUAGE="lua">local x = 1</CODE></ACTIVITY_TYPE>"#;

#[test]
fn long_messages_break_no_answer() {
    let mut grid = Grid::new();
    let address = grid.group("a", &[2], &[]);
    let file = grid.write("loud.xml", &document(&[LOUD.to_owned()]));
    let processes: Vec<String> = (0..3).map(|_| grid.submit(&address, &file, &[])).collect();
    for process in &processes {
        let waited = grid.cli(&address, &["wait", process]);
        assert_eq!(waited.code, 1, "{:.300?}", waited.stderr);
        assert!(waited.stderr.len() < 10_000 && waited.stderr.contains("(cut: "), "{:.300}", waited.stderr);
    }
    let listed = grid.cli(&address, &["list"]).ok();
    assert!(listed.stdout.len() < 100_000, "{} bytes", listed.stdout.len());
    assert_eq!(listed.json()["processes"].as_array().map(Vec::len), Some(3));
    let process = &processes[0];
    grid.cli(&address, &["tree", process]).ok();
    // More of the message is there for those who ask for it.
    for arguments in [&["show", process][..], &["results", process]] {
        let answer = grid.cli(&address, arguments);
        assert!(
            answer.json()["error"].as_str().is_some_and(|it| it.contains(" bytes left out]")),
            "{:.300?}",
            answer.stdout
        );
    }
    // So is the answer about the attempt, though nobody needs its message twice.
    let shown = grid.cli(&address, &["show", &format!("{process}/shout")]).ok();
    assert!(shown.stdout.len() < 100_000, "{} bytes", shown.stdout.len());
}

#[test]
fn lists_come_in_pages() {
    let mut grid = Grid::new();
    let address = grid.group("a", &[2], &[]);
    let file = grid.write("quick.xml", &document(&[QUICK.to_owned()]));
    let processes: Vec<String> = (0..12).map(|_| grid.submit(&address, &file, &[])).collect();
    grid.end(&address, &processes[11]);
    let mut listed = Vec::new();
    block_on(async {
        let mut client = ProcessCoordinatorClient::new(connect(&address).await);
        let mut page = String::new();
        loop {
            let request = v1::ListRequest { limit: 5, page, ..v1::ListRequest::default() };
            let answer = client.list(request).await.expect("it answers").into_inner();
            assert!(answer.processes.len() <= 5);
            listed.extend(answer.processes.into_iter().map(|it| it.process));
            page = answer.next_page;
            if page.is_empty() {
                return;
            }
        }
    });
    assert_eq!(listed.len(), 12);
    assert!(processes.iter().all(|process| listed.contains(process)));
    let ids = |arguments: &[&str]| -> Vec<String> {
        let list = grid.cli(&address, arguments).ok().json();
        let all = list["processes"].as_array().cloned().unwrap_or_default();
        all.iter().filter_map(|it| it["process"].as_str().map(str::to_owned)).collect()
    };
    listed.reverse();
    assert_eq!(ids(&["list"]), listed);
    assert_eq!(ids(&["list", "--limit", "3"]), listed[..3]);
    assert_eq!(ids(&["list", "--limit", "100"]), listed);
}

/// Bytes that a node has read from files since its start.
fn bytes_read(grid: &Grid, node: &str) -> u64 {
    let io = std::fs::read_to_string(format!("/proc/{}/io", grid.pid(node))).expect("the node runs");
    let line = io.lines().find_map(|line| line.strip_prefix("rchar: "));
    line.and_then(|bytes| bytes.parse().ok()).expect("the kernel tells it")
}

#[test]
fn a_page_of_the_list_reads_what_it_shows() {
    let large = r#"<PROCESS_TYPE NAME="Large"><OUT_PARAMETER TYPE="string" NAME="text"/>
        <BODY><POST_CODE>text = string.rep("x", 4000000)</POST_CODE></BODY></PROCESS_TYPE>"#;
    let mut grid = Grid::new();
    let address = grid.group("a", &[], &[]);
    let file = grid.write("large.xml", &document(&[large.to_owned()]));
    let processes: Vec<String> = (0..20).map(|_| grid.submit(&address, &file, &[])).collect();
    processes.iter().for_each(|process| assert_eq!(grid.end(&address, process)["state"], "completed"));
    let before = bytes_read(&grid, "a/main");
    let list = grid.cli(&address, &["list", "--limit", "1"]).ok().json();
    assert_eq!(list["processes"][0]["process"], processes[19].as_str());
    let read = bytes_read(&grid, "a/main") - before;
    // One process tells whether there is a next page.
    assert!(read < 3 * 4_000_000, "the node read {read} bytes for one process of 4 MB");
}

#[test]
fn a_page_that_no_list_gave_is_refused() {
    let mut grid = Grid::new();
    let address = grid.group("a", &[], &[]);
    block_on(async {
        let mut client = ProcessCoordinatorClient::new(connect(&address).await);
        for page in ["x", "1", "-1/p", "99999999999999999999/p", "1/a\0b"].map(str::to_owned) {
            let refused = client.list(v1::ListRequest { page: page.clone(), ..Default::default() }).await;
            assert_eq!(refused.expect_err("no list gave it").code(), tonic::Code::InvalidArgument, "{page}");
        }
    });
}

#[test]
fn an_error_about_a_long_name_reaches_the_client() {
    let mut grid = Grid::new();
    let address = grid.group("a", &[1], &[]);
    let long = "名/".repeat(20_000);
    for arguments in [&["show", &long][..], &["cancel", &long], &["wait", &long], &["logs", &long], &["forget", &long]]
    {
        let ended = grid.cli(&address, arguments);
        assert_eq!(ended.code, 2, "{}: {:.300}", arguments[0], ended.stderr);
        assert!(!ended.stderr.contains("broke"), "{}: {:.300}", arguments[0], ended.stderr);
    }
}

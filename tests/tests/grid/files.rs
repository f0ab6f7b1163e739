//! Files of workers that share no file system: each moves once, stays while a process needs it, and is made again when lost.

use std::collections::BTreeSet;

use serde_json::Value as Json;
use xavantes_proto::v1;
use xavantes_proto::v1::files_client::FilesClient;
use xavantes_tests::xml::{command_type, document, inputs, output_file, outputs, pass_on, process_type, shell_type};
use xavantes_tests::{Grid, free_address, until};

use crate::kit::{tree, workers};

/// Splits a file, processes each part twice together with a common directory, and merges the parts.
fn pipeline() -> String {
    let body = r#"
      <ACTIVITY TYPE="Split" NAME="split" data="${data}"/>
      <PARFOR NAME="each" EACH="${split.parts}" COLLECT="second.out">
        <ITERATE>
          <ACTIVITY TYPE="Add" NAME="first" part="${item}" common="${common}"/>
          <ACTIVITY TYPE="Add" NAME="second" part="${first.out}" common="${common}"/>
        </ITERATE>
      </PARFOR>
      <ACTIVITY TYPE="Merge" NAME="merge" parts="${each.results}"/>
      <POST_CODE>merged, parts = merge.merged, each.results</POST_CODE>"#;
    let add = [
        inputs("file part, directory common"),
        outputs("file out"),
        r#"<INPUT PARAMETER="common" PATH="shared/common"/>"#.into(),
        output_file("out", "out/*.txt"),
    ];
    let split = [inputs("file data"), outputs("list parts"), output_file("parts", "part-*")];
    let merge = [inputs("list parts"), outputs("file merged"), output_file("merged", "merged.txt")];
    let add_script =
        "mkdir out; awk -v add=$(cat shared/common/deep/number) '{ print $1 + add }' ${part} > out/part.txt";
    let parameters = [inputs("file data, directory common"), outputs("file merged, list parts")];
    document(&[
        process_type("Pipeline", &parameters, body),
        command_type("Split", &split, &["split", "-l", "500", "${data}", "part-"]),
        shell_type("Add", &add, add_script, &[]),
        shell_type("Merge", &merge, "cat parts/*/part.txt > merged.txt", &[]),
    ])
}

/// The objects of a node, and its transfers.
fn count(grid: &Grid, address: &str, node: &str) -> v1::CountResponse {
    let nodes = grid.nodes(address);
    let found = nodes.iter().find(|it| it["node"] == node).unwrap_or_else(|| panic!("there is no {node}: {nodes:?}"));
    let at = found["address"].as_str().expect("it has an address").to_owned();
    let runtime = tokio::runtime::Runtime::new().expect("threads are available");
    runtime.block_on(async {
        let channel = xavantes_proto::connect(&at).await.expect("it is there");
        FilesClient::new(channel).count(v1::CountRequest {}).await.expect("it answers").into_inner()
    })
}

/// The number of owners for whom a node has pinned files.
pub fn owners(grid: &Grid, node: &str) -> usize {
    std::fs::read_dir(grid.data(node).join("files/pins")).map_or(0, Iterator::count)
}

fn digest(content: &str) -> String {
    blake3::hash(content.as_bytes()).to_hex().to_string()
}

/// The paths of the activities that a worker ran.
fn ran(grid: &Grid, worker: &str) -> Vec<String> {
    let index = std::fs::read_to_string(grid.data(worker).join("logs/index")).unwrap_or_default();
    let noted = index.lines().map(|line| serde_json::from_str::<Json>(line).expect("each line is JSON"));
    noted.map(|attempt| attempt["path"].as_str().expect("it has a path").to_owned()).collect()
}

/// Digest and size of each object that a node received, as often as it received it.
fn arrivals(grid: &Grid, node: &str) -> Vec<(String, u64)> {
    let log = grid.log(node);
    let received = log.lines().filter_map(|line| line.split_once("object received digest=")?.1.split_once(" size="));
    received.map(|(digest, size)| (digest.to_owned(), size.trim().parse().expect("a number"))).collect()
}

#[test]
fn each_file_moves_at_most_once_to_each_worker_and_the_result_is_right() {
    let mut grid = Grid::new();
    let address = grid.group("a", &[], &[]);
    for worker in ["a/w1", "a/w2", "a/w3"] {
        grid.worker(worker, &address, &["--slots", "1", "--queue", "0", "-vv"]);
    }
    grid.wait_for_nodes(&address, 4);
    let file = grid.write("pipeline.xml", &pipeline());
    let lines = 10_000_u64;
    let table = |add: u64| (1..=lines).map(|number| format!("{}\n", number + add)).collect::<Vec<_>>();
    let numbers = table(0).concat();
    let data = grid.write("data.txt", &numbers);
    let common = grid.folder().join("common");
    std::fs::create_dir_all(common.join("deep")).expect("tests can write here");
    std::fs::write(common.join("deep/number"), "7").expect("tests can write here");
    std::fs::write(common.join("large"), "x".repeat(1 << 20)).expect("tests can write here");
    let common = format!("common=@{}", common.display());
    let process = grid.submit(&address, &file, &[&format!("data=@{data}"), &common]);
    let out = grid.folder().join("out");
    let ended = grid.end(&address, &process);
    assert_eq!((&ended["state"], &ended["activities"]["completed"]), (&"completed".into(), &42.into()), "{ended}");
    let fetched = grid.cli(&address, &["results", &process, "--download", out.to_str().expect("it is UTF-8")]).ok();
    let expected = table(14).concat();
    let merged = std::fs::read_to_string(out.join("merged/merged.txt")).expect("it was downloaded");
    assert_eq!(merged, expected);
    assert_eq!(fetched.json()["results"]["merged"], format!("{}/merged/merged.txt", out.display()));
    let last = std::fs::read_to_string(out.join("parts/20/part.txt")).expect("it was downloaded");
    assert!(last.ends_with(&format!("{}\n", lines + 14)));
    assert!(!out.join(".xavantes-download").exists());
    // The objects that each activity needs and makes. The common directory has a number, a large file and a manifest; only the
    // digest of the manifest is unknown here.
    let parts = [0, 7, 14].map(|add| table(add).chunks(500).map(|part| digest(&part.concat())).collect::<Vec<_>>());
    let shared = [digest("7"), digest(&"x".repeat(1 << 20))];
    let work = |path: &str| {
        let part = path.split(['[', ']']).nth(1).map_or(0, |number| number.parse::<usize>().expect("a number") - 1);
        let with_shared = |one: &String| [std::slice::from_ref(one), &shared[..]].concat();
        match path.rsplit('/').next() {
            Some("split") => (vec![digest(&numbers)], parts[0].clone()),
            Some("first") => (with_shared(&parts[0][part]), vec![parts[1][part].clone()]),
            Some("second") => (with_shared(&parts[1][part]), vec![parts[2][part].clone()]),
            Some("merge") => (parts[2].clone(), vec![digest(&expected)]),
            other => panic!("{other:?} is not in the process"),
        }
    };
    let mut lists = BTreeSet::new();
    for worker in ["w1", "w2", "w3"] {
        let (mut needed, mut made) = (BTreeSet::new(), BTreeSet::new());
        for path in ran(&grid, &format!("a/{worker}")) {
            let (needs, makes) = work(&path);
            needed.extend(needs);
            made.extend(makes);
        }
        let came = arrivals(&grid, &format!("a/{worker}"));
        let moved = count(&grid, &address, worker);
        assert_eq!(moved.objects_in, came.len() as u64, "{worker}: {moved:?}");
        assert_eq!(moved.bytes_in, came.iter().map(|(_, size)| size).sum::<u64>(), "{worker}: {moved:?}");
        let mut came: Vec<String> = came.into_iter().map(|(digest, _)| digest).collect();
        came.sort();
        let (known, unknown): (Vec<_>, Vec<_>) = came.into_iter().partition(|digest| needed.contains(digest));
        // A worker receives each object that it needs and did not make, once.
        assert_eq!(known, needed.difference(&made).cloned().collect::<Vec<_>>(), "{worker}");
        assert_eq!(unknown.len(), usize::from(needed.contains(&shared[0])), "{worker}: {unknown:?}");
        lists.extend(unknown);
    }
    assert_eq!(lists.len(), 1, "{lists:?}");
    // Results stay pinned as long as the process exists, other files do not.
    let all = || ["a/main", "a/w1", "a/w2", "a/w3"].map(|node| owners(&grid, node));
    until("the inputs are released", 60, || (all()[0] == 0).then_some(()));
    assert!(all()[1..].iter().sum::<usize>() > 0, "{:?}", all());
    grid.cli(&address, &["forget", &process]).ok();
    until("all files are released", 60, || (all() == [0; 4]).then_some(()));
}

#[test]
fn the_pipeline_runs_at_any_size_on_workers_that_share_nothing() {
    let folder = Grid::new();
    let script = xavantes_tests::workspace().join("examples/file-pipeline.sh");
    let ran = std::process::Command::new("bash")
        .arg(script)
        .args(["20000", "1500"])
        .arg(folder.folder())
        .env("XAVANTES", xavantes_tests::program())
        .env("NAMESPACES", "no")
        .output()
        .expect("bash is installed");
    let printed = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success(), "{printed}{}", String::from_utf8_lossy(&ran.stderr));
    for part in ["parts = 14\n", "\nw1: ", "\nw2: ", "\nw3: "] {
        assert!(printed.contains(part), "{part:?}: {printed}");
    }
}

/// Makes a file and a directory on one worker, waits at a gate on another worker, and uses the directory there.
fn loss() -> String {
    let body = r#"
      <ACTIVITY TYPE="Make" NAME="make" command="${command}"/>
      <ACTIVITY TYPE="Refine" NAME="refine" raw="${make.raw}"/>
      <ACTIVITY TYPE="Wait" NAME="wait" gate="${gate}"/>
      <ACTIVITY TYPE="Use" NAME="use" table="${refine.table}"/>
      <POST_CODE>lines, table = use.lines, use.copy</POST_CODE>"#;
    let parameters = [
        inputs("string gate"),
        r#"<IN_PARAMETER TYPE="string" NAME="command" DEFAULT="seq 1 1000"/>"#.into(),
        outputs("int lines, file table"),
    ];
    let tagged = |tag: &str| format!("<REQUIRES TAGS=\"{tag}\"/>");
    let make = [inputs("string command"), outputs("file raw"), tagged("maker"), output_file("raw", "raw.txt")];
    let refine = [inputs("file raw"), outputs("directory table"), tagged("maker"), output_file("table", "table")];
    let wait = [inputs("string gate"), tagged("user")];
    let used =
        [inputs("directory table"), outputs("int lines, file copy"), tagged("user"), output_file("copy", "copy")];
    let use_script = r#"cp ${table}/sevens copy; printf '{"lines": %d}' $(wc -l < copy) > $XAVANTES_RESULTS"#;
    document(&[
        process_type("Loss", &parameters, body),
        shell_type("Make", &make, "${command} > raw.txt", &[]),
        shell_type("Refine", &refine, "mkdir table; grep 7 ${raw} > table/sevens", &[]),
        shell_type("Wait", &wait, "while [ ! -e ${gate} ]; do sleep 0.1; done", &[]),
        shell_type("Use", &used, use_script, &[]),
    ])
}

/// Runs `Loss` up to its gate, kills the only worker that has the files made so far, and continues with another worker.
fn lose(grid: &mut Grid, parameters: &[&str]) -> Json {
    let address = grid.group("a", &[], &[]);
    grid.worker("a/user", &address, &["--slots", "1", "--tags", "user"]);
    grid.worker("a/lost", &address, &["--slots", "1", "--tags", "maker"]);
    grid.wait_for_nodes(&address, 3);
    let file = grid.write("loss.xml", &loss());
    let gate = grid.folder().join("gate");
    let gated = format!("gate={}", gate.display());
    let process = grid.submit(&address, &file, &[&[gated.as_str()], parameters].concat());
    until("the process is at the gate", 60, || {
        let shown = tree(grid, &address, &process)?;
        (workers(&shown) == ["user"]).then_some(())
    });
    grid.kill("a/lost");
    grid.worker("a/other", &address, &["--slots", "1", "--tags", "maker"]);
    std::fs::write(&gate, "").expect("tests can write here");
    let ended = grid.end(&address, &process);
    if ended["state"] == "completed" {
        let out = grid.folder().join("out");
        grid.cli(&address, &["results", &process, "--download", out.to_str().expect("it is UTF-8")]).ok();
        let sevens: String =
            (1..=1000).map(|it| it.to_string()).filter(|it| it.contains('7')).map(|it| it + "\n").collect();
        assert_eq!(std::fs::read_to_string(out.join("table/copy")).expect("it was downloaded"), sevens);
    }
    ended
}

#[test]
fn files_whose_only_holder_was_killed_are_made_again() {
    let mut grid = Grid::new();
    let ended = lose(&mut grid, &[]);
    assert_eq!((&ended["state"], &ended["results"]["lines"]), (&"completed".into(), &271.into()), "{ended}");
    assert_eq!(ended["activities"]["completed"], 4, "a repeated activity does not count as completed again: {ended}");
}

#[test]
fn a_draining_worker_hands_over_files_that_only_it_has() {
    let mut grid = Grid::new();
    let address = grid.group("a", &[], &[]);
    grid.worker("a/user", &address, &["--slots", "1", "--tags", "user"]);
    grid.worker("a/maker", &address, &["--slots", "1", "--tags", "maker"]);
    grid.wait_for_nodes(&address, 3);
    let file = grid.write("loss.xml", &loss());
    let gate = grid.folder().join("gate");
    let once = grid.folder().join("once");
    // A second execution would fail.
    let command = format!("command=mkdir {} || exit 1; seq 1 1000", once.display());
    let process = grid.submit(&address, &file, &[&format!("gate={}", gate.display()), &command]);
    until("the process is at the gate", 60, || (workers(&tree(&grid, &address, &process)?) == ["user"]).then_some(()));
    grid.cli(&address, &["drain", "maker"]).ok();
    until("the worker has ended", 60, || grid.ended("a/maker"));
    std::fs::write(&gate, "").expect("tests can write here");
    let ended = grid.end(&address, &process);
    assert_eq!((&ended["state"], &ended["results"]["lines"]), (&"completed".into(), &271.into()), "{ended}");
    // The worker may join again immediately.
    grid.restart("a/maker");
    grid.wait_for_nodes(&address, 3);
    xavantes_tests::stays("the worker is not asked to drain again", 3000, || grid.ended("a/maker").is_none());
}

#[test]
fn an_error_says_that_an_activity_made_another_file_the_second_time() {
    let mut grid = Grid::new();
    let once = grid.folder().join("once");
    let command = format!("command=mkdir {}; echo $? 7", once.display());
    let ended = lose(&mut grid, &[&command]);
    assert_eq!(ended["state"], "failed", "{ended}");
    let error = ended["error"].to_string();
    for part in ["is gone", "cannot be reached", "/make was run again", "not the same each time"] {
        assert!(error.contains(part), "{part}: {error}");
    }
}

/// Copies a file or a directory of a data source into another one.
fn copies() -> String {
    let body = |activity: &str, passed: &str| {
        let step = format!("<ACTIVITY TYPE=\"{activity}\" NAME=\"step\"{}/>", pass_on(passed));
        format!("{step}<POST_CODE>copy = step.copy</POST_CODE>")
    };
    let written = |to: &str| format!("<OUTPUT PARAMETER=\"copy\" PATTERN=\"copy\" TO=\"source://{to}\"/>");
    let file = [inputs("file data, string to"), outputs("file copy")];
    let directory = [inputs("directory data"), outputs("directory copy")];
    let copy_file = [&file[..], &[written("${to}/done/copy")]].concat();
    let staged = r#"<INPUT PARAMETER="data" PATH="in"/>"#.to_owned();
    let copy_directory = [&directory[..], &[staged, written("local/all")]].concat();
    document(&[
        process_type("Sources", &file, &body("Copy", "data to")),
        process_type("Below", &directory, &body("CopyAll", "data")),
        command_type("Copy", &copy_file, &["cp", "${data}", "copy"]),
        command_type("CopyAll", &copy_directory, &["cp", "-r", "in", "copy"]),
    ])
}

/// A server that ends with the test.
struct Server(std::process::Child);

impl Server {
    /// Starts a program and waits until it listens at its address. Returns nothing if it is not installed.
    fn start(program: &str, arguments: &[&str], address: &str) -> Option<Self> {
        let quiet = std::process::Stdio::null;
        let child = std::process::Command::new(program).args(arguments).stdout(quiet()).stderr(quiet()).spawn();
        let Ok(child) = child else {
            eprintln!("SKIPPED: {program} is not installed, so a part of this test does not run");
            return None;
        };
        let server = Self(child);
        until(&format!("{program} listens"), 60, || std::net::TcpStream::connect(address).ok());
        Some(server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn copy(grid: &Grid, address: &str, file: &str, process: &str, parameters: &[&str]) -> Json {
    let parameters = parameters.iter().flat_map(|parameter| ["-p", parameter]);
    let arguments: Vec<&str> = ["submit", file, "--wait", "--process", process].into_iter().chain(parameters).collect();
    grid.cli(address, &arguments).json()
}

#[test]
fn data_sources_are_read_and_written() {
    let s3 = free_address();
    let mut grid = Grid::new();
    let address = grid.group("a", &[1, 1], &[]);
    let file = grid.write("sources.xml", &copies());
    let root = grid.folder().join("root");
    std::fs::create_dir_all(root.join("tree/deep")).expect("tests can write here");
    std::fs::write(root.join("in.txt"), "from outside\n").expect("tests can write here");
    std::fs::write(root.join("tree/deep/a"), "a").expect("tests can write here");
    std::fs::write(root.join("tree/b"), "b").expect("tests can write here");
    let add = |name: &str, uri: &str| grid.cli(&address, &["sources", "add", name, uri]).ok();
    add("local", root.to_str().expect("it is UTF-8"));
    let ended = copy(&grid, &address, &file, "Sources", &["data=source://local/in.txt", "to=local"]);
    assert_eq!(ended["state"], "completed", "{ended}");
    assert_eq!(ended["results"]["copy"]["$file"]["size"], 13, "{ended}");
    let read = |path: &str| std::fs::read_to_string(root.join(path)).unwrap_or_default();
    assert_eq!(read("done/copy"), "from outside\n");
    let ended = copy(&grid, &address, &file, "Below", &["data=source://local/tree"]);
    assert_eq!(ended["state"], "completed", "{ended}");
    assert_eq!((read("all/deep/a"), read("all/b")), ("a".into(), "b".into()));
    // Links must not lead out of a source, neither for readers nor for writers.
    let secret = grid.folder().join("secret");
    std::fs::create_dir_all(&secret).expect("tests can write here");
    std::fs::write(secret.join("key"), "secret").expect("tests can write here");
    std::os::unix::fs::symlink("../secret", root.join("out")).expect("tests can write here");
    for (name, data) in [("local", "source://local/out/key"), ("local/out", "source://local/in.txt")] {
        let ended = copy(&grid, &address, &file, "Sources", &[&format!("data={data}"), &format!("to={name}")]);
        let error = ended["error"].as_str().unwrap_or_default();
        assert!(error.contains("leads out of the directory through a symbolic link"), "{ended}");
    }
    assert!(!secret.join("done").exists());
    // A changed file is read again.
    std::fs::write(root.join("in.txt"), "changed\n").expect("tests can write here");
    copy(&grid, &address, &file, "Sources", &["data=source://local/in.txt", "to=local"]);
    assert_eq!(read("done/copy"), "changed\n");
    for (data, expected) in [
        ("source://local/absent", "\"source://local/absent\" is not there"),
        ("source://nobody/x", "there is no data source \"nobody\""),
        ("source://local/../x", "leads out of the directory"),
    ] {
        let ended = copy(&grid, &address, &file, "Sources", &[&format!("data={data}"), "to=local"]);
        assert!(ended["error"].as_str().is_some_and(|error| error.contains(expected)), "{expected}: {ended}");
    }
    let http = free_address();
    let port = http.rsplit_once(':').expect("it has a port").1;
    let folder = root.to_str().expect("it is UTF-8");
    let arguments = ["-m", "http.server", port, "--bind", "127.0.0.1", "--directory", folder];
    if let Some(_server) = Server::start("python3", &arguments, &http) {
        add("web", &format!("http://{http}/"));
        let ended = copy(&grid, &address, &file, "Sources", &["data=source://web/tree/b", "to=local"]);
        assert_eq!((&ended["state"], read("done/copy").as_str()), (&"completed".into(), "b"), "{ended}");
        let ended = copy(&grid, &address, &file, "Sources", &["data=source://web/absent", "to=local"]);
        assert!(ended["error"].as_str().is_some_and(|error| error.contains("is not there")), "{ended}");
    }
    let port = s3.rsplit_once(':').expect("it has a port").1;
    if let Some(_server) = Server::start("moto_server", &["-H", "127.0.0.1", "-p", port], &s3) {
        let made =
            std::process::Command::new("curl").args(["-sS", "-X", "PUT", &format!("http://{s3}/bucket")]).status();
        assert!(made.is_ok_and(|status| status.success()), "the bucket was created");
        add(
            "bucket",
            &format!(
                "s3://bucket/some/prefix?endpoint=http://{s3}&region=us-east-1&access_key_id=anybody&secret_access_key=anything"
            ),
        );
        let ended = copy(&grid, &address, &file, "Sources", &["data=source://local/in.txt", "to=bucket"]);
        assert_eq!(ended["state"], "completed", "{ended}");
        let ended = copy(&grid, &address, &file, "Sources", &["data=source://bucket/done/copy", "to=local"]);
        assert_eq!((&ended["state"], read("done/copy").as_str()), (&"completed".into(), "changed\n"), "{ended}");
        // A large file is uploaded in parts. The ETag ends in a dash and the number of parts.
        let large: Vec<u8> = (0..25_000_000_u32).map(|number| (number ^ number >> 8 ^ number >> 16) as u8).collect();
        std::fs::write(root.join("large"), &large).expect("tests can write here");
        let ended = copy(&grid, &address, &file, "Sources", &["data=source://local/large", "to=bucket"]);
        assert_eq!(ended["state"], "completed", "{ended}");
        let uri = format!("http://{s3}/bucket/some/prefix/done/copy");
        let head = std::process::Command::new("curl").args(["-sSI", &uri]).output().expect("curl is installed");
        let head = String::from_utf8_lossy(&head.stdout).to_lowercase();
        let tag = head.lines().find_map(|line| line.strip_prefix("etag:")).unwrap_or_else(|| panic!("{head}"));
        let parts = tag.trim().trim_matches('"').rsplit_once('-').and_then(|(_, parts)| parts.parse().ok());
        assert!(parts.is_some_and(|parts: u32| parts > 1), "{head}");
        let ended = copy(&grid, &address, &file, "Sources", &["data=source://bucket/done/copy", "to=local"]);
        assert_eq!(ended["state"], "completed", "{ended}");
        assert!(std::fs::read(root.join("done/copy")).is_ok_and(|copy| copy == large), "the copy equals the original");
    }
}

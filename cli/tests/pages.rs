//! The commands of the README, of the tutorial and of the pages on steering, planning and import, run as they are written.

mod common;

use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

use common::Folder;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// A fenced block: the words behind the opening fence, and the lines between the fences.
struct Block {
    info: String,
    content: String,
}

fn blocks(page: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut open: Option<Block> = None;
    for line in page.lines() {
        match (&mut open, line.strip_prefix("```")) {
            (Some(_), Some("")) => blocks.extend(open.take()),
            (Some(block), _) => block.content += &format!("{line}\n"),
            (None, Some(info)) => open = Some(Block { info: info.to_owned(), content: String::new() }),
            (None, None) => {}
        }
    }
    blocks
}

/// The file that a block is to be saved as.
fn title(block: &Block) -> Option<&str> {
    block.info.split_once("title=\"")?.1.strip_suffix('"')
}

/// A script in which `xavantes` and `cargo run` are the binary under test.
///
/// A reader takes a moment between two blocks. The script instead waits until the nodes that it has started are up.
fn script(body: &str) -> String {
    let binary = env!("CARGO_BIN_EXE_xavantes");
    // The name is replaced, not wrapped in a shell function, so that the jobs of the shell are the nodes themselves.
    let body = body.replace("cargo run --release -- ", "xavantes ").replace("xavantes ", &format!("{binary} "));
    format!(
        r#"set -eu
wait_for() {{
  for _ in $(seq 100); do
    if [ "$("{binary}" "$1" --coordinator "$2" 2>/dev/null | grep -c "$3")" -ge "$4" ]; then return 0; fi
    sleep 0.1
  done
  echo "$1 at $2 never showed $4 of $3" >&2; exit 1
}}
trap 'kill $(jobs -p) 2>/dev/null || true' EXIT
export XAVANTES_COORDINATOR=127.0.0.1:7433
{body}
"#
    )
}

/// Replaces the ports of a page by free ones: a grid may already use those of the page.
fn with_free_ports(body: &str) -> String {
    let ports = ["7433", "7434", "7435", "7443", "7444"];
    let free = ports.map(|_| TcpListener::bind("127.0.0.1:0").expect("there are free ports"));
    ports.iter().zip(free).fold(body.to_owned(), |body, (port, free)| {
        let free = free.local_addr().expect("the listener is bound").port();
        body.replace(&format!("127.0.0.1:{port}"), &format!("127.0.0.1:{free}"))
    })
}

fn run(body: &str, directory: &Path, state: &str) -> String {
    let output = Command::new("timeout")
        .args(["120", "bash", "-c", &with_free_ports(&script(body))])
        .current_dir(directory)
        .env("XDG_STATE_HOME", state)
        .output()
        .expect("timeout and bash are installed");
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{}\n{stdout}\n{stderr}", output.status);
    stdout.into_owned()
}

/// Whether a line of a page, in which `…` stands for anything, describes a printed line.
fn describes(expected: &str, printed: &str) -> bool {
    let mut rest = printed;
    expected.split('…').map(str::trim).all(|part| match rest.find(part) {
        Some(at) => {
            rest = &rest[at + part.len()..];
            true
        }
        None => false,
    })
}

#[test]
fn the_commands_of_the_readme_do_what_it_says() {
    let page = blocks(include_str!("../../README.md"));
    let of =
        |info: &str| page.iter().filter(|block| block.info == info).map(|block| &*block.content).collect::<Vec<_>>();
    let (commands, shown) = (of("sh"), of("text"));
    let [first, tests, grid, ask, groups, span] = commands[..] else { panic!("{} blocks", commands.len()) };
    let folder = Folder::new();
    let (root, state) = (Path::new(ROOT), folder.path("state"));
    assert_eq!(run(first, root, &state).trim(), shown[1].trim());
    assert_eq!(tests.trim(), "cargo test --release --workspace");
    let body = format!(
        "{grid}\nwait_for nodes 127.0.0.1:7433 ' up$' 3\n{ask}\n{groups}\nwait_for nodes 127.0.0.1:7443 ' up$' 2\n\
         wait_for groups 127.0.0.1:7433 south 1\n{span}"
    );
    let printed = run(&body, root, &state);
    for expected in ["boss", "one", "two", "WordCount-", "completed", "south", "people = 75"] {
        assert!(printed.contains(expected), "{expected:?} is not in\n{printed}");
    }
}

#[test]
fn the_steps_of_the_tutorial_print_what_it_shows() {
    check_steps(include_str!("../../docs/tutorial.md"), 8, 6);
}

#[test]
fn the_steps_of_the_page_on_steering_print_what_it_shows() {
    check_steps(&include_str!("../../docs/steering.md").replace("seconds=5", "seconds=1"), 8, 7);
}

#[test]
fn the_steps_of_the_page_on_planning_print_what_it_shows() {
    check_steps(include_str!("../../docs/planning.md"), 6, 6);
}

#[test]
fn the_steps_of_the_page_about_import_print_what_it_shows() {
    check_steps(include_str!("../../docs/import.md"), 6, 6);
}

/// Saves the files of a page, runs its steps, and compares what they print. The page has at least this many steps and
/// outputs.
fn check_steps(page: &str, least_steps: usize, least_outputs: usize) {
    let page = blocks(page);
    let folder = Folder::new();
    let directory = folder.path("work");
    std::fs::create_dir(&directory).expect("the folder is empty");
    let mut body = String::new();
    let mut expected: Vec<(usize, &str)> = Vec::new();
    let mut steps = 0;
    for (index, block) in page.iter().enumerate() {
        if let Some(title) = title(block) {
            std::fs::write(Path::new(&directory).join(title), &block.content).expect("the folder is writable");
        } else if block.info == "sh" {
            steps += 1;
            body += &format!("echo '--- step {steps}'\n{}", block.content);
            if block.content.contains("--name boss") {
                body += "wait_for nodes 127.0.0.1:7433 ' up$' 2\n";
            } else if block.content.contains("--name south") {
                body += "wait_for nodes 127.0.0.1:7443 ' up$' 2\nwait_for groups 127.0.0.1:7433 south 1\n";
                // A coordinator hears of other groups with the next roster, which comes every second.
                body += "sleep 2\n";
            }
        } else {
            assert_eq!(block.info, "text", "block {index}");
            expected.push((steps, &block.content));
        }
    }
    let enough = steps >= least_steps && expected.len() >= least_outputs;
    assert!(enough, "{steps} steps, {} outputs", expected.len());
    let printed = run(&body, Path::new(&directory), &folder.path("state"));
    let printed: Vec<&str> = printed.split("--- step ").collect();
    for (step, text) in expected {
        let mut lines = printed[step].lines().skip(1);
        for wanted in text.lines().filter(|line| *line != "…") {
            assert!(
                lines.any(|line| describes(wanted, line)),
                "step {step}: no {wanted:?} in order in\n{}",
                printed[step]
            );
        }
    }
}

#[test]
fn outputs_that_differ_from_a_page_are_noticed() {
    assert!(describes("one … up", "one  127.0.0.1:1  up"));
    assert!(describes("…9 of 9…", "fly  9 of 9 completed"));
    assert!(!describes("one … up", "two  127.0.0.1:1  up"));
    assert!(!describes("up … one", "one  up"));
}

//! The commands of the README, run as they are written.

mod common;

use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

use common::Folder;

/// The fenced blocks of a language, in order.
fn blocks(text: &str, language: &str) -> Vec<String> {
    let fence = format!("```{language}\n");
    text.split(&fence).skip(1).filter_map(|rest| rest.split("```").next()).map(str::to_owned).collect()
}

/// A script in which `xavantes` and `cargo run` are the binary under test.
fn script(body: &str) -> String {
    let binary = env!("CARGO_BIN_EXE_xavantes");
    // Written out rather than as a function, so that the jobs of the shell are the nodes themselves.
    let body = body.replace("cargo run --release -- ", "xavantes ").replace("xavantes ", &format!("{binary} "));
    // Whoever reads a page takes a moment between two blocks; a script waits for what the page says is there.
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
{body}
"#
    )
}

/// The ports of the page, each in the place of a free one: somebody may run a grid on those.
fn elsewhere(body: &str) -> String {
    let ports = ["7433", "7434", "7435", "7443", "7444"];
    let free = ports.map(|_| TcpListener::bind("127.0.0.1:0").expect("there are free ports"));
    ports.iter().zip(free).fold(body.to_owned(), |body, (port, free)| {
        let free = free.local_addr().expect("it is bound").port();
        body.replace(&format!("127.0.0.1:{port}"), &format!("127.0.0.1:{free}"))
    })
}

fn run(body: &str) -> String {
    let folder = Folder::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let output = Command::new("timeout")
        .args(["120", "bash", "-c", &script(body)])
        .current_dir(root)
        .env("XDG_STATE_HOME", folder.path("state"))
        .output()
        .expect("timeout and bash are there");
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{}\n{stdout}\n{stderr}", output.status);
    stdout.into_owned()
}

#[test]
fn the_commands_of_the_readme_do_what_it_says() {
    let readme = include_str!("../../README.md");
    let commands = blocks(readme, "sh");
    let shown = blocks(readme, "text");
    let [first, tests, grid, ask, groups, span, containers @ ..] = &commands[..] else {
        panic!("{} blocks", commands.len())
    };
    // Those need Docker, and many minutes to build the image.
    assert!(containers.iter().all(|block| block.starts_with("docker compose ")));
    assert_eq!(run(first).trim(), shown[1].trim());
    assert_eq!(tests.trim(), "cargo test --workspace");
    let printed = run(&elsewhere(&format!(
        "export XAVANTES_COORDINATOR=127.0.0.1:7433\n{grid}\nwait_for nodes 127.0.0.1:7433 ' up$' 3\n{ask}\n{groups}\n\
         wait_for nodes 127.0.0.1:7443 ' up$' 2\nwait_for groups 127.0.0.1:7433 south 1\n{span}"
    )));
    for expected in ["boss", "one", "two", "WordCount-", "completed", "south", "people = 75"] {
        assert!(printed.contains(expected), "{expected:?} is not in\n{printed}");
    }
}

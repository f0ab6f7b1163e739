//! Damaged and missing records of the embedded store.

use std::fs;
use std::path::Path;

use xavantes_tests::xml::{document, inputs, process_type, shell_type};
use xavantes_tests::{Grid, is_live, until};

/// Two activities in a row. Each appends a line to the file; the second waits until the file `gate` exists.
fn counting(grid: &mut Grid) -> String {
    let step = r#"printf '%s\n' "$1" >> "$2"; while [ -n "$3" ] && [ ! -e "$3" ]; do sleep 0.05; done"#;
    let body = r#"
        <ACTIVITY TYPE="Step" NAME="first" line="${line}" file="${file}" gate=""/>
        <ACTIVITY TYPE="Step" NAME="second" line="${line}" file="${file}" gate="${gate}"/>"#;
    let types = [
        process_type("P", &[inputs("string line, string file, string gate")], body),
        shell_type(
            "Step",
            &[inputs("string line, string file, string gate")],
            step,
            &["${line}", "${file}", "${gate}"],
        ),
    ];
    grid.write("counting.xml", &document(&types))
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("tests can write here");
    for file in fs::read_dir(from).expect("it is a directory").flatten() {
        let target = to.join(file.file_name());
        if file.path().is_dir() {
            copy(&file.path(), &target);
        } else {
            fs::copy(file.path(), target).expect("tests can write here");
        }
    }
}

/// Flips one bit at a fraction of the used part of a file.
fn flip(file: &Path, fraction: f64) {
    let mut bytes = fs::read(file).expect("the file is there");
    let used = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    bytes[(used as f64 * fraction) as usize] ^= 4;
    fs::write(file, bytes).expect("tests can write here");
}

#[test]
fn a_coordinator_with_a_damaged_store_starts_and_pretends_nothing() {
    let mut grid = Grid::new();
    let address = grid.group("a", &[8], &[]);
    let file = counting(&mut grid);
    let lines = grid.folder().join("lines");
    let parameter = |name: &str, value: &Path| format!("{name}={}", value.display());
    let (open, shut) = (grid.folder().to_owned(), grid.folder().join("gate"));
    let submit = |grid: &Grid, line: &str, gate: &Path| {
        let parameters = [format!("line={line}"), parameter("file", &lines), parameter("gate", gate)];
        grid.submit(&address, &file, &parameters.iter().map(String::as_str).collect::<Vec<_>>())
    };
    let ended: Vec<String> = (0..3).map(|number| submit(&grid, &format!("ended-{number}"), &open)).collect();
    ended.iter().for_each(|process| drop(grid.cli(&address, &["wait", process]).ok()));
    let running: Vec<String> = (0..3).map(|number| submit(&grid, &format!("running-{number}"), &shut)).collect();
    let executions = || fs::read_to_string(&lines).unwrap_or_default().lines().count();
    until("every process is in its second activity", 30, || (executions() == 12).then_some(()));
    until("the answers are recorded", 30, || {
        let recorded = |process: &String| grid.status(&address, process)["activities"]["completed"] == 1;
        running.iter().all(recorded).then_some(())
    });
    grid.kill_alone("a/main");
    let (data, template) = (grid.data("a/main").join("repository"), grid.folder().join("template"));
    copy(&data, &template);

    for damage in ["flip 0.02", "flip 0.4", "flip 0.97", "delete"] {
        grid.kill_alone("a/main");
        fs::remove_dir_all(&data).expect("it is there");
        copy(&template, &data);
        match damage.strip_prefix("flip ") {
            Some(fraction) => flip(&data.join("db/db"), fraction.parse().expect("it is a number")),
            None => fs::remove_file(data.join("db/db")).expect("it is there"),
        }
        grid.restart("a/main");
        let mut held = 0;
        for (process, has_ended) in ended.iter().map(|id| (id, true)).chain(running.iter().map(|id| (id, false))) {
            let status = grid.status(&address, process);
            if status["state"] == "held" {
                assert_eq!(status["stall_reason"]["reason"]["kind"], "damaged", "{damage}: {status}");
                held += 1;
            } else {
                assert_eq!(is_live(&status), !has_ended, "{damage}: {status}");
            }
        }
        if damage == "delete" {
            assert_eq!(held, 6, "{damage}");
        }
        let repository = fs::read_dir(&data).expect("it is there").flatten();
        let aside = repository.filter(|file| file.file_name().to_string_lossy().starts_with("damaged-")).count();
        assert!(aside == 1 && grid.log("a/main").contains("moved the damaged database aside"), "{damage}");
        // Other processes can use the node, and nothing that was completed ran again.
        let before = executions();
        let new = submit(&grid, "new", &open);
        assert_eq!(grid.end(&address, &new)["state"], "completed", "{damage}");
        assert_eq!(executions(), before + 2, "{damage}");
        let completed = fs::read_to_string(&lines).unwrap_or_default();
        let first_again = ended
            .iter()
            .enumerate()
            .any(|(number, _)| completed.lines().filter(|line| *line == format!("ended-{number}")).count() != 2);
        assert!(!first_again, "{damage}: {completed}");
    }
    // A held process can be given up.
    grid.cli(&address, &["forget", "--force", &running[0]]).ok();
    grid.cli(&address, &["cancel", &running[1]]).ok();
    assert_eq!(grid.status(&address, &running[1])["state"], "cancelled");
}

#[test]
fn a_backup_of_a_running_coordinator_is_restored() {
    let mut grid = Grid::new();
    let address = grid.group("a", &[2], &[]);
    let file = counting(&mut grid);
    let (lines, gate) = (grid.folder().join("lines"), grid.folder().join("gate"));
    let submit = |grid: &Grid, gate: &Path| {
        let parameters = ["line=x".to_owned(), format!("file={}", lines.display()), format!("gate={}", gate.display())];
        grid.submit(&address, &file, &parameters.iter().map(String::as_str).collect::<Vec<_>>())
    };
    let ended = submit(&grid, grid.folder());
    grid.cli(&address, &["wait", &ended]).ok();
    let running = submit(&grid, &gate);
    until("the second activity runs", 30, || {
        (grid.status(&address, &running)["activities"]["completed"] == 1).then_some(())
    });
    let (backup, data) = (grid.folder().join("backup"), grid.data("a/main").to_owned());
    let (backup, data) = (backup.to_str().expect("it is UTF-8"), data.to_str().expect("it is UTF-8"));
    let written = grid.cli(&address, &["repository", "backup", backup]).ok().json();
    assert_eq!(written["bytes"], fs::metadata(backup).expect("it was written").len());
    let again = grid.cli(&address, &["repository", "backup", backup]);
    assert!(again.code == 2 && again.stderr.contains("exists"), "{again:?}");
    let later = submit(&grid, grid.folder());
    let xavantes = |arguments: &[&str]| xavantes_tests::xavantes(&[arguments, &["--output", "json"]].concat());
    let check = ["repository", "check", "--data-dir", data];
    let in_use = xavantes(&check);
    assert!(in_use.code == 2 && in_use.stderr.contains("in use"), "{in_use:?}");

    grid.kill_alone("a/main");
    let checked = xavantes(&check).ok().json();
    assert_eq!((&checked["database"], &checked["witness"]), (&"whole".into(), &"whole".into()), "{checked}");
    let restore = ["repository", "restore", backup, "--data-dir", data];
    let refused = xavantes(&restore);
    assert!(refused.code == 2 && refused.stderr.contains("there is a repository"), "{refused:?}");
    let repository = Path::new(data).join("repository");
    fs::remove_file(repository.join("db/db")).expect("it is there");
    let found = xavantes(&check);
    assert!(found.code == 1 && found.json()["damaged"].as_array().is_some_and(|all| all.len() == 3), "{found:?}");
    fs::remove_dir_all(&repository).expect("it is there");
    assert_eq!(xavantes(&restore).ok().json()["processes"], 2);
    grid.restart("a/main");
    assert_eq!(grid.status(&address, &ended)["state"], "completed");
    assert!(grid.status(&address, &later).is_null());
    fs::write(&gate, "").expect("tests can write here");
    assert_eq!(grid.end(&address, &running)["state"], "completed");
}

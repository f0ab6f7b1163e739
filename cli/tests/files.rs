//! Programs with files: inputs, outputs, and the errors when one of them is wrong.

mod common;

use std::path::Path;

use common::{Ended, Folder, xavantes};
use serde_json::Value as Json;

/// A process of one activity, which runs a line of shell with a file and a directory at hand.
fn document(outputs: &str, shell: &str) -> String {
    format!(
        r#"<XAVANTES VERSION="1">
  <PROCESS_TYPE NAME="Once">
    <IN_PARAMETER TYPE="file" NAME="data" OPTIONAL="true"/>
    <IN_PARAMETER TYPE="directory" NAME="folder" OPTIONAL="true"/>
    <OUT_PARAMETER TYPE="file" NAME="one" OPTIONAL="true"/>
    <OUT_PARAMETER TYPE="list" NAME="many" OPTIONAL="true"/>
    <OUT_PARAMETER TYPE="directory" NAME="all" OPTIONAL="true"/>
    <BODY>
      <ACTIVITY TYPE="Run" NAME="run" data="${{data}}" folder="${{folder}}"/>
      <POST_CODE>one, many, all = run.one, run.many, run.all</POST_CODE>
    </BODY>
  </PROCESS_TYPE>
  <ACTIVITY_TYPE NAME="Run">
    <IN_PARAMETER TYPE="file" NAME="data" OPTIONAL="true"/>
    <IN_PARAMETER TYPE="directory" NAME="folder" OPTIONAL="true"/>
    <OUT_PARAMETER TYPE="file" NAME="one" {one}/>
    <OUT_PARAMETER TYPE="list" NAME="many" {many}/>
    <OUT_PARAMETER TYPE="directory" NAME="all" {all}/>
    {outputs}
    <CODE LANGUAGE="command"><ARG>sh</ARG><ARG>-c</ARG><ARG><![CDATA[{shell}]]></ARG></CODE>
  </ACTIVITY_TYPE>
</XAVANTES>"#,
        one = optional(outputs, "one"),
        many = optional(outputs, "many"),
        all = optional(outputs, "all"),
    )
}

/// A program must make every output that is declared.
fn optional(outputs: &str, name: &str) -> &'static str {
    if outputs.contains(&format!("\"{name}\"")) { "" } else { r#"OPTIONAL="true""# }
}

fn run(folder: &Folder, outputs: &str, shell: &str, arguments: &[&str]) -> Ended {
    let file = folder.write("once.xml", document(outputs, shell));
    xavantes(&[&["run", &file, "--output", "json", "--timeout", "60s"], arguments].concat(), "")
}

fn error(outputs: &str, shell: &str) -> String {
    let folder = Folder::new();
    let data = folder.write("data.txt", "given\n");
    let ended = run(&folder, outputs, shell, &["-p", &format!("data=@{data}")]);
    assert_eq!(ended.code, 1, "{ended:?}");
    serde_json::from_str::<Json>(&ended.stdout).expect("it is JSON")["error"]
        .as_str()
        .expect("there is an error")
        .to_owned()
}

const ONE: &str = r#"<OUTPUT PARAMETER="one" PATTERN="out"/>"#;

#[test]
fn files_and_directories_go_in_and_come_out() {
    let folder = Folder::new();
    let data = folder.write("data.txt", "given\n");
    std::fs::create_dir_all(folder.path("tree/empty")).expect("tests can write here");
    std::fs::write(folder.path("tree/run"), "#!/bin/sh\necho ran").expect("tests can write here");
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(folder.path("tree/run"), executable).expect("tests can write here");
    std::os::unix::fs::symlink("run", folder.path("tree/link")).expect("tests can write here");
    let outputs = r#"<INPUT PARAMETER="folder" PATH="here"/>
      <OUTPUT PARAMETER="one" PATTERN="${data}.copy"/>
      <OUTPUT PARAMETER="many" PATTERN="many/**/*"/>
      <OUTPUT PARAMETER="all" PATTERN="here"/>"#
        .replace("${data}", "data.txt");
    let shell = "cp ${data} data.txt.copy; mkdir -p many/deep; here/link > many/deep/b; : > many/a; echo x > 'many/new
line'";
    let out = folder.path("out");
    let tree = format!("folder=@{}", folder.path("tree"));
    let ended = run(&folder, &outputs, shell, &["-p", &format!("data=@{data}"), "-p", &tree, "--download", &out]);
    assert_eq!(ended.code, 0, "{ended:?}");
    let printed: Json = serde_json::from_str(&ended.stdout).expect("it is JSON");
    assert_eq!(printed["results"]["one"], format!("{out}/one/data.txt.copy"), "{printed}");
    let text = |path: &str| std::fs::read_to_string(folder.path(&format!("out/{path}"))).expect(path);
    assert_eq!(text("one/data.txt.copy"), "given\n");
    assert_eq!(
        (text("many/1/a"), text("many/2/b"), text("many/3/new\nline")),
        ("".into(), "ran\n".into(), "x\n".into())
    );
    assert!(Path::new(&folder.path("out/all/here/empty")).is_dir());
    assert_eq!(std::fs::read_link(folder.path("out/all/here/link")).expect("it is a link"), Path::new("run"));
    let mode = std::fs::metadata(folder.path("out/all/here/run")).expect("it is there").permissions();
    assert_eq!(std::os::unix::fs::PermissionsExt::mode(&mode) & 0o777, 0o755);
    // A second time what is the same is left alone, and what is not is not overwritten.
    let again = || run(&folder, &outputs, shell, &["-p", &format!("data=@{data}"), "-p", &tree, "--download", &out]);
    assert_eq!(again().code, 0, "{:?}", again());
    std::fs::write(folder.path("out/one/data.txt.copy"), "mine").expect("it is ours");
    let other = again();
    assert_eq!((other.code, text("one/data.txt.copy")), (1, "mine".into()), "{other:?}");
    assert!(other.stderr.contains("is there already, and is something else"), "{other:?}");
}

#[test]
fn wrong_outputs_are_reported_and_nothing_leaks() {
    for (outputs, shell, messages) in [
        (ONE, "touch other", vec!["output \"one\": the program did not make \"out\"", "\"other\""]),
        (ONE, "ln -s /etc/passwd out", vec!["leads out of the directory through a symbolic link"]),
        (ONE, "ln -s ../../../../../../../etc/passwd out", vec!["leads out of the directory"]),
        (ONE, "mkdir out", vec!["is a directory, not a file"]),
        (ONE, "mkfifo out", vec!["neither a file nor a directory"]),
        (r#"<OUTPUT PARAMETER="one" PATTERN="o*"/>"#, "touch o1 o2 o3", vec!["3 files match \"o*\"", "takes one"]),
        (r#"<OUTPUT PARAMETER="many" PATTERN="o*"/>"#, "touch x", vec!["output \"many\": nothing matches \"o*\""]),
        (r#"<OUTPUT PARAMETER="all" PATTERN="d"/>"#, "mkdir d; ln -s /etc d/etc", vec!["an absolute path"]),
        (r#"<OUTPUT PARAMETER="all" PATTERN="d"/>"#, "touch d", vec!["is not a directory"]),
        (ONE, "chmod +w ${data}; echo more >> ${data}; touch out", vec!["the program changed \"data/data.txt\""]),
        ("", "printf '{\"one\": \"/etc/passwd\"}' > $XAVANTES_RESULTS", vec!["is absolute"]),
        ("", "printf '{\"one\": \"../x\"}' > $XAVANTES_RESULTS", vec!["leads out of the directory with"]),
        (r#"<OUTPUT PARAMETER="one" PATTERN="${'..'}/x"/>"#, "true", vec!["PATTERN: \"../x\" leads out"]),
        (r#"<INPUT PARAMETER="data" PATH="${'/'}etc"/>"#, "true", vec!["\"/etc\" is absolute"]),
    ] {
        let error = error(outputs, shell);
        for part in messages {
            assert!(error.contains(part), "{shell}: {part}: {error}");
        }
    }
}

#[test]
fn a_program_may_report_which_file_it_made() {
    let folder = Folder::new();
    let out = folder.path("out");
    let shell = "echo told > 'a*b'; printf '{\"one\": \"%s/a*b\"}' \"$PWD\" > $XAVANTES_RESULTS";
    let ended = run(&folder, "", shell, &["--download", &out]);
    assert_eq!(ended.code, 0, "{ended:?}");
    assert_eq!(std::fs::read_to_string(folder.path("out/one/a*b")).expect("it was fetched"), "told\n");
}

#[test]
fn local_files_are_checked_before_anything_runs() {
    let folder = Folder::new();
    let here = folder.path("");
    for (parameter, message) in [
        (format!("data=@{here}/absent"), "parameter \"data\": cannot read"),
        (format!("data=@{here}"), "is a directory, not a file"),
        (format!("folder=@{here}/once.xml"), "is a file, not a directory"),
    ] {
        let ended = run(&folder, "", "true", &["-p", &parameter]);
        assert_eq!(ended.code, 2, "{ended:?}");
        assert!(ended.stderr.contains(message), "{message}: {ended:?}");
    }
}

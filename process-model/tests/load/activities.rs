//! Activity types and the launch of their programs.

use std::time::Duration;

use xavantes_model::definition::*;
use xavantes_model::value::{Type, Value};

use crate::support::{named, program, run};

#[test]
fn activity_types_have_code_resources_and_policies() {
    let program = program(
        r#"<ACTIVITY_TYPE NAME="Run"><IN_PARAMETER NAME="a" TYPE="string"/><IN_PARAMETER NAME="f" TYPE="file"/>
        <CODE LANGUAGE="command"><ARG>tool</ARG><ARG>--a=${a}${#a -- long}</ARG><ARG>${f}</ARG><ARG/><ARG>$${HOME} "
</ARG></CODE></ACTIVITY_TYPE>
        <ACTIVITY_TYPE NAME="Script" CACHE=" true "><CODE LANGUAGE="python">
print("${not} ours")</CODE></ACTIVITY_TYPE>
        <PROCESS_TYPE NAME="Fit"><BODY><ACTIVITY NAME="one" TYPE="Fit" RETRIES="0" RETRY_DELAY="1h30m"/>
        <ACTIVITY NAME="two" TYPE="Fit" ON_FAILURE="hold"/></BODY></PROCESS_TYPE>"#,
    );
    let [fit, run_type, script] = program.activities.as_slice() else { panic!() };
    assert_eq!((fit.requires.cpus, fit.requires.memory, fit.requires.gpus), (2, 3 << 29, 1));
    assert_eq!(fit.requires.tags, ["avx512".into(), "big".into()]);
    let ActivityCode::Lua { code, .. } = &fit.code else { panic!() };
    let arguments = [Value::Int(1), "x".into(), Value::Null, Value::Null, Value::Int(2)];
    assert_eq!(run(code, &arguments), [Value::Null, "x2".into()]);
    let ActivityCode::Command { code, texts } = &run_type.code else { panic!() };
    assert_eq!(texts[1].as_ref(), "--a=${a}${#a -- long}");
    let file = Type::File.parse("/x").unwrap();
    let values = run(code, &["é".into(), file.clone(), Value::Int(1)]);
    assert_eq!(values, ["tool".into(), "--a=é2".into(), file, "".into(), "${HOME} \"\n".into()]);
    let ActivityCode::Interpreter { language, text, line } = &script.code else { panic!() };
    assert_eq!((&**language, text.lines().nth(1)), ("python", Some("print(\"${not} ours\")")));
    assert_eq!(*line, script.line);
    assert_eq!([fit.cache, run_type.cache, script.cache], [false, false, true]);

    let policy = Policy { retries: 3, timeout: Some(Duration::from_secs(60)), backoff: 1.5, ..Policy::default() };
    let one = named(&program, "one").policy;
    assert_eq!(one, Policy { retries: 0, delay: Duration::from_secs(5400), ..policy });
    assert_eq!(named(&program, "two").policy, Policy { on_failure: OnFailure::Hold, ..policy });
}

#[test]
fn programs_have_images_environments_and_exit_statuses() {
    let program = program(
        r#"<ACTIVITY_TYPE NAME="Run"><IN_PARAMETER NAME="n" TYPE="int"/>
        <OUT_PARAMETER NAME="a" TYPE="int" FROM="stdout-trimmed"/><OUT_PARAMETER NAME="b" TYPE="int"/>
        <INOUT_PARAMETER NAME="c" TYPE="int" FROM=" exit-status "/>
        <ENV NAME="THREADS" VALUE="${n * 2}"/><ENV NAME="WORD" VALUE="a ${attempt}"/>
        <REQUIRES SCRATCH="1KiB" OPEN_FILES="64" PROCESSES="8"/>
        <CODE LANGUAGE="sh" IMAGE="debian:12" SUCCESS="0,3" RETRY="75, 100-110" STRICT="false">true</CODE></ACTIVITY_TYPE>
        <PROCESS_TYPE NAME="P"><BODY/></PROCESS_TYPE>"#,
    );
    let run_type = program.activities.last().unwrap();
    let requires = &run_type.requires;
    assert_eq!((requires.scratch, requires.open_files, requires.processes), (1024, 64, 8));
    let Launch { image, environment, success, retry, captures, relaxed } = &run_type.launch;
    assert!(relaxed);
    assert_eq!(image.as_deref(), Some("debian:12"));
    assert_eq!(environment.names, ["THREADS".into(), "WORD".into()]);
    let arguments = [Value::Int(4), Value::Null, Value::Null, Value::Null, Value::Int(2)];
    assert_eq!(run(environment.code.as_ref().unwrap(), &arguments), [Value::Int(8), "a 2".into()]);
    assert!([0, 3].iter().all(|status| success.contains(*status)) && !success.contains(1));
    let retry = retry.as_ref().unwrap();
    assert!([75, 100, 110].iter().all(|status| retry.contains(*status)));
    assert!(![0, 111, -1, 1000].iter().any(|status| retry.contains(*status)));
    assert_eq!(captures, &[None, Some(Capture::Trimmed), None, Some(Capture::ExitStatus)]);
    assert!(Launch::default().success.contains(0) && !Launch::default().success.contains(3));
}

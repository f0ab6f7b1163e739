//! Values that are too large to be sent fail their activity and nothing else.

use xavantes_tests::Grid;

use crate::kit::document;

const LARGE: &str = r##"
  <PROCESS_TYPE NAME="Results">
    <IN_PARAMETER TYPE="int" NAME="count"/>
    <IN_PARAMETER TYPE="int" NAME="mebibytes"/>
    <OUT_PARAMETER TYPE="list" NAME="lengths"/>
    <BODY>
      <PARFOR NAME="each" TO="${count}" COLLECT="#make.text">
        <ITERATE><ACTIVITY TYPE="Make" NAME="make" mebibytes="${mebibytes}"/></ITERATE>
      </PARFOR>
      <POST_CODE>lengths = each.results</POST_CODE>
    </BODY>
  </PROCESS_TYPE>
  <PROCESS_TYPE NAME="Parameters">
    <IN_PARAMETER TYPE="int" NAME="count"/>
    <IN_PARAMETER TYPE="int" NAME="mebibytes"/>
    <OUT_PARAMETER TYPE="list" NAME="lengths"/>
    <BODY>
      <BLOCK NAME="block">
        <INOUT_PARAMETER TYPE="string" NAME="text" DEFAULT=""/>
        <OUT_PARAMETER TYPE="list" NAME="lengths"/>
        <PRE_CODE>text = string.rep("x", mebibytes // 2 * 1048576)</PRE_CODE>
        <PARFOR NAME="each" TO="${count}" COLLECT="measure.length">
          <ITERATE><ACTIVITY TYPE="Measure" NAME="measure" text="${text}" more="${text}"/></ITERATE>
        </PARFOR>
        <POST_CODE>lengths = each.results</POST_CODE>
      </BLOCK>
      <POST_CODE>lengths = block.lengths</POST_CODE>
    </BODY>
  </PROCESS_TYPE>
  <PROCESS_TYPE NAME="Objects">
    <IN_PARAMETER TYPE="int" NAME="count"/>
    <IN_PARAMETER TYPE="int" NAME="mebibytes"/>
    <OUT_PARAMETER TYPE="list" NAME="lengths"/>
    <BODY>
      <BLOCK NAME="block">
        <INOUT_PARAMETER TYPE="RemoteList" NAME="texts" OPTIONAL="true"/>
        <OUT_PARAMETER TYPE="list" NAME="lengths"/>
        <PRE_CODE>
          texts = RemoteList.new()
          for _ = 1, mebibytes do texts:append(string.rep("x", 1048576)) end
        </PRE_CODE>
        <PARFOR NAME="each" TO="${count}" COLLECT="read.length">
          <ITERATE><ACTIVITY TYPE="Read" NAME="read" texts="${texts}"/></ITERATE>
        </PARFOR>
        <POST_CODE>lengths = each.results texts = nil</POST_CODE>
      </BLOCK>
      <POST_CODE>lengths = block.lengths</POST_CODE>
    </BODY>
  </PROCESS_TYPE>
  <PROCESS_TYPE NAME="Calls">
    <IN_PARAMETER TYPE="int" NAME="count"/>
    <IN_PARAMETER TYPE="int" NAME="mebibytes"/>
    <OUT_PARAMETER TYPE="RemoteList" NAME="lengths"/>
    <BODY>
      <PRE_CODE>lengths = RemoteList.new()</PRE_CODE>
      <PARFOR NAME="each" TO="${count}">
        <ITERATE><ACTIVITY TYPE="Append" NAME="append" mebibytes="${mebibytes}" texts="${lengths}"/></ITERATE>
      </PARFOR>
    </BODY>
  </PROCESS_TYPE>
  <ACTIVITY_TYPE NAME="Make">
    <IN_PARAMETER TYPE="int" NAME="mebibytes"/>
    <OUT_PARAMETER TYPE="string" NAME="text"/>
    <CODE LANGUAGE="lua">text = string.rep("x", mebibytes * 1048576)</CODE>
  </ACTIVITY_TYPE>
  <ACTIVITY_TYPE NAME="Measure">
    <IN_PARAMETER TYPE="string" NAME="text"/>
    <IN_PARAMETER TYPE="string" NAME="more"/>
    <OUT_PARAMETER TYPE="int" NAME="length"/>
    <CODE LANGUAGE="lua">length = #text + #more</CODE>
  </ACTIVITY_TYPE>
  <ACTIVITY_TYPE NAME="Read">
    <IN_PARAMETER TYPE="RemoteList" NAME="texts"/>
    <OUT_PARAMETER TYPE="int" NAME="length"/>
    <CODE LANGUAGE="lua">
      length = 0
      for _, text in texts:values() do length += #text end
    </CODE>
  </ACTIVITY_TYPE>
  <ACTIVITY_TYPE NAME="Append">
    <IN_PARAMETER TYPE="int" NAME="mebibytes"/>
    <IN_PARAMETER TYPE="RemoteList" NAME="texts"/>
    <CODE LANGUAGE="lua">
      local text = string.rep("x", mebibytes * 1048576)
      texts:append(text)
      texts:append(#text)
      texts:set(1, 0)
    </CODE>
  </ACTIVITY_TYPE>"##;

#[test]
fn values_that_are_too_large_fail_their_activity_and_the_streams_survive() {
    let mut grid = Grid::new();
    let address = grid.group("a", &[4], &[]);
    let file = grid.write("large.xml", &document(LARGE));
    let run = |process: &str, count: u32, mebibytes: u32| {
        let (count, mebibytes) = (format!("count={count}"), format!("mebibytes={mebibytes}"));
        grid.cli(&address, &["submit", &file, "--process", process, "-p", &count, "-p", &mebibytes, "--wait"])
    };
    for mebibytes in [70, 90] {
        let failed = run("Results", 1, mebibytes);
        let what = format!("its results are too large to be sent: {mebibytes}.0 MiB, at most 64 MiB");
        assert!(failed.code == 1 && failed.stderr.contains(&what), "{failed:?}");
    }
    for process in ["Results", "Parameters", "Objects"] {
        // Values below the limit are sent in parts, even several at once.
        let fine = run(process, 4, 12).ok().json();
        let lengths = fine["results"]["lengths"].as_array().expect("a list");
        assert!(lengths.len() == 4 && lengths.iter().all(|length| *length == 12 << 20), "{process}: {fine}");
    }
    let failed = run("Calls", 1, 70);
    assert_eq!(failed.code, 1, "{failed:?}");
    assert!(failed.stderr.contains("the arguments are too large to be sent"), "{failed:?}");
    assert_eq!(run("Calls", 1, 20).ok().json()["results"]["lengths"][1], 20 << 20);

    let nodes = grid.nodes(&address);
    assert_eq!(nodes.len(), 2, "{nodes:?}");
}

const TEXT: &str = r##"
  <PROCESS_TYPE NAME="Text">
    <IN_PARAMETER TYPE="string" NAME="text"/>
    <OUT_PARAMETER TYPE="int" NAME="length"/>
    <BODY><PRE_CODE>length = #text</PRE_CODE></BODY>
  </PROCESS_TYPE>
  <PROCESS_TYPE NAME="Twice">
    <IN_PARAMETER TYPE="string" NAME="text"/>
    <OUT_PARAMETER TYPE="list" NAME="texts"/>
    <BODY><PRE_CODE>texts = { text, text }</PRE_CODE></BODY>
  </PROCESS_TYPE>"##;

#[test]
fn a_process_that_is_too_large_is_refused_and_large_results_arrive() {
    let mut grid = Grid::new();
    let address = grid.group("a", &[1], &[]);
    let file = grid.write("text.xml", &document(TEXT));
    for (process, mebibytes, code) in [("Text", 12, 0), ("Text", 20, 2), ("Twice", 12, 0), ("Text", 1, 0)] {
        let text = "x".repeat(mebibytes << 20);
        let parameters = grid.write("parameters.json", &format!("{{\"text\": \"{text}\"}}"));
        let arguments = ["submit", &file, "--process", process, "--params", &parameters, "--wait"];
        let ended = grid.cli(&address, &arguments);
        assert_eq!(ended.code, code, "{process} with {mebibytes} MiB: {}", ended.stderr);
        match code {
            0 if process == "Twice" => assert_eq!(ended.json()["results"]["texts"][1], text),
            0 => assert_eq!(ended.json()["results"]["length"], mebibytes << 20),
            _ => assert!(ended.stderr.contains("too large"), "{}", ended.stderr),
        }
    }
}

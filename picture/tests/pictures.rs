//! Pictures of definitions: what they show, and that they stay small.

use xavantes_model::diagnostic::Source;
use xavantes_model::load::load;
use xavantes_picture::{Options, Picture, dot, svg};

const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples");

fn drawn(body: &str, all: bool) -> [Picture; 2] {
    let text = format!(
        "<XAVANTES VERSION=\"1\"><PROCESS_TYPE NAME=\"AB\"><BODY>{body}</BODY></PROCESS_TYPE>\
         <ACTIVITY_TYPE NAME=\"Do\"><CODE LANGUAGE=\"lua\">local x</CODE></ACTIVITY_TYPE></XAVANTES>"
    );
    let program = load(&[Source::new("test.xml", text)]).unwrap_or_else(|found| panic!("{found:#?}"));
    [svg(&program, 0, Options { all }), dot(&program, 0, Options { all })]
}

/// Checks that a text is XML, with a second element of the name for each box.
fn elements(svg: &str, name: &str) -> usize {
    let tree = xavantes_model::xml::parse(0, &svg.replace(" xmlns=\"http://www.w3.org/2000/svg\"", ""));
    let tree = tree.unwrap_or_else(|found| panic!("{found:#?}\n{svg}"));
    let mut open = vec![tree.root()];
    let mut found = 0;
    while let Some(node) = open.pop() {
        found += usize::from(tree.element(node).name == name);
        open.extend(tree.children(node).map(|(child, _)| child));
    }
    found
}

#[test]
fn every_example_can_be_drawn_in_both_formats() {
    let files = std::fs::read_dir(EXAMPLES).expect("there are examples");
    let paths = files.map(|file| file.expect("they can be listed").path());
    let mut count = 0;
    for path in paths.filter(|path| path.extension().is_some_and(|extension| extension == "xml")) {
        let text = std::fs::read_to_string(&path).expect("they can be read");
        let program = load(&[Source::new("example", text)]).unwrap_or_else(|found| panic!("{found:#?}"));
        for process in 0..program.processes.len() {
            let picture = svg(&program, process, Options { all: false });
            assert!(elements(&picture.text, "rect") >= picture.activities, "{}", path.display());
            let picture = dot(&program, process, Options { all: true });
            assert!(picture.text.matches("[label=").count() >= picture.activities, "{}", path.display());
        }
        count += 1;
    }
    assert!(count > 10);
}

#[test]
fn links_are_edges_and_elements_in_a_row_have_none() {
    let linked = r#"<PAR NAME="p"><ACTIVITY NAME="a" TYPE="Do"/><ACTIVITY NAME="b" TYPE="Do" AFTER="a"/>
        <ACTIVITY NAME="c" TYPE="Do" AFTER="a b"/></PAR>"#;
    let [svg, dot] = drawn(linked, false);
    // One path is the head of all arrows.
    assert_eq!((elements(&svg.text, "path"), dot.text.matches(" -> ").count()), (1 + 3, 3));
    let [svg, dot] =
        drawn(r#"<PAR NAME="p"><ACTIVITY NAME="a" TYPE="Do"/><ACTIVITY NAME="b" TYPE="Do"/></PAR>"#, false);
    assert_eq!((elements(&svg.text, "path"), dot.text.matches(" -> ").count()), (1, 0));
    let [svg, dot] = drawn(r#"<ACTIVITY NAME="a" TYPE="Do"/><ACTIVITY NAME="b" TYPE="Do"/>"#, false);
    assert_eq!((elements(&svg.text, "path"), dot.text.matches(" -> ").count()), (2, 1));
}

#[test]
fn elements_that_look_alike_are_drawn_once_with_their_number() {
    let mut body = "<PAR NAME=\"p\"><ACTIVITY NAME=\"first\" TYPE=\"Do\"/>".to_owned();
    (0..100).for_each(|n| {
        body += &format!("<BLOCK NAME=\"b{n}\" AFTER=\"first\"><ACTIVITY NAME=\"x\" TYPE=\"Do\"/></BLOCK>")
    });
    body += "</PAR>";
    let [picture, _] = drawn(&body, false);
    assert!(picture.collapsed && picture.text.contains("× 100"), "{}", picture.text);
    assert_eq!((picture.boxes, picture.activities), (5, 101));
    let [all, _] = drawn(&body, true);
    assert!(!all.collapsed && !all.text.contains("×"));
    assert_eq!(all.boxes, 203);
}

#[test]
fn loops_are_marked() {
    let [svg, dot] =
        drawn(r#"<PARFOR NAME="l" TO="7"><ITERATE><ACTIVITY NAME="a" TYPE="Do"/></ITERATE></PARFOR>"#, false);
    assert!(svg.text.contains("↻ PARFOR l") && svg.text.contains("1 to 7"), "{}", svg.text);
    assert!(dot.text.contains("peripheries=2"));
}

#[test]
fn a_picture_has_a_bounded_number_of_boxes_and_levels() {
    let many: String = (0..20_000).map(|n| format!("<ACTIVITY NAME=\"a{n}\" TYPE=\"Do\"/>")).collect();
    for picture in drawn(&many, true) {
        assert!(picture.collapsed && picture.boxes <= 5001, "{}", picture.boxes);
        assert!(picture.text.contains("15001 more"), "{}", &picture.text[picture.text.len() - 400..]);
    }
    let (open, close) = ("<BLOCK NAME=\"b\">".repeat(300), "</BLOCK>".repeat(300));
    for picture in drawn(&format!("{open}<ACTIVITY NAME=\"a\" TYPE=\"Do\"/>{close}"), true) {
        assert!(picture.collapsed && picture.text.contains("1 activities"), "{}", picture.text);
    }
}

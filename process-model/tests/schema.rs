//! The schema against a real validator: it is valid itself, and it never refuses what the loader accepts.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use xavantes_model::SCHEMA;
use xavantes_model::diagnostic::Source;
use xavantes_model::load::load;

/// A document with every element and every attribute.
const WHOLE: &str = include_str!("whole.xml");
const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples");

/// What attributes are set to. Written as in a document, so references are possible.
const VALUES: [&str; 54] = [
    "",
    " ",
    "&#10;",
    "\u{A0}",
    "0",
    "-0",
    "+0",
    "1",
    " 1 ",
    "\n1\t",
    "&#10;1&#9;&#13;",
    "\u{A0}1",
    "1\u{85}",
    "\u{2003}1",
    "\u{FEFF}1",
    "+1",
    "-1",
    "--1",
    "01",
    "0000000000000000000000000000000000000001",
    "1.",
    ".5",
    "1.0",
    "1.50",
    "1e3",
    "1E0",
    "0x10",
    "1_000",
    "inf",
    "INF",
    "NaN",
    "\u{661}",
    "999",
    "1000.0",
    "4294967295",
    "9223372036854775807",
    "99999999999999999999",
    "true",
    " true ",
    "TRUE",
    "yes",
    "${n}",
    " ${n} ",
    "\u{A0}${n}",
    "&#10;${n&#10;}&#13;",
    "${ {n, '}'} }",
    "${n} ${n}",
    "$${n}",
    "${'é\u{2028}\u{85}'}",
    "1h 30m",
    "0ms1s0d",
    "1.5 GiB",
    "0.50KB",
    "a b\u{A0}c",
];

/// What is put around the value that an attribute has.
const DECORATIONS: [(&str, &str); 13] = [
    (" ", " "),
    ("\n\t", "\r\n"),
    ("&#10;", "&#13;"),
    ("&#9;", ""),
    ("\u{A0}", ""),
    ("", "\u{A0}"),
    ("\u{85}", ""),
    ("", "\u{85}"),
    ("\u{3000}", "\u{2028}"),
    ("+", ""),
    ("0", ""),
    ("", "0"),
    ("", " x"),
];

/// What is inserted between children.
const INSERTIONS: [&str; 17] = [
    " ",
    "&#32;&#10;",
    "\u{A0}",
    "&#160;",
    "\u{85}",
    "&#x85;",
    "\u{2003}",
    "\u{FEFF}",
    "x",
    "1",
    "<!-- - -->",
    "<?editor fold?>",
    "<![CDATA[]]>",
    "<![CDATA[ \n]]>",
    "<![CDATA[\u{A0}]]>",
    "<![CDATA[1]]>",
    "<DESCRIPTION/>",
];

/// What the root may have besides `VERSION`.
const ROOT_ATTRIBUTES: [&str; 7] = [
    r#"xml:lang="en""#,
    r#"xml:lang="""#,
    r#"xml:space="preserve""#,
    r#"xml:space="x""#,
    r#"xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance""#,
    r#"xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:noNamespaceSchemaLocation="schema.xsd""#,
    r#"xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:schemaLocation="urn:x x.xsd""#,
];

#[test]
fn the_schema_is_valid_and_accepts_the_examples() {
    let Some(validator) = Validator::new("examples") else { return };
    let mut documents: Vec<Mutant> = examples().into_iter().map(|(what, document)| Mutant { what, document }).collect();
    documents.push(Mutant { what: "whole.xml".into(), document: WHOLE.into() });
    for Mutant { what, document } in &documents {
        load(&[Source::new(what.as_str(), document.as_str())]).unwrap_or_else(|found| panic!("{what}: {found:#?}"));
    }
    // A schema that is itself wrong ends the validator with another message, which is shown too.
    validator.check(&documents);
}

#[test]
fn the_document_with_everything_has_every_element_and_attribute_of_the_schema() {
    let mut missing = BTreeSet::new();
    let schema = roxmltree::Document::parse(SCHEMA).expect("the schema is XML");
    let whole = roxmltree::Document::parse(WHOLE).expect("the document is XML");
    for declared in schema.descendants().filter(roxmltree::Node::is_element) {
        let Some(name) = declared.attribute("name") else { continue };
        let used = match declared.tag_name().name() {
            "element" => whole.descendants().any(|node| node.has_tag_name(name)),
            "attribute" => whole.descendants().any(|node| node.has_attribute(name)),
            _ => true,
        };
        if !used {
            missing.insert(name);
        }
    }
    assert_eq!(missing, BTreeSet::new());
}

#[test]
fn the_schema_refuses_what_is_plainly_wrong() {
    let Some(validator) = Validator::new("wrong") else { return };
    let whole = Element::read(WHOLE);
    let mut wrong = Vec::new();
    for (from, to) in [
        ("VERSION=\"1\"", "VERSION=\"2\""),
        ("NAME=\"Main\"", ""),
        ("NAME=\"Main\"", "NAME=\"1\""),
        ("<BODY>", "<BODY>text"),
        ("<BODY>", "<BODY><CASE/>"),
        ("<BODY>", "<BODY><UNKNOWN/>"),
        ("CACHE=\"true\"", "CACHE=\"yes\""),
        ("CPUS=\"1\"", "CPUS=\"0\""),
        ("CPUS=\"1\"", "cpus=\"1\""),
        ("TYPE=\"list\"", "TYPE=\"liste\""),
        ("STEP=\"2\"", "STEP=\"0\""),
        ("EACH=\"${many}\"", "EACH=\"many\""),
        ("ON_FAILURE=\"hold\"", "ON_FAILURE=\"stop\""),
        ("TIMEOUT=\"1h30m\"", "TIMEOUT=\"90\""),
    ] {
        assert!(whole.contains(from), "{from}");
        wrong.push(Mutant { what: format!("{from} → {to}"), document: whole.replacen(from, to, 1) });
    }
    for (mutant, refused) in wrong.iter().zip(validator.refuses(&wrong)) {
        assert!(refused.is_some(), "{} is accepted", mutant.what);
    }
}

#[test]
fn the_schema_accepts_whatever_the_loader_accepts() {
    let Some(validator) = Validator::new("mutants") else { return };
    let mut mutants = Vec::new();
    let whole = Element::parse(WHOLE);
    every_value(&whole, &mut mutants);
    every_insertion(&whole, &mut mutants);
    for attributes in ROOT_ATTRIBUTES {
        let document = WHOLE.replacen("VERSION=\"1\"", &format!("{attributes} VERSION=\"1\""), 1);
        mutants.push(Mutant { what: attributes.into(), document });
    }
    mutants.extend(long());
    let systematic = mutants.len();
    let mut random = Random(0x5eed);
    let mut seeds: Vec<Element> = examples().iter().map(|(_, text)| Element::parse(text)).collect();
    seeds.push(whole);
    for number in 0..2000 {
        let mut root = seeds[random.below(seeds.len())].clone();
        let mut what = format!("random {number}:");
        for _ in 0..1 + random.below(3) {
            mutate(&mut root, &mut random, &mut what);
        }
        mutants.push(Mutant { what, document: root.to_string() });
    }
    let from_random = accepted(mutants.split_off(systematic));
    let systematic = accepted(mutants);
    // Else this test would say nothing.
    assert!(systematic.len() > 500, "only {} mutants are accepted", systematic.len());
    assert!(from_random.len() > 200, "only {} random mutants are accepted", from_random.len());
    validator.check(&[systematic, from_random].concat());
}

/// Those that the loader accepts.
fn accepted(mutants: Vec<Mutant>) -> Vec<Mutant> {
    let is_accepted = |mutant: &&Mutant| load(&[Source::new("mutant.xml", mutant.document.as_str())]).is_ok();
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    std::thread::scope(|scope| {
        let parts = mutants.chunks(mutants.len().div_ceil(threads).max(1));
        let parts = parts.map(|part| scope.spawn(move || part.iter().filter(is_accepted).cloned().collect::<Vec<_>>()));
        let parts: Vec<_> = parts.collect();
        parts.into_iter().flat_map(|part| part.join().expect("the loader does not panic")).collect()
    })
}

/// A document that was changed, and how.
#[derive(Clone)]
struct Mutant {
    what: String,
    document: String,
}

/// `xmllint` with the schema, in a directory of its own.
struct Validator {
    directory: PathBuf,
}

impl Validator {
    /// None, and loudly so, where there is no `xmllint`; but not where changes are verified.
    fn new(name: &str) -> Option<Self> {
        if Command::new("xmllint").arg("--version").output().is_err() {
            let advice = "xmllint is not installed; on Debian: apt-get install libxml2-utils";
            assert!(std::env::var_os("CI").is_none(), "{advice}");
            // Written past the capture of the test harness, so that it is seen when all is well otherwise.
            let _ = std::io::Write::write_all(
                &mut std::io::stderr(),
                format!("\nWARNING: the schema was NOT tested: {advice}\n").as_bytes(),
            );
            return None;
        }
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("schema-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&directory).expect("the directory for tests can be written");
        std::fs::write(directory.join("schema.xsd"), SCHEMA).expect("the directory for tests can be written");
        Some(Self { directory })
    }

    /// For each document, why the schema refuses it.
    fn refuses(&self, documents: &[Mutant]) -> Vec<Option<String>> {
        let mut answers = Vec::new();
        // One process for many documents, but not more than fit on a command line.
        for batch in documents.chunks(1000) {
            let names: Vec<String> = (0..batch.len()).map(|number| format!("{number}.xml")).collect();
            for (name, mutant) in names.iter().zip(batch) {
                // libxml2 takes a blank CDATA section for text where only white space may stand. XML Schema does not
                // (cvc-complex-type, 2.3), and neither does the loader, so it gets the white space alone.
                let document = mutant.document.replace("<![CDATA[]]>", "").replace("<![CDATA[ \n]]>", " \n");
                std::fs::write(self.directory.join(name), document).expect("tests can write");
            }
            let output = Command::new("xmllint")
                .args(["--huge", "--nonet", "--noout", "--schema", "schema.xsd"])
                .args(&names)
                .current_dir(&self.directory)
                .output()
                .expect("xmllint was there a moment ago");
            let said = String::from_utf8_lossy(&output.stderr);
            let mut about: Vec<&str> = Vec::new();
            let mut verdicts = Vec::new();
            for line in said.lines() {
                about.push(line);
                if line.ends_with(" validates") {
                    verdicts.push(None);
                    about.clear();
                } else if line.ends_with(" fails to validate") || line.contains("validation generated an internal") {
                    verdicts.push(Some(about.join("\n")));
                    about.clear();
                }
            }
            // A document that is not even XML gets no verdict, nor does any if the schema is wrong.
            assert_eq!(verdicts.len(), batch.len(), "xmllint did not judge all documents: {}", clip(&said, 2000));
            answers.extend(verdicts);
        }
        answers
    }

    fn check(self, documents: &[Mutant]) {
        let refused: Vec<String> = documents
            .iter()
            .zip(self.refuses(documents))
            .filter_map(|(mutant, refused)| Some(format!("{}\n{}", clip(&mutant.what, 200), clip(&refused?, 300))))
            .collect();
        assert!(
            refused.is_empty(),
            "the schema refuses {} of {} documents that the loader accepts:\n\n{}",
            refused.len(),
            documents.len(),
            refused[..refused.len().min(60)].join("\n\n")
        );
    }
}

impl Drop for Validator {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

fn clip(text: &str, most: usize) -> String {
    text.chars().take(most).collect()
}

/// The examples by name.
fn examples() -> Vec<(String, String)> {
    let entries = std::fs::read_dir(EXAMPLES).expect("there are examples");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("examples can be listed").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "xml"));
    paths.sort();
    assert!(!paths.is_empty(), "there are no examples");
    let read = |path: &PathBuf| std::fs::read_to_string(path).expect("examples can be read");
    paths.iter().map(|path| (path.display().to_string(), read(path))).collect()
}

/// An element that can be changed. Values and text are as written, with references.
#[derive(Clone)]
struct Element {
    name: String,
    attributes: Vec<(String, String)>,
    children: Vec<Child>,
}

#[derive(Clone)]
enum Child {
    Element(Element),
    /// Text, comments and so on.
    Written(String),
}

impl Element {
    fn parse(text: &str) -> Self {
        let document = roxmltree::Document::parse(text).expect("this one is right");
        Self::from(document.root_element())
    }

    /// The document as it is written again.
    fn read(text: &str) -> String {
        Self::parse(text).to_string()
    }

    fn from(node: roxmltree::Node) -> Self {
        let children = node.children().filter_map(|child| match child.text() {
            _ if child.is_element() => Some(Child::Element(Self::from(child))),
            Some(text) if child.is_text() => Some(Child::Written(escape(text))),
            _ => None,
        });
        Self {
            name: node.tag_name().name().into(),
            attributes: node.attributes().map(|it| (it.name().into(), escape(it.value()))).collect(),
            children: children.collect(),
        }
    }

    fn elements(&self) -> usize {
        1 + self.inner().map(Element::elements).sum::<usize>()
    }

    fn inner(&self) -> impl Iterator<Item = &Element> {
        self.children.iter().filter_map(|child| match child {
            Child::Element(element) => Some(element),
            Child::Written(_) => None,
        })
    }

    /// The element at a position in document order.
    fn nth(&mut self, position: usize) -> &mut Element {
        if position == 0 {
            return self;
        }
        let mut rest = position - 1;
        for child in &mut self.children {
            let Child::Element(element) = child else { continue };
            let elements = element.elements();
            if rest < elements {
                return element.nth(rest);
            }
            rest -= elements;
        }
        unreachable!("there is no element {position}")
    }
}

impl std::fmt::Display for Element {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "<{}", self.name)?;
        for (name, value) in &self.attributes {
            write!(f, " {name}=\"{value}\"")?;
        }
        f.write_str(">")?;
        for child in &self.children {
            match child {
                Child::Element(element) => write!(f, "{element}")?,
                Child::Written(text) => f.write_str(text)?,
            }
        }
        write!(f, "</{}>", self.name)
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Each attribute with each value, and with its own value decorated on each kind of element.
fn every_value(root: &Element, mutants: &mut Vec<Mutant>) {
    let mut root = root.clone();
    let mut seen: HashMap<String, usize> = HashMap::new();
    for position in 0..root.elements() {
        let element = root.nth(position).name.clone();
        for attribute in 0..root.nth(position).attributes.len() {
            let (name, old) = root.nth(position).attributes[attribute].clone();
            let often = first_times(&mut seen, &name, 1);
            let values = VALUES.iter().filter(|_| often).map(|value| (*value).to_owned());
            let kind = first_times(&mut seen, &format!("{element} {name}"), 1);
            let decorations = DECORATIONS.iter().filter(|_| kind);
            for value in values.chain(decorations.map(|(before, after)| format!("{before}{old}{after}"))) {
                root.nth(position).attributes[attribute].1 = value.clone();
                mutants.push(Mutant { what: format!("{name}={value:?} in {element}"), document: root.to_string() });
            }
            root.nth(position).attributes[attribute].1 = old;
        }
    }
}

fn first_times(seen: &mut HashMap<String, usize>, what: &str, times: usize) -> bool {
    let seen = seen.entry(what.to_owned()).or_default();
    *seen += 1;
    *seen <= times
}

/// Each kind of element with something inserted at its beginning and at its end.
fn every_insertion(root: &Element, mutants: &mut Vec<Mutant>) {
    let mut root = root.clone();
    let mut seen: HashMap<String, usize> = HashMap::new();
    for position in 0..root.elements() {
        let element = root.nth(position).name.clone();
        if !first_times(&mut seen, &element, 1) {
            continue;
        }
        let children = root.nth(position).children.clone();
        for inserted in INSERTIONS {
            for at in BTreeSet::from([0, children.len()]) {
                root.nth(position).children.insert(at, Child::Written(inserted.into()));
                mutants.push(Mutant { what: format!("{inserted:?} in {element}"), document: root.to_string() });
                root.nth(position).children.clone_from(&children);
            }
        }
    }
    for inserted in INSERTIONS {
        mutants.push(Mutant { what: format!("{inserted:?} before all"), document: format!("{inserted}{root}") });
        mutants.push(Mutant { what: format!("{inserted:?} after all"), document: format!("{root}{inserted}") });
    }
}

/// Values, names and nesting near the limits.
fn long() -> Vec<Mutant> {
    let name = "a".repeat(128);
    let body = |body: &str| {
        format!("<XAVANTES VERSION=\"1\"><PROCESS_TYPE NAME=\"Main\"><BODY>{body}</BODY></PROCESS_TYPE></XAVANTES>")
    };
    let quoted = "é} ".repeat(5000);
    let tables = vec!["{}"; 500].join(", ");
    let depth = 990;
    let code = |language: &str| {
        format!(
            "<XAVANTES VERSION=\"1\"><ACTIVITY_TYPE NAME=\"A\"><CODE LANGUAGE=\"{language}\"/></ACTIVITY_TYPE></XAVANTES>"
        )
    };
    let blocks = "<BLOCK NAME=\"b\">".repeat(depth) + &"</BLOCK>".repeat(depth);
    let mut documents = vec![
        ("a long name", body(&format!("<BLOCK NAME=\"{name}\"/>"))),
        ("a name that is too long", body(&format!("<BLOCK NAME=\"{name}a\"/>"))),
        ("a long duration", body(&format!("<BLOCK NAME=\"b\" TIMEOUT=\"{}1ms\"/>", "0s0ms0m".repeat(5000)))),
        ("a long number", body(&format!("<BLOCK NAME=\"b\" RETRIES=\"{}1\"/>", "0".repeat(5000)))),
        ("a long factor", body(&format!("<BLOCK NAME=\"b\" RETRY_BACKOFF=\"1.{}\"/>", "0".repeat(5000)))),
        ("a long bound", body(&format!("<FOR NAME=\"b\" TO=\"{}1\"><ITERATE/></FOR>", "0".repeat(5000)))),
        ("a long expression", body(&format!("<FOR NAME=\"b\" TO=\"${{#'{quoted}'}}\"><ITERATE/></FOR>"))),
        ("many braces", body(&format!("<FOR NAME=\"b\" EACH=\"${{ {{{tables}}} }}\"><ITERATE/></FOR>"))),
        ("a long language", code(&"a+".repeat(5000))),
        ("much white space", body(&format!("<BLOCK NAME=\"b\" RETRIES=\"{0}1{0}\"/>", " ".repeat(5000)))),
        ("deep nesting", body(&blocks)),
        ("a byte order mark", format!("\u{FEFF}{}", body(""))),
    ];
    let parameters: String = (0..250).fold(String::new(), |mut all, number| {
        let _ = write!(all, "<IN_PARAMETER NAME=\"p{number}\" TYPE=\"int\"/>");
        all
    });
    let bindings: String = (0..250).fold(String::new(), |mut all, number| {
        let _ = write!(all, " p{number}=\"1\"");
        all
    });
    documents.push(("many bindings", body(&format!("<BLOCK NAME=\"b\"{bindings}>{parameters}</BLOCK>"))));
    let refused = ["a name that is too long"];
    for (what, document) in &documents {
        let accepted = load(&[Source::new(*what, document.as_str())]).is_ok();
        assert_eq!(accepted, !refused.contains(what), "{what}");
    }
    documents.into_iter().map(|(what, document)| Mutant { what: what.into(), document }).collect()
}

/// The numbers of splitmix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, most: usize) -> usize {
        (self.next() % most.max(1) as u64) as usize
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.below(from.len())]
    }
}

/// Changes one thing.
fn mutate(root: &mut Element, random: &mut Random, what: &mut String) {
    const ELEMENTS: [&str; 14] = [
        "ACTIVITY",
        "PROCESS",
        "BLOCK",
        "SWITCH",
        "FOR",
        "WHILE",
        "PAR",
        "PARSWITCH",
        "PARFOR",
        "PARWHILE",
        "CATCH",
        "FINALLY",
        "PRE_CODE",
        "POST_CODE",
    ];
    const ATTRIBUTES: [&str; 17] = [
        "NAME",
        "TYPE",
        "RETRIES",
        "RETRY_DELAY",
        "RETRY_BACKOFF",
        "TIMEOUT",
        "CACHE",
        "ON_FAILURE",
        "DELEGATE",
        "AFTER",
        "JOIN",
        "MAX_PARALLEL",
        "EXIT_CONDITION",
        "CONDITION",
        "COLLECT",
        "DEFAULT",
        "OPTIONAL",
    ];
    // The first of the values are the ones that most attributes take.
    const NEW: [&str; 12] = ["1", " 1", "2 ", "1s", "true", "false", "auto", "fail", "continue", "${1}", "", "1.5"];
    let element = root.nth(random.below(root.elements()));
    let name = element.name.clone();
    let (children, attributes) = (element.children.len(), element.attributes.len());
    let done = match random.below(10) {
        0 if children > 0 => {
            element.children.remove(random.below(children));
            "a child is removed".into()
        }
        1 if children > 0 => {
            let copy = element.children[random.below(children)].clone();
            element.children.insert(random.below(children + 1), copy);
            "a child is repeated".into()
        }
        2 | 3 if children > 1 => {
            element.children.swap(random.below(children), random.below(children));
            "children are swapped".into()
        }
        4 => {
            element.name = random.pick(&ELEMENTS).into();
            format!("renamed to {}", element.name)
        }
        5 if attributes > 0 => {
            let (gone, _) = element.attributes.remove(random.below(attributes));
            format!("{gone} is removed")
        }
        6 if attributes > 0 => {
            let renamed = random.below(attributes);
            element.attributes[renamed].0 = random.pick(&ATTRIBUTES).into();
            format!("an attribute becomes {}", element.attributes[renamed].0)
        }
        7 => {
            let (name, value) = (random.pick(&ATTRIBUTES), random.pick(&NEW));
            element.attributes.retain(|(known, _)| known != name);
            element.attributes.insert(random.below(element.attributes.len() + 1), (name.into(), value.into()));
            format!("{name}={value:?} is added")
        }
        8 if attributes > 0 => {
            let (changed, value) = (random.below(attributes), random.pick(&VALUES));
            element.attributes[changed].1 = value.into();
            format!("{}={value:?}", element.attributes[changed].0)
        }
        _ => {
            let inserted = random.pick(&INSERTIONS);
            element.children.insert(random.below(children + 1), Child::Written(inserted.into()));
            format!("{inserted:?} is inserted")
        }
    };
    let _ = write!(what, " in {name} {done};");
}

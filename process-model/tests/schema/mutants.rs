//! Changed documents: systematic and random changes of attributes, children and names.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Write;

use xavantes_model::diagnostic::Source;
use xavantes_model::load::load;

use crate::element::{Child, Element};

/// Values for attributes, written as in a document, so references are possible.
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

/// Texts to put around the value of an attribute.
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

/// Texts to insert between children.
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

/// A changed document, and the change.
#[derive(Clone)]
pub struct Mutant {
    pub what: String,
    pub document: String,
}

/// Makes mutants of each attribute with each value, and with each decoration on each kind of element.
pub fn every_value(root: &Element, mutants: &mut Vec<Mutant>) {
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

/// Counts an occurrence. Returns true for the first `times` occurrences.
fn first_times(seen: &mut HashMap<String, usize>, what: &str, times: usize) -> bool {
    let seen = seen.entry(what.to_owned()).or_default();
    *seen += 1;
    *seen <= times
}

/// Makes mutants of each kind of element with each insertion at its beginning and at its end.
pub fn every_insertion(root: &Element, mutants: &mut Vec<Mutant>) {
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

/// Makes documents with values, names and nesting near the limits.
pub fn long() -> Vec<Mutant> {
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

/// The random numbers of splitmix64.
pub struct Random(pub u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub fn below(&mut self, most: usize) -> usize {
        (self.next() % most.max(1) as u64) as usize
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.below(from.len())]
    }
}

/// Makes one random change.
pub fn mutate(root: &mut Element, random: &mut Random, what: &mut String) {
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
    const ATTRIBUTES: [&str; 18] = [
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
        "SECRET",
    ];
    // Values that most attributes accept.
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

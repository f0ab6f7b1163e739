//! The schema, compared with the loader by a real validator: the schema is valid, and it never refuses a document that
//! the loader accepts.

mod element;
mod mutants;
mod validator;

use std::collections::BTreeSet;
use std::path::PathBuf;

use xavantes_model::SCHEMA;
use xavantes_model::diagnostic::Source;
use xavantes_model::load::load;

use element::Element;
use mutants::{Mutant, Random, every_insertion, every_value, long, mutate};
use validator::Validator;

/// A document with every element and every attribute.
const WHOLE: &str = include_str!("whole.xml");
const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples");

/// Attributes that the root may have besides `VERSION`.
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
    // If the schema itself is invalid, the message of the validator is in the panic.
    validator.check(&documents);
}

#[test]
fn the_document_with_everything_has_every_element_and_attribute_of_the_schema() {
    let mut missing = BTreeSet::new();
    let schema = roxmltree::Document::parse(SCHEMA).expect("the schema is XML");
    let whole = roxmltree::Document::parse(WHOLE).expect("the document is XML");
    for declared in schema.descendants().filter(roxmltree::Node::is_element) {
        let Some(name) = declared.attribute("name") else { continue };
        // An import needs a second document.
        if matches!(name, "IMPORT" | "HASH") {
            continue;
        }
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
fn the_schema_refuses_obvious_errors() {
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
        ("SECONDS=\"90\"", "SECONDS=\"90s\""),
        ("USE=\"read\"", "USE=\"input\""),
    ] {
        assert!(whole.contains(from), "{from}");
        wrong.push(Mutant { what: format!("{from} → {to}"), document: whole.replacen(from, to, 1) });
    }
    for (mutant, refused) in wrong.iter().zip(validator.refuses(&wrong)) {
        assert!(refused.is_some(), "{} is accepted", mutant.what);
    }
}

#[test]
fn the_schema_accepts_every_document_that_the_loader_accepts() {
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
    // With fewer accepted documents this test would prove little.
    assert!(systematic.len() > 500, "only {} mutants are accepted", systematic.len());
    assert!(from_random.len() > 200, "only {} random mutants are accepted", from_random.len());
    validator.check(&[systematic, from_random].concat());
}

/// Returns the mutants that the loader accepts.
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

/// Returns the examples with their names.
fn examples() -> Vec<(String, String)> {
    let entries = std::fs::read_dir(EXAMPLES).expect("there are examples");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("examples can be listed").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "xml"));
    paths.sort();
    assert!(!paths.is_empty(), "there are no examples");
    let read = |path: &PathBuf| std::fs::read_to_string(path).expect("examples can be read");
    paths.iter().map(|path| (path.display().to_string(), read(path))).collect()
}

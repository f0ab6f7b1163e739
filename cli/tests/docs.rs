//! Every document in the documentation runs as it is, with the results shown below it.

mod common;

use std::path::Path;

use common::{Folder, xavantes};
use serde_json::Value as Json;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// A fenced block.
struct Block {
    /// What stands behind the opening fence.
    language: String,
    /// Where that is.
    line: usize,
    content: String,
    /// There is nothing but blank lines between it and the block before.
    follows: bool,
}

fn blocks(text: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut open: Option<(String, Block)> = None;
    let mut follows = false;
    for (index, line) in text.lines().enumerate() {
        let fence: String = line.trim_start().chars().take_while(|c| *c == '`').collect();
        match &mut open {
            Some((opening, block)) if fence.len() >= opening.len() && line.trim() == fence => {
                follows = true;
                blocks
                    .push(Block { content: std::mem::take(&mut block.content), ..open.take().expect("it is open").1 });
            }
            Some((_, block)) => {
                block.content.push_str(line);
                block.content.push('\n');
            }
            None if fence.len() >= 3 => {
                let language = line.trim()[fence.len()..].trim().to_owned();
                open = Some((fence, Block { language, line: index + 1, content: String::new(), follows }));
            }
            None => follows &= line.trim().is_empty(),
        }
    }
    assert!(open.is_none(), "the block in line {} is never closed", open.expect("it is open").1.line);
    blocks
}

/// The number of documents on a page, and the mistakes in them.
fn check(page: &str, text: &str) -> (usize, Vec<String>) {
    let folder = Folder::new();
    let blocks = blocks(text);
    let mut wrong = Vec::new();
    let documents: Vec<usize> = (0..blocks.len()).filter(|index| blocks[*index].language == "xml").collect();
    for index in &documents {
        let (block, next) = (&blocks[*index], blocks.get(index + 1).filter(|next| next.follows));
        let mut complain = |what: String| wrong.push(format!("{page}:{}: {what}", block.line));
        let file = folder.write(&format!("{}.xml", block.line), &block.content);
        match next.map(|next| (next.language.as_str(), next)) {
            Some(("text", _)) => {
                let ended = xavantes(&["validate", &file], "");
                if ended.code != 2 {
                    complain(format!("this was expected to be invalid, but validate ended with {}", ended.code));
                }
            }
            Some(("json", results)) => {
                let ended = xavantes(&["run", &file, "--output", "json", "--timeout", "60s"], "");
                let printed = serde_json::from_str::<Json>(&ended.stdout).unwrap_or_default();
                match serde_json::from_str::<Json>(&results.content) {
                    Err(error) => complain(format!("its results in line {} are not JSON: {error}", results.line)),
                    Ok(_) if ended.code != 0 => complain(format!("it ended with {}: {}", ended.code, ended.stderr)),
                    Ok(expected) if printed["results"] != expected => {
                        let got = &printed["results"];
                        complain(format!("its results are {got}, but line {} says {expected}", results.line));
                    }
                    Ok(_) => {}
                }
            }
            _ => complain("no block with its results (json) or its problems (text) follows".into()),
        }
    }
    (documents.len(), wrong)
}

#[test]
fn every_document_of_the_documentation_runs_with_the_results_shown() {
    let mut wrong = Vec::new();
    for (page, least) in [("docs/language.md", 10), ("docs/programs-and-files.md", 3), ("README.md", 0)] {
        let text = match std::fs::read_to_string(Path::new(ROOT).join(page)) {
            Err(_) if least == 0 => continue,
            text => text.unwrap_or_else(|error| panic!("{page}: {error}")),
        };
        let (documents, found) = check(page, &text);
        assert!(documents >= least, "{page} has only {documents} documents");
        wrong.extend(found);
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn mistakes_in_pages_are_found() {
    let body = |code: &str| {
        format!(
            "<XAVANTES VERSION=\"1\"><PROCESS_TYPE NAME=\"A\"><OUT_PARAMETER NAME=\"x\" TYPE=\"int\"/>\n\
             <BODY><PRE_CODE>{code}</PRE_CODE></BODY></PROCESS_TYPE></XAVANTES>"
        )
    };
    let (right, failing, invalid) = (body("x = 1"), body("error('no')"), body("x ="));
    let page = |document: &str, rest: &str| format!("Text\n\n```xml\n{document}\n```\n{rest}");
    for (text, expected) in [
        (page(&right, "```json\n{\"x\": 1}\n```\n"), ""),
        (page(&right, "\n```json\n{\"x\": 1}\n```\n"), ""),
        (page(&invalid, "```text\nanything\n```\n"), ""),
        (page(&right, "```json\n{\"x\": 2}\n```\n"), "line 7 says {\"x\":2}"),
        (page(&right, "```json\n{x}\n```\n"), "line 7 are not JSON"),
        (page(&right, "words\n```json\n{\"x\": 1}\n```\n"), "no block with its results"),
        (page(&right, ""), "no block with its results"),
        (page(&right, "```text\nanything\n```\n"), "expected to be invalid"),
        (page(&failing, "```json\n{\"x\": 1}\n```\n"), "it ended with 1"),
        (page(&invalid, "```json\n{\"x\": 1}\n```\n"), "it ended with 2"),
    ] {
        let (documents, wrong) = check("page.md", &text);
        assert_eq!(documents, 1, "{text}");
        match expected {
            "" => assert_eq!(wrong, Vec::<String>::new(), "{text}"),
            _ => assert!(
                wrong.len() == 1 && wrong[0].starts_with("page.md:3: ") && wrong[0].contains(expected),
                "{wrong:?}"
            ),
        }
    }
}

//! `xmllint`, which knows XML Schema.

use std::path::{Path, PathBuf};
use std::process::Command;

use xavantes_model::SCHEMA;

use crate::mutants::Mutant;

/// `xmllint` with the schema, in a directory of its own.
pub struct Validator {
    directory: PathBuf,
}

impl Validator {
    /// Prepares the directory. Without `xmllint` it prints a warning and returns `None`; in CI it panics.
    pub fn new(name: &str) -> Option<Self> {
        if Command::new("xmllint").arg("--version").output().is_err() {
            let advice = "xmllint is not installed; on Debian: apt-get install libxml2-utils";
            assert!(std::env::var_os("CI").is_none(), "{advice}");
            // Bypasses the capture of the test harness, so that the warning is visible although the test passes.
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

    /// Returns for each document why the schema refuses it.
    pub fn refuses(&self, documents: &[Mutant]) -> Vec<Option<String>> {
        let mut answers = Vec::new();
        // One process validates as many documents as fit on a command line.
        for batch in documents.chunks(1000) {
            let names: Vec<String> = (0..batch.len()).map(|number| format!("{number}.xml")).collect();
            for (name, mutant) in names.iter().zip(batch) {
                // libxml2 treats a blank CDATA section as text where only white space may stand. XML Schema does not
                // (cvc-complex-type, 2.3), and neither does the loader, so xmllint gets the white space alone.
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
            // xmllint gives no verdict on a document that is not well-formed, or with an invalid schema.
            assert_eq!(verdicts.len(), batch.len(), "xmllint did not judge all documents: {}", clip(&said, 2000));
            answers.extend(verdicts);
        }
        answers
    }

    /// Checks that the schema accepts all documents.
    pub fn check(self, documents: &[Mutant]) {
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

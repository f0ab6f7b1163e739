//! The definitions of processes that coordinators sent. They stay in memory within a budget; running attempts keep theirs.

use std::num::NonZeroUsize;
use std::sync::Arc;

use lru::LruCache;
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tracing::{debug, warn};
use xavantes_model::definition::Program;
use xavantes_model::diagnostic::Source;
use xavantes_model::load::load;
use xavantes_proto::programs::{MAX_DOCUMENTS, ProgramCache, program_bytes, program_digest};
use xavantes_proto::v1;

/// Upper bound on the memory of all definitions.
const MAX_DEFINITIONS_BYTES: usize = 256 << 20;
/// Upper bound on the digests of invalid definitions that the worker remembers.
// The compiler evaluates this `unwrap`.
const MAX_INVALID: NonZeroUsize = NonZeroUsize::new(1024).unwrap();

/// What a worker knows of a definition.
pub(crate) enum KnownDefinition {
    Loaded(Arc<Program>),
    /// It has errors.
    Invalid,
    /// It was never sent, or did not stay in memory: the coordinator must send it once more.
    Unknown,
}

/// The definitions of a worker, by digest.
pub(crate) struct Definitions {
    known: Mutex<KnownDefinitions>,
    /// Only one definition is loaded at once: loading takes much memory for a moment.
    loading: Semaphore,
}

struct KnownDefinitions {
    loaded: ProgramCache<Arc<Program>>,
    invalid: LruCache<String, ()>,
}

impl Default for Definitions {
    fn default() -> Self {
        let loaded = ProgramCache::new(MAX_DEFINITIONS_BYTES);
        let known = KnownDefinitions { loaded, invalid: LruCache::new(MAX_INVALID) };
        Self { known: Mutex::new(known), loading: Semaphore::new(1) }
    }
}

impl Definitions {
    /// What is known of the definition with this digest.
    pub fn find(&self, digest: &str) -> KnownDefinition {
        let mut known = self.known.lock();
        if let Some(program) = known.loaded.get(digest) {
            return KnownDefinition::Loaded(program.clone());
        }
        if known.invalid.get(digest).is_some() { KnownDefinition::Invalid } else { KnownDefinition::Unknown }
    }

    /// Loads the definitions of an order, away from the threads that serve calls.
    pub async fn add_all(&self, programs: Vec<v1::Program>, coordinator: &str) {
        for v1::Program { digest, documents } in programs {
            if !matches!(self.find(&digest), KnownDefinition::Unknown) {
                continue;
            }
            // Another coordinator may have the definition that really has this digest.
            if documents.len() > MAX_DOCUMENTS || program_digest(&documents) != digest {
                warn!(coordinator, documents = documents.len(), "ignored a definition that does not have its digest");
                continue;
            }
            let Ok(_permit) = self.loading.acquire().await else { return };
            let size = documents.iter().map(|document| document.text.len()).sum();
            let sources: Vec<Source> =
                documents.into_iter().map(|document| Source::new(document.name, document.text)).collect();
            match tokio::task::spawn_blocking(move || load(&sources)).await {
                Ok(Ok(program)) => self.add(&digest, program, size, coordinator),
                Ok(Err(problems)) => {
                    warn!(coordinator, problems = problems.len(), "received an invalid definition");
                    self.known.lock().invalid.put(digest, ());
                }
                Err(_) => debug!("the node is shutting down"),
            }
        }
    }

    fn add(&self, digest: &str, program: Program, document_bytes: usize, coordinator: &str) {
        let bytes = program_bytes(&program, document_bytes);
        if let Err(problem) = self.known.lock().loaded.add(digest, Arc::new(program), bytes) {
            warn!(coordinator, %problem, "no room for a definition; its attempts are refused for now");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_definition_counts_only_under_its_own_digest() {
        let document = |code: &str| {
            let text = format!(
                "<XAVANTES VERSION=\"1\"><ACTIVITY_TYPE NAME=\"A\"><CODE LANGUAGE=\"lua\">{code}</CODE></ACTIVITY_TYPE></XAVANTES>"
            );
            vec![v1::Document { name: "a.xml".into(), text }]
        };
        let definitions = Definitions::default();
        let (good, bad) = (document("local a = 1"), document("="));
        let (good_digest, bad_digest) = (program_digest(&good), program_digest(&bad));
        let stolen = v1::Program { digest: good_digest.clone(), documents: document("local evil = 1") };
        definitions.add_all(vec![stolen], "c").await;
        assert!(matches!(definitions.find(&good_digest), KnownDefinition::Unknown));
        let programs = [(&good_digest, good), (&bad_digest, bad)];
        let programs = programs.map(|(digest, documents)| v1::Program { digest: digest.clone(), documents });
        definitions.add_all(programs.to_vec(), "c").await;
        assert!(matches!(definitions.find(&good_digest), KnownDefinition::Loaded(_)));
        assert!(matches!(definitions.find(&bad_digest), KnownDefinition::Invalid));
    }
}

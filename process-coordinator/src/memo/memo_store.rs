//! Memos in the repository.
//!
//! | documents of the kind | under | are |
//! |---|---|---|
//! | `memo` | the id of a process | [`MemoDocument`]s |
//! | `memo-chunk` | the id and the number of a chunk | full chunks |

use bytes::Bytes;
use xavantes_repository::{Error, Store};

use crate::memo::memo_log::{MemoDocument, MemoWrite};
use crate::record_codec;
use crate::repository_calls::{RepositoryCall, join_in_order};

const DOCUMENTS: &str = "memo";
const CHUNKS: &str = "memo-chunk";
/// Upper bound on the calls of the repository that wait together.
const CALLS_AT_ONCE: usize = 1000;

fn chunk_key(process: &str, number: u32) -> String {
    format!("{process}/{number}")
}

/// The document of the memo of a process; a new one if there is none.
pub(crate) async fn read_document(repository: &Store, process: &str) -> Result<MemoDocument, Error> {
    let bytes = repository.get(DOCUMENTS, process).await?;
    Ok(bytes.and_then(|bytes| record_codec::decode("memo", &bytes).ok()).unwrap_or_default())
}

/// All chunks of a memo.
pub(crate) async fn read_chunks(
    repository: &Store,
    process: &str,
    document: &MemoDocument,
) -> Result<Vec<Bytes>, Error> {
    let mut chunks = Vec::new();
    for number in 0..document.chunks {
        chunks.extend(repository.get(CHUNKS, &chunk_key(process, number)).await?);
    }
    chunks.push(document.open.clone().into());
    Ok(chunks)
}

/// Stores the document of a new memo.
pub(crate) async fn create(repository: &Store, process: &str, document: &MemoDocument) -> Result<(), Error> {
    repository.put(DOCUMENTS, process, record_codec::encode(document)).await
}

/// The repository calls of these writes, in order.
pub(crate) fn calls(repository: &Store, process: &str, writes: &[MemoWrite]) -> Vec<RepositoryCall> {
    let call = |write: &MemoWrite| -> RepositoryCall {
        let (kind, key, bytes) = match write {
            MemoWrite::Chunk(number, bytes) => (CHUNKS, chunk_key(process, *number), bytes.clone()),
            MemoWrite::Document(bytes) => (DOCUMENTS, process.to_owned(), bytes.clone()),
        };
        let repository = repository.clone();
        Box::pin(async move { repository.put(kind, &key, bytes).await })
    };
    writes.iter().map(call).collect()
}

/// Removes the memos of processes.
pub(crate) async fn forget(repository: &Store, processes: &[String]) -> Result<(), Error> {
    for some in processes.chunks(CALLS_AT_ONCE) {
        let calls = some.iter().map(|process| -> RepositoryCall {
            let (repository, process) = (repository.clone(), process.clone());
            Box::pin(async move { forget_one(&repository, &process).await })
        });
        join_in_order(calls.collect()).await.into_iter().collect::<Result<(), Error>>()?;
    }
    Ok(())
}

async fn forget_one(repository: &Store, process: &str) -> Result<(), Error> {
    let Some(bytes) = repository.get(DOCUMENTS, process).await? else { return Ok(()) };
    let document: MemoDocument = record_codec::decode("memo", &bytes).unwrap_or_default();
    // A chunk is written before the document that counts it.
    for number in 0..=document.chunks {
        repository.remove(CHUNKS, &chunk_key(process, number)).await?;
    }
    repository.remove(DOCUMENTS, process).await
}

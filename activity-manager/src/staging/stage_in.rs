//! Stages the files of an attempt's parameters into its working directory.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use xavantes_files::{
    Error, Hold, Manifest, ObjectRequest, StageIn, StageItem, StageTarget, StagedFiles, WorkingDirectory, check_path,
    file_name, plan_stage_in,
};
use xavantes_model::digest::Digest;
use xavantes_model::value::{FileRef, Value};
use xavantes_model::working_path::parse_source_uri;
use xavantes_proto::{digest_from, v1};

use super::{Staging, resolve_text, shutdown_failure, store_failure};
use crate::attempt_failure::{AttemptFailure, failure};
use crate::attempts::job::Job;
use crate::expressions::evaluate;

/// The staged files of an attempt. The store keeps them until this is dropped.
#[derive(Debug)]
pub(crate) struct StagedInputs {
    /// The parameters as the program sees them: files and directories are paths in its working directory.
    pub parameters: Vec<Value>,
    /// Computed paths, patterns and places of the activity's files.
    pub(super) texts: Vec<String>,
    pub(super) laid: StagedFiles,
}

impl StagedInputs {
    /// Removes the files from the working directory.
    pub fn remove(&self) {
        self.laid.unlink();
    }
}

/// A file or directory in the local store. The store does not evict it while the holds live.
struct FetchedPiece {
    /// Of a directory.
    manifest: Option<Manifest>,
    _holds: Vec<Hold>,
}

impl Staging {
    /// Stages the files of the parameters into the working directory.
    pub async fn stage_in(&self, job: &Job, directory: &Path) -> Result<StagedInputs, AttemptFailure> {
        let activity = job.activity();
        let mut pieces = Vec::new();
        // Expressions see the parameters as the process has them, not as paths in the working directory.
        let texts = match &activity.files.code {
            Some(code) => evaluate(job, &job.parameters, code)?,
            None => Vec::new(),
        };
        let mut parameters = Vec::with_capacity(job.parameters.len());
        let all = tokio::select! {
            all = self.read_sources(&job.parameters) => all?,
            () = job.stop.requested() => return Err(job.stop_failure()),
        };
        for (slot, (given, variable)) in all.iter().zip(&activity.parameters).enumerate() {
            let declared = activity.files.inputs.iter().find(|input| input.slot as usize == slot);
            let place = match declared {
                Some(input) => StageTarget::At(resolve_text(&input.path, &texts).to_owned()),
                None => StageTarget::In(variable.name.to_string()),
            };
            parameters.push(plan_stage_in(given, place, &mut pieces));
        }
        if pieces.is_empty() {
            return Ok(StagedInputs { parameters, texts, laid: StagedFiles::default() });
        }
        for piece in &pieces {
            check_path(&piece.path).map_err(|error| failure(v1::FailureKind::Parameter, error.to_string()))?;
        }
        let fetched = tokio::select! {
            fetched = self.fetch(job, &pieces) => fetched?,
            () = job.stop.requested() => return Err(job.stop_failure()),
        };
        let (store, directory) = (self.fetcher.store().clone(), directory.to_owned());
        let laid = tokio::task::spawn_blocking(move || {
            let place = WorkingDirectory::open(&directory)?;
            let mut stage_in = StageIn::read_only(&store, &place);
            for (piece, FetchedPiece { manifest, .. }) in pieces.iter().zip(&fetched) {
                match manifest {
                    None => stage_in.file(&piece.path, &piece.content.digest, piece.content.executable)?,
                    Some(manifest) => stage_in.directory(&piece.path, manifest)?,
                }
            }
            Ok(stage_in.finish())
        });
        let laid = laid.await.map_err(shutdown_failure)?.map_err(|error| store_failure(&error))?;
        Ok(StagedInputs { parameters, texts, laid })
    }

    /// Reads files in data sources into the store, and refers to their content in the values.
    async fn read_sources(&self, given: &[Value]) -> Result<Vec<Value>, AttemptFailure> {
        let mut wanted: Vec<Arc<FileRef>> = Vec::new();
        for value in given {
            value.each_file(&mut |file| {
                if file.content.is_none() && parse_source_uri(&file.uri).is_some() && !wanted.contains(file) {
                    wanted.push(file.clone());
                }
            });
        }
        let mut read = Vec::with_capacity(wanted.len());
        for file in wanted {
            let taken = self.sources.read(&file.uri, file.directory).await.map_err(|error| store_failure(&error))?;
            let content = self.local_content(&taken);
            read.push((file.clone(), Arc::new(FileRef { content: Some(content), ..(*file).clone() })));
        }
        Ok(given.iter().map(|value| replace_files(value, &read)).collect())
    }

    async fn fetch(&self, job: &Job, pieces: &[StageItem]) -> Result<Vec<FetchedPiece>, AttemptFailure> {
        let known = known_holders(job);
        let wanted = |piece: &StageItem| wanted(piece, &known, &job.relays);
        let mut fetched = Vec::with_capacity(pieces.len());
        // All files at once, then one directory after the other, each with all its files at once.
        let files = pieces.iter().filter(|piece| !piece.directory).map(wanted).collect();
        let mut files = self.fetcher.get_all(files).await.map_err(|error| fetch_failure(pieces, &error))?.into_iter();
        for piece in pieces {
            if piece.directory {
                let got = self.fetcher.get_directory(&wanted(piece)).await;
                let (manifest, holds) = got.map_err(|error| fetch_failure(pieces, &error))?;
                fetched.push(FetchedPiece { manifest: Some(manifest), _holds: holds });
            } else {
                fetched.push(FetchedPiece { manifest: None, _holds: files.next().into_iter().collect() });
            }
        }
        Ok(fetched)
    }
}

/// The value with other file references: each pair is the old one and the new one.
fn replace_files(given: &Value, others: &[(Arc<FileRef>, Arc<FileRef>)]) -> Value {
    match given {
        Value::File(file) => {
            let other = others.iter().find(|(before, _)| before == file);
            Value::File(other.map_or_else(|| file.clone(), |(_, after)| after.clone()))
        }
        Value::List(items) => Value::List(Arc::new(items.iter().map(|item| replace_files(item, others)).collect())),
        Value::Map(map) => {
            Value::Map(Arc::new(map.iter().map(|(key, item)| (key.clone(), replace_files(item, others))).collect()))
        }
        other => other.clone(),
    }
}

/// Holders of objects, as the coordinator knows them.
fn known_holders(job: &Job) -> HashMap<Digest, Vec<Arc<str>>> {
    let known = job.holdings.iter().filter_map(|holding| {
        let addresses = holding.addresses.iter().map(|address| Arc::from(address.as_str())).collect();
        Some((digest_from(&holding.digest).ok()?, addresses))
    });
    known.collect()
}

fn wanted(piece: &StageItem, known: &HashMap<Digest, Vec<Arc<str>>>, relays: &[Arc<str>]) -> ObjectRequest {
    let digest = piece.content.digest;
    let mut holders = known.get(&digest).cloned().unwrap_or_default();
    holders
        .extend(piece.content.holders.iter().filter(|holder| !holders.contains(holder)).cloned().collect::<Vec<_>>());
    ObjectRequest { digest, holders, relays: relays.to_vec() }
}

/// The failure of a fetch. A missing file of a directory counts as a missing directory.
fn fetch_failure(pieces: &[StageItem], error: &Error) -> AttemptFailure {
    let Error::Gone { digest, failure } = error else { return store_failure(error) };
    let own = pieces.iter().find(|piece| piece.content.digest == *digest);
    let gone = own.or_else(|| pieces.iter().find(|piece| piece.directory));
    let name = gone.map_or("a file", |piece| file_name(&piece.path));
    let message = format!("{name:?} is gone: {failure}");
    let gone = gone.map(|piece| piece.content.digest.0.to_vec()).into_iter().collect();
    Box::new(v1::Failure { kind: v1::FailureKind::Worker.into(), message, gone, ..v1::Failure::default() })
}

//! Stages the files that a program made out of its working directory: into the store, and into data sources.

use std::path::Path;
use std::sync::Arc;

use xavantes_files::{EntryKind, Error, StagedOut, WorkingDirectory, file_name};
use xavantes_model::diagnostic::did_you_mean;
use xavantes_model::digest::Digest;
use xavantes_model::value::{FileRef, Type, Value};
use xavantes_proto::{v1, value};

use super::declared_outputs::{NestedFile, OutputRule, nested_files, replace_nested};
use super::stage_in::StagedInputs;
use super::{Staging, pin_owner, shutdown_failure, store_failure};
use crate::attempt_failure::{AttemptFailure, failure};
use crate::attempts::job::Job;

/// Upper bound on the paths that a message lists.
const MAX_LISTED_PATHS: usize = 5;

/// A result that is made of files.
struct WantedOutput {
    /// Index among the results.
    result: usize,
    name: Arc<str>,
    optional: bool,
    ty: Type,
    rule: OutputRule,
}

/// A file within a list or map of a result.
struct WantedNested {
    /// Index among the results.
    result: usize,
    name: Arc<str>,
    file: NestedFile,
}

/// Files in the store that became a result.
#[derive(Default)]
struct StoredOutput {
    value: Value,
    /// Files with their paths. The path of a single file is empty.
    files: Vec<(String, Digest)>,
    /// All objects that the process needs for the result.
    objects: Vec<Digest>,
}

/// The file that the program probably meant: one whose path is similar, or one with the same name in another folder.
fn near_miss(wanted: &str, paths: &[String]) -> Option<String> {
    let paths = || paths.iter().map(String::as_str);
    let moved = paths().find(|path| file_name(path) == file_name(wanted));
    moved.map(|path| format!("did you mean {path:?}?")).or_else(|| did_you_mean(wanted, paths()))
}

impl Staging {
    /// Stages out the files of the results. `results` are the values that the program gave, in the order of the `OUT`
    /// parameters.
    pub async fn stage_out(
        &self,
        job: &Job,
        directory: &Path,
        staged: &StagedInputs,
        results: &mut [v1::Value],
    ) -> Result<(), AttemptFailure> {
        if let [changed, ..] = &staged.laid.changed()[..] {
            let message = format!("the program changed {changed:?}: files that it is given are to be read only");
            return Err(failure(v1::FailureKind::Parameter, message));
        }
        let activity = job.activity();
        let (mut wanted, mut nested) = (Vec::new(), Vec::new());
        let outs = activity.parameters.iter().enumerate().filter(|(_, variable)| variable.direction.is_out());
        for (at, (slot, variable)) in outs.enumerate() {
            let name = || variable.name.clone();
            let output = activity.files.outputs.iter().find(|output| output.slot as usize == slot);
            let rule = match (output, results.get(at)) {
                (Some(output), _) => OutputRule::declared(output, &staged.texts)?,
                (None, Some(result)) => match OutputRule::named(result, variable.ty, directory) {
                    Some(rule) => rule,
                    None => {
                        let files = nested_files(result).into_iter();
                        nested.extend(files.map(|file| WantedNested { result: at, name: name(), file }));
                        continue;
                    }
                },
                (None, None) => continue,
            };
            let ty = variable.ty.unwrap_or(Type::List);
            wanted.push(WantedOutput { result: at, name: name(), optional: variable.optional, ty, rule });
        }
        self.stage_out_nested(job, directory, nested, results).await?;
        if wanted.is_empty() {
            return Ok(());
        }
        let owner = pin_owner(&job.attempt.realm, &job.attempt.key.process);
        let (this, directory) = (self.clone(), directory.to_owned());
        let stored = tokio::task::spawn_blocking(move || {
            let place = WorkingDirectory::open(&directory).map_err(|error| store_failure(&error))?;
            let mut stored = Vec::new();
            for wanted in wanted {
                let output = this.store(&place, &wanted)?;
                this.pin(&owner, &output.objects)?;
                stored.push((wanted.result, output, wanted.rule.to));
            }
            Ok::<_, AttemptFailure>(stored)
        });
        for (at, output, to) in stored.await.map_err(shutdown_failure)?? {
            if let Some(to) = to {
                self.write_to_source(job, &output, &to).await?;
            }
            results[at] = value(&output.value);
        }
        Ok(())
    }

    /// Stages out files that a program names within lists and maps.
    async fn stage_out_nested(
        &self,
        job: &Job,
        directory: &Path,
        nested: Vec<WantedNested>,
        results: &mut [v1::Value],
    ) -> Result<(), AttemptFailure> {
        if nested.is_empty() {
            return Ok(());
        }
        let owner = pin_owner(&job.attempt.realm, &job.attempt.key.process);
        let (this, directory) = (self.clone(), directory.to_owned());
        let stored = tokio::task::spawn_blocking(move || {
            let place = WorkingDirectory::open(&directory).map_err(|error| store_failure(&error))?;
            let mut stored = Vec::with_capacity(nested.len());
            for WantedNested { result, name, file: NestedFile { path, ty } } in nested {
                let rule = OutputRule::literal(&path, &directory);
                let output = this.store(&place, &WantedOutput { result, name, optional: false, ty, rule })?;
                this.pin(&owner, &output.objects)?;
                stored.push((result, path, value(&output.value)));
            }
            Ok::<_, AttemptFailure>(stored)
        });
        for (at, path, file) in stored.await.map_err(shutdown_failure)?? {
            replace_nested(&mut results[at], &path, &file);
        }
        Ok(())
    }

    /// Also writes a result to a data source: a single file to that place, others below it with their paths.
    async fn write_to_source(&self, job: &Job, output: &StoredOutput, to: &str) -> Result<(), AttemptFailure> {
        for (path, digest) in &output.files {
            let uri = if path.is_empty() { to.to_owned() } else { format!("{to}/{path}") };
            tokio::select! {
                written = self.sources.write(&uri, digest) => written.map_err(|error| store_failure(&error))?,
                () = job.stop.requested() => return Err(job.stop_failure()),
            }
        }
        Ok(())
    }

    /// Keeps objects in the store until the process has ended.
    fn pin(&self, owner: &str, objects: &[Digest]) -> Result<(), AttemptFailure> {
        let store = self.fetcher.store();
        store.pin(owner, objects).map_err(|error| store_failure(&error))?;
        match objects.iter().find(|digest| !store.has(digest)) {
            Some(_) => Err(failure(v1::FailureKind::Worker, "the file store is too small for what the program made")),
            None => Ok(()),
        }
    }

    /// Stores the files of a result.
    fn store(&self, place: &WorkingDirectory, wanted: &WantedOutput) -> Result<StoredOutput, AttemptFailure> {
        let WantedOutput { name, optional, ty, rule, .. } = wanted;
        let wrong = |message: String| failure(v1::FailureKind::Parameter, format!("output {name:?}: {message}"));
        let refused = |error: Error| match error {
            Error::Full { .. } | Error::Io { .. } => store_failure(&error),
            other => wrong(other.to_string()),
        };
        let pattern = &rule.pattern;
        let mut paths = place.find(pattern).map_err(refused)?;
        let many = rule.has_wildcards();
        if many {
            paths.retain(|path| !place.is_directory(path));
        }
        if paths.is_empty() {
            if *optional {
                return Ok(StoredOutput::default());
            }
            let what = if many { "nothing matches" } else { "the program did not make" };
            let hint = if many { None } else { near_miss(pattern, &place.paths()) };
            let found = hint.unwrap_or_else(|| format!("in the working directory there is {}", place.listing()));
            return Err(wrong(format!("{what} {pattern:?}; {found}")));
        }
        let store = self.fetcher.store();
        match (ty, &paths[..]) {
            (Type::Directory, [path]) if !many => {
                self.stored_directory(path, place.stage_out(store, path, true).map_err(refused)?)
            }
            (Type::Directory, paths) => {
                self.stored_directory(name, place.stage_out_together(store, paths).map_err(refused)?)
            }
            (Type::List, paths) => {
                let (mut output, mut items) = (StoredOutput::default(), Vec::new());
                for path in paths {
                    let taken = place.stage_out(store, path, false).map_err(refused)?;
                    items.push(self.reference(path, false, &taken));
                    output.files.push((path.clone(), taken.digest));
                    output.objects.extend(taken.objects);
                }
                Ok(StoredOutput { value: items.into(), ..output })
            }
            (_, [path]) => {
                let taken = place.stage_out(store, path, false).map_err(refused)?;
                let files = vec![(String::new(), taken.digest)];
                Ok(StoredOutput { value: self.reference(path, false, &taken), files, objects: taken.objects })
            }
            (_, several) => {
                let shown: Vec<String> =
                    several.iter().take(MAX_LISTED_PATHS).map(|path| format!("{path:?}")).collect();
                let message = format!(
                    "{} files match {pattern:?}, {} and so on: a parameter of the type file takes one, one of the type \
                     list takes all",
                    several.len(),
                    shown.join(", ")
                );
                Err(wrong(message))
            }
        }
    }

    /// The result for a directory that was just stored.
    fn stored_directory(&self, name: &str, taken: StagedOut) -> Result<StoredOutput, AttemptFailure> {
        let manifest = self.fetcher.store().manifest(&taken.digest).map_err(|error| store_failure(&error))?;
        let entries = manifest.entries().iter().filter_map(|entry| match entry.kind {
            EntryKind::File { digest, .. } => Some((entry.path.clone(), digest)),
            _ => None,
        });
        let value = self.reference(name, true, &taken);
        Ok(StoredOutput { value, files: entries.collect(), objects: taken.objects })
    }

    fn reference(&self, path: &str, directory: bool, taken: &StagedOut) -> Value {
        let content = Some(self.local_content(taken));
        Value::File(Arc::new(FileRef { uri: file_name(path).into(), directory, content }))
    }
}

//! Files of activities that run in a working directory: laid into it before, taken out of it after.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use tonic::Status;
use tracing::warn;
use xavantes_files::{
    EntryKind, Error, Fetcher, Hold, Manifest, Sources, StageIn, StageItem, StageTarget, StagedFiles, Stored, Wanted,
    WorkingDirectory, check_path, file_name, plan_stage_in,
};
use xavantes_model::definition::{FileText, OutputFile};
use xavantes_model::digest::Digest;
use xavantes_model::path::{check_pattern, in_source};
use xavantes_model::value::{Content, FileRef, Type, Value};
use xavantes_proto::v1::files_client::FilesClient;
use xavantes_proto::{connect, digest_from, v1, value};

use crate::desk::Job;
use crate::program::{Failed, evaluate, stopped};

/// So many objects are handed over with one question.
const MOST_HANDED: usize = 1000;

/// The files of a worker.
#[derive(Debug, Clone)]
pub(crate) struct Staging {
    fetcher: Fetcher,
    sources: Sources,
    /// Where others reach this node.
    address: Arc<str>,
}

/// What was laid for an attempt. It stays in the store until this is dropped.
#[derive(Debug)]
pub(crate) struct Staged {
    /// The parameters as the program sees them: files and directories are paths in its working directory.
    pub parameters: Vec<Value>,
    /// Computed paths, patterns and places.
    texts: Vec<String>,
    laid: StagedFiles,
}

impl Staged {
    /// Removes what was laid.
    pub fn lift(&self) {
        self.laid.unlink();
    }
}

fn failure(kind: v1::FailureKind, message: impl Into<String>) -> Failed {
    Box::new(v1::Failure { kind: kind.into(), message: message.into(), ..v1::Failure::default() })
}

fn worker(error: &Error) -> Failed {
    failure(v1::FailureKind::Worker, error.to_string())
}

fn unexpected(_: tokio::task::JoinError) -> Failed {
    failure(v1::FailureKind::Worker, "the node is ending")
}

impl Staging {
    pub fn new(fetcher: Fetcher, sources: Sources, address: &str) -> Self {
        Self { fetcher, sources, address: address.into() }
    }

    /// Objects that are here, for coordinators to know.
    pub fn holds(&self, most: usize) -> Vec<Vec<u8>> {
        self.fetcher.store().latest(most).iter().map(|digest| digest.0.to_vec()).collect()
    }

    /// Processes of a realm for which files are kept. Somebody asks for them: they are not forgotten.
    pub fn keeps(&self, realm: &str) -> Vec<String> {
        let store = self.fetcher.store();
        let mut owners = store.owners();
        owners.retain(|owner| owner.strip_prefix(realm).is_some_and(|rest| rest.starts_with('/')));
        owners.iter().for_each(|owner| store.confirm(owner));
        owners.iter().map(|owner| owner[realm.len() + 1..].to_owned()).collect()
    }

    /// Coordinators get what is kept for their processes, by realm: this node goes away.
    pub async fn hand_over(&self, coordinators: &HashMap<Arc<str>, String>) {
        let store = self.fetcher.store();
        let mut silent: HashSet<&str> = HashSet::new();
        for owner in store.owners() {
            let address = owner.split_once('/').and_then(|(realm, _)| coordinators.get(realm));
            let other = address.filter(|address| ***address != *self.address && !silent.contains(&***address));
            let Some(address) = other else { continue };
            let digests = store.pinned(&owner);
            for some in digests.chunks(MOST_HANDED) {
                let digests = some.iter().map(|digest| digest.0.to_vec()).collect();
                let request = v1::KeepRequest { owner: owner.clone(), digests, holder: self.address.to_string() };
                let kept = async {
                    let channel = connect(address).await.map_err(|error| Status::unavailable(error.to_string()))?;
                    FilesClient::new(channel).keep(request).await
                };
                if let Err(status) = kept.await {
                    warn!(owner, %status, "files that only this node may have are not handed over");
                    silent.insert(address);
                    break;
                }
            }
        }
    }

    /// A process needs less than before.
    pub fn release(&self, realm: &str, release: &v1::Release) {
        let owner = owner(realm, &release.process);
        self.fetcher.store().release_except(&owner, &release.files, &release.directories);
    }

    /// Lays the files of the parameters into the working directory.
    pub async fn bring(&self, job: &Job, directory: &Path) -> Result<Staged, Failed> {
        let activity = &job.program.activities[job.activity];
        let mut pieces = Vec::new();
        // Places are computed from what the parameters are, not from where they are laid.
        let texts = texts(job, &job.parameters)?;
        let mut parameters = Vec::with_capacity(job.parameters.len());
        let all = tokio::select! {
            all = self.read_sources(&job.parameters) => all?,
            () = job.stop.asked() => return Err(stopped(job)),
        };
        for (slot, (given, variable)) in all.iter().zip(&activity.parameters).enumerate() {
            let declared = activity.files.inputs.iter().find(|input| input.slot as usize == slot);
            let place = match declared {
                Some(input) => StageTarget::At(text(&input.path, &texts).to_owned()),
                None => StageTarget::In(variable.name.to_string()),
            };
            parameters.push(plan_stage_in(given, place, &mut pieces));
        }
        if pieces.is_empty() {
            return Ok(Staged { parameters, texts, laid: StagedFiles::default() });
        }
        for piece in &pieces {
            check_path(&piece.path).map_err(|error| failure(v1::FailureKind::Parameter, error.to_string()))?;
        }
        let brought = tokio::select! {
            brought = self.fetch(job, &pieces) => brought?,
            () = job.stop.asked() => return Err(stopped(job)),
        };
        let (store, directory) = (self.fetcher.store().clone(), directory.to_owned());
        let laid = tokio::task::spawn_blocking(move || {
            let place = WorkingDirectory::open(&directory)?;
            let mut stage_in = StageIn::read_only(&store, &place);
            for (piece, (manifest, _holds)) in pieces.iter().zip(&brought) {
                match manifest {
                    None => stage_in.file(&piece.path, &piece.content.digest, piece.content.executable)?,
                    Some(manifest) => stage_in.directory(&piece.path, manifest)?,
                }
            }
            Ok(stage_in.finish())
        });
        let laid = laid.await.map_err(unexpected)?.map_err(|error| worker(&error))?;
        Ok(Staged { parameters, texts, laid })
    }

    /// The values with what is in data sources read into the store.
    async fn read_sources(&self, given: &[Value]) -> Result<Vec<Value>, Failed> {
        let mut wanted: Vec<Arc<FileRef>> = Vec::new();
        for value in given {
            value.each_file(&mut |file| {
                if file.content.is_none() && in_source(&file.uri).is_some() && !wanted.contains(file) {
                    wanted.push(file.clone());
                }
            });
        }
        let mut read = Vec::with_capacity(wanted.len());
        for file in wanted {
            let taken = self.sources.read(&file.uri, file.directory).await.map_err(|error| worker(&error))?;
            let content = self.content(&taken);
            read.push((file.clone(), Arc::new(FileRef { content: Some(content), ..(*file).clone() })));
        }
        Ok(given.iter().map(|value| replace(value, &read)).collect())
    }

    async fn fetch(&self, job: &Job, pieces: &[StageItem]) -> Result<Vec<(Option<Manifest>, Vec<Hold>)>, Failed> {
        let known = holdings(job);
        let wanted = |piece: &StageItem| wanted(piece, &known, &job.relays);
        let mut brought = Vec::with_capacity(pieces.len());
        // Files at once; directories one after the other, each with its files at once.
        let files = pieces.iter().filter(|piece| !piece.directory).map(wanted).collect();
        let mut files = self.fetcher.get_all(files).await.map_err(|error| lacking(pieces, &error))?.into_iter();
        for piece in pieces {
            if piece.directory {
                let got = self.fetcher.get_directory(&wanted(piece)).await;
                let (manifest, holds) = got.map_err(|error| lacking(pieces, &error))?;
                brought.push((Some(manifest), holds));
            } else {
                brought.push((None, files.next().into_iter().collect()));
            }
        }
        Ok(brought)
    }

    /// Takes what the program made. `results` are what it gave otherwise, in the order of the `OUT` parameters.
    pub async fn take(
        &self,
        job: &Job,
        directory: &Path,
        staged: &Staged,
        results: &mut [v1::Value],
    ) -> Result<(), Failed> {
        if let [changed, ..] = &staged.laid.changed()[..] {
            let message = format!("the program changed {changed:?}: files that it is given are to be read only");
            return Err(failure(v1::FailureKind::Parameter, message));
        }
        let activity = &job.program.activities[job.activity];
        let (mut orders, mut nested) = (Vec::new(), Vec::new());
        let outs = activity.parameters.iter().enumerate().filter(|(_, variable)| variable.direction.is_out());
        for (at, (slot, variable)) in outs.enumerate() {
            let output = activity.files.outputs.iter().find(|output| output.slot as usize == slot);
            let order = match (output, results.get(at)) {
                (Some(output), _) => Order::declared(output, &staged.texts)?,
                (None, Some(result)) => match Order::told(result, variable.ty, directory) {
                    Some(order) => order,
                    None => {
                        nested.extend(
                            inner_files(result).into_iter().map(|(path, ty)| (at, variable.name.clone(), path, ty)),
                        );
                        continue;
                    }
                },
                (None, None) => continue,
            };
            orders.push((at, variable.name.clone(), variable.optional, variable.ty.unwrap_or(Type::List), order));
        }
        self.take_nested(job, directory, nested, results).await?;
        if orders.is_empty() {
            return Ok(());
        }
        let (this, directory, owner) = (self.clone(), directory.to_owned(), owner(&job.key.realm, &job.key.process));
        let taken = tokio::task::spawn_blocking(move || {
            let place = WorkingDirectory::open(&directory).map_err(|error| worker(&error))?;
            let mut taken = Vec::new();
            for (at, name, optional, ty, order) in orders {
                let found = this.find(&place, &name, optional, ty, &order)?;
                this.keep(&owner, &found.objects)?;
                taken.push((at, found, order.to));
            }
            Ok::<_, Failed>(taken)
        });
        for (at, found, to) in taken.await.map_err(unexpected)?? {
            if let Some(to) = to {
                self.write_out(job, &found, &to).await?;
            }
            results[at] = value(&found.value);
        }
        Ok(())
    }

    /// Takes files that a program names within lists and maps.
    async fn take_nested(
        &self,
        job: &Job,
        directory: &Path,
        nested: Vec<(usize, Arc<str>, String, Type)>,
        results: &mut [v1::Value],
    ) -> Result<(), Failed> {
        if nested.is_empty() {
            return Ok(());
        }
        let (this, directory, owner) = (self.clone(), directory.to_owned(), owner(&job.key.realm, &job.key.process));
        let taken = tokio::task::spawn_blocking(move || {
            let place = WorkingDirectory::open(&directory).map_err(|error| worker(&error))?;
            let mut taken = Vec::with_capacity(nested.len());
            for (at, name, path, ty) in nested {
                let inside = Path::new(&path).strip_prefix(&directory).ok().and_then(Path::to_str);
                let order = Order { pattern: literal(inside.unwrap_or(&path)), to: None };
                let found = this.find(&place, &name, false, ty, &order)?;
                this.keep(&owner, &found.objects)?;
                taken.push((at, path, value(&found.value)));
            }
            Ok::<_, Failed>(taken)
        });
        for (at, path, found) in taken.await.map_err(unexpected)?? {
            put_inner(&mut results[at], &path, &found);
        }
        Ok(())
    }

    /// Writes what was taken to a data source, besides: a file to that place, others below it, with their paths.
    async fn write_out(&self, job: &Job, found: &Found, to: &str) -> Result<(), Failed> {
        for (path, digest) in &found.files {
            let uri = if path.is_empty() { to.to_owned() } else { format!("{to}/{path}") };
            tokio::select! {
                written = self.sources.write(&uri, digest) => written.map_err(|error| worker(&error))?,
                () = job.stop.asked() => return Err(stopped(job)),
            }
        }
        Ok(())
    }

    /// Objects stay until the process has ended.
    fn keep(&self, owner: &str, objects: &[Digest]) -> Result<(), Failed> {
        let store = self.fetcher.store();
        store.pin(owner, objects).map_err(|error| worker(&error))?;
        match objects.iter().find(|digest| !store.has(digest)) {
            Some(_) => Err(failure(v1::FailureKind::Worker, "the file store is too small for what the program made")),
            None => Ok(()),
        }
    }

    /// What an order is about.
    fn find(
        &self,
        place: &WorkingDirectory,
        name: &str,
        optional: bool,
        ty: Type,
        order: &Order,
    ) -> Result<Found, Failed> {
        let wrong = |message: String| failure(v1::FailureKind::Parameter, format!("output {name:?}: {message}"));
        let refused = |error: Error| match error {
            Error::Full { .. } | Error::Io { .. } => worker(&error),
            other => wrong(other.to_string()),
        };
        let pattern = &order.pattern;
        let mut paths = place.find(pattern).map_err(refused)?;
        let many = pattern.contains(['*', '?', '[']);
        if many {
            paths.retain(|path| !place.is_directory(path));
        }
        if paths.is_empty() {
            if optional {
                return Ok(Found::default());
            }
            let what = if many { "nothing matches" } else { "the program did not make" };
            return Err(wrong(format!("{what} {pattern:?}; in the working directory there is {}", place.listing())));
        }
        let store = self.fetcher.store();
        let directory = |name: &str, taken: Stored| {
            let manifest = store.manifest(&taken.digest).map_err(|error| worker(&error))?;
            let entries = manifest.entries().iter().filter_map(|entry| match entry.kind {
                EntryKind::File { digest, .. } => Some((entry.path.clone(), digest)),
                _ => None,
            });
            Ok(Found { value: self.reference(name, true, &taken), files: entries.collect(), objects: taken.objects })
        };
        match (ty, &paths[..]) {
            (Type::Directory, [path]) if !many => directory(path, place.stage_out(store, path, true).map_err(refused)?),
            (Type::Directory, paths) => directory(name, place.stage_out_together(store, paths).map_err(refused)?),
            (Type::List, paths) => {
                let (mut found, mut items) = (Found::default(), Vec::new());
                for path in paths {
                    let taken = place.stage_out(store, path, false).map_err(refused)?;
                    items.push(self.reference(path, false, &taken));
                    found.files.push((path.clone(), taken.digest));
                    found.objects.extend(taken.objects);
                }
                Ok(Found { value: items.into(), ..found })
            }
            (_, [path]) => {
                let taken = place.stage_out(store, path, false).map_err(refused)?;
                let files = vec![(String::new(), taken.digest)];
                Ok(Found { value: self.reference(path, false, &taken), files, objects: taken.objects })
            }
            (_, several) => {
                let shown: Vec<String> = several.iter().take(5).map(|path| format!("{path:?}")).collect();
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

    fn content(&self, taken: &Stored) -> Content {
        Content {
            digest: taken.digest,
            size: taken.size,
            executable: taken.executable,
            holders: vec![self.address.clone()],
        }
    }

    fn reference(&self, path: &str, directory: bool, taken: &Stored) -> Value {
        let content = Some(self.content(taken));
        Value::File(Arc::new(FileRef { uri: file_name(path).into(), directory, content }))
    }
}

/// What became a result.
#[derive(Default)]
struct Found {
    value: Value,
    /// Its files with their paths; a single one has none.
    files: Vec<(String, Digest)>,
    /// All that is to be kept for it.
    objects: Vec<Digest>,
}

/// What is to become a result.
struct Order {
    pattern: String,
    /// Where it is written to, besides.
    to: Option<String>,
}

/// The value with other references.
fn replace(given: &Value, others: &[(Arc<FileRef>, Arc<FileRef>)]) -> Value {
    match given {
        Value::File(file) => {
            let other = others.iter().find(|(before, _)| before == file);
            Value::File(other.map_or_else(|| file.clone(), |(_, after)| after.clone()))
        }
        Value::List(items) => Value::List(Arc::new(items.iter().map(|item| replace(item, others)).collect())),
        Value::Map(map) => {
            Value::Map(Arc::new(map.iter().map(|(key, item)| (key.clone(), replace(item, others))).collect()))
        }
        other => other.clone(),
    }
}

impl Order {
    /// As the definition declares it.
    fn declared(output: &OutputFile, texts: &[String]) -> Result<Self, Failed> {
        let pattern = text(&output.pattern, texts);
        check_pattern(pattern)
            .map_err(|why| failure(v1::FailureKind::Parameter, format!("PATTERN: {pattern:?} {why}")))?;
        let to = output.to.as_ref().map(|to| text(to, texts).to_owned());
        Ok(Self { pattern: pattern.to_owned(), to })
    }

    /// As the program tells it: the path of a file or directory, relative or in its working directory.
    fn told(result: &v1::Value, ty: Option<Type>, directory: &Path) -> Option<Self> {
        let path = match &result.kind {
            Some(v1::value::Kind::Text(path)) => path,
            Some(v1::value::Kind::File(file)) if file.content.is_none() => &file.uri,
            _ => return None,
        };
        if !matches!(ty, Some(Type::File | Type::Directory)) || in_source(path).is_some() {
            return None;
        }
        let inside = Path::new(path).strip_prefix(directory).ok().and_then(Path::to_str);
        // Its characters mean themselves.
        Some(Self { pattern: literal(inside.unwrap_or(path)), to: None })
    }
}

/// Files of the working directory that a list or map names, as the program wrote them.
fn inner_files(result: &v1::Value) -> Vec<(String, Type)> {
    use v1::value::Kind;
    let (mut found, mut open) = (Vec::new(), vec![result]);
    while let Some(value) = open.pop() {
        match &value.kind {
            Some(Kind::File(file)) if file.content.is_none() && in_source(&file.uri).is_none() => {
                found.push((file.uri.clone(), if file.directory { Type::Directory } else { Type::File }));
            }
            Some(Kind::List(list)) => open.extend(&list.items),
            Some(Kind::Map(map)) => open.extend(map.entries.values()),
            _ => {}
        }
    }
    found
}

/// Puts what was taken in the place of its name.
fn put_inner(result: &mut v1::Value, path: &str, taken: &v1::Value) {
    use v1::value::Kind;
    let mut open = vec![result];
    while let Some(value) = open.pop() {
        if matches!(&value.kind, Some(Kind::File(file)) if file.content.is_none() && file.uri == path) {
            *value = taken.clone();
            continue;
        }
        match &mut value.kind {
            Some(Kind::List(list)) => open.extend(&mut list.items),
            Some(Kind::Map(map)) => open.extend(map.entries.values_mut()),
            _ => {}
        }
    }
}

/// A pattern that matches this path alone.
fn literal(path: &str) -> String {
    match path.contains(['*', '?', '[']) {
        false => path.to_owned(),
        true => path
            .chars()
            .flat_map(|c| match c {
                '*' | '?' | '[' => vec!['[', c, ']'],
                other => vec![other],
            })
            .collect(),
    }
}

/// For whom something is kept.
fn owner(realm: &str, process: &str) -> String {
    format!("{realm}/{process}")
}

/// Who has what, as the coordinator told.
fn holdings(job: &Job) -> HashMap<Digest, Vec<Arc<str>>> {
    let told = job.holdings.iter().filter_map(|holding| {
        let addresses = holding.addresses.iter().map(|address| Arc::from(address.as_str())).collect();
        Some((digest_from(&holding.digest).ok()?, addresses))
    });
    told.collect()
}

fn wanted(piece: &StageItem, known: &HashMap<Digest, Vec<Arc<str>>>, relays: &[Arc<str>]) -> Wanted {
    let digest = piece.content.digest;
    let mut holders = known.get(&digest).cloned().unwrap_or_default();
    holders
        .extend(piece.content.holders.iter().filter(|holder| !holders.contains(holder)).cloned().collect::<Vec<_>>());
    Wanted { digest, holders, relays: relays.to_vec() }
}

/// A file cannot be had. One of a directory is missed as the directory.
fn lacking(pieces: &[StageItem], error: &Error) -> Failed {
    let Error::Gone { digest, failure } = error else { return worker(error) };
    let own = pieces.iter().find(|piece| piece.content.digest == *digest);
    let gone = own.or_else(|| pieces.iter().find(|piece| piece.directory));
    let name = gone.map_or("a file", |piece| file_name(&piece.path));
    let message = format!("{name:?} is gone: {failure}");
    let gone = gone.map(|piece| piece.content.digest.0.to_vec()).into_iter().collect();
    Box::new(v1::Failure { kind: v1::FailureKind::Worker.into(), message, gone, ..v1::Failure::default() })
}

fn text<'a>(text: &'a FileText, computed: &'a [String]) -> &'a str {
    match text {
        FileText::Plain(text) => text,
        FileText::Computed(number) => computed.get(*number).map_or("", String::as_str),
    }
}

/// The computed texts of an activity's files.
fn texts(job: &Job, parameters: &[Value]) -> Result<Vec<String>, Failed> {
    match &job.activity().files.code {
        Some(code) => evaluate(job, parameters, code),
        None => Ok(Vec::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_programs_tell_mean_themselves() {
        let pattern = |path: &str| {
            let told = value(&Value::from(path));
            Order::told(&told, Some(Type::File), Path::new("/scratch/1")).map(|order| order.pattern)
        };
        assert_eq!(pattern("out/a").as_deref(), Some("out/a"));
        assert_eq!(pattern("/scratch/1/out/a").as_deref(), Some("out/a"));
        assert_eq!(pattern("a*b").as_deref(), Some("a[*]b"));
        assert_eq!(pattern("/etc/passwd").as_deref(), Some("/etc/passwd"));
        assert_eq!(pattern("source://a/b"), None);
        assert!(Order::told(&value(&Value::Int(1)), Some(Type::File), Path::new("/")).is_none());
        assert!(Order::told(&value(&Value::from("x")), Some(Type::String), Path::new("/")).is_none());
    }
}

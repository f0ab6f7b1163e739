//! Files of users: brought to the grid with the parameters of a process, and fetched from it with its results.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;

use xavantes_files::{
    Error, Fetcher, LocalContent, Sender, StageIn, StageItem, StageTarget, Store, Wanted, WorkingDirectory,
    plan_stage_in,
};
use xavantes_model::value::FileRef;
use xavantes_proto::{connect_bulk, v1, value, value_from};

use crate::Exit;
use crate::grid::refused;
use crate::report::{clear_foot, complain, set_foot};

/// How often progress is shown.
const DRAW_EVERY: Duration = Duration::from_millis(100);
/// Where what is fetched is kept until all of it is there, so that a download that broke off goes on.
const UNDER_WAY: &str = ".xavantes-download";

/// The local path that a parameter names: `@path`.
pub(crate) fn local(uri: &str) -> Option<&Path> {
    uri.strip_prefix('@').map(Path::new)
}

/// A path that is not absolute, and is there on this machine: what is meant is probably that.
pub(crate) fn is_forgotten(file: &FileRef) -> bool {
    let path = Path::new(&*file.uri);
    file.content.is_none() && local(&file.uri).is_none() && path.is_relative() && path.exists()
}

/// Whether there is a file, or directory, at a local path; if not: why it cannot be used.
pub(crate) fn check_local(path: &Path, directory: bool) -> Result<(), String> {
    let shown = path.display();
    let about = std::fs::metadata(path).map_err(|error| format!("cannot read {shown}: {error}"))?;
    match (about.is_dir(), directory) {
        (true, false) => Err(format!("{shown} is a directory, not a file")),
        (false, true) => Err(format!("{shown} is a file, not a directory")),
        _ => Ok(()),
    }
}

/// Brings the local files that parameters name to the node, and puts references in their place.
pub(crate) async fn upload(request: &mut v1::SubmitRequest, address: &str, quiet: bool) -> Result<(), Exit> {
    let mut found = Vec::new();
    for parameter in &mut request.parameters {
        found.extend(parameter.value.as_mut().into_iter().flat_map(local_references));
    }
    if found.is_empty() {
        return Ok(());
    }
    let channel = connect_bulk(address).await.map_err(|_| {
        complain(&format!("there is no node at {address} to bring files to"));
        Exit::Unreachable
    })?;
    let mut sender = Sender::new(channel);
    for reference in found {
        let Some(path) = local(&reference.uri).map(PathBuf::from) else { continue };
        let (directory, shown) = (reference.directory, path.display().to_string());
        let looked = tokio::task::spawn_blocking(move || LocalContent::scan(&path, directory)).await;
        let looked = looked.map_err(|_| Exit::Failed)?.map_err(|error| complain(&error.to_string()))?;
        let (sent, size) = (sender.sent(), looked.size());
        sent.store(0, Ordering::Relaxed);
        let progress = || line("bringing", &shown, sent.load(Ordering::Relaxed), size);
        let brought = watched(sender.send(&looked), progress, quiet).await.map_err(|status| refused(&status))?;
        *reference = (&brought).into();
    }
    Ok(())
}

/// References to files of the user in a value.
fn local_references(value: &mut v1::Value) -> Vec<&mut v1::FileReference> {
    use v1::value::Kind;
    let (mut found, mut open) = (Vec::new(), vec![value]);
    while let Some(value) = open.pop() {
        match &mut value.kind {
            Some(Kind::File(file)) if file.content.is_none() && local(&file.uri).is_some() => found.push(file),
            Some(Kind::List(list)) => open.extend(&mut list.items),
            Some(Kind::Map(map)) => open.extend(map.entries.values_mut()),
            _ => {}
        }
    }
    found
}

/// Fetches the files of results into a folder, and puts their paths in the place of the references. What cannot be reached
/// from here is fetched through relays.
pub(crate) async fn download(
    results: &mut [v1::Parameter],
    folder: &Path,
    relays: &[&str],
    quiet: bool,
) -> Result<(), Exit> {
    let mut pieces = Vec::new();
    for parameter in results.iter_mut() {
        let Ok(given) = value_from(parameter.value.clone().unwrap_or_default()) else { continue };
        let before = pieces.len();
        plan_stage_in(&given, StageTarget::In(parameter.name.clone()), &mut pieces);
        if pieces.len() > before {
            let from_here = folder.join(&parameter.name).display().to_string();
            parameter.value = Some(value(&plan_stage_in(&given, StageTarget::In(from_here), &mut Vec::new())));
        }
    }
    if pieces.is_empty() {
        return Ok(());
    }
    let failed = |error: Error| {
        complain(&error.to_string());
        Exit::Failed
    };
    let under_way = folder.join(UNDER_WAY);
    let opened = std::fs::create_dir_all(folder).and_then(|()| Store::open(&under_way, u64::MAX / 2));
    let store = opened.map_err(|error| complain(&format!("cannot write to {}: {error}", folder.display())))?;
    let fetcher = Fetcher::new(store.clone(), "");
    let size: u64 = pieces.iter().map(|piece| piece.content.size).sum();
    let progress = || line("fetching", &format!("{} results", pieces.len()), store.transfer_counts().bytes_in, size);
    let manifests = watched(fetch(&fetcher, &pieces, relays), progress, quiet).await.map_err(failed)?;
    let place = WorkingDirectory::open(folder).map_err(failed)?;
    let (laid, kept) = (pieces.into_iter().zip(manifests), store.clone());
    let laying = tokio::task::spawn_blocking(move || {
        let mut stage_in = StageIn::writable(&kept, &place);
        for (piece, manifest) in laid {
            match manifest {
                None => stage_in.file(&piece.path, &piece.content.digest, piece.content.executable)?,
                Some(manifest) => stage_in.directory(&piece.path, &manifest)?,
            }
        }
        Ok(())
    });
    laying.await.map_err(|_| Exit::Failed)?.map_err(failed)?;
    // What is left of it does no harm.
    let _ = std::fs::remove_dir_all(under_way);
    Ok(())
}

async fn fetch(
    fetcher: &Fetcher,
    pieces: &[StageItem],
    relays: &[&str],
) -> Result<Vec<Option<xavantes_files::Manifest>>, Error> {
    let wanted = |piece: &StageItem| Wanted {
        digest: piece.content.digest,
        holders: piece.content.holders.clone(),
        relays: relays.iter().map(|relay| (*relay).into()).collect(),
    };
    fetcher.get_all(pieces.iter().filter(|piece| !piece.directory).map(wanted).collect()).await?;
    let mut manifests = Vec::with_capacity(pieces.len());
    for piece in pieces {
        manifests.push(match piece.directory {
            true => Some(fetcher.get_directory(&wanted(piece)).await?.0),
            false => None,
        });
    }
    Ok(manifests)
}

fn line(what: &str, name: &str, done: u64, all: u64) -> String {
    let mega = |bytes: u64| bytes as f64 / 1e6;
    let part = (100 * done.min(all)).checked_div(all).unwrap_or(100);
    format!("{what} {name}: {:.1} of {:.1} MB ({part}%)", mega(done.min(all)), mega(all))
}

/// Waits, and shows on a terminal how far it is.
async fn watched<T>(work: impl Future<Output = T>, progress: impl Fn() -> String, quiet: bool) -> T {
    let shown = !quiet && std::io::stderr().is_terminal();
    let mut draws = tokio::time::interval(DRAW_EVERY);
    tokio::pin!(work);
    loop {
        tokio::select! {
            done = &mut work => {
                clear_foot();
                return done;
            }
            _ = draws.tick(), if shown => set_foot(&progress()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use xavantes_model::value::Value;

    use super::*;

    #[test]
    fn local_files_are_found_wherever_they_are_named() {
        let file = |uri: &str| Value::File(Arc::new(FileRef::outside(uri, false)));
        let mut given = value(&Value::from(vec![file("@a"), file("source://x/y"), Value::from("@b"), file("@c")]));
        let mut names: Vec<String> = local_references(&mut given).into_iter().map(|it| it.uri.clone()).collect();
        names.sort();
        assert_eq!(names, ["@a", "@c"]);
    }

    #[test]
    fn a_forgotten_sign_is_noticed() {
        let forgotten = |uri: &str| is_forgotten(&FileRef::outside(uri, false));
        assert!(forgotten("Cargo.toml"), "tests run in the folder of their package");
        assert!(["@Cargo.toml", "/etc/passwd", "source://a/b", "nothing"].iter().all(|uri| !forgotten(uri)));
    }

    #[test]
    fn progress_is_told_in_words() {
        assert_eq!(line("bringing", "x", 500_000, 2_000_000), "bringing x: 0.5 of 2.0 MB (25%)");
        assert_eq!(line("bringing", "x", 5, 0), "bringing x: 0.0 of 0.0 MB (100%)");
    }
}

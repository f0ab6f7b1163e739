//! Files of users: uploaded with the parameters of a process, and downloaded with its results.

use std::io::IsTerminal;
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;

use xavantes_files::{
    Error, Fetcher, FileStore, LocalContent, ObjectRequest, Sender, StageIn, StageItem, StageTarget, WorkingDirectory,
    plan_stage_in,
};
use xavantes_model::value::FileRef;
use xavantes_proto::{connect_bulk, v1, value, value_from};

use crate::exit::Exit;
use crate::grid_connection::refused;
use crate::output::terminal::{self, clear_footer, set_footer};

const DRAW_INTERVAL: Duration = Duration::from_millis(100);
/// Directory for unfinished downloads, so that one that broke off continues.
const PARTIAL_DIR: &str = ".xavantes-download";

/// A directory for the files among results, and the coordinator that helps to fetch them.
#[derive(Clone, Copy)]
pub(crate) struct DownloadDir<'a> {
    pub path: &'a Path,
    pub coordinator: &'a str,
    pub quiet: bool,
}

impl<'a> DownloadDir<'a> {
    pub(crate) fn new(path: Option<&'a Path>, coordinator: &'a str, quiet: bool) -> Option<Self> {
        path.map(|path| Self { path, coordinator, quiet })
    }

    /// The directory for the files of one element.
    pub(crate) fn of_element(&self, path: &str) -> Result<PathBuf, Exit> {
        let below = Path::new(path);
        let is_plain = below.components().all(|part| matches!(part, Component::Normal(_)));
        match is_plain && !path.is_empty() {
            true => Ok(self.path.join(below)),
            false => Err(terminal::error(&format!("{path:?} is no path of an element"))),
        }
    }
}

/// The local path that a parameter names: `@path`.
pub(crate) fn local(uri: &str) -> Option<&Path> {
    uri.strip_prefix('@').map(Path::new)
}

/// Whether a reference without `@` is a relative path that exists here: the user probably forgot the `@`.
pub(crate) fn looks_local(file: &FileRef) -> bool {
    let path = Path::new(&*file.uri);
    file.content.is_none() && local(&file.uri).is_none() && path.is_relative() && path.exists()
}

/// Checks that there is a file, or a directory, at a local path.
pub(crate) fn check_local(path: &Path, directory: bool) -> Result<(), String> {
    let shown = path.display();
    let about = std::fs::metadata(path).map_err(|error| format!("cannot read {shown}: {error}"))?;
    match (about.is_dir(), directory) {
        (true, false) => Err(format!("{shown} is a directory, not a file")),
        (false, true) => Err(format!("{shown} is a file, not a directory")),
        _ => Ok(()),
    }
}

/// Uploads the local files that parameters name, and replaces them by references.
pub(crate) async fn upload(request: &mut v1::SubmitRequest, address: &str, quiet: bool) -> Result<(), Exit> {
    let mut found = Vec::new();
    for parameter in &mut request.parameters {
        found.extend(parameter.value.as_mut().into_iter().flat_map(local_references));
    }
    if found.is_empty() {
        return Ok(());
    }
    let channel = connect_bulk(address).await.map_err(|_| {
        terminal::error(&format!("cannot upload files: no node answers at {address}"));
        Exit::Unreachable
    })?;
    let mut sender = Sender::new(channel);
    for reference in found {
        let Some(path) = local(&reference.uri).map(PathBuf::from) else { continue };
        let (directory, shown) = (reference.directory, path.display().to_string());
        let content = tokio::task::spawn_blocking(move || LocalContent::scan(&path, directory)).await;
        let content = content.map_err(|_| Exit::Failed)?.map_err(|error| terminal::error(&error.to_string()))?;
        let (sent, size) = (sender.sent(), content.size());
        sent.store(0, Ordering::Relaxed);
        let progress = || progress_line("uploading", &shown, sent.load(Ordering::Relaxed), size);
        let uploaded =
            with_progress(sender.send(&content), progress, quiet).await.map_err(|status| refused(&status))?;
        *reference = (&uploaded).into();
    }
    Ok(())
}

/// References to local files in a value.
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

/// Downloads the files among results into a directory, and replaces the references by paths. Files of nodes that cannot
/// be reached from here come through relays.
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
        terminal::error(&format!("cannot download the results to {}: {error}", folder.display()));
        Exit::Failed
    };
    let partial = folder.join(PARTIAL_DIR);
    let opened = std::fs::create_dir_all(folder).and_then(|()| FileStore::open(&partial, u64::MAX / 2));
    let store = opened.map_err(|error| terminal::error(&format!("cannot write to {}: {error}", folder.display())))?;
    let fetcher = Fetcher::new(store.clone(), "");
    let size: u64 = pieces.iter().map(|piece| piece.content.size).sum();
    let progress =
        || progress_line("downloading", &format!("{} results", pieces.len()), store.transfer_counts().bytes_in, size);
    let manifests = with_progress(fetch(&fetcher, &pieces, relays), progress, quiet).await.map_err(failed)?;
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
    // The remains of a download do no harm.
    let _ = std::fs::remove_dir_all(partial);
    Ok(())
}

async fn fetch(
    fetcher: &Fetcher,
    pieces: &[StageItem],
    relays: &[&str],
) -> Result<Vec<Option<xavantes_files::Manifest>>, Error> {
    let wanted = |piece: &StageItem| ObjectRequest {
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

fn progress_line(what: &str, name: &str, done: u64, all: u64) -> String {
    let mega = |bytes: u64| bytes as f64 / 1e6;
    let part = (100 * done.min(all)).checked_div(all).unwrap_or(100);
    format!("{what} {name}: {:.1} of {:.1} MB ({part}%)", mega(done.min(all)), mega(all))
}

/// Waits for some work, and shows its progress if standard error is a terminal.
async fn with_progress<T>(work: impl Future<Output = T>, progress: impl Fn() -> String, quiet: bool) -> T {
    let shown = !quiet && std::io::stderr().is_terminal();
    let mut draws = tokio::time::interval(DRAW_INTERVAL);
    tokio::pin!(work);
    loop {
        tokio::select! {
            done = &mut work => {
                clear_footer();
                return done;
            }
            _ = draws.tick(), if shown => set_footer(&progress()),
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
    fn a_forgotten_at_sign_is_noticed() {
        let forgotten = |uri: &str| looks_local(&FileRef::outside(uri, false));
        assert!(forgotten("Cargo.toml"), "tests run in the folder of their package");
        assert!(["@Cargo.toml", "/etc/passwd", "source://a/b", "nothing"].iter().all(|uri| !forgotten(uri)));
    }

    #[test]
    fn files_stay_in_their_directory() {
        let download = DownloadDir { path: Path::new("/to"), coordinator: "a:1", quiet: true };
        assert_eq!(download.of_element("P-1/all/[3]/a"), Ok("/to/P-1/all/[3]/a".into()));
        for wrong in ["", "/etc", "P/../../etc", ".."] {
            assert_eq!(download.of_element(wrong), Err(Exit::Usage), "{wrong}");
        }
    }

    #[test]
    fn progress_is_one_line() {
        assert_eq!(progress_line("uploading", "x", 500_000, 2_000_000), "uploading x: 0.5 of 2.0 MB (25%)");
        assert_eq!(progress_line("uploading", "x", 5, 0), "uploading x: 0.0 of 0.0 MB (100%)");
    }
}

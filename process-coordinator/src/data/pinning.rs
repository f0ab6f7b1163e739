//! Files that must outlive the attempts that made them: nodes pin them for a process, and files that no node of this group
//! has are copied here.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tracing::warn;
use xavantes_files::{Fetcher, ObjectRequest};
use xavantes_model::digest::Digest;
use xavantes_model::value::Value;
use xavantes_proto::v1::files_client::FilesClient;
use xavantes_proto::{call_with_timeout, connect, v1};

use crate::engine_messages::{add_holders, references, stored_digests};
use crate::workers::handle::PoolHandle;

/// A node that does not answer within this time counts as one without the files.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// Addresses of the nodes that hold each object.
pub(crate) type Holders = HashMap<Digest, Vec<String>>;

/// The owner under which nodes pin files for a process.
pub(crate) fn pin_owner(realm: &str, process: &str) -> String {
    format!("{realm}/{process}")
}

/// Pins files for the processes of this coordinator.
pub(crate) struct Pinning {
    pub pool: PoolHandle,
    /// File store of this node.
    pub files: Option<Fetcher>,
    /// Address of this node.
    pub address: String,
    /// Realm of the processes.
    pub realm: String,
}

/// The nodes that pinned files, and the files that no node has.
#[derive(Default)]
pub(crate) struct PinOutcome {
    pub holders: Holders,
    pub missing: Vec<v1::FileReference>,
}

/// Objects to pin.
#[derive(Default)]
struct PinRequest {
    files: Vec<Digest>,
    directories: Vec<Digest>,
    references: HashMap<Digest, v1::FileReference>,
    /// Addresses that the references name.
    named: BTreeSet<String>,
}

impl PinRequest {
    fn new(values: &[v1::Value]) -> Self {
        let mut request = Self::default();
        for reference in values.iter().flat_map(references) {
            let Some(content) = &reference.content else { continue };
            let Some(digest) = Digest::from_bytes(&content.digest) else { continue };
            if request.references.insert(digest, reference.clone()).is_none() {
                if reference.directory { &mut request.directories } else { &mut request.files }.push(digest);
            }
            request.named.extend(content.holders.iter().cloned());
        }
        request
    }
}

impl Pinning {
    /// Pins the files in values for a process, on this node, on its workers, and with `ask_named` on the nodes that the
    /// references name.
    pub async fn pin(&self, process: &str, values: &[v1::Value], ask_named: bool) -> PinOutcome {
        self.ask(Some(pin_owner(&self.realm, process)), values, ask_named).await
    }

    /// The files in values that no node has. Pins nothing.
    pub async fn missing(&self, values: &[v1::Value]) -> Vec<v1::FileReference> {
        self.ask(None, values, true).await.missing
    }

    /// Asks nodes for the files in values, and has them pin the files if there is an owner.
    async fn ask(&self, owner: Option<String>, values: &[v1::Value], ask_named: bool) -> PinOutcome {
        let PinRequest { files, directories, references: mut missing, named } = PinRequest::new(values);
        if missing.is_empty() {
            return PinOutcome::default();
        }
        let all: Vec<Digest> = files.iter().chain(&directories).copied().collect();
        let mut nodes: BTreeSet<String> = if ask_named { named } else { BTreeSet::new() };
        nodes.extend(self.pool.holders(all.clone()).await.into_iter().flatten());
        nodes.remove(&self.address);
        let bytes = |digests: &[Digest]| digests.iter().map(|digest| digest.0.to_vec()).collect::<Vec<_>>();
        let request = v1::HasRequest {
            digests: bytes(&files),
            directories: bytes(&directories),
            owner: owner.clone().unwrap_or_default(),
        };
        let mut asked = JoinSet::new();
        if let Some(store) = self.files.as_ref().map(|files| files.store().clone()) {
            let address = self.address.clone();
            let search = move || Some((address, store.has_all(&files, &directories, owner.as_deref()).ok()?));
            asked.spawn_blocking(search);
        }
        for address in nodes {
            let request = request.clone();
            asked.spawn(async move {
                let has = tokio::time::timeout(ANSWER_TIMEOUT, async {
                    let channel = connect(&address).await.ok()?;
                    call_with_timeout(FilesClient::new(channel).has(request)).await.ok()
                });
                let has = has.await.ok()??.has;
                Some((address, has))
            });
        }
        let mut holders = Holders::new();
        while let Some(answer) = asked.join_next().await {
            let Ok(Some((address, has))) = answer else { continue };
            for (digest, _) in all.iter().zip(has).filter(|(_, has)| *has) {
                holders.entry(*digest).or_default().push(address.clone());
            }
        }
        missing.retain(|digest, _| !holders.contains_key(digest));
        PinOutcome { holders, missing: missing.into_values().collect() }
    }

    /// Pins the results of an ended process in this group: fetches those that other groups made.
    pub async fn copy_home(&self, process: &str, results: &[v1::Value]) {
        let PinOutcome { missing, .. } = self.pin(process, results, false).await;
        let Some(fetcher) = self.files.as_ref().filter(|_| !missing.is_empty()) else { return };
        let relays: Vec<Arc<str>> = self.pool.relays().await.into_iter().map(Arc::from).collect();
        for reference in missing {
            let content = reference.content.unwrap_or_default();
            let Some(digest) = Digest::from_bytes(&content.digest) else { continue };
            let holders = content.holders.into_iter().map(Arc::from).collect();
            let wanted = ObjectRequest { digest, holders, relays: relays.clone() };
            let fetched = match reference.directory {
                true => fetcher.get_directory(&wanted).await.map(|(_, holds)| holds),
                false => fetcher.get(&wanted).await.map(|hold| vec![hold]),
            };
            let pinned = fetched.and_then(|holds| {
                let objects: Vec<Digest> = holds.iter().map(|hold| hold.digest()).collect();
                fetcher.store().pin(&pin_owner(&self.realm, process), &objects)
            });
            if let Err(error) = pinned {
                warn!(process, file = reference.uri, %error, "could not copy result home; it may be evicted remotely");
            }
        }
    }

    /// Pins the files of this node that are parameters of a process, until the process has ended.
    pub fn pin_parameters(&self, process: &str, parameters: &[(String, Value)]) {
        let Some(store) = self.files.as_ref().map(|files| files.store()) else { return };
        let mut needed: Vec<Digest> = Vec::new();
        for (_, value) in parameters {
            value.each_file(&mut |file| {
                let Some(content) = file.content.as_ref().filter(|content| store.has(&content.digest)) else { return };
                needed.push(content.digest);
                if file.directory
                    && let Ok(manifest) = store.manifest(&content.digest)
                {
                    needed.extend(manifest.files().map(|(digest, _)| digest));
                }
            });
        }
        if let Err(error) = store.pin(&pin_owner(&self.realm, process), &needed) {
            warn!(process, %error, "could not pin parameters; their files may be evicted before they are used");
        }
    }

    /// Adds the current holders to the file references in results.
    pub async fn name_holders(&self, results: &mut [v1::Parameter]) {
        let wanted: Vec<Digest> = results.iter().filter_map(|it| it.value.as_ref()).flat_map(stored_digests).collect();
        if wanted.is_empty() {
            return;
        }
        let holders: Holders = wanted.iter().copied().zip(self.pool.holders(wanted.clone()).await).collect();
        results.iter_mut().filter_map(|it| it.value.as_mut()).for_each(|value| add_holders(value, &holders));
    }
}

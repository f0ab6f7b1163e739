//! Files that are needed for longer than those who made them run: whoever has them keeps them for a process, and what nobody
//! of this group has is fetched.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tracing::warn;
use xavantes_files::{Fetcher, Wanted};
use xavantes_model::digest::Digest;
use xavantes_proto::v1::files_client::FilesClient;
use xavantes_proto::{call_with_timeout, connect, v1};

use crate::convert::references;
use crate::workers::connection::owner;
use crate::workers::dispatcher::{PoolMail, PoolSender};

/// A node that does not tell within so long whether it has files does not count.
const PATIENCE: Duration = Duration::from_secs(5);

/// Who has which object.
pub(crate) type Holders = HashMap<Digest, Vec<String>>;

/// Has files kept for processes.
pub(crate) struct Keeping {
    pub pool: PoolSender,
    /// Files of this node, and where it is reached.
    pub files: Option<Fetcher>,
    pub address: String,
    /// For processes of this realm.
    pub realm: String,
}

impl Keeping {
    /// The files among values are kept for a process, by this node, by its workers, and with `named` by those that the
    /// references name. Gives who has what, and what none of them has.
    pub async fn keep(&self, process: &str, values: &[v1::Value], named: bool) -> (Holders, Vec<v1::FileReference>) {
        let (mut files, mut directories) = (Vec::new(), Vec::new());
        let (mut wanted, mut nodes) = (HashMap::new(), BTreeSet::new());
        for reference in values.iter().flat_map(references) {
            let Some(content) = &reference.content else { continue };
            let Some(digest) = Digest::from_bytes(&content.digest) else { continue };
            if wanted.insert(digest, reference.clone()).is_none() {
                if reference.directory { &mut directories } else { &mut files }.push(digest);
            }
            nodes.extend(content.holders.iter().filter(|_| named).cloned());
        }
        if wanted.is_empty() {
            return Default::default();
        }
        let all: Vec<Digest> = files.iter().chain(&directories).copied().collect();
        let (answer, answered) = oneshot::channel();
        let _ = self.pool.send(PoolMail::Holders(all.clone(), answer));
        nodes.extend(answered.await.unwrap_or_default().into_iter().flatten());
        nodes.remove(&self.address);
        let owner = owner(&self.realm, process);
        let bytes = |digests: &[Digest]| digests.iter().map(|digest| digest.0.to_vec()).collect::<Vec<_>>();
        let request = v1::HasRequest { digests: bytes(&files), directories: bytes(&directories), owner: owner.clone() };
        let mut asked = JoinSet::new();
        if let Some(store) = self.files.as_ref().map(|files| files.store().clone()) {
            let address = self.address.clone();
            let look = move || Some((address, store.has_all(&files, &directories, Some(&owner)).ok()?));
            asked.spawn_blocking(look);
        }
        for address in nodes {
            let request = request.clone();
            asked.spawn(async move {
                let has = tokio::time::timeout(PATIENCE, async {
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
        wanted.retain(|digest, _| !holders.contains_key(digest));
        (holders, wanted.into_values().collect())
    }

    /// The results of a process that has ended are kept in this group: those that were made elsewhere are fetched.
    pub async fn bring_home(&self, process: &str, results: &[v1::Value]) {
        let (_, missing) = self.keep(process, results, false).await;
        let Some(fetcher) = self.files.as_ref().filter(|_| !missing.is_empty()) else { return };
        let (answer, answered) = oneshot::channel();
        let _ = self.pool.send(PoolMail::Relays(answer));
        let relays: Vec<Arc<str>> = answered.await.unwrap_or_default().into_iter().map(Arc::from).collect();
        for reference in missing {
            let content = reference.content.unwrap_or_default();
            let Some(digest) = Digest::from_bytes(&content.digest) else { continue };
            let holders = content.holders.into_iter().map(Arc::from).collect();
            let wanted = Wanted { digest, holders, relays: relays.clone() };
            let got = match reference.directory {
                true => fetcher.get_directory(&wanted).await.map(|(_, holds)| holds),
                false => fetcher.get(&wanted).await.map(|hold| vec![hold]),
            };
            let kept = got.and_then(|holds| {
                let objects: Vec<Digest> = holds.iter().map(|hold| hold.digest()).collect();
                fetcher.store().pin(&owner(&self.realm, process), &objects)
            });
            if let Err(error) = kept {
                warn!(process, file = reference.uri, %error, "a result stays in another group, and may go there");
            }
        }
    }
}

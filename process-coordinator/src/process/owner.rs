//! Where the coordinators that share a repository are: each stores its address there.

use xavantes_repository::Error;

use crate::coordinator::Coordinator;

/// Upper bound on the coordinators that pass one request on, to the owner of a process or of a subtree. A process that moves
/// meanwhile may lead in a circle.
pub(crate) const MAX_FORWARDS: u32 = 16;
/// Kind of the repository's documents that are addresses of coordinators, by node.
const KIND: &str = "coordinator";

impl Coordinator {
    /// Stores the address of this coordinator, if others use the same repository.
    pub(crate) async fn announce_address(&self) -> Result<(), Error> {
        if !self.options.shared {
            return Ok(());
        }
        self.repository.put(KIND, &self.options.node, self.options.address.clone().into()).await
    }

    /// The address that a coordinator of the same repository last had.
    pub(crate) async fn address_of(&self, node: &str) -> Result<Option<String>, Error> {
        let address = self.repository.get(KIND, node).await?;
        Ok(address.map(|address| String::from_utf8_lossy(&address).into_owned()))
    }
}

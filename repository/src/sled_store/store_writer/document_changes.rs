//! How documents are stored and removed.

use super::super::frame::TreeId;
use super::super::record::{Payload, decode, document_key, encode};
use super::super::witness::WitnessNote;
use super::{Garbage, Writer};
use crate::committer_handle::EndDocument;
use crate::error::Error;

impl Writer {
    /// Writes a document whose content is stored.
    pub(super) fn put_document(&mut self, key: Vec<u8>, content: &Payload) -> Result<(), Error> {
        let sequence = self.next_sequence();
        let value = encode(TreeId::Documents, &key, sequence, content);
        let old = self.insert(TreeId::Documents, &key, value)?;
        self.on_document_replaced(&key, old);
        self.witness.note(&WitnessNote::Document { key: &key, sequence });
        self.documents.insert(key, sequence);
        Ok(())
    }

    pub(super) fn remove_document(&mut self, key: &[u8]) -> Result<(), Error> {
        let old = self.remove(TreeId::Documents, key)?;
        self.on_document_replaced(key, old);
        self.next_sequence();
        self.witness.note(&WitnessNote::Removed { key });
        self.documents.remove(key);
        Ok(())
    }

    /// Stores the content of the document that changes with the end of a process. Gives the key of the document, and its
    /// content, if it has one.
    pub(super) fn store_end_document(
        &mut self,
        id: &str,
        document: EndDocument,
    ) -> Result<(Vec<u8>, Option<Payload>), Error> {
        let content = document.content.map(|content| self.store(content)).transpose()?;
        Ok((document_key(&document.kind, id), content))
    }

    /// Marks the blob of a replaced or removed document as garbage.
    fn on_document_replaced(&mut self, key: &[u8], old: Option<sled::IVec>) {
        let payload = old.and_then(|old| decode::<Payload>(TreeId::Documents, key, &old).ok());
        self.garbage.extend(payload.and_then(|payload| payload.record.digest()).map(Garbage::Blob));
    }
}

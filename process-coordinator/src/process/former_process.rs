//! Former processes: what a rerun takes over of them, when it is submitted and after its coordinator restarted.

use std::sync::Arc;

use tracing::warn;
use xavantes_repository::{Entry, Error};

use crate::coordinator::Coordinator;
use crate::definitions::LoadedProgram;
use crate::memo::former_activities::{FormerActivities, FormerProcess};
use crate::memo::memo_log::{MemoDocument, MemoLog};
use crate::memo::memo_store;
use crate::process::driver::Driver;
use crate::process::journal::Head;
use crate::record_codec;

impl Coordinator {
    /// What a process completed; nothing if it or its definition cannot be read.
    pub(crate) async fn former_activities(&self, entry: &Entry) -> Result<Option<FormerActivities>, Error> {
        let document = memo_store::read_document(&self.repository, &entry.process).await?;
        self.read_former(entry, &document).await
    }

    async fn read_former(&self, entry: &Entry, document: &MemoDocument) -> Result<Option<FormerActivities>, Error> {
        let Ok(head) = record_codec::decode::<Head>("head", &entry.head) else { return Ok(None) };
        let Some(LoadedProgram { program, .. }) = self.programs.fetch(&head.program).await? else { return Ok(None) };
        let chunks = memo_store::read_chunks(&self.repository, &entry.process, document).await?;
        let process = FormerProcess {
            id: entry.process.as_str().into(),
            program,
            submitted_ms: head.submitted_ms,
            left_out: document.left_out,
        };
        let read = tokio::task::spawn_blocking(move || FormerActivities::read(process, chunks));
        Ok(read.await.ok())
    }

    /// Lets a recovered process go on with its memo, and with what is left of the former process if it is a rerun.
    pub(super) async fn restore_memo<C, A>(&self, id: &Arc<str>, driver: &mut Driver<C, A>) -> Result<(), Error> {
        let document = memo_store::read_document(&self.repository, id).await?;
        if let Some(former) = &document.rerun_of {
            let own = self.repository.find(id).await?;
            let activities = match self.repository.find(former).await {
                Ok(Some(former)) => self.former_activities(&former).await?,
                Err(error @ Error::Unavailable(_)) => return Err(error),
                _ => None,
            };
            let own = match own {
                Some(own) => self.read_former(&own, &document).await?,
                None => None,
            };
            match activities {
                Some(mut former) => {
                    let taken = own.map(|own| own.taken_from()).unwrap_or_default();
                    taken.into_iter().for_each(|position| former.mark_taken(position));
                    driver.take_over(former);
                }
                None => warn!(process = %id, former, "the former process is gone; nothing more is taken over"),
            }
        }
        driver.keep_memo(MemoLog::new(document));
        Ok(())
    }
}

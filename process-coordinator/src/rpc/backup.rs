//! `Backup`: the repository of this node, in pieces.

use std::fs::File;
use std::io::Read;
use std::pin::Pin;

use tokio::sync::mpsc;
use tokio_stream::Stream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;
use xavantes_proto::v1;
use xavantes_repository::Error;

use crate::coordinator::Coordinator;
use crate::rpc::errors::repository_status;

const PIECE_BYTES: usize = 256 * 1024;
/// Pieces that wait for the client.
const MAX_PIECES: usize = 4;

pub(super) type BackupStream = Pin<Box<dyn Stream<Item = Result<v1::BackupPiece, Status>> + Send>>;

pub(super) async fn backup(coordinator: &Coordinator) -> Result<BackupStream, Status> {
    let file = coordinator.repository.backup().await.map_err(|error| match error {
        Error::NoBackup => Status::failed_precondition(error.to_string()),
        error => repository_status(&error),
    })?;
    let (sender, receiver) = mpsc::channel(MAX_PIECES);
    // Ends when the client has gone.
    tokio::task::spawn_blocking(move || {
        while let Some(piece) = read_piece(&file).transpose() {
            let is_last = piece.is_err();
            if sender.blocking_send(piece).is_err() || is_last {
                return;
            }
        }
    });
    Ok(Box::pin(ReceiverStream::new(receiver)))
}

/// The next piece of a file. `None` at its end.
fn read_piece(mut file: &File) -> Result<Option<v1::BackupPiece>, Status> {
    let mut data = vec![0; PIECE_BYTES];
    let length = file.read(&mut data).map_err(|error| Status::internal(format!("cannot read the backup: {error}")))?;
    data.truncate(length);
    Ok((length > 0).then_some(v1::BackupPiece { data }))
}

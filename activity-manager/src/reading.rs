//! The output of an attempt on its way to a reader.

use tokio::sync::mpsc;
use tonic::Status;
use xavantes_proto::v1;

use crate::logs::{Found, Which};

type Pieces = mpsc::Sender<Result<v1::LogPiece, Status>>;

/// Sends what was asked for, as fast as it is read; of an attempt that is followed until its end.
pub(crate) async fn send(found: Found, request: v1::LogsRequest, node: String, pieces: Pieces) {
    let attempt = found.attempt();
    let first = v1::LogPiece { attempt, node, ..v1::LogPiece::default() };
    let wanted = [(Which::Stdout, request.stdout), (Which::Stderr, request.stderr)];
    let mut streams: Vec<(Which, u64)> = Vec::new();
    for (which, _) in wanted.into_iter().filter(|(_, wanted)| *wanted) {
        let begin = match request.tail {
            0 => Ok(0),
            lines => found.last_lines(which, lines),
        };
        match begin {
            Ok(begin) => streams.push((which, begin)),
            Err(error) => return drop(pieces.send(Err(Status::data_loss(error.to_string()))).await),
        }
    }
    if pieces.send(Ok(first)).await.is_err() {
        return;
    }
    loop {
        // Looked at before the last piece is read.
        let over = !request.follow || found.is_over();
        let mut more = false;
        for (which, at) in &mut streams {
            let piece = match found.read(*which, *at) {
                Ok((left_out, data)) => {
                    *at += left_out + data.len() as u64;
                    v1::LogPiece { attempt, stderr: *which == Which::Stderr, data, left_out, ..v1::LogPiece::default() }
                }
                Err(error) => return drop(pieces.send(Err(Status::data_loss(error.to_string()))).await),
            };
            if piece.left_out > 0 || !piece.data.is_empty() {
                more = true;
                if pieces.send(Ok(piece)).await.is_err() {
                    return;
                }
            }
        }
        if !more {
            if over {
                return;
            }
            tokio::select! {
                () = found.changed() => {}
                () = pieces.closed() => return,
            }
        }
    }
}

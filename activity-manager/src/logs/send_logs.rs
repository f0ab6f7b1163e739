//! Sending the log of an attempt over the wire.

use tokio::sync::mpsc;
use tonic::Status;
use xavantes_proto::v1;

use super::live_log::OutputStream;
use super::reader::LogReader;

type Pieces = mpsc::Sender<Result<v1::LogPiece, Status>>;

/// Sends the requested streams as fast as the client reads. A follower gets output until the attempt ends.
pub(crate) async fn send_log(log: LogReader, request: v1::LogsRequest, node: String, pieces: Pieces) {
    let attempt = log.attempt();
    let first = v1::LogPiece { attempt, node, ..v1::LogPiece::default() };
    let wanted = [(OutputStream::Stdout, request.stdout), (OutputStream::Stderr, request.stderr)];
    let mut positions: Vec<(OutputStream, u64)> = Vec::new();
    for (stream, _) in wanted.into_iter().filter(|(_, wanted)| *wanted) {
        let start = match request.tail {
            0 => Ok(0),
            lines => log.tail_start(stream, lines),
        };
        match start {
            Ok(start) => positions.push((stream, start)),
            Err(error) => return drop(pieces.send(Err(Status::data_loss(error.to_string()))).await),
        }
    }
    if pieces.send(Ok(first)).await.is_err() {
        return;
    }
    loop {
        // Checked before the last read, so that no output is missed.
        let last_round = !request.follow || log.has_ended();
        let mut more = false;
        for (stream, at) in &mut positions {
            let piece = match log.read(*stream, *at) {
                Ok(chunk) => {
                    *at += chunk.left_out + chunk.data.len() as u64;
                    let stderr = *stream == OutputStream::Stderr;
                    let (left_out, data) = (chunk.left_out, chunk.data);
                    v1::LogPiece { attempt, stderr, data, left_out, ..v1::LogPiece::default() }
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
            if last_round {
                return;
            }
            tokio::select! {
                () = log.changed() => {}
                () = pieces.closed() => return,
            }
        }
    }
}

//! Messages of a call that have begun to arrive. The memory of a large message counts until the next message of the call
//! begins, or the call ends: until then the node works on it.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use parking_lot::Mutex;
use tokio::time::{Instant, Sleep};
use tonic::Status;
use xavantes_proto::message_memory::{ARRIVAL_TIMEOUT, Held};

/// Length of the head of a gRPC message: a flag and the length of the message.
const HEAD_BYTES: usize = 5;
/// Smaller messages do not count: the windows of HTTP/2 bound them.
const LARGE_BYTES: usize = 64 << 10;

/// The memory that the messages of a call take.
pub(super) type CallMemory = Arc<Mutex<Held>>;

/// The body of a request.
pub(super) struct IntakeBody {
    body: tonic::body::Body,
    memory: CallMemory,
    message: MessageProgress,
    /// Set while a large message arrives.
    timeout: Option<Pin<Box<Sleep>>>,
}

impl IntakeBody {
    pub(super) fn new(body: tonic::body::Body, memory: CallMemory) -> Self {
        Self { body, memory, message: MessageProgress::default(), timeout: None }
    }

    fn on_data(&mut self, data: &[u8]) -> Result<(), Status> {
        let mut rest = data;
        while !rest.is_empty() {
            let step = self.message.advance(rest);
            rest = &rest[step.bytes..];
            if step.begins {
                self.memory.lock().clear();
            }
            if step.large_bytes > 0 {
                self.memory.lock().grow(step.large_bytes)?;
            }
        }
        let arrives = self.message.is_large();
        if !arrives {
            self.timeout = None;
        } else if self.timeout.is_none() {
            self.timeout = Some(Box::pin(tokio::time::sleep_until(Instant::now() + ARRIVAL_TIMEOUT)));
        }
        Ok(())
    }
}

impl Body for IntakeBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let this = &mut *self;
        let polled = Pin::new(&mut this.body).poll_frame(cx);
        match &polled {
            Poll::Ready(Some(Ok(frame))) => {
                if let Some(data) = frame.data_ref()
                    && let Err(status) = this.on_data(data)
                {
                    return Poll::Ready(Some(Err(status)));
                }
            }
            Poll::Pending => {
                if let Some(timeout) = &mut this.timeout
                    && timeout.as_mut().poll(cx).is_ready()
                {
                    let seconds = ARRIVAL_TIMEOUT.as_secs();
                    let late = format!("a message did not arrive within {seconds} seconds");
                    return Poll::Ready(Some(Err(Status::deadline_exceeded(late))));
                }
            }
            _ => {}
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// How much of the current message has arrived.
#[derive(Debug, Default)]
struct MessageProgress {
    head: [u8; HEAD_BYTES],
    /// Bytes of the head that have arrived.
    head_bytes: usize,
    /// Length of the message, and bytes of it that are missing.
    length: usize,
    missing: usize,
}

/// What some bytes add to the current message.
#[derive(Debug, PartialEq, Eq)]
struct Step {
    /// Bytes of the input that belong to the message.
    bytes: usize,
    /// They are its first bytes.
    begins: bool,
    /// Bytes that a large message takes in addition.
    large_bytes: usize,
}

impl MessageProgress {
    /// Takes the bytes of the current message off a non-empty input.
    fn advance(&mut self, input: &[u8]) -> Step {
        if self.head_bytes < HEAD_BYTES {
            let begins = self.head_bytes == 0;
            let bytes = input.len().min(HEAD_BYTES - self.head_bytes);
            self.head[self.head_bytes..self.head_bytes + bytes].copy_from_slice(&input[..bytes]);
            self.head_bytes += bytes;
            if self.head_bytes == HEAD_BYTES {
                let [_, length @ ..] = self.head;
                self.length = u32::from_be_bytes(length) as usize;
                self.missing = self.length;
                self.end_if_complete();
            }
            return Step { bytes, begins, large_bytes: 0 };
        }
        let bytes = input.len().min(self.missing);
        self.missing -= bytes;
        let large_bytes = if self.length >= LARGE_BYTES { bytes } else { 0 };
        self.end_if_complete();
        Step { bytes, begins: false, large_bytes }
    }

    fn end_if_complete(&mut self) {
        if self.missing == 0 {
            *self = Self::default();
        }
    }

    /// A large message arrives, and is not complete.
    fn is_large(&self) -> bool {
        self.head_bytes == HEAD_BYTES && self.length >= LARGE_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_messages_are_counted_however_they_are_cut() {
        let message = |length: usize| {
            let mut bytes = vec![0];
            bytes.extend((length as u32).to_be_bytes());
            bytes.resize(HEAD_BYTES + length, 7);
            bytes
        };
        let stream =
            [message(0), message(10), message(LARGE_BYTES), message(LARGE_BYTES - 1), message(3 * LARGE_BYTES)];
        let all = stream.concat();
        for piece in [1, 3, 4096, all.len()] {
            let (mut progress, mut begun, mut large) = (MessageProgress::default(), 0, 0);
            for mut rest in all.chunks(piece) {
                while !rest.is_empty() {
                    let step = progress.advance(rest);
                    begun += usize::from(step.begins);
                    large += step.large_bytes;
                    rest = &rest[step.bytes..];
                }
            }
            assert_eq!((begun, large, progress.is_large()), (5, 4 * LARGE_BYTES, false), "in pieces of {piece}");
        }
        let mut progress = MessageProgress::default();
        let begun = message(LARGE_BYTES);
        let head = progress.advance(&begun[..100]);
        progress.advance(&begun[head.bytes..100]);
        assert!(progress.is_large());
    }
}

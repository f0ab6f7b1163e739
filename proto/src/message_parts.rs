//! Large messages in parts: splitting for the sender, and assembling for the receiver.

use std::marker::PhantomData;

use prost::Message;
use tokio::time::Instant;
use tonic::{Status, Streaming};

use crate::message_memory::{ARRIVAL_TIMEOUT, Held};
use crate::{InvalidMessage, MAX_PART_BYTES, v1};

/// A message of a stream that may be a part of a larger message.
pub trait Multipart: Message + Default {
    /// Makes a message that carries only a part.
    fn of(part: v1::Part) -> Self;
    /// Takes the part out of the message, if it carries one.
    fn part(&mut self) -> Option<v1::Part>;
}

impl Multipart for v1::WorkOrder {
    fn of(part: v1::Part) -> Self {
        Self { part: Some(part), ..Self::default() }
    }

    fn part(&mut self) -> Option<v1::Part> {
        self.part.take()
    }
}

impl Multipart for v1::WorkReport {
    fn of(part: v1::Part) -> Self {
        Self { part: Some(part), ..Self::default() }
    }

    fn part(&mut self) -> Option<v1::Part> {
        self.part.take()
    }
}

impl Multipart for v1::Part {
    fn of(part: v1::Part) -> Self {
        part
    }

    fn part(&mut self) -> Option<v1::Part> {
        Some(std::mem::take(self))
    }
}

/// Prepares a message for sending: the message itself if it is small, otherwise its parts.
pub fn pack<M: Multipart>(message: M) -> Vec<M> {
    if message.encoded_len() <= MAX_PART_BYTES { vec![message] } else { split(&message).map(M::of).collect() }
}

/// Splits a message into parts, at least one.
pub fn split<M: Message>(message: &M) -> impl Iterator<Item = v1::Part> + use<M> {
    let bytes = bytes::Bytes::from(message.encode_to_vec());
    let count = bytes.len().div_ceil(MAX_PART_BYTES).max(1);
    (0..count).map(move |number| {
        let (from, to) = (number * MAX_PART_BYTES, ((number + 1) * MAX_PART_BYTES).min(bytes.len()));
        v1::Part { data: bytes[from..to].to_vec(), last: number + 1 == count }
    })
}

/// Receives one message of at most `max_bytes` bytes in parts.
pub async fn receive<W: Message + Default>(mut parts: Streaming<v1::Part>, max_bytes: usize) -> Result<W, Status> {
    let mut whole = Assembler::new(max_bytes);
    while let Some(part) = parts.message().await? {
        if let Some(message) = whole.add(part)? {
            return Ok(message);
        }
    }
    Err(Status::unavailable("the answer ended before it was complete; ask again"))
}

/// Assembles messages of type `W` from their parts.
#[derive(Debug)]
pub struct Assembler<W> {
    /// Parts received so far.
    bytes: Vec<u8>,
    /// Counts the bytes; absent if this program chose the peer and waits for the message.
    held: Option<Held>,
    /// When the message must be whole, if parts of it are here.
    deadline: Option<Instant>,
    max_bytes: usize,
    whole: PhantomData<W>,
}

impl<W: Message + Default> Assembler<W> {
    /// Accepts messages of at most `max_bytes` bytes.
    pub fn new(max_bytes: usize) -> Self {
        Self { bytes: Vec::new(), held: None, deadline: None, max_bytes, whole: PhantomData }
    }

    /// Counts the bytes of unfinished messages against the budget of a peer with this address.
    #[must_use]
    pub fn of_peer(mut self, peer: impl Into<std::sync::Arc<str>>) -> Self {
        self.held = Some(Held::of(peer));
        self
    }

    /// Adds a part. Returns the message after its last part.
    pub fn add(&mut self, part: v1::Part) -> Result<Option<W>, Status> {
        if self.bytes.len() + part.data.len() > self.max_bytes {
            return Err(InvalidMessage("a message is too large, even in parts").into());
        }
        if let Some(held) = &mut self.held {
            held.grow(part.data.len())?;
        }
        self.deadline.get_or_insert_with(|| Instant::now() + ARRIVAL_TIMEOUT);
        self.bytes.extend_from_slice(&part.data);
        if !part.last {
            return Ok(None);
        }
        let bytes = std::mem::take(&mut self.bytes);
        self.deadline = None;
        if let Some(held) = &mut self.held {
            held.clear();
        }
        let unreadable = |_| InvalidMessage("a message that came in parts cannot be read").into();
        W::decode(&*bytes).map(Some).map_err(unreadable)
    }
}

impl<M: Multipart> Assembler<M> {
    /// Reverses [`pack`]. Returns `None` while parts are missing.
    pub fn unpack(&mut self, mut message: M) -> Result<Option<M>, Status> {
        match message.part() {
            Some(part) => self.add(part),
            None if self.deadline.is_none() => Ok(Some(message)),
            None => Err(InvalidMessage("another message arrived between the parts of one").into()),
        }
    }
}

/// The next message of a stream, assembled from its parts; `None` at the end of the stream. A message whose parts do not
/// arrive in time is an error.
pub async fn next_whole<M: Multipart>(
    stream: &mut Streaming<M>,
    assembler: &mut Assembler<M>,
) -> Result<Option<M>, Status> {
    loop {
        let next = match assembler.deadline {
            None => stream.message().await?,
            Some(deadline) => tokio::time::timeout_at(deadline, stream.message()).await.map_err(|_| {
                let seconds = ARRIVAL_TIMEOUT.as_secs();
                Status::deadline_exceeded(format!("the parts of a message did not arrive within {seconds} seconds"))
            })??,
        };
        let Some(message) = next else { return Ok(None) };
        if let Some(whole) = assembler.unpack(message)? {
            return Ok(Some(whole));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(size: usize) -> v1::WorkOrder {
        let text = "x".repeat(size);
        let documents = vec![v1::Document { name: "a".into(), text }];
        v1::WorkOrder { programs: vec![v1::Program { digest: "d".into(), documents }], ..v1::WorkOrder::default() }
    }

    #[test]
    fn an_assembled_message_equals_the_original() {
        let mut assembler = Assembler::new(64 << 20);
        for size in [0, MAX_PART_BYTES - 100, MAX_PART_BYTES, 3 * MAX_PART_BYTES] {
            let packed = pack(order(size));
            assert_eq!(packed.len() > 1, size >= MAX_PART_BYTES);
            let mut whole = Vec::new();
            for message in packed {
                assert!(message.encoded_len() < crate::MAX_MESSAGE_BYTES);
                whole.extend(assembler.unpack(message).expect("it fits"));
            }
            assert_eq!(whole, [order(size)]);
        }
    }

    #[test]
    fn messages_that_are_too_large_or_out_of_order_are_refused() {
        let mut assembler = Assembler::<v1::WorkOrder>::new(2 * MAX_PART_BYTES);
        let verdict: Result<Vec<_>, _> =
            pack(order(3 * MAX_PART_BYTES)).into_iter().map(|it| assembler.unpack(it)).collect();
        assert!(verdict.is_err());
        let mut assembler = Assembler::<v1::WorkOrder>::new(4 * MAX_PART_BYTES);
        assert!(assembler.unpack(pack(order(2 * MAX_PART_BYTES)).remove(0)).is_ok_and(|whole| whole.is_none()));
        assert!(assembler.unpack(order(1)).is_err());
    }
}

//! Every message that a node accepts: decoding any bytes does not panic, and decoded content survives its conversions.

use std::sync::Arc;

use xavantes_process_coordinator::process::driver_input::ProcessInput;
use xavantes_process_coordinator::subtrees::hosted_subtrees::{Caller, start_from};
use xavantes_process_coordinator::subtrees::parent_order::ParentOrder;
use xavantes_process_coordinator::workers::peer_report::PeerReport;
use xavantes_process_coordinator::workers::pool::Pool;
use xavantes_proto::{Assembler, Message, v1, value, value_from};

use crate::process::program;

/// Decodes a message. What is decoded encodes to bytes that decode to the same.
fn decode<M: Message + Default + PartialEq>(bytes: &[u8]) -> Option<M> {
    let message = M::decode(bytes).ok()?;
    let encoded = message.encode_to_vec();
    // Floats that are not numbers differ from themselves.
    let again = M::decode(&*encoded).expect("an encoded message decodes");
    assert_eq!(again.encode_to_vec().len(), encoded.len());
    Some(message)
}

/// Decodes a message of one type.
type Decode = fn(&[u8]);

macro_rules! decoders {
    ($($message:ident),+) => { &[$((stringify!($message), |bytes| {
        decode::<v1::$message>(bytes);
    })),+] };
}

/// Every message of which a call of a node is made, and every message in an answer that a node reads from another one.
#[rustfmt::skip]
const DECODERS: &[(&str, Decode)] = decoders![
    AddSourceRequest, AttemptsRequest, AttemptsResponse, BackupRequest, Chunk, CountRequest, DefinitionRequest,
    DrainRequest, ExplainRequest,
    ExplainResponse, FetchFailure, FetchRequest, FindDocumentRequest, FollowRequest, ForgetRequest, GroupState, GroupSummaries,
    HasRequest, HasResponse, Heartbeat, IntroduceRequest, IntroduceResponse, KeepRequest, ListGroupsRequest,
    ListNodesRequest, ListRequest, ListSourcesRequest,
    ListSourcesResponse, ListTypesRequest, LogPiece, LogsRequest, MovedRequest, MovedResponse, OffsetRequest, OutputsRequest,
    Part, PlaceRequest, PlaceResponse, ProcessStatus, PutChunk, RemoveSourceRequest, ResolveRequest, ResultsRequest, Roster, ShowRequest,
    ShowResponse, StatusesRequest, SteerRequest, SubmitRequest, WatchRequest, WorkOrder, WorkReport
];

/// Checks one message: the first byte chooses its type.
pub fn check(bytes: &[u8]) {
    let Some((kind, bytes)) = bytes.split_first() else { return };
    match kind {
        0 => decode::<v1::WorkReport>(bytes).into_iter().for_each(on_report),
        1 => decode::<v1::WorkOrder>(bytes).into_iter().for_each(on_order),
        2 => decode::<v1::Value>(bytes).into_iter().for_each(on_value),
        3 => on_parts(bytes),
        _ => DECODERS[usize::from(*kind) % DECODERS.len()].1(bytes),
    }
}

/// A report of a peer: the pool takes all of it.
fn on_report(report: v1::WorkReport) {
    let peer: Arc<str> = "a".into();
    let sorted: PeerReport<u8, u8> = PeerReport::sort(&peer, &0, report);
    let mut pool = Pool::default();
    let now = std::time::Duration::ZERO;
    let node = v1::NodeDescription { name: "a".into(), ..Default::default() };
    pool.on_roster(v1::Roster { workers: vec![node], ..Default::default() }, now);
    sorted.hello.into_iter().for_each(|hello| pool.on_connected(&peer, hello, now));
    sorted.pool_inputs.into_iter().for_each(|input| pool.handle(input, now));
    pool.place_queued(now);
    for answers in sorted.answers {
        for input in answers.inputs {
            assert!(matches!(&input, ProcessInput::Answered { key, .. } if key.process == answers.process));
        }
    }
}

/// An order of a parent: its subtree starts only if it fits the program.
fn on_order(order: v1::WorkOrder) {
    order.hello.iter().for_each(|hello| drop(Caller::parse(&Caller::of(hello).to_string())));
    for part in ParentOrder::split(order) {
        if let ParentOrder::Job(job) = part
            && let Some(subtree) = job.subtree
            && let Ok(start) = start_from(program(), job.path.into(), job.parameters, subtree)
        {
            let mut output = xavantes_engine::StepOutput::default();
            let _ = xavantes_engine::Engine::start(program().clone(), start, xavantes_engine::Time(0), &mut output);
        }
    }
}

fn on_value(wire: v1::Value) {
    if let Ok(converted) = value_from(wire) {
        let back = value_from(value(&converted)).expect("a converted value converts back");
        assert_eq!(format!("{back:?}"), format!("{converted:?}"));
    }
}

/// Parts of a larger message, with lengths from the bytes.
fn on_parts(mut bytes: &[u8]) {
    let mut assembler = Assembler::<v1::WorkOrder>::new(1 << 10);
    while let Some((length, rest)) = bytes.split_first() {
        let (data, rest) = rest.split_at(usize::from(length / 2).min(rest.len()));
        let message = match length % 16 {
            15 => v1::WorkOrder::default(),
            _ => v1::WorkOrder {
                part: Some(v1::Part { data: data.to_vec(), last: length % 2 == 1 }),
                ..Default::default()
            },
        };
        if assembler.unpack(message).is_err() {
            return;
        }
        bytes = rest;
    }
}

#[cfg(test)]
mod tests {
    use prost_types::FileDescriptorSet;

    use super::*;

    #[test]
    fn every_request_is_decoded() {
        let descriptors = FileDescriptorSet::decode(xavantes_proto::DESCRIPTORS).unwrap();
        let methods = descriptors.file.iter().flat_map(|file| &file.service).flat_map(|service| &service.method);
        let requests: Vec<&str> = methods.filter_map(|method| method.input_type().rsplit('.').next()).collect();
        assert!(requests.len() > 30);
        for request in requests {
            assert!(DECODERS.iter().any(|(name, _)| *name == request), "{request} is not decoded");
        }
    }
}

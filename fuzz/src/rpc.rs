//! Every call of every service of a node with all roles, with any messages. The list of calls comes from the protocol, so a
//! new call is covered from its first day. A call ends with an answer or a status, no answer is larger than clients take, and
//! the node goes on to serve.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes};
use prost_types::FileDescriptorSet;
use tonic::client::Grpc;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::Channel;
use tonic::{Request, Status};
use xavantes_node::{CgroupsSetting, ContainersSetting, Node, Settings};
use xavantes_proto::{MAX_MESSAGE_BYTES, Message, v1};

use crate::byte_choices::ByteChoices;
use crate::runtime::block_on;

/// A call without a stream in its answer ends within this time.
const MAX_CALL_TIME: Duration = Duration::from_secs(20);
/// A stream of answers is read for this long: some streams never end.
const STREAM_TIME: Duration = Duration::from_millis(15);
/// Number of inputs after which a normal call must succeed.
const INPUTS_PER_HEALTH_CHECK: usize = 16;
/// Messages of one call.
const MAX_MESSAGES: usize = 8;

/// A call of a service.
struct ServiceMethod {
    path: PathAndQuery,
    answers_with_stream: bool,
}

static CALLS: LazyLock<Vec<ServiceMethod>> = LazyLock::new(|| {
    let descriptors = FileDescriptorSet::decode(xavantes_proto::DESCRIPTORS).expect("the protocol has descriptors");
    let mut calls = Vec::new();
    for file in &descriptors.file {
        for service in &file.service {
            for method in &service.method {
                let path = format!("/{}.{}/{}", file.package(), service.name(), method.name());
                let path = path.parse().expect("names make a path");
                calls.push(ServiceMethod { path, answers_with_stream: method.server_streaming() });
            }
        }
    }
    calls
});

/// The node of all inputs: it must take any sequence of them.
static NODE: LazyLock<(Node, Channel)> = LazyLock::new(|| {
    let settings = Settings {
        name: "n".into(),
        group: "g".into(),
        listen: ([127, 0, 0, 1], 0).into(),
        in_memory: true,
        slots: 2,
        containers: Some(ContainersSetting::None),
        cgroups: CgroupsSetting::Off,
        files_mib: 1,
        ..Settings::default()
    };
    block_on(async {
        let node = Node::start(settings, None).await.expect("a node starts");
        let channel = xavantes_proto::connect(&node.address().to_string()).await.expect("it takes connections");
        (node, channel)
    })
});

static INPUTS: AtomicUsize = AtomicUsize::new(0);

/// Checks one call: its number, and its messages, each with its length.
pub fn check(bytes: &[u8]) {
    // The node would run what programs of a document say.
    if bytes.windows(8).any(|window| window.eq_ignore_ascii_case(b"LANGUAGE")) {
        return;
    }
    let input = &mut ByteChoices(bytes);
    let call = &CALLS[usize::from(input.byte()) % CALLS.len()];
    let mut messages = Vec::new();
    while input.has_more() && messages.len() < MAX_MESSAGES {
        let length = usize::from(input.byte()) | usize::from(input.byte()) << 8;
        let (message, rest) = input.0.split_at(length.min(input.0.len()));
        messages.push(Bytes::copy_from_slice(message));
        input.0 = rest;
    }
    let (_, channel) = &*NODE;
    block_on(perform(channel, call, messages));
    if INPUTS.fetch_add(1, Ordering::Relaxed).is_multiple_of(INPUTS_PER_HEALTH_CHECK) {
        block_on(check_health(channel));
    }
}

async fn perform(channel: &Channel, call: &ServiceMethod, messages: Vec<Bytes>) {
    let mut client = Grpc::new(channel.clone()).max_decoding_message_size(MAX_MESSAGE_BYTES);
    client.ready().await.expect("the node takes calls");
    let request = Request::new(tokio_stream::iter(messages));
    let answer = client.streaming(request, call.path.clone(), AnyBytes);
    if !call.answers_with_stream {
        let ended = tokio::time::timeout(MAX_CALL_TIME, async {
            let mut answers = answer.await?.into_inner();
            while answers.message().await?.is_some() {}
            Ok::<(), Status>(())
        });
        let ended = ended.await.unwrap_or_else(|_| panic!("{} does not end", call.path));
        ended.err().iter().for_each(|status| check_status(call, status));
        return;
    }
    let read = async {
        let mut answers = answer.await?.into_inner();
        while answers.message().await?.is_some() {}
        Ok::<(), Status>(())
    };
    if let Ok(Err(status)) = tokio::time::timeout(STREAM_TIME, read).await {
        check_status(call, &status);
    }
}

fn check_status(call: &ServiceMethod, status: &Status) {
    let text = status.message();
    assert!(text.len() <= 16 << 10, "{}: a status with a text of {} bytes", call.path, text.len());
    // A call that panics ends so, and so does an answer that is too large.
    let unexpected = [tonic::Code::Unknown, tonic::Code::OutOfRange, tonic::Code::Unimplemented];
    assert!(!unexpected.contains(&status.code()), "{}: {status}", call.path);
}

async fn check_health(channel: &Channel) {
    let mut coordinator = v1::process_coordinator_client::ProcessCoordinatorClient::new(channel.clone());
    let listed = xavantes_proto::call_with_timeout(coordinator.list(v1::ListRequest::default())).await;
    listed.expect("processes can be listed");
    let mut manager = v1::group_manager_client::GroupManagerClient::new(channel.clone());
    let nodes = xavantes_proto::call_with_timeout(manager.list_nodes(v1::ListNodesRequest::default())).await;
    nodes.expect("nodes can be listed");
}

/// Messages as they are.
#[derive(Debug, Clone, Copy)]
struct AnyBytes;

impl Codec for AnyBytes {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for AnyBytes {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, item: Bytes, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.put(item);
        Ok(())
    }
}

impl Decoder for AnyBytes {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(buffer.copy_to_bytes(buffer.remaining())))
    }
}

fn sample(call: &str, messages: &[Vec<u8>]) -> Vec<u8> {
    let number = CALLS.iter().position(|it| it.path.path().ends_with(call)).expect("a call of the protocol");
    let mut bytes = vec![number as u8];
    for message in messages {
        bytes.extend((message.len() as u16).to_le_bytes());
        bytes.extend(message);
    }
    bytes
}

/// A normal call of most methods, and an empty one of all.
pub fn samples() -> Vec<Vec<u8>> {
    let document = "<XAVANTES VERSION=\"1\"><PROCESS_TYPE NAME=\"P\"><OUT_PARAMETER TYPE=\"int\" NAME=\"x\"/><BODY>\
        <POST_CODE>x = 1</POST_CODE></BODY></PROCESS_TYPE></XAVANTES>";
    let document = v1::Document { name: "p.xml".into(), text: document.into() };
    let submit = v1::SubmitRequest { documents: vec![document], request_id: "p".into(), ..Default::default() };
    let steer = |action| v1::SteerRequest { path: "P-1".into(), action: Some(action), ..Default::default() };
    let set = v1::Setting { key: "TO".into(), value: "5".into() };
    let hello = v1::CoordinatorHello {
        node: "c".into(),
        group: "g".into(),
        realm: "r".into(),
        address: "127.0.0.1:1".into(),
        ..Default::default()
    };
    let id = v1::AttemptId { process: "p".into(), element: 1, attempt: 1 };
    let job = v1::Job { id: Some(id.clone()), path: "p/a".into(), ..Default::default() };
    let first = v1::WorkOrder { hello: Some(hello), ..Default::default() };
    let order = v1::WorkOrder { jobs: vec![job], cancels: vec![id.clone()], ..Default::default() };
    let node = v1::NodeDescription { name: "w".into(), address: "127.0.0.1:1".into(), slots: 2, ..Default::default() };
    let beat = v1::Heartbeat { node: Some(node), group: "g".into(), ..Default::default() };
    let summary = v1::GroupSummary { group: "h".into(), number: 1, free_slots: 3, ..Default::default() };
    let summaries = v1::GroupSummaries { group: "h".into(), summaries: vec![summary] };
    let content = b"content".to_vec();
    let digest = xavantes_files::digest_of(&mut &content[..]).expect("bytes can be read").0.0.to_vec();
    let header = v1::PutHeader { digest: digest.clone(), size: 7, offset: 0 };
    let chunk = v1::Chunk { data: content.into(), ..Default::default() };
    let put = v1::PutChunk { header: Some(header), chunk: Some(chunk) };
    let place = |what| v1::PlaceRequest { what, node: "c".into(), group: "g".into(), ..Default::default() };
    let logs = v1::LogsRequest { path: "P-1/a".into(), stdout: true, tail: 3, ..Default::default() };
    let filter = v1::ListFilter { states: vec![v1::State::Failed.into()], since_ms: 7, ..Default::default() };
    let list = v1::ListRequest { limit: 3, page: "x".into(), newest_first: true, filter: Some(filter) };
    let mut all = vec![
        sample("/Submit", &[submit.encode_to_vec()]),
        sample("/List", &[list.encode_to_vec()]),
        sample("/Resolve", &[v1::ResolveRequest { path: "P-/a".into() }.encode_to_vec()]),
        sample("/Show", &[v1::ShowRequest { path: "P-1".into(), depth: 3, ..Default::default() }.encode_to_vec()]),
        sample("/Steer", &[steer(v1::steer_request::Action::Set(set)).encode_to_vec()]),
        sample("/Steer", &[steer(v1::steer_request::Action::Cancel(v1::Nothing {})).encode_to_vec()]),
        sample("/Work", &[first.encode_to_vec(), order.encode_to_vec()]),
        sample("/Delegate", &[first.encode_to_vec(), order.encode_to_vec()]),
        sample("/Join", &[beat.encode_to_vec(), beat.encode_to_vec()]),
        sample("/Exchange", &[summaries.encode_to_vec(), summaries.encode_to_vec()]),
        sample("/Put", &[put.encode_to_vec()]),
        sample("/Fetch", &[v1::FetchRequest { digest: digest.clone(), ..Default::default() }.encode_to_vec()]),
        sample(
            "/Has",
            &[v1::HasRequest { digests: vec![digest], owner: "o".into(), ..Default::default() }.encode_to_vec()],
        ),
        sample("/Place", &[place(1).encode_to_vec()]),
        sample("/Place", &[place(2).encode_to_vec()]),
        sample("/AddSource", &[v1::AddSourceRequest { name: "s".into(), uri: "/nothing".into() }.encode_to_vec()]),
        sample("ProcessCoordinator/Logs", &[logs.encode_to_vec()]),
        sample("ActivityManager/Logs", &[logs.encode_to_vec()]),
        sample("/Moved", &[v1::MovedRequest { attempt: Some(id), ..Default::default() }.encode_to_vec()]),
    ];
    all.extend((0..CALLS.len()).map(|number| vec![number as u8, 0, 0]));
    all
}

//! Calls of a user, without the checks of the command.

use tonic::Status;
use tonic::transport::Channel;
use xavantes_proto::v1;
use xavantes_proto::v1::process_coordinator_client::ProcessCoordinatorClient;

/// Upper bound on the messages of the clients here: larger than any node accepts.
const MAX_BYTES: usize = 1 << 30;

/// A client of a coordinator that sends messages of any size.
pub fn coordinator(channel: &Channel) -> ProcessCoordinatorClient<Channel> {
    ProcessCoordinatorClient::new(channel.clone())
        .max_encoding_message_size(MAX_BYTES)
        .max_decoding_message_size(MAX_BYTES)
}

/// A submission of one document.
pub fn submission(text: &str) -> v1::SubmitRequest {
    let document = v1::Document { name: "attack.xml".into(), text: text.to_owned() };
    v1::SubmitRequest { documents: vec![document], ..v1::SubmitRequest::default() }
}

/// Submits one document. Returns the id of the process.
pub async fn submit(channel: &Channel, text: &str) -> Result<String, Status> {
    coordinator(channel).submit(submission(text)).await.map(|answer| answer.into_inner().process)
}

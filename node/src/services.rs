//! The gRPC server of a node: the services of its roles, files, health and reflection behind one address.

use std::time::Duration;

use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tonic::transport::Server;
use xavantes_proto::MAX_MESSAGE_BYTES;
use xavantes_proto::v1::activity_manager_server::ActivityManagerServer;
use xavantes_proto::v1::files_server::FilesServer;
use xavantes_proto::v1::group_manager_server::GroupManagerServer;
use xavantes_proto::v1::node_server::NodeServer;
use xavantes_proto::v1::process_coordinator_server::ProcessCoordinatorServer;

use crate::connections::accept_connections::incoming;
use crate::connections::open_calls::Guarded;
use crate::error::Error;
use crate::introduction::Introduction;

/// Bytes that may be in flight to this node in one stream, and in all streams of a connection: enough for files over
/// lines with a long round trip.
const STREAM_WINDOW_BYTES: u32 = 1 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 4 << 20;
/// A peer that does not answer a ping within this time is gone; pings are this far apart.
const KEEPALIVE: Duration = Duration::from_secs(5);

/// Upper bound on the calls that one connection may have open.
const MAX_CALLS_PER_CONNECTION: u32 = 256;
/// Upper bound on the headers of a call.
const MAX_HEADER_BYTES: u32 = 16 << 10;

/// The services that a node offers, each if it has the role.
#[derive(Clone)]
pub(crate) struct Services {
    pub(crate) introduction: Introduction,
    pub(crate) manager: Option<xavantes_group_manager::Service>,
    pub(crate) coordinator: Option<xavantes_process_coordinator::Service>,
    pub(crate) worker: Option<xavantes_activity_manager::Service>,
    pub(crate) files: Option<xavantes_files::Service>,
}

impl Services {
    /// Serves at most `connections` connections at once, until `stop` is cancelled, and then until the open calls have ended.
    pub(crate) async fn serve(
        self,
        listener: TcpListener,
        connections: usize,
        stop: CancellationToken,
    ) -> Result<JoinHandle<Result<(), tonic::transport::Error>>, Error> {
        let (health, health_service) = tonic_health::server::health_reporter();
        if self.manager.is_some() {
            health.set_serving::<GroupManagerServer<xavantes_group_manager::Service>>().await;
        }
        if self.coordinator.is_some() {
            health.set_serving::<ProcessCoordinatorServer<xavantes_process_coordinator::Service>>().await;
        }
        if self.worker.is_some() {
            health.set_serving::<ActivityManagerServer<xavantes_activity_manager::Service>>().await;
        }
        let reflection = tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(xavantes_proto::DESCRIPTORS)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
            .build_v1()?;
        let limit = MAX_MESSAGE_BYTES;
        let router = Server::builder()
            .http2_keepalive_interval(Some(KEEPALIVE))
            .http2_keepalive_timeout(Some(KEEPALIVE))
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .max_concurrent_streams(MAX_CALLS_PER_CONNECTION)
            .http2_max_header_list_size(MAX_HEADER_BYTES)
            .add_service(Guarded(health_service))
            .add_service(Guarded(reflection))
            .add_service(Guarded(NodeServer::new(self.introduction)))
            .add_optional_service(self.manager.map(|service| Guarded(GroupManagerServer::new(service))))
            .add_optional_service(self.coordinator.map(|service| {
                let server = ProcessCoordinatorServer::new(service).max_decoding_message_size(limit);
                Guarded(server.max_encoding_message_size(limit))
            }))
            .add_optional_service(self.worker.map(|service| {
                let server = ActivityManagerServer::new(service).max_decoding_message_size(limit);
                Guarded(server.max_encoding_message_size(limit))
            }))
            .add_optional_service(self.files.map(|service| Guarded(FilesServer::new(service))));
        let incoming = incoming(listener, connections);
        Ok(tokio::spawn(router.serve_with_incoming_shutdown(incoming, stop.cancelled_owned())))
    }
}

//! The calls of a connection. Wraps a service: counts its open calls and the memory of their messages, and keeps the texts of
//! errors short.

use std::net::{IpAddr, Ipv4Addr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use parking_lot::Mutex;
use tonic::body::Body as CallBody;
use tonic::codegen::http::{Request, Response};
use tonic::codegen::{BoxFuture, Service};
use tonic::server::NamedService;
use tonic::transport::server::TcpConnectInfo;
use xavantes_proto::message_memory::Held;

use super::arriving_messages::{CallMemory, IntakeBody};
use super::connection_bytes::PeerConnection;
use super::errors::shorten_error;
use super::peer_connection::OpenCall;

/// A service whose calls are counted.
#[derive(Debug, Clone)]
pub(crate) struct Guarded<S>(pub(crate) S);

impl<S: NamedService> NamedService for Guarded<S> {
    const NAME: &'static str = S::NAME;
}

impl<S> Service<Request<CallBody>> for Guarded<S>
where
    S: Service<Request<CallBody>, Response = Response<CallBody>> + Send,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = BoxFuture<Response<CallBody>, S::Error>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<CallBody>) -> Self::Future {
        let peer = request.extensions().get::<PeerConnection>().cloned();
        let address = peer.as_ref().map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |peer| peer.remote.ip());
        let call = peer.as_ref().map(|peer| peer.connection.begin_call());
        if let Some(peer) = peer {
            let addresses = TcpConnectInfo { local_addr: None, remote_addr: Some(peer.remote) };
            request.extensions_mut().insert(addresses);
        }
        let memory: CallMemory = Arc::new(Mutex::new(Held::of(address.to_string())));
        let counted = memory.clone();
        let request = request.map(|body| CallBody::new(IntakeBody::new(body, counted)));
        let answer = self.0.call(request);
        Box::pin(async move {
            let mut response = answer.await?;
            shorten_error(response.headers_mut());
            Ok(response.map(|body| CallBody::new(GuardedBody { body, _memory: memory, _call: call })))
        })
    }
}

/// The body of a response. The call ends with it.
struct GuardedBody {
    body: CallBody,
    _memory: CallMemory,
    _call: Option<OpenCall>,
}

impl Body for GuardedBody {
    type Data = Bytes;
    type Error = tonic::Status;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, tonic::Status>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        polled.map_ok(|mut frame| {
            if let Some(trailers) = frame.trailers_mut() {
                shorten_error(trailers);
            }
            frame
        })
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

//! Every node introduces itself: its name, its roles, and where the managers of its group are. A user who asks the wrong node
//! learns from it which one to ask.

use tonic::{Request, Response, Status};
use xavantes_proto::v1;
use xavantes_proto::v1::node_server::Node;

/// Answers who the node is.
#[derive(Clone)]
pub(crate) struct Introduction(v1::IntroduceResponse);

impl Introduction {
    /// The introduction of a node that describes itself so, in this group, which these managers lead.
    pub(crate) fn new(node: v1::NodeDescription, group: &str, managers: &[String]) -> Self {
        Self(v1::IntroduceResponse { node: Some(node), group: group.to_owned(), managers: managers.to_vec() })
    }
}

#[tonic::async_trait]
impl Node for Introduction {
    async fn introduce(&self, _: Request<v1::IntroduceRequest>) -> Result<Response<v1::IntroduceResponse>, Status> {
        Ok(Response::new(self.0.clone()))
    }
}

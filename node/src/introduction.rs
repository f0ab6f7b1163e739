//! Answers who a node is: its name, its roles, and the addresses of the managers of its group. The command line asks this when
//! a user has named a node without the role that a command needs.

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

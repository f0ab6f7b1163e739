//! The gRPC service of a coordinator. It only forwards: each call has a file of its own. Calls that change something run to
//! their end, also if their client goes away.

use std::pin::Pin;
use std::sync::Arc;

use tokio_stream::Stream;
use tonic::{Request, Response, Status, Streaming};
use xavantes_proto::v1;
use xavantes_proto::v1::process_coordinator_server::ProcessCoordinator;
use xavantes_repository::{Error, Store};
use xavantes_telemetry::{ProcessCondition, metrics};

use crate::coordinator::Coordinator;
use crate::options::Options;
use crate::rpc::run_to_end::run_to_end;
use crate::rpc::{
    backup, definition, delegate, explain, forget, list, logs, outputs, plan_rerun, resolve, results, show, steer,
    submit, types, watch,
};

/// The process coordinator; cheap to clone.
#[derive(Clone)]
pub struct Service {
    coordinator: Arc<Coordinator>,
}

impl Service {
    /// Opens a coordinator, which recovers its processes and has no workers yet.
    pub async fn open(options: Options, repository: Store) -> Result<Self, Error> {
        Ok(Self { coordinator: Coordinator::open(options, repository).await? })
    }

    /// Sets the group, as its manager knows it now.
    pub fn set_roster(&self, roster: v1::Roster) {
        self.coordinator.pool.set_roster(roster);
    }

    /// Notes that the coordinator ends in order: none of its processes is to blame.
    pub async fn close(&self) {
        self.coordinator.marks.remove_pending().await;
    }

    /// Updates the metrics that say how the coordinator is now.
    pub fn measure(&self) {
        let processes = &self.coordinator.processes;
        metrics().processes.of(ProcessCondition::Running).set(processes.len() as i64);
        metrics().processes.of(ProcessCondition::Held).set(processes.held_count() as i64);
    }

    /// Number of processes that run here.
    pub fn running(&self) -> u32 {
        self.coordinator.processes.len() as u32
    }
}

type ResponseStream<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

#[tonic::async_trait]
impl ProcessCoordinator for Service {
    type BackupStream = backup::BackupStream;
    type LogsStream = ResponseStream<v1::LogPiece>;
    type WatchStream = ResponseStream<v1::ProcessStatus>;
    type OutputsStream = ResponseStream<v1::Part>;
    type ResultsStream = ResponseStream<v1::Part>;
    type DefinitionStream = ResponseStream<v1::Part>;
    type PlanRerunStream = ResponseStream<v1::Part>;
    type ShowStream = ResponseStream<v1::Part>;
    type DelegateStream = ResponseStream<v1::WorkReport>;

    async fn submit(&self, request: Request<v1::SubmitRequest>) -> Result<Response<v1::SubmitResponse>, Status> {
        let coordinator = self.coordinator.clone();
        let call = async move { submit::submit(&coordinator, request.into_inner()).await };
        run_to_end(call).await?.map(Response::new)
    }

    async fn plan_rerun(&self, request: Request<v1::SubmitRequest>) -> Result<Response<Self::PlanRerunStream>, Status> {
        plan_rerun::plan_rerun(&self.coordinator, request.into_inner()).await.map(Response::new)
    }

    async fn list(&self, request: Request<v1::ListRequest>) -> Result<Response<v1::ListResponse>, Status> {
        list::list(&self.coordinator, request.into_inner()).await.map(Response::new)
    }

    async fn resolve(&self, request: Request<v1::ResolveRequest>) -> Result<Response<v1::ResolveResponse>, Status> {
        resolve::resolve(&self.coordinator, request.into_inner()).await.map(Response::new)
    }

    async fn statuses(&self, request: Request<v1::StatusesRequest>) -> Result<Response<v1::StatusesResponse>, Status> {
        list::statuses(&self.coordinator, request.into_inner()).await.map(Response::new)
    }

    async fn show(&self, request: Request<v1::ShowRequest>) -> Result<Response<Self::ShowStream>, Status> {
        show::show(&self.coordinator, request.into_inner()).await.map(Response::new)
    }

    async fn logs(&self, request: Request<v1::LogsRequest>) -> Result<Response<Self::LogsStream>, Status> {
        logs::logs(&self.coordinator, request.into_inner()).await.map(Response::new)
    }

    async fn watch(&self, request: Request<v1::WatchRequest>) -> Result<Response<Self::WatchStream>, Status> {
        watch::watch(&self.coordinator, request.into_inner()).await.map(Response::new)
    }

    async fn results(&self, request: Request<v1::ResultsRequest>) -> Result<Response<Self::ResultsStream>, Status> {
        results::results(&self.coordinator, request.into_inner()).await.map(Response::new)
    }

    async fn definition(
        &self,
        request: Request<v1::DefinitionRequest>,
    ) -> Result<Response<Self::DefinitionStream>, Status> {
        definition::definition(&self.coordinator, request.into_inner()).await.map(Response::new)
    }

    async fn outputs(&self, request: Request<v1::OutputsRequest>) -> Result<Response<Self::OutputsStream>, Status> {
        outputs::outputs(&self.coordinator, request.into_inner()).await.map(Response::new)
    }

    async fn explain(&self, request: Request<v1::ExplainRequest>) -> Result<Response<v1::ExplainResponse>, Status> {
        explain::explain(&self.coordinator, request.into_inner()).await.map(Response::new)
    }

    async fn forget(&self, request: Request<v1::ForgetRequest>) -> Result<Response<v1::ForgetResponse>, Status> {
        let coordinator = self.coordinator.clone();
        let call = async move { forget::forget(&coordinator, request.into_inner()).await };
        run_to_end(call).await?.map(Response::new)
    }

    async fn backup(&self, _: Request<v1::BackupRequest>) -> Result<Response<Self::BackupStream>, Status> {
        backup::backup(&self.coordinator).await.map(Response::new)
    }

    async fn steer(&self, request: Request<v1::SteerRequest>) -> Result<Response<v1::SteerResponse>, Status> {
        let coordinator = self.coordinator.clone();
        let call = async move { steer::steer(&coordinator, request.into_inner()).await };
        run_to_end(call).await?.map(Response::new)
    }

    async fn list_types(
        &self,
        request: Request<v1::ListTypesRequest>,
    ) -> Result<Response<v1::ListTypesResponse>, Status> {
        types::list_types(&self.coordinator, request.into_inner()).await.map(Response::new)
    }

    async fn find_document(&self, request: Request<v1::FindDocumentRequest>) -> Result<Response<v1::Document>, Status> {
        types::find_document(&self.coordinator, request.into_inner()).await.map(Response::new)
    }

    async fn delegate(
        &self,
        request: Request<Streaming<v1::WorkOrder>>,
    ) -> Result<Response<Self::DelegateStream>, Status> {
        delegate::delegate(&self.coordinator, request).await.map(Response::new)
    }

    async fn moved(&self, request: Request<v1::MovedRequest>) -> Result<Response<v1::MovedResponse>, Status> {
        let coordinator = self.coordinator.clone();
        let call = async move { delegate::moved(&coordinator, request.into_inner()).await };
        run_to_end(call).await?.map(Response::new)
    }
}

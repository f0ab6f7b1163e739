//! The end of a process: its summary is stored, its files are released, its parent and its watchers learn of it.

use std::sync::Arc;

use bytes::Bytes;
use tracing::{info, warn};
use xavantes_engine::Rejection;
use xavantes_proto::{AttemptKey, v1, value};
use xavantes_repository::{Error, Store};
use xavantes_telemetry::{ProcessEnd, metrics};

use crate::clock::unix_ms;
use crate::engine_messages::{references, release_except};
use crate::memo::memo_log::MemoWrite;
use crate::memo::memo_store;
use crate::process::driver_input::ProcessInput;
use crate::process::ended_summary::{ENDED_STATES, Summary};
use crate::process::final_status::{final_results, final_status};
use crate::process::handle::ProcessMail;
use crate::process::process_history::ProcessHistory;
use crate::process::process_registry::ProcessRegistry;
use crate::process::runner::{REPOSITORY_RETRY_INTERVAL, Runner};
use crate::record_codec;
use crate::repository_calls::join_in_order;
use crate::subtrees::hosted_subtrees;
use crate::subtrees::parent_streams::Parent;
use crate::workers::handle::{Orders, PoolHandle};
use crate::workers::peer_report::reply_ended;
use crate::workers::worker_messages::Order;

impl Runner {
    /// Another coordinator runs the process. It may have ended the process before it could ask for these answers, and for
    /// those in the mailbox: this coordinator acknowledges them then.
    pub(super) async fn leave(&mut self, mut answers: Vec<(Orders, AttemptKey)>) {
        warn!(process = %self.id, "another coordinator runs this process now");
        self.processes.set_foreign(self.id.clone());
        self.mailbox.mail.close();
        while let Some(mail) = self.mailbox.mail.recv().await {
            answers.extend(mail.into_unacknowledged());
        }
        for (orders, key) in answers {
            self.processes.note_answer(&orders, &key);
        }
        if let Some(parent) = &self.parent {
            parent.leave(&self.id);
        }
        self.pool.process_lost(self.id.clone());
    }

    /// Ends the process.
    pub(super) async fn end(mut self) {
        let status = self.final_status();
        let history = self.driver.history(status.submitted_ms);
        count_end(&status);
        match self.parent.clone() {
            Some(parent) => self.end_subtree(&parent, status, &history).await,
            None => self.end_process(status, &history).await,
        }
    }

    /// Answers the parent. The journal stays until the parent has the answer; after a crash the subtree ends once more.
    async fn end_subtree(&mut self, parent: &Parent, status: v1::ProcessStatus, history: &ProcessHistory) {
        let Some((outcome, results)) = self.driver.engine().state().ended() else { return };
        let answer = hosted_subtrees::outcome(self.driver.engine().program(), self.driver.root(), outcome, results);
        let recipes = self.driver.recipes(results.values());
        let answer = hosted_subtrees::answer(parent.key(), &self.id, answer, self.driver.counts(), history, recipes);
        let answer = hosted_subtrees::with_memo(answer, self.driver.take_memo());
        let results = match &answer.outcome {
            Some(v1::answer::Outcome::Completed(completed)) => &completed.results[..],
            _ => &[],
        };
        self.pool.release(release_except(&self.id, results.iter()), self.driver.made_files());
        self.status.send_replace(status);
        if !parent.finish(answer) {
            discard(&self.repository, &self.pool, &self.processes, &self.id);
        }
        self.answer_late_mail().await;
    }

    /// Stores the summary, then publishes the end.
    async fn end_process(&mut self, status: v1::ProcessStatus, history: &ProcessHistory) {
        let (reopenable, bytes) = (self.driver.engine().state().is_reopenable(), self.driver.bytes());
        let kept = reopenable.then(|| self.stepping.work(bytes, || self.driver.snapshot()));
        let (memo, memo_bytes) = self.driver.close_memo();
        let state = self.driver.engine().state();
        let Some((outcome, results)) = state.ended() else { return };
        let results = final_results(outcome, results);
        let values = || results.iter().filter_map(|result| result.value.as_ref());
        // A process that may go on needs the files among its parameters. It can make all others again.
        let initial: Vec<v1::Value> = state.initial().iter().filter(|_| reopenable).map(value).collect();
        let release = release_except(&self.id, values().chain(&initial));
        let files: Vec<v1::Value> = values().filter(|value| !references(value).is_empty()).cloned().collect();
        let kept_bytes = kept.as_ref().map_or(0, |state| state.len() as u64) + memo_bytes;
        let summary = Summary::new(&status, results, history).with_kept_bytes(kept_bytes);
        let summary = record_codec::encode(&summary);
        loop {
            match self.store_end(summary.clone(), kept.clone(), &memo).await {
                Ok(()) => break,
                Err(Error::NotOwned(_) | Error::Unknown(_)) => return self.leave(Vec::new()).await,
                Err(error) => {
                    self.on_repository_unavailable(&error);
                    if self.mailbox.mail.is_closed() {
                        return;
                    }
                    tokio::time::sleep(REPOSITORY_RETRY_INTERVAL).await;
                }
            }
        }
        self.pool.release(release, self.driver.made_files());
        if !files.is_empty() {
            let (pinning, id) = (self.pinning.clone(), self.id.clone());
            tokio::spawn(async move { pinning.copy_home(&id, &files).await });
        }
        self.processes.remove(&self.id);
        self.status.send_replace(status);
        self.answer_late_mail().await;
    }

    /// Stores the rest of the memo, then the summary, with the last state of a process that may go on. A former owner must
    /// change neither of these two.
    async fn store_end(&self, summary: Bytes, state: Option<Bytes>, memo: &[MemoWrite]) -> Result<(), Error> {
        let mut calls = memo_store::calls(&self.repository, &self.id, memo);
        let has_state = state.is_some() || self.driver.engine().state().reopened() > 0;
        let (repository, id) = (self.repository.clone(), self.id.clone());
        calls.push(Box::pin(async move {
            match has_state {
                true => repository.close_with(&id, summary, ENDED_STATES, state).await,
                false => repository.close(&id, summary).await,
            }
        }));
        let mut results = join_in_order(calls).await;
        let closed = results.pop().unwrap_or(Ok(()));
        for error in results.into_iter().filter_map(Result::err) {
            warn!(process = %self.id, %error, "could not store what a rerun takes over");
        }
        closed
    }

    fn final_status(&self) -> v1::ProcessStatus {
        let status = self.status.borrow().clone();
        let Some((outcome, _)) = self.driver.engine().state().ended() else { return status };
        let mut status = final_status(status, outcome, self.driver.counts(), unix_ms());
        if let Some(failure) = &mut status.failure {
            self.driver.name_files(failure);
        }
        status
    }

    /// Closes the mailbox, and answers the mail that is still in it.
    async fn answer_late_mail(&mut self) {
        self.mailbox.mail.close();
        self.mailbox.requests.close();
        loop {
            let mail = match self.mailbox.requests.recv().await {
                Some(request) => request,
                None => match self.mailbox.mail.recv().await {
                    Some(mail) => mail,
                    None => return,
                },
            };
            match mail {
                ProcessMail::Show { answer, .. } => drop(answer.send(Err(Rejection::Ended))),
                ProcessMail::Called(call, orders) => {
                    let _ = orders.send(Order::Reply(reply_ended(call.ticket)));
                }
                ProcessMail::Inputs(inputs) => {
                    for input in inputs {
                        match input {
                            ProcessInput::Steered { asker, .. } | ProcessInput::StillWanted { asker, .. } => {
                                let _ = asker.send(Err(Rejection::Ended));
                            }
                            ProcessInput::Answered { key, from: Some(orders), .. }
                            | ProcessInput::Doubted { key, from: Some(orders) } => {
                                let _ = orders.send(Order::Acknowledge(key));
                            }
                            _ => {}
                        }
                    }
                }
                ProcessMail::Printed { .. } | ProcessMail::TakenOver => {}
            }
        }
    }
}

/// Removes a subtree that has ended and whose answer no parent needs.
pub(crate) fn discard(repository: &Store, pool: &PoolHandle, processes: &ProcessRegistry, id: &Arc<str>) {
    let Some(handle) = processes.find(id) else { return };
    let summary = Summary::new(&handle.status.borrow(), Vec::new(), &ProcessHistory::default());
    let summary = record_codec::encode(&summary);
    processes.remove(id);
    let (repository, pool, id) = (repository.clone(), pool.clone(), id.clone());
    tokio::spawn(async move {
        loop {
            let removed = match repository.close(&id, summary.clone()).await {
                Ok(()) | Err(Error::Unknown(_)) => repository.forget(&[id.to_string()]).await,
                Err(error) => Err(error),
            };
            match removed {
                Err(Error::Unavailable(_)) => tokio::time::sleep(REPOSITORY_RETRY_INTERVAL).await,
                Err(error) => return info!(process = %id, %error, "could not remove an ended subtree"),
                Ok(_) => {
                    let release = v1::Release { process: id.to_string(), ..v1::Release::default() };
                    return pool.release(release, true);
                }
            }
        }
    });
}

/// Counts the end of a process or subtree.
fn count_end(status: &v1::ProcessStatus) {
    let end = match status.state() {
        v1::State::Completed => ProcessEnd::Completed,
        v1::State::Failed => ProcessEnd::Failed,
        v1::State::Cancelled => ProcessEnd::Cancelled,
        _ => return,
    };
    metrics().processes_ended.of(end).inc();
}

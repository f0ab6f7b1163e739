//! Users and parents that steer the process, and calls of its shared objects.

use xavantes_engine::{Action, Input, Rejection, Time};
use xavantes_model::script::Sandbox;
use xavantes_proto::{v1, value};

use super::Driver;
use crate::cache::shown_value::HIDDEN;
use crate::engine_messages::call_from;
use crate::process::driver_input::Steering;
use crate::process::effect::ProcessEffect;

impl<C, A> Driver<C, A> {
    /// A user steers an element.
    pub(super) fn on_steered(&mut self, sandbox: &mut Sandbox, path: String, steering: Steering, by: String, asker: A) {
        let effect = match &steering {
            Steering::Engine(Action::Retry) if self.engine.retry_restarts(&path) => v1::SteerEffect::Restarts,
            Steering::Engine(Action::Retry) => v1::SteerEffect::Begins,
            Steering::Engine(_) | Steering::RetryElsewhere => v1::SteerEffect::Unspecified,
        };
        let (remark, decision) = match steering {
            Steering::Engine(action) => {
                let remark = match &action {
                    Action::Set { key, .. } if self.engine.is_secret(&path, key) => format!("set {key}={HIDDEN}"),
                    action => action.to_string(),
                };
                (remark, self.step(sandbox, Input::Steered { path: path.clone(), action }))
            }
            Steering::RetryElsewhere => ("retry --elsewhere".to_owned(), self.abandon(sandbox, &path)),
        };
        if decision.is_ok() {
            self.engine.record_intervention(path, remark, by, &mut self.output);
        }
        self.effects.push(ProcessEffect::Decide(asker, decision.map(|()| effect)));
    }

    /// A user lets the ended process go on. Nothing starts before the driver is recovered from its next snapshot.
    pub fn reopen(&mut self, sandbox: &mut Sandbox, path: String, by: String, now: Time) -> Result<(), Rejection> {
        self.now = self.now.max(now);
        self.step(sandbox, Input::Reopened { path: path.clone() })?;
        self.engine.record_intervention(path, Action::Retry.to_string(), by, &mut self.output);
        Ok(())
    }

    /// Gives up the outstanding attempt of an element without waiting for its answer.
    fn abandon(&mut self, sandbox: &mut Sandbox, path: &str) -> Result<(), Rejection> {
        let not_remote = || Rejection::NotPossible(format!("{path} does not run elsewhere").into());
        let element = self.engine.find(path)?.ok_or_else(not_remote)?;
        let view = self.engine.view(element).ok_or_else(not_remote)?;
        if !view.outstanding {
            return Err(not_remote());
        }
        let key = self.key(element, view.attempts);
        self.effects.push(ProcessEffect::Abandon(key.clone()));
        self.on_lost(sandbox, &key);
        Ok(())
    }

    /// The parent cancels this subtree.
    pub(super) fn on_parent_cancelled(&mut self, sandbox: &mut Sandbox) {
        if !self.engine.is_cancelled() {
            self.steer_root(sandbox, Action::Cancel);
        }
    }

    /// The parent pauses or resumes this subtree.
    pub(super) fn on_parent_paused(&mut self, sandbox: &mut Sandbox, paused: bool) {
        self.steer_root(sandbox, if paused { Action::Pause } else { Action::Resume });
    }

    /// Steers the whole process. The engine rejects an action that changes nothing.
    fn steer_root(&mut self, sandbox: &mut Sandbox, action: Action) {
        let _ = self.step(sandbox, Input::Steered { path: self.engine.id().to_string(), action });
    }

    /// An attempt calls a shared object.
    pub(super) fn on_called(&mut self, sandbox: &mut Sandbox, call: v1::SharedCall, from: C) {
        let ticket = call.ticket;
        let result = match call_from(call) {
            Ok(call) => match (self.step(sandbox, Input::Called(Box::new(call))), self.reply.take()) {
                (Ok(()), Some(result)) => result,
                (Err(rejection), _) => Err(rejection.to_string()),
                (Ok(()), None) => Err("the call was not answered".into()),
            },
            Err(unfit) => Err(unfit.0.to_owned()),
        };
        let result = Some(match result {
            Ok(answer) => v1::shared_reply::Result::Value(value(&answer)),
            Err(message) => v1::shared_reply::Result::Error(message),
        });
        self.effects.push(ProcessEffect::Reply(from, v1::SharedReply { ticket, result }));
    }
}

//! Calls of shared objects by attempts. A call that changes an object takes effect once, however often it is repeated, also
//! by an attempt that takes the place of a lost one.

use xavantes_model::shared_objects::{Call, Method, methods};

use crate::command::Command;
use crate::engine::Engine;
use crate::event::Event;
use crate::input::SharedCall;
use crate::rejection::Rejection;
use crate::state::instance::{CallWindow, OWN_CALLS};
use crate::step_output::StepOutput;

/// Upper bound on the answers that the engine stores for a caller which has not acknowledged them. It bounds how far a
/// caller may run ahead.
const MAX_UNACKNOWLEDGED_ANSWERS: usize = 1024;

impl Engine {
    pub(crate) fn on_called(&mut self, call: SharedCall, out: &mut StepOutput) -> Result<(), Rejection> {
        let SharedCall { element, attempt, caller, sequence, acknowledged, object, method, arguments } = call;
        let (_, running) = self.attempt_of(element, attempt)?;
        let mut reply = |result| {
            out.commands.push(Command::Reply { element, attempt, caller, sequence, result });
            Ok(())
        };
        if !self.state.objects.is_home_of(&object) {
            return reply(Err(format!("this {} belongs to another process", object.kind.type_name())));
        }
        let kind = object.kind.type_name();
        let Some((name, _, least, most)) = methods(object.kind).iter().find(|(_, known, ..)| *known == method) else {
            return reply(Err(format!("a {kind} has no method {method:?}")));
        };
        if !(*least..=*most).contains(&arguments.len()) {
            return reply(Err(format!("{kind}:{name} takes {most} arguments, got {}", arguments.len())));
        }
        let call = Call { object: object.id, method, arguments };
        if !Method::changes(method) {
            return reply(self.state.objects.call(&call));
        }
        let window = running.calls.get(&caller);
        let last = window.map_or(0, |window| window.last);
        if sequence <= last {
            let answer = window.and_then(|window| window.answers.iter().find(|(number, _)| *number == sequence));
            return match answer {
                Some((_, answer)) => reply(answer.clone()),
                None => Err(Rejection::OldCall { sequence }),
            };
        }
        if sequence != last + 1 {
            return Err(Rejection::CallGap { sequence, expected: last + 1 });
        }
        let unacknowledged =
            |window: &CallWindow| window.answers.iter().filter(|(number, _)| *number > acknowledged).count();
        if window.map_or(0, unacknowledged) >= MAX_UNACKNOWLEDGED_ANSWERS {
            return Err(Rejection::not_possible(format!(
                "more than {MAX_UNACKNOWLEDGED_ANSWERS} answers are not acknowledged"
            )));
        }
        let known = self.state.objects.remembered_answer(element.bits(), sequence, &call);
        let event = if caller == OWN_CALLS && known.is_some() {
            Event::CallRepeated { id: element, caller, sequence, acknowledged, call }
        } else {
            match self.check_budget(element, None, call.max_growth()) {
                Ok(()) => Event::Called { id: element, caller, sequence, acknowledged, call },
                // The caller numbers its next call after this one, so the journal has it.
                Err(failure) => {
                    let message = failure.message;
                    Event::CallRefused { id: element, caller, sequence, acknowledged, message }
                }
            }
        };
        self.emit(out, event);
        let (_, running) = self.attempt_of(element, attempt)?;
        if let Some((_, answer)) = running.calls.get(&caller).and_then(|window| window.answers.back()) {
            let result = answer.clone();
            out.commands.push(Command::Reply { element, attempt, caller, sequence, result });
        }
        Ok(())
    }
}

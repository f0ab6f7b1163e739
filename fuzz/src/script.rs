//! Lua that the check accepts compiles inside its wrapper, runs, and does not break out of the wrapper.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::time::Duration;

use xavantes_model::script::{Argument, Code, Form, NameUse, Port, Sandbox, ScriptLimits, check as check_code};
use xavantes_model::shared_objects::Objects;
use xavantes_model::value::Value;

/// A valid input.
pub const SAMPLE: &str =
    "local sum = 0 for i, item in ipairs(list) do sum = sum + item * 2 end out.total, text = sum, `{sum} of {n}`";

/// Up to this length a text cannot exceed the limits of Luau on nesting, locals or registers.
const SHORT_BYTES: usize = 200;
const LIMITS: ScriptLimits = ScriptLimits { steps: 2_000, memory: 4 << 20, time: Duration::from_millis(500) };
/// A value that comes out unchanged only if the wrapper is intact.
const SEAL: &str = "unbroken";

thread_local! {
    static SANDBOX: RefCell<Sandbox> = RefCell::new(Sandbox::new(LIMITS, false).expect("a sandbox"));
}

/// Checks a text as statements and as an expression.
pub fn check(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else { return };
    for form in [Form::Statements, Form::Expression] {
        match check_code(text, form) {
            Err(error) => assert!(text.get(error.at.clone()).is_some(), "not in the text: {error:?}"),
            Ok(uses) => accepted(text, form, &uses),
        }
    }
}

fn accepted(text: &str, form: Form, uses: &[NameUse]) {
    for it in uses {
        assert_eq!(text.get(it.at.clone()), Some(it.name.as_str()), "{it:?}");
        if let Some((field, at)) = &it.field {
            assert_eq!(text.get(at.clone()), Some(field.as_str()), "{it:?}");
        }
        assert!(it.read || it.write, "{it:?}");
    }
    let seal = (0..).map(|i| format!("seal{i}")).find(|name| !text.contains(name.as_str())).expect("a free name");
    let names: BTreeSet<&str> = uses.iter().map(|it| it.name.as_str()).chain([seal.as_str()]).collect();
    if names.len() > 150 {
        return;
    }
    let inputs: Vec<Port> = names.iter().map(|name| Port { name: (*name).into(), field: None }).collect();
    let sealed = [Port { name: seal.as_str().into(), field: None }];
    let code = match form {
        Form::Statements => Code::statements(text, 1, &inputs, &sealed),
        Form::Expression => Code::expressions(&[text, &seal], 1, &inputs),
    };
    if let Err(error) = code.verify() {
        assert!(text.len() > SHORT_BYTES, "accepted, but {error:?}");
        return;
    }
    let values: Vec<Value> =
        names.iter().map(|name| if *name == seal { Value::from(SEAL) } else { Value::Null }).collect();
    let outcome = SANDBOX.with_borrow_mut(|sandbox| {
        sandbox.run(&code, values.iter().map(Argument::Value), &mut Objects::new("fuzz".into()))
    });
    if let Ok((values, _)) = outcome {
        let expected = if form == Form::Statements { 1 } else { 2 };
        assert_eq!(values.len(), expected, "out of the wrapper");
        assert_eq!(values.last(), Some(&Value::from(SEAL)), "out of the wrapper");
    }
}

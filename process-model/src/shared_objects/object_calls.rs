//! The methods of shared objects, and calls of them.

use serde::{Deserialize, Serialize};

use crate::diagnostic::did_you_mean;
use crate::value::{SharedKind, Value};

/// A method of shared objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)] // The language reference documents each method under the same name.
pub enum Method {
    Size,
    Contains,
    Values,
    Keys,
    Get,
    Add,
    Remove,
    Append,
    Pop,
    Put,
    PutIfAbsent,
    Set,
    Clear,
}

/// A method of a kind: name in code, method, least and greatest number of arguments.
pub type MethodSignature = (&'static str, Method, usize, usize);

/// Returns the methods of a kind of shared objects.
pub fn methods(kind: SharedKind) -> &'static [MethodSignature] {
    use Method as M;
    match kind {
        SharedKind::Set => &[
            ("size", M::Size, 0, 0),
            ("contains", M::Contains, 1, 1),
            ("values", M::Values, 0, 0),
            ("add", M::Add, 1, 1),
            ("remove", M::Remove, 1, 1),
            ("clear", M::Clear, 0, 0),
        ],
        SharedKind::List => &[
            ("size", M::Size, 0, 0),
            ("values", M::Values, 0, 0),
            ("get", M::Get, 1, 1),
            ("append", M::Append, 1, 1),
            ("set", M::Set, 2, 2),
            ("pop", M::Pop, 0, 0),
            ("clear", M::Clear, 0, 0),
        ],
        SharedKind::Map => &[
            ("size", M::Size, 0, 0),
            ("contains", M::Contains, 1, 1),
            ("keys", M::Keys, 0, 0),
            ("values", M::Values, 0, 0),
            ("get", M::Get, 1, 1),
            ("put", M::Put, 2, 2),
            ("putIfAbsent", M::PutIfAbsent, 2, 2),
            ("add", M::Add, 1, 2),
            ("remove", M::Remove, 1, 1),
            ("clear", M::Clear, 0, 0),
        ],
        SharedKind::Counter => &[("get", M::Get, 0, 0), ("add", M::Add, 0, 1), ("set", M::Set, 1, 1)],
    }
}

impl Method {
    /// Returns the method called `name`, if the kind has it.
    pub fn find(kind: SharedKind, name: &str) -> Option<Method> {
        methods(kind).iter().find(|(known, ..)| *known == name).map(|(_, method, ..)| *method)
    }

    /// True if a call may change the object.
    pub fn changes(self) -> bool {
        !matches!(self, Method::Size | Method::Contains | Method::Values | Method::Keys | Method::Get)
    }
}

/// Finds the method that a call names, and checks the number of its arguments.
pub fn called_method(kind: SharedKind, name: &str, arguments: usize) -> Result<Method, String> {
    let known = kind.type_name();
    let Some((_, method, least, most)) = methods(kind).iter().find(|(method, ..)| *method == name) else {
        let hint = did_you_mean(name, methods(kind).iter().map(|(method, ..)| *method));
        return Err(format!(
            "a {known} has no method {name:?}{}",
            hint.map_or(String::new(), |hint| format!("; {hint}"))
        ));
    };
    if !(*least..=*most).contains(&arguments) {
        let expected = if least == most { least.to_string() } else { format!("{least} to {most}") };
        return Err(format!("{known}:{name} takes {expected} arguments, got {arguments}"));
    }
    Ok(*method)
}

/// A call of a method of a shared object.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Call {
    /// Number of the object in its home process.
    pub object: u64,
    /// Called method.
    pub method: Method,
    /// Arguments in order.
    pub arguments: Vec<Value>,
}

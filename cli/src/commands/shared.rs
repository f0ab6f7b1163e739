//! `xavantes shared`: calls of shared objects by a program that runs as an activity.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;

use clap::Args;
use serde_json::{Value as Json, json};

use crate::exit::Exit;
use crate::output::printer::Output;
use crate::output::terminal;
use crate::report::shared_value::SharedValue;

/// The variable that names the socket of the worker.
const SOCKET_VARIABLE: &str = "XAVANTES_SHARED";

#[derive(Args)]
#[command(after_help = "Examples:\n  xavantes shared primes add 7\n  xavantes shared primes size\n  \
                  xavantes shared table put '\"7\"' '[1, 2]'")]
pub(crate) struct SharedArgs {
    /// Name of a parameter of the activity whose value is a shared object
    #[arg(required_unless_present = "stream")]
    pub object: Option<String>,
    /// Method of the object, such as add, size or values
    #[arg(required_unless_present = "stream")]
    pub method: Option<String>,
    /// Arguments of the method: JSON, anything else is text
    #[arg(allow_hyphen_values = true, trailing_var_arg = true)]
    pub arguments: Vec<String>,
    /// Pass calls from standard input to the worker and its answers to standard output, one JSON object per line
    #[arg(long, conflicts_with = "object")]
    pub stream: bool,
}

pub(crate) fn shared(arguments: SharedArgs, output: Output) -> Result<Exit, Exit> {
    let Some(path) = std::env::var_os(SOCKET_VARIABLE) else {
        terminal::error(&format!(
            "there are no shared objects here: this command is for programs that run as an activity with a shared object \
             among its parameters ({SOCKET_VARIABLE} is not set)"
        ));
        return Err(Exit::Usage);
    };
    let mut worker = UnixStream::connect(&path).map(WorkerSocket::new).map_err(|error| lost(&error))?;
    if arguments.stream {
        return worker.relay();
    }
    let read = |text: String| serde_json::from_str(&text).unwrap_or(Json::String(text));
    let given: Vec<Json> = arguments.arguments.into_iter().map(read).collect();
    let call = json!({ "object": arguments.object, "method": arguments.method, "arguments": given });
    let answer = worker.ask(&format!("{call}\n"))?;
    let mut answer: Json = serde_json::from_str(&answer).map_err(|error| lost(&error.into()))?;
    if let Some(problem) = answer["error"].as_str() {
        terminal::error(problem);
        return Err(Exit::Failed);
    }
    Ok(output.report(&SharedValue { value: with_plain_integers(answer["value"].take()) }))
}

/// The value with all integers as JSON numbers. The worker sends large ones as text. serde_json refuses documents that nest
/// deeper than 128, which bounds the recursion.
fn with_plain_integers(value: Json) -> Json {
    match value {
        Json::Array(items) => items.into_iter().map(with_plain_integers).collect(),
        Json::Object(members) => {
            let integer =
                members.get("$int").filter(|_| members.len() == 1).and_then(|text| text.as_str()?.parse().ok());
            let plain = |(key, item)| (key, with_plain_integers(item));
            integer.map_or_else(|| Json::Object(members.into_iter().map(plain).collect()), |number: i64| number.into())
        }
        other => other,
    }
}

/// The connection to the worker.
struct WorkerSocket {
    stream: UnixStream,
    answers: Option<BufReader<UnixStream>>,
}

impl WorkerSocket {
    fn new(stream: UnixStream) -> Self {
        let answers = stream.try_clone().ok().map(BufReader::new);
        Self { stream, answers }
    }

    /// Sends a line and returns the line that answers it.
    fn ask(&mut self, line: &str) -> Result<String, Exit> {
        let mut answer = String::new();
        let answers = self.answers.as_mut().ok_or_else(|| lost(&std::io::ErrorKind::NotConnected.into()))?;
        let asked = self.stream.write_all(line.as_bytes()).and_then(|()| answers.read_line(&mut answer));
        match asked {
            Ok(0) => Err(lost(&std::io::ErrorKind::UnexpectedEof.into())),
            Ok(_) => Ok(answer),
            Err(error) => Err(lost(&error)),
        }
    }

    /// Passes on calls until there are no more.
    fn relay(&mut self) -> Result<Exit, Exit> {
        let mut line = String::new();
        loop {
            line.clear();
            match std::io::stdin().lock().read_line(&mut line) {
                Ok(0) => return Ok(Exit::Success),
                Ok(_) if !line.ends_with('\n') => line.push('\n'),
                Ok(_) => {}
                Err(error) => return Err(lost(&error)),
            }
            let answer = self.ask(&line)?;
            let mut stdout = std::io::stdout().lock();
            if stdout.write_all(answer.as_bytes()).and_then(|()| stdout.flush()).is_err() {
                return Ok(Exit::Success);
            }
        }
    }
}

fn lost(error: &std::io::Error) -> Exit {
    terminal::error(&format!("cannot reach the worker: {error}; its activity may have ended"));
    Exit::Unreachable
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_integers_are_printed_as_numbers() {
        let sent =
            json!([{ "$int": "9007199254740993" }, { "a": { "$int": "-9007199254740993" } }, { "$bytes": "00" }]);
        let expected = json!([9_007_199_254_740_993_i64, { "a": -9_007_199_254_740_993_i64 }, { "$bytes": "00" }]);
        assert_eq!(with_plain_integers(sent), expected);
    }
}

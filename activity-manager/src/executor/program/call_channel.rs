//! The channel on which a program calls its shared objects: a Unix socket in the directory of its attempt. Each line is a call
//! as a JSON object, `{"object": …, "method": …, "arguments": […]}`, and gets a line as its answer, `{"value": …}` or
//! `{"error": …}`. The object is a number from the values of the program, or the name of a parameter.

use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Value as Json, json};
use tokio::net::UnixListener;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;
use xavantes_model::diagnostic::did_you_mean;
use xavantes_model::shared_objects::called_method;
use xavantes_model::value::{SharedRef, Value};
use xavantes_proto::v1;

use super::program_values::ProgramObjects;
use crate::attempt_failure::{AttemptFailure, failure, worker_failure};
use crate::attempts::job::Job;
use crate::executor::host::ActivityHost;
use crate::executor::shared_calls::SharedCalls;

/// Upper bound on the line of a call.
const MAX_LINE_BYTES: u64 = 64 << 20;
/// Upper bound on the open connections of one program, each of which has a thread. Further ones wait.
const MAX_CONNECTIONS: usize = 64;
/// Upper bound of the system on the path of a socket.
const MAX_SOCKET_PATH_BYTES: usize = 107;

/// The open channel of an attempt. Dropping it closes all connections.
pub(super) struct CallChannel {
    path: PathBuf,
    callers: Arc<Callers>,
    accepting: JoinHandle<()>,
}

/// What all connections of an attempt share.
struct Callers {
    host: Arc<dyn ActivityHost>,
    job: Arc<Job>,
    objects: Arc<Mutex<ProgramObjects>>,
    /// The lock orders the calls of all connections. `None` when the attempt has ended.
    calls: Mutex<Option<SharedCalls>>,
    /// The open connections, by number, to close them at the end.
    connections: Mutex<HashMap<u64, UnixStream>>,
}

impl CallChannel {
    pub fn open(
        path: PathBuf,
        host: &Arc<dyn ActivityHost>,
        job: &Arc<Job>,
        objects: &Arc<Mutex<ProgramObjects>>,
    ) -> Result<Self, AttemptFailure> {
        let length = path.as_os_str().len();
        if length > MAX_SOCKET_PATH_BYTES {
            let message = format!(
                "programs cannot call shared objects on this node: the path of their socket would have {length} bytes, the \
                 system allows {MAX_SOCKET_PATH_BYTES}; give the node a data directory with a shorter path"
            );
            return Err(failure(v1::FailureKind::Worker, message));
        }
        let unopened = |error: io::Error| worker_failure("cannot open the socket for shared objects", &error);
        let listener = UnixListener::bind(&path).map_err(unopened)?;
        let callers = Arc::new(Callers {
            host: host.clone(),
            job: job.clone(),
            objects: objects.clone(),
            calls: Mutex::new(Some(SharedCalls::default())),
            connections: Mutex::default(),
        });
        let accepting = tokio::spawn(accept(listener, callers.clone()));
        Ok(Self { path, callers, accepting })
    }

    /// Closes the channel after the call that is under way, if there is one: the answer of the attempt must not overtake it.
    pub async fn close(self) {
        let _ = std::fs::remove_file(&self.path);
        let callers = self.callers.clone();
        drop(self);
        // Waiting fails only when the runtime shuts down.
        let _ = tokio::task::spawn_blocking(move || *callers.calls.lock() = None).await;
    }
}

impl Drop for CallChannel {
    fn drop(&mut self) {
        self.accepting.abort();
        for connection in self.callers.connections.lock().values() {
            let _ = connection.shutdown(Shutdown::Both);
        }
    }
}

async fn accept(listener: UnixListener, callers: Arc<Callers>) {
    let free = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    for number in 0.. {
        let Ok(permit) = free.clone().acquire_owned().await else { return };
        let Ok((stream, _)) = listener.accept().await else { return };
        if let Err(error) = callers.clone().start(number, stream, permit) {
            tracing::warn!(%error, "could not serve the calls of a program");
        }
    }
}

impl Callers {
    /// Serves a connection in a thread: each step of a call between threads would cost more than the call.
    fn start(
        self: Arc<Self>,
        number: u64,
        stream: tokio::net::UnixStream,
        permit: OwnedSemaphorePermit,
    ) -> io::Result<()> {
        let stream = stream.into_std()?;
        stream.set_nonblocking(false)?;
        self.connections.lock().insert(number, stream.try_clone()?);
        let callers = self.clone();
        let started = std::thread::Builder::new().name("shared-calls".into()).spawn(move || {
            // The program is gone if it reads no answer.
            let _ = callers.serve(&stream);
            callers.connections.lock().remove(&number);
            drop(permit);
        });
        started.map(drop).inspect_err(|_| drop(self.connections.lock().remove(&number)))
    }

    /// Answers the calls of a connection until it ends.
    fn serve(&self, stream: &UnixStream) -> io::Result<()> {
        let (mut reader, mut writer) = (BufReader::new(stream), stream);
        let mut line = Vec::new();
        loop {
            line.clear();
            let count = reader.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut line)?;
            let is_whole = line.last() == Some(&b'\n');
            let answer = match is_whole {
                true => self.answer(&line),
                false if count as u64 == MAX_LINE_BYTES => {
                    Err(format!("a call has more than {} MiB", MAX_LINE_BYTES >> 20))
                }
                false => return Ok(()),
            };
            let answer = match answer {
                Ok(value) => json!({ "value": value }),
                Err(message) => json!({ "error": message }),
            };
            writer.write_all(format!("{answer}\n").as_bytes())?;
            if !is_whole {
                return Ok(());
            }
        }
    }

    fn answer(&self, line: &[u8]) -> Result<Json, String> {
        let mut call: Json = serde_json::from_slice(line).map_err(|error| format!("the call is not JSON: {error}"))?;
        let object = self.object(&call["object"])?;
        let name = call["method"].as_str().ok_or("the call has no \"method\"")?.to_owned();
        let arguments = match call["arguments"].take() {
            Json::Null => Vec::new(),
            Json::Array(arguments) => arguments,
            _ => return Err("the \"arguments\" of the call are not a list".into()),
        };
        let method = called_method(object.kind, &name, arguments.len())?;
        let arguments: Vec<Value> = {
            let objects = self.objects.lock();
            arguments.into_iter().map(|argument| objects.decode(argument)).collect::<Result<_, _>>()?
        };
        let answer = match &mut *self.calls.lock() {
            Some(calls) => calls.call(&*self.host, &self.job, &object, method, &arguments),
            None => Err("the activity has ended".into()),
        };
        let value = answer.map_err(|message| format!("{}:{name}: {message}", object.kind.type_name()))?;
        self.objects.lock().encode(&value)
    }

    /// The object that a call names.
    fn object(&self, named: &Json) -> Result<SharedRef, String> {
        let unknown = || "this shared object is unknown here".to_owned();
        match named {
            Json::Number(number) => {
                number.as_u64().and_then(|number| self.objects.lock().get(number).cloned()).ok_or_else(unknown)
            }
            Json::String(name) => {
                let given = self.job.activity().parameters.iter().zip(&self.job.parameters);
                let shared = given.filter_map(|(variable, value)| match value {
                    Value::Shared(object) => Some((&*variable.name, object)),
                    _ => None,
                });
                let shared: Vec<(&str, &SharedRef)> = shared.collect();
                let found = shared.iter().find(|(known, _)| known == name).map(|(_, object)| (*object).clone());
                found.ok_or_else(|| {
                    let names = || shared.iter().map(|(name, _)| *name);
                    let hint = did_you_mean(name, names())
                        .unwrap_or_else(|| format!("there are {}", names().collect::<Vec<_>>().join(", ")));
                    format!("this activity has no shared object {name:?}; {hint}")
                })
            }
            _ => Err("the call has no \"object\": a name or a number".into()),
        }
    }
}

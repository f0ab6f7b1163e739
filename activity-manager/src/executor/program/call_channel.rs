//! The channel on which a program calls its shared objects: a Unix socket in the directory of its attempt. Each line is a call
//! as a JSON object, `{"object": …, "method": …, "arguments": […]}`, and gets a line as its answer, `{"value": …}` or
//! `{"error": …}`. The object is a number from the values of the program, or the name of a parameter.

use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use rustix::process::{Resource, getrlimit};
use serde_json::{Value as Json, json};
use tokio::net::UnixListener;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};
use tokio::task::JoinHandle;
use xavantes_model::diagnostic::did_you_mean;
use xavantes_model::shared_objects::called_method;
use xavantes_model::value::{SharedRef, Value};
use xavantes_proto::{MAX_PAYLOAD_BYTES, v1};

use super::call_line::{CallHead, CalledObject, read_arguments};
use super::program_values::ProgramObjects;
use crate::attempt_failure::{AttemptFailure, failure, worker_failure};
use crate::attempts::job::Job;
use crate::executor::host::ActivityHost;
use crate::executor::shared_calls::SharedCalls;

/// Upper bound on the line of a call: what a call may carry.
const MAX_LINE_BYTES: usize = MAX_PAYLOAD_BYTES;
/// A call with a longer line waits for its turn among the large calls of the node.
const SMALL_LINE_BYTES: usize = 16 << 10;
/// Upper bound on the large calls that the programs of this node make at once.
const MAX_LARGE_CALLS: usize = 2;
/// A large call must arrive, and a program must take an answer, within this time.
const TRANSFER_TIMEOUT: Duration = Duration::from_secs(60);
/// Upper bound on the open connections of one program, each of which has a thread.
const MAX_CONNECTIONS: usize = 1024;
/// Upper bound on the open connections of all programs of this node.
const MAX_NODE_CONNECTIONS: usize = 4096;
/// Stack of the thread of a connection.
const STACK_BYTES: usize = 512 << 10;
/// A refused program must ask within this time to read why.
const REFUSAL_TIMEOUT: Duration = Duration::from_secs(10);
/// Pause after an error of `accept`.
const ERROR_PAUSE: Duration = Duration::from_millis(100);
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
    connections: Mutex<HashMap<u64, Arc<UnixStream>>>,
    /// Orders the large calls of all connections.
    large: Mutex<()>,
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
            large: Mutex::default(),
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

/// The connections that the programs of this node may still open.
static FREE_CONNECTIONS: Semaphore = Semaphore::const_new(MAX_NODE_CONNECTIONS);

/// The turns of large calls: the memory for their lines and values is bounded for the whole node.
static LARGE_CALLS: LargeCalls = LargeCalls { free: Mutex::new(MAX_LARGE_CALLS), freed: Condvar::new() };

struct LargeCalls {
    free: Mutex<usize>,
    freed: Condvar,
}

/// The turn of a large call.
struct LargeCallTurn;

impl LargeCallTurn {
    fn wait() -> Self {
        let mut free = LARGE_CALLS.free.lock();
        LARGE_CALLS.freed.wait_while(&mut free, |free| *free == 0);
        *free -= 1;
        Self
    }
}

impl Drop for LargeCallTurn {
    fn drop(&mut self) {
        *LARGE_CALLS.free.lock() += 1;
        LARGE_CALLS.freed.notify_one();
    }
}

/// The permits of a connection: of its program and of the node.
type ConnectionPermits = (OwnedSemaphorePermit, SemaphorePermit<'static>);

async fn accept(listener: UnixListener, callers: Arc<Callers>) {
    // The node needs most of its descriptors for other things.
    let files = getrlimit(Resource::Nofile).current.map_or(usize::MAX, |files| files.try_into().unwrap_or(usize::MAX));
    let most = MAX_CONNECTIONS.min(files / 8).max(1);
    let (free, refusals) = (Arc::new(Semaphore::new(most)), Arc::new(Semaphore::new(most)));
    for number in 0.. {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection of a program");
                tokio::time::sleep(ERROR_PAUSE).await;
                continue;
            }
        };
        let permits: Result<ConnectionPermits, String> =
            match (free.clone().try_acquire_owned(), FREE_CONNECTIONS.try_acquire()) {
                (Ok(own), Ok(node)) => Ok((own, node)),
                (Err(_), _) => Err(format!("this program has {most} connections for shared objects already")),
                (_, Err(_)) => Err(format!(
                    "the programs of this node have {MAX_NODE_CONNECTIONS} connections for shared objects already"
                )),
            };
        match permits {
            Ok(permits) => {
                if let Err(error) = callers.clone().start(number, stream, permits) {
                    tracing::warn!(%error, "could not serve the calls of a program");
                }
            }
            Err(why) => {
                if let Ok(permit) = refusals.clone().try_acquire_owned() {
                    tokio::spawn(async move {
                        refuse(&stream, &why).await;
                        drop(permit);
                    });
                }
            }
        }
    }
}

/// Answers the first call of a connection with an error. The program would not read the error if the connection closed before
/// the call.
async fn refuse(stream: &tokio::net::UnixStream, why: &str) {
    let _ = tokio::time::timeout(REFUSAL_TIMEOUT, await_call(stream)).await;
    let answer = json!({ "error": why });
    // The buffer of a new connection has room.
    let _ = stream.try_write(format!("{answer}\n").as_bytes());
}

/// Waits until a call begins, or the connection ends.
async fn await_call(stream: &tokio::net::UnixStream) -> io::Result<()> {
    loop {
        stream.readable().await?;
        match stream.try_read(&mut [0; SMALL_LINE_BYTES]) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            read => return read.map(drop),
        }
    }
}

impl Callers {
    /// Serves a connection in a thread: each step of a call between threads would cost more than the call.
    fn start(
        self: Arc<Self>,
        number: u64,
        stream: tokio::net::UnixStream,
        permits: ConnectionPermits,
    ) -> io::Result<()> {
        let stream = stream.into_std()?;
        stream.set_nonblocking(false)?;
        stream.set_write_timeout(Some(TRANSFER_TIMEOUT))?;
        let stream = Arc::new(stream);
        self.connections.lock().insert(number, stream.clone());
        let (callers, served) = (self.clone(), stream.clone());
        let thread = std::thread::Builder::new().name("shared-calls".into()).stack_size(STACK_BYTES);
        let started = thread.spawn(move || {
            // The program is gone if it reads no answer.
            let _ = callers.serve(&served);
            callers.connections.lock().remove(&number);
            drop(permits);
        });
        started.map(drop).inspect_err(|error| {
            self.connections.lock().remove(&number);
            let answer = json!({ "error": format!("the worker cannot serve this connection: {error}") });
            let _ = (&*stream).write_all(format!("{answer}\n").as_bytes());
        })
    }

    /// Answers the calls of a connection until it ends.
    fn serve(&self, stream: &UnixStream) -> io::Result<()> {
        let mut reader = BufReader::new(stream);
        let mut line = Vec::new();
        loop {
            line.clear();
            line.shrink_to(SMALL_LINE_BYTES);
            reader.by_ref().take(SMALL_LINE_BYTES as u64).read_until(b'\n', &mut line)?;
            if line.last() == Some(&b'\n') {
                self.reply(stream, |calls| self.answer(calls, &line))?;
            } else if line.len() == SMALL_LINE_BYTES {
                // One of each program, so that no program takes all turns.
                let _own_turn = self.large.lock();
                let _turn = LargeCallTurn::wait();
                if let Err(problem) = read_rest(&mut reader, stream, &mut line)? {
                    return self.reply(stream, |_| Err(problem));
                }
                self.reply(stream, |calls| self.answer(calls, &line))?;
            } else {
                return Ok(());
            }
        }
    }

    /// Makes a call and writes its answer. Both need the lock: so each program has one answer at a time in memory.
    fn reply(
        &self,
        stream: &UnixStream,
        call: impl FnOnce(&mut Option<SharedCalls>) -> Result<Json, String>,
    ) -> io::Result<()> {
        let mut calls = self.calls.lock();
        let answer = match call(&mut calls) {
            Ok(value) => json!({ "value": value }),
            Err(message) => json!({ "error": message }),
        };
        let mut writer = BufWriter::new(stream);
        serde_json::to_writer(&mut writer, &answer)?;
        writer.write_all(b"\n")?;
        writer.flush()
    }

    fn answer(&self, calls: &mut Option<SharedCalls>, line: &[u8]) -> Result<Json, String> {
        let head = CallHead::read(line)?;
        let object = self.object(head.object)?;
        let name = head.method.ok_or("the call has no \"method\"")?;
        let method = called_method(object.kind, &name, head.arguments)?;
        let arguments: Vec<Value> = match head.arguments {
            0 => Vec::new(),
            _ => {
                let objects = self.objects.lock();
                read_arguments(line)?.into_iter().map(|argument| objects.decode(argument)).collect::<Result<_, _>>()?
            }
        };
        let answer = match calls {
            Some(calls) => calls.call(&*self.host, &self.job, &object, method, &arguments),
            None => Err("the activity has ended".into()),
        };
        let value = answer.map_err(|message| format!("{}:{name}: {message}", object.kind.type_name()))?;
        self.objects.lock().encode(&value)
    }

    /// The object that a call names.
    fn object(&self, named: Option<CalledObject>) -> Result<SharedRef, String> {
        let unknown = || "this shared object is unknown here".to_owned();
        match named {
            Some(CalledObject::Number(number)) => self.objects.lock().get(number).cloned().ok_or_else(unknown),
            Some(CalledObject::Name(name)) => {
                let given = self.job.activity().parameters.iter().zip(&self.job.parameters);
                let shared = given.filter_map(|(variable, value)| match value {
                    Value::Shared(object) => Some((&*variable.name, object)),
                    _ => None,
                });
                let shared: Vec<(&str, &SharedRef)> = shared.collect();
                let found = shared.iter().find(|(known, _)| *known == name).map(|(_, object)| (*object).clone());
                found.ok_or_else(|| {
                    let names = || shared.iter().map(|(name, _)| *name);
                    let hint = did_you_mean(&name, names())
                        .unwrap_or_else(|| format!("there are {}", names().collect::<Vec<_>>().join(", ")));
                    format!("this activity has no shared object {name:?}; {hint}")
                })
            }
            None => Err("the call has no \"object\": a name or a number".into()),
        }
    }
}

/// Reads the rest of a long line. The inner error is for the program; the connection ends then.
fn read_rest(reader: &mut impl BufRead, stream: &UnixStream, line: &mut Vec<u8>) -> io::Result<Result<(), String>> {
    let deadline = Instant::now() + TRANSFER_TIMEOUT;
    let late = || Ok(Err(format!("the call took more than {} s to arrive", TRANSFER_TIMEOUT.as_secs())));
    loop {
        let remaining = deadline.saturating_duration_since(Instant::now());
        if remaining.is_zero() {
            return late();
        }
        stream.set_read_timeout(Some(remaining))?;
        let available = match reader.fill_buf() {
            Ok([]) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(available) => available,
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => return late(),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let end = memchr::memchr(b'\n', available);
        let used = end.map_or(available.len(), |end| end + 1);
        line.extend_from_slice(&available[..used]);
        reader.consume(used);
        if end.is_some() {
            stream.set_read_timeout(None)?;
            return Ok(Ok(()));
        }
        if line.len() >= MAX_LINE_BYTES {
            return Ok(Err(format!("a call has more than {} MiB", MAX_LINE_BYTES >> 20)));
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test]
    async fn a_refused_program_reads_why() {
        let (server, mut program) = tokio::net::UnixStream::pair().expect("the system has sockets");
        let refusing = tokio::spawn(async move { refuse(&server, "too many").await });
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        program.write_all(b"{}\n").await.expect("the connection is open");
        let mut answer = String::new();
        program.read_to_string(&mut answer).await.expect("the connection is open");
        assert_eq!(answer, "{\"error\":\"too many\"}\n");
        refusing.await.expect("it does not panic");
    }
}

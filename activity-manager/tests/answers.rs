//! An activity manager on the wire: which attempts and answers coordinators see after they, or the manager, restart.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Channel, Server};
use v1::answer::Outcome;
use xavantes_activity_manager::attempts::admission::Load;
use xavantes_activity_manager::{Options, ProgramOptions, Service};
use xavantes_proto::programs::program_digest;
use xavantes_proto::v1::activity_manager_client::ActivityManagerClient;
use xavantes_proto::v1::activity_manager_server::ActivityManagerServer;
use xavantes_proto::{Assembler, MAX_MESSAGE_BYTES, MAX_PART_BYTES, MAX_PAYLOAD_BYTES, pack, v1, value_from};

/// A test that waits longer than this hangs.
const TEST_TIMEOUT: Duration = Duration::from_secs(120);

const TYPES: &str = r#"<XAVANTES VERSION="1">
  <ACTIVITY_TYPE NAME="One">
    <OUT_PARAMETER TYPE="int" NAME="result"/>
    <CODE LANGUAGE="lua">result = 1</CODE>
  </ACTIVITY_TYPE>
  <ACTIVITY_TYPE NAME="Twice">
    <INOUT_PARAMETER TYPE="string" NAME="text"/>
    <CODE LANGUAGE="lua">text = text .. text</CODE>
  </ACTIVITY_TYPE>
  <ACTIVITY_TYPE NAME="Nap">
    <CODE LANGUAGE="command"><ARG>sleep</ARG><ARG>1000</ARG></CODE>
  </ACTIVITY_TYPE>
  <ACTIVITY_TYPE NAME="Echo">
    <OUT_PARAMETER TYPE="string" NAME="stdout"/>
    <CODE LANGUAGE="command"><ARG>echo</ARG><ARG>1</ARG></CODE>
  </ACTIVITY_TYPE>
  <ACTIVITY_TYPE NAME="Chatter">
    <CODE LANGUAGE="lua">for number = 1, 5000 do print(number) end</CODE>
  </ACTIVITY_TYPE>
</XAVANTES>
"#;
const ONE: u32 = 0;
const TWICE: u32 = 1;
const NAP: u32 = 2;
const ECHO: u32 = 3;
const CHATTER: u32 = 4;

/// A manager on a runtime of its own, so that a test can end it at any moment.
struct Manager {
    address: String,
    service: Service,
    runtime: Option<Runtime>,
}

impl Manager {
    async fn start(folder: Option<&Path>, slots: u32) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        let runtime = runtime.expect("threads start");
        let folder = folder.map(Path::to_owned);
        let serving = runtime.spawn(async move {
            let files = tempfile::tempdir().expect("the disk has space");
            let store = xavantes_files::FileStore::open(files.path(), 1 << 20).expect("the store opens");
            let options = || Options {
                node: "worker".into(),
                slots,
                queue: 8,
                folder: folder.clone(),
                tags: BTreeSet::new(),
                files: xavantes_files::Fetcher::new(store.clone(), ""),
                sources: xavantes_files::Sources::new(store.clone(), Vec::new()),
                address: String::new(),
                programs: ProgramOptions::default(),
            };
            // The former manager may still hold the folder.
            let service = loop {
                match Service::open(options()) {
                    Ok(service) => break service,
                    Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
                }
            };
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
            let address = listener.local_addr().expect("the listener has an address").to_string();
            let server = ActivityManagerServer::new(service.clone())
                .max_decoding_message_size(MAX_MESSAGE_BYTES)
                .max_encoding_message_size(MAX_MESSAGE_BYTES);
            tokio::spawn(Server::builder().add_service(server).serve_with_incoming(TcpIncoming::from(listener)));
            (address, service)
        });
        let (address, service) = tokio::time::timeout(TEST_TIMEOUT, serving)
            .await
            .expect("the former manager releases the folder")
            .expect("the manager starts");
        Self { address, service, runtime: Some(runtime) }
    }

    async fn restart(self, folder: &Path, slots: u32) -> Self {
        drop(self);
        Self::start(Some(folder), slots).await
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// A coordinator that the test controls.
struct Coordinator {
    orders: mpsc::Sender<v1::WorkOrder>,
    reports: Streaming<v1::WorkReport>,
    parts: Assembler<v1::WorkReport>,
    hello: v1::WorkerHello,
    printed: Vec<String>,
    answers: Vec<v1::Answer>,
}

fn types_documents() -> Vec<v1::Document> {
    vec![v1::Document { name: "types.xml".into(), text: TYPES.into() }]
}

fn types_digest() -> String {
    program_digest(&types_documents())
}

impl Coordinator {
    async fn connect(manager: &Manager, node: &str, realm: &str) -> Self {
        let channel = Channel::from_shared(format!("http://{}", manager.address)).expect("the address is valid");
        let channel = channel.connect().await.expect("the manager listens");
        let (orders, receiver) = mpsc::channel(16);
        let hello = v1::CoordinatorHello {
            node: node.into(),
            group: "g".into(),
            realm: realm.into(),
            ..v1::CoordinatorHello::default()
        };
        let documents = types_documents();
        let program = v1::Program { digest: program_digest(&documents), documents };
        let first = v1::WorkOrder { hello: Some(hello), programs: vec![program], ..v1::WorkOrder::default() };
        orders.send(first).await.expect("the channel is open");
        let client = ActivityManagerClient::new(channel);
        let client = client.max_decoding_message_size(MAX_MESSAGE_BYTES).max_encoding_message_size(MAX_MESSAGE_BYTES);
        let reports =
            { client }.work(ReceiverStream::new(receiver)).await.expect("the manager accepts the stream").into_inner();
        let parts = Assembler::new(MAX_PAYLOAD_BYTES + MAX_PART_BYTES);
        let (printed, answers) = (Vec::new(), Vec::new());
        let mut it = Self { orders, reports, parts, hello: v1::WorkerHello::default(), printed, answers };
        it.hello = it.report().await.and_then(|report| report.hello).expect("the first report has a hello");
        it
    }

    async fn order(&self, order: v1::WorkOrder) {
        for part in pack(order) {
            self.orders.send(part).await.expect("the stream is open");
        }
    }

    async fn jobs(&self, jobs: Vec<v1::Job>) {
        self.order(v1::WorkOrder { jobs, ..v1::WorkOrder::default() }).await;
    }

    async fn acknowledge(&self, element: u64) {
        self.order(v1::WorkOrder { acknowledged: vec![id(element)], ..v1::WorkOrder::default() }).await;
    }

    /// The next complete report; `None` at the end of the stream.
    async fn report(&mut self) -> Option<v1::WorkReport> {
        loop {
            let next =
                tokio::time::timeout(TEST_TIMEOUT, self.reports.message()).await.expect("a report arrives in time");
            match self.parts.unpack(next.expect("the stream is open")?).expect("the parts fit together") {
                None => {}
                Some(report) => return Some(report),
            }
        }
    }

    /// The next answer.
    async fn answer(&mut self) -> (u64, Outcome) {
        while self.answers.is_empty() {
            let report = self.report().await.expect("the stream is open");
            self.printed.extend(report.printed.into_iter().map(|printed| printed.line));
            self.answers.extend(report.answers);
        }
        let answer = self.answers.remove(0);
        (answer.id.expect("an answer has an id").element, answer.outcome.expect("an answer has an outcome"))
    }

    /// Claims the process. Returns the attempts that run and those that are answered.
    async fn claim(&mut self) -> (Vec<v1::AttemptId>, Vec<v1::AttemptId>) {
        self.order(v1::WorkOrder {
            claims: vec![v1::Claim { process: "p".into(), epoch: 1 }],
            ..v1::WorkOrder::default()
        })
        .await;
        loop {
            let report = self.report().await.expect("the stream is open");
            self.answers.extend(report.answers);
            if let Some(known) = report.known {
                assert_eq!(known.processes, ["p"]);
                return (known.running, known.answered);
            }
        }
    }
}

fn id(element: u64) -> v1::AttemptId {
    v1::AttemptId { process: "p".into(), element, attempt: 1 }
}

fn job(element: u64, activity: u32) -> v1::Job {
    v1::Job { id: Some(id(element)), program: types_digest(), activity, ..v1::Job::default() }
}

fn completed(outcome: Outcome) -> String {
    match outcome {
        Outcome::Completed(mut completed) => {
            value_from(completed.results.remove(0)).expect("the result is a value").to_string()
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn answers_survive_a_restart_until_they_are_acknowledged() {
    let folder = tempfile::tempdir().expect("the disk has space");
    let manager = Manager::start(Some(folder.path()), 2).await;
    let mut coordinator = Coordinator::connect(&manager, "a", "r").await;
    coordinator.jobs(vec![job(1, ONE), job(2, NAP)]).await;
    assert!(matches!(coordinator.answer().await, (1, Outcome::Completed(_))));
    for _ in 0..2 {
        let manager = Manager::start(None, 1).await;
        let other = Coordinator::connect(&manager, "a", "r").await;
        assert!(
            other.hello.running.is_empty() && other.hello.answered.is_empty(),
            "without a folder answers end with the manager"
        );
    }
    let manager = manager.restart(folder.path(), 2).await;
    let mut coordinator = Coordinator::connect(&manager, "a", "r").await;
    // The running attempt is lost.
    assert_eq!((&coordinator.hello.running[..], &coordinator.hello.answered[..]), (&[][..], &[id(1)][..]));
    let (element, outcome) = coordinator.answer().await;
    assert_eq!((element, completed(outcome)), (1, "1".into()));
    coordinator.acknowledge(1).await;
    assert_eq!(coordinator.claim().await, (vec![], vec![]));
    let manager = manager.restart(folder.path(), 2).await;
    let coordinator = Coordinator::connect(&manager, "a", "r").await;
    assert!(coordinator.hello.running.is_empty() && coordinator.hello.answered.is_empty());
    assert_eq!(manager.service.impaired(), None);
}

#[tokio::test]
async fn a_claim_moves_answers_to_the_new_coordinator_even_across_a_restart() {
    let folder = tempfile::tempdir().expect("the disk has space");
    let manager = Manager::start(Some(folder.path()), 2).await;
    let mut a = Coordinator::connect(&manager, "a", "r").await;
    a.jobs(vec![job(1, ONE), job(2, NAP)]).await;
    assert!(matches!(a.answer().await, (1, Outcome::Completed(_))));
    drop(a);
    let mut stranger = Coordinator::connect(&manager, "b", "another").await;
    assert_eq!(stranger.claim().await, (vec![], vec![]));
    let mut b = Coordinator::connect(&manager, "b", "r").await;
    assert!(b.hello.running.is_empty() && b.hello.answered.is_empty());
    assert_eq!(b.claim().await, (vec![id(2)], vec![id(1)]));
    assert!(matches!(b.answer().await, (1, Outcome::Completed(_))));
    // The new owner decides about all attempts of the process.
    b.order(v1::WorkOrder { cancels: vec![id(2)], ..v1::WorkOrder::default() }).await;
    assert!(matches!(b.answer().await, (2, Outcome::Cancelled(_))));
    b.acknowledge(2).await;
    assert_eq!(b.claim().await, (vec![], vec![id(1)]));
    let manager = manager.restart(folder.path(), 2).await;
    let a = Coordinator::connect(&manager, "a", "r").await;
    assert!(a.hello.answered.is_empty());
    let b = Coordinator::connect(&manager, "b", "r").await;
    assert_eq!(b.hello.answered, [id(1)]);
}

#[tokio::test]
async fn a_coordinator_that_changes_its_realm_disowns_its_attempts() {
    let folder = tempfile::tempdir().expect("the disk has space");
    let manager = Manager::start(Some(folder.path()), 2).await;
    let mut a = Coordinator::connect(&manager, "a", "r").await;
    let mut b = Coordinator::connect(&manager, "b", "r").await;
    a.jobs(vec![job(1, ONE), job(2, NAP)]).await;
    assert!(matches!(a.answer().await, (1, Outcome::Completed(_))));
    b.jobs(vec![job(3, ONE)]).await;
    assert!(matches!(b.answer().await, (3, Outcome::Completed(_))));
    let a = Coordinator::connect(&manager, "a", "s").await;
    assert!(a.hello.running.is_empty() && a.hello.answered.is_empty());
    let free = async {
        while manager.service.load() != Load::default() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(TEST_TIMEOUT, free).await.expect("running attempts are stopped");
    // The other coordinator of the realm keeps its attempts, and finds none of the first coordinator.
    assert_eq!(b.claim().await, (vec![], vec![id(3)]));
    let manager = manager.restart(folder.path(), 2).await;
    assert!(Coordinator::connect(&manager, "a", "r").await.hello.answered.is_empty());
    assert_eq!(Coordinator::connect(&manager, "b", "r").await.hello.answered, [id(3)]);
}

#[tokio::test]
async fn large_values_arrive_complete() {
    let folder = tempfile::tempdir().expect("the disk has space");
    let manager = Manager::start(Some(folder.path()), 1).await;
    let mut coordinator = Coordinator::connect(&manager, "a", "r").await;
    let text = "0123456789".repeat(1 << 20);
    let large = |element, text: &str| {
        let parameters = vec![v1::Value { kind: Some(v1::value::Kind::Text(text.into())) }];
        v1::Job { parameters, ..job(element, TWICE) }
    };
    coordinator.jobs(vec![large(1, &text), job(2, ONE)]).await;
    let (element, outcome) = coordinator.answer().await;
    assert!((element, completed(outcome)) == (1, text.repeat(2)), "the result differs from the parameter");
    assert_eq!(coordinator.answer().await.0, 2);
    // This result is too large for an answer.
    coordinator.jobs(vec![large(3, &text.repeat(4))]).await;
    let (3, Outcome::Failed(failure)) = coordinator.answer().await else { panic!("the attempt fails") };
    assert!(failure.message.contains("too large"), "{failure:?}");
    coordinator.acknowledge(2).await;
    coordinator.acknowledge(3).await;
    assert_eq!(coordinator.claim().await, (vec![], vec![id(1)]));
    let manager = manager.restart(folder.path(), 1).await;
    let mut coordinator = Coordinator::connect(&manager, "a", "r").await;
    assert_eq!(coordinator.hello.answered, [id(1)]);
    let (element, outcome) = coordinator.answer().await;
    assert!((element, completed(outcome)) == (1, text.repeat(2)), "the result differs from the parameter");
}

#[tokio::test]
async fn a_command_starts_when_a_script_frees_the_slot() {
    let manager = Manager::start(None, 1).await;
    let mut coordinator = Coordinator::connect(&manager, "a", "r").await;
    // The manager handles an order as a whole, so the second job must wait.
    coordinator.jobs(vec![job(1, ONE), job(2, ECHO), job(3, ONE), job(4, ECHO)]).await;
    for element in 1..=4 {
        let (answered, outcome) = coordinator.answer().await;
        assert_eq!((answered, completed(outcome)), (element, "1".into()));
    }
}

#[tokio::test]
async fn printed_lines_arrive_before_the_answer() {
    let manager = Manager::start(None, 1).await;
    let mut coordinator = Coordinator::connect(&manager, "a", "r").await;
    coordinator.jobs(vec![job(1, CHATTER)]).await;
    assert!(matches!(coordinator.answer().await, (1, Outcome::Completed(_))));
    let expected: Vec<String> = (1..=5000).map(|number| number.to_string()).collect();
    assert_eq!(coordinator.printed, expected);
}

#[tokio::test]
async fn orders_on_an_older_stream_have_no_effect() {
    let manager = Manager::start(None, 1).await;
    let mut former = Coordinator::connect(&manager, "a", "r").await;
    let mut coordinator = Coordinator::connect(&manager, "a", "r").await;
    // The older stream may be closed already.
    let late = v1::WorkOrder { jobs: vec![job(1, NAP)], ..v1::WorkOrder::default() };
    let _ = former.orders.send(late).await;
    assert_eq!(former.report().await, None);
    tokio::time::timeout(TEST_TIMEOUT, former.orders.closed()).await.expect("the manager closes the older stream");
    assert_eq!(coordinator.claim().await, (vec![], vec![]));
}

#[tokio::test]
async fn draining_waits_until_answers_are_durable() {
    let folder = tempfile::tempdir().expect("the disk has space");
    let manager = Manager::start(Some(folder.path()), 1).await;
    let mut coordinator = Coordinator::connect(&manager, "a", "r").await;
    coordinator.jobs(vec![job(1, ONE)]).await;
    // The attempt has arrived; it may run or have an answer.
    let (running, answered) = coordinator.claim().await;
    assert_eq!([running, answered].concat(), [id(1)]);
    manager.service.drain(TEST_TIMEOUT, async {}).await;
    assert_eq!((manager.service.busy(), manager.service.waiting()), (0, 0));
    drop(coordinator);
    let manager = manager.restart(folder.path(), 1).await;
    assert_eq!(Coordinator::connect(&manager, "a", "r").await.hello.answered, [id(1)]);
}

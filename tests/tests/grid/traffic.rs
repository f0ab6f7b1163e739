//! What crosses between groups for a subtree does not grow with what the subtree does.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::json;
use xavantes_tests::{Grid, free_address, until};

use crate::delegation::delegated;
use crate::kit::{assert_counts, busy, document, group};

const TOTAL: &str = r#"
  <PROCESS_TYPE NAME="Total">
    <IN_PARAMETER TYPE="int" NAME="count"/>
    <OUT_PARAMETER TYPE="int" NAME="sum"/>
    <BODY>
      <PROCESS TYPE="Part" NAME="part" DELEGATE="always" count="${count}"/>
      <POST_CODE>sum = part.sum</POST_CODE>
    </BODY>
  </PROCESS_TYPE>
  <PROCESS_TYPE NAME="Part">
    <IN_PARAMETER TYPE="int" NAME="count"/>
    <OUT_PARAMETER TYPE="int" NAME="sum"/>
    <BODY>
      <PARFOR NAME="each" TO="${count}" COLLECT="one.result" DELEGATE="never">
        <ITERATE><ACTIVITY TYPE="One" NAME="one" n="${counter}"/></ITERATE>
      </PARFOR>
      <POST_CODE>sum = 0 for _, number in each.results do sum += number end</POST_CODE>
    </BODY>
  </PROCESS_TYPE>
  <ACTIVITY_TYPE NAME="One">
    <IN_PARAMETER TYPE="int" NAME="n"/>
    <OUT_PARAMETER TYPE="int" NAME="result"/>
    <CODE LANGUAGE="lua">result = 2 * n</CODE>
  </ACTIVITY_TYPE>"#;

/// What stands between two nodes: it passes on what comes in, counts it, and can be cut.
struct Proxy {
    address: String,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    there: AtomicU64,
    back: AtomicU64,
    cut: AtomicBool,
    open: Mutex<Vec<TcpStream>>,
}

impl Proxy {
    fn new(to: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("there are free ports");
        let address = listener.local_addr().expect("it has an address").to_string();
        let shared = Arc::new(Shared::default());
        let proxy = Self { address, shared: shared.clone() };
        std::thread::spawn(move || {
            for from in listener.incoming().flatten() {
                let _ = shared.connect(from, &to);
            }
        });
        proxy
    }

    /// Bytes that went to the other side, and back.
    fn traffic(&self) -> (u64, u64) {
        (self.shared.there.load(Ordering::SeqCst), self.shared.back.load(Ordering::SeqCst))
    }

    /// Breaks all connections, and lets none through until it is mended.
    fn cut(&self) {
        self.shared.cut.store(true, Ordering::SeqCst);
        for stream in self.shared.open.lock().expect("nobody panics with it").drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    fn mend(&self) {
        self.shared.cut.store(false, Ordering::SeqCst);
    }
}

impl Shared {
    fn connect(self: &Arc<Self>, from: TcpStream, to: &str) -> std::io::Result<()> {
        if self.cut.load(Ordering::SeqCst) {
            return Ok(());
        }
        let to = TcpStream::connect(to)?;
        let (from_too, to_too) = (from.try_clone()?, to.try_clone()?);
        self.open.lock().expect("nobody panics with it").extend([from.try_clone()?, to.try_clone()?]);
        let (there, back) = (self.clone(), self.clone());
        std::thread::spawn(move || pass(from, to, &there.there));
        std::thread::spawn(move || pass(to_too, from_too, &back.back));
        Ok(())
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream, count: &AtomicU64) {
    let _ = to.set_nodelay(true);
    let mut buffer = [0; 16 << 10];
    while let Ok(bytes @ 1..) = from.read(&mut buffer) {
        count.fetch_add(bytes as u64, Ordering::SeqCst);
        if to.write_all(&buffer[..bytes]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}

/// Groups a and b; only what a's coordinator and b's say to each other goes through the proxy, because b's manager has a
/// node of its own. Gives the addresses of a, and of b's coordinator and manager.
fn groups(grid: &mut Grid) -> (Proxy, String, String, String) {
    let a = grid.group("a", &[], &[]);
    let (manager, coordinator) = (free_address(), free_address());
    let proxy = Proxy::new(coordinator.clone());
    grid.start("b/manager", &manager, &["--roles", "group-manager", "--adjacent", &a]);
    let roles = ["--roles", "process-coordinator", "--join", &manager, "--advertise", &proxy.address];
    grid.start("b/main", &coordinator, &roles);
    grid.worker("b/w1", &manager, &["--slots", "4"]);
    grid.wait_for_nodes(&manager, 3);
    until("a knows b", 10, || group(grid, &a, "b").filter(|it| it["coordinators"] == 1 && it["free_slots"] != 0));
    (proxy, a, coordinator, manager)
}

#[test]
fn what_crosses_between_groups_does_not_grow_with_the_activities_of_a_subtree() {
    let mut grid = Grid::new();
    let (proxy, a, ..) = groups(&mut grid);
    let file = grid.write("total.xml", &document(TOTAL));
    let run = |count: u64| {
        let before = proxy.traffic();
        let process = grid.submit(&a, &file, &[&format!("count={count}")]);
        let ended = grid.end(&a, &process);
        assert_eq!(ended["results"]["sum"], json!(count * (count + 1)), "{ended}");
        assert_counts(&ended, count);
        // The last word of the conversation may still be on its way.
        let mut last = proxy.traffic();
        until("the wire is silent", 5, || {
            let silent = proxy.traffic() == last;
            last = proxy.traffic();
            silent.then_some(())
        });
        (last.0 - before.0, last.1 - before.1)
    };
    // The first ones carry the program, or run at home because the roster does not name the other group yet.
    until("it is delegated", 10, || (run(10) != (0, 0)).then_some(()));
    let (few, many) = (run(10), run(1000));
    assert!(few.0 > 0 && few.1 > 0, "{few:?}");
    assert!(2 * many.0 < 3 * few.0, "to the other group: {few:?} bytes for 10, {many:?} for 1000");
    assert!(2 * many.1 < 3 * few.1, "and back: {few:?} bytes for 10, {many:?} for 1000");
}

/// As `Naps`, but all in a part that goes to another coordinator.
const AWAY: &str = r#"
  <PROCESS_TYPE NAME="Away">
    <IN_PARAMETER TYPE="int" NAME="count"/>
    <IN_PARAMETER TYPE="string" NAME="time"/>
    <OUT_PARAMETER TYPE="list" NAME="numbers"/>
    <BODY>
      <PARFOR NAME="each" TO="${count}" COLLECT="counter" DELEGATE="always">
        <ITERATE><ACTIVITY TYPE="Nap" NAME="nap" time="${time}"/></ITERATE>
      </PARFOR>
      <POST_CODE>numbers = each.results</POST_CODE>
    </BODY>
  </PROCESS_TYPE>"#;

#[test]
fn a_subtree_goes_on_while_its_coordinator_is_cut_off_and_hears_afterwards_what_it_missed() {
    let mut grid = Grid::new();
    let (proxy, a, coordinator, manager) = groups(&mut grid);
    let file = grid.write("away.xml", &document(AWAY));
    let start = |count: &str, time: &str| {
        let process = delegated(&grid, &a, &file, &[count, time], "each");
        let inside = format!("{process}/each");
        until("it has begun", 10, || (busy(&grid, &manager) >= 4).then_some(()));
        (process, inside)
    };
    let there = |inside: &str| grid.status(&coordinator, inside);

    // It ends while nobody can be told.
    let (process, inside) = start("count=8", "time=0.5");
    proxy.cut();
    until("it ends", 10, || (there(&inside)["state"] == "completed").then_some(()));
    assert_eq!(grid.status(&a, &process)["state"], "running");
    proxy.mend();
    let ended = grid.end(&a, &process);
    assert_eq!(ended["results"]["numbers"], json!([1, 2, 3, 4, 5, 6, 7, 8]), "{ended}");
    assert_counts(&ended, 8);

    // It is paused, and then cancelled, while it cannot hear of it.
    let (process, inside) = start("count=100", "time=0.5");
    proxy.cut();
    grid.cli(&a, &["pause", &process]).ok();
    assert_eq!(there(&inside)["state"], "running");
    proxy.mend();
    until("it is paused", 10, || (there(&inside)["state"] == "paused").then_some(()));
    proxy.cut();
    grid.cli(&a, &["cancel", &process]).ok();
    assert_ne!(grid.status(&a, &process)["state"], "cancelled", "it ends when everything in it has");
    proxy.mend();
    assert_eq!(grid.cli(&a, &["wait", &process]).code, 4);
    until("nothing is left over", 10, || (busy(&grid, &manager) == 0).then_some(()));
}

#[test]
fn a_subtree_whose_coordinator_is_lost_begins_again_when_it_is_back() {
    let mut grid = Grid::new();
    let (proxy, a, coordinator, manager) = groups(&mut grid);
    let file = grid.write("away.xml", &document(AWAY));
    let process = delegated(&grid, &a, &file, &["count=16", "time=0.7"], "each");
    until("some have completed", 10, || {
        let completed = grid.status(&coordinator, &format!("{process}/each"))["activities"]["completed"].as_u64();
        completed.filter(|completed| *completed > 4)
    });
    grid.kill("b/main");
    // What the worker still runs has ids that soon come again, for other iterations.
    let roles = ["--roles", "process-coordinator", "--join", &manager, "--advertise", &proxy.address];
    grid.start("b/main", &coordinator, &roles);
    let ended = grid.end(&a, &process);
    assert_eq!(ended["results"]["numbers"], json!((1..=16).collect::<Vec<_>>()), "{ended}");
    assert_counts(&ended, 16);
}

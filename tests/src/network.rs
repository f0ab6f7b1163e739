//! Networks of this machine's own, in which nodes see only what a network between them lets through.

use std::process::{Command, Stdio};

/// Two local networks. In each, programs reach each other at 127.0.0.1; from one to the other leads one line, on which each
/// has an address.
pub struct Networks {
    names: [String; 2],
}

impl Networks {
    /// Makes them; nothing where that is not possible, which is told.
    pub fn make() -> Option<Self> {
        let names = ["a", "b"].map(|side| format!("xavantes-{}-{side}", std::process::id()));
        let networks = Self { names };
        let [a, b] = &networks.names;
        let made = ip(&["netns", "add", a])
            && ip(&["netns", "add", b])
            && ip(&["-n", a, "link", "add", "line", "type", "veth", "peer", "name", "line", "netns", b])
            && [0, 1].into_iter().all(|side| {
                let name = networks.name(side);
                ip(&["-n", name, "addr", "add", &format!("{}/24", networks.host(side)), "dev", "line"])
                    && ip(&["-n", name, "link", "set", "line", "up"])
                    && ip(&["-n", name, "link", "set", "lo", "up"])
            });
        if !made {
            eprintln!("SKIPPED: networks of their own cannot be made here, so nothing is tested between them");
        }
        made.then_some(networks)
    }

    /// What one of them is called.
    pub fn name(&self, side: usize) -> &str {
        &self.names[side]
    }

    /// Where it is reached from the other.
    pub fn host(&self, side: usize) -> String {
        format!("10.77.34.{}", side + 1)
    }
}

impl Drop for Networks {
    fn drop(&mut self) {
        for name in &self.names {
            ip(&["netns", "del", name]);
        }
    }
}

fn ip(arguments: &[&str]) -> bool {
    let quiet = Stdio::null;
    Command::new("ip").args(arguments).stdout(quiet()).stderr(quiet()).status().is_ok_and(|status| status.success())
}

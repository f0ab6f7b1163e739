//! Network namespaces of this machine, so that nodes reach only the nodes that their network connects.

use std::process::{Command, Stdio};

/// Two networks with one link between them. Programs in the same network reach each other at 127.0.0.1, programs in the other
/// network at the address of the link.
pub struct Networks {
    names: [String; 2],
}

impl Networks {
    /// Creates the networks. Returns nothing, and prints a note, where that is not possible.
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
            eprintln!("SKIPPED: network namespaces cannot be created here, so tests between networks do not run");
        }
        made.then_some(networks)
    }

    /// The name of a network.
    pub fn name(&self, side: usize) -> &str {
        &self.names[side]
    }

    /// The address at which a network is reached from the other one.
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

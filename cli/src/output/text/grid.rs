//! The grid, and commands that change something: those print nothing.

use xavantes_model::load::MIN_HASH_DIGITS;

use super::text_table::table;
use crate::output::printer::Report;
use crate::output::terminal::Stream;
use crate::report::grid::{ACTIVITY_MANAGER, GroupList, Health, NodeList, SourceList, TypeList};
use crate::report::silent_action::{Drained, Forgotten, Migrated, SourceChange, Steered};

impl Report for NodeList {
    fn text(&self) -> String {
        let rows = self.nodes.iter().map(|node| {
            let (running, queued) = match node.roles.contains(&ACTIVITY_MANAGER) {
                true => (format!("{}/{}", node.running, node.slots), node.queued.to_string()),
                false => ("-".into(), "-".into()),
            };
            vec![
                node.node.clone(),
                node.address.clone(),
                node.roles.join(","),
                running,
                queued,
                node.processes.to_string(),
                match node.state {
                    "lost" => format!("lost, silent for {} s", node.silent_ms / 1000),
                    state => state.to_owned(),
                },
            ]
        });
        table(&["NODE", "ADDRESS", "ROLES", "RUNNING", "QUEUED", "PROCESSES", "STATE"], rows)
    }
}

impl Report for GroupList {
    fn text(&self) -> String {
        let rows = self.groups.iter().map(|group| {
            vec![
                group.group.clone(),
                group.hops.to_string(),
                group.workers.to_string(),
                format!("{}/{}", group.free_slots, group.slots),
                group.coordinators.to_string(),
                group.managers.join(","),
            ]
        });
        table(&["GROUP", "HOPS", "WORKERS", "FREE", "COORDINATORS", "MANAGERS"], rows)
    }
}

impl Report for TypeList {
    fn text(&self) -> String {
        let rows = self.types.iter().map(|it| {
            let hash = it.hash.chars().take(MIN_HASH_DIGITS).collect();
            vec![it.name.clone(), it.kind.to_owned(), hash, it.document.clone()]
        });
        table(&["TYPE", "KIND", "HASH", "DOCUMENT"], rows)
    }
}

impl Report for SourceList {
    fn text(&self) -> String {
        table(&["SOURCE", "PLACE"], self.sources.iter().map(|(name, uri)| vec![name.clone(), uri.clone()]))
    }
}

impl Report for Health {
    fn text(&self) -> String {
        self.state.to_owned()
    }
}

impl Report for Steered {
    const TEXT_STREAM: Stream = Stream::Stderr;

    fn text(&self) -> String {
        match self.effect {
            Some("restarts") => format!("{} was running: it is stopped, and begins anew\n", self.path),
            Some("goes_on") => format!("{} goes on with what has not completed\n", self.path),
            _ => String::new(),
        }
    }
}

impl Report for Forgotten {
    fn text(&self) -> String {
        String::new()
    }
}

impl Report for Drained {
    fn text(&self) -> String {
        String::new()
    }
}

impl Report for SourceChange {
    fn text(&self) -> String {
        String::new()
    }
}

impl Report for Migrated {
    fn text(&self) -> String {
        self.steps.join("\n")
    }
}

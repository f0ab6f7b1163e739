//! `xavantes node`: one node of a grid until it is told to stop.

use tokio::signal::unix::{SignalKind, signal};
use tracing::info;
use xavantes_node::{Config, Node};

use crate::Exit;
use crate::args::NodeArgs;
use crate::report::{complain, print};

pub(crate) async fn node(arguments: NodeArgs) -> Exit {
    let print_config = arguments.print_config;
    let config = match configure(arguments) {
        Ok(config) => config,
        Err(message) => return complain(&message),
    };
    if print_config {
        return match toml::to_string(&config) {
            Ok(text) => print(&text),
            Err(error) => complain(&error.to_string()),
        };
    }
    let (Ok(mut terminate), Ok(mut interrupt)) = (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        complain("cannot listen for signals");
        return Exit::Failed;
    };
    let node = match Node::start(config, None).await {
        Ok(node) => node,
        Err(error) => return complain(&error.to_string()),
    };
    tokio::select! {
        _ = terminate.recv() => info!("told to stop"),
        _ = interrupt.recv() => info!("told to stop"),
        () = node.drain_wanted() => info!("told to drain"),
    }
    tokio::select! {
        () = node.shut_down() => {}
        // Asked again: at once.
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    Exit::Success
}

/// The file, then what the environment and the flags say, which clap has put in this order.
fn configure(arguments: NodeArgs) -> Result<Config, String> {
    let mut config = match &arguments.config {
        None => Config::default(),
        Some(file) => {
            let shown = file.display();
            let text = std::fs::read_to_string(file).map_err(|error| format!("cannot read {shown}: {error}"))?;
            toml::from_str(&text).map_err(|error| format!("{shown}: {error}"))?
        }
    };
    fn set<T>(setting: &mut T, given: Option<T>) {
        if let Some(given) = given {
            *setting = given;
        }
    }
    if arguments.queue.is_none()
        && let Some(slots) = arguments.slots
    {
        config.queue = config.queue.max(slots.saturating_mul(2));
    }
    set(&mut config.name, arguments.name);
    set(&mut config.group, arguments.group);
    set(&mut config.roles, arguments.roles);
    set(&mut config.listen, arguments.listen);
    config.advertise = arguments.advertise.or(config.advertise);
    set(&mut config.join, arguments.join);
    set(&mut config.adjacent, arguments.adjacent);
    set(&mut config.foreign_groups, arguments.foreign_groups);
    config.foreign_slots = arguments.foreign_slots.or(config.foreign_slots);
    set(&mut config.slots, arguments.slots);
    set(&mut config.queue, arguments.queue);
    set(&mut config.tags, arguments.tags);
    set(&mut config.drain_seconds, arguments.drain_seconds);
    Ok(config)
}

//! `xavantes node`: one node of a grid until it is told to stop.

use tokio::signal::unix::{SignalKind, signal};
use tracing::info;
use xavantes_node::{Config, Node, Unusable, is_database};

use crate::Exit;
use crate::args::{Format, MigrateArgs, NodeArgs};
use crate::report::{complain, print};

pub(crate) async fn node(arguments: NodeArgs) -> Exit {
    let print_config = arguments.print_config;
    let mut config = match configure(arguments) {
        Ok(config) => config,
        Err(message) => return complain(&message),
    };
    if print_config {
        config.data_dir = config.folder().ok().flatten();
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
        Err(error) => return refused(&error),
    };
    tokio::select! {
        _ = terminate.recv() => info!("told to stop"),
        _ = interrupt.recv() => info!("told to stop"),
        () = node.drain_wanted() => info!("told to drain"),
    }
    let emergency = node.emergency();
    tokio::select! {
        () = node.shut_down() => {}
        // Asked again: at once.
        _ = terminate.recv() => emergency(),
        _ = interrupt.recv() => emergency(),
    }
    Exit::Success
}

/// Tells why a node did not start, and which exit code that is.
pub(crate) fn refused(error: &xavantes_node::Error) -> Exit {
    complain(&error.to_string());
    match error {
        xavantes_node::Error::Repository(xavantes_repository::Error::Unavailable(_)) => Exit::Unreachable,
        _ => Exit::Usage,
    }
}

/// `xavantes repository migrate`.
pub(crate) async fn migrate(arguments: MigrateArgs, format: Format) -> Exit {
    if !is_database(&arguments.repository) {
        return complain(&Unusable::Repository.to_string());
    }
    match xavantes_repository::migrate(&arguments.repository).await {
        Ok(steps) if format == Format::Json => print(&serde_json::json!({ "steps": steps }).to_string()),
        Ok(steps) => print(&steps.join("\n")),
        Err(error) => refused(&error.into()),
    }
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
    config.data_dir = arguments.data_dir.or(config.data_dir);
    set(&mut config.in_memory, arguments.in_memory);
    config.repository = arguments.repository.or(config.repository);
    set(&mut config.retention_days, arguments.retention_days);
    set(&mut config.retention_mib, arguments.retention_mib);
    set(&mut config.reuse_mib, arguments.reuse_mib);
    set(&mut config.files_mib, arguments.files_mib);
    config.memory_mib = arguments.memory_mib.or(config.memory_mib);
    set(&mut config.gpus, arguments.gpus);
    set(&mut config.grace_seconds, arguments.grace_seconds);
    set(&mut config.keep_failed, arguments.keep_failed);
    set(&mut config.pass_environment, arguments.pass_environment);
    config.containers = arguments.containers.or(config.containers);
    set(&mut config.cgroups, arguments.cgroups);
    set(&mut config.log_mib, arguments.log_mib);
    set(&mut config.logs_mib, arguments.logs_mib);
    set(&mut config.logs_days, arguments.logs_days);
    config.check().map_err(|unusable| unusable.to_string())?;
    Ok(config)
}

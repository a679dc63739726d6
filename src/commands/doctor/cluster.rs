//! Checks the cluster by reading its database, without joining it.

use secrecy::ExposeSecret as _;

use super::report::{fault, warning};
use crate::commands::cluster::tasks::nodes::most_common;
use crate::startup::node_name;
use aetheel_cluster::{Cluster, DatabaseStatus, Node, Skew, Tables, read_identity};
use aetheel_discord::bot_id_of;
use aetheel_model::finding::Finding;
use aetheel_model::plain::counted;
use aetheel_settings::Config;

/// Hint if two machines have the same name.
const RENAME: &str = "give this one another `NODE_NAME`";

/// Checks the database and the nodes, if a cluster is configured.
pub(super) async fn examine(config: &Config, offline: bool) -> Vec<Finding> {
    let Some(url) = &config.cluster_url else { return Vec::new() };
    if Cluster::check_url(url.expose_secret()).is_err() {
        return Vec::new();
    }
    if offline {
        return vec![Finding::ok("cluster", "not asked: --offline")];
    }
    let look = match Cluster::inspect(url.expose_secret()).await {
        Ok(look) => look,
        Err(error) => {
            let hint =
                "without it no node can serve: check CLUSTER_URL, the server and the network";
            return vec![fault("cluster database", error.to_string(), hint)];
        }
    };
    let mut found = vec![database(&look), clock(&look), tables(look.tables)];
    let bot = config.discord_bot_token.as_ref().and_then(|token| bot_id_of(token.expose_secret()));
    let of_bot = |node: &&Node| bot.is_none_or(|bot| node.bot == bot);
    let nodes: Vec<&Node> = look.nodes.iter().filter(of_bot).collect();
    if matches!(look.tables, Tables::Current | Tables::Newer(_) | Tables::None) {
        found.push(check_name(config, &nodes));
        found.extend(live_nodes(&nodes));
        found.extend(abandoned_nodes(&nodes));
    }
    found
}

fn database(look: &DatabaseStatus) -> Finding {
    let says = format!("PostgreSQL {}", look.server);
    match look.is_supported {
        true => Finding::ok("cluster database", says),
        false => fault("cluster database", says, "14 or newer is needed: upgrade the server"),
    }
}

fn clock(look: &DatabaseStatus) -> Finding {
    let about = "cluster clock";
    let says = format!("differs from the database's clock by {} s", look.clock_skew.as_secs());
    let hint = "set both by NTP (`timedatectl set-ntp true`)";
    match look.skew() {
        Skew::Negligible => Finding::ok(about, "agrees with the database"),
        Skew::Warning => warning(about, says, hint),
        Skew::Refused => fault(about, format!("{says}: this node cannot join"), hint),
    }
}

fn tables(tables: Tables) -> Finding {
    let about = "cluster tables";
    match tables {
        Tables::None => Finding::ok(about, "none yet: the first node creates them"),
        Tables::Current => Finding::ok(about, "have this version"),
        Tables::Older(form) => Finding::ok(
            about,
            format!(
                "have an older version (form {form}): the next start of this node upgrades them"
            ),
        ),
        Tables::Newer(form) => Finding::ok(
            about,
            format!("have a newer version (form {form}) that works with this one"),
        ),
        Tables::TooNew(form) => fault(
            about,
            format!("have a newer version (form {form}) that does not work with this one"),
            "upgrade this node",
        ),
    }
}

/// Checks that no other machine uses the name of this one.
fn check_name(config: &Config, nodes: &[&Node]) -> Finding {
    let name = node_name(config);
    let about = format!("node {name}");
    let own = match read_identity(&config.config_dir) {
        Ok(own) => own,
        Err(error) => {
            let says = format!("cannot read the identity of this machine: {error}");
            return fault(about, says, "make state/node.md readable");
        }
    };
    let Some(node) = nodes.iter().find(|node| node.name == name) else {
        return Finding::ok(about, "the name is free");
    };
    match (own.as_deref() == Some(&node.identity), node.lease_ms > 0) {
        (true, true) => Finding::ok(about, "this machine, which is running"),
        (true, false) => Finding::ok(about, "this machine, which is not running"),
        (false, true) => fault(about, "another running machine has this name", RENAME),
        (false, false) => warning(
            about,
            "another machine had this name, and this one would continue its work",
            format!("this is correct if this machine replaces it; otherwise {RENAME}"),
        ),
    }
}

/// Lists the running nodes, and warns if their configuration or components differ.
fn live_nodes(nodes: &[&Node]) -> Vec<Finding> {
    let living: Vec<&&Node> = nodes.iter().filter(|node| node.lease_ms > 0).collect();
    let names: Vec<&str> = living.iter().map(|node| node.name.as_str()).collect();
    let says = match names.is_empty() {
        true => "no node is running".to_owned(),
        false => format!("{} running: {}", names.len(), names.join(", ")),
    };
    let mut found = vec![Finding::ok("cluster nodes", says)];
    found.extend(differing(
        &living,
        |node| &node.load.files,
        "its config/ differs from most nodes'",
        "make the files equal, so that all nodes answer alike",
    ));
    found.extend(differing(
        &living,
        |node| &node.load.components,
        "its backends differ from most nodes'",
        "run `aetheel backend install` with the same file, or with `--locked` and the same backends.lock.md, on each node",
    ));
    found
}

fn differing(
    living: &[&&Node],
    digest: fn(&Node) -> &str,
    says: &str,
    hint: &str,
) -> impl Iterator<Item = Finding> {
    let usual = most_common(living.iter().map(|node| digest(node)));
    let others = living.iter().filter(move |node| Some(digest(node)) != usual);
    others.map(move |node| warning(format!("node {}", node.name), says, hint))
}

/// Warns about nodes that are gone and whose channels no other node took over.
fn abandoned_nodes(nodes: &[&Node]) -> Vec<Finding> {
    let some_work = nodes.iter().any(|node| node.lease_ms > 0);
    let abandoned = nodes.iter().filter(|node| node.lease_ms <= 0 && node.work.has_something);
    let found = abandoned.map(|node| {
        let says = format!(
            "gone for {} s; no node serves its {}",
            -node.lease_ms / 1_000,
            counted(node.work.lanes, "channel")
        );
        let hint = match some_work {
            true => "a running node takes over within seconds: check its log and `aetheel nodes`",
            false => "start it, or any other node",
        };
        warning(format!("node {}", node.name), says, hint)
    });
    found.collect()
}

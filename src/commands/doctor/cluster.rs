//! Checks the cluster by reading its database, without joining it.

use secrecy::ExposeSecret as _;

use super::report::DoctorReport;
use crate::commands::cluster::tasks::nodes::most_common;
use crate::startup::node_name;
use aetheel_cluster::{Cluster, DatabaseStatus, Node, Skew, Tables, read_identity};
use aetheel_discord::bot_id_of;
use aetheel_model::plain::counted;
use aetheel_settings::Config;

/// Hint if two machines have the same name.
const RENAME: &str = "give this one another `NODE_NAME`";

/// Checks the database and the nodes, if a cluster is configured.
pub(super) async fn examine(report: &mut DoctorReport, config: &Config, offline: bool) {
    let Some(url) = &config.cluster_url else { return };
    if Cluster::check_url(url.expose_secret()).is_err() {
        return;
    }
    if offline {
        return report.ok("cluster", "not asked: --offline");
    }
    let look = match Cluster::inspect(url.expose_secret()).await {
        Ok(look) => look,
        Err(error) => {
            return report.fault(
                "cluster database",
                error.to_string(),
                "without it no node can serve: check CLUSTER_URL, the server and the network",
            );
        }
    };
    database(report, &look);
    clock(report, &look);
    tables(report, look.tables);
    let bot = config.discord_bot_token.as_ref().and_then(|token| bot_id_of(token.expose_secret()));
    let of_bot = |node: &&Node| bot.is_none_or(|bot| node.bot == bot);
    let nodes: Vec<&Node> = look.nodes.iter().filter(of_bot).collect();
    if matches!(look.tables, Tables::Current | Tables::Newer(_) | Tables::None) {
        check_name(report, config, &nodes);
        live_nodes(report, &nodes);
        abandoned_nodes(report, &nodes);
    }
}

fn database(report: &mut DoctorReport, look: &DatabaseStatus) {
    let says = format!("PostgreSQL {}", look.server);
    if look.is_supported {
        report.ok("cluster database", says);
    } else {
        report.fault("cluster database", says, "14 or newer is needed: upgrade the server");
    }
}

fn clock(report: &mut DoctorReport, look: &DatabaseStatus) {
    let about = "cluster clock";
    let says = format!("differs from the database's clock by {} s", look.clock_skew.as_secs());
    let hint = "set both by NTP (`timedatectl set-ntp true`)";
    match look.skew() {
        Skew::Negligible => report.ok(about, "agrees with the database"),
        Skew::Warning => report.warning(about, says, hint),
        Skew::Refused => report.fault(about, format!("{says}: this node cannot join"), hint),
    }
}

fn tables(report: &mut DoctorReport, tables: Tables) {
    let about = "cluster tables";
    match tables {
        Tables::None => report.ok(about, "none yet: the first node creates them"),
        Tables::Current => report.ok(about, "have this version"),
        Tables::Older(form) => report.ok(
            about,
            format!(
                "have an older version (form {form}): the next start of this node upgrades them"
            ),
        ),
        Tables::Newer(form) => {
            report.ok(about, format!("have a newer version (form {form}) that works with this one"))
        }
        Tables::TooNew(form) => report.fault(
            about,
            format!("have a newer version (form {form}) that does not work with this one"),
            "upgrade this node",
        ),
    }
}

/// Checks that no other machine uses the name of this one.
fn check_name(report: &mut DoctorReport, config: &Config, nodes: &[&Node]) {
    let name = node_name(config);
    let about = format!("node {name}");
    let own = match read_identity(&config.config_dir) {
        Ok(own) => own,
        Err(error) => {
            let says = format!("cannot read the identity of this machine: {error}");
            return report.fault(about, says, "make state/node.md readable");
        }
    };
    let Some(node) = nodes.iter().find(|node| node.name == name) else {
        return report.ok(about, "the name is free");
    };
    match (own.as_deref() == Some(&node.identity), node.lease_ms > 0) {
        (true, true) => report.ok(about, "this machine, which is running"),
        (true, false) => report.ok(about, "this machine, which is not running"),
        (false, true) => report.fault(about, "another running machine has this name", RENAME),
        (false, false) => report.warning(
            about,
            "another machine had this name, and this one would continue its work",
            format!("this is correct if this machine replaces it; otherwise {RENAME}"),
        ),
    }
}

/// Lists the running nodes, and warns if their configuration or components differ.
fn live_nodes(report: &mut DoctorReport, nodes: &[&Node]) {
    let living: Vec<&&Node> = nodes.iter().filter(|node| node.lease_ms > 0).collect();
    let names: Vec<&str> = living.iter().map(|node| node.name.as_str()).collect();
    let says = match names.is_empty() {
        true => "no node is running".to_owned(),
        false => format!("{} running: {}", names.len(), names.join(", ")),
    };
    report.ok("cluster nodes", says);
    differing(
        report,
        &living,
        |node| &node.load.files,
        "its config/ differs from most nodes'",
        "make the files equal, so that all nodes answer alike",
    );
    differing(
        report,
        &living,
        |node| &node.load.components,
        "its backends differ from most nodes'",
        "run `aetheel backend install` with the same file, or with `--locked` and the same backends.lock.md, on each node",
    );
}

fn differing(
    report: &mut DoctorReport,
    living: &[&&Node],
    digest: fn(&Node) -> &str,
    says: &str,
    hint: &str,
) {
    let usual = most_common(living.iter().map(|node| digest(node)));
    for node in living.iter().filter(|node| Some(digest(node)) != usual) {
        report.warning(format!("node {}", node.name), says, hint);
    }
}

/// Warns about nodes that are gone and whose channels no other node took over.
fn abandoned_nodes(report: &mut DoctorReport, nodes: &[&Node]) {
    let some_work = nodes.iter().any(|node| node.lease_ms > 0);
    for node in nodes.iter().filter(|node| node.lease_ms <= 0 && node.work.has_something) {
        let says = format!(
            "gone for {} s; no node serves its {}",
            -node.lease_ms / 1_000,
            counted(node.work.lanes, "channel")
        );
        let hint = match some_work {
            true => "a running node takes over within seconds: check its log and `aetheel nodes`",
            false => "start it, or any other node",
        };
        report.warning(format!("node {}", node.name), says, hint);
    }
}

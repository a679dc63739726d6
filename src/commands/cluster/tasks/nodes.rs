//! `aetheel nodes`: lists the nodes of the cluster and their state.

use std::collections::HashMap;

use jiff::Timestamp;
use secrecy::ExposeSecret as _;
use serde::{Serialize, Serializer};

use super::{cluster_url, report_error};
use crate::cli::exit;
use crate::startup::settings::OperatorSettings;
use crate::terminal::{self, line};
use aetheel_cluster::{Cluster, Node};
use aetheel_model::plain::counted;

/// Prints one line per node, or JSON, and returns the exit code.
pub(super) async fn run(settings: OperatorSettings, json: bool) -> Result<u8, u8> {
    let nodes = Cluster::nodes(cluster_url(&settings)?.expose_secret())
        .await
        .map_err(|error| report_error(&settings, &error))?;
    if json {
        terminal::json(&rows(&nodes));
    } else {
        lines(&nodes).iter().for_each(|text| line(text));
    }
    Ok(exit::OK)
}

/// A node as printed by `--json`. Fields may be added, but never change or disappear.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
struct NodeRow<'n> {
    name: &'n str,
    /// `works`, `drains`, `drained` or `gone`.
    state: &'static str,
    /// Seconds since the lease ended, if the node is gone.
    gone_for: Option<i64>,
    version: &'n str,
    #[serde(serialize_with = "as_text")]
    since: Timestamp,
    #[serde(flatten)]
    work: NodeWorkRow,
    logged_in: bool,
    labels: &'n [String],
    config_differs: bool,
    components_differ: bool,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
struct NodeWorkRow {
    channels: u64,
    turns: u64,
    waiting: u64,
    /// Messages from other nodes that it has not imported yet.
    to_take: u64,
}

fn as_text<S: Serializer>(at: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(at)
}

fn rows<'n>(nodes: &'n [Node]) -> Vec<NodeRow<'n>> {
    let living = || nodes.iter().filter(|node| node.lease_ms > 0);
    let files = most_common(living().map(|node| node.load.files.as_str()));
    let components = most_common(living().map(|node| node.load.components.as_str()));
    let one = |node: &'n Node| {
        let Node { name, version, joined, lease_ms, is_leader, labels, load, work, .. } = node;
        let lives = *lease_ms > 0;
        let state = match (lives, load.draining || node.drain_requested) {
            (false, _) => "gone",
            (true, true) if work.lanes == 0 => "drained",
            (true, true) => "drains",
            (true, false) => "works",
        };
        NodeRow {
            name,
            state,
            gone_for: (!lives).then_some(-lease_ms / 1_000),
            version,
            since: *joined,
            work: NodeWorkRow {
                channels: work.lanes,
                turns: u64::from(load.running),
                waiting: u64::from(load.waiting),
                to_take: work.messages,
            },
            logged_in: *is_leader && lives,
            labels,
            config_differs: lives && Some(load.files.as_str()) != files,
            components_differ: lives && Some(load.components.as_str()) != components,
        }
    };
    nodes.iter().map(one).collect()
}

fn lines(nodes: &[Node]) -> Vec<String> {
    let widest = nodes.iter().map(|node| node.name.chars().count()).max().unwrap_or(0);
    let one = |row: NodeRow<'_>| {
        let state = match row.gone_for {
            Some(seconds) => format!("gone for {seconds} s"),
            None => row.state.to_owned(),
        };
        let work = &row.work;
        let mut parts = vec![
            format!("{:widest$}  {state:7}", row.name),
            row.version.to_owned(),
            format!("since {}", row.since.strftime("%Y-%m-%d %H:%M UTC")),
            format!("{}, {}", counted(work.channels, "channel"), counted(work.turns, "turn")),
        ];
        if work.waiting > 0 {
            parts.push(format!("{} waiting", work.waiting));
        }
        if work.to_take > 0 {
            parts.push(format!("{} to take", counted(work.to_take, "message")));
        }
        if row.logged_in {
            parts.push("logged in to discord".to_owned());
        }
        if !row.labels.is_empty() {
            parts.push(row.labels.join(", "));
        }
        if row.config_differs {
            parts.push("its config/ differs".to_owned());
        }
        if row.components_differ {
            parts.push("its backends differ".to_owned());
        }
        parts.join("  ")
    };
    rows(nodes).into_iter().map(one).collect()
}

/// Returns the most common value. If several are equally common, returns the one that occurs first.
pub(in crate::commands) fn most_common<'a>(of: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let mut counts: HashMap<&str, (usize, usize)> = HashMap::new();
    for (place, value) in of.enumerate() {
        counts.entry(value).or_insert((0, place)).0 += 1;
    }
    let most = counts.into_iter().max_by_key(|(_, (count, place))| (*count, usize::MAX - place));
    most.map(|(value, _)| value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use aetheel_cluster::{Load, NodeWork};

    #[test]
    fn lines_show_the_state_of_each_node_and_its_differences() {
        let node = |name: &str, lease_ms, lanes, files: &str| Node {
            name: name.to_owned(),
            bot: 1,
            version: "0.1.0".to_owned(),
            joined: jiff::Timestamp::UNIX_EPOCH,
            lease_ms,
            is_leader: name == "a",
            labels: Vec::new(),
            load: Load { running: 1, files: files.to_owned(), ..Load::default() },
            drain_requested: false,
            work: NodeWork { lanes, ..NodeWork::default() },
            identity: String::new(),
        };
        let drains = |node: Node| Node { drain_requested: true, ..node };
        let nodes = [
            node("a", 4_000, 2, "x"),
            Node {
                labels: vec!["gpu".to_owned()],
                work: NodeWork { lanes: 1, messages: 3, has_something: false },
                ..node("long", 10, 1, "x")
            },
            drains(node("c", 10, 1, "y")),
            drains(node("d", 10, 0, "x")),
            node("e", -61_500, 0, "z"),
        ];
        let json = serde_json::to_value(rows(&nodes)).unwrap();
        let states: Vec<&str> =
            json.as_array().unwrap().iter().map(|row| row["state"].as_str().unwrap()).collect();
        assert_eq!(states, ["works", "works", "drains", "drained", "gone"]);
        assert_eq!((&json[2]["config-differs"], &json[4]["gone-for"]), (&true.into(), &61.into()));
        let since = "0.1.0  since 1970-01-01 00:00 UTC";
        assert_eq!(
            lines(&nodes),
            [
                format!("a     works    {since}  2 channels, 1 turn  logged in to discord"),
                format!("long  works    {since}  1 channel, 1 turn  3 messages to take  gpu"),
                format!("c     drains   {since}  1 channel, 1 turn  its config/ differs"),
                format!("d     drained  {since}  0 channels, 1 turn"),
                format!("e     gone for 61 s  {since}  0 channels, 1 turn"),
            ]
        );
    }
}

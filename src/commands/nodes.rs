//! `aetheel nodes`: the machines of the cluster, and which of them serves.

use secrecy::ExposeSecret as _;

use crate::cli::exit;
use crate::cluster::{Cluster, ClusterError, Node};
use crate::startup::settings::Settings;
use crate::terminal::{line, say};

/// Prints a line for each node; returns the exit code.
pub(super) async fn run(settings: Settings) -> u8 {
    let Some(url) = &settings.config.cluster_url else {
        say("CLUSTER_URL is not set: this machine serves alone (docs/cluster.md)");
        return exit::CONFIG;
    };
    match Cluster::nodes(url.expose_secret()).await {
        Ok(nodes) => {
            lines(&nodes).iter().for_each(|text| line(text));
            exit::OK
        }
        Err(error) => {
            say(&settings.redactor.clean(error.to_string()));
            if matches!(error, ClusterError::Away(_)) { exit::TEMPORARY } else { exit::UNAVAILABLE }
        }
    }
}

fn lines(nodes: &[Node]) -> Vec<String> {
    let widest = nodes.iter().map(|node| node.name.chars().count()).max().unwrap_or(0);
    let one = |node: &Node| {
        let state = match (node.lease_ms, !node.seat) {
            (left, false) if left > 0 => "serves".to_owned(),
            (left, true) if left > 0 => "stands by".to_owned(),
            (left, _) => format!("gone for {} s", -left / 1_000),
        };
        format!(
            "{:widest$}  {state:12}  {}  since {}",
            node.name,
            node.version,
            node.joined.strftime("%Y-%m-%d %H:%M UTC")
        )
    };
    nodes.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::Load;

    #[test]
    fn each_node_says_whether_it_serves_stands_by_or_is_gone() {
        let node = |name: &str, lease_ms, seat| Node {
            name: name.to_owned(),
            version: "0.1.0".to_owned(),
            joined: jiff::Timestamp::UNIX_EPOCH,
            lease_ms,
            seat,
            bot: 1,
            labels: Vec::new(),
            load: Load::default(),
            drain_wanted: false,
            lanes: 0,
            letters: 0,
        };
        // The seat of a node that is gone stays its own until another one takes it.
        let nodes = [node("a", 4_000, true), node("long", 10, false), node("c", -61_500, true)];
        assert_eq!(
            lines(&nodes),
            [
                "a     serves        0.1.0  since 1970-01-01 00:00 UTC",
                "long  stands by     0.1.0  since 1970-01-01 00:00 UTC",
                "c     gone for 61 s  0.1.0  since 1970-01-01 00:00 UTC",
            ]
        );
    }
}

//! `aetheel nodes`: the machines of the cluster, and what each does.

use std::collections::HashMap;

use secrecy::ExposeSecret as _;

use super::{refuse, url};
use crate::cli::exit;
use crate::cluster::{Cluster, Node};
use crate::startup::settings::Settings;
use crate::terminal::line;

/// Prints a line for each node; returns the exit code.
pub(in crate::commands) async fn run(settings: Settings) -> u8 {
    let url = match url(&settings) {
        Ok(url) => url,
        Err(code) => return code,
    };
    match Cluster::nodes(url.expose_secret()).await {
        Ok(nodes) => {
            lines(&nodes).iter().for_each(|text| line(text));
            exit::OK
        }
        Err(error) => refuse(&settings, &error),
    }
}

fn lines(nodes: &[Node]) -> Vec<String> {
    let widest = nodes.iter().map(|node| node.name.chars().count()).max().unwrap_or(0);
    let living = || nodes.iter().filter(|node| node.lease_ms > 0);
    let (files, components) = (
        usual(living().map(|node| node.load.files.as_str())),
        usual(living().map(|node| node.load.components.as_str())),
    );
    let one = |node: &Node| {
        let lives = node.lease_ms > 0;
        let state = match (lives, node.load.draining || node.drain_wanted) {
            (false, _) => format!("gone for {} s", -node.lease_ms / 1_000),
            (true, true) if node.lanes == 0 => "drained".to_owned(),
            (true, true) => "drains".to_owned(),
            (true, false) => "works".to_owned(),
        };
        let mut parts = vec![
            format!("{:widest$}  {state:7}", node.name),
            node.version.clone(),
            format!("since {}", node.joined.strftime("%Y-%m-%d %H:%M UTC")),
            format!("{}, {}", count(node.lanes, "channel"), count(node.load.running, "turn")),
        ];
        if node.load.waiting > 0 {
            parts.push(format!("{} waiting", node.load.waiting));
        }
        if node.letters > 0 {
            parts.push(format!("{} to take", count(node.letters, "letter")));
        }
        if node.seat && lives {
            parts.push("logged in to discord".to_owned());
        }
        if !node.labels.is_empty() {
            parts.push(node.labels.join(", "));
        }
        if lives && Some(node.load.files.as_str()) != files {
            parts.push("its config/ differs".to_owned());
        }
        if lives && Some(node.load.components.as_str()) != components {
            parts.push("its components differ".to_owned());
        }
        parts.join("  ")
    };
    nodes.iter().map(one).collect()
}

fn count(number: impl Into<u64>, what: &str) -> String {
    let number = number.into();
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

/// What most have; of as many the one that comes first.
pub(in crate::commands) fn usual<'a>(of: impl Iterator<Item = &'a str>) -> Option<&'a str> {
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
    use crate::cluster::Load;

    #[test]
    fn each_node_says_what_it_does_and_what_of_it_differs() {
        let node = |name: &str, lease_ms, lanes, files: &str| Node {
            name: name.to_owned(),
            bot: 1,
            version: "0.1.0".to_owned(),
            joined: jiff::Timestamp::UNIX_EPOCH,
            lease_ms,
            seat: name == "a",
            labels: Vec::new(),
            load: Load { running: 1, files: files.to_owned(), ..Load::default() },
            drain_wanted: false,
            lanes,
            letters: 0,
            identity: String::new(),
            has_something: false,
        };
        let drains = |node: Node| Node { drain_wanted: true, ..node };
        let nodes = [
            node("a", 4_000, 2, "x"),
            Node { labels: vec!["gpu".to_owned()], letters: 3, ..node("long", 10, 1, "x") },
            drains(node("c", 10, 1, "y")),
            drains(node("d", 10, 0, "x")),
            node("e", -61_500, 0, "z"),
        ];
        let since = "0.1.0  since 1970-01-01 00:00 UTC";
        assert_eq!(
            lines(&nodes),
            [
                format!("a     works    {since}  2 channels, 1 turn  logged in to discord"),
                format!("long  works    {since}  1 channel, 1 turn  3 letters to take  gpu"),
                format!("c     drains   {since}  1 channel, 1 turn  its config/ differs"),
                format!("d     drained  {since}  0 channels, 1 turn"),
                format!("e     gone for 61 s  {since}  0 channels, 1 turn"),
            ]
        );
    }
}

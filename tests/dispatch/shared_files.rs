//! Tests of files and claims in a directory that two machines of a cluster share.

use std::path::Path;
use std::sync::Arc;

use aetheel_dispatch::{ClaimAuthor, ClaimOrder, Notice, Router};
use aetheel_model::event::Lane;
use aetheel_model::id::ChannelId;

use super::claims::{agent, options};
use super::collisions::channel_of;
use crate::support::router::ServesAll;
use crate::support::scripted::{Desk, DeskOptions, message};

/// Two machines that serve channel 1 and channel 2 of one project in these directories.
struct Cluster {
    one: Desk,
    two: Desk,
    wires: [Arc<ServesAll>; 2],
    answers: (usize, usize),
}

impl Cluster {
    async fn new(directories: [&Path; 2], shared: &str) -> Self {
        let cluster = Self::apart(directories, shared).await;
        cluster.connect();
        cluster
    }

    /// Lets the machines learn of each other's news, also of earlier ones.
    fn connect(&self) {
        self.wires[0].connect(self.two.dispatcher.file_neighbours.clone());
        self.wires[1].connect(self.one.dispatcher.file_neighbours.clone());
    }

    /// Starts machines that are not connected yet.
    async fn apart(directories: [&Path; 2], shared: &str) -> Self {
        let wires = [Arc::new(ServesAll::default()), Arc::new(ServesAll::default())];
        let mut desks = Vec::new();
        for (number, machine) in ["one", "two"].into_iter().enumerate() {
            let cwd = Some(directories[number].to_owned());
            let router = Some(wires[number].clone() as Arc<dyn Router>);
            let options = DeskOptions { machine: Some(machine), cwd, router, ..options() };
            let desk = Desk::new(agent(), options).await;
            let channels = format!(
                "## project site\n- directory: .\n{shared}\n## channel 1\n- project: site\n\n## channel 2\n- project: site\n"
            );
            std::fs::write(desk.folder.path().join("config/channels.md"), channels).unwrap();
            std::fs::write(directories[number].join("a.rs"), "").unwrap();
            desks.push(desk);
        }
        let (two, one) = (desks.pop().unwrap(), desks.pop().unwrap());
        Self { one, two, wires, answers: (0, 0) }
    }

    async fn first(&mut self, lines: &str) -> String {
        self.one.dispatcher.intake.submit(message(1, lines)).unwrap();
        self.answers.0 += 1;
        self.one.collected.answers(self.answers.0).await.pop().unwrap().1.text
    }

    async fn second(&mut self, channel: u64, lines: &str) -> String {
        self.two.dispatcher.intake.submit(message(channel, lines)).unwrap();
        self.answers.1 += 1;
        self.two.collected.answers(self.answers.1).await.pop().unwrap().1.text
    }

    /// Takes a claim on the first machine once the second one knows that it is free or held.
    async fn claim(&self, paths: &str) -> Result<String, String> {
        let lane = Lane::Channel(ChannelId::discord(1));
        let author = ClaimAuthor { lane, person: None, name: Some("Ann".to_owned()) };
        let order = ClaimOrder { paths: paths.to_owned(), ..ClaimOrder::default() };
        let taken = self.one.dispatcher.claims.take(author, order).await;
        taken.map_err(|error| error.to_string())
    }
}

fn lines(notice: &Notice) -> Vec<String> {
    let lines = notice.text.lines().filter(|line| line.starts_with("- "));
    lines.map(|line| line.split(" just now").next().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn each_machine_warns_its_own_conversation_about_a_shared_directory() {
    let folder = tempfile::tempdir().unwrap();
    for first in ["tool file_read a.rs", "tool file_write a.rs"] {
        let directories = [folder.path(); 2];
        let mut cluster = Cluster::new(directories, "- shared-directory: yes\n").await;
        cluster.first(first).await;
        cluster.second(2, "tool file_write a.rs").await;
        let one = cluster.one.collected.notices(1).await.remove(0);
        let two = cluster.two.collected.notices(1).await.remove(0);
        assert_eq!((channel_of(&one), channel_of(&two)), (1, 2));
        let word = if first.contains("read") { "read" } else { "changed" };
        assert_eq!(lines(&one), [format!("- `a.rs`: {word} here")]);
        assert_eq!(lines(&two), ["- `a.rs`: changed here".to_owned()]);
        assert!(two.text.contains(&format!("{word} in <#1> just now")), "{}", two.text);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_is_known_on_all_machines() {
    let folder = tempfile::tempdir().unwrap();
    let mut cluster = Cluster::new([folder.path(); 2], "- shared-directory: yes\n").await;
    cluster.claim("a.rs").await.unwrap();
    let lane = Lane::Channel(ChannelId::discord(2));
    let listed = async || cluster.two.dispatcher.claims.list(&lane).await.unwrap();
    while !listed().await.contains("a.rs") {
        tokio::task::yield_now().await;
    }
    let refused = cluster.second(2, r#"claim {"paths":["*.rs"]}"#).await;
    assert!(refused.contains("`a.rs` is reserved by an agent for Ann"), "{refused}");
    cluster.second(2, "tool file_write a.rs").await;
    let one = cluster.one.collected.notices(1).await.remove(0);
    let two = cluster.two.collected.notices(1).await.remove(0);
    assert_eq!((channel_of(&one), channel_of(&two)), (1, 2));
    assert!(one.text.contains("reserved here by an agent for Ann"), "{}", one.text);
    assert!(two.text.contains("reserved by an agent for Ann in <#1>"), "{}", two.text);
    let lane = Lane::Channel(ChannelId::discord(1));
    let author = ClaimAuthor { lane, person: None, name: None };
    cluster.one.dispatcher.claims.release(&author, "all", false).await.unwrap();
    let lane = Lane::Channel(ChannelId::discord(2));
    while cluster.two.dispatcher.claims.list(&lane).await.unwrap().contains("a.rs") {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_claims_at_the_same_time_one_stays() {
    let folder = tempfile::tempdir().unwrap();
    let mut cluster = Cluster::apart([folder.path(); 2], "- shared-directory: yes\n").await;
    cluster.claim("a.rs free.md").await.unwrap();
    let taken = cluster.second(2, r#"claim {"paths":["*.rs"]}"#).await;
    assert!(taken.starts_with("Reserved"), "{taken}");
    let all =
        |cluster: &Cluster| [&cluster.one, &cluster.two].map(|desk| desk.dispatcher.claims.all());
    let [first, second] = all(&cluster).map(|claims| claims[0].id.clone());
    cluster.connect();
    let (loser, stays, channel) = match first < second {
        true => (&cluster.two, "`a.rs`, `free.md` was reserved by an agent for Ann in <#1>", 2),
        false => (&cluster.one, "`*.rs` was reserved by an agent in <#2>", 1),
    };
    let notice = loser.collected.notices(1).await.remove(0);
    assert_eq!(channel_of(&notice), channel);
    assert!(notice.text.contains(stays), "{}", notice.text);
    let left = all(&cluster).concat();
    assert_eq!(left.len(), 1, "{left:?}");
    assert_eq!(left[0].id, first.min(second));
}

#[tokio::test(flavor = "multi_thread")]
async fn directories_that_are_not_shared_never_collide() {
    let (folder, copy) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for (directories, shared) in [
        // The same path on two machines, without the operator's consent.
        ([folder.path(); 2], ""),
        ([folder.path(); 2], "- shared-directory: no\n"),
        // A copy.
        ([folder.path(), copy.path()], "- shared-directory: yes\n"),
    ] {
        let mut cluster = Cluster::new(directories, shared).await;
        cluster.first("tool file_write a.rs").await;
        cluster.claim("b.rs").await.unwrap();
        cluster.second(2, "tool file_write a.rs\nchange b.rs").await;
        // A collision on the second machine shows that everything before it was checked there.
        cluster.second(2, "tool file_write last.rs").await;
        cluster.second(1, "tool file_write last.rs").await;
        let notices = cluster.two.collected.notices(2).await;
        assert!(notices.iter().all(|notice| notice.text.contains("`last.rs`")), "{notices:?}");
        assert_eq!(cluster.one.collected.notices(0).await, []);
    }
}

//! Tests of the warnings about files that the agents of two conversations use.

use std::os::unix::fs::symlink;
use std::sync::Arc;

use aetheel_dispatch::Notice;
use aetheel_model::agent::{
    AgentEventKind, Exit, FileChange, FileDiff, Input, ToolEnd, ToolStart, ToolStatus,
};
use aetheel_model::event::NewEvent;
use aetheel_model::id::{ChannelId, UserId};
use tokio::sync::watch;

use super::outlive::{Gateway, Setup};
use crate::support::scripted::{
    Agent, Desk, DeskOptions, OneBackend, ScriptedBackend, ScriptedLauncher, Understanding, event,
    message, plain,
};
use crate::support::shelf::Shelf;

/// Understands `tool KIND PATH`, `failed KIND PATH`, `declined PATH`, and changes that a command reports: `change
/// PATH` and `rename OLD NEW`.
pub(super) fn working() -> Understanding {
    let usual = plain();
    Arc::new(move |state, input| {
        let Input::Line(line) = input else { return usual(state, input) };
        let words: Vec<&str> = line.text.split(' ').collect();
        let (status, kind, target, diffs) = match words[..] {
            ["tool", kind, path] => (ToolStatus::Ok, kind, Some(path), vec![]),
            ["failed", kind, path] => (ToolStatus::Failed, kind, Some(path), vec![]),
            ["declined", path] => {
                (ToolStatus::Denied, "file_edit", Some(path), vec![diff(path, None)])
            }
            ["change", path] => (ToolStatus::Failed, "bash", None, vec![diff(path, None)]),
            ["rename", old, new] => (ToolStatus::Ok, "bash", None, vec![diff(new, Some(old))]),
            _ => return usual(state, input),
        };
        let start = ToolStart {
            id: line.text.clone(),
            parent: None,
            kind: kind.to_owned(),
            native_name: "Tool".to_owned(),
            title: "works".to_owned(),
            target: target.map(str::to_owned),
            input: "{}".to_owned(),
        };
        let end = ToolEnd { id: line.text.clone(), status, output: None, exit_code: None, diffs };
        Ok(vec![event(AgentEventKind::ToolStart(start)), event(AgentEventKind::ToolEnd(end))])
    })
}

fn diff(path: &str, old_path: Option<&str>) -> FileDiff {
    FileDiff {
        path: path.to_owned(),
        change: FileChange::default(),
        old_path: old_path.map(str::to_owned),
        binary: false,
        old_text: None,
        new_text: None,
        unified: None,
    }
}

/// An agent that prints the lines of its prompt, without the name of the author.
fn obedient() -> Arc<ScriptedLauncher> {
    ScriptedLauncher::new(|agent: Agent| async move {
        let lines = agent.prompt.trim_start_matches("[Ann]: ").lines();
        agent.say(&lines.collect::<Vec<_>>()).await;
        agent.say(&["text ok", "done"]).await;
        agent.exit(Exit::Code(0), "").await;
    })
}

pub(super) struct Office {
    pub(super) desk: Desk,
    turns: usize,
}

/// The channels of the first directory are 1 to 9, of the second one 11 to 19.
pub(super) const CHANNELS: &str = "## project one\n- directory: one\n\n## project two\n- directory: two\n\n\
    ## channel 1\n- project: one\n\n## channel 2\n- project: one\n\n## channel 3\n- project: one\n\n\
    ## channel 11\n- project: two\n\n## channel 12\n- project: two\n\n\
    ## channel 21\n- directory: one/.trees/b\n";

impl Office {
    async fn new() -> Self {
        let options = DeskOptions { understanding: working(), ..DeskOptions::default() };
        Self::with(obedient(), options).await
    }

    pub(super) async fn with(launcher: Arc<ScriptedLauncher>, options: DeskOptions) -> Self {
        let desk = Desk::new(launcher, options).await;
        let root = desk.folder.path().join("workspace");
        for directory in ["one", "two", "one/.trees/b"] {
            std::fs::create_dir_all(root.join(directory)).unwrap();
            for file in ["a.rs", "b.rs"] {
                std::fs::write(root.join(directory).join(file), "").unwrap();
            }
        }
        symlink("a.rs", root.join("one/link.rs")).unwrap();
        symlink("../../a.rs", root.join("one/.trees/b/shared.rs")).unwrap();
        std::fs::write(desk.folder.path().join("config/channels.md"), CHANNELS).unwrap();
        Self { desk, turns: 0 }
    }

    pub(super) fn path(&self, path: &str) -> String {
        self.desk.folder.path().join("workspace").join(path).display().to_string()
    }

    /// Runs a turn in which the agent prints these lines. Returns the text of its answer.
    pub(super) async fn turn(&mut self, channel: u64, lines: &str) -> String {
        self.turn_of(channel, None, lines).await
    }

    /// Runs a turn that a person starts.
    pub(super) async fn turn_of(
        &mut self,
        channel: u64,
        asker: Option<u64>,
        lines: &str,
    ) -> String {
        self.begin(channel, asker, lines);
        self.turns += 1;
        self.desk.collected.answers(self.turns).await.pop().expect("an answer").1.text
    }

    pub(super) fn begin(&self, channel: u64, asker: Option<u64>, lines: &str) {
        let (author, asker) = (Some("Ann".to_owned()), asker.map(UserId::discord));
        let lines = lines.replace("ROOT", &self.path(""));
        let asked = NewEvent { author, asker, ..message(channel, &lines) };
        self.desk.dispatcher.intake.submit(asked).unwrap();
    }

    /// Waits for the end of a turn that began before.
    pub(super) async fn end_turn(&mut self) {
        self.turns += 1;
        self.desk.collected.answers(self.turns).await;
    }

    /// Returns the lines of all warnings, with their channels. A last collision in other channels
    /// shows that all earlier uses were checked.
    pub(super) async fn warnings(&mut self) -> Vec<(u64, String)> {
        let last = format!("last{}.rs", self.turns);
        for channel in [12, 11] {
            self.turn(channel, &format!("tool file_write {last}")).await;
        }
        let mut known = 0;
        loop {
            let notices = self.desk.collected.notices(known + 1).await;
            known = notices.len();
            if notices.iter().filter(|notice| notice.text.contains(&last)).count() < 2 {
                continue;
            }
            let mut lines: Vec<_> = notices.into_iter().flat_map(lines_of).collect();
            lines.retain(|(_, line)| !line.contains("`last"));
            return lines;
        }
    }
}

pub(super) fn channel_of(notice: &Notice) -> u64 {
    notice.channel.and_then(ChannelId::as_discord).unwrap_or(0)
}

fn lines_of(notice: Notice) -> Vec<(u64, String)> {
    let channel = channel_of(&notice);
    let lines = notice.text.lines().filter(|line| line.starts_with("- "));
    lines.map(|line| (channel, line.to_owned())).collect()
}

/// Returns the number of warnings after one turn in each channel.
async fn warnings_after(one: (u64, &str), other: (u64, &str)) -> usize {
    let mut office = Office::new().await;
    for (channel, lines) in [one, other] {
        office.turn(channel, lines).await;
    }
    office.warnings().await.len()
}

#[tokio::test(flavor = "multi_thread")]
async fn both_conversations_learn_the_file_the_person_the_place_and_the_access() {
    let mut office = Office::new().await;
    office.turn(1, "tool file_read a.rs").await;
    office.turn(2, "tool file_edit a.rs").await;
    let first = "- `a.rs`: read here just now, changed in <#2> for Ann just now";
    let second = "- `a.rs`: changed here just now, read in <#1> for Ann just now";
    assert_eq!(office.warnings().await, [(1, first.to_owned()), (2, second.to_owned())]);
}

#[tokio::test(flavor = "multi_thread")]
async fn each_use_of_the_same_file_in_one_checkout_is_found() {
    let firsts = ["tool file_read a.rs", "tool file_write a.rs", "change a.rs", "rename a.rs c.rs"];
    let seconds = [
        "tool file_write ROOTone/a.rs",
        "tool file_edit ./a.rs",
        "tool file_write link.rs",
        "change ../one/a.rs",
        "rename a.rs d.rs",
    ];
    for first in firsts {
        for second in seconds {
            assert_eq!(warnings_after((1, first), (2, second)).await, 2, "{first}, {second}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_is_the_same_under_a_hard_link_and_after_it_was_renamed() {
    for is_renamed in [false, true] {
        let mut office = Office::new().await;
        let (old, new) = (office.path("one/a.rs"), office.path("one/c.rs"));
        office.turn(1, "tool file_write a.rs").await;
        assert!(office.warnings().await.is_empty(), "the use is recorded");
        match is_renamed {
            true => std::fs::rename(&old, &new).unwrap(),
            false => std::fs::hard_link(&old, &new).unwrap(),
        }
        office.turn(2, "tool file_write c.rs").await;
        let warnings = office.warnings().await;
        assert_eq!(warnings.len(), 2, "renamed: {is_renamed}: {warnings:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_is_warned_without_a_collision() {
    let write = "tool file_write a.rs";
    let quiet = [
        // Other checkouts, also one inside the other.
        ((1, write), (11, write)),
        ((1, write), (21, write)),
        ((11, write), (21, "tool file_edit a.rs")),
        ((1, "change a.rs"), (11, "change a.rs")),
        ((1, "rename a.rs c.rs"), (21, "rename a.rs c.rs")),
        ((1, "tool file_read a.rs"), (11, "tool file_edit a.rs")),
        ((11, "tool file_read a.rs"), (1, "tool file_edit a.rs")),
        ((1, write), (11, "tool file_write ./a.rs")),
        // Files outside of the working directory.
        ((11, "tool file_write ../one/a.rs"), (1, write)),
        ((1, "tool file_write ROOTtwo/a.rs"), (11, write)),
        ((1, "tool file_write /tmp/a.rs"), (2, "tool file_write /tmp/a.rs")),
        // Other files.
        ((1, write), (2, "tool file_write b.rs")),
        ((1, "rename a.rs c.rs"), (2, "tool file_edit b.rs")),
        // Reads.
        ((1, "tool file_read a.rs"), (2, "tool file_read a.rs")),
        ((1, write), (2, "tool file_read a.rs")),
        // A tool that failed changed nothing.
        ((1, "failed file_write a.rs"), (2, write)),
        ((1, write), (2, "failed file_write a.rs")),
        ((1, "declined a.rs"), (2, write)),
        ((1, write), (2, "declined a.rs")),
        // Tools without a file.
        ((1, "tool bash a.rs"), (2, "tool bash a.rs")),
        ((1, "tool file_search a.rs"), (2, write)),
        // The same conversation.
        ((1, write), (1, write)),
    ];
    for (one, other) in quiet {
        assert_eq!(warnings_after(one, other).await, 0, "{one:?}, {other:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pair_of_conversations_is_warned_once_per_file() {
    let mut office = Office::new().await;
    let both = "tool file_write a.rs\ntool file_write b.rs";
    for _ in 0..3 {
        office.turn(1, both).await;
        office.turn(2, both).await;
    }
    office.turn(3, "tool file_write a.rs").await;
    let warnings = office.warnings().await;
    let count = |of: u64, file: &str| {
        warnings.iter().filter(|(channel, line)| *channel == of && line.contains(file)).count()
    };
    let counts = [1, 2, 3].map(|channel| (count(channel, "`a.rs`"), count(channel, "`b.rs`")));
    assert_eq!(counts, [(2, 1), (2, 1), (2, 0)], "{warnings:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_channel_can_switch_its_warnings_off() {
    let mut office = Office::new().await;
    let path = office.desk.folder.path().join("config/channels.md");
    std::fs::write(path, CHANNELS.replace("## channel 1\n", "## channel 1\n- collisions: off\n"))
        .unwrap();
    office.turn(1, "tool file_write a.rs").await;
    office.turn(2, "tool file_write a.rs").await;
    let channels: Vec<u64> = office.warnings().await.into_iter().map(|(of, _)| of).collect();
    assert_eq!(channels, [2]);
}

#[test]
fn files_of_a_turn_that_outlives_the_gateway_are_still_known() {
    let folder = tempfile::tempdir().unwrap();
    let (leave, given) = watch::channel(false);
    let launcher = ScriptedLauncher::new(move |agent: Agent| {
        let mut given = given.clone();
        async move {
            agent.say(&["session s1", "tool file_write a.rs", "text one"]).await;
            if agent.prompt == "first" {
                let _ = given.wait_for(|given| *given).await;
            }
            agent.say(&["done"]).await;
            agent.exit(Exit::Code(0), "").await;
        }
    });
    let shelf = Shelf::new(launcher);
    let setup = || {
        let backend = ScriptedBackend::new(working());
        Setup::with(Arc::new(OneBackend(Arc::new(backend))))
    };
    let first = Gateway::begin(folder.path(), &shelf, setup());
    std::fs::write(folder.path().join("a.rs"), "").unwrap();
    first.ask("first");
    first.wait_for_text("one");
    first.die();
    let second = Gateway::begin(folder.path(), &shelf, setup());
    second.wait_for_text("one");
    second
        .runtime
        .block_on(async { second.dispatcher.intake.submit(message(8, "second")) })
        .unwrap();
    let notices = second.runtime.block_on(second.collected.notices(2));
    let mut channels: Vec<u64> = notices.iter().map(channel_of).collect();
    channels.sort_unstable();
    assert_eq!(channels, [7, 8]);
    leave.send_replace(true);
}

//! The gateway as a service, `aetheel run` with a local Discord, that is killed and restarted while
//! its agents continue.

use std::collections::BTreeMap;
use std::path::Path;

use rustix::process::{Pid, Signal, kill_process};

use super::super::gateway::marked;
use super::gateway::{Cell, Wishes};
use super::program::all_below;
use super::stage::PATIENCE;
use crate::support::discord::{ANN, CHANNEL, LocalDiscord, Message, TOKEN};
use crate::support::model_server::ModelServer;
use crate::support::program::{Installation, Program};

/// The first words of the button that allows a tool once. codex-acp adds more words.
const LEAVE: &str = "Allow once";

/// Consecutive processes of the gateway with the same folders. The holder is stopped when this is
/// dropped.
pub struct Service {
    pub model: ModelServer,
    pub discord: LocalDiscord,
    /// The running process.
    program: Program,
    holders: Holders,
    installation: Installation,
}

/// A question that people see.
#[derive(Debug, PartialEq, Eq)]
pub struct Question {
    pub message: u64,
    /// The gateway's id of the question.
    pub id: String,
    /// The id of the button that allows it once.
    pub leave: String,
}

/// The holders of an installation. They are stopped when this is dropped.
struct Holders(String);

impl Service {
    /// Starts the first process.
    pub async fn begin(cell: &Cell, model: ModelServer, wishes: Wishes) -> Self {
        let discord = LocalDiscord::start().await;
        let folder = cell.folders();
        let home = cell.agent.settle(&model.url(), &folder.path().join("home"));
        let variables = cell.variables(folder.path(), &home, wishes);
        let holders = Holders(folder.path().join("config/state").display().to_string());
        let installation = Installation::of(folder, variables)
            .with("AGENT_HOLDER", "require")
            .with("AGENT_HOLD_SECONDS", "120")
            .with("DISCORD_API_BASE", discord.url())
            .with("DISCORD_BOT_TOKEN", TOKEN)
            .with("FOOTER", "none")
            .with("LOG_LEVEL", "info");
        let program = serving(&installation).await;
        Self { model, discord, program, holders, installation }
    }

    /// Kills only the gateway, and starts the next process.
    ///
    /// # Panics
    ///
    /// If the agent's turn does not continue with the same processes.
    pub async fn kill_and_restart(&mut self) {
        let before = self.agents();
        assert!(!before.is_empty(), "the agent is found by its mark");
        self.kill().await;
        self.start_next().await;
        assert_eq!(self.agents(), before, "its processes are the same");
    }

    /// Kills only the gateway.
    pub async fn kill(&mut self) {
        self.end(Signal::KILL).await;
    }

    /// Ends only the gateway with a signal.
    pub async fn end(&mut self, signal: Signal) {
        self.program.signal(signal);
        self.program.ended().await;
    }

    /// Starts the next process, whether an agent still runs or not.
    pub async fn start_anew(&mut self) {
        self.program = serving(&self.installation).await;
    }

    /// Starts the next process.
    ///
    /// # Panics
    ///
    /// If the agent's turn does not continue.
    pub async fn start_next(&mut self) {
        self.start_anew().await;
        self.assert_continues();
    }

    fn assert_continues(&self) {
        let log = self.program.log();
        let goes_on = "a link outlived the gateway and continues";
        let why: Vec<_> = log.iter().filter_map(|line| line["why"].as_str()).collect();
        assert!(log.iter().any(|line| line["message"] == goes_on), "it does not continue: {why:?}");
    }

    /// Replaces the gateway by a new process of the same program with `aetheel upgrade`.
    ///
    /// # Panics
    ///
    /// If the agent's turn does not continue with the same processes.
    pub async fn upgrade(&mut self) {
        let before = self.agents();
        assert!(!before.is_empty(), "the agent is found by its mark");
        let restarted = async {
            let left = self.program.ended().await;
            (left, serving(&self.installation).await)
        };
        let upgrade = self.installation.run(&["upgrade"], "");
        let (ended, (left, next)) = tokio::join!(upgrade, restarted);
        assert_eq!((ended.code, left.code), (0, 75), "{ended:?} {left:?}");
        self.program = next;
        self.assert_continues();
        assert_eq!(self.agents(), before, "its processes are the same");
    }

    /// Ends the holder, and waits until the gateway has another.
    pub async fn replace_holder(&self, signal: Signal) {
        let before = self.holders.pids();
        assert_eq!(before.len(), 1, "one holder runs");
        kill_process(before[0], signal).expect("the holder runs");
        let replaced = || {
            let now = self.holders.pids();
            now.len() == 1 && now != before
        };
        super::wait_until("another holder runs", replaced).await;
    }

    /// Sends a signal to the agents, as a process outside the gateway may.
    pub fn end_agents(&self, signal: Signal) {
        let agents = self.agents();
        assert!(!agents.is_empty(), "the agent is found by its mark");
        for pid in agents.into_keys().filter_map(Pid::from_raw) {
            // An agent that ended together with another has ended as wanted.
            let _ = kill_process(pid, signal);
        }
    }

    /// Waits until another process of the agent can resume the session, which contains a text.
    pub async fn until_resumable(&self, cell: &Cell, text: &str) {
        cell.until_resumable().await;
        if cell.backend.writes_sessions_late() {
            let sessions = self.installation.path("home/.claude/projects");
            let is_written = || {
                all_below(&sessions).iter().any(|path| {
                    std::fs::read_to_string(path).is_ok_and(|session| session.contains(text))
                })
            };
            super::wait_until("the session is written", is_written).await;
        }
    }

    /// Checks that no reply was lost.
    ///
    /// # Panics
    ///
    /// If the gateway reports a reply as unreadable.
    pub fn assert_no_lost_reply(&self) {
        assert_eq!(self.file("config/state/lost.md"), "", "no reply is unreadable");
    }

    /// Posts a message of a user, and returns its id.
    pub fn say(&self, text: &str) -> u64 {
        self.discord.mention(CHANNEL, ANN, text)
    }

    /// Waits for a message of the bot with matching text.
    pub async fn said(&self, what: &str, says: impl Fn(&str) -> bool) -> Message {
        let messages = || self.discord.messages(CHANNEL).into_iter();
        let said = |_: &LocalDiscord| messages().find(|message| says(&message.content));
        self.discord.wait_within(PATIENCE, what, said).await
    }

    /// Waits for a question of this process other than the known one.
    pub async fn question(&self, known: Option<&Question>) -> Question {
        let asks = |discord: &LocalDiscord| {
            let mut asking = discord.messages(CHANNEL).into_iter();
            asking.find(|message| {
                discord.asks(message.id) && known.is_none_or(|known| known.message != message.id)
            })
        };
        let message = self.discord.wait_within(PATIENCE, "a question", asks).await.id;
        let opened = self.program.logs("question opened").await;
        let labels = self.discord.buttons(message);
        let label = labels.iter().find(|label| label.starts_with(LEAVE));
        let leave = label.and_then(|label| self.discord.button(message, label));
        Question {
            message,
            id: opened["question"].as_str().expect("its id").to_owned(),
            leave: leave.expect("the button to allow it is there"),
        }
    }

    /// Waits for a question of a tool of the gateway with this text, and returns its message.
    pub async fn asked(&self, text: &str) -> u64 {
        let asks = |discord: &LocalDiscord| {
            let mut asking = discord.messages(CHANNEL).into_iter();
            asking.find(|message| discord.asks(message.id) && format!("{message:?}").contains(text))
        };
        self.discord.wait_within(PATIENCE, "a question of a tool", asks).await.id
    }

    /// Writes a file below the folders.
    pub fn write(&self, name: &str, text: &str) {
        std::fs::write(self.installation.path(name), text).unwrap();
    }

    /// Reads a file below the folders. Returns an empty string if it does not exist.
    pub fn file(&self, name: &str) -> String {
        std::fs::read_to_string(self.installation.path(name)).unwrap_or_default()
    }

    /// Returns whether a file below the folders exists.
    pub fn exists(&self, name: &str) -> bool {
        self.installation.path(name).exists()
    }

    /// Returns the running agents, each with its start time. Processes that agents start are not
    /// included, since they come and go.
    pub fn agents(&self) -> BTreeMap<i32, String> {
        let of_holder = |holder: Pid| {
            let pids = marked(holder).into_iter().filter_map(|process| {
                process.strip_prefix("/proc/")?.split(' ').next()?.parse().ok()
            });
            let started = pids.filter_map(|pid| Some((pid, parent_and_begin(pid)?)));
            let parent = holder.as_raw_nonzero().to_string();
            started.filter_map(move |(pid, (of, began))| (of == parent).then_some((pid, began)))
        };
        self.holders.pids().into_iter().flat_map(of_holder).collect()
    }
}

/// Starts `aetheel run` and waits until it is ready.
async fn serving(installation: &Installation) -> Program {
    let program = installation.start(&["run"]);
    program.logs("aetheel is ready").await;
    program
}

/// Returns a process's parent and its start time in ticks of the kernel's clock, or `None` if it
/// has ended.
fn parent_and_begin(pid: i32) -> Option<(String, String)> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
    Some(((*fields.get(1)?).to_owned(), (*fields.get(19)?).to_owned()))
}

impl Holders {
    fn pids(&self) -> Vec<Pid> {
        let entries = std::fs::read_dir("/proc").unwrap().flatten();
        let all = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let ours = |pid: &i32| {
            let line = std::fs::read(Path::new("/proc").join(pid.to_string()).join("cmdline"));
            let line = String::from_utf8_lossy(&line.unwrap_or_default()).replace('\0', " ");
            line.starts_with("aetheel-hold ") && line.contains(&self.0)
        };
        all.filter(ours).filter_map(Pid::from_raw).collect()
    }
}

impl Drop for Holders {
    #[expect(clippy::disallowed_methods, reason = "nothing else of the scenario runs any more")]
    fn drop(&mut self) {
        let begun = std::time::Instant::now();
        for pid in self.pids() {
            let _ = kill_process(pid, Signal::TERM);
        }
        // The next scenario must not find these agents.
        while !self.pids().is_empty() && begun.elapsed() < PATIENCE {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }
}

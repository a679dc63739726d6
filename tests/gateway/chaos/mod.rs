//! The program is killed at random points under load, or upgraded. Every message is answered
//! exactly once, and each channel in order.
//!
//! Environment variables set the size: `KILLS`, `EVENTS`, `CHANNELS`, `UPGRADES` for the test of
//! upgrades, `OPEN_KILLS` for that of tool calls, and `LATENCY`, the milliseconds that Discord needs
//! for a request. `SEED` repeats the random choices of a run, but not its timing. `make chaos` runs
//! the large test.

mod tool_calls;

use std::collections::HashSet;
use std::pin::pin;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::process::Signal;
use serde_json::Value;
use tokio::try_join;

use super::load::{Prompts, number};
use super::{installed, prompt_count};
use crate::support::discord::{ANN, CROWD};
use crate::support::program::{Installation, Program};

/// How a gateway process ends, and whether its agents survive.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// It is killed together with its agents.
    Killed,
    /// It is killed and its agents survive. No turn runs again, and no user is asked to try again.
    Outlived,
    /// It is replaced by `aetheel upgrade`. Its agents survive, and every process ends normally.
    Upgraded,
}

async fn run_chaos(way: Way, processes: u64, events: u64, channels: u64, latency: u64) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64;
    let seed = number("SEED", now);
    let run = Run {
        prompts: Prompts::new(seed, events as usize, channels).await,
        processes: processes as usize,
        latency: Duration::from_millis(latency),
        way,
        warnings: Vec::new(),
    };
    println!(
        "SEED={seed} PROCESSES={processes} EVENTS={events} CHANNELS={channels} LATENCY={latency}"
    );
    let report = run.through().await.unwrap_or_else(|fault| panic!("SEED={seed}: {fault}"));
    println!("{report}");
}

#[tokio::test]
async fn killed_at_random_points_it_answers_every_message_once_and_in_order() {
    run_chaos(
        Way::Killed,
        number("KILLS", 15),
        number("EVENTS", 300),
        number("CHANNELS", 30),
        number("LATENCY", 0),
    )
    .await;
}

#[tokio::test]
async fn killed_while_its_agents_survive_it_asks_no_agent_twice() {
    run_chaos(
        Way::Outlived,
        number("KILLS", 15),
        number("EVENTS", 300),
        number("CHANNELS", 30),
        number("LATENCY", 0),
    )
    .await;
}

#[tokio::test]
async fn upgraded_under_load_it_answers_every_message_and_asks_no_agent_twice() {
    run_chaos(
        Way::Upgraded,
        number("UPGRADES", 3),
        number("EVENTS", 100),
        number("CHANNELS", 30),
        number("LATENCY", 0),
    )
    .await;
}

#[tokio::test]
async fn killed_while_discord_is_slow_it_answers_every_message_once_and_in_order() {
    run_chaos(Way::Killed, 5, 60, 15, 200).await;
}

struct Run {
    prompts: Prompts,
    processes: usize,
    /// How long Discord needs for a request.
    latency: Duration,
    way: Way,
    /// Warnings and errors that the gateway processes logged, with the number of the process.
    warnings: Vec<String>,
}

impl Run {
    async fn through(mut self) -> Result<String, String> {
        let began = Instant::now();
        let outlives = self.way != Way::Killed;
        let installation = installed(&self.prompts.local)
            .with("BUSY_POLICY", "queue")
            .with("MAX_QUEUE_DEPTH", "100000")
            .with("MAX_CONCURRENT_QUERIES", "8")
            .with("DEMO_AGENT_DELAY_MS", if outlives { "60" } else { "15" })
            .with("AGENT_HOLDER", if outlives { "require" } else { "off" });
        // Known rate limits are lost with the process, and the next process would exceed each of
        // them once.
        for route in ["POST messages", "PATCH message", "guilds", "channels"] {
            self.prompts.local.faults().limit(route, 1_000, Duration::from_secs(1));
        }
        let mut program = super::serving(&installation).await;
        // Missed messages are fetched only in channels where the bot was addressed before.
        for channel in 0..self.prompts.channels {
            self.prompts.send(CROWD + channel);
        }
        self.prompts.settle(&mut 0).await?;
        self.prompts.local.faults().latency(self.latency);
        let (mut unready, mut down, mut restored, mut answered) = (0, 0, 0, 0);
        let mut outlived = 0;
        for number in 1..=self.processes {
            self.prompts.allowed = self.prompts.events * number / self.processes;
            // Every second process is killed soon, while it starts or restores what the previous
            // one left.
            let uptime = if number % 2 == 0 && self.way != Way::Upgraded {
                20 + self.prompts.random.below(600)
            } else {
                300 + self.prompts.random.below(3_200)
            };
            let deadline = Instant::now() + Duration::from_millis(uptime);
            while Instant::now() < deadline {
                self.prompts.load(&mut answered);
                self.prompts.local.wait_a_moment().await;
            }
            let next = if self.way == Way::Upgraded {
                Some(self.upgrade(&installation, &mut program, &mut answered).await?)
            } else {
                program.signal(Signal::KILL);
                program.ended().await;
                None
            };
            let log = program.log();
            let is_warning =
                |line: &&Value| matches!(line["level"].as_str(), Some("WARN" | "ERROR"));
            let warnings = log.iter().filter(is_warning);
            self.warnings.extend(warnings.map(|line| format!("process {number}: {line}")));
            unready += usize::from(!log.iter().any(|line| line["message"] == "aetheel is ready"));
            restored += log.iter().filter_map(|line| line["restored"].as_u64()).sum::<u64>();
            outlived += log.iter().filter_map(|line| line["going_on"].as_u64()).sum::<u64>();
            if let Some(next) = next {
                program = next;
                continue;
            }
            self.prompts.allowed += 5;
            for _ in 0..self.prompts.random.below(5) {
                down += usize::from(self.prompts.send_somewhere());
            }
            forget_logins(&installation);
            program = installation.start(&["run"]);
        }
        self.prompts.allowed = self.prompts.events;
        while self.prompts.sent.len() < self.prompts.events {
            self.prompts.load(&mut answered);
            self.prompts.local.wait_a_moment().await;
        }
        self.prompts.settle(&mut answered).await?;
        self.prompts.check()?;
        program.logs("aetheel is ready").await;
        program.signal(Signal::TERM);
        let ended = program.ended().await;
        let journal = installation.read("state/queue.md");
        let numbers = |task: &str| {
            journal
                .lines()
                .filter_map(|line| line.strip_prefix(task)?.split('`').nth(1))
                .collect::<HashSet<_>>()
        };
        let open = numbers("- [ ]").difference(&numbers("- [x]")).count();
        if outlives {
            self.check_asked(&installation, outlived)?;
        }
        // The check is worthless if no process ends during a turn. That happens with too many
        // channels: reading their missed messages then takes longer than a process lives.
        if self.processes >= 15 && self.way == Way::Killed && restored == 0 {
            return Err("no process was killed during a turn; set fewer CHANNELS".to_owned());
        }
        if ended.code != 0 || open > 0 {
            return Err(format!("it ended with {}, and {open} events are left open", ended.code));
        }
        Ok(format!(
            "{} processes ended ({unready} of them not ready yet), {} prompts in {} channels ({down} written between two processes): each answered once and in order; \
             {restored} were restored by a later process, {outlived} turns outlived a gateway, {} ran again by the button of an offer; {:.0} s",
            self.processes,
            self.prompts.sent.len(),
            self.prompts.channels,
            self.prompts.offered.len(),
            began.elapsed().as_secs_f64()
        ))
    }

    /// Runs `aetheel upgrade` while users keep writing. Returns the next process.
    async fn upgrade(
        &mut self,
        installation: &Installation,
        program: &mut Program,
        answered: &mut usize,
    ) -> Result<Program, String> {
        program.logs("aetheel is ready").await;
        // Longer than the checks of the new program, so that a turn is running at the handover.
        let channel = CROWD + self.prompts.random.below(self.prompts.channels);
        self.prompts.sent.push((channel, self.prompts.local.mention(channel, ANN, "slow 8")));
        let upgraded = async {
            let ended = installation.run(&["upgrade"], "").await;
            // The gateway goes on after an upgrade that failed, so it is not waited for.
            if ended.code == 0 { Ok(ended) } else { Err(format!("the upgrade failed: {ended:?}")) }
        };
        let restarted = async {
            let left = program.ended().await;
            forget_logins(installation);
            Ok((left, installation.start(&["run"])))
        };
        let mut both = pin!(async { try_join!(upgraded, restarted) });
        let (ended, (left, next)) = loop {
            tokio::select! {
                ended = &mut both => break ended?,
                () = self.prompts.local.wait_a_moment() => self.prompts.load(answered),
            }
        };
        let handed = "handed over: the gateway is process";
        if (ended.code, left.code) == (0, 75) && ended.stdout.contains(handed) {
            return Ok(next);
        }
        Err(format!(
            "{} {} {}; {} {}",
            ended.code, ended.stdout, ended.stderr, left.code, left.stderr
        ))
    }

    /// Checks with the agents' own notes that each prompt reached an agent once.
    fn check_asked(&self, installation: &Installation, outlived: u64) -> Result<(), String> {
        let asked = prompt_count(installation);
        // A prompt that was begun in three processes, each of which was killed before the agent got
        // it, is set aside.
        let is_whole = self.prompts.offered.values().all(|text| text.contains("(set aside)"));
        if asked == self.prompts.sent.len() && is_whole && outlived > 0 {
            return Ok(());
        }
        let (sent, offered) = (self.prompts.sent.len(), &self.prompts.offered);
        Err(format!(
            "{sent} prompts, {asked} times an agent was asked, {outlived} turns outlived the gateway, {} offers: {:?}\n{}",
            offered.len(),
            offered.values(),
            self.warnings.join("\n")
        ))
    }
}

/// Removes the marks of logins, as an operator may do by hand. Two hundred starts within minutes
/// exceed Discord's login budget.
fn forget_logins(installation: &Installation) {
    let path = installation.path("config").join("state/discord.md");
    let Ok(text) = std::fs::read_to_string(&path) else { return };
    let kept: String = text
        .lines()
        .filter(|line| !line.starts_with("- `login:"))
        .map(|line| format!("{line}\n"))
        .collect();
    std::fs::write(path, kept).expect("written");
}

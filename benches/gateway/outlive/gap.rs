//! The interruption that people see when the gateway is killed during an answer: the whole program
//! with a local Discord.

use std::io::{BufRead as _, BufReader};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::holder::Holder;
use crate::local_discord::{ANN, CHANNEL, LocalDiscord, Message, TOKEN};
use crate::program::{Home, Running};
use crate::report;

/// How many times the gateway is killed during one turn.
const DEATHS: usize = 5;
/// The agent prints a piece of its answer every second, this many times.
const SECONDS: usize = 20;

/// Measures, and prints the figures.
pub async fn measure() {
    let (home, local) = (Home::new(), LocalDiscord::start().await);
    let holder = Holder::of_program(&home);
    let environment = [
        ("DISCORD_API_BASE", local.url()),
        ("DISCORD_BOT_TOKEN", TOKEN),
        ("FOOTER", "none"),
        ("AGENT_HOLDER", "require"),
        ("AGENT_HOLD_SECONDS", "60"),
    ];
    let start = || Started::new(home.start(&["run"], &environment));
    let mut started = start();
    started.ready();
    local.mention(CHANNEL, ANN, &format!("slow {SECONDS}"));
    let (mut kills, mut readies, mut gaps) = (Vec::new(), Vec::new(), Vec::new());
    let mut seen = edited(&local, Instant::now(), 0).await;
    for _ in 0..crate::times(DEATHS) {
        // Waits for an edit without a kill.
        seen = edited(&local, Instant::now(), seen.edits.len()).await;
        let killed = Instant::now();
        kills.push(killed);
        drop(started);
        started = start();
        readies.push(started.ready() - killed);
        let before = std::mem::take(&mut seen.content);
        seen = edited(&local, killed, seen.edits.len()).await;
        // The edit must extend the answer. An edit that only changes a button does not count.
        let says_more = |(_, text): &&(Instant, String)| text.len() > before.len();
        while !seen.edits.iter().any(|edit| edit.0 > killed && says_more(&edit)) {
            seen = edited(&local, killed, seen.edits.len()).await;
        }
        let next = seen.edits.iter().filter(|edit| edit.0 > killed).find(says_more);
        gaps.push(next.unwrap().0 - killed);
    }
    let whole = |local: &LocalDiscord| {
        local.messages(CHANNEL).into_iter().find(|message| message.content.ends_with("There."))
    };
    let whole = local.wait_within(Duration::from_secs(60), "the whole answer", whole).await;
    let said: String = (1..=SECONDS).map(|second| format!("Second {second}. ")).collect();
    assert_eq!(whole.content, format!("{said}There."));
    assert_eq!(local.texts(CHANNEL).len(), 1, "{:?}", local.texts(CHANNEL));
    drop(started);
    holder.end().await;
    report::part(&format!(
        "`slow {SECONDS}` (a piece of the answer each second), the gateway killed {} times and started at once",
        gaps.len()
    ));
    let shown = |times: &[Duration]| {
        let (median, worst) = (report::percentile(times, 50), report::percentile(times, 100));
        format!("{}, {}", report::time(median), report::time(worst))
    };
    report::figure("from the kill until the next gateway is ready: p50, worst", &shown(&readies));
    report::goal(
        "from the kill to the next edit people see: p50, worst",
        &shown(&gaps),
        "≤ 2 s",
        report::percentile(&gaps, 100) <= Duration::from_secs(2),
    );
    let steady = steady(&whole, &kills);
    report::figure("between two edits where nothing is killed: p50, worst", &shown(&steady));
}

/// Waits until the message is edited again, and returns it.
async fn edited(local: &LocalDiscord, after: Instant, edits: usize) -> Message {
    let found = |local: &LocalDiscord| {
        let message = local.messages(CHANNEL).pop()?;
        let (at, _) = message.edits.get(edits..)?.last()?;
        (*at > after).then_some(message)
    };
    local.wait_within(Duration::from_secs(60), "an edit", found).await
}

/// Returns the intervals between edits without a kill in between.
fn steady(whole: &Message, kills: &[Instant]) -> Vec<Duration> {
    let calm = |pair: &&[(Instant, String)]| {
        !kills.iter().any(|kill| (pair[0].0..pair[1].0).contains(kill))
    };
    whole.edits.windows(2).filter(calm).map(|pair| pair[1].0 - pair[0].0).collect()
}

/// The program, with a thread that reads its log.
struct Started {
    _running: Running,
    ready: mpsc::Receiver<Instant>,
}

impl Started {
    fn new(mut running: Running) -> Self {
        let (sender, ready) = mpsc::channel();
        let log = BufReader::new(running.log());
        std::thread::spawn(move || {
            for line in log.lines().map_while(Result::ok) {
                let line: Value = serde_json::from_str(&line).unwrap_or_default();
                if line["message"].as_str().or(line["fields"]["message"].as_str())
                    == Some("aetheel is ready")
                {
                    let _ = sender.send(Instant::now());
                }
            }
        });
        Self { _running: running, ready }
    }

    fn ready(&self) -> Instant {
        self.ready.recv_timeout(Duration::from_secs(30)).expect("it is ready")
    }
}

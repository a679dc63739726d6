//! The cost and delay of a message, through the whole program and a local Discord, with an agent
//! that answers at once; also the memory that many channels use.

use std::collections::HashMap;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::Value;

use crate::local_discord::{ANN, CROWD, LocalDiscord, TOKEN};
use crate::program::Home;
use crate::{cpu, report, times};

/// Messages one after the other, to measure the time of each step.
const ALONE: usize = 200;
/// Messages sent together, to measure the number per second.
const CROWDED: usize = 2_000;
/// Requests per second. Discord allows about 50; here no request may wait.
const UNLIMITED: u32 = 1_000_000;
const CHANNELS: usize = 1_000;

/// Settings with which nothing waits for Discord's limits.
pub const ENVIRONMENT: [(&str, &str); 6] = [
    ("DISCORD_BOT_TOKEN", TOKEN),
    ("DISCORD_REQUESTS_PER_SECOND", "0"),
    ("FOOTER", "none"),
    ("USER_PROMPTS_PER_MINUTE", "0"),
    ("BUSY_POLICY", "queue"),
    ("MAX_QUEUE_DEPTH", "100000"),
];

/// Measures messages through the whole program, and prints the figures.
pub async fn measure() {
    report::part("messages, demo backend, whole program with its journal, local Discord beside it");
    let (home, local) = (Home::new(), LocalDiscord::start().await);
    lift_limits(&local);
    let mut environment = ENVIRONMENT.to_vec();
    environment.extend([("DISCORD_API_BASE", local.url()), ("MAX_CONCURRENT_QUERIES", "16")]);
    let mut running = home.start(&["run"], &environment);
    running.until("aetheel is ready");
    let id = running.id();
    drain(running.log());
    let idle = cpu::resident_of(id, "RssAnon");

    let (mut typing, mut answers, mut sent) = (Vec::new(), Vec::new(), HashMap::new());
    for number in 0..times(ALONE) {
        let channel = CROWD + (number % CHANNELS) as u64;
        let (begun, now) = (Instant::now(), SystemTime::now());
        let message = local.mention(channel, ANN, "hello");
        answered(&local, channel, message).await;
        answers.push(begun.elapsed());
        typing.extend(local.typing(channel).last().map(|at| at.duration_since(begun)));
        sent.insert(format!("channel:{channel}"), now);
    }
    report::figure("from message to typing", &report::spread(&typing));
    report::figure("from message to the agent's process", &report::spread(&starts(&home, &sent)));
    report::figure("from message to the complete answer in Discord", &report::spread(&answers));

    let (count, before, begun) = (times(CROWDED), cpu_of(id), Instant::now());
    let messages = (0..count)
        .map(|number| local.mention(CROWD + (number % CHANNELS) as u64, ANN, "hello"))
        .collect();
    all_answered(&local, messages).await;
    let (took, used) = (begun.elapsed(), cpu_of(id).saturating_sub(before));
    let each = used / u32::try_from(count).unwrap();
    let rate = count as f64 / took.as_secs_f64();
    report::goal(
        &format!("messages per second, {CHANNELS} channels, 16 slots"),
        &format!("{rate:.0}/s"),
        "≥ 500/s",
        rate >= 500.0,
    );
    let met = each <= Duration::from_millis(2);
    report::goal(
        "processor time of the gateway per message, without agents",
        &report::time(each),
        "≤ 2 ms",
        met,
    );
    let kib = cpu::resident_of(id, "RssAnon").saturating_sub(idle) as f64 / 1024.0;
    report::figure(
        &format!("memory of {CHANNELS} channels with a session each"),
        &format!("{:.1} KiB a channel", kib / CHANNELS as f64),
    );
    let all = cpu::resident_of(id, "VmRSS") as f64 / f64::from(1 << 20);
    report::figure("the whole program then", &format!("{all:.1} MiB"));
}

/// Removes the rate limits of the local Discord.
pub fn lift_limits(local: &LocalDiscord) {
    for route in ["POST messages", "PATCH message", "POST typing", "guilds", "channels"] {
        local.faults().limit(route, UNLIMITED, Duration::from_secs(1));
    }
    local.faults().most_per_second(usize::MAX);
}

/// Waits until the answer to a message is complete.
pub async fn answered(local: &LocalDiscord, channel: u64, message: u64) {
    let whole = |local: &LocalDiscord| {
        let found =
            local.messages(channel).into_iter().find(|answer| answer.reply_to == Some(message))?;
        is_whole(&found.content).then_some(())
    };
    local.wait_within(Duration::from_secs(300), "an answer", whole).await;
}

/// Waits until all messages are answered. Polls at an interval: checking at every change would cost
/// more than the measured work.
pub async fn all_answered(local: &LocalDiscord, mut messages: Vec<u64>) {
    let begun = Instant::now();
    while !messages.is_empty() {
        assert!(
            begun.elapsed() < Duration::from_secs(300),
            "{} messages without an answer",
            messages.len()
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
        let replies = local.replies();
        let answered = |message: &u64| {
            replies
                .get(message)
                .is_some_and(|replies| replies.iter().any(|reply| is_whole(&reply.content)))
        };
        messages.retain(|message| !answered(message));
    }
}

fn is_whole(answer: &str) -> bool {
    answer.ends_with("of our conversation.")
}

/// Returns the delays from the messages to the starts of their agents, according to the recordings.
fn starts(home: &Home, sent: &HashMap<String, SystemTime>) -> Vec<Duration> {
    let mut found = Vec::new();
    let days = std::fs::read_dir(home.path().join("recordings")).unwrap();
    for file in days.flat_map(|day| std::fs::read_dir(day.unwrap().path()).unwrap()) {
        let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
        let mut lines =
            text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap_or_default());
        let head = lines.next().unwrap_or_default();
        let Some(started) = head["started"].as_str() else { continue };
        let Some(lane) = lines.find_map(|line| line["turn"]["lane"].as_str().map(str::to_owned))
        else {
            continue;
        };
        let Some(spawned) = lines.find(|line| !line["in"]["spawned"].is_null()) else { continue };
        let opened: jiff::Timestamp = started.parse().unwrap();
        let Some(sent) = sent.get(&lane) else { continue };
        let sent = sent.duration_since(UNIX_EPOCH).unwrap().as_secs_f64();
        let at =
            opened.as_nanosecond() as f64 / 1e9 + spawned["t"].as_f64().unwrap_or_default() / 1e3;
        found.extend(Duration::try_from_secs_f64(at - sent).ok());
    }
    found
}

/// Returns the processor time of a process without its children, in steps of 10 ms.
pub fn cpu_of(process: u32) -> Duration {
    cpu::used_by(&process.to_string()).own
}

/// Reads a log to its end, so that its writer never blocks.
pub fn drain(mut log: impl std::io::Read + Send + 'static) {
    std::thread::spawn(move || {
        let mut some = [0; 1 << 16];
        while log.read(&mut some).is_ok_and(|read| read > 0) {}
    });
}

//! The time from the start of the real program until it is ready, with its components in the cache,
//! and its memory when idle.

use std::time::{Duration, Instant};

use crate::local_discord::{LocalDiscord, TOKEN};
use crate::program::{Home, Running};
use crate::{cpu, report};

const STARTS: usize = 30;
/// How long the program is idle before its memory is measured.
const IDLE: Duration = Duration::from_secs(2);

/// Measures the start of the program and the memory it uses, and prints the figures.
pub async fn measure() {
    report::part("the program, demo and Claude backend in its folder");
    let home = Home::new();
    let console = || home.start(&["console", "--backend", "demo"], &[]);
    let ready = |mut running: Running, message: &str| {
        let line = running.until(message);
        let reported = line["ready_ms"].as_u64().or(line["fields"]["ready_ms"].as_u64()).unwrap();
        (running, Duration::from_millis(reported))
    };
    let begun = Instant::now();
    drop(ready(console(), "console ready"));
    report::figure("start to ready, empty cache", &report::time(begun.elapsed()));
    let mut starts = Vec::new();
    let mut reported = Vec::new();
    for _ in 0..STARTS {
        let begun = Instant::now();
        let (running, inside) = ready(console(), "console ready");
        starts.push(begun.elapsed());
        reported.push(inside);
        drop(running);
    }
    let median = report::percentile(&starts, 50);
    report::goal(
        "start to ready, from outside",
        &report::spread(&starts),
        "≤ 150 ms",
        median <= Duration::from_millis(150),
    );
    report::figure("the same, by its own clock", &report::spread(&reported));

    idle("idle `aetheel console`", &ready(console(), "console ready").0).await;
    let discord = LocalDiscord::start().await;
    let environment = [("DISCORD_API_BASE", discord.url()), ("DISCORD_BOT_TOKEN", TOKEN)];
    idle(
        "idle `aetheel run`, signed in",
        &ready(home.start(&["run"], &environment), "aetheel is ready").0,
    )
    .await;
}

async fn idle(what: &str, running: &Running) {
    tokio::time::sleep(IDLE).await;
    let mib = |field| cpu::resident_of(running.id(), field) as f64 / f64::from(1 << 20);
    let (all, own) = (mib("VmRSS"), mib("RssAnon"));
    report::goal(
        what,
        &format!("{all:.1} MiB ({own:.1} of it not backed by files)"),
        "≤ 40 MB",
        all * 1.048_576 <= 40.0,
    );
}

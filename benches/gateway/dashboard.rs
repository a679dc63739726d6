//! The cost of dashboard pages for the whole program: idle with and without a dashboard, a
//! streaming turn with and without viewers, and the size and time of a page.
//!
//! Processor time is that of the gateway alone, without agents, the local Discord and viewers.
//! Linux counts it in steps of 10 ms, over a whole window.

use std::time::{Duration, Instant};

use reqwest::{Client, Response, redirect};

use crate::local_discord::{ANN, BOB, CHANNEL, LocalDiscord, TOKEN};
use crate::program::{Home, Running};
use crate::{cpu, report};

/// Viewers of the turn.
const VIEWERS: usize = 10;
/// Measured windows of each kind, in alternation.
const ROUNDS: usize = 4;
const WINDOW: Duration = Duration::from_secs(10);
/// The agent prints a piece of 24 characters at this interval, as the fastest real ones do.
const PAUSE_MS: &str = "50";
/// Pages that are requested one after the other.
const PAGES: usize = 200;

/// Measures, and prints the figures.
pub async fn measure() {
    let local = LocalDiscord::start().await;
    report::part("the idle program, logged in, without viewers");
    for (what, address) in [("without a dashboard", ""), ("with one", "127.0.0.1:0")] {
        let home = Home::new();
        let mut running = start(&home, &local, address);
        running.until("aetheel is ready");
        let spent = spent_by(&running, WINDOW * 2).await;
        report::figure(&format!("processor time of the gateway, {what}"), &percent(spent));
    }

    let home = Home::new();
    let mut running = start(&home, &local, "127.0.0.1:0");
    running.until("aetheel is ready");
    let mut viewers = Vec::new();
    for user in [ANN, BOB].into_iter().cycle().take(VIEWERS) {
        viewers.push(Viewer::new(&local, user).await);
    }
    local.mention(CHANNEL, ANN, "long 1000000");
    let streams = |local: &LocalDiscord| {
        local.texts(CHANNEL).iter().any(|text| text.contains("0010 The quick")).then_some(())
    };
    local.wait_within(Duration::from_secs(60), "a turn that streams", streams).await;
    report::part(&format!(
        "a turn that prints 24 characters every {PAUSE_MS} ms, with 0 and {VIEWERS} viewers in alternation"
    ));
    let (mut alone, mut seen) = (Vec::new(), Vec::new());
    for _ in 0..crate::times(ROUNDS) {
        alone.push(spent_by(&running, WINDOW).await);
        let mut following = Vec::new();
        for viewer in &viewers {
            following.push(viewer.follow().await);
        }
        let reading: Vec<_> = following.into_iter().map(|one| tokio::spawn(read(one))).collect();
        seen.push(spent_by(&running, WINDOW).await);
        for reader in reading {
            assert!(!reader.is_finished(), "a stream ended before its window");
            reader.abort();
        }
    }
    let median = |parts: &[f64]| report::percentile(parts, 50);
    report::figure("processor time of the gateway, no viewers", &percent(median(&alone)));
    report::figure(&format!("the same, {VIEWERS} viewers"), &percent(median(&seen)));
    let more = (median(&seen) - median(&alone)).max(0.0);
    report::goal("added by the viewers", &percent(more), "≤ 2 %", more <= 0.02);
    let rounds =
        |parts: &[f64]| parts.iter().map(|part| percent(*part)).collect::<Vec<_>>().join(" ");
    report::figure("rounds, no viewers", &rounds(&alone));
    report::figure("rounds, with viewers", &rounds(&seen));

    report::part("the page of running turns, with that turn");
    let (mut times, mut size) = (Vec::new(), 0);
    for _ in 0..crate::times(PAGES) {
        let begun = Instant::now();
        let page = viewers[0].get("/").await.text().await.unwrap();
        times.push(begun.elapsed());
        size = page.len();
    }
    report::figure("from the request to the last byte", &report::spread(&times));
    report::goal("its size", &format!("{size} bytes"), "≤ 50 KB", size <= 50 << 10);
}

fn start(home: &Home, local: &LocalDiscord, dashboard: &str) -> Running {
    let environment = [
        ("DISCORD_API_BASE", local.url()),
        ("DISCORD_BOT_TOKEN", TOKEN),
        ("FOOTER", "none"),
        ("AGENT_HOLDER", "off"),
        ("DASHBOARD_ADDRESS", dashboard),
        ("QUERY_TIMEOUT_MS", "3600000"),
        ("DEMO_AGENT_DELAY_MS", PAUSE_MS),
    ];
    home.start(&["run"], &environment)
}

/// Returns the part of a processor that the gateway uses in a window.
async fn spent_by(running: &Running, window: Duration) -> f64 {
    let process = running.id().to_string();
    let (before, begun) = (cpu::used_by(&process).own, Instant::now());
    tokio::time::sleep(window).await;
    (cpu::used_by(&process).own - before).as_secs_f64() / begun.elapsed().as_secs_f64()
}

fn percent(part: f64) -> String {
    format!("{:.2} %", part * 100.0)
}

/// A person who is signed in.
struct Viewer {
    client: Client,
    base: String,
    cookie: String,
}

impl Viewer {
    async fn new(local: &LocalDiscord, user: u64) -> Self {
        let answer = local.answer_to(local.slash(CHANNEL, user, "dashboard", None)).await;
        let link = answer.content.trim_start_matches('<').split('>').next().unwrap().to_owned();
        let (base, secret) = link.split_once("/enter/").unwrap_or_else(|| panic!("{link}"));
        let client = Client::builder().redirect(redirect::Policy::none()).build().unwrap();
        let entered = client
            .post(format!("{base}/enter"))
            .header("content-type", "application/x-www-form-urlencoded")
            .body(format!("link={secret}"))
            .send()
            .await
            .unwrap();
        let cookie = entered.headers()["set-cookie"].to_str().unwrap();
        let cookie = cookie.split(';').next().unwrap().to_owned();
        Self { client, base: base.to_owned(), cookie }
    }

    async fn get(&self, path: &str) -> Response {
        let request = self.client.get(format!("{}{path}", self.base));
        let answer = request.header("cookie", &self.cookie).send().await.unwrap();
        assert_eq!(answer.status(), 200, "{path}");
        answer
    }

    async fn follow(&self) -> Response {
        let mut stream = self.get("/live").await;
        assert!(
            stream.chunk().await.unwrap().is_some(),
            "the stream begins with the current state"
        );
        stream
    }
}

/// Reads a stream, which does not end on its own.
async fn read(mut stream: Response) {
    while stream.chunk().await.unwrap().is_some() {}
}

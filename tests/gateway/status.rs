//! `/livez`, `/readyz`, `/metrics`, and the notifications to the service manager.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use aetheel_runtime::figures::FIGURES;
use rustix::process::Signal;
use serde_json::Value;

use super::{installed, serving};
use crate::support::discord::{ANN, CHANNEL, LocalDiscord, TOKEN};
use crate::support::program::{LIMIT, Program};

const KEY: &str = "sk-ant-canary-0123456789abcdef";

/// Requests a page, and returns its status and text. Returns `None` if the program does not answer.
async fn request_page(address: &str, page: &str) -> Option<(u16, String)> {
    let answer = reqwest::Client::new()
        .get(format!("http://{address}{page}"))
        .timeout(Duration::from_secs(10))
        .send()
        .await
        .ok()?;
    Some((answer.status().as_u16(), answer.text().await.ok()?))
}

#[tokio::test]
async fn silent_connections_are_closed_and_do_not_block_others() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local).with("STATUS_ADDRESS", "127.0.0.1:0");
    let bot = serving(&installation).await;
    let address = status_address(&bot).await;
    let mut idle = Vec::new();
    for _ in 0..100 {
        idle.push(tokio::net::TcpStream::connect(&address).await.unwrap());
    }
    assert!(request_page(&address, "/livez").await.is_some());
    for stream in &mut idle[..36] {
        let gone = tokio::time::timeout(LIMIT, tokio::io::AsyncReadExt::read(stream, &mut [0]))
            .await
            .expect("the oldest connections are closed");
        assert!(!matches!(gone, Ok(1..)), "{gone:?}");
    }
}

/// Returns the address of the status pages.
async fn status_address(program: &Program) -> String {
    program.logs("status pages are open").await["address"].as_str().unwrap().to_owned()
}

/// Waits until the answer of `/readyz` meets a condition, and returns its JSON.
async fn readyz(address: &str, wanted: impl Fn(u16, &Value) -> bool) -> Value {
    let mut looks = tokio::time::interval(Duration::from_millis(50));
    let mut last = None;
    let wait = async {
        loop {
            looks.tick().await;
            let Some((status, text)) = request_page(address, "/readyz").await else { continue };
            let report: Value =
                serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
            assert_eq!(status == 200, report["ready"] == true, "{text}");
            if wanted(status, &report) {
                return report;
            }
            last = Some(text);
        }
    };
    match tokio::time::timeout(LIMIT, wait).await {
        Ok(report) => report,
        Err(_) => panic!("timed out; the last answer was {last:?}"),
    }
}

/// Waits until no turn runs. An answer is delivered before its turn ends.
async fn metrics_without_turns(address: &str) -> (String, BTreeMap<String, f64>) {
    let mut looks = tokio::time::interval(Duration::from_millis(50));
    let wait = async {
        loop {
            looks.tick().await;
            let (status, text) = request_page(address, "/metrics").await.unwrap();
            assert_eq!(status, 200);
            let samples = samples(&text);
            if samples.get("aetheel_turns_running") == Some(&0.0) {
                return (text, samples);
            }
        }
    };
    tokio::time::timeout(LIMIT, wait).await.expect("the turn ends")
}

fn reasons(report: &Value) -> String {
    report["reasons"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(Value::as_str)
        .collect::<Vec<_>>()
        .join("; ")
}

/// Parses Prometheus' text format into values by name with labels.
fn samples(text: &str) -> BTreeMap<String, f64> {
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    lines
        .map(|line| line.rsplit_once(' ').unwrap())
        .map(|(name, value)| (name.to_owned(), value.parse().unwrap()))
        .collect()
}

#[tokio::test]
async fn a_program_is_ready_while_it_is_connected_and_not_draining() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local).with("STATUS_ADDRESS", "127.0.0.1:0");
    let mut bot = serving(&installation).await;
    let address = status_address(&bot).await;
    readyz(&address, |status, _| status == 200).await;
    assert_eq!(request_page(&address, "/livez").await.unwrap().0, 200);

    local.faults().refuse_gateway(true);
    local.faults().drop_gateway(true);
    let report = readyz(&address, |status, _| status == 503).await;
    assert_eq!(reasons(&report), "discord is not connected");
    assert_eq!(request_page(&address, "/livez").await.unwrap().0, 200, "it is alive all the same");
    local.faults().refuse_gateway(false);
    readyz(&address, |status, _| status == 200).await;

    local.mention(CHANNEL, ANN, "slow 600");
    local.wait_for_message(CHANNEL, |text| text.contains("Second 1.")).await;
    bot.signal(Signal::INT);
    let report = readyz(&address, |status, _| status == 503).await;
    assert!(reasons(&report).contains("draining"), "{report}");
    bot.signal(Signal::INT);
    assert_eq!(bot.ended().await.code, 0);
}

#[tokio::test]
async fn readyz_names_what_prevents_answers() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local).with("STATUS_ADDRESS", "127.0.0.1:0");
    local.faults().refuse_gateway(true);
    let bot = installation.start(&["run"]);
    let address = status_address(&bot).await;
    let report = readyz(&address, |_, report| reasons(report).contains("discord")).await;
    assert!(reasons(&report).contains("starting"), "{report}");
    local.faults().refuse_gateway(false);
    readyz(&address, |status, _| status == 200).await;

    let state = installation.path("config/state");
    std::fs::remove_dir_all(&state).unwrap();
    std::fs::write(&state, "in the way").unwrap();
    let report = readyz(&address, |status, _| status == 503).await;
    assert!(reasons(&report).contains("state folder"), "{report}");
    assert!(
        !report.to_string().contains(installation.path("config").to_str().unwrap()),
        "no paths: {report}"
    );
}

#[tokio::test]
async fn a_turn_is_counted_and_every_metric_is_documented() {
    let local = LocalDiscord::start().await;
    let installation =
        installed(&local).with("STATUS_ADDRESS", "127.0.0.1:0").with("ANTHROPIC_API_KEY", KEY);
    let bot = serving(&installation).await;
    let address = status_address(&bot).await;
    readyz(&address, |status, _| status == 200).await;
    local.mention(CHANNEL, ANN, &format!("hello, the key is {KEY}, the token {TOKEN}"));
    bot.logs("answer delivered").await;
    let (text, samples) = metrics_without_turns(&address).await;
    let sample =
        |name: &str| *samples.get(name).unwrap_or_else(|| panic!("{name} is not there\n{text}"));
    assert!(sample("aetheel_heartbeat_age_seconds") >= 0.0, "the heartbeat runs");
    for (name, value) in [
        (r#"aetheel_events_total{type="message",outcome="accepted"}"#, 1.0),
        (r#"aetheel_events_total{type="message",outcome="delivered"}"#, 1.0),
        (r#"aetheel_turns_total{backend="demo",ending="completed"}"#, 1.0),
        (r#"aetheel_turn_duration_seconds_count{backend="demo"}"#, 1.0),
        (r#"aetheel_turn_first_text_seconds_count{backend="demo"}"#, 1.0),
        (r#"aetheel_event_wait_seconds_count{type="message"}"#, 1.0),
        (r#"aetheel_reloads_total{result="loaded"}"#, 1.0),
        (r#"aetheel_backend_generation{backend="demo"}"#, 1.0),
        (r#"aetheel_queue_depth"#, 0.0),
        (r#"aetheel_turns_running"#, 0.0),
        (r#"aetheel_discord_connected"#, 1.0),
        (r#"aetheel_discord_logins_total"#, 1.0),
        (r#"aetheel_discord_messages_total{stage="final",how="post"}"#, 1.0),
        (r#"aetheel_discord_send_failures_total"#, 0.0),
        (concat!(r#"aetheel_build_info{version=""#, env!("CARGO_PKG_VERSION"), r#""}"#), 1.0),
    ] {
        assert_eq!(sample(name), value, "{name}");
    }
    assert!(sample(r#"aetheel_guest_call_seconds_count{backend="demo"}"#) >= 2.0);
    let of_version = |name: &str| {
        let start = format!(r#"{name}{{backend="demo",generation="1@"#);
        samples.iter().find(|(sample, _)| sample.starts_with(&start)).map(|(_, value)| *value)
    };
    for name in [
        "aetheel_guest_calls_total",
        "aetheel_guest_run_seconds_total",
        "aetheel_guest_memory_peak_bytes",
    ] {
        assert!(of_version(name).is_some_and(|value| value > 0.0), "{name}\n{text}");
    }
    assert!(of_version("aetheel_guests_open").is_some(), "{text}");
    assert!(sample(r#"aetheel_discord_requests_total{status="200"}"#) >= 4.0);
    assert!(sample("process_resident_memory_bytes") > 1e6 && sample("process_open_fds") > 3.0);

    // Exactly the documented metrics are served, with the documented labels.
    for line in text.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
        let (name, kind) = line.split_once(' ').unwrap();
        let figure = FIGURES
            .iter()
            .find(|figure| figure.name == name)
            .unwrap_or_else(|| panic!("{name} is not described"));
        assert_eq!(figure.kind.word(), kind, "{name}");
    }
    for name in samples.keys() {
        let (name, labels) = name.trim_end_matches('}').split_once('{').unwrap_or((name, ""));
        let figure = FIGURES.iter().find(|figure| name.starts_with(figure.name)).unwrap();
        let names: Vec<&str> = labels
            .split("\",")
            .filter_map(|pair| Some(pair.split_once('=')?.0))
            .filter(|label| *label != "le")
            .collect();
        assert_eq!(names, figure.labels, "{name}");
    }
    for secret in [TOKEN, KEY, "hello", &CHANNEL.to_string()] {
        assert!(!text.contains(secret), "{secret:?} is in the metrics");
    }
}

#[tokio::test]
async fn an_address_that_is_taken_stops_the_start() {
    let local = LocalDiscord::start().await;
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let installation =
        installed(&local).with("STATUS_ADDRESS", &taken.local_addr().unwrap().to_string());
    let ended = installation.run(&["run"], "").await;
    assert_eq!(ended.code, 75, "{}", ended.stderr);
    assert!(
        ended.stderr.contains("STATUS_ADDRESS: cannot listen at 127.0.0.1:"),
        "{}",
        ended.stderr
    );
}

#[tokio::test]
async fn an_address_that_other_machines_can_reach_causes_a_warning() {
    let local = LocalDiscord::start().await;
    // This machine does not have this address, so nothing is opened. The warning comes first.
    let installation = installed(&local).with("STATUS_ADDRESS", "192.0.2.1:9464");
    let ended = installation.run(&["run"], "").await;
    assert_eq!(ended.code, 75, "{}", ended.stderr);
    assert!(ended.stderr.contains("can be reached from other machines"), "{}", ended.stderr);
}

#[tokio::test]
async fn without_an_address_there_are_no_pages() {
    let local = LocalDiscord::start().await;
    let bot = serving(&installed(&local)).await;
    assert!(
        bot.log().iter().all(|line| line["message"] != "status pages are open"),
        "{}",
        bot.stderr()
    );
}

#[tokio::test]
async fn the_service_manager_is_notified_of_readiness_activity_and_stopping() {
    let local = LocalDiscord::start().await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let next = || {
        let mut bytes = [0; 256];
        let length = socket.recv(&mut bytes).expect("a notification");
        String::from_utf8(bytes[..length].to_vec()).unwrap()
    };
    let installation = installed(&local)
        .with("NOTIFY_SOCKET", path.to_str().unwrap())
        .with("WATCHDOG_USEC", "400000");
    let mut bot = serving(&installation).await;
    assert_eq!(next(), "READY=1");
    assert_eq!((next(), next()), ("WATCHDOG=1".to_owned(), "WATCHDOG=1".to_owned()));
    bot.signal(Signal::TERM);
    let mut notification = next();
    while notification == "WATCHDOG=1" {
        notification = next();
    }
    assert_eq!(notification, "STOPPING=1");
    assert_eq!(bot.ended().await.code, 0);
}

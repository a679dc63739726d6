//! The time until the caller of a webhook gets its 202, while agents run turns.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use aetheel_store::workspace::{Deliveries, WebhookFile, Workspace};
use aetheel_web::webhooks::{Definitions, WebhookDeps, WebhookListener};

use crate::caller::Call;
use crate::program::Home;
use crate::report;
use crate::turns::Gateway;

/// Calls per second, and the duration in seconds.
const RATE: u32 = 200;
const SECONDS: u32 = 10;
const SECRET: &str = "a-secret-that-only-the-bench-knows";
const DEFINITION: &str = "## bench\n- scheme: github\n- secret: BENCH_SECRET\n- limit: 100000/min burst 100000\n\nhello\n";

/// Measures calls of webhooks until they are saved, and prints the figures.
pub async fn measure() {
    let home = Home::new();
    let gateway =
        Gateway::new(&home, "demo", PathBuf::from(env!("CARGO_BIN_EXE_aetheel")), 2).await;
    let config = home.path().join("config");
    std::fs::write(config.join("webhooks.md"), DEFINITION).unwrap();
    let definitions = Definitions::new(
        WebhookFile::new(&config),
        [("BENCH_SECRET".to_owned(), SECRET.into())].into(),
    );
    let workspace = Workspace::open(&config).await.unwrap();
    let deliveries = Deliveries::open(workspace.folder()).await.unwrap();
    let bound = WebhookListener::take("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let serving = bound.serve(WebhookDeps {
        definitions,
        intake: gateway.dispatcher.intake.clone(),
        deliveries,
    });
    serving.open().await;

    let address = serving.address;
    let mut clock = tokio::time::interval(Duration::from_secs(1) / RATE);
    let mut calls = Vec::new();
    for number in 0..RATE * if cfg!(debug_assertions) { 2 } else { SECONDS } {
        clock.tick().await;
        calls.push(tokio::spawn(async move {
            let body = format!("{{\"number\": {number}, \"text\": \"{}\"}}", "x".repeat(4_000));
            let call = Call::post("bench", &body).github(SECRET, "push", &number.to_string());
            let begun = Instant::now();
            let answered = call.send(address).await;
            assert_eq!(answered.status, 202, "{answered:?}");
            begun.elapsed()
        }));
    }
    let mut times = Vec::new();
    for call in calls {
        times.push(call.await.unwrap());
    }
    report::part(&format!(
        "webhooks: {RATE} signed calls per second, each on a connection of its own, while the agent works"
    ));
    let met = report::percentile(&times, 99) <= Duration::from_millis(50);
    report::goal(
        "from connecting to 202, event and id on disk",
        &report::spread(&times),
        "p99 ≤ 50 ms",
        met,
    );
    serving.close().await;
    gateway.dispatcher.shutdown(Duration::from_secs(120)).await;
}

//! The processor time of turns while a new version reads them beside the serving one
//! (`BACKEND_ROLLOUT=shadow:N`), compared with turns without a rollout.
//!
//! Two gateways run the same turns of the demo agent in alternation: as many at a time as there are
//! processors, and one after the other with pauses, so that every turn is compared. The time until
//! the last comparison counts. The new version is the serving one with another digest.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use aetheel_model::rollout::Rollout;
use aetheel_process::{Custody, Means};
use aetheel_turn::Backends as _;
use aetheel_wasm::LoadReport;

use crate::cpu::Used;
use crate::program::Home;
use crate::turns::Gateway;
use crate::{report, times};

const DEMO: &str = "demo";
/// Turns that are measured together, and the number of rounds.
const TURNS: usize = 300;
const ROUNDS: usize = 7;
/// Turns with a pause after each, and the pause.
const PACED_TURNS: usize = 100;
const PAUSE: Duration = Duration::from_millis(100);
/// The limit of the additional processor time.
const MAX_EXTRA: f64 = 0.05;

/// Measures turns with and without a rollout, and prints the figures.
pub async fn measure() {
    let slots = std::thread::available_parallelism().map_or(2, usize::from);
    let (homes, never) = ([Home::new(), Home::new()], NonZeroU32::MAX);
    let without = gateway(&homes[0], slots, Rollout::Now).await;
    let with = gateway(&homes[1], slots, Rollout::Shadow(never)).await;
    begin_rollout(&homes[1], &with).await;
    for gateway in [&without, &with] {
        gateway.turns("Hello", 20).await;
        compared(gateway, 20).await;
    }
    report::part(&format!(
        "turns of the demo agent while a new version reads them, {slots} at a time"
    ));
    let (mut ran, mut extra) = (20, Vec::new());
    for _ in 0..times(ROUNDS) {
        let alone = used_by(&without, ran, TURNS, None).await;
        let beside = used_by(&with, ran, TURNS, None).await;
        ran += TURNS;
        extra.push(beside.as_secs_f64() / alone.as_secs_f64() - 1.0);
    }
    print(&with, "under load", &extra);

    let mut extra = Vec::new();
    for _ in 0..times(ROUNDS) {
        let alone = used_by(&without, ran, PACED_TURNS, Some(PAUSE)).await;
        let beside = used_by(&with, ran, PACED_TURNS, Some(PAUSE)).await;
        ran += PACED_TURNS;
        extra.push(beside.as_secs_f64() / alone.as_secs_f64() - 1.0);
    }
    print(&with, "10 turns a second", &extra);
    for gateway in [without, with] {
        gateway.dispatcher.shutdown(Duration::ZERO).await;
    }
}

fn print(with: &Gateway, what: &str, extra: &[f64]) {
    let view = with.dispatcher.rollouts.of(DEMO).unwrap();
    let median = report::percentile(extra, 50);
    report::goal(
        &format!("additional processor time, {what}"),
        &format!("{:.1} %", median * 100.0),
        "≤ 5 %",
        median <= MAX_EXTRA,
    );
    report::figure(
        "turns compared and skipped so far",
        &format!("{} and {}", view.compared, view.skipped),
    );
}

/// Returns the processor time of this process and its agents for these turns, including their
/// comparisons. `before` turns ran on the gateway before.
async fn used_by(
    gateway: &Gateway,
    before: usize,
    turns: usize,
    pause: Option<Duration>,
) -> Duration {
    let begun = Used::now();
    match pause {
        None => gateway.turns("Hello", turns).await,
        Some(pause) => {
            for _ in 0..turns {
                gateway.turns_in(0, "Hello", 1).await;
                tokio::time::sleep(pause).await;
            }
        }
    }
    compared(gateway, before + turns).await;
    let used = Used::since(begun);
    used.own + used.children
}

/// Waits until this many turns were compared or skipped.
async fn compared(gateway: &Gateway, turns: usize) {
    while let Some(view) = gateway.dispatcher.rollouts.of(DEMO)
        && view.compared + view.skipped < turns as u64
    {
        assert!(view.differences.is_empty(), "{:?}", view.differences);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn gateway(home: &Home, slots: usize, rollout: Rollout) -> Gateway {
    let program = PathBuf::from(env!("CARGO_BIN_EXE_aetheel"));
    let custody = Arc::new(Custody::new(Means::Best).unwrap());
    Gateway::rolling(home, DEMO, program, slots, custody, false, rollout).await
}

/// Puts the component into place again with another digest.
async fn begin_rollout(home: &Home, gateway: &Gateway) {
    gateway.registry.keep();
    let mut reports = gateway.registry.subscribe();
    let file = home.path().join("backends").join(DEMO).with_extension("wasm");
    // A component may have custom sections at its end.
    let again = [std::fs::read(&file).unwrap(), b"\x00\x06\x05again".to_vec()].concat();
    let staged = file.with_extension("new");
    std::fs::write(&staged, again).unwrap();
    std::fs::rename(staged, file).unwrap();
    while !matches!(reports.recv().await.unwrap(), LoadReport::OnRollout { .. }) {}
    assert!(gateway.registry.rollout(DEMO).is_some());
}

//! The time that a new gateway needs to take over the links of the previous one.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use aetheel_turn::Launcher as _;
use tokio::runtime::Runtime;

use super::holder::Holder;
use crate::cpu::Used;
use crate::program::Home;
use crate::report;
use crate::turns::Gateway;

/// Running turns, lines that each agent has printed, and gateways that are killed.
const TURNS: usize = 100;
const LINES: usize = 200;
const DEATHS: usize = 5;

/// Measures, and prints the figures.
pub fn measure() {
    let home = Home::new();
    let (agent, holder) = (agent(home.path()), Holder::new(&home));
    let first = runtime();
    first.block_on(async {
        let launcher = holder.launcher().await;
        let gateway =
            Gateway::over(&home, "demo", agent.clone(), TURNS, Arc::new(launcher.clone()), true)
                .await;
        (0..TURNS as u64).for_each(|channel| gateway.submit(channel, "hang"));
        recorded(home.path()).await;
        // Ends like a killed gateway: it reports nothing more about its agents.
        launcher.leave().await;
    });
    first.shutdown_timeout(Duration::from_secs(10));
    let lines = written(home.path());
    let (mut times, mut cpus, mut connects) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..crate::times(DEATHS) {
        let next = runtime();
        next.block_on(async {
            let begun = Instant::now();
            let launcher = holder.launcher().await;
            connects.push(begun.elapsed());
            assert_eq!(launcher.survivors().await.len(), TURNS, "some agents have ended");
            let gateway = Gateway::over(
                &home,
                "demo",
                agent.clone(),
                TURNS,
                Arc::new(launcher.clone()),
                true,
            )
            .await;
            let (begun, used) = (Instant::now(), Used::now());
            gateway.dispatcher.recovery.restore_agents().await;
            times.push(begun.elapsed());
            cpus.push(Used::since(used).own);
            let _ = gateway.dispatcher.recovery.recover().await;
            tokio::time::sleep(Duration::from_millis(500)).await;
            launcher.leave().await;
        });
        next.shutdown_timeout(Duration::from_secs(10));
    }
    runtime().block_on(holder.end());
    report::part(&format!(
        "a new gateway takes over {TURNS} running turns, each with {LINES} lines of its agent ({} in its recording), {} times",
        lines / TURNS,
        times.len()
    ));
    let worst = report::percentile(&times, 100);
    report::figure(
        "connecting to the holder, p50",
        &report::time(report::percentile(&connects, 50)),
    );
    report::goal(
        "until all continue: p50, worst",
        &format!("{}, {}", report::time(report::percentile(&times, 50)), report::time(worst)),
        "≤ 2 s",
        worst <= Duration::from_secs(2),
    );
    report::figure("processor time of that, p50", &report::time(report::percentile(&cpus, 50)));
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap()
}

/// Writes an agent that speaks as the demo agent does, and then hangs.
fn agent(folder: &Path) -> PathBuf {
    let path = folder.join("agent");
    let script = format!(
        r#"#!/bin/sh
echo '{{"type":"hello","session":"demo-1","model":null}}'
i=1
while [ $i -lt {LINES} ]; do
    echo '{{"type":"text","text":"twenty-four characters.."}}'
    i=$((i + 1))
done
exec sleep 3600
"#
    );
    fs::write(&path, script).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// Waits until every agent has printed everything, and all of it is recorded.
async fn recorded(home: &Path) {
    let begun = Instant::now();
    loop {
        let before = written(home);
        tokio::time::sleep(Duration::from_millis(500)).await;
        if before >= TURNS * LINES && before == written(home) {
            return;
        }
        assert!(begun.elapsed() < Duration::from_secs(120), "only {before} lines are recorded");
    }
}

/// Returns the number of lines of all recordings.
fn written(home: &Path) -> usize {
    let days = fs::read_dir(home.join("recordings")).into_iter().flatten().flatten();
    let files = days.flat_map(|day| fs::read_dir(day.path()).into_iter().flatten().flatten());
    files
        .map(|file| fs::read(file.path()).unwrap_or_default())
        .map(|text| text.iter().filter(|byte| **byte == b'\n').count())
        .sum()
}

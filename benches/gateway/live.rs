//! Long-lived agents: the gateway's delay until people see the first text, a warm turn compared
//! with a cold one, and the memory of open sessions.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use aetheel_model::agent::descriptor::LinkSharing;
use aetheel_recording::Backend as _;

use crate::backends::{BACKENDS, named};
use crate::talk::{Pool, Talk};
use crate::{cpu, report, times};

/// Conversations of two turns each, every one on a link of its own.
const CONVERSATIONS: usize = 200;
/// The same with agents that are processes.
const PROCESSES: usize = 100;
/// Sessions that are open at the same time.
const SESSIONS: u64 = 100;
/// How long an agent is silent before and after its first text: enough for all threads to become
/// idle.
const PAUSE: Duration = Duration::from_millis(3);

/// Measures turns of long-lived agents, each backend in turn, and prints the figures.
pub async fn measure() {
    let cache = tempfile::tempdir().unwrap();
    for measured in BACKENDS {
        let talk = Talk::load(measured, cache.path()).await;
        report::part(&format!(
            "long-lived `{}`: `{}`, played by an agent that needs no time",
            measured.name, measured.conversation
        ));
        first_text(&talk).await;
        cold_and_warm("the gateway's share", CONVERSATIONS, &talk, || talk.within(Duration::ZERO))
            .await;
        if talk.script.listens() {
            report::figure("with the agent as a process", "not measured: it is a server");
        } else {
            cold_and_warm("with the agent as a process", PROCESSES, &talk, || talk.processes())
                .await;
        }
        // Uses a new process, since the memory of this one includes everything measured before.
        let arguments =
            [OsStr::new("open-sessions"), measured.name.as_ref(), cache.path().as_os_str()];
        assert!(
            Command::new(std::env::current_exe().unwrap())
                .args(arguments)
                .status()
                .unwrap()
                .success()
        );
    }
}

async fn first_text(talk: &Talk) {
    let mut shares = Vec::new();
    for _ in 0..times(CONVERSATIONS) {
        let pool = talk.within(PAUSE);
        let cold = talk.cold(&pool, 1).await;
        let warm = talk.warm(&pool, 1, &cold).await;
        shares.extend(
            [cold, warm].map(|turn| turn.first_text.expect("the agent is in this process")),
        );
        pool.close().await;
    }
    report::figure("first text, from the agent to the audience", &report::spread(&shares));
}

async fn cold_and_warm(what: &str, count: usize, talk: &Talk, pool: impl Fn() -> Pool) {
    let (mut colds, mut warms) = (Vec::new(), Vec::new());
    for _ in 0..times(count) {
        let pool = pool();
        let cold = talk.cold(&pool, 1).await;
        warms.push(talk.warm(&pool, 1, &cold).await.took);
        colds.push(cold.took);
        pool.close().await;
    }
    report::figure(&format!("cold turn, {what}"), &report::spread(&colds));
    report::figure(&format!("warm turn, {what}"), &report::spread(&warms));
}

/// Measures the memory of many sessions, each idle after its first turn, and prints it. Runs as a
/// process of its own.
pub async fn open_sessions(name: &str, cache: &Path) {
    let talk = Talk::load(named(name), cache).await;
    let pool = talk.within(Duration::ZERO);
    // The first session pays for everything that exists only once.
    let first = talk.cold(&pool, 0).await;
    let before = cpu::proportional();
    let mut natives = HashSet::from([first.native]);
    for lane in 1..=SESSIONS {
        natives.insert(talk.cold(&pool, lane).await.native);
    }
    let after = cpu::proportional();
    let shared = talk.backend.descriptor().sharing == LinkSharing::Link;
    // Agents on links of their own all replay the same session.
    let expected = if shared { (1, SESSIONS as usize + 1) } else { (SESSIONS as usize + 1, 1) };
    assert_eq!((pool.count(), natives.len()), expected, "links and sessions");
    let each = after.saturating_sub(before) / SESSIONS as usize;
    let shape = if shared { "on one link" } else { "on a link each" };
    report::figure(
        &format!("memory of an open session, {SESSIONS} {shape}"),
        &format!("{:.1} KiB", each as f64 / 1024.0),
    );
    report::figure(
        "a process with only these sessions",
        &format!("{:.1} MiB", after as f64 / f64::from(1 << 20)),
    );
    pool.close().await;
}

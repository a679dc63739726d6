//! Long-lived agents: what the gateway adds before people see the first text, a warm turn beside a
//! cold one, and what open sessions take up.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use aetheel::agent::descriptor::Sharing;
use aetheel::turn::Backend as _;

use crate::backends::{BACKENDS, named};
use crate::talk::{Room, Talk};
use crate::{cpu, report, times};

/// Conversations of two turns, each on a link of its own.
const CONVERSATIONS: usize = 200;
/// The same with agents that are processes.
const PROCESSES: usize = 100;
/// Sessions kept open together.
const SESSIONS: u64 = 100;
/// How long an agent is silent before and after its first text: enough for everybody to have fallen
/// asleep.
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
        // This process remembers all that came before.
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
        let room = talk.within(PAUSE);
        let cold = talk.cold(&room, 1).await;
        let warm = talk.warm(&room, 1, &cold).await;
        shares.extend(
            [cold, warm].map(|turn| turn.first_text.expect("the agent is in this process")),
        );
        room.close().await;
    }
    report::figure("first text, from the agent to the audience", &report::spread(&shares));
}

async fn cold_and_warm(what: &str, count: usize, talk: &Talk, room: impl Fn() -> Room) {
    let (mut colds, mut warms) = (Vec::new(), Vec::new());
    for _ in 0..times(count) {
        let room = room();
        let cold = talk.cold(&room, 1).await;
        warms.push(talk.warm(&room, 1, &cold).await.took);
        colds.push(cold.took);
        room.close().await;
    }
    report::figure(&format!("cold turn, {what}"), &report::spread(&colds));
    report::figure(&format!("warm turn, {what}"), &report::spread(&warms));
}

/// Measures, as a process of its own, what it takes up with many sessions, each idle after its
/// first turn; prints.
pub async fn open_sessions(name: &str, cache: &Path) {
    let talk = Talk::load(named(name), cache).await;
    let room = talk.within(Duration::ZERO);
    // What is there only once.
    let first = talk.cold(&room, 0).await;
    let before = cpu::proportional();
    let mut natives = HashSet::from([first.native]);
    for lane in 1..=SESSIONS {
        natives.insert(talk.cold(&room, lane).await.native);
    }
    let after = cpu::proportional();
    let shared = talk.backend.descriptor().sharing == Sharing::Link;
    // On links of their own all play the same session.
    let expected = if shared { (1, SESSIONS as usize + 1) } else { (SESSIONS as usize + 1, 1) };
    assert_eq!((room.count(), natives.len()), expected, "links and sessions");
    let each = after.saturating_sub(before) / SESSIONS as usize;
    let shape = if shared { "on one link" } else { "on a link each" };
    report::figure(
        &format!("memory of an open session, {SESSIONS} {shape}"),
        &format!("{:.1} KiB", each as f64 / 1024.0),
    );
    report::figure(
        "a process with them and nothing else",
        &format!("{:.1} MiB", after as f64 / f64::from(1 << 20)),
    );
    room.close().await;
}

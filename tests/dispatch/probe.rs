//! Tests of health probes: they take the same path as prompts, whatever else happens, and leave
//! nothing behind.

use std::time::Duration;

use aetheel_dispatch::HealthProbe;
use aetheel_model::agent::Exit;
use tokio::sync::watch;

use crate::support::scripted::{Agent, Desk, DeskOptions, ScriptedLauncher, message};

async fn passes(desk: &Desk) {
    let (probe, through) = HealthProbe::new();
    desk.dispatcher.intake.probe(probe);
    let through =
        tokio::time::timeout(Duration::from_secs(30), through).await.expect("the probe passes");
    through.expect("it is not lost");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_probe_passes_while_idle_while_all_slots_are_taken_and_after_the_end() {
    let (release, gate) = watch::channel(false);
    let launcher = ScriptedLauncher::new(move |agent: Agent| {
        let mut gate = gate.clone();
        async move {
            let _ = gate.wait_for(|open| *open).await;
            agent.say(&["text ok", "done"]).await;
            agent.exit(Exit::Code(0), "").await;
        }
    });
    let desk = Desk::new(launcher, DeskOptions { slots: 2, ..DeskOptions::default() }).await;
    passes(&desk).await;
    desk.dispatcher.turns.idle().await;
    for lane in 0..2 {
        desk.dispatcher.intake.submit(message(lane, "go")).unwrap();
    }
    passes(&desk).await;
    release.send_replace(true);
    assert_eq!(desk.collected.answers(2).await.len(), 2, "a probe has no answer");
    desk.dispatcher.turns.idle().await;
    desk.dispatcher.shutdown(Duration::ZERO).await;
    passes(&desk).await;
}

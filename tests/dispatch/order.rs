//! Tests of many events: order, slots, refusals and the shutdown.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aetheel_dispatch::PromptRefusal;
use aetheel_model::agent::Exit;
use aetheel_model::event::Lane;
use aetheel_model::id::ChannelId;
use tokio::sync::watch;

use crate::support::scripted::{Agent, Desk, DeskOptions, ScriptedLauncher, message};

async fn quick(agent: Agent) {
    agent.say(&["text ok", "done"]).await;
    agent.exit(Exit::Code(0), "").await;
}

/// Agents that wait until the gate opens.
fn gated() -> (watch::Sender<bool>, Arc<ScriptedLauncher>) {
    let (release, gate) = watch::channel(false);
    let launcher = ScriptedLauncher::new(move |mut agent: Agent| {
        let mut gate = gate.clone();
        async move {
            let stopped = tokio::select! {
                opened = gate.wait_for(|open| *open) => opened.is_err(),
                _ = agent.commands.recv() => true,
            };
            if stopped {
                return agent.exit(Exit::Signal(15), "").await;
            }
            agent.say(&["text ok", "done"]).await;
            agent.exit(Exit::Code(0), "").await;
        }
    });
    (release, launcher)
}

#[tokio::test(flavor = "multi_thread")]
async fn lanes_keep_their_order_and_never_run_two_turns_at_once() {
    let running = Arc::new((Mutex::new(HashMap::<String, u32>::new()), AtomicUsize::new(0)));
    let seen = running.clone();
    let launcher = ScriptedLauncher::new(move |agent: Agent| {
        let seen = seen.clone();
        async move {
            let lane = agent.prompt.split(' ').next().unwrap().to_owned();
            assert!(seen.1.fetch_add(1, Ordering::SeqCst) < 4, "more turns than slots");
            {
                let mut lanes = seen.0.lock().unwrap();
                let count = lanes.entry(lane.clone()).or_default();
                *count += 1;
                assert_eq!(*count, 1, "two turns in lane {lane}");
            }
            for _ in 0..agent.prompt.len() % 7 {
                tokio::task::yield_now().await;
            }
            *seen.0.lock().unwrap().get_mut(&lane).unwrap() -= 1;
            seen.1.fetch_sub(1, Ordering::SeqCst);
            quick(agent).await;
        }
    });
    let desk =
        Desk::new(launcher, DeskOptions { slots: 4, depth: 10_000, ..DeskOptions::default() })
            .await;
    let (mut accepted, mut busy) = (0, 0);
    for number in 0..1000u64 {
        match desk
            .dispatcher
            .intake
            .submit(message(number % 10, &format!("{} event {number}", number % 10)))
        {
            Ok(_) => accepted += 1,
            Err(PromptRefusal::Busy { slots: 4 }) => busy += 1,
            Err(other) => panic!("{other}"),
        }
    }
    let answers = desk.collected.answers(accepted).await;
    assert_eq!(accepted + busy, 1000);
    let mut last: HashMap<String, u64> = HashMap::new();
    for (event, answer) in answers {
        assert_eq!(answer.failure, None);
        let before = last.insert(event.lane.to_string(), event.sequence);
        assert!(
            before.is_none_or(|before| before < event.sequence),
            "lane {} was reordered",
            event.lane
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_channel_is_refused_while_all_slots_are_taken_but_a_busy_one_may_wait() {
    let (release, launcher) = gated();
    let desk =
        Desk::new(launcher, DeskOptions { slots: 2, depth: 3, ..DeskOptions::default() }).await;
    desk.ask(1, "a");
    desk.ask(2, "b");
    assert_eq!(
        desk.dispatcher.intake.submit(message(3, "c")).err(),
        Some(PromptRefusal::Busy { slots: 2 })
    );
    for _ in 0..3 {
        desk.ask(1, "more");
    }
    assert_eq!(
        desk.dispatcher.intake.submit(message(1, "too much")).err(),
        Some(PromptRefusal::Full { depth: 3 })
    );
    assert_eq!(
        desk.dispatcher.intake.submit(message(1, &"x".repeat((256 << 10) + 1))).err(),
        Some(PromptRefusal::TooLong { bytes: (256 << 10) + 1, limit: 256 << 10 })
    );
    release.send(true).unwrap();
    let answers = desk.collected.answers(5).await;
    assert!(answers.iter().all(|(_, answer)| answer.failure.is_none()));
}

#[tokio::test(flavor = "multi_thread")]
async fn shutdown_waits_for_accepted_events() {
    let (release, launcher) = gated();
    let desk = Desk::new(launcher, DeskOptions { slots: 1, ..DeskOptions::default() }).await;
    desk.ask(1, "running");
    desk.ask(1, "waiting");
    let dispatcher = desk.dispatcher.clone();
    let shutdown = tokio::spawn(async move { dispatcher.shutdown(Duration::from_secs(60)).await });
    while desk.dispatcher.intake.submit(message(1, "late")).err()
        != Some(PromptRefusal::ShuttingDown)
    {
        tokio::task::yield_now().await;
    }
    release.send(true).unwrap();
    shutdown.await.unwrap();
    let answers = desk.collected.answers(2).await;
    let lates = answers.iter().filter(|(event, _)| event.prompt == "late").count();
    assert!(answers.iter().all(|(_, answer)| answer.failure.is_none()), "{answers:?}");
    assert_eq!(answers.len(), 2 + lates);
}

#[tokio::test(flavor = "multi_thread")]
async fn shutdown_stops_turns_after_its_grace_period_with_a_reason() {
    let (_closed_gate, launcher) = gated();
    let desk = Desk::new(launcher, DeskOptions { slots: 1, ..DeskOptions::default() }).await;
    desk.ask(1, "running");
    desk.ask(1, "waiting");
    desk.dispatcher.shutdown(Duration::from_millis(50)).await;
    let answers = desk.collected.answers(2).await;
    assert_eq!(answers.len(), 2);
    for (event, answer) in answers {
        let failure = answer.failure.unwrap();
        assert!(failure.contains("restarting"), "event {}: {failure}", event.sequence);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_of_the_host_frees_lane_and_slot() {
    let launcher = ScriptedLauncher::new(|agent: Agent| async move {
        let line = format!("text {}", agent.prompt);
        agent.say(&[&line, "done"]).await;
        agent.exit(Exit::Code(0), "").await;
    });
    let desk = Desk::new(launcher, DeskOptions { slots: 1, ..DeskOptions::default() }).await;
    desk.ask(1, "panic");
    desk.ask(1, "fine");
    let answers = desk.collected.answers(2).await;
    assert!(answers.iter().any(|(_, answer)| answer.text == "fine"), "{answers:?}");
    let broken =
        answers.iter().find(|(event, _)| event.prompt == "panic").expect("the asker is informed");
    assert!(
        broken
            .1
            .failure
            .as_ref()
            .is_some_and(|told| told.ends_with("Please ask again. (internal)")),
        "{broken:?}"
    );
}

#[test]
fn a_runtime_with_many_waiting_events_is_dropped_without_a_stack_overflow() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (_release, launcher) = gated();
    let desk = runtime.block_on(async {
        let desk =
            Desk::new(launcher, DeskOptions { slots: 1, depth: 10_000, ..DeskOptions::default() })
                .await;
        for lane in 0..5_000 {
            // The event may wait or be refused; only a large number of waiting events matters.
            let _ = desk.dispatcher.intake.submit(message(1, &format!("prompt {lane}")));
        }
        assert!(desk.dispatcher.turns.is_busy(&Lane::Channel(ChannelId::discord(1))));
        desk
    });
    // Dropping them must not recurse once per event, which would overflow the stack.
    drop(runtime);
    drop(desk);
}

//! Tests of reloading under load: backends are replaced repeatedly while turns run on them.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use aetheel::startup::turn_parts;
use aetheel_dispatch::Dispatcher;
use aetheel_model::agent::{
    Action, AgentEvent, AgentEventKind, Exit, Spawn, TextEvent, TurnDone, TurnOutcome,
};
use aetheel_model::choice::BusyPolicy;
use aetheel_model::limits::ResourceLimits;
use aetheel_model::queue;
use aetheel_process::{Custody, Means};
use aetheel_recording::{ParsedRecording, Recorder};
use aetheel_turn::{Backends as _, Launcher};
use aetheel_wasm::{Engine, LoadReport, Registry, RegistryOptions};
use tokio::sync::watch;

use crate::support::guests::{EXITED, Wat};
use crate::support::scripted::{Agent, Collected, ScriptedLauncher, message, parts};

/// A dispatcher with a real registry.
struct Scene {
    folder: tempfile::TempDir,
    registry: Arc<Registry>,
    dispatcher: Dispatcher,
    collected: Arc<Collected>,
    recorder: Recorder,
}

impl Scene {
    async fn new(
        backend: &str,
        first: &[u8],
        launcher: Arc<dyn Launcher>,
        slots: usize,
        program: Option<&Path>,
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let backends = folder.path().join("backends");
        std::fs::create_dir(&backends).unwrap();
        std::fs::write(backends.join("it.wasm"), first).unwrap();
        let mut options = RegistryOptions::new(&backends);
        options.quiet = Duration::from_millis(20);
        let (registry, _) = Registry::start(
            Engine::new(&ResourceLimits::default(), None, aetheel_settings::NAMES).unwrap(),
            options,
        )
        .await;
        let registry = Arc::new(registry);
        assert_eq!(registry.names(), [backend]);
        let collected = Arc::new(Collected::default());
        let limits = queue::QueueLimits {
            max_concurrent: slots,
            max_depth: 10_000,
            busy_policy: BusyPolicy::Queue,
        };
        let mut parts =
            parts(folder.path(), backend, registry.clone(), launcher, &collected, limits).await;
        parts.host.limits.stop_grace = Duration::from_secs(5);
        if let Some(program) = program {
            parts.host.agents.set_program(backend, "aetheel", program);
        }
        let recorder = parts.recorder.clone();
        let dispatcher = Dispatcher::new(parts, turn_parts());
        Self { folder, registry, dispatcher, collected, recorder }
    }

    /// Replaces the component and waits until the new one serves. Returns its generation.
    async fn swap(&self, bytes: &[u8]) -> u32 {
        let mut news = self.registry.subscribe();
        let fresh = self.folder.path().join("fresh");
        std::fs::write(&fresh, bytes).unwrap();
        std::fs::rename(&fresh, self.folder.path().join("backends/it.wasm")).unwrap();
        let loaded = tokio::time::timeout(Duration::from_secs(30), async {
            loop {
                match news.recv().await.unwrap() {
                    LoadReport::Loaded { generation, .. } => return generation.number,
                    LoadReport::Refused { reason, .. } => panic!("{reason}"),
                    _ => {}
                }
            }
        });
        loaded.await.expect("the component is loaded")
    }

    fn generations_in_recordings(&self) -> Vec<u32> {
        self.recorder.flush();
        let mut generations = Vec::new();
        for day in std::fs::read_dir(self.folder.path().join("recordings")).unwrap() {
            for file in std::fs::read_dir(day.unwrap().path()).unwrap() {
                let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
                let tape = ParsedRecording::read(&text).unwrap();
                assert!(tape.entries.len() > 3);
                generations.push(tape.header.generation);
            }
        }
        generations
    }
}

/// Builds a guest that reports its version when the turn starts and again when the agent has ended.
fn reporting_twice(version: u32) -> Vec<u8> {
    let told = || {
        let text = TextEvent { part: 0, text: format!("{version};"), replace: false, parent: None };
        Action::Event(AgentEvent { session: 1, turn: 1, kind: AgentEventKind::Text(text) })
    };
    let spawn = Spawn {
        proc: 1,
        program: "it".into(),
        arguments: vec![],
        environment: vec![],
        stdin: vec![],
        keep_open: false,
        listens: false,
        basic_auth: None,
        session: None,
        turn: None,
    };
    let done =
        TurnDone { session: 1, turn: 1, outcome: TurnOutcome::Completed, text: None, usage: None };
    let mut wat = Wat::new("it", &version.to_string());
    wat.on_start = Some(vec![told(), Action::Spawn(spawn)]);
    wat.later = Some((EXITED, vec![told(), Action::TurnDone(done)]));
    wat.build()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_swaps_during_five_thousand_turns_lose_none_and_mix_none() {
    const SWAPS: usize = 200;
    const TURNS: usize = 5000;
    // In each round, the first agent runs until the round's swap is complete, so that a turn is
    // running at every swap.
    let (held, mut holds) = watch::channel(0);
    let (swapped, swaps) = watch::channel(0);
    let launcher = ScriptedLauncher::new(move |agent: Agent| {
        let (held, mut swaps) = (held.clone(), swaps.clone());
        async move {
            let round = *swaps.borrow();
            // After the last swap, agents do not wait for another one.
            if held.send_if_modified(|rounds| {
                *rounds == round && round < SWAPS && {
                    *rounds += 1;
                    true
                }
            }) {
                swaps.wait_for(|swaps| *swaps > round).await.unwrap();
            }
            agent.exit(Exit::Code(0), "").await;
        }
    });
    let scene = Scene::new("it", &reporting_twice(1), launcher, 16, None).await;
    for round in 0..SWAPS {
        for number in 0..TURNS / SWAPS {
            scene
                .dispatcher
                .intake
                .submit(message((round * 7 + number) as u64 % 40, "go"))
                .unwrap();
        }
        let met =
            tokio::time::timeout(Duration::from_secs(60), holds.wait_for(|rounds| *rounds > round))
                .await;
        drop(met.expect("a turn begins").unwrap());
        let version = round as u32 + 2;
        assert_eq!(scene.swap(&reporting_twice(version)).await, version);
        swapped.send_replace(round + 1);
    }
    let answers = scene.collected.answers(TURNS).await;
    scene.dispatcher.turns.idle().await;
    assert_eq!((answers.len(), *holds.borrow()), (TURNS, SWAPS), "every swap met a turn");
    for (event, answer) in &answers {
        assert_eq!(answer.failure, None, "event {}", event.sequence);
        let told: Vec<u32> = answer
            .text
            .trim_end_matches(';')
            .split(';')
            .map(|version| version.parse().unwrap())
            .collect();
        assert!(
            told.len() == 2 && told[0] == told[1],
            "event {} ran on mixed generations: {told:?}",
            event.sequence
        );
    }
}

/// Returns the component with another digest: an additional custom section changes nothing else.
fn marked(component: &[u8], mark: u8) -> Vec<u8> {
    let mut bytes = component.to_vec();
    // Section id 0, its length, the length of its name, the name, its content.
    bytes.extend([0, 6, 4, b'm', b'a', b'r', b'k', mark]);
    bytes
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn swaps_during_a_hundred_turns_with_real_processes_lose_none() {
    let demo = crate::support::built("demo.wasm");
    let custody = Custody::new(Means::Best).unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_aetheel"));
    let scene = Scene::new("demo", &demo, Arc::new(custody), 4, Some(program)).await;
    // Half of each round begins before the swap, and half after it, while the first half runs.
    for round in 0..5 {
        let ask = |from: u64| {
            for number in from..from + 10 {
                scene
                    .dispatcher
                    .intake
                    .submit(message(number % 10, &format!("number {number} please")))
                    .unwrap();
            }
        };
        ask(round * 20);
        let begun = || scene.collected.begun.lock().unwrap().len() > round as usize * 20;
        tokio::time::timeout(Duration::from_secs(60), async {
            while !begun() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await
        .expect("a turn of the round begins");
        scene.swap(&marked(&demo, round as u8 + 1)).await;
        ask(round * 20 + 10);
        scene.collected.answers(round as usize * 20 + 20).await;
    }
    let answers = scene.collected.answers(100).await;
    scene.dispatcher.turns.idle().await;
    for (event, answer) in &answers {
        assert_eq!(answer.failure, None, "{answer:?}");
        assert!(answer.text.contains(&event.prompt), "{answer:?}");
    }
    let generations = scene.generations_in_recordings();
    assert_eq!(generations.len(), 100);
    let different: std::collections::BTreeSet<u32> = generations.into_iter().collect();
    assert_eq!(
        different.into_iter().collect::<Vec<_>>(),
        [1, 2, 3, 4, 5, 6],
        "each swap came between turns of one round"
    );
}

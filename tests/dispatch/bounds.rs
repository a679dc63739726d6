//! Tests of the limits of one turn, on time and tool uses, whatever its agent does.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aetheel::startup::turn_parts;
use aetheel_dispatch::{Dispatcher, TurnAnswer};
use aetheel_model::agent::{AgentEventKind, Exit, HostCommand, Input, ToolStart};
use aetheel_model::choice::BusyPolicy;
use aetheel_model::queue::QueueLimits;
use aetheel_turn::ProcessCommand;

use crate::support::scripted::{
    Agent, Collected, OneBackend, ScriptedBackend, ScriptedLauncher, Understanding, event, message,
    parts, plain,
};

/// Maximum number of lines that are processed after a turn's time limit, until the clock is
/// checked: tokio checks its timers every 61 polls, and an agent's pipe can deliver its whole
/// buffer in one of them.
const MOST_LATE: usize = 5_000;

/// Lines `tool ID` start tools of a sub-agent, which the limit of rounds does not count. Lines `own
/// ID` start tools of the agent itself. All other lines are plain.
fn tools() -> Understanding {
    let plain = plain();
    Arc::new(move |state, input| match input {
        Input::Line(line) if line.text.starts_with("tool ") || line.text.starts_with("own ") => {
            let of_sub_agent = line.text.starts_with("tool ");
            let (id, parent) = (line.text.clone(), of_sub_agent.then(|| "task".to_owned()));
            let (kind, native_name, title) = ("bash".to_owned(), "Bash".to_owned(), String::new());
            Ok(vec![event(AgentEventKind::ToolStart(ToolStart {
                id,
                parent,
                kind,
                native_name,
                title,
                target: None,
                input: "{}".to_owned(),
            }))])
        }
        _ => plain(state, input),
    })
}

/// Asks an agent that prints lines without a pause until it is stopped.
async fn ask(line: fn(usize) -> String, timeout: Duration) -> (TurnAnswer, usize) {
    let launcher = ScriptedLauncher::new(move |mut agent: Agent| async move {
        for batch in 0.. {
            let lines: Vec<String> = (0..100).map(|number| line(batch * 100 + number)).collect();
            agent.say(&lines.iter().map(String::as_str).collect::<Vec<_>>()).await;
            if let Ok(ProcessCommand::Stop { .. })
            | Err(tokio::sync::mpsc::error::TryRecvError::Disconnected) =
                agent.commands.try_recv()
            {
                return agent.exit(Exit::Signal(2), "").await;
            }
        }
    });
    asked(launcher, timeout).await
}

/// Returns the answer of an agent, and how many tools were shown.
async fn asked(launcher: Arc<ScriptedLauncher>, timeout: Duration) -> (TurnAnswer, usize) {
    let folder = tempfile::tempdir().unwrap();
    let collected = Arc::new(Collected::default());
    let limits = QueueLimits { max_concurrent: 1, max_depth: 10, busy_policy: BusyPolicy::Queue };
    let backends = Arc::new(OneBackend(Arc::new(ScriptedBackend::new(tools()))));
    let mut parts = parts(folder.path(), "scripted", backends, launcher, &collected, limits).await;
    parts.host.limits.query_timeout = timeout;
    let dispatcher = Dispatcher::new(parts, turn_parts());
    dispatcher.intake.submit(message(7, "go")).unwrap();
    let answer = collected.answers(1).await.remove(0).1;
    let shown = collected
        .shown
        .lock()
        .unwrap()
        .iter()
        .filter(|event| matches!(event, AgentEventKind::ToolStart(_)))
        .count();
    (answer, shown)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_that_prints_without_a_pause_is_stopped_at_the_time_limit() {
    // If the clock were not checked while lines arrive, another limit would end the turn, or none.
    let (answer, _) = ask(|_| "tool the same".to_owned(), Duration::from_millis(500)).await;
    assert!(
        answer.failure.as_deref().is_some_and(|failure| failure.starts_with("Query timed out")),
        "{answer:?}"
    );
}

/// Runs on one thread, so that nothing happens in parallel and the count does not depend on the
/// speed of the machine.
#[tokio::test]
async fn a_turn_processes_a_limited_number_of_lines_between_clock_checks() {
    const LIMIT: Duration = Duration::from_millis(300);
    let late = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&late);
    let launcher = ScriptedLauncher::new(move |mut agent: Agent| {
        let counted = Arc::clone(&counted);
        async move {
            // The agent begins after the turn's clock was started.
            let began = std::time::Instant::now();
            for number in 0.. {
                // As many open tools as a turn may have, again and again.
                agent.say(&[&format!("tool {}", number % 9_999)]).await;
                counted.fetch_add(usize::from(began.elapsed() > LIMIT), Ordering::Relaxed);
                if let Ok(ProcessCommand::Stop { .. })
                | Err(tokio::sync::mpsc::error::TryRecvError::Disconnected) =
                    agent.commands.try_recv()
                {
                    return agent.exit(Exit::Signal(2), "").await;
                }
            }
        }
    });
    let (answer, _) = asked(launcher, LIMIT).await;
    assert!(
        answer.failure.as_deref().is_some_and(|failure| failure.starts_with("Query timed out")),
        "{answer:?}"
    );
    let late = late.load(Ordering::Relaxed);
    assert!(late <= MOST_LATE, "{late} lines were processed after the turn's time limit");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_with_too_many_tools_is_stopped_with_a_reason() {
    let (answer, shown) = ask(|number| format!("tool {number}"), Duration::from_secs(3600)).await;
    assert!(
        answer
            .failure
            .as_deref()
            .is_some_and(|failure| failure.contains("more than 10000 tool uses")),
        "{answer:?}"
    );
    assert_eq!(shown, 10_000);
}

/// The rounds that agents may make in these tests.
const ROUNDS: u32 = 3;

/// Runs an agent that starts four tools of its own. Returns the answer, the number of tools that
/// were shown, and the `max-turns` that the guest received. An agent with the feature then ends;
/// one without it waits until it is stopped.
async fn four_tools_of(feature: Option<&'static str>) -> (TurnAnswer, usize, Option<u32>) {
    let given = Arc::new(Mutex::new(None));
    let (understood, noted) = (tools(), Arc::clone(&given));
    let understanding: Understanding = Arc::new(move |state, input| {
        if let Input::Command(HostCommand::StartTurn(start)) = input {
            *noted.lock().unwrap() = Some(start.settings.max_turns);
        }
        understood(state, input)
    });
    let launcher = ScriptedLauncher::new(move |mut agent: Agent| async move {
        agent.say(&["own 1", "own 2", "own 3", "own 4"]).await;
        if feature.is_some() {
            agent.say(&["text made four", "done"]).await;
            return agent.exit(Exit::Code(0), "").await;
        }
        agent.commands.recv().await;
        agent.exit(Exit::Signal(2), "").await;
    });
    let folder = tempfile::tempdir().unwrap();
    let collected = Arc::new(Collected::default());
    let limits = QueueLimits { max_concurrent: 1, max_depth: 10, busy_policy: BusyPolicy::Queue };
    let backend = ScriptedBackend::with_feature(understanding, feature);
    let backends = Arc::new(OneBackend(Arc::new(backend)));
    let mut parts = parts(folder.path(), "scripted", backends, launcher, &collected, limits).await;
    (parts.host.max_turns, parts.choices.max_turns) = (ROUNDS, ROUNDS);
    parts.host.limits.query_timeout = Duration::from_secs(20);
    let dispatcher = Dispatcher::new(parts, turn_parts());
    dispatcher.intake.submit(message(7, "go")).unwrap();
    let answer = collected.answers(1).await.remove(0).1;
    let shown = collected.shown.lock().unwrap();
    let shown = shown.iter().filter(|event| matches!(event, AgentEventKind::ToolStart(_))).count();
    let given = given.lock().unwrap().expect("its turn began");
    (answer, shown, given)
}

#[tokio::test]
async fn an_agent_without_a_round_limit_is_stopped_at_the_operators_limit() {
    let (answer, shown, given) = four_tools_of(None).await;
    assert!(
        answer.failure.as_deref().is_some_and(|failure| failure.contains("more than 3 tool uses")),
        "{answer:?}"
    );
    assert_eq!((shown, given), (4, None), "the fourth tool is one too many");
}

#[tokio::test]
async fn an_agent_with_a_round_limit_gets_the_operators_limit_and_enforces_it() {
    let (answer, shown, given) = four_tools_of(Some("max-turns")).await;
    assert_eq!(answer.failure, None, "{answer:?}");
    assert_eq!((shown, given), (4, Some(ROUNDS)));
}

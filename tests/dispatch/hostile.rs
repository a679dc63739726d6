//! Tests of hostile agents, as real processes, from the view of a user: a clear message, in time,
//! and nothing left behind.

use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use aetheel::startup::turn_parts;
use aetheel_dispatch::{Dispatcher, TurnAnswer};
use aetheel_model::choice::BusyPolicy;
use aetheel_model::queue::QueueLimits;
use aetheel_process::{Custody, Means};

use crate::support::scripted::{Collected, OneBackend, ScriptedBackend, message, parts, plain};

/// Asks an agent that is this shell script. `timeout` is the turn's time limit.
async fn ask(script: &str, timeout: Duration) -> (TurnAnswer, Duration) {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("agent");
    std::fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let collected = Arc::new(Collected::default());
    let backends = Arc::new(OneBackend(Arc::new(ScriptedBackend::new(plain()))));
    let custody = Custody::new(Means::Best).unwrap();
    let limits = QueueLimits { max_concurrent: 5, max_depth: 100, busy_policy: BusyPolicy::Reject };
    let mut parts =
        parts(folder.path(), "scripted", backends, Arc::new(custody), &collected, limits).await;
    parts.host.agents.set_program("scripted", "agent", &program);
    parts.host.limits.query_timeout = timeout;
    parts.host.resources.output = 8 << 20;
    let dispatcher = Dispatcher::new(parts, turn_parts());
    let began = Instant::now();
    dispatcher.intake.submit(message(7, "go")).unwrap();
    let answer = collected.answers(1).await.remove(0).1;
    let took = began.elapsed();
    let folder = folder.path().to_string_lossy().into_owned();
    let left = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok).filter(|process| {
        let environment = std::fs::read(process.path().join("environ")).unwrap_or_default();
        let environment = String::from_utf8_lossy(&environment);
        environment.contains("AETHEEL_RUN=")
            && std::fs::read_link(process.path().join("cwd"))
                .is_ok_and(|cwd| cwd.starts_with(&folder))
    });
    assert_eq!(left.count(), 0, "processes are left");
    (answer, took)
}

const LONG: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread")]
async fn endless_output_is_stopped_at_the_limit() {
    let (answer, _) = ask("echo 'text begun'; yes nonsense", LONG).await;
    assert_eq!(answer.text, "begun");
    assert!(answer.failure.as_deref().unwrap().contains("too much output"), "{answer:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_overlong_line_and_invalid_utf_8_do_no_harm() {
    let script =
        "head -c 4000000 /dev/zero | tr '\\0' x; echo; printf 'text caf\\351 \\377\\n'; echo done";
    let (answer, _) = ask(script, LONG).await;
    assert_eq!((answer.text.as_str(), answer.failure), ("caf\u{fffd} \u{fffd}", None));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_ignores_every_signal_but_the_last_is_timed_out() {
    let (answer, took) = ask(
        "trap '' INT TERM; echo 'text stubborn'; while :; do sleep 1; done",
        Duration::from_millis(500),
    )
    .await;
    assert_eq!(answer.text, "stubborn");
    assert!(answer.failure.unwrap().starts_with("Query timed out"));
    assert!(took < Duration::from_secs(10), "{took:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_agent_is_timed_out() {
    let (answer, _) = ask("exec sleep 1000", Duration::from_millis(300)).await;
    assert!(answer.failure.unwrap().starts_with("Query timed out"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grandchild_that_holds_the_pipe_hardly_delays_the_answer() {
    let (answer, took) =
        ask("echo 'text quick'; setsid sh -c 'trap \"\" TERM; sleep 1000' & echo done", LONG).await;
    assert_eq!((answer.text.as_str(), answer.failure), ("quick", None));
    assert!(took < Duration::from_secs(5), "{took:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_exits_at_once_is_quoted_to_the_operator_only() {
    let (answer, _) = ask("echo 'cannot read /etc/agent.conf' >&2; exit 3", LONG).await;
    let failure = answer.failure.unwrap();
    assert!(failure.contains("ended without a result") && !failure.contains("/etc"), "{failure}");
    let detail = answer.detail.unwrap();
    assert!(
        detail.contains("cannot read /etc/agent.conf") && detail.contains("exit code 3"),
        "{detail}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_on_stderr_hides_no_answer() {
    let (answer, _) =
        ask("head -c 2000000 /dev/zero | tr '\\0' '\\n' >&2; echo 'text through'; echo done", LONG)
            .await;
    assert_eq!((answer.text.as_str(), answer.failure), ("through", None));
}

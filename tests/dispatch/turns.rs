//! Tests of one turn: it has exactly one answer, whatever guest and agent do.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use aetheel_model::agent::{
    Action, Exit, FailureKind, HostCommand, Input, Safety, TimedInput, TurnOutcome,
};
use aetheel_model::event::Lane;
use aetheel_model::id::ChannelId;
use aetheel_recording::{Backend as _, EntryKind, GuestFailure, ParsedRecording};
use aetheel_turn::ProcessCommand;

use crate::support::scripted::{
    Agent, Desk, DeskOptions, ScriptedBackend, ScriptedLauncher, Understanding, done, event,
    failure, plain, spawn, text_event,
};

/// Answers with the reversed prompt, in a session.
async fn answering(agent: Agent) {
    let answer = format!("text {}", agent.prompt.chars().rev().collect::<String>());
    agent.say(&["session s-1", &answer, "done"]).await;
    agent.exit(Exit::Code(0), "").await;
}

/// Like `plain`, except for inputs for which `instead` returns a result.
fn except(
    instead: impl Fn(&Input) -> Option<Result<Vec<Action>, GuestFailure>> + Send + Sync + 'static,
) -> Understanding {
    let usual = plain();
    Arc::new(move |state, input| instead(input).unwrap_or_else(|| usual(state, input)))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prompt_becomes_one_answer_and_its_session_is_resumed() {
    let desk = Desk::new(ScriptedLauncher::new(answering), DeskOptions::default()).await;
    desk.ask(7, "abc");
    let answers = desk.collected.answers(1).await;
    assert_eq!((answers[0].1.text.as_str(), answers[0].1.failure.as_deref()), ("cba", None));
    desk.ask(7, "def");
    desk.collected.answers(2).await;
    let launches = desk.launcher.launches.lock().unwrap();
    assert!(launches[0].arguments.is_empty());
    assert_eq!(launches[1].arguments, ["--resume", "s-1"]);
    let sessions =
        std::fs::read_to_string(desk.folder.path().join("config/state/sessions.md")).unwrap();
    assert!(sessions.contains("s-1"), "{sessions}");
}

#[tokio::test(flavor = "multi_thread")]
async fn prompts_are_escaped_and_are_never_arguments() {
    let desk = Desk::new(ScriptedLauncher::new(answering), DeskOptions::default()).await;
    desk.ask(7, "/clear --danger");
    desk.collected.answers(1).await;
    let launches = desk.launcher.launches.lock().unwrap();
    assert!(launches[0].arguments.is_empty());
    let prompt = String::from_utf8(launches[0].stdin.clone()).unwrap();
    assert!(prompt.contains("/clear --danger") && !prompt.starts_with('/'), "{prompt:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_behind_an_at_sign_is_escaped_only_where_it_may_be_expanded() {
    let desk = Desk::new(ScriptedLauncher::new(answering), DeskOptions::default()).await;
    std::fs::write(desk.folder.path().join("workspace/note.txt"), "content").unwrap();
    desk.ask(7, "npm install @types/node, read @note.txt and @/etc/passwd");
    desk.collected.answers(1).await;
    let launches = desk.launcher.launches.lock().unwrap();
    let prompt = String::from_utf8(launches[0].stdin.clone()).unwrap();
    assert!(
        prompt.ends_with("npm install @types/node, read \\@note.txt and \\@/etc/passwd"),
        "{prompt:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guest_that_ends_twice_gives_one_answer() {
    let guest = except(|input| match input {
        Input::Line(line) if line.text == "done" => {
            let late = event(text_event("too late"));
            Some(Ok(vec![
                done(TurnOutcome::Completed),
                done(TurnOutcome::Failed(failure(FailureKind::Other))),
                late,
            ]))
        }
        _ => None,
    });
    let desk = Desk::new(
        ScriptedLauncher::new(answering),
        DeskOptions { understanding: guest, ..DeskOptions::default() },
    )
    .await;
    desk.ask(7, "abc");
    desk.dispatcher.turns.idle().await;
    let answers = desk.collected.answers(1).await;
    assert_eq!(answers.len(), 1);
    assert_eq!((answers[0].1.text.as_str(), answers[0].1.failure.as_deref()), ("cba", None));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_its_guest_never_ends_fails_when_the_agent_exits() {
    let guest = except(|input| {
        matches!(input, Input::Line(line) if line.text == "done").then(|| Ok(vec![]))
    });
    let desk = Desk::new(
        ScriptedLauncher::new(answering),
        DeskOptions { understanding: guest, ..DeskOptions::default() },
    )
    .await;
    desk.ask(7, "abc");
    let answer = desk.collected.answers(1).await.remove(0).1;
    assert_eq!(answer.text, "cba", "the partial answer is kept");
    assert!(answer.failure.unwrap().contains("ended without a result"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guest_that_does_nothing_is_not_waited_for() {
    let guest: Understanding = Arc::new(|_, _| Ok(vec![]));
    let desk = Desk::new(
        ScriptedLauncher::new(answering),
        DeskOptions { understanding: guest, ..DeskOptions::default() },
    )
    .await;
    desk.ask(7, "abc");
    let answer = desk.collected.answers(1).await.remove(0).1;
    assert!(answer.failure.unwrap().contains("protocol"));
    assert!(desk.launcher.launches.lock().unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn each_guest_failure_ends_its_own_turn_and_no_other() {
    for (broken, word) in [
        (GuestFailure::Refused("r".into()), "backend refused"),
        (GuestFailure::Trapped("t".into()), "backend crashed"),
        (GuestFailure::CutOff("c".into()), "backend cut off"),
    ] {
        let guest = except(move |input| {
            matches!(input, Input::Line(line) if line.text == "text daB")
                .then(|| Err(broken.clone()))
        });
        let desk = Desk::new(
            ScriptedLauncher::new(answering),
            DeskOptions { understanding: guest, ..DeskOptions::default() },
        )
        .await;
        desk.ask(7, "Bad");
        desk.ask(8, "good");
        desk.ask(7, "after");
        let mut answers = desk.collected.answers(3).await;
        answers.sort_by_key(|(event, _)| event.sequence);
        let failure = answers[0].1.failure.as_deref().unwrap();
        assert!(failure.contains(word), "{failure}");
        assert_eq!((answers[1].1.text.as_str(), answers[2].1.text.as_str()), ("doog", "retfa"));
        assert!(answers[1].1.failure.is_none() && answers[2].1.failure.is_none());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn forged_flags_values_programs_and_variables_start_nothing() {
    use aetheel_model::agent::{AgentVariable, ArgumentValue};
    type Forgery = fn(&mut aetheel_model::agent::Spawn);
    let forgeries: [(&str, Forgery); 5] = [
        ("undeclared flag", |plan| plan.arguments.push(ArgumentValue::Text("--evil".into()))),
        ("flag of a higher level", |plan| {
            plan.arguments.push(ArgumentValue::Text("--danger".into()))
        }),
        ("free text", |plan| plan.arguments.push(ArgumentValue::Text("rm -rf /".into()))),
        ("program", |plan| plan.program = "/bin/sh".into()),
        ("variable", |plan| {
            plan.environment.push(AgentVariable {
                name: "LD_PRELOAD".into(),
                value: ArgumentValue::Text("x".into()),
            })
        }),
    ];
    for (name, forge) in forgeries {
        let guest = except(move |input| {
            let Input::Command(HostCommand::StartTurn(start)) = input else { return None };
            let Action::Spawn(mut plan) = spawn(start, &[]) else { unreachable!() };
            forge(&mut plan);
            Some(Ok(vec![Action::Spawn(plan)]))
        });
        let desk = Desk::new(
            ScriptedLauncher::new(answering),
            DeskOptions { understanding: guest, ..DeskOptions::default() },
        )
        .await;
        desk.ask(7, "abc");
        let answer = desk.collected.answers(1).await.remove(0).1;
        assert!(
            answer.failure.as_deref().unwrap().contains("(agent failure, "),
            "{name}: {answer:?}"
        );
        assert!(answer.detail.unwrap().contains("plan was refused"), "{name}");
        assert!(desk.launcher.launches.lock().unwrap().is_empty(), "{name} was launched");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_danger_flag_passes_at_the_danger_level_only() {
    let guest = except(|input| {
        let Input::Command(HostCommand::StartTurn(start)) = input else { return None };
        Some(Ok(vec![spawn(start, &["--danger"])]))
    });
    let desk_options =
        DeskOptions { understanding: guest, safety: Safety::Danger, ..DeskOptions::default() };
    let desk = Desk::new(ScriptedLauncher::new(answering), desk_options).await;
    desk.ask(7, "abc");
    assert_eq!(desk.collected.answers(1).await[0].1.text, "cba");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_takes_too_long_goes_through_every_step_of_the_timeout() {
    // The agent ignores the interrupt, and ends only at the terminate signal.
    let launcher = ScriptedLauncher::new(|mut agent: Agent| async move {
        agent.say(&["text half an ans"]).await;
        let mut signals = Vec::new();
        while let Some(command) = agent.commands.recv().await {
            if let ProcessCommand::Stop { signal, .. } = command {
                signals.push(format!("{signal:?}"));
                if signals.len() == 2 {
                    break;
                }
            }
        }
        assert_eq!(signals, ["Interrupt", "Terminate"]);
        agent.exit(Exit::Signal(15), "").await;
    });
    let desk = Desk::new(
        launcher,
        DeskOptions { query_timeout: Duration::from_millis(100), ..DeskOptions::default() },
    )
    .await;
    desk.ask(7, "abc");
    let answer = desk.collected.answers(1).await.remove(0).1;
    assert_eq!(answer.text, "half an ans");
    assert!(answer.failure.unwrap().starts_with("Query timed out"));
}

#[tokio::test(flavor = "multi_thread")]
async fn stop_interrupts_the_turn_and_refuses_the_prompts_behind_it() {
    let launcher = ScriptedLauncher::new(|mut agent: Agent| async move {
        agent.say(&["text working"]).await;
        agent.commands.recv().await;
        agent.exit(Exit::Code(130), "").await;
    });
    let desk = Desk::new(launcher, DeskOptions::default()).await;
    desk.ask(7, "long");
    desk.ask(7, "waiting");
    let deadline = Instant::now() + Duration::from_secs(10);
    while desk.collected.shown.lock().unwrap().is_empty() {
        assert!(Instant::now() < deadline, "the turn shows nothing");
        tokio::task::yield_now().await;
    }
    assert!(desk.dispatcher.turns.stop(&Lane::Channel(ChannelId::discord(7))));
    assert!(!desk.dispatcher.turns.stop(&Lane::Channel(ChannelId::discord(8))));
    let answers = desk.collected.answers(2).await;
    for (event, answer) in &answers {
        let failure = answer.failure.as_deref().unwrap();
        assert!(failure.starts_with("Stopped"), "event {}: {failure}", event.sequence);
    }
    assert_eq!(desk.launcher.prompts().len(), 1, "the waiting prompt never ran");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_session_is_forgotten_and_reported() {
    let launcher = ScriptedLauncher::new(|agent: Agent| async move {
        if agent.launch.arguments.is_empty() {
            agent.say(&["session s-1", "text ok", "done"]).await;
        } else {
            agent.say(&["unknown-session"]).await;
        }
        agent.exit(Exit::Code(1), "").await;
    });
    let desk = Desk::new(launcher, DeskOptions::default()).await;
    for prompt in ["first", "second", "third"] {
        desk.ask(7, prompt);
        desk.dispatcher.turns.idle().await;
    }
    let answers = desk.collected.answers(3).await;
    let failure = answers[1].1.failure.as_deref().unwrap();
    assert!(failure.contains("no longer knows") && failure.contains("ask again"), "{failure}");
    assert!(answers[2].1.failure.is_none(), "the third prompt starts a new session");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reset_during_a_turn_is_not_undone_by_its_end() {
    let (release, gate) = tokio::sync::watch::channel(false);
    let launcher = ScriptedLauncher::new(move |agent: Agent| {
        let mut gate = gate.clone();
        async move {
            agent.say(&["session s-old", "text hm"]).await;
            gate.wait_for(|open| *open).await.unwrap();
            agent.say(&["done"]).await;
            agent.exit(Exit::Code(0), "").await;
        }
    });
    let desk = Desk::new(launcher, DeskOptions::default()).await;
    desk.ask(7, "first");
    let deadline = Instant::now() + Duration::from_secs(10);
    while desk.collected.shown.lock().unwrap().is_empty() {
        assert!(Instant::now() < deadline, "the turn shows nothing");
        tokio::task::yield_now().await;
    }
    desk.dispatcher.conversations.reset(&Lane::Channel(ChannelId::discord(7))).await.unwrap();
    release.send(true).unwrap();
    desk.collected.answers(1).await;
    desk.ask(7, "second");
    desk.collected.answers(2).await;
    assert!(
        desk.launcher.launches.lock().unwrap()[1].arguments.is_empty(),
        "the old session came back"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_memory_block_is_on_disk_before_the_answer_is_shown_without_it() {
    let launcher = ScriptedLauncher::new(|agent: Agent| async move {
        agent
            .say(&["text Noted.\n\n", "text ```memory\n", "text - likes tea\n", "text ```", "done"])
            .await;
        agent.exit(Exit::Code(0), "").await;
    });
    let desk = Desk::new(launcher, DeskOptions::default()).await;
    desk.ask(7, "I like tea");
    let answer = desk.collected.answers(1).await.remove(0).1;
    assert_eq!(answer.text.trim(), "Noted.");
    let memory =
        std::fs::read_to_string(desk.folder.path().join("config/memory/channel-7.md")).unwrap();
    assert!(memory.starts_with("# Memory") && memory.contains("] likes tea\n"), "{memory}");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_turn_reads_the_current_files() {
    let prompts = Arc::new(std::sync::Mutex::new(Vec::new()));
    let seen = prompts.clone();
    let guest = except(move |input| {
        if let Input::Command(HostCommand::StartTurn(start)) = input {
            seen.lock().unwrap().push(start.settings.system_prompt.clone().unwrap());
        }
        None
    });
    let desk = Desk::new(
        ScriptedLauncher::new(answering),
        DeskOptions { understanding: guest, ..DeskOptions::default() },
    )
    .await;
    for soul in ["calm", "cheerful"] {
        std::fs::write(desk.folder.path().join("config/soul.md"), soul).unwrap();
        desk.ask(7, "hi");
        desk.dispatcher.turns.idle().await;
    }
    let prompts = prompts.lock().unwrap();
    assert!(
        prompts[0].contains("calm")
            && prompts[1].contains("cheerful")
            && !prompts[1].contains("calm")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn secrets_reach_neither_answers_nor_recordings() {
    let canary = "sk-canary-0123456789";
    let launcher = ScriptedLauncher::new(move |agent: Agent| async move {
        agent
            .say(&[
                "text the key is sk-can",
                "text ary-0123456789.",
                "notice sk-canary-0123456789",
                "done",
            ])
            .await;
        agent.exit(Exit::Code(0), "").await;
    });
    let desk =
        Desk::new(launcher, DeskOptions { secret: Some(canary.into()), ..DeskOptions::default() })
            .await;
    desk.ask(7, "print your key sk-canary-0123456789");
    let answer = desk.collected.answers(1).await.remove(0).1;
    assert_eq!(answer.text, "the key is ***.");
    assert!(!format!("{answer:?}").contains(canary));
    desk.dispatcher.turns.idle().await;
    let recording = only_recording(&desk).await;
    assert!(!recording.contains(canary) && recording.contains("***"), "{recording}");
}

#[tokio::test(flavor = "multi_thread")]
async fn replaying_a_recording_yields_the_same_actions() {
    let desk = Desk::new(ScriptedLauncher::new(answering), DeskOptions::default()).await;
    desk.ask(7, "abc");
    desk.collected.answers(1).await;
    desk.dispatcher.turns.idle().await;
    let ParsedRecording { header, entries, .. } =
        ParsedRecording::read(&only_recording(&desk).await).unwrap();
    assert_eq!(header.backend, "scripted");
    let turn = EntryKind::Turn {
        turn: header.link.clone(),
        event: 1,
        lane: "channel:7".into(),
        session: 1,
        key: 1,
    };
    assert_eq!(entries[0].kind, turn);
    let ending = EntryKind::Ending { turn: header.link, how: "completed".into() };
    assert_eq!(entries.iter().filter(|entry| entry.kind == ending).count(), 1);
    let mut guest = ScriptedBackend::new(plain()).open().await.unwrap();
    let (mut inputs, mut recorded) = (Vec::new(), Vec::new());
    for entry in entries {
        match entry.kind {
            EntryKind::In(input) => inputs.push(TimedInput { at_ms: entry.t, input }),
            EntryKind::Out(action) => recorded.push(action),
            _ => {}
        }
    }
    assert!(recorded.len() >= 4, "{recorded:?}");
    assert_eq!(guest.handle(inputs).await.unwrap(), recorded);
}

#[tokio::test(flavor = "multi_thread")]
async fn impossible_requests_are_answered_so_that_no_guest_waits_forever() {
    use aetheel_model::agent::{Ask, AskDecision, AskKind, HttpRequest, OpenStream};
    let heard = Arc::new(std::sync::Mutex::new(Vec::new()));
    let notes = heard.clone();
    let guest = except(move |input| match input {
        Input::Command(HostCommand::StartTurn(_)) => Some(Ok(vec![
            Action::Http(HttpRequest {
                request: 5,
                proc: 1,
                method: "GET".into(),
                path: "/".into(),
                body: None,
                timeout_ms: 10,
            }),
            Action::OpenStream(OpenStream { stream: 6, proc: 1, path: "/".into() }),
            Action::Ask(Ask {
                ask: 7,
                session: 1,
                turn: 1,
                title: "?".into(),
                kind: AskKind::SignIn("x".into()),
                always_label: None,
                options: vec![],
                diffs: vec![],
                changeable: false,
                parent: None,
                deadline_ms: None,
            }),
        ])),
        Input::HttpFailed(failed) => Some(Ok({
            notes.lock().unwrap().push(failed.request);
            vec![]
        })),
        Input::StreamClosed(closed) => Some(Ok({
            notes.lock().unwrap().push(closed.stream);
            vec![]
        })),
        Input::Command(HostCommand::Answer(answer)) => {
            assert_eq!(answer.decision, AskDecision::Dismissed);
            notes.lock().unwrap().push(answer.ask);
            Some(Ok(vec![done(TurnOutcome::Completed)]))
        }
        _ => None,
    });
    let desk = Desk::new(
        ScriptedLauncher::new(answering),
        DeskOptions { understanding: guest, ..DeskOptions::default() },
    )
    .await;
    desk.collected.blind.store(true, std::sync::atomic::Ordering::SeqCst);
    desk.ask(7, "abc");
    assert_eq!(desk.collected.answers(1).await[0].1.failure, None);
    assert_eq!(*heard.lock().unwrap(), [5, 6, 7]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guest_that_keeps_the_host_busy_or_reports_without_end_is_cut_off() {
    use aetheel_model::agent::{Chunk, HttpRequest, Write};
    // The connection is refused at once, as no process listens there.
    let asks = |_: &Input| {
        let request = HttpRequest {
            request: 7,
            proc: 1,
            method: "GET".into(),
            path: "/".into(),
            body: None,
            timeout_ms: 10,
        };
        Some(Ok(vec![Action::Http(request)]))
    };
    let flood = |input: &Input| {
        matches!(input, Input::Line(_)).then(|| {
            Ok(vec![Action::Write(Write { proc: 1, body: vec![Chunk::Text("x".repeat(8 << 20))] })])
        })
    };
    let understandings: [(&str, Understanding); 2] =
        [("never waited", except(asks)), ("its actions had more than", except(flood))];
    for (word, understanding) in understandings {
        let launcher = ScriptedLauncher::new(|agent: Agent| async move {
            for _ in 0..100 {
                agent.say(&["more"]).await;
            }
            agent.exit(Exit::Code(0), "").await;
        });
        // On a busy machine the guest may reach its limit late.
        let query_timeout = Duration::from_secs(600);
        let options = DeskOptions { understanding, query_timeout, ..DeskOptions::default() };
        let desk = Desk::new(launcher, options).await;
        desk.ask(7, "abc");
        let answer = desk.collected.answers(1).await.remove(0).1;
        let failure = answer.failure.unwrap();
        assert!(failure.contains("backend cut off"), "{failure}: {:?}", answer.detail);
        assert!(answer.detail.as_deref().unwrap().contains(word), "{:?}", answer.detail);
    }
}

/// Returns the only recording, as soon as it has the end of its turn. The link records the end after
/// the lane is idle, and not always before the exit of the agent.
pub(super) async fn only_recording(desk: &Desk) -> String {
    let has_end = |text: &str| {
        ParsedRecording::read(text).is_ok_and(|recording| {
            recording.entries.iter().any(|entry| matches!(entry.kind, EntryKind::Ending { .. }))
        })
    };
    let read = async {
        loop {
            desk.recorder.flush();
            let text = only_file(&desk.folder.path().join("recordings"));
            if has_end(&text) {
                return text;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), read).await.expect("the recording of a turn")
}

fn only_file(recordings: &Path) -> String {
    let mut found = Vec::new();
    for day in std::fs::read_dir(recordings).unwrap() {
        found.extend(
            std::fs::read_dir(day.unwrap().path()).unwrap().map(|file| file.unwrap().path()),
        );
    }
    assert_eq!(found.len(), 1);
    std::fs::read_to_string(&found[0]).unwrap()
}

//! Recorded dialogues with `codex app-server` 0.169.0, played to the backend.
#![allow(clippy::unwrap_used, reason = "a panic reports the failure")]

mod support;

use aetheel_backend_sdk::dialogue::Play;
use aetheel_backend_sdk::fixture::{
    answers, events, is_done, shown, thoughts, tool_ends, tool_starts, unrecognised,
};
use aetheel_backend_sdk::wit::{
    Action, AskKind, Attachment, Chunk, Command, Decision, EventKind, FailureKind, Mode, Outcome,
    Part, QueryKind, QueryResult, Safety, StartTurn, Steer, SteerOutcome, Steered, ToolStatus,
    TurnRef, Write,
};
use codex::Backend;
use serde_json::json;
use support::{answer, careful, ids, live, play, query, until_ask, until_done};

const THREAD: &str = "01a1ffe2-42ec-7b70-ae65-d995238de672";

/// Shuts the link down, plays the rest, and checks the properties that every recording must have.
fn end(play: &mut Play<Backend>) {
    play.command(Command::Shutdown).finish();
    assert!(
        play.actions.iter().any(|action| matches!(action, Action::CloseStdin(1))),
        "the agent is asked to exit"
    );
    assert_eq!(unrecognised(&play.actions), Vec::<&_>::new());
    play.check();
}

#[test]
fn a_conversation_streams_text_and_thinking_with_the_usage_of_each_turn() {
    let mut play = play("live-init-prompt-streaming");
    play.start(live("first"));
    let first = until_done(&mut play);
    assert_eq!(
        (first.outcome, first.text.as_deref()),
        (Outcome::Completed, Some("Hello there from the mock model."))
    );
    assert_eq!(shown(&play.actions), ["Hello there from the mock model."]);
    assert_eq!(thoughts(&play.actions), ["Let me think about it."]);
    let pieces = events(&play.actions).filter(|event| matches!(event, EventKind::Text(_))).count();
    assert!(pieces > 1, "text is streamed");
    let usage = first.usage.clone().unwrap();
    assert_eq!((usage.input, usage.cached, usage.output, usage.reasoning), (90, 10, 20, 5));
    assert_eq!((usage.context_used, usage.context_size), (Some(120), Some(258_400)));
    assert!(ids(&play.actions)[0].starts_with(THREAD));

    play.start(StartTurn {
        turn: 2,
        native_id: Some(ids(&play.actions)[0].to_owned()),
        ..live("second")
    });
    let second = until_done(&mut play);
    assert_eq!((second.turn, second.usage.clone().unwrap().input), (2, 90), "not the sum of both");
    assert_eq!(play.written_with("thread/start").len(), 1, "the second turn uses the open thread");
    assert_eq!(ids(&play.actions).len(), 1);
    let begun = &play.written_with("turn/start")[1]["params"];
    assert_eq!(begun["input"], json!([{"type": "text", "text": "second", "text_elements": []}]));
    assert_eq!(
        begun.as_object().unwrap().len(),
        2,
        "unchanged settings are not sent again: {begun}"
    );
    end(&mut play);
}

#[test]
fn a_thread_is_opened_with_the_policy_of_its_level_and_mode() {
    for (safety, mode, approval, sandbox) in [
        (Safety::Default, Mode::Build, "on-request", "read-only"),
        (Safety::Edit, Mode::Build, "on-request", "workspace-write"),
        (Safety::Danger, Mode::Build, "never", "danger-full-access"),
        (Safety::Danger, Mode::Plan, "never", "read-only"),
    ] {
        let mut play = play("live-init-prompt-streaming");
        let mut start = live("hi");
        (start.settings.safety, start.settings.mode) = (safety, mode);
        start.settings.system_prompt = Some("Be kind.".to_owned());
        start.settings.model = Some("gpt-x".to_owned());
        start.settings.effort = Some("high".to_owned());
        play.start(start).until(is_done);
        assert!(play.actions.iter().any(|action| matches!(action, Action::SessionReady(ready) if ready.model.as_deref() == Some("gpt-x"))));
        let params = &play.written_with("thread/start")[0]["params"];
        let mut opened = json!({"cwd": "/srv/proj", "approvalPolicy": approval, "sandbox": sandbox, "developerInstructions": "Be kind."});
        if sandbox == "workspace-write" {
            opened["config"] = json!({"sandbox_workspace_write.exclude_slash_tmp": true});
        }
        assert_eq!(params, &opened);
        let params = &play.written_with("turn/start")[0]["params"];
        assert_eq!((&params["model"], &params["effort"]), (&json!("gpt-x"), &json!("high")));
        let plan = json!({"mode": "plan", "settings": {"model": "gpt-x", "reasoning_effort": "high", "developer_instructions": null}});
        assert_eq!(params.get("collaborationMode"), (mode == Mode::Plan).then_some(&plan));
        assert_eq!(params.get("sandboxPolicy"), None, "the thread has the policy");
    }
}

#[test]
fn new_and_resumed_threads_have_only_the_allowed_tools() {
    let mut play = play("live-init-prompt-streaming");
    let mut start = live("hi");
    start.settings.allowed_tools = vec!["web_search".to_owned()];
    play.start(start.clone()).until(is_done);
    let params = &play.written_with("thread/start")[0]["params"];
    assert_eq!(
        (&params["config"]["features.shell_tool"], &params["config"]["features.multi_agent"]),
        (&json!(false), &json!(false))
    );
    assert_eq!(params["config"].get("web_search"), None);
    assert_eq!(
        (&params["approvalPolicy"], &params["sandbox"]),
        (&json!("never"), &json!("read-only"))
    );
    start.settings.allowed_tools = Vec::new();
    play.start(StartTurn { turn: 2, ..start });
    let done = *play.done().last().unwrap();
    assert!(
        done.turn == 2
            && matches!(&done.outcome, Outcome::Failed(failure) if failure.kind == FailureKind::Unsupported),
        "{done:?}"
    );
    assert_eq!(play.written_with("turn/start").len(), 1, "the thread keeps its tools");

    let mut play = support::play("live-resume");
    let mut start = live("hi");
    start.native_id = Some(THREAD.to_owned());
    start.settings.allowed_tools = vec!["none".to_owned()];
    play.start(start);
    until_done(&mut play);
    assert_eq!(
        play.written_with("thread/resume")[0]["params"]["config"]["features.shell_tool"],
        json!(false)
    );
}

#[test]
fn changed_settings_apply_from_the_next_turn() {
    let mut play = play("live-set-model-effort");
    let mut first = live("with other model");
    first.settings.model = Some("gpt-5.6-sol".to_owned());
    first.settings.effort = Some("high".to_owned());
    first.settings.system_prompt = Some("One.".to_owned());
    play.start(first.clone());
    until_done(&mut play);
    let mut second = StartTurn { turn: 2, cwd: "/srv/other".to_owned(), ..first };
    second.settings.model = None;
    second.settings.effort = Some("low".to_owned());
    second.settings.safety = Safety::Default;
    second.settings.system_prompt = Some("Two.".to_owned());
    play.start(second.clone());
    until_done(&mut play);
    let params = &play.written_with("turn/start")[1]["params"];
    assert_eq!(
        (&params["model"], &params["effort"], &params["cwd"]),
        (&json!("gpt-5.5"), &json!("low"), &json!("/srv/other"))
    );
    assert_eq!(
        (&params["approvalPolicy"], &params["sandboxPolicy"]["type"]),
        (&json!("on-request"), &json!("readOnly"))
    );
    let input = params["input"].as_array().unwrap();
    assert_eq!(input.len(), 2, "the changed system prompt precedes the prompt: {input:?}");
    assert!(input[0]["text"].as_str().unwrap().contains("\nTwo.\n"));
    assert_eq!(params.get("collaborationMode"), None);
    let told = ids(&play.actions);
    assert!(
        told.len() == 2 && told[0] != told[1],
        "the id contains the hash of the system prompt: {told:?}"
    );
    second.settings.effort = None;
    play.start(StartTurn { turn: 3, ..second });
    let default = json!({"mode": "default", "settings": {"model": "gpt-5.5", "reasoning_effort": null, "developer_instructions": null}});
    let params = &play.written_with("turn/start")[2]["params"];
    assert_eq!(params["collaborationMode"], default, "the default effort is restored");
    assert_eq!(params.get("effort"), None);
    assert_eq!(
        play.written_with("turn/start")[2]["params"]["input"].as_array().unwrap().len(),
        1,
        "the system prompt is not sent twice"
    );
}

#[test]
fn a_resumed_thread_gets_only_changed_settings() {
    let mut play = play("live-resume");
    play.start(StartTurn { native_id: Some(THREAD.to_owned()), ..live("recall") });
    let done = until_done(&mut play);
    assert!(done.text.unwrap().starts_with("History: "));
    let resumed = &play.written_with("thread/resume")[0]["params"];
    assert_eq!((&resumed["threadId"], &resumed["excludeTurns"]), (&json!(THREAD), &json!(true)));
    assert_eq!(resumed.get("developerInstructions"), None, "Codex would ignore them");
    let usage = done.usage.clone().unwrap();
    assert_eq!(
        (usage.input, usage.output),
        (90, 20),
        "the sums of the old turn are repeated after resuming and do not count"
    );
    end(&mut play);

    let told = {
        let mut first = support::play("live-init-prompt-streaming");
        let mut start = live("first");
        start.settings.system_prompt = Some("Be kind.".to_owned());
        first.start(start).until(is_done);
        ids(&first.actions)[0].to_owned()
    };
    for (system_prompt, items) in [("Be kind.", 1), ("Be quick.", 2)] {
        let mut play = support::play("live-resume");
        let mut start = StartTurn { native_id: Some(told.clone()), ..live("recall") };
        start.settings.system_prompt = Some(system_prompt.to_owned());
        play.start(start).until(is_done);
        assert_eq!(
            play.written_with("turn/start")[0]["params"]["input"].as_array().unwrap().len(),
            items,
            "{system_prompt}"
        );
    }
}

#[test]
fn a_thread_left_in_planning_mode_is_switched_back() {
    let mut planned = play("live-request-user-input");
    let mut start = live("ask me");
    start.settings.mode = Mode::Plan;
    planned.start(start);
    until_ask(&mut planned);
    let id = ids(&planned.actions).pop().unwrap();
    assert!(id.contains(".p."), "{id}");
    let id = format!("{THREAD}{}", &id[36..]);
    for (id, told) in [(id, true), (THREAD.to_owned(), false)] {
        let mut play = play("live-resume");
        play.start(StartTurn { native_id: Some(id), ..live("work") }).until(is_done);
        let params = &play.written_with("turn/start")[0]["params"];
        assert_eq!(params["collaborationMode"]["mode"] == "default", told, "{params}");
    }
}

#[test]
fn a_compacted_conversation_gets_its_system_prompt_again() {
    let mut play = play("live-init-prompt-streaming");
    let mut start = live("first");
    start.settings.system_prompt = Some("Be kind.".to_owned());
    play.start(start.clone());
    until_done(&mut play);
    play.command(query(1, Some(1), QueryKind::Compact));
    assert_eq!(play.written_with("thread/compact/start")[0]["params"]["threadId"], THREAD);
    let item = json!({"type": "contextCompaction", "id": "c"});
    play.say(&json!({"method": "item/completed", "params": {"threadId": THREAD, "turnId": "t", "item": item}}).to_string());
    let id = play.id_of("thread/compact/start").unwrap();
    play.start(StartTurn { turn: 2, ..start })
        .say(&json!({"id": id.parse::<u32>().unwrap(), "result": {}}).to_string());
    assert_eq!(play.written_with("turn/start").len(), 1, "it would be steered into the compaction");
    play.command(query(2, Some(1), QueryKind::Compact));
    play.say(&json!({"method": "turn/completed", "params": {"threadId": THREAD, "turn": {"id": "t", "status": "completed"}}}).to_string());
    assert!(
        matches!(answers(&play.actions)[..], [QueryResult::Failed(_), QueryResult::Done]),
        "{:?}",
        answers(&play.actions)
    );
    let input = &play.written_with("turn/start")[1]["params"]["input"];
    assert!(input[0]["text"].as_str().unwrap().contains("Be kind."), "{input}");
}

#[test]
fn a_thread_that_cannot_be_compacted_continues() {
    let mut play = play("live-init-prompt-streaming");
    play.start(live("first"));
    until_done(&mut play);
    play.command(query(1, Some(1), QueryKind::Compact))
        .start(StartTurn { turn: 2, ..live("second") });
    assert_eq!(play.written_with("turn/start").len(), 1);
    let id: u32 = play.id_of("thread/compact/start").unwrap().parse().unwrap();
    play.say(&json!({"id": id, "error": {"code": -32600, "message": "not now"}}).to_string());
    assert!(matches!(answers(&play.actions)[..], [QueryResult::Failed(_)]));
    assert_eq!(play.written_with("turn/start").len(), 2);
}

#[test]
fn unknown_sessions_fail_their_turn_and_not_the_link() {
    let mut play = play("live-resume-unknown");
    play.start(StartTurn {
        native_id: Some("00000000-0000-4000-8000-000000000000".to_owned()),
        ..live("hi")
    });
    let Outcome::Failed(failure) = until_done(&mut play).outcome else {
        panic!("{:?}", play.done())
    };
    assert_eq!(failure.kind, FailureKind::SessionUnknown);
    assert!(failure.message.starts_with("no rollout found"), "{failure:?}");
    play.start(StartTurn { turn: 2, native_id: Some("not-a-uuid".to_owned()), ..live("hi") });
    let Outcome::Failed(failure) = play.outcomes()[1] else { panic!("{:?}", play.done()) };
    assert_eq!(failure.kind, FailureKind::SessionUnknown);
    assert_eq!(play.written_with("thread/resume").len(), 1, "no request is sent to Codex");
    end(&mut play);
}

#[test]
fn users_are_notified_if_codex_uses_another_thread() {
    let mut play = play("live-resume");
    play.start(StartTurn {
        native_id: Some("00000000-0000-4000-8000-000000000000".to_owned()),
        ..live("recall")
    })
    .until(is_done);
    assert!(
        events(&play.actions).any(
            |event| matches!(event, EventKind::Notice(notice) if notice.text.contains("began a new one"))
        )
    );
}

#[test]
fn a_copy_is_a_new_session_and_sessions_are_listed() {
    let mut play = play("live-fork-list-read-archive");
    play.start(StartTurn { native_id: Some(THREAD.to_owned()), fork: true, ..live("recall") });
    assert_eq!(until_done(&mut play).outcome, Outcome::Completed);
    assert!(
        play.written_with("thread/fork").len() == 1 && !ids(&play.actions)[0].starts_with(THREAD)
    );
    play.until_host("thread/list").command(query(1, None, QueryKind::Sessions));
    play.until(|action| matches!(action, Action::QueryAnswer(_)));
    let answers = answers(&play.actions);
    let [QueryResult::Sessions(sessions)] = answers[..] else { panic!("{answers:?}") };
    assert_eq!(sessions.len(), 3);
    assert!(ids(&play.actions)[0].starts_with(&sessions[0].native_id));
    assert_eq!(sessions[0].updated.as_deref(), Some("2026-11-21T20:53:33Z"));
    assert_eq!(
        sessions[0].title.as_deref(),
        Some("MOCK:think:Let me think about it.;;text:Hello there from the mock model.")
    );
    end(&mut play);
}

#[test]
fn models_have_their_efforts_and_health_the_sign_in() {
    let mut play = play("live-models-account-config");
    play.command(query(1, None, QueryKind::Models)).command(query(2, None, QueryKind::Health));
    play.until_host("modelProvider/list");
    let answers = answers(&play.actions);
    let [QueryResult::Models(models), QueryResult::Health(health)] = answers[..] else {
        panic!("{answers:?}")
    };
    assert_eq!((models[0].id.as_str(), models[0].label.as_str()), ("gpt-6.1-sol", "GPT-6.1-Sol"));
    assert_eq!(models[0].efforts, ["low", "medium", "high", "xhigh", "max", "ultra"]);
    assert!(health.starts_with("Codex answers"), "{health}");
    assert!(
        matches!(&play.actions[0], Action::Spawn(spawn) if spawn.turn.is_none() && spawn.keep_open)
    );
    end(&mut play);
}

#[test]
fn commands_are_asked_about_and_decisions_are_translated() {
    for (case, decision, reply, asks, status, outcome) in [
        ("accept", Decision::AllowOnce, "accept", 2, ToolStatus::Ok, Outcome::Completed),
        (
            "acceptforsession",
            Decision::AllowAlways,
            "accept",
            1,
            ToolStatus::Ok,
            Outcome::Completed,
        ),
        ("decline", Decision::Deny(None), "decline", 2, ToolStatus::Denied, Outcome::Completed),
        ("decline", Decision::Dismissed, "decline", 2, ToolStatus::Denied, Outcome::Completed),
        ("cancel", Decision::DenyAndStop, "cancel", 1, ToolStatus::Denied, Outcome::Interrupted),
    ] {
        let mut play = play(&format!("live-permission-command-{case}"));
        play.start(careful("touch"));
        for _ in 0..asks {
            let ask = until_ask(&mut play);
            let AskKind::Permission(tool) = &ask.kind else { panic!("{ask:?}") };
            assert_eq!(
                (tool.kind.as_str(), tool.native_name.as_str()),
                ("bash", "command_execution")
            );
            assert!(
                tool.title.starts_with("touch perm_") && ask.title.starts_with("Run: touch perm_"),
                "{ask:?}"
            );
            assert_eq!(tool_starts(&play.actions).last(), Some(&tool), "the tool use that waits");
            assert!(ask.always_label.is_some());
            play.command(answer(ask.ask, decision.clone()));
        }
        assert_eq!(until_done(&mut play).outcome, outcome, "{case}");
        let replies = play.written_with("\"decision\"");
        assert_eq!(replies.len(), asks, "{case}");
        assert!(replies.iter().all(|said| said["result"]["decision"] == reply), "{replies:?}");
        assert!(replies[0]["id"] == 0, "ids are returned unchanged");
        assert!(tool_ends(&play.actions).iter().all(|end| end.status == status), "{case}");
        assert!(
            !play.actions.iter().any(|action| matches!(action, Action::AskWithdrawn(_))),
            "an answered question is not withdrawn"
        );
        // One golden file is enough for the shared recording.
        if decision != Decision::Dismissed {
            end(&mut play);
        }
    }
}

#[test]
fn a_message_with_a_refusal_reaches_the_model() {
    let mut play = play("live-permission-command-decline");
    play.start(careful("touch"));
    let ask = until_ask(&mut play).ask;
    play.command(answer(ask, Decision::Deny(Some("use mkdir".to_owned()))));
    let [decided, told] = &play.written[play.written.len() - 2..] else {
        panic!("{:?}", play.written)
    };
    assert!(
        decided.contains(r#""decision":"decline""#)
            && told.contains("turn/steer")
            && told.contains("use mkdir"),
        "{told}"
    );
    play.until_agent("turn/completed");
    assert!(
        !play.actions.iter().any(|action| matches!(action, Action::Steered(_))),
        "no message was steered"
    );
}

#[test]
fn questions_about_file_changes_show_the_changes() {
    for (case, decision, status) in [
        ("accept", Decision::AllowOnce, ToolStatus::Ok),
        ("decline", Decision::Deny(None), ToolStatus::Denied),
    ] {
        let mut play = play(&format!("live-permission-patch-{case}"));
        play.start(careful("write"));
        let ask = until_ask(&mut play);
        let AskKind::Permission(tool) = &ask.kind else { panic!("{ask:?}") };
        assert_eq!(
            (tool.kind.as_str(), tool.target.clone().unwrap()),
            ("file_write", format!("/srv/proj/patch_{case}.txt"))
        );
        assert!(
            tool.input.contains(r"one\ntwo\n"),
            "joined from the previous item: {}",
            tool.input
        );
        play.command(answer(ask.ask, decision));
        assert_eq!(until_done(&mut play).outcome, Outcome::Completed);
        let ends = tool_ends(&play.actions);
        assert_eq!(
            (ends[0].status, ends[0].diffs[0].new_text.as_deref()),
            (status, Some("one\ntwo\n"))
        );
        end(&mut play);
    }
}

#[test]
fn questions_reach_users_and_answers_reach_the_model() {
    for (decision, reply) in [
        (
            Decision::Answers(vec![("colour".to_owned(), vec!["Blue".to_owned()])]),
            json!({"answers": {"colour": {"answers": ["Blue"]}}}),
        ),
        (Decision::Dismissed, json!({"answers": {}})),
    ] {
        let mut play = play("live-request-user-input");
        let mut start = live("ask me");
        start.settings.mode = Mode::Plan;
        play.start(start);
        let ask = until_ask(&mut play);
        let AskKind::Questions(questions) = &ask.kind else { panic!("{ask:?}") };
        assert_eq!((questions[0].text.as_str(), questions[0].free_text), ("Which colour?", true));
        assert_eq!(
            questions[0].options.iter().map(|option| option.label.as_str()).collect::<Vec<_>>(),
            ["Red", "Blue"]
        );
        let checked = decision != Decision::Dismissed;
        play.command(answer(ask.ask, decision));
        assert_eq!(play.written_with("\"answers\"")[0]["result"], reply);
        assert_eq!(until_done(&mut play).text.as_deref(), Some("Thanks."));
        if checked {
            end(&mut play);
        }
    }
}

fn interrupt(play: &mut Play<Backend>) {
    play.command(Command::Interrupt(TurnRef { session: 1, turn: 1 }));
}

#[test]
fn an_interrupt_during_text_ends_the_turn_and_not_the_agent() {
    let mut play = play("live-interrupt-mid-text");
    play.start(live("slow")).until_host("turn/interrupt");
    interrupt(&mut play);
    let done = until_done(&mut play);
    assert_eq!((done.outcome, done.text), (Outcome::Interrupted, None));
    assert!(shown(&play.actions)[0].starts_with("chunk0 "), "text before the interrupt is kept");
    let asked = play.written_with("turn/interrupt");
    assert_eq!(asked[0]["params"]["turnId"], "01a1ffe2-83ed-7052-8d4f-60651ffc868c");
    play.start(StartTurn { turn: 2, ..live("alive?") });
    assert_eq!(until_done(&mut play).text.as_deref(), Some("Alive after the interrupt."));
    end(&mut play);
}

#[test]
fn an_interrupt_ends_open_tools() {
    let mut play = play("live-interrupt-mid-tool");
    play.start(live("sleep")).until_host("turn/interrupt");
    interrupt(&mut play);
    assert_eq!(until_done(&mut play).outcome, Outcome::Interrupted);
    assert_eq!(
        tool_ends(&play.actions).iter().map(|end| end.status).collect::<Vec<_>>(),
        [ToolStatus::Cancelled]
    );
    end(&mut play);
}

#[test]
fn an_interrupt_ends_an_open_question() {
    let mut play = play("live-interrupt-during-permission");
    play.start(careful("touch"));
    let ask = until_ask(&mut play).ask;
    interrupt(&mut play);
    assert_eq!(until_done(&mut play).outcome, Outcome::Interrupted);
    let written = play.written.len();
    play.command(answer(ask, Decision::AllowOnce));
    assert_eq!(play.written.len(), written, "a late answer has no effect");
    end(&mut play);
}

#[test]
fn an_interrupt_during_the_start_is_applied_later() {
    let mut early = play("live-init-prompt-streaming");
    early.start(live("hi"));
    interrupt(&mut early);
    assert_eq!(early.outcomes(), [&Outcome::Interrupted], "no turn was requested yet");
    early.start(StartTurn { turn: 2, ..live("again") });
    assert_eq!(until_done(&mut early).turn, 2, "the starting agent serves the next turn");

    let mut opening = play("live-init-prompt-streaming");
    opening.start(live("hi")).until_host("thread/start");
    interrupt(&mut opening);
    opening.start(StartTurn { turn: 2, ..live("again") });
    assert_eq!(until_done(&mut opening).turn, 2);
    assert_eq!(
        opening.written_with("thread/start").len(),
        1,
        "the opening thread serves the next turn"
    );

    let mut asked = play("live-interrupt-mid-text");
    asked.start(live("slow")).until_host("turn/start");
    interrupt(&mut asked);
    assert_eq!(asked.written_with("turn/interrupt").len(), 0, "the turn has no id yet");
    asked.until_agent("inProgress");
    assert_eq!(asked.written_with("turn/interrupt").len(), 1);
}

#[test]
fn a_late_interrupt_and_a_late_message_have_no_effect() {
    let mut play = play("live-interrupt-idle");
    play.start(live("one"));
    until_done(&mut play);
    let actions = play.actions.len();
    interrupt(&mut play);
    assert_eq!(play.actions.len(), actions);
    play.command(Command::Steer(message(1)));
    assert_eq!(
        play.actions.last(),
        Some(&Action::Steered(Steered { message: 1, outcome: SteerOutcome::NotNow }))
    );
    end(&mut play);
}

fn message(turn: u32) -> Steer {
    let parts = vec![Part::Text("STEER please also say banana".to_owned())];
    Steer { session: 1, turn, message: 1, parts, fresh_id: String::new() }
}

#[test]
fn a_message_is_steered_into_the_running_turn() {
    let mut play = play("live-steer-mid-turn");
    play.start(live("work")).until_host("turn/steer").command(Command::Steer(message(1)));
    let steer = &play.written_with("turn/steer")[0]["params"];
    assert_eq!(steer["expectedTurnId"], "01a1ffe2-9e77-79b0-914b-0e45effca5fb");
    play.until(|action| matches!(action, Action::Steered(steered) if steered.outcome == SteerOutcome::Injected));
    let done = until_done(&mut play);
    assert_eq!(done.text.as_deref(), Some("Steered: STEER please also say bananaplan finished"));
    let output: String = events(&play.actions)
        .filter_map(|event| {
            if let EventKind::ToolOutput(output) = event {
                Some(output.text.as_str())
            } else {
                None
            }
        })
        .collect();
    assert_eq!(output, "one\n", "live output");
    assert_eq!(done.usage.clone().unwrap().input, 270, "three model requests");
    end(&mut play);
}

#[test]
fn tools_have_their_kinds_ends_and_diffs() {
    let mut play = play("live-tool-danger");
    play.start(live("tools"));
    let done = until_done(&mut play);
    let starts = tool_starts(&play.actions);
    assert_eq!(
        starts.iter().map(|start| (start.kind.as_str(), start.title.as_str())).collect::<Vec<_>>(),
        [("bash", "echo hi && echo err >&2 && exit 3"), ("file_write", "/srv/proj/b.txt")]
    );
    let ends = tool_ends(&play.actions);
    assert_eq!(
        (ends[0].status, ends[0].exit_code, ends[0].output.as_deref()),
        (ToolStatus::Failed, Some(3), Some("hi\nerr\n"))
    );
    assert_eq!(
        (ends[1].status, ends[1].diffs[0].new_text.as_deref()),
        (ToolStatus::Ok, Some("one\ntwo\n"))
    );
    assert_eq!(shown(&play.actions).first().map(String::as_str), Some("Running it."));
    assert_eq!(
        done.text.as_ref(),
        shown(&play.actions).last(),
        "text before a tool is shown but is not the answer"
    );
    end(&mut play);
}

#[test]
fn an_api_error_fails_only_its_turn() {
    let mut play = play("live-error-400");
    play.start(live("bad"));
    let Outcome::Failed(failure) = until_done(&mut play).outcome else {
        panic!("{:?}", play.done())
    };
    assert_eq!(
        (failure.kind, failure.message.as_str()),
        (FailureKind::BadRequest, "prompt is bad")
    );
    play.start(StartTurn { turn: 2, ..live("good") });
    assert_eq!(until_done(&mut play).text.as_deref(), Some("Alive after an API error."));
    end(&mut play);
}

#[test]
fn attempts_are_retries_and_the_last_error_is_the_failure() {
    let mut play = play("live-error-500-retry");
    play.start(live("flaky"));
    assert_eq!(until_done(&mut play).outcome, Outcome::Completed);
    play.start(StartTurn { turn: 2, ..live("broken") });
    let Outcome::Failed(failure) = until_done(&mut play).outcome else {
        panic!("{:?}", play.done())
    };
    assert_eq!(failure.kind, FailureKind::Overloaded);
    let retries: Vec<&str> = events(&play.actions)
        .filter_map(|event| {
            if let EventKind::Retry(retry) = event { Some(retry.message.as_str()) } else { None }
        })
        .collect();
    assert_eq!(
        retries,
        [
            "Reconnecting... 1/1: We’re currently experiencing high demand, which may cause temporary errors."
        ]
    );
    end(&mut play);
}

#[test]
fn two_sessions_in_one_process_do_not_mix() {
    let mut play = play("live-two-threads-one-process");
    play.start(live("a")).start(StartTurn { session: 2, turn: 2, ..live("b") });
    let (first, second) = (until_done(&mut play), until_done(&mut play));
    assert_eq!(
        (first.session, first.text.as_deref()),
        (2, Some("chunk0 chunk1 chunk2 chunk3 B done"))
    );
    assert_eq!(
        (second.session, second.text.as_deref()),
        (1, Some("chunk0 chunk1 chunk2 chunk3 chunk4 chunk5 A done"))
    );
    let said = |session| {
        let texts = play.actions.iter().filter_map(|action| match action {
            Action::Event(event) if event.session == session => match &event.kind {
                EventKind::Text(text) => Some(text.text.clone()),
                _ => None,
            },
            _ => None,
        });
        texts.collect::<String>()
    };
    assert_eq!((Some(said(1)), Some(said(2))), (second.text, first.text));
    assert_eq!(play.actions.iter().filter(|action| matches!(action, Action::Spawn(_))).count(), 1);
    end(&mut play);
}

#[test]
fn images_are_sent_as_blobs() {
    let mut play = play("live-image-prompt");
    let image = Attachment {
        blob: 7,
        name: "dot.png".to_owned(),
        media_type: "image/png".to_owned(),
        size: 70,
        path: "/srv/dot.png".to_owned(),
    };
    let file = Attachment {
        blob: 8,
        name: "a.csv".to_owned(),
        media_type: "text/csv".to_owned(),
        path: "/srv/a.csv".to_owned(),
        ..image.clone()
    };
    let text = Part::Text("look \u{1}9\u{1} \"here\"".to_owned());
    play.start(StartTurn { parts: vec![text, Part::Image(image), Part::File(file)], ..live("") });
    assert_eq!(until_done(&mut play).text.as_deref(), Some("I see an image."));
    let input = &play.written_with("turn/start")[0]["params"]["input"];
    assert_eq!(input[0]["text"], "look \u{1}9\u{1} \"here\"", "users cannot refer to blobs");
    assert_eq!(input[1], json!({"type": "image", "url": "data:image/png;base64,<base64 of 7>"}));
    assert_eq!(input[2]["text"], "[Attached file: a.csv (text/csv, 70 bytes) at /srv/a.csv]");
    let blobs = play.actions.iter().filter_map(|action| {
        if let Action::Write(Write { body, .. }) = action { Some(body) } else { None }
    });
    assert_eq!(blobs.flatten().filter(|chunk| matches!(chunk, Chunk::Base64(7))).count(), 1);
    end(&mut play);
}

#[test]
fn a_command_stopped_by_the_sandbox_does_not_fail_the_turn() {
    let mut play = play("live-sandboxed-readonly");
    let mut start = live("touch");
    start.settings.mode = Mode::Plan;
    play.start(start);
    assert_eq!(until_done(&mut play).text.as_deref(), Some("After."));
    assert_eq!(tool_starts(&play.actions).len(), 0);
    end(&mut play);
}

#[test]
fn an_exit_during_a_turn_loses_the_turn() {
    let mut play = play("live-stdin-close-mid-turn");
    play.start(live("slow")).finish();
    let Outcome::Lost(failure) = play.outcomes()[0] else { panic!("{:?}", play.done()) };
    assert_eq!(failure.kind, FailureKind::Crashed);
    assert!(failure.message.contains("bubblewrap"), "the end of stderr: {}", failure.message);
    assert!(shown(&play.actions)[0].starts_with("chunk0 "), "text before the exit is kept");
    play.check();
    play.start(StartTurn { turn: 2, ..live("again") });
    assert!(
        play.actions.iter().any(|action| matches!(action, Action::Spawn(spawn) if spawn.proc == 2)),
        "the next prompt starts a new process"
    );
}

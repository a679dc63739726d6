//! Turns of a conversation: started by the host, steered, and begun by the agent.

use aetheel_backend_sdk::fixture::{is_done, notices, ready, shown};
use aetheel_backend_sdk::wit::{
    Action, Chunk, Command, Exit, Outcome, Safety, StartTurn, SteerOutcome, Steered, TurnDone,
    Write,
};

use crate::{at, launches, recorded, scenarios, turn, with};

#[test]
fn a_prompt_is_sent_after_the_handshake() {
    let mut play = recorded("two-turns");
    play.start(turn(1));
    assert_eq!(
        launches(&play)[0][..7],
        [
            "-p",
            "--input-format",
            "stream-json",
            "--output-format",
            "stream-json",
            "--permission-prompt-tool",
            "stdio"
        ]
    );
    assert_eq!(play.written_with("\"user\""), [] as [serde_json::Value; 0]);
    play.until_agent("control_response");
    let said = play.written_with("\"user\"");
    assert_eq!(said.len(), 1);
    assert_eq!(said[0]["message"]["content"], "recorded");
}

#[test]
fn a_turn_ends_when_the_agent_is_idle_and_not_at_its_result() {
    let mut play = recorded("two-turns");
    play.start(turn(1)).until_agent("\"type\":\"result\"");
    assert!(play.done().is_empty());
    play.until_agent("\"idle\"");
    assert_eq!(play.outcomes(), [&Outcome::Completed]);
}

#[test]
fn a_second_turn_reuses_the_process_and_has_its_own_cost() {
    let play = scenarios::two_turns();
    assert_eq!(launches(&play).len(), 1);
    assert_eq!(ready(&play.actions).len(), 2, "reported in every turn, as in one-shot runs");
    for (done, text) in play
        .done()
        .into_iter()
        .zip(["Hello there from the mock model.", "Second turn in the same process."])
    {
        assert_eq!((&done.outcome, done.text.as_deref()), (&Outcome::Completed, Some(text)));
        let usage = done.usage.clone().unwrap();
        assert_eq!(
            (usage.input, usage.cached, usage.output, usage.cost_usd),
            (100, 10, 20, Some(0.000_603))
        );
    }
}

#[test]
fn a_turn_that_the_agent_begins_has_its_own_key() {
    let play = scenarios::background_task();
    let own = TurnDone { turn: 0x8000_0000, ..play.done()[0].clone() };
    assert_eq!(play.done().len(), 2);
    assert_eq!(play.done()[1].turn, own.turn);
    assert_eq!(play.done()[1].text.as_deref(), Some("Started it in the background."));
    assert_eq!(play.done()[1].usage.clone().unwrap().output, 20);
    let begun = play
        .actions
        .iter()
        .position(|action| *action == Action::TurnBegun(at(0x8000_0000)))
        .unwrap();
    let first = play.actions.iter().position(is_done).unwrap();
    assert!(first < begun);
    assert_eq!(shown(&play.actions[begun..]), ["Started it in the background."]);
}

#[test]
fn a_prompt_waits_for_a_turn_that_the_agent_began() {
    let mut play = recorded("background-task");
    play.start(with(1, |settings| settings.safety = Safety::Danger));
    play.until(|action| matches!(action, Action::TurnBegun(_)));
    play.start(with(2, |settings| settings.safety = Safety::Danger));
    assert_eq!(play.written_with("\"user\"").len(), 1);
    play.until(is_done);
    assert_eq!(play.written_with("\"user\"").len(), 2);
    assert_eq!(play.done().last().unwrap().turn, 0x8000_0000);
}

#[test]
fn the_end_of_background_work_does_not_end_a_new_turn() {
    let mut play = recorded("two-turns");
    play.start(turn(1)).until_agent("control_response").cut();
    play.say(r#"{"type":"system","subtype":"session_state_changed","state":"running"}"#);
    play.say(r#"{"type":"result","subtype":"success","is_error":false,"result":"aside","origin":{"kind":"task-notification"}}"#);
    play.say(r#"{"type":"system","subtype":"session_state_changed","state":"idle"}"#);
    assert!(play.done().is_empty());
    play.say(r#"{"type":"result","subtype":"success","is_error":false,"result":"answer"}"#);
    play.say(r#"{"type":"system","subtype":"session_state_changed","state":"idle"}"#);
    assert_eq!(play.done()[0].text.as_deref(), Some("aside\n\nanswer"));
}

#[test]
fn a_turn_waits_while_the_agent_starts() {
    let mut play = recorded("two-turns");
    play.start(turn(1)).command(Command::Interrupt(at(1)));
    assert_eq!(
        play.outcomes(),
        [&Outcome::Interrupted],
        "no prompt was sent, so the turn ends at once"
    );
    play.start(turn(2));
    play.until(is_done);
    assert_eq!(launches(&play).len(), 1);
    assert_eq!(play.written_with("\"user\"").len(), 1);
    assert_eq!(play.outcomes(), [&Outcome::Interrupted, &Outcome::Completed]);
}

#[test]
fn a_conversation_has_one_turn_at_a_time() {
    let mut play = recorded("two-turns");
    play.start(turn(1)).start(turn(2));
    assert_eq!(play.done()[0].turn, 2);
    assert!(matches!(play.outcomes()[0], Outcome::Failed(_)));
}

#[test]
fn a_message_is_steered_into_the_running_turn() {
    let play = scenarios::steered();
    let said = play.written_with("banana");
    assert_eq!(
        (&said[0]["priority"], &said[0]["uuid"]),
        (&"next".into(), &"11111111-2222-4333-8444-555555555555".into())
    );
    let injected = Steered { message: 1, outcome: SteerOutcome::Injected };
    assert!(play.actions.contains(&Action::Steered(injected)));
    assert_eq!(play.done().len(), 1);
    assert_eq!(play.done()[0].text.as_deref(), Some("plan finished"));
}

#[test]
fn a_message_that_cannot_be_steered_is_deferred() {
    let mut play = recorded("two-turns");
    let steered = |play: &crate::Conversation| {
        play.actions
            .iter()
            .rev()
            .find_map(|action| match action {
                Action::Steered(steered) => Some(steered.outcome),
                _ => None,
            })
            .unwrap()
    };
    play.start(turn(1)).command(Command::Steer(scenarios::steer()));
    assert_eq!(steered(&play), SteerOutcome::NotNow, "the agent starts");
    let mut stopping = recorded("two-turns");
    stopping.start(turn(1)).until_agent("\"assistant\"").command(Command::Interrupt(at(1)));
    stopping.command(Command::Steer(scenarios::steer()));
    assert_eq!(steered(&stopping), SteerOutcome::NotNow, "the turn is being interrupted");
    play.until_agent("\"type\":\"result\"").command(Command::Steer(scenarios::steer()));
    assert_eq!(steered(&play), SteerOutcome::NotNow, "the agent is about to become idle");
    play.until(is_done);
    play.command(Command::Steer(scenarios::steer()));
    assert_eq!(steered(&play), SteerOutcome::NotNow, "no turn");
    assert_eq!(play.written_with("banana").len(), 0);
}

#[test]
fn images_are_sent_as_blobs_and_other_files_as_paths() {
    let play = scenarios::image();
    let body = play
        .actions
        .iter()
        .find_map(|action| match action {
            Action::Write(Write { body, .. }) if body.len() > 1 => Some(body),
            _ => None,
        })
        .unwrap();
    assert_eq!(body[1], Chunk::Base64(7));
    let content = &play.written_with("\"user\"")[0]["message"]["content"];
    assert_eq!(content[0]["text"], "What is \"this\"?");
    assert_eq!(
        (&content[1]["source"]["media_type"], &content[1]["source"]["data"]),
        (&"image/png".into(), &"<base64 of 7>".into())
    );
    assert_eq!(
        content[2]["text"],
        "[Attached file: 8.bin (application/zip, 70 bytes) at /srv/files/8.bin]"
    );
    assert_eq!(
        content[3]["text"], "[Attached file: 9.bin (image/png, 4000000 bytes) at /srv/files/9.bin]",
        "more than the model accepts"
    );
    assert_eq!(
        content[4]["text"],
        "[Attached file: 10.bin (image/tiff, 70 bytes) at /srv/files/10.bin]"
    );
}

#[test]
fn a_session_is_resumed_or_forked_by_its_id() {
    let id = "862e10fe-e55e-460a-95ba-96b72a02aba3";
    let resumed = scenarios::resumed("resume", false);
    assert!(launches(&resumed)[0].windows(2).any(|pair| pair == ["--resume", id]));
    assert_eq!(ready(&resumed.actions)[0].native_id, id);
    let fork = scenarios::resumed("fork", true);
    assert!(launches(&fork)[0].contains(&"--fork-session".to_owned()));
    assert_ne!(ready(&fork.actions)[0].native_id, id);
    assert_eq!(notices(&fork.actions), [""; 0]);
    let lost = {
        let mut play = recorded("resume");
        play.start(StartTurn {
            native_id: Some("00000000-0000-4000-8000-000000000000".to_owned()),
            ..turn(1)
        })
        .finish();
        play
    };
    assert_eq!(
        notices(&lost.actions),
        ["Claude Code began a new session: the earlier conversation is lost"]
    );
}

#[test]
fn a_forked_session_continues_in_the_next_turn() {
    let mut play = recorded("fork");
    play.start(StartTurn {
        native_id: Some("862e10fe-e55e-460a-95ba-96b72a02aba3".to_owned()),
        fork: true,
        ..turn(1)
    });
    play.until(is_done);
    let id = ready(&play.actions)[0].native_id.clone();
    play.cut().start(StartTurn { native_id: Some(id), ..turn(2) });
    assert_eq!(launches(&play).len(), 1);
    assert_eq!(play.written_with("\"user\"").len(), 2);
}

#[test]
fn another_conversation_gets_another_process() {
    for session in [1, 2] {
        let mut play = recorded("two-turns");
        play.start(turn(1));
        play.until(is_done);
        let other = "0061b8a7-bf07-41ea-8307-9daebcb8137d".to_owned();
        play.cut().start(StartTurn { session, native_id: Some(other.clone()), ..turn(2) });
        assert!(play.actions.contains(&Action::CloseStdin(1)));
        play.exit(Exit::Code(0));
        assert!(launches(&play)[1].contains(&other));
    }
}

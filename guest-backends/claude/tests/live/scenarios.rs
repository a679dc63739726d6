//! The host's commands in each recorded conversation.

use aetheel_backend_sdk::fixture::is_done;
use aetheel_backend_sdk::wit::{
    Action, Attachment, Command, Decision, Exit, HostTool, Input, Mode, Part, Query, QueryKind,
    Safety, StartTurn, Steer, ToolResult,
};

use crate::{Conversation, at, decide, recorded, turn, with};

pub fn all() -> Vec<(&'static str, Conversation)> {
    let plain = ["retries", "turn-limit", "killed", "bad-line", "no-state-events"];
    let mut all: Vec<_> = plain.into_iter().map(|name| (name, single_turn(name))).collect();
    let more: [(_, fn() -> Conversation); 19] = [
        ("two-turns", two_turns),
        ("background-task", background_task),
        ("allow-once", || asked("allow-once", Decision::AllowOnce)),
        ("deny", || asked("deny", Decision::Deny(None))),
        ("deny-and-stop", || asked("deny-and-stop", Decision::DenyAndStop)),
        ("allow-always", allow_always),
        ("questions", questions),
        ("plan", plan),
        ("interrupt-text", interrupt_text),
        ("interrupt-tool", || interrupted("interrupt-tool")),
        ("interrupt-ask", || interrupted("interrupt-ask")),
        ("interrupt-at-once", interrupt_at_once),
        ("steer", steered),
        ("host-tool", host_tool),
        ("session-unknown", session_unknown),
        ("image", image),
        ("settings", settings),
        ("restart", restart),
        ("errors", errors),
    ];
    all.extend(more.into_iter().map(|(name, play)| (name, play())));
    all.extend([
        ("resume", resumed("resume", false)),
        ("fork", resumed("fork", true)),
        ("danger-and-back", danger_and_back()),
    ]);
    all.extend([("stdin-closed", stdin_closed()), ("sign-of-life", health_query())]);
    all
}

/// Plays a single turn.
pub fn single_turn(name: &str) -> Conversation {
    let mut play = recorded(name);
    play.start(turn(1)).finish();
    play
}

/// Plays consecutive turns. Each one starts after the end of the previous one.
fn consecutive_turns(name: &str, turns: impl IntoIterator<Item = StartTurn>) -> Conversation {
    let mut play = recorded(name);
    for turn in turns {
        play.start(turn);
        play.until(is_done);
    }
    play.finish();
    play
}

pub fn two_turns() -> Conversation {
    consecutive_turns("two-turns", [turn(1), turn(2)])
}

pub fn background_task() -> Conversation {
    consecutive_turns("background-task", [with(1, |settings| settings.safety = Safety::Danger)])
}

pub fn asked(name: &str, decision: Decision) -> Conversation {
    let mut play = recorded(name);
    play.start(turn(1));
    decide(&mut play, decision);
    play.finish();
    play
}

pub fn allow_always() -> Conversation {
    let mut play = recorded("allow-always");
    play.start(turn(1));
    decide(&mut play, Decision::AllowAlways);
    decide(&mut play, Decision::AllowAlways);
    play.finish();
    play
}

pub fn questions() -> Conversation {
    let mut play = recorded("questions");
    play.start(turn(1));
    let colours = ("0".to_owned(), vec!["Red".to_owned(), "Blue".to_owned()]);
    decide(
        &mut play,
        Decision::Answers(vec![colours, ("1".to_owned(), vec!["my own words".to_owned()])]),
    );
    decide(&mut play, Decision::Dismissed);
    play.finish();
    play
}

pub fn plan() -> Conversation {
    let mut play = recorded("plan");
    play.start(with(1, |settings| settings.mode = Mode::Plan));
    decide(&mut play, Decision::Deny(Some("ask first".to_owned())));
    decide(&mut play, Decision::AllowOnce);
    decide(&mut play, Decision::AllowOnce);
    play.finish();
    play
}

/// Interrupts the first turn at the recorded time.
pub fn interrupted(name: &str) -> Conversation {
    let mut play = recorded(name);
    play.start(with(1, |settings| {
        settings.safety = if name == "interrupt-tool" { Safety::Danger } else { Safety::Default }
    }));
    play.until_host("interrupt").command(Command::Interrupt(at(1)));
    play.until(is_done);
    play
}

pub fn interrupt_text() -> Conversation {
    let mut play = interrupted("interrupt-text");
    play.start(turn(2)).finish();
    play
}

pub fn interrupt_at_once() -> Conversation {
    let mut play = interrupted("interrupt-at-once");
    play.start(turn(2)).finish();
    play
}

pub fn steered() -> Conversation {
    let mut play = recorded("steer");
    play.start(with(1, |settings| settings.safety = Safety::Danger));
    play.until_host("11111111-2222").command(Command::Steer(steer()));
    play.finish();
    play
}

pub fn steer() -> Steer {
    Steer {
        session: 1,
        turn: 1,
        message: 1,
        parts: vec![Part::Text("please also say banana".to_owned())],
        fresh_id: "11111111-2222-4333-8444-555555555555".to_owned(),
    }
}

/// Returns a turn that offers a tool of the host.
pub fn with_tool(number: u32) -> StartTurn {
    let tool = HostTool {
        name: "remember".to_owned(),
        description: "Saves a text.".to_owned(),
        input_schema: r#"{"type":"object","properties":{"text":{"type":"string"}}}"#.to_owned(),
    };
    StartTurn { tools: vec![tool], ..turn(number) }
}

pub fn host_tool() -> Conversation {
    let mut play = recorded("host-tool");
    play.start(with_tool(1));
    play.until(|action| matches!(action, Action::ToolRequest(_)));
    let result = ToolResult { call: 1, text: "noted".to_owned(), failed: false };
    play.input(Input::ToolResult(result)).finish();
    play
}

pub fn session_unknown() -> Conversation {
    let mut play = recorded("session-unknown");
    play.start(StartTurn {
        native_id: Some("00000000-0000-4000-8000-000000000000".to_owned()),
        ..turn(1)
    })
    .finish();
    play
}

pub fn resumed(name: &str, fork: bool) -> Conversation {
    let native_id = Some("862e10fe-e55e-460a-95ba-96b72a02aba3".to_owned());
    consecutive_turns(name, [StartTurn { native_id, fork, ..turn(1) }])
}

pub fn image() -> Conversation {
    let file = |blob, media_type: &str, size| {
        let name = format!("{blob}.bin");
        Attachment {
            blob,
            path: format!("/srv/files/{name}"),
            name,
            media_type: media_type.to_owned(),
            size,
        }
    };
    let parts = vec![
        Part::Text("What is \"this\"?".to_owned()),
        Part::Image(file(7, "image/png", 70)),
        Part::File(file(8, "application/zip", 70)),
        Part::Image(file(9, "image/png", 4_000_000)),
        Part::Image(file(10, "image/tiff", 70)),
    ];
    consecutive_turns("image", [StartTurn { parts, ..turn(1) }])
}

pub fn settings() -> Conversation {
    let model = |name: &str| Some(name.to_owned());
    let second = with(2, |settings| {
        settings.model = model("claude-opus-4-5");
        settings.effort = Some("low".to_owned());
        settings.mode = Mode::Plan;
    });
    let sonnet = |number| with(number, |settings| settings.model = model("claude-sonnet-4-5"));
    consecutive_turns("settings", [sonnet(1), second, sonnet(3)])
}

pub fn danger_and_back() -> Conversation {
    let danger = |number| with(number, |settings| settings.safety = Safety::Danger);
    let mut play = recorded("danger-and-back");
    play.start(danger(1));
    play.until(is_done);
    play.start(turn(2));
    decide(&mut play, Decision::Deny(None));
    play.until(is_done);
    play.start(danger(3)).finish();
    play
}

/// Changes the system prompt before the second turn, and keeps it for the third.
pub fn restart() -> Conversation {
    let prompted = |number, prompt: &str| {
        with(number, |settings| settings.system_prompt = Some(prompt.to_owned()))
    };
    let mut play = recorded("restart");
    play.start(prompted(1, "Speak plainly."));
    decide(&mut play, Decision::AllowAlways);
    play.until(is_done);
    play.start(prompted(2, "Speak in rhyme."));
    play.until(is_done);
    play.start(prompted(3, "Speak in rhyme.")).finish();
    play
}

pub fn errors() -> Conversation {
    consecutive_turns("errors", (1..=5).map(turn))
}

/// Shuts the link down while the agent still prints.
pub fn stdin_closed() -> Conversation {
    let mut play = recorded("stdin-closed");
    play.start(with(1, |settings| settings.safety = Safety::Danger));
    play.until(|action| matches!(action, Action::Event(_)));
    play.command(Command::Shutdown).finish();
    play
}

/// Queries the health of the agent before it runs, and while it works.
pub fn health_query() -> Conversation {
    let health = |query| Command::Query(Query { query, session: None, kind: QueryKind::Health });
    let mut play = recorded("sign-of-life");
    play.command(health(1)).until_agent("control_response").exit(Exit::Code(0));
    play.start(turn(1)).say(HANDSHAKE).until_host("mcp_status").command(health(2)).finish();
    play
}

/// The handshake of the second process in `sign-of-life`, which is not recorded.
const HANDSHAKE: &str = r#"{"type":"control_response","response":{"subtype":"success","request_id":"2-1","response":{"models":[]}}}"#;

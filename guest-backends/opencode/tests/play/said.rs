//! Functions for tests of dialogues: they replay recordings with their commands, send single
//! events, and select from the resulting actions.
#![allow(clippy::unwrap_used, dead_code, reason = "every test file uses some of it")]

use aetheel_backend_sdk::fixture;
use aetheel_backend_sdk::wit::{
    Command, Decision, FailureKind, Mode, Outcome, Part, Query, QueryKind, QueryResult, Safety,
    Settings, StartTurn, Steer, ToolStatus, TurnRef, Unrecognised,
};
use serde_json::{Value, json};

use super::{Play, turn};

pub fn at(level: Safety, start: StartTurn) -> StartTurn {
    StartTurn { settings: Settings { safety: level, ..start.settings.clone() }, ..start }
}

pub fn plain(number: u32) -> StartTurn {
    at(Safety::Default, turn(number, "hi"))
}

pub fn interrupt(play: &mut Play, turn: u32) -> &mut Play {
    play.command(Command::Interrupt(TurnRef { session: 1, turn }))
}

pub fn query(play: &mut Play, query: u32, kind: QueryKind) -> &mut Play {
    play.command(Command::Query(Query { query, session: Some(1), kind }))
}

pub fn answers(play: &Play) -> Vec<&QueryResult> {
    fixture::answers(&play.actions)
}

pub fn failures(play: &Play) -> Vec<FailureKind> {
    let kind = |outcome: &&Outcome| match outcome {
        Outcome::Failed(failure) | Outcome::Lost(failure) => failure.kind,
        other => panic!("{other:?}"),
    };
    play.outcomes().iter().map(kind).collect()
}

/// Returns the texts that users see, by parts: of the answer, or of the thinking.
pub fn shown(play: &Play, thinking: bool) -> Vec<String> {
    if thinking { fixture::thoughts(&play.actions) } else { fixture::shown(&play.actions) }
}

pub fn ends(play: &Play) -> Vec<(ToolStatus, &str)> {
    let ends = fixture::ends(&play.actions).into_iter();
    ends.map(|(status, output, _)| (status, output)).collect()
}

pub fn unrecognised(play: &Play) -> Vec<&Unrecognised> {
    fixture::unrecognised(&play.actions)
}

pub fn session(id: &str) -> String {
    json!({"id": id, "title": "New session - now"}).to_string()
}

/// Returns a server with a session whose first turn was prompted.
pub fn prompted(start: StartTurn) -> Play {
    let mut play = Play::server();
    play.start(start).finish().answer("POST /session", 200, &session("ses_1")).answer(
        "prompt_async",
        204,
        "",
    );
    play
}

/// Sends a complete part in its own message of the agent.
pub fn says<'a>(play: &'a mut Play, message: &str, part: Value) -> &'a mut Play {
    let parent = format!("msg_of_user_{}", play.done().len());
    play.tell("message.updated", json!({"sessionID": "ses_1", "info": {"id": message, "role": "assistant", "parentID": parent}}));
    let mut part = part;
    part["messageID"] = json!(message);
    play.tell("message.part.updated", json!({"sessionID": "ses_1", "part": part}))
}

pub fn busy(play: &mut Play) -> &mut Play {
    let id = format!("msg_of_user_{}", play.done().len());
    play.tell("message.updated", json!({"sessionID": "ses_1", "info": {"id": id, "role": "user"}}));
    play.tell("session.status", json!({"sessionID": "ses_1", "status": {"type": "busy"}}))
}

pub fn idle(play: &mut Play) -> &mut Play {
    play.tell("session.status", json!({"sessionID": "ses_1", "status": {"type": "idle"}}));
    play.tell("session.idle", json!({"sessionID": "ses_1"}))
}

/// Plays the commands that a recording was made with, turn by turn.
pub fn recorded(name: &str) -> Play {
    let mut play = Play::load(name);
    let decide = |play: &mut Play, decision: Decision| {
        let ask = play.asks().last().unwrap().ask;
        play.answer_ask(ask, decision);
    };
    match name {
        "hello" => {
            play.start(turn(1, "one")).until_request("prompt_async").until_request("prompt_async");
            let settings = Settings {
                mode: Mode::Plan,
                effort: Some("high".to_owned()),
                ..turn(2, "").settings
            };
            play.start(StartTurn { settings, ..turn(2, "two") });
        }
        "permission-once" => {
            play.start(plain(1)).until("permission.asked");
            decide(&mut play, Decision::AllowOnce);
            play.until("permission.asked");
            decide(&mut play, Decision::AllowOnce);
        }
        "permission-always" => {
            play.start(plain(1)).until("permission.asked");
            decide(&mut play, Decision::AllowAlways);
        }
        "permission-edit" => {
            play.start(plain(1)).until("permission.asked");
            decide(&mut play, Decision::AllowOnce);
        }
        "permission-reject" => {
            play.start(plain(1)).until("permission.asked");
            decide(&mut play, Decision::DenyAndStop);
        }
        "permission-reject-message" => {
            play.start(plain(1)).until("permission.asked");
            decide(&mut play, Decision::Deny(Some("Use another file name please.".to_owned())));
        }
        "question" => {
            play.start(turn(1, "one")).until("question.asked");
            decide(&mut play, Decision::Answers(vec![("0".to_owned(), vec!["Blue".to_owned()])]));
        }
        "interrupt-text" => {
            play.start(turn(1, "one")).until_request("abort");
            interrupt(&mut play, 1).until_request("prompt_async").start(turn(2, "two"));
        }
        "interrupt-tool" | "interrupt-permission" => {
            play.start(plain(1)).until_request("abort");
            interrupt(&mut play, 1);
        }
        "errors" => {
            play.start(turn(1, "one"))
                .until_request("prompt_async")
                .until("session.idle")
                .until_request("prompt_async");
            let settings = Settings { model: Some("nope/nope".to_owned()), ..turn(2, "").settings };
            play.start(StartTurn { settings, ..turn(2, "two") });
        }
        "two-sessions" => {
            play.start(StartTurn { session: 1, ..turn(1, "one") }).until("server.connected");
            play.start(StartTurn { session: 2, cwd: "/srv/other".to_owned(), ..turn(2, "two") });
        }
        "resume-fork" => {
            play.start(StartTurn {
                native_id: Some("ses_e00199e71ffeVhPfn6SHYhpJ8W".to_owned()),
                ..turn(1, "one")
            });
            play.until_request("/fork");
            let copy = StartTurn {
                native_id: Some("ses_e00199e71ffeVhPfn6SHYhpJ8W".to_owned()),
                fork: true,
                ..turn(1, "two")
            };
            play.start(StartTurn { session: 2, ..copy });
        }
        "question-reject-sub-agent-interrupt" => {
            play.start(plain(1)).until("question.asked");
            decide(&mut play, Decision::DenyAndStop);
            play.until_request("prompt_async").start(plain(2)).until_request("abort");
            interrupt(&mut play, 2).until_request("summarize");
            query(&mut play, 1, QueryKind::Compact);
        }
        "steer" => {
            play.start(turn(1, "one")).until_request("prompt_async").until_request("prompt_async");
            let parts = vec![Part::Text("please also say banana".to_owned())];
            let steer = Steer { session: 1, turn: 1, message: 7, parts, fresh_id: String::new() };
            play.command(Command::Steer(steer));
        }
        _ => drop(play.start(turn(1, "one"))),
    }
    play.finish().elapse(5000.0);
    play
}

pub const RECORDED: [&str; 21] = [
    "errors",
    "hello",
    "image",
    "interrupt-permission",
    "interrupt-text",
    "interrupt-tool",
    "killed",
    "overflow",
    "permission-always",
    "permission-edit",
    "permission-once",
    "permission-reject",
    "permission-reject-message",
    "question",
    "question-reject-sub-agent-interrupt",
    "resume-fork",
    "retry",
    "steer",
    "sub-agent",
    "tools",
    "two-sessions",
];

pub fn asked(play: &mut Play, id: &str, permission: &str) {
    let tool = json!({"messageID": "msg_1", "callID": "call_1"});
    let request = json!({"id": id, "sessionID": "ses_1", "permission": permission, "patterns": ["touch a"], "always": ["touch *"], "metadata": {}, "tool": tool});
    play.tell("permission.asked", request);
}

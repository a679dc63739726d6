//! Scripted behaviour that no recorded agent showed, or not in that order.
#![allow(clippy::unwrap_used, reason = "a panic reports the failure")]

mod support;

use acp::Backend;
use aetheel_backend_sdk::dialogue::{Play, json_rpc};
use aetheel_backend_sdk::fixture::{
    asks, events, host_tool, is_done, notices, tool_ends, tool_starts, unrecognised,
};
use aetheel_backend_sdk::wit::{
    Action, AskKind, Command, Decision, Exit, FailureKind, Input, Mode, Outcome, QueryKind,
    QueryResult, Safety, SpawnFailed, StartTurn, ToolStatus, TurnRef,
};
use support::{SESSION, answer, failure, next, query, turn, with_modes};

/// An agent whose output is scripted line by line.
struct Agent(Play<Backend>);

impl Agent {
    /// Plays up to and including the answer to `initialize`.
    fn greeted(start: aetheel_backend_sdk::wit::StartTurn, abilities: &str) -> Self {
        let mut play = Play::of("", json_rpc);
        play.start(start);
        let mut agent = Self(play);
        agent.answers(
            "initialize",
            &format!(
                r#"{{"protocolVersion":1,"agentInfo":{{"name":"toy","version":"1"}},{abilities}}}"#
            ),
        );
        agent
    }

    /// Plays up to a session that is ready for its prompt.
    fn opened(start: aetheel_backend_sdk::wit::StartTurn, abilities: &str, session: &str) -> Self {
        let mut agent = Self::greeted(start, abilities);
        agent.answers("session/new", &format!(r#"{{"sessionId":"s1"{session}}}"#));
        agent
    }

    fn answers(&mut self, method: &str, result: &str) -> &mut Self {
        let id = self
            .0
            .id_of(method)
            .unwrap_or_else(|| panic!("{method} was not asked: {:?}", self.0.written));
        self.0.say(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#));
        self
    }

    fn refuses(&mut self, method: &str, code: i32, message: &str) -> &mut Self {
        let id = self
            .0
            .id_of(method)
            .unwrap_or_else(|| panic!("{method} was not asked: {:?}", self.0.written));
        self.0.say(&format!(
            r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":"{message}"}}}}"#
        ));
        self
    }

    fn updates(&mut self, update: &str) -> &mut Self {
        self.0.say(&format!(r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"s1","update":{update}}}}}"#));
        self
    }

    fn asks(&mut self, id: &str, method: &str, params: &str) -> &mut Self {
        self.0.say(&format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#
        ));
        self
    }

    fn last(&self) -> serde_json::Value {
        serde_json::from_str(self.0.written.last().unwrap()).unwrap()
    }

    fn outcome(&self) -> &Outcome {
        self.0.outcomes().pop().expect("a turn ended")
    }
}

const NOTHING: &str = r#""agentCapabilities":{}"#;
const MODES: &str = r#","modes":{"currentModeId":"ask","availableModes":[{"id":"ask","name":"Ask"},{"id":"yolo","name":"All"},{"id":"plan","name":"Plan"}]}"#;

#[test]
fn always_is_offered_only_if_it_can_be_revoked() {
    let options = r#"[{"optionId":"a","kind":"allow_once","name":"Yes"},{"optionId":"b","kind":"allow_always","name":"Always"}]"#;
    let params = format!(
        r#"{{"sessionId":"s1","toolCall":{{"toolCallId":"t","title":"ls"}},"options":{options}}}"#
    );
    for (abilities, offered) in
        [(NOTHING, None), (r#""agentCapabilities":{"loadSession":true}"#, Some("Always"))]
    {
        let mut agent = Agent::opened(turn(1), abilities, "");
        agent.asks("7", "session/request_permission", &params);
        let Some(Action::Ask(ask)) = agent.0.actions.last() else {
            panic!("{:?}", agent.0.actions)
        };
        assert_eq!(ask.always_label.as_deref(), offered, "{abilities}");
    }
}

#[test]
fn each_level_selects_its_mode_and_a_lower_level_is_restored() {
    let mut start = turn(1);
    start.settings.safety = Safety::Danger;
    let mut agent = Agent::opened(start, NOTHING, MODES);
    assert_eq!(agent.last()["params"], serde_json::json!({"sessionId": "s1", "modeId": "yolo"}));
    agent
        .answers("session/set_mode", "{}")
        .answers("session/prompt", r#"{"stopReason":"end_turn"}"#);
    let second = next(&agent.0, 2);
    agent.0.start(second);
    assert_eq!(agent.last()["params"]["modeId"], "ask");
    agent.refuses("session/set_mode", -32602, "no");
    assert_eq!(
        failure(agent.outcome()).kind,
        FailureKind::Unsupported,
        "a lower level is never ignored"
    );
    let mut third = next(&agent.0, 3);
    third.settings.mode = Mode::Plan;
    agent.0.start(third);
    assert_eq!(agent.last()["params"]["modeId"], "plan");
}

#[test]
fn requests_of_an_agent_that_keeps_its_mode_are_granted_if_everything_is_allowed() {
    let mut start = turn(1);
    start.settings.safety = Safety::Danger;
    let mut agent = Agent::opened(start, NOTHING, MODES);
    agent.refuses("session/set_mode", -32602, "modes cannot be changed");
    assert!(agent.0.id_of("session/prompt").is_some());
    let options = r#"[{"optionId":"y","kind":"allow_once","name":"Yes"}]"#;
    agent.asks(
        "5",
        "session/request_permission",
        &format!(r#"{{"sessionId":"s1","toolCall":{{"toolCallId":"t"}},"options":{options}}}"#),
    );
    assert_eq!(agent.last()["result"]["outcome"]["optionId"], "y");
}

#[test]
fn a_mode_of_the_profile_is_used_unchanged() {
    let agent = Agent::opened(with_modes(turn(1), r#"{"default":"careful"}"#), NOTHING, MODES);
    assert_eq!(agent.last()["params"]["modeId"], "careful");
}

#[test]
fn planning_fails_if_the_agent_has_no_mode_for_it() {
    let mut start = turn(1);
    start.settings.mode = Mode::Plan;
    let agent = Agent::opened(start, NOTHING, "");
    assert_eq!(failure(agent.outcome()).kind, FailureKind::Unsupported);
    assert!(agent.0.id_of("session/prompt").is_none());
}

#[test]
fn an_unknown_model_fails_the_turn_and_the_default_model_is_restored() {
    let models = r#","models":{"currentModelId":"a","availableModels":[{"modelId":"a","name":"A"},{"modelId":"b","name":"B"}]}"#;
    let mut start = turn(1);
    start.settings.model = Some("b".to_owned());
    let mut agent = Agent::opened(start, NOTHING, models);
    assert_eq!(agent.last()["params"]["modelId"], "b");
    agent
        .answers("session/set_model", "{}")
        .answers("session/prompt", r#"{"stopReason":"end_turn"}"#);
    let second = next(&agent.0, 2);
    agent.0.start(second);
    assert_eq!(agent.last()["params"]["modelId"], "a", "the agent's default model is restored");
    agent
        .answers("session/set_model", "null")
        .answers("session/prompt", r#"{"stopReason":"end_turn"}"#);
    let mut third = next(&agent.0, 3);
    third.settings.model = Some("c".to_owned());
    agent.0.start(third);
    agent.refuses("session/set_model", -32602, "unknown model");
    assert_eq!(failure(agent.outcome()).kind, FailureKind::ModelNotFound);
    agent.0.command(query(9, QueryKind::Models));
    assert!(
        matches!(agent.0.actions.last(), Some(Action::QueryAnswer(told)) if matches!(&told.answer, QueryResult::Models(models) if models.len() == 2))
    );
}

#[test]
fn the_system_prompt_precedes_the_first_prompt_and_is_repeated_only_after_a_change() {
    let prompted = |start| {
        let mut agent = Agent::opened(turn(1), NOTHING, "");
        agent.answers("session/prompt", r#"{"stopReason":"end_turn"}"#);
        let id = next(&agent.0, 2).native_id;
        agent.0.start(aetheel_backend_sdk::wit::StartTurn { native_id: id, ..start });
        agent
    };
    let with = |number, text: &str| {
        let mut start = turn(number);
        start.settings.system_prompt = Some(text.to_owned());
        start
    };
    let mut agent = prompted(with(2, "Be kind."));
    assert!(
        agent.last()["params"]["prompt"][0]["text"]
            .as_str()
            .unwrap()
            .starts_with("<system-prompt>\nBe kind.\n</system-prompt>")
    );
    assert_eq!(agent.last()["params"]["prompt"][1]["text"], "hello");
    for (number, text, blocks) in [(3, "Be kind.", 1), (4, "Be brief.", 2), (5, "", 1)] {
        agent.answers("session/prompt", r#"{"stopReason":"end_turn"}"#);
        let mut start = with(number, text);
        start.native_id = next(&agent.0, number).native_id;
        agent.0.start(start);
        assert_eq!(
            agent.last()["params"]["prompt"].as_array().unwrap().len(),
            blocks,
            "turn {number}"
        );
    }
}

#[test]
fn the_system_prompt_is_sent_in_the_field_that_the_agent_supports() {
    let mut start = turn(1);
    start.settings.system_prompt = Some("Be kind.".to_owned());
    let mut agent = Agent::greeted(
        start.clone(),
        r#""agentCapabilities":{"sessionCapabilities":{"systemPrompt":{}}}"#,
    );
    assert_eq!(
        agent.last()["params"]["systemPrompt"],
        serde_json::json!({"mode": "append", "content": [{"type": "text", "text": "Be kind."}]})
    );
    agent.answers("session/new", r#"{"sessionId":"s1"}"#);
    assert_eq!(agent.last()["params"]["prompt"].as_array().unwrap().len(), 1);
    start.settings.options = r#"{"program":"acp-agent","system-prompt":"meta"}"#.to_owned();
    let agent = Agent::greeted(start.clone(), NOTHING);
    assert_eq!(agent.last()["params"]["_meta"]["systemPrompt"]["append"], "Be kind.");
    start.settings.options = r#"{"program":"acp-agent","system-prompt":"none"}"#.to_owned();
    let agent = Agent::opened(start, NOTHING, "");
    assert_eq!(agent.last()["params"]["prompt"].as_array().unwrap().len(), 1);
}

#[test]
fn authentication_is_tried_once_as_configured_and_otherwise_fails_with_instructions() {
    let methods = r#""agentCapabilities":{},"authMethods":[{"id":"oauth","name":"Log in"},{"id":"api-key","name":"API key"}]"#;
    let mut start = turn(1);
    let mut agent = Agent::greeted(start.clone(), methods);
    agent.refuses("session/new", -32000, "Authentication required");
    let failed = failure(agent.outcome());
    assert_eq!(failed.kind, FailureKind::Authentication);
    assert!(
        failed.message.contains("Authentication required")
            && failed.message.contains("Log in, API key"),
        "{}",
        failed.message
    );
    assert!(
        agent.0.id_of("authenticate").is_none(),
        "the agent could discard its existing sign-in"
    );
    start.settings.options = r#"{"program":"acp-agent","sign-in":"api-key"}"#.to_owned();
    let mut agent = Agent::greeted(start, methods);
    agent.refuses("session/new", -32000, "Authentication required");
    assert_eq!(agent.last()["params"]["methodId"], "api-key");
    agent.answers("authenticate", "{}");
    assert_eq!(agent.0.written_with("session/new").len(), 2);
    agent.refuses("session/new", -32000, "Authentication required");
    assert_eq!(failure(agent.outcome()).kind, FailureKind::Authentication);
}

#[test]
fn sessions_that_are_missing_or_unsupported_are_reported_as_unknown() {
    let mut start = turn(1);
    start.native_id = Some("gone".to_owned());
    let mut agent = Agent::greeted(start.clone(), r#""agentCapabilities":{"loadSession":true}"#);
    agent.refuses("session/load", -32002, "Resource not found: gone");
    assert_eq!(failure(agent.outcome()).kind, FailureKind::SessionUnknown);
    agent.0.start(turn(2));
    assert!(agent.0.id_of("session/new").is_some(), "the next turn starts a new session");
    let agent = Agent::greeted(start, NOTHING);
    assert_eq!(failure(agent.outcome()).kind, FailureKind::SessionUnknown);
}

#[test]
fn resuming_falls_back_to_loading() {
    let mut start = turn(1);
    start.native_id = Some("s1".to_owned());
    let mut agent = Agent::greeted(
        start,
        r#""agentCapabilities":{"loadSession":true,"sessionCapabilities":{"resume":{}}}"#,
    );
    agent.refuses("session/resume", -32601, "Method not found");
    agent.answers("session/load", "null");
    assert!(agent.0.id_of("session/prompt").is_none(), "the history may follow");
    agent.updates(
        r#"{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"old"}}"#,
    );
    agent.0.elapse(300.0);
    assert!(agent.0.id_of("session/prompt").is_none(), "the history arrived");
    agent.0.elapse(300.0);
    agent.answers("session/prompt", r#"{"stopReason":"end_turn"}"#);
    assert_eq!((agent.outcome(), events(&agent.0.actions).count()), (&Outcome::Completed, 0));
}

#[test]
fn every_stop_reason_has_an_outcome() {
    for (reason, outcome) in [
        ("end_turn", "completed"),
        ("cancelled", "interrupted"),
        ("max_tokens", "limit"),
        ("max_turn_requests", "limit"),
        ("refusal", "refused"),
        ("because", "completed"),
    ] {
        let mut agent = Agent::opened(turn(1), NOTHING, "");
        agent.answers("session/prompt", &format!(r#"{{"stopReason":"{reason}"}}"#));
        let word = match agent.outcome() {
            Outcome::Completed => "completed",
            Outcome::Interrupted => "interrupted",
            Outcome::Limit(_) => "limit",
            Outcome::Failed(failure) if failure.kind == FailureKind::Refused => "refused",
            other => panic!("{other:?}"),
        };
        assert_eq!(word, outcome);
        assert_eq!(!unrecognised(&agent.0.actions).is_empty(), reason == "because");
    }
}

#[test]
fn requests_other_than_permissions_are_refused_as_unknown_methods() {
    let mut agent = Agent::opened(turn(1), NOTHING, "");
    for (id, method) in [("7", "fs/read_text_file"), ("\"x\"", "terminal/create")] {
        agent.asks(id, method, r#"{"sessionId":"s1"}"#);
        assert_eq!(agent.last()["error"]["code"], -32601);
        assert_eq!(agent.last()["id"].to_string(), id);
    }
}

#[test]
fn unknown_output_is_reported_and_extensions_are_ignored() {
    let mut agent = Agent::opened(turn(1), NOTHING, "");
    agent
        .updates(r#"{"sessionUpdate":"state_update","state":"running"}"#)
        .updates(r#"{"sessionUpdate":"available_commands_update"}"#);
    agent.0.say(r#"{"jsonrpc":"2.0","method":"_vendor/news","params":{}}"#);
    agent
        .0
        .say(r#"{"jsonrpc":"2.0","method":"session/news","params":{"sessionId":"s1"}}"#)
        .say("Loading …")
        .say(r#"{"id":99,"result":{}}"#);
    let told: Vec<_> =
        unrecognised(&agent.0.actions).into_iter().map(|unknown| unknown.what.clone()).collect();
    assert_eq!(
        told,
        [
            "session update \"state_update\"",
            "notification \"session/news\"",
            "line that is not a JSON object",
            "answer without a request",
        ]
    );
}

#[test]
fn updates_without_a_turn_are_ignored_and_requests_are_cancelled() {
    let mut agent = Agent::opened(turn(1), NOTHING, "");
    agent.answers("session/prompt", r#"{"stopReason":"end_turn"}"#);
    let before = agent.0.actions.len();
    agent.updates(
        r#"{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"late"}}"#,
    );
    agent.answers("session/prompt", r#"{"stopReason":"end_turn"}"#);
    assert!(
        !agent.0.actions[before..]
            .iter()
            .any(|action| matches!(action, Action::Event(_) | Action::TurnDone(_)))
    );
    agent.asks(
        "3",
        "session/request_permission",
        r#"{"sessionId":"s1","toolCall":{"toolCallId":"t"},"options":[]}"#,
    );
    assert_eq!(agent.last()["result"]["outcome"]["outcome"], "cancelled");
}

#[test]
fn a_question_that_is_open_at_the_end_of_the_turn_is_cancelled() {
    let mut agent = Agent::opened(turn(1), NOTHING, "");
    let options = r#"[{"optionId":"y","kind":"allow_once","name":"Yes"}]"#;
    agent.asks(
        "5",
        "session/request_permission",
        &format!(r#"{{"sessionId":"s1","toolCall":{{"toolCallId":"t"}},"options":{options}}}"#),
    );
    agent.answers("session/prompt", r#"{"stopReason":"end_turn"}"#);
    assert_eq!(agent.0.written_with("\"id\":5,")[0]["result"]["outcome"]["outcome"], "cancelled");
    let before = agent.0.written.len();
    answer(&mut agent.0, 1, Decision::AllowOnce);
    assert_eq!(agent.0.written.len(), before);
}

#[test]
fn arguments_that_are_sent_as_text_are_read_from_permission_requests_but_not_from_output() {
    let mut agent = Agent::opened(turn(1), NOTHING, "");
    let call = |status: &str| {
        let text = r#"{\"where\":\"/etc/x\",\"n\":3}"#;
        let content =
            format!(r#"[{{"type":"content","content":{{"type":"text","text":"{text}"}}}}]"#);
        format!(
            r#"{{"toolCallId":"mcp_srv_put__1","status":"{status}","title":"put (srv MCP Server)","kind":"other","content":{content}}}"#
        )
    };
    agent.asks(
        "5",
        "session/request_permission",
        &format!(r#"{{"sessionId":"s1","toolCall":{},"options":[]}}"#, call("pending")),
    );
    let Some(Action::Ask(ask)) = agent.0.actions.last() else {
        panic!("{:?}", agent.0.actions.last())
    };
    let AskKind::Permission(start) = &ask.kind else { panic!("{ask:?}") };
    let input: serde_json::Value = serde_json::from_str(&start.input).unwrap();
    assert_eq!(
        (start.kind.as_str(), input),
        ("mcp", serde_json::json!({"where": "/etc/x", "n": 3}))
    );

    let mut agent = Agent::opened(turn(1), NOTHING, "");
    agent.updates(&call("completed").replacen('{', r#"{"sessionUpdate":"tool_call_update","#, 1));
    assert!(tool_starts(&agent.0.actions).iter().all(|start| start.input == "{}"));
}

#[test]
fn a_command_whose_only_text_is_its_exit_code_failed() {
    for (text, status, code) in [
        ("Command exited with code: 3", ToolStatus::Failed, Some(3)),
        ("Command exited with code: 0", ToolStatus::Ok, None),
        ("echo: Command exited with code: 3", ToolStatus::Ok, None),
    ] {
        let mut agent = Agent::opened(turn(1), NOTHING, "");
        let content =
            format!(r#"[{{"type":"content","content":{{"type":"text","text":"{text}"}}}}]"#);
        let of = r#""toolCallId":"run_shell_command__1","title":"exit 3","kind":"execute""#;
        agent.updates(&format!(r#"{{"sessionUpdate":"tool_call",{of},"status":"in_progress"}}"#));
        agent.updates(&format!(r#"{{"sessionUpdate":"tool_call_update",{of},"status":"completed","content":{content}}}"#));
        let end = tool_ends(&agent.0.actions)[0];
        assert_eq!((end.status, end.exit_code), (status, code), "{text}");
    }
}

#[test]
fn a_request_to_leave_the_plan_mode_asks_for_the_approval_of_the_plan() {
    let mut agent = Agent::opened(turn(1), NOTHING, "");
    let call = r##"{"toolCallId":"t","kind":"switch_mode","title":"Ready to code?","rawInput":{"plan":"# Plan"}}"##;
    agent.asks(
        "5",
        "session/request_permission",
        &format!(r#"{{"sessionId":"s1","toolCall":{call},"options":[]}}"#),
    );
    let Some(Action::Ask(ask)) = agent.0.actions.last() else {
        panic!("{:?}", agent.0.actions.last())
    };
    assert!(
        matches!(&ask.kind, aetheel_backend_sdk::wit::AskKind::PlanApproval(plan) if plan == "# Plan")
    );
}

#[test]
fn an_unsupported_protocol_version_or_a_missing_program_fails_the_turn() {
    let mut play = Play::<Backend>::of("", json_rpc);
    play.start(turn(1)).say(r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":2}}"#);
    assert_eq!(failure(play.outcomes()[0]).kind, FailureKind::Protocol);
    assert!(play.actions.contains(&Action::CloseStdin(1)), "the agent is shut down");
    let mut play = Play::<Backend>::of("", json_rpc);
    play.start(turn(1)).input(Input::SpawnFailed(SpawnFailed {
        proc: 1,
        message: "no such program".into(),
        not_found: true,
    }));
    assert_eq!(failure(play.outcomes()[0]).kind, FailureKind::NotFound);
    let mut play = Play::<Backend>::of("", json_rpc);
    let mut nameless = turn(1);
    nameless.settings.options = "{}".to_owned();
    play.start(nameless);
    assert!(failure(play.outcomes()[0]).message.contains("names no program"));
}

#[test]
fn a_health_query_starts_a_known_agent_and_unsupported_queries_fail() {
    let mut play = Play::<Backend>::of("", json_rpc);
    play.command(query(1, QueryKind::Health));
    assert!(
        matches!(&play.actions[0], Action::QueryAnswer(told) if matches!(&told.answer, QueryResult::Failed(failure) if failure.kind == FailureKind::Unsupported))
    );
    let mut agent = Agent::opened(turn(1), NOTHING, "");
    agent.answers("session/prompt", r#"{"stopReason":"end_turn"}"#);
    agent.0.command(query(2, QueryKind::Health));
    assert!(
        matches!(agent.0.actions.last(), Some(Action::QueryAnswer(told)) if told.answer == QueryResult::Health("toy 1 answers".into()))
    );
    for kind in [QueryKind::Compact, QueryKind::Sessions] {
        agent.0.command(query(3, kind));
        assert!(
            matches!(agent.0.actions.last(), Some(Action::QueryAnswer(told)) if matches!(&told.answer, QueryResult::Failed(_)))
        );
    }
    agent.0.exit(Exit::Code(0)).command(query(4, QueryKind::Health));
    assert!(
        matches!(agent.0.actions.iter().rev().find(|action| matches!(action, Action::Spawn(_))), Some(Action::Spawn(spawn)) if spawn.proc == 2 && spawn.session.is_none())
    );
    agent.0.say(
        r#"{"jsonrpc":"2.0","id":4,"result":{"protocolVersion":1,"agentInfo":{"title":"Toy"}}}"#,
    );
    assert!(
        matches!(agent.0.actions.last(), Some(Action::QueryAnswer(told)) if told.answer == QueryResult::Health("Toy answers".into()))
    );
}

#[test]
fn a_one_shot_agent_is_shut_down_after_its_turn() {
    let mut start = turn(1);
    start.one_shot = true;
    let mut agent = Agent::opened(start, NOTHING, "");
    agent.answers("session/prompt", r#"{"stopReason":"end_turn"}"#);
    let done = agent.0.actions.iter().position(is_done).unwrap();
    assert!(matches!(agent.0.actions[done + 1..], [Action::CloseStdin(1), Action::SetTimer(_)]));
    agent.0.exit(Exit::Code(0));
    assert_eq!(agent.0.done().len(), 1);
}

#[test]
fn a_turn_during_the_shutdown_starts_a_new_process_and_resumes_the_session() {
    let mut agent = Agent::opened(turn(1), NOTHING, "");
    agent.answers("session/prompt", r#"{"stopReason":"end_turn"}"#);
    let second = next(&agent.0, 2);
    agent.0.command(Command::Shutdown).start(second);
    assert!(matches!(agent.0.actions.last(), Some(Action::Spawn(spawn)) if spawn.proc == 2));
    // The first process exits before the second one is used.
    agent.0.exit(Exit::Code(0));
    assert_eq!(agent.0.done().len(), 1);
    agent
        .answers("initialize", r#"{"protocolVersion":1,"agentCapabilities":{"loadSession":true}}"#);
    assert_eq!(agent.last()["params"]["sessionId"], "s1");
}

#[test]
fn an_interrupted_turn_ends_as_interrupted_if_the_agent_crashes() {
    let mut agent = Agent::opened(turn(1), NOTHING, "");
    agent
        .0
        .command(Command::Interrupt(TurnRef { session: SESSION, turn: 1 }))
        .exit(Exit::Signal(9));
    assert_eq!(agent.outcome(), &Outcome::Interrupted);
}

const CLAUDE_MODES: &str = r#","modes":{"currentModeId":"bypassPermissions","availableModes":[{"id":"default","name":"Default"},
    {"id":"acceptEdits","name":"Accept"},{"id":"plan","name":"Plan Mode"},{"id":"bypassPermissions","name":"Bypass"}]}"#;
const OPTIONS: &str = r#"[{"optionId":"always","kind":"allow_always","name":"Yes, and bypass permissions"},
    {"optionId":"yes","kind":"allow_once","name":"Yes"},{"optionId":"no","kind":"reject_once","name":"No"}]"#;

/// Starts a turn that plans, with an agent that may bypass permissions. `modes` are those of the
/// profile.
fn planning(modes: &str, session: &str) -> Agent {
    let mut start = with_modes(turn(1), modes);
    start.settings.mode = Mode::Plan;
    start.settings.safety = Safety::Danger;
    let mut agent = Agent::opened(start, r#""agentCapabilities":{"loadSession":true}"#, session);
    if agent.0.id_of("session/set_mode").is_some() {
        agent.answers("session/set_mode", "{}");
    }
    agent
}

fn wants(agent: &mut Agent, id: &str, call: &str) {
    agent.asks(
        id,
        "session/request_permission",
        &format!(r#"{{"sessionId":"s1","toolCall":{call},"options":{OPTIONS}}}"#),
    );
}

#[test]
fn an_agent_that_may_bypass_permissions_always_plans_in_its_asking_mode() {
    for modes in [r#"{"plan":"plan"}"#, r#"{"plan":"default"}"#, "{}"] {
        let agent = planning(modes, CLAUDE_MODES);
        assert_eq!(
            agent.0.written_with("session/set_mode")[0]["params"]["modeId"],
            "default",
            "{modes}"
        );
        let prompt = agent.0.written_with("session/prompt")[0]["params"]["prompt"].clone();
        assert!(
            prompt[0]["text"].as_str().unwrap().starts_with("<planning>"),
            "missing planning instruction: {prompt}"
        );
        assert_eq!(prompt[1]["text"], "hello");
    }
    // If bypassing is unavailable, as for root, the agent's own planning mode is used.
    let agent = planning("{}", &CLAUDE_MODES.replace("bypassPermissions", "dontAsk"));
    assert_eq!(agent.0.written_with("session/set_mode")[0]["params"]["modeId"], "plan");
    assert_eq!(
        agent.0.written_with("session/prompt")[0]["params"]["prompt"][0]["text"],
        "hello",
        "no planning instruction is needed"
    );
}

#[test]
fn changes_during_planning_are_refused_without_asking() {
    let mut agent = planning("{}", CLAUDE_MODES);
    let changing = [
        r#"{"toolCallId":"a","kind":"edit","title":"Write"}"#,
        r#"{"toolCallId":"b","kind":"execute","title":"touch x"}"#,
        r#"{"toolCallId":"c","kind":"other","title":"mcp"}"#,
        r#"{"toolCallId":"d","title":"unsaid"}"#,
        r#"{"toolCallId":"e","kind":"delete","title":"rm"}"#,
    ];
    for call in changing {
        wants(&mut agent, "5", call);
        assert_eq!(agent.last()["result"]["outcome"]["optionId"], "no", "{call}");
    }
    assert!(
        !agent.0.actions.iter().any(|action| matches!(action, Action::Ask(_))),
        "no question is asked"
    );
    assert_eq!(
        notices(&agent.0.actions).len(),
        changing.len(),
        "users see a notice for each refusal"
    );
    wants(&mut agent, "6", r#"{"toolCallId":"f","kind":"read","title":"Read"}"#);
    assert!(matches!(agent.0.actions.last(), Some(Action::Ask(_))), "reading may be allowed");
    agent.answers("session/prompt", r#"{"stopReason":"cancelled"}"#);
    assert_eq!(agent.outcome(), &Outcome::Completed, "some agents end their turn after a refusal");
}

#[test]
fn an_approved_plan_still_needs_a_permission_for_each_action() {
    let mut agent = planning("{}", CLAUDE_MODES);
    wants(
        &mut agent,
        "5",
        r#"{"toolCallId":"p","kind":"switch_mode","title":"Ready?","rawInput":{"plan":"All of it."}}"#,
    );
    let Some(Action::Ask(ask)) = agent.0.actions.last().cloned() else {
        panic!("{:?}", agent.0.actions)
    };
    assert_eq!(ask.always_label, None, "it would allow to bypass permissions");
    answer(&mut agent.0, ask.ask, Decision::AllowOnce);
    assert_eq!(agent.last()["result"]["outcome"]["optionId"], "yes");
    wants(&mut agent, "6", r#"{"toolCallId":"a","kind":"edit","title":"Write"}"#);
    assert!(
        matches!(agent.0.actions.last(), Some(Action::Ask(next)) if next.ask != ask.ask),
        "the edit needs a permission"
    );
}

#[test]
fn an_unrestricted_session_can_be_switched_to_planning() {
    let mut start = turn(1);
    start.settings.safety = Safety::Danger;
    let mut agent = Agent::opened(start, NOTHING, CLAUDE_MODES);
    agent.answers("session/prompt", r#"{"stopReason":"end_turn"}"#);
    let mut second = next(&agent.0, 2);
    second.settings.mode = Mode::Plan;
    second.settings.safety = Safety::Danger;
    agent.0.start(second);
    assert_eq!(agent.last()["params"]["modeId"], "default");
    agent.answers("session/set_mode", "{}");
    wants(&mut agent, "5", r#"{"toolCallId":"a","kind":"execute","title":"touch x"}"#);
    assert_eq!(agent.last()["result"]["outcome"]["optionId"], "no");
}

#[test]
fn output_that_does_not_continue_the_earlier_output_replaces_it() {
    let mut agent = Agent::opened(turn(1), NOTHING, "");
    agent.updates(
        r#"{"sessionUpdate":"tool_call","toolCallId":"t","kind":"execute","title":"make","status":"pending"}"#,
    );
    for output in ["one", "one two", "two three"] {
        agent.updates(&format!(
            r#"{{"sessionUpdate":"tool_call_update","toolCallId":"t","status":"in_progress","content":[{{"type":"content","content":{{"type":"text","text":"{output}"}}}}]}}"#
        ));
    }
    let outputs = events(&agent.0.actions).filter_map(|event| match event {
        aetheel_backend_sdk::wit::EventKind::ToolOutput(output) => {
            Some((output.text.as_str(), output.replace))
        }
        _ => None,
    });
    let expected = [("one", false), (" two", false), ("two three", true)];
    assert_eq!(outputs.collect::<Vec<_>>(), expected);
}

#[test]
fn an_agent_with_http_servers_gets_the_address_of_the_hosts_server() {
    let with_tools = || StartTurn { tools: vec![host_tool("post")], ..turn(1) };
    let servers =
        |agent: &Agent| agent.0.written_with("session/new")[0]["params"]["mcpServers"].clone();
    let http = r#""agentCapabilities":{"mcpCapabilities":{"http":true}}"#;
    let mut agent = Agent::opened(with_tools(), http, "");
    let url = "<tool server of session 1>";
    let expected =
        serde_json::json!([{"type": "http", "name": "aetheel", "url": url, "headers": []}]);
    assert_eq!(servers(&agent), expected);
    // claude-agent-acp 0.49.0 names the tool only before it asks.
    agent.updates(
        r#"{"sessionUpdate":"tool_call","toolCallId":"t","kind":"other","title":"mcp__aetheel__post","status":"pending","_meta":{"claudeCode":{"toolName":"mcp__aetheel__post"}}}"#,
    );
    let call = r#"{"toolCallId":"t","kind":"other","title":"mcp__aetheel__post"}"#;
    let options = r#"[{"kind":"allow_once","optionId":"yes","name":"Yes"}]"#;
    let params = format!(r#"{{"sessionId":"s1","toolCall":{call},"options":{options}}}"#);
    agent.asks("5", "session/request_permission", &params);
    assert_eq!(agent.0.written_with("optionId")[0]["result"]["outcome"]["optionId"], "yes");
    assert!(asks(&agent.0.actions).is_empty());
    let forged = r#"{"toolCallId":"u","kind":"other","title":"mcp__aetheel__post","rawInput":{"toolName":"mcp__aetheel__post"}}"#;
    let params = format!(r#"{{"sessionId":"s1","toolCall":{forged},"options":{options}}}"#);
    agent.asks("6", "session/request_permission", &params);
    assert_eq!(asks(&agent.0.actions).len(), 1, "a title can contain any text");
    for agent in [Agent::opened(turn(1), http, ""), Agent::opened(with_tools(), NOTHING, "")] {
        assert_eq!(servers(&agent), serde_json::json!([]));
    }
}

#[test]
fn a_question_of_the_agent_is_answered_or_withdrawn() {
    let question = r#"{"sessionId":"s1","toolCallId":"t","mode":"form","message":"Which?","requestedSchema":{"type":"object","properties":{"q":{"type":"string","enum":["A","B"]}}}}"#;
    let mut agent = Agent::opened(turn(1), NOTHING, "");
    agent.asks("5", "elicitation/create", question);
    let answers = Decision::Answers(vec![("q".to_owned(), vec!["B".to_owned()])]);
    answer(&mut agent.0, 1, answers);
    assert_eq!(
        agent.last()["result"],
        serde_json::json!({"action": "accept", "content": {"q": "B"}})
    );
    agent.asks("6", "elicitation/create", question);
    agent.0.say(r#"{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":6}}"#);
    assert!(matches!(agent.0.actions[agent.0.actions.len() - 2], Action::AskWithdrawn(2)));
    assert_eq!(agent.last()["result"]["action"], "cancel");
    agent.asks("7", "elicitation/create", question);
    agent.0.command(Command::Interrupt(TurnRef { session: SESSION, turn: 1 }));
    assert_eq!(agent.0.written_with("\"id\":7")[0]["result"]["action"], "cancel");
    agent.asks("8", "elicitation/create", r#"{"requestId":1,"mode":"form","message":"Early?"}"#);
    assert_eq!(agent.last()["result"]["action"], "cancel", "no session, so nobody to ask");
    assert_eq!(asks(&agent.0.actions).len(), 3);
}

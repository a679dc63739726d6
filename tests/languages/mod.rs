//! Tests of the same backend in other languages (`languages/`). The components that `make
//! languages` builds return the same actions as the shipped one for every recording, for every way
//! a turn may begin and end, and for output that no agent ever printed. They also pass the kit.

mod extensions;
mod scripted;

use std::path::Path;
use std::sync::Arc;

use aetheel_model::agent::{
    Action, AgentEventKind, AgentLine, AgentQuery, Attachment, Exit, Exited, HostCommand, Input,
    Mode, Pipe, PromptPart, QueryKind, Safety, SpawnFailed, StartTurn, Steer, TimedInput, TurnRef,
};
use aetheel_model::limits::ResourceLimits;
use aetheel_recording::Backend;
use aetheel_recording::case::Case;
use aetheel_turn::Backends as _;
use aetheel_wasm::{Engine, Registry, RegistryOptions};

use crate::kit::Bench;
use crate::support::built;
use crate::support::needs;
use crate::support::recordings::{cases, inputs, name};

const FRESH: &str = "7c1f7e52-2f0b-4bd1-9f57-3f1d4a6f0c11";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns the component of a language, or `None` if its toolchain is left out.
fn component(lang: &str) -> Option<Vec<u8>> {
    let path = root().join("target/languages").join(format!("{lang}.wasm"));
    match std::fs::read(&path) {
        Ok(bytes) => Some(bytes),
        Err(error) => {
            let reason =
                std::fs::read_to_string(path.with_extension("missing")).unwrap_or_default();
            assert!(
                !reason.trim().is_empty(),
                "{}: {error}\nhint: run `make languages`",
                path.display()
            );
            let hint = "make its toolchain available and run `make languages`";
            needs::met(lang, Err(format!("not built: {}", reason.trim())), hint);
            None
        }
    }
}

/// Creates an engine with a cache that all tests share: compiling an interpreter takes many
/// seconds, or minutes on a busy machine.
fn engine() -> Engine {
    let limits = ResourceLimits {
        compile: std::time::Duration::from_secs(600),
        ..ResourceLimits::default()
    };
    Engine::new(
        &limits,
        Some(&Path::new(env!("CARGO_TARGET_TMPDIR")).join("compiled-backends")),
        aetheel_settings::NAMES,
    )
    .unwrap()
}

/// Admits a component as the gateway does.
async fn admitted(wasm: Vec<u8>) -> Arc<dyn Backend> {
    let backends = tempfile::tempdir().unwrap();
    std::fs::write(backends.path().join("gemini.wasm"), wasm).unwrap();
    let (registry, reports) =
        Registry::start(engine(), RegistryOptions::new(backends.path())).await;
    registry.get("gemini").unwrap_or_else(|| panic!("{reports:?}"))
}

async fn actions_of(backend: &dyn Backend, inputs: &[TimedInput]) -> Result<Vec<Action>, String> {
    let mut guest = backend.open().await.map_err(|failure| failure.to_string())?;
    guest.handle(inputs.to_vec()).await.map_err(|failure| failure.to_string())
}

fn reports_a_missing_field(action: &Action) -> bool {
    let Action::Event(event) = action else { return false };
    matches!(&event.kind, AgentEventKind::Unrecognised(told) if told.what.starts_with("no "))
}

fn same(is: &[Action], expected: &[Action], what: &str) {
    for (number, (is, expected)) in is.iter().zip(expected).enumerate() {
        assert_eq!(is, expected, "{what}, action {}", number + 1);
    }
    assert_eq!(is.len(), expected.len(), "{what}");
}

/// Returns whether the examples handle a recording like the shipped backend: they know one-shot runs
/// only, and let an agent wait for the end of a usage limit by itself.
fn is_for_examples(name: &str) -> bool {
    !name.starts_with("live-") && !name.starts_with("limit-plan")
}

/// Returns the recordings that the examples handle like the shipped backend.
fn runs() -> Vec<Case> {
    let mut cases = cases("gemini");
    cases.retain(|case| is_for_examples(&name("gemini", case)));
    assert!(cases.len() >= 40, "only {} recordings", cases.len());
    cases
}

fn passes_the_kit(lang: &str) {
    let Some(wasm) = component(lang) else { return };
    // An interpreter needs a long time for thousands of attempts.
    let _ = Bench::with_cases(&wasm, "gemini", is_for_examples).passes(40, 8);
}

async fn same_as_shipped(lang: &str) {
    let Some(wasm) = component(lang) else { return };
    let (backend, shipped) = (admitted(wasm).await, admitted(built("gemini.wasm")).await);
    for (what, inputs) in turns().into_iter().chain(garbled()) {
        let mut expected = actions_of(&*shipped, &inputs).await.unwrap();
        // The examples do not report missing fields.
        expected.retain(|action| !reports_a_missing_field(action));
        let is = actions_of(&*backend, &inputs)
            .await
            .unwrap_or_else(|failure| panic!("{what}: {failure}"));
        same(&is, &expected, &what);
    }
}

async fn survives(lang: &str) {
    let Some(wasm) = component(lang) else { return };
    let backend = admitted(wasm).await;
    for (what, text) in hostile() {
        let inputs = timed(vec![begin(|_| ()), out(&text), exited(Exit::Code(0), "")]);
        let actions = actions_of(&*backend, &inputs)
            .await
            .unwrap_or_else(|failure| panic!("{what}: {failure}"));
        let ends = actions.iter().filter(|action| matches!(action, Action::TurnDone(_))).count();
        assert_eq!(ends, 1, "{what}");
    }
}

fn timed(inputs: Vec<Input>) -> Vec<TimedInput> {
    inputs
        .into_iter()
        .enumerate()
        .map(|(at, input)| TimedInput { at_ms: at as f64, input })
        .collect()
}

fn begin(change: impl FnOnce(&mut StartTurn)) -> Input {
    let mut start = StartTurn {
        cwd: "/srv/proj".into(),
        fresh_id: FRESH.into(),
        ..StartTurn::plain("hello", Safety::Danger)
    };
    change(&mut start);
    Input::Command(HostCommand::StartTurn(start))
}

fn out(text: &str) -> Input {
    Input::Line(AgentLine { proc: 1, pipe: Pipe::Stdout, text: text.to_owned(), truncated: false })
}

fn err(text: &str) -> Input {
    Input::Line(AgentLine { proc: 1, pipe: Pipe::Stderr, text: text.to_owned(), truncated: false })
}

fn exited(how: Exit, stderr: &str) -> Input {
    Input::Exited(Exited { proc: 1, how, stderr_tail: stderr.to_owned() })
}

/// Returns every way in which a turn may begin and end.
fn turns() -> Vec<(String, Vec<TimedInput>)> {
    let file = || Attachment {
        blob: 1,
        name: "a b.png".into(),
        media_type: "image/png".into(),
        size: 12,
        path: "/run/a b.png".into(),
    };
    let interrupt = || Input::Command(HostCommand::Interrupt(TurnRef { session: 1, turn: 1 }));
    let result = |status: &str| {
        out(&format!(
            r#"{{"type":"result","status":"{status}","error":{{"type":"X","message":"broken"}},"stats":{{"input":1.6,"cached":-2,"output_tokens":5e9}}}}"#
        ))
    };
    let text = |text: &str| {
        out(&format!(
            r#"{{"type":"message","role":"assistant","timestamp":"2026-11-21T21:02:11.418Z","content":"{text}"}}"#
        ))
    };
    let trace = "\nat x (y)\nYOLO mode is enabled\n";
    let steer = Steer {
        session: 1,
        turn: 1,
        message: 7,
        parts: vec![PromptPart::Text("more".into())],
        fresh_id: FRESH.into(),
    };
    let cases = vec![
        ("edits", vec![begin(|start| start.settings.safety = Safety::Edit)]),
        ("asks", vec![begin(|start| start.settings.safety = Safety::Default)]),
        ("plans", vec![begin(|start| start.settings.mode = Mode::Plan)]),
        (
            "a model and an effort",
            vec![begin(|start| {
                start.settings.model = Some("gemini-2.5-flash".into());
                start.settings.effort = Some("high".into());
            })],
        ),
        (
            "a system prompt",
            vec![begin(|start| start.settings.system_prompt = Some("Mail é@b: @file".into()))],
        ),
        (
            "an empty system prompt",
            vec![begin(|start| start.settings.system_prompt = Some(String::new()))],
        ),
        (
            "files",
            vec![begin(|start| {
                start.parts.extend([
                    PromptPart::Image(file()),
                    PromptPart::File(file()),
                    PromptPart::Text("x".into()),
                ])
            })],
        ),
        ("no prompt", vec![begin(|start| start.parts = vec![PromptPart::Text(" \n\t".into())])]),
        ("no parts", vec![begin(|start| start.parts.clear())]),
        ("a copy", vec![begin(|start| (start.fork, start.native_id) = (true, Some(FRESH.into())))]),
        ("somebody's session", vec![begin(|start| start.native_id = Some("latest".into()))]),
        ("a strange fresh id", vec![begin(|start| start.fresh_id = "--yolo".into())]),
        (
            "another session than asked for",
            vec![
                begin(|start| start.native_id = Some(FRESH.into())),
                out(r#"{"type":"init","session_id":"other","model":null}"#),
            ],
        ),
        (
            "interrupted, exit code 130",
            vec![begin(|_| ()), interrupt(), exited(Exit::Code(130), "")],
        ),
        (
            "interrupted, then a result that failed",
            vec![begin(|_| ()), interrupt(), result("error"), exited(Exit::Code(1), "")],
        ),
        (
            "shut down",
            vec![
                begin(|_| ()),
                Input::Command(HostCommand::Shutdown),
                exited(Exit::Signal(15), ""),
            ],
        ),
        ("a message for the turn", vec![begin(|_| ()), Input::Command(HostCommand::Steer(steer))]),
        (
            "a question",
            vec![
                begin(|_| ()),
                Input::Command(HostCommand::Query(AgentQuery {
                    query: 3,
                    session: Some(1),
                    kind: QueryKind::Models,
                })),
            ],
        ),
        ("a second turn", vec![begin(|_| ()), begin(|start| start.turn = 2)]),
        (
            "not installed",
            vec![
                begin(|_| ()),
                Input::SpawnFailed(SpawnFailed {
                    proc: 1,
                    message: "none".into(),
                    not_found: true,
                }),
            ],
        ),
        (
            "refused",
            vec![
                begin(|_| ()),
                Input::SpawnFailed(SpawnFailed {
                    proc: 1,
                    message: String::new(),
                    not_found: false,
                }),
            ],
        ),
        (
            "does not leave",
            vec![
                begin(|_| ()),
                text("Hi"),
                result("success"),
                Input::Timer(1),
                exited(Exit::Code(0), ""),
            ],
        ),
        ("a timer of nobody", vec![begin(|_| ()), Input::Timer(1), Input::Timer(9)]),
        (
            "two results",
            vec![
                begin(|_| ()),
                result("error"),
                text("late"),
                result("success"),
                exited(Exit::Code(0), ""),
            ],
        ),
        ("ends without a word", vec![begin(|_| ()), exited(Exit::Code(0), "")]),
        ("ends with words", vec![begin(|_| ()), exited(Exit::Code(0), "one\r\n\n two\n")]),
        ("killed", vec![begin(|_| ()), exited(Exit::Signal(9), &"é".repeat(700))]),
        (
            "killed, as shells tell it",
            vec![begin(|_| ()), exited(Exit::Code(137), "a\nb\nc\nd\ne\nf\ng")],
        ),
        ("nobody knows how it ended", vec![begin(|_| ()), exited(Exit::Unknown, "why")]),
        ("fails without a word", vec![begin(|_| ()), exited(Exit::Code(7), trace)]),
        (
            "is not signed in",
            vec![
                begin(|_| ()),
                exited(Exit::Code(41), &format!("{trace}Invalid auth method selected.")),
            ],
        ),
        (
            "knows no such session",
            vec![begin(|_| ()), exited(Exit::Code(42), "Invalid session identifier \"0000\".")],
        ),
        (
            "does not trust",
            vec![
                begin(|_| ()),
                exited(Exit::Code(55), "Gemini CLI is not running in a trusted directory."),
            ],
        ),
        (
            "was told nothing",
            vec![begin(|_| ()), exited(Exit::Code(42), "No input provided via stdin")],
        ),
        (
            "tries again",
            vec![
                begin(|_| ()),
                err("Attempt 1 failed with status 503. Retrying with backoff..."),
                err("Attempt 2 passed"),
            ],
        ),
        (
            "somebody else's output",
            vec![
                begin(|_| ()),
                Input::Line(AgentLine {
                    proc: 2,
                    pipe: Pipe::Stdout,
                    text: "x".into(),
                    truncated: false,
                }),
            ],
        ),
        ("before the turn", vec![out("x"), exited(Exit::Code(0), ""), Input::Timer(1)]),
    ];
    let named = |(what, mut inputs): (&str, Vec<Input>)| {
        inputs.push(exited(Exit::Code(0), ""));
        (what.to_owned(), timed(inputs))
    };
    cases
        .into_iter()
        .map(named)
        .chain(
            lines().into_iter().map(|text| (text.clone(), timed(vec![begin(|_| ()), out(&text)]))),
        )
        .collect()
}

/// Returns lines that Gemini CLI might print in a future version.
fn lines() -> Vec<String> {
    let said = |message: &str| {
        format!(
            r#"{{"type":"result","status":"error","error":{{"message":{}}}}}"#,
            serde_json::json!(message)
        )
    };
    let tool = |name: &str, parameters: &str| {
        format!(
            r#"{{"type":"tool_use","tool_name":"{name}","tool_id":"t1","parameters":{parameters}}}"#
        )
    };
    let mut lines = vec![
        tool(
            "run_shell_command",
            r#"{"z":1,"command":"ls -la\n\tsecond","a":{"y":[],"x":{}},"a":{"k":"1","j":null,"k":true}}"#,
        ),
        tool(
            "run_shell_command",
            r#"{"command":"ls","description":"List \"all\" \u00e9\ud83d\ude00 \u0001\u007f/\/"}"#,
        ),
        tool("web_fetch", r#"{"prompt":"read https://x"}"#),
        tool("mcp_server_tool", r#"{"path":"a"}"#),
        tool(
            "write_todos",
            r#"{"todos":[{"description":"a","status":"cancelled"},{"status":"new"},7]}"#,
        ),
        tool("brand_new", "null"),
        tool("read_file", r#"{"file_path":7,"path":"p","numbers":[0,-1,10,12345678901]}"#),
        tool("glob", &format!(r#"{{"pattern":"{}"}}"#, "é".repeat(300))),
        tool("replace", "[1, [2 , {\"b\" : 1 , \"a\" : 2}]]"),
        r#"{"type":"tool_use"}"#.to_owned(),
        r#"{"type":"tool_result","tool_id":"t","status":"new","output":7,"error":{"message":"m"}}"#
            .to_owned(),
        r#"{"type":"error","severity":"warning","message":"Loop \"detected\""}"#.to_owned(),
        r#"{"type":"init"}"#.to_owned(),
        r#"{"type":"message","role":"system","content":"x"}"#.to_owned(),
        r#"{"type":"message"}"#.to_owned(),
        r#"{"type":7}"#.to_owned(),
        r#"{"t\u0079pe":"thou\u0067ht"}"#.to_owned(),
        r#"{"type":"a","type":"b"}"#.to_owned(),
        "[1]".to_owned(),
        "\"text\"".to_owned(),
        "{\"type\":\"x\"} {}".to_owned(),
        "{'type':'x'}".to_owned(),
        "{\"type\":\"x\",}".to_owned(),
        "{\"type\":01}".to_owned(),
        "{\"type\":NaN}".to_owned(),
        "{\"type\":\"\\ud800\"}".to_owned(),
        "{\"type\":\"tab\there\"}".to_owned(),
        format!("  Loading … {}", "é".repeat(2000)),
    ];
    lines.extend(
        [
            r#"[API Error: {"error":{"code":400,"message":"bad"}}]"#,
            "[API Error: slow down]\nPlease wait. To increase your limits, see /auth",
            "[API Error: no end",
            r#"unexpected status 403 {"message":"no \"key\""}"#,
            "The prompt is too long: 400 tokens",
            "Rate Limit of the 5th kind",
            "one two three four five six 429",
            "{not json}",
            "",
        ]
        .map(said),
    );
    lines
}

/// Returns recorded output with each line cut, doubled, dropped or with a byte changed. The result
/// is the same in every run.
fn garbled() -> Vec<(String, Vec<TimedInput>)> {
    let mut seed = 7_u64;
    let mut dice = move |sides: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(seed >> 33).unwrap() % sides
    };
    let mut cases = Vec::new();
    for case in runs() {
        let mut told = Vec::new();
        for timed in inputs(&case) {
            let Input::Line(line) = timed.input else {
                told.push(timed);
                continue;
            };
            let text = line.text.as_str();
            let mut at = dice(text.len() + 1);
            while !text.is_char_boundary(at) {
                at -= 1;
            }
            let texts = match dice(6) {
                0 => vec![text[..at].to_owned()],
                1 => vec![text[at..].to_owned()],
                2 => vec![text.to_owned(), text.to_owned()],
                3 => Vec::new(),
                4 => vec![format!(
                    "{}{}{}",
                    &text[..at],
                    ["\"", "{", "]", ",", "\\", "\0"][dice(6)],
                    &text[at..]
                )],
                _ => vec![text.to_owned()],
            };
            let line = |text| TimedInput {
                at_ms: timed.at_ms,
                input: Input::Line(AgentLine { text, ..line.clone() }),
            };
            told.extend(texts.into_iter().map(line));
        }
        cases.push((format!("{}, garbled", case.path.display()), told));
    }
    cases
}

/// Returns lines that are meant to break a parser.
fn hostile() -> Vec<(&'static str, String)> {
    let tool = |parameters: &str| {
        format!(
            r#"{{"type":"tool_use","tool_name":"write_todos","tool_id":"t","parameters":{parameters}}}"#
        )
    };
    vec![
        ("opened for ever", "[".repeat(1 << 20)),
        ("objects opened for ever", r#"{"type":"#.repeat(1 << 17)),
        ("deep, and closed again", tool(&format!("{}{}", "[".repeat(100_000), "]".repeat(100_000)))),
        ("as deep as can be read", tool(&format!("{}{}", "[".repeat(125), "]".repeat(125)))),
        ("many elements", tool(&format!("[{}0]", "0,".repeat(1 << 15)))),
        ("many fields", tool(&format!("{{{}\"z\":0}}", r#""k":0,"#.repeat(1 << 16)))),
        ("many steps of a plan", tool(&format!(r#"{{"todos":[{}{{}}]}}"#, "{},".repeat(9000)))),
        ("a long string", tool(&format!(r#""{}""#, "x".repeat(1 << 20)))),
        ("a string of escapes", tool(&format!(r#"{{"path":"{}"}}"#, r"\u0000\n".repeat(1 << 16)))),
        (
            "a huge number",
            format!(
                r#"{{"type":"result","status":"success","stats":{{"input":{},"cached":1e99999999999,"output_tokens":-1e-9999}}}}"#,
                "9".repeat(100_000)
            ),
        ),
        ("nothing but NUL", "\0".repeat(4096)),
        ("NUL within", "{\"type\":\"a\0b\"}".to_owned()),
        ("NUL escaped", r#"{"type":"init\u0000","session_id":"\u0000"}"#.to_owned()),
        ("an escape cut off", r#"{"type":"\u00"#.to_owned()),
        ("half a character", r#"{"type":"\ud83d"}"#.to_owned()),
        ("a strange time", r#"{"type":"message","role":"assistant","timestamp":"::::::::::::::::::9e9:-1:NaN","content":"x"}"#.to_owned()),
        ("a short time", r#"{"type":"message","role":"assistant","timestamp":"é","content":"x"}"#.to_owned()),
        ("blanks", " ".repeat(1 << 20)),
    ]
}

macro_rules! languages {
    ($($lang:ident)*) => { $(
        mod $lang {
            #[test]
            fn replays_every_recording_like_the_original_and_unusual_ones_within_the_contract() {
                super::passes_the_kit(stringify!($lang));
            }

            #[tokio::test(flavor = "multi_thread")]
            async fn handles_turns_and_garbled_output_like_the_shipped_backend() {
                super::same_as_shipped(stringify!($lang)).await;
            }

            #[tokio::test(flavor = "multi_thread")]
            async fn survives_output_that_no_agent_prints() {
                super::survives(stringify!($lang)).await;
            }
        }
    )* };
}
languages! { assemblyscript c cpp go javascript python typescript zig }

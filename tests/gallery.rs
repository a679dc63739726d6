//! The gallery page, generated from recordings of real agents that the shipped components replay.

use std::fmt::Write as _;
use std::path::Path;

use aetheel_model::agent::{Action, AgentEvent, HostCommand, Input, Pipe};
use aetheel_model::limits::ResourceLimits;
use aetheel_recording::replay::{Batches, replay};
use aetheel_recording::{EntryKind, RecordingEntry};
use aetheel_turn::Backends as _;
use aetheel_wasm::{Engine, Registry, RegistryOptions};
use serde_json::Value;

use crate::support::built;
use crate::support::recordings::{case, inputs};

/// Title, backend and recording.
type Scene = (&'static str, &'static str, &'static str);

/// Scenes by protocol.
const SCENES: [(&str, &[Scene]); 5] = [
    (
        "One process per turn, JSON lines on stdout",
        &[
            ("A tool call (Gemini CLI, `gemini -o stream-json`)", "gemini", "tool-shell"),
            (
                "The same with Claude Code (`claude -p --output-format stream-json`)",
                "claude",
                "tool-shell",
            ),
            ("The same with Codex (`codex exec --json`)", "codex", "tool-shell"),
            ("The model's service is overloaded, then recovers (Droid)", "droid", "error-429-once"),
            ("The agent is killed during a turn (OpenCode)", "opencode", "run-sigkill-tool"),
        ],
    ),
    (
        "JSON lines in both directions (Claude Code's control protocol)",
        &[
            ("Users are asked for permission", "claude", "live/allow-once"),
            ("A message is steered into a running turn", "claude", "live/steer"),
        ],
    ),
    (
        "JSON-RPC over stdio (Codex `app-server`, Droid)",
        &[
            ("A command is allowed (Codex)", "codex", "live-permission-command-accept"),
            (
                "A turn is interrupted in the middle of a tool (Droid)",
                "droid",
                "live-interrupt-tool",
            ),
        ],
    ),
    (
        "The Agent Client Protocol",
        &[("Permission for once", "acp", "claude-permission-allow-once")],
    ),
    (
        "HTTP and server-sent events (`opencode serve`)",
        &[("Permission for once", "opencode", "permission-once")],
    ),
];

/// Maximum number of characters of a line on the page.
const WIDTH: usize = 150;
/// Maximum number of lines of a scene on the page.
const LENGTH: usize = 60;

const BEGINNING: &str = "# Gallery: what agents print, and what backends do with it

Each section shows a recording of a real agent that was replayed by the shipped component. `host`,
`out` and `err` are inputs of the backend: commands of the host, and lines that the agent printed on
stdout and stderr. `→` is an action that the backend returned. Long lines are cut, and inputs
without an action are counted. `aetheel backend replay` shows any recording in a similar form.
[contract.md](contract.md) describes every item. The test `gallery` generates this page
(`UPDATE_GOLDEN=1`) and compares it.
";

#[tokio::test(flavor = "multi_thread")]
async fn the_gallery_shows_replays_of_real_recordings_by_the_shipped_components() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let backends = tempfile::tempdir().unwrap();
    for name in ["acp", "claude", "codex", "droid", "gemini", "opencode"] {
        std::fs::write(
            backends.path().join(format!("{name}.wasm")),
            built(&format!("{name}.wasm")),
        )
        .unwrap();
    }
    let (registry, _) = Registry::start(
        Engine::new(&ResourceLimits::default(), None, aetheel_settings::NAMES).unwrap(),
        RegistryOptions::new(backends.path()),
    )
    .await;
    let mut page = BEGINNING.to_owned();
    for (protocol, scenes) in SCENES {
        let _ = write!(page, "\n## {protocol}\n");
        for (title, backend, recording) in scenes {
            let entries: Vec<RecordingEntry> = inputs(&case(backend, recording))
                .into_iter()
                .map(|timed| RecordingEntry { t: timed.at_ms, kind: EntryKind::In(timed.input) })
                .collect();
            let replayed =
                replay(&*registry.get(backend).unwrap(), &entries, Batches::Single).await.unwrap();
            assert_eq!(replayed.failure, None, "{backend} {recording}");
            let steps = replayed.steps.iter().map(|step| (&entries[step.entry], &step.actions));
            let _ = write!(
                page,
                "\n### {title}\n\n`tests/fixtures/{backend}/{recording}.jsonl`\n\n```text\n{}```\n",
                scene(steps)
            );
        }
    }
    let path = root.join("docs/gallery.md");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    assert!(
        std::fs::read_to_string(&path).unwrap() == page,
        "docs/gallery.md is out of date; generate it with UPDATE_GOLDEN=1"
    );
}

fn scene<'a>(steps: impl Iterator<Item = (&'a RecordingEntry, &'a Vec<Action>)>) -> String {
    let mut lines = Vec::new();
    let mut idle = 0;
    for (entry, actions) in steps {
        if actions.is_empty() {
            idle += 1;
            continue;
        }
        if idle > 0 {
            lines.push(format!("       ({idle} more, without an action)"));
            idle = 0;
        }
        if let EntryKind::In(input) = &entry.kind {
            lines.push(input_line(input));
        }
        lines.extend(actions.iter().map(action_line));
    }
    if lines.len() > LENGTH {
        let more = lines.len() - LENGTH;
        lines.truncate(LENGTH);
        lines.push(format!("       ({more} more lines)"));
    }
    lines.iter().map(|line| format!("{line}\n")).collect()
}

fn input_line(input: &Input) -> String {
    let (who, text) = match input {
        Input::Line(line) => {
            (if line.pipe == Pipe::Stdout { "out" } else { "err" }, line.text.clone())
        }
        Input::Command(HostCommand::StartTurn(start)) => {
            ("host", format!("start-turn {}", json(&start.parts)))
        }
        other => ("host", variant(&serde_json::to_value(other).unwrap())),
    };
    format!("{who:<6} {}", short(&text))
}

fn action_line(action: &Action) -> String {
    let text = match action {
        Action::Event(AgentEvent { kind, .. }) => variant(&serde_json::to_value(kind).unwrap()),
        other => variant(&serde_json::to_value(other).unwrap()),
    };
    format!("  →    {}", short(&text))
}

/// Formats a variant as its name and its contents.
fn variant(value: &Value) -> String {
    match value {
        Value::Object(object) if object.len() == 1 => {
            let (case, with) = object.iter().next().expect("there is one");
            if case == "command" {
                variant(with)
            } else {
                format!("{case} {}", json(&without_empty(with)))
            }
        }
        Value::String(case) => case.clone(),
        other => json(other),
    }
}

/// Removes keys and empty fields.
fn without_empty(value: &Value) -> Value {
    match value {
        Value::Object(object) => {
            let kept = object.iter().filter(|(key, value)| {
                let empty = value.is_null()
                    || **value == Value::Bool(false)
                    || value.as_array().is_some_and(Vec::is_empty);
                !empty && !matches!(key.as_str(), "session" | "turn")
            });
            kept.map(|(key, value)| (key.clone(), value.clone())).collect()
        }
        other => other.clone(),
    }
}

fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).unwrap()
}

fn short(text: &str) -> String {
    let cut: String = text.chars().take(WIDTH).collect();
    if cut.len() < text.len() { format!("{cut}…") } else { cut }
}

//! The cost of a link: compiling its component, opening it, calling it and keeping it open.

use std::time::{Duration, Instant};

use aetheel_model::agent::{AgentLine, HostCommand, Input, Pipe, Safety, StartTurn, TimedInput};
use aetheel_model::limits::ResourceLimits;
use aetheel_recording::Guest as _;
use aetheel_wasm::Engine;

use crate::{backends, component, cpu, report};

const CALLS: usize = 20_000;
const OPENS: usize = 500;
const COMPILES: usize = 10;
/// Links that are open at the same time.
const KEPT: usize = 200;

/// Measures links of the Claude backend, and prints the figures.
pub async fn measure() {
    report::part("links of the Claude backend");
    let backend = backends::load("claude").await;

    let mut guest = backend.open_guest().await.unwrap();
    guest.handle(vec![first_prompt()]).await.unwrap();
    let mut empty = Duration::ZERO;
    let mut one_line = Duration::ZERO;
    for _ in 0..CALLS {
        let begun = Instant::now();
        guest.handle(Vec::new()).await.unwrap();
        empty += begun.elapsed();
        let call = vec![text_delta()];
        let begun = Instant::now();
        guest.handle(call).await.unwrap();
        one_line += begun.elapsed();
    }
    report::figure("call without input", &report::time(empty / CALLS as u32));
    report::figure("call with one line, a piece of text", &report::time(one_line / CALLS as u32));

    let mut opens = Vec::new();
    for _ in 0..OPENS {
        let begun = Instant::now();
        let guest = backend.open_guest().await.unwrap();
        opens.push(begun.elapsed());
        drop(guest);
    }
    report::figure("open a link", &report::spread(&opens));

    let before = cpu::resident();
    let mut kept = Vec::new();
    for _ in 0..KEPT {
        let mut guest = backend.open_guest().await.unwrap();
        guest.handle(vec![first_prompt()]).await.unwrap();
        kept.push(guest);
    }
    let each = (cpu::resident() - before) / KEPT;
    drop(kept);
    report::figure("memory of an open link after its first prompt", &format!("{} KiB", each >> 10));

    for name in ["claude", "demo"] {
        let (mut cold, mut cached) = (Vec::new(), Vec::new());
        for _ in 0..COMPILES {
            let cache = tempfile::tempdir().unwrap();
            cold.push(admit(name, cache.path()).await);
            cached.push(admit(name, cache.path()).await);
        }
        report::figure(
            &format!("read, compile and test `{name}`, empty cache"),
            &report::spread(&cold),
        );
        report::figure(&format!("the same from the cache, `{name}`"), &report::spread(&cached));
    }
}

async fn admit(name: &str, cache: &std::path::Path) -> Duration {
    let engine =
        Engine::new(&ResourceLimits::default(), Some(cache), aetheel_settings::NAMES).unwrap();
    let begun = Instant::now();
    engine.inspect(&component(name)).await.unwrap();
    begun.elapsed()
}

/// Returns the first input of a turn.
fn first_prompt() -> TimedInput {
    let start = StartTurn {
        cwd: "/srv/proj".to_owned(),
        fresh_id: "7c1f7e52-2f0b-4bd1-9f57-3f1d4a6f0c11".to_owned(),
        ..StartTurn::plain("Hello", Safety::Danger)
    };
    TimedInput { at_ms: 0.0, input: Input::Command(HostCommand::StartTurn(start)) }
}

fn text_delta() -> TimedInput {
    let text = r#"{"type":"stream_event","event":{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a few words "}},"session_id":"7c1f7e52-2f0b-4bd1-9f57-3f1d4a6f0c11","parent_tool_use_id":null,"uuid":"1f4e2b5e-6a6d-4b0e-8c6e-0f9a3f3b6f10"}"#;
    TimedInput {
        at_ms: 1.0,
        input: Input::Line(AgentLine {
            proc: 1,
            pipe: Pipe::Stdout,
            text: text.to_owned(),
            truncated: false,
        }),
    }
}

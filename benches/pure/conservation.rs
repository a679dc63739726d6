//! The detector of lost answers. `keep` is its work while a turn runs. `examine` runs once at the
//! end of a turn: of a readable one, of one that is still learned from, and of one that lost its
//! answer. `parse` is for comparison: `serde_json` parses the same lines.

use aetheel_model::agent::{
    Action, AgentEvent, AgentEventKind, AgentLine, HostCommand, Input, Pipe, Safety, StartTurn,
    TextEvent,
};
use aetheel_model::baseline::Baseline;
use aetheel_recording::conservation::OutputLedger;
use divan::Bencher;
use divan::counter::ItemsCount;
use serde_json::Value;

const LINES: usize = 1_000;

/// Returns a line of Claude Code's stream, 259 bytes long.
fn line(number: usize) -> String {
    format!(
        r#"{{"type":"stream_event","event":{{"type":"content_block_delta","index":0,"delta":{{"type":"text_delta","text":"word {number} of the answer "}}}},"session_id":"c3870c18-e052-481f-a827-a1f4de417c8e","parent_tool_use_id":null,"uuid":"c5d26ba8-be8b-44a6-819a-{number:012}"}}"#
    )
}

fn inputs() -> Vec<Input> {
    let input =
        |text| Input::Line(AgentLine { proc: 1, pipe: Pipe::Stdout, text, truncated: false });
    (0..LINES).map(|number| input(line(number))).collect()
}

fn begun() -> OutputLedger {
    let mut ledger = OutputLedger::default();
    let start = StartTurn::plain("What is in the folder?", Safety::Default);
    ledger.inputs([&Input::Command(HostCommand::StartTurn(start))]);
    ledger
}

#[divan::bench]
fn parse(bencher: Bencher<'_, '_>) {
    let lines: Vec<String> = (0..LINES).map(line).collect();
    bencher.counter(ItemsCount::new(LINES)).bench(|| {
        lines.iter().map(|line| serde_json::from_str::<Value>(line).unwrap()).collect::<Vec<_>>()
    });
}

#[divan::bench]
fn keep(bencher: Bencher<'_, '_>) {
    let inputs = inputs();
    bencher.counter(ItemsCount::new(LINES)).with_inputs(begun).bench_local_values(|mut ledger| {
        inputs.iter().for_each(|input| ledger.inputs([input]));
        ledger
    });
}

#[divan::bench(args = ["readable", "learning", "lost"])]
fn examine(bencher: Bencher<'_, '_>, turn: &str) {
    let mut ledger = begun();
    ledger.inputs(&inputs());
    if turn != "lost" {
        let text = (0..LINES).map(|number| format!("word {number} of the answer ")).collect();
        let text = TextEvent { part: 0, text, replace: false, parent: None };
        let event = AgentEvent { session: 1, turn: 1, kind: AgentEventKind::Text(text) };
        ledger.actions(&[Action::Event(event)]);
    }
    let baseline = (turn != "readable").then(Baseline::default);
    assert_eq!(ledger.examine(1, None, baseline.as_ref()).lost.is_some(), turn == "lost");
    bencher
        .counter(ItemsCount::new(LINES))
        .bench_local(|| ledger.examine(1, None, baseline.as_ref()));
}

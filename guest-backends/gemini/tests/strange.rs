//! Unknown one-shot output is reported, and never ends a link.
#![allow(clippy::unwrap_used, reason = "a panic reports the failure")]

use std::path::Path;

use aetheel_backend_sdk::disturb::{Change, disturbed, survive};
use aetheel_backend_sdk::fixture::{Fixture, line, run, start, unrecognised};
use aetheel_backend_sdk::wit::{Command, Input, Pipe};
use gemini::Backend;
use proptest::collection::vec;
use proptest::prelude::*;

fn unknown(text: &str) -> Vec<String> {
    let actions = run::<Backend>(start("hi"), vec![line(Pipe::Stdout, text)]);
    unrecognised(&actions).into_iter().map(|unknown| unknown.what.clone()).collect()
}

#[test]
fn unknown_output_is_reported_by_its_kind() {
    assert_eq!(unknown(r#"{"type":"thought","content":"x"}"#), ["line type \"thought\""]);
    assert_eq!(
        unknown(r#"{"type":"message","role":"system","content":"x"}"#),
        ["message of \"system\""]
    );
    assert_eq!(unknown(r#"{"content":"x"}"#), ["line without a type"]);
    assert_eq!(unknown(r#"{"type":"init"}"#), ["init line without a session"]);
    assert_eq!(unknown("Loading …"), ["line that is not a JSON object"]);
    assert_eq!(unknown(""), Vec::<String>::new());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn disturbed_output_meets_the_guarantees(
        name in prop::sample::select(vec!["tool-shell", "tools-parallel", "error-429", "error-mid-recovers", "resume-unknown"]),
        changes in vec(any::<Change>(), 0..12),
    ) {
        let fixture = Fixture::load(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/gemini").join(name));
        let mut inputs = vec![Input::Command(Command::StartTurn(start("recorded")))];
        inputs.extend(fixture.inputs());
        survive::<Backend>(disturbed(&inputs, &changes));
    }
}

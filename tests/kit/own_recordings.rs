//! Tests that the recordings of a component (`X.cases` beside `X.wasm`) decide whether it is
//! loaded.

use std::fs;
use std::path::Path;

use aetheel_model::limits::ResourceLimits;
use aetheel_model::plain::with_causes;
use aetheel_turn::Backends as _;
use aetheel_wasm::{AdmissionError, Engine, LoadReport, Registry, RegistryOptions};
use serde_json::Value;

use crate::support::built;
use crate::support::recordings::{case, copy};

/// Creates a backends folder with Gemini's component and a recording for it.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let cases = folder.path().join("gemini.cases");
    fs::create_dir(&cases).unwrap();
    fs::write(folder.path().join("gemini.wasm"), built("gemini.wasm")).unwrap();
    copy(&case("gemini", "plain"), &cases.join("plain.jsonl"));
    folder
}

async fn loaded(folder: &Path) -> Result<(), String> {
    let engine = Engine::new(&ResourceLimits::default(), None, aetheel_settings::NAMES).unwrap();
    let (registry, reports) = Registry::start(engine, RegistryOptions::new(folder)).await;
    match &reports[..] {
        [LoadReport::Loaded { .. }] => {
            assert!(registry.get("gemini").is_some());
            Ok(())
        }
        [LoadReport::Refused { reason, .. }] => {
            assert!(
                registry.get("gemini").is_none() && matches!(**reason, AdmissionError::Case(_)),
                "{reason:?}"
            );
            assert!(reason.hint().contains("aetheel backend test"), "{}", reason.hint());
            Err(with_causes(&**reason))
        }
        reports => panic!("{reports:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_component_that_reads_its_recordings_as_agreed_is_loaded() {
    let folder = folder();
    loaded(folder.path()).await.unwrap();
    // Without agreed actions, the component must only end its turns.
    fs::remove_file(folder.path().join("gemini.cases/plain.actions.jsonl")).unwrap();
    loaded(folder.path()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_component_that_misreads_its_recordings_is_refused_with_file_line_and_reason() {
    let folder = folder();
    let agreed = folder.path().join("gemini.cases/plain.actions.jsonl");
    let text = fs::read_to_string(&agreed).unwrap();
    let mut actions: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let text =
        actions.iter().position(|action| action["event"]["kind"]["text"].is_object()).unwrap();
    let said = &mut actions[text]["event"]["kind"]["text"]["text"];
    *said = format!("Not {}", said.as_str().unwrap()).into();
    fs::write(&agreed, actions.iter().map(|action| format!("{action}\n")).collect::<String>())
        .unwrap();
    let reason = loaded(folder.path()).await.unwrap_err();
    for part in [
        "plain.jsonl:",
        "field `content`",
        &format!("action {}", text + 1),
        "event.kind.text.text",
        "Not ",
    ] {
        assert!(reason.contains(part), "{part}: {reason}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn damaged_recordings_and_too_many_of_them_are_refused_too() {
    let folder = folder();
    let cases = folder.path().join("gemini.cases");
    let text = fs::read_to_string(cases.join("plain.jsonl")).unwrap();
    fs::write(cases.join("plain.jsonl"), text.replacen("\"in\"", "\"inn\"", 1)).unwrap();
    let reason = loaded(folder.path()).await.unwrap_err();
    assert!(reason.contains("plain.jsonl:2: "), "{reason}");
    fs::write(cases.join("plain.jsonl"), &text).unwrap();
    for number in 0..64 {
        fs::write(cases.join(format!("more-{number}.jsonl")), &text).unwrap();
    }
    let reason = loaded(folder.path()).await.unwrap_err();
    assert!(reason.contains("65 recordings") && reason.contains("at most 64"), "{reason}");
}

//! Mutation test: no change of a field in the agent's output loses an answer silently.

use std::path::Path;

use aetheel_backend_sdk::mutated::no_answer_is_lost;
use codex::Backend;

#[test]
fn no_changed_field_of_any_recording_loses_an_answer_silently() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/codex");
    no_answer_is_lost::<Backend>(&[""].map(|folder| fixtures.join(folder)));
}

//! Tests that the backend can be replaced during a conversation.

use super::gateway::LiveGateway;
use crate::support::model_server::{Gate, ModelServer, Reply};

/// Returns a component that behaves the same but has another digest: a custom section named `note`
/// is added.
fn changed(component: &[u8]) -> Vec<u8> {
    [component, b"\x00\x05\x04note"].concat()
}

#[tokio::test]
#[ignore = "needs the real CLI: make test-live"]
async fn a_backend_replaced_during_a_turn_serves_the_next_one_in_the_same_conversation() {
    let gate = Gate::new();
    let slow = Reply::text("One, ").then_pause_in_text(&gate).then_piece("two.");
    let gateway = LiveGateway::new(ModelServer::replying([slow, Reply::text("Three.")]).await);
    let component = gateway.path("backends/claude.wasm");
    let old = std::fs::read(&component).unwrap();

    let mut talk = gateway.start();
    talk.say("Count to two.").await;
    gate.reached().await;
    // Writes in place, as a plain copy does. The watcher must not load an incomplete file.
    std::fs::write(&component, changed(&old)).unwrap();
    talk.logged("\"generation\":\"2@").await;
    gate.open();
    talk.printed("One, two.\n").await;
    std::fs::write(&component, &old[..old.len() / 2]).unwrap();
    talk.logged("backend file ").await;
    talk.say("And on.").await;
    talk.ended().await.answers("One, two.\nThree.\n");

    let [first, second] = &gateway.recordings()[..] else { panic!("two recordings") };
    assert_eq!(
        (first.header.generation, second.header.generation),
        (1, 2),
        "an incomplete file changes nothing"
    );
    assert_ne!(first.header.digest, second.header.digest);
    assert_eq!(second.flag("--resume"), first.flag("--session-id"));
    assert_eq!(gateway.model.requests()[1].prompts(), ["Count to two.", "And on."]);
}

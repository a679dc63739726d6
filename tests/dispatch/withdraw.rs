//! Tests of prompts that are withdrawn or changed while they wait.

use aetheel_dispatch::PromptRefusal;
use aetheel_model::event::NewEvent;

use crate::support::scripted::{Desk, DeskOptions, behind_a_gate, message};

fn keyed(channel: u64, prompt: &str) -> NewEvent {
    NewEvent { key: Some(format!("discord:{prompt}")), ..message(channel, prompt) }
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_prompts_can_be_edited_and_withdrawn_and_running_ones_continue() {
    let (release, launcher) = behind_a_gate(false);
    let desk = Desk::new(launcher, DeskOptions { slots: 1, ..DeskOptions::default() }).await;
    let dispatcher = &desk.dispatcher;
    let ahead: Vec<usize> = ["first", "second", "third", "fourth"]
        .map(|prompt| dispatcher.intake.submit(keyed(1, prompt)).unwrap().ahead)
        .into();
    assert_eq!(ahead, [0, 1, 2, 3]);
    assert_eq!(dispatcher.intake.amend("discord:first", "changed"), Ok(false), "it runs");
    assert!(!dispatcher.intake.withdraw("discord:first"), "it runs");
    assert_eq!(dispatcher.intake.amend("discord:third", "changed"), Ok(true));
    assert!(matches!(
        dispatcher.intake.amend("discord:third", &"x".repeat(300 << 10)),
        Err(PromptRefusal::TooLong { .. })
    ));
    assert!(dispatcher.intake.withdraw("discord:second"));
    assert!(!dispatcher.intake.withdraw("discord:second"), "only once");
    assert_eq!(dispatcher.intake.amend("discord:nobody", "x"), Ok(false));
    release.send_replace(true);
    dispatcher.turns.idle().await;
    let prompts: Vec<String> = desk
        .collected
        .answers(3)
        .await
        .into_iter()
        .map(|(event, _)| event.request.prompt)
        .collect();
    assert_eq!(prompts, ["first", "changed", "fourth"]);
    assert_eq!(desk.launcher.prompts(), prompts);
}

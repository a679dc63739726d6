//! Tests of the memory's scope: a note is shown only where it was made, with the name of the member
//! who made it.

use std::sync::{Arc, Mutex};

use aetheel_model::agent::{Exit, HostCommand, Input};
use aetheel_model::event::{EventKind, EventOrigin, Lane, NewEvent};
use aetheel_model::id::UserId;

use crate::support::scripted::{
    Agent, Desk, DeskOptions, ScriptedLauncher, Understanding, message, plain,
};

/// Starts a desk whose agent remembers every prompt. Also returns the system prompts that the agent
/// received.
async fn remembering() -> (Desk, Arc<Mutex<Vec<String>>>) {
    let prompts = Arc::new(Mutex::new(Vec::new()));
    let (seen, usual) = (prompts.clone(), plain());
    let understanding: Understanding = Arc::new(move |state, input| {
        if let Input::Command(HostCommand::StartTurn(start)) = &input {
            seen.lock().unwrap().push(start.settings.system_prompt.clone().unwrap());
        }
        usual(state, input)
    });
    let launcher = ScriptedLauncher::new(|agent: Agent| async move {
        let fact = agent.prompt.split(": ").last().unwrap().replace('\n', " ");
        agent
            .say(&[
                "text ok\n\n",
                "text ```memory\n",
                &format!("text - {fact}\n"),
                "text ```",
                "done",
            ])
            .await;
        agent.exit(Exit::Code(0), "").await;
    });
    (Desk::new(launcher, DeskOptions { understanding, ..DeskOptions::default() }).await, prompts)
}

async fn ask(desk: &Desk, event: NewEvent) {
    desk.dispatcher.intake.submit(event).unwrap();
    desk.dispatcher.turns.idle().await;
}

fn of(channel: u64, id: u64, name: &str, words: &str) -> NewEvent {
    NewEvent {
        author: Some(name.to_owned()),
        asker: Some(UserId::discord(id)),
        ..message(channel, words)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_members_memory_reaches_no_other_channel_no_webhook_and_no_operator() {
    let (desk, prompts) = remembering().await;
    std::fs::write(desk.folder.path().join("config/memory.md"), "# Memory\n\n- kept for all\n")
        .unwrap();
    ask(&desk, of(1, 4, "Ann", "secret-of-ann")).await;
    ask(&desk, of(1, 5, "Bob", "bob-in-one")).await;
    ask(&desk, of(2, 5, "Bob", "bob-in-two")).await;
    let internal = |kind, lane| {
        NewEvent::new(kind, lane, EventOrigin::Internal { channel: None }, "from: elsewhere")
    };
    ask(&desk, internal(EventKind::Webhook, Lane::Webhook("deploy".to_owned()))).await;
    ask(&desk, internal(EventKind::Cron, Lane::Cron("daily".to_owned()))).await;
    ask(
        &desk,
        NewEvent::new(EventKind::Message, Lane::Console, EventOrigin::Console, "from: console"),
    )
    .await;
    ask(&desk, of(1, 4, "Ann", "again")).await;
    let prompts = prompts.lock().unwrap();
    assert_eq!(prompts.len(), 7);
    let today = jiff::Timestamp::now().strftime("%Y-%m-%d").to_string();
    assert!(
        prompts[1].contains(&format!(
            "## Noted Here\n\n### Memory\n\n- {today} [Ann, 4] secret-of-ann\n"
        )),
        "{}",
        prompts[1]
    );
    for other in &prompts[2..6] {
        assert!(!other.contains("secret-of-ann") && !other.contains("bob-in-one"), "{other}");
    }
    assert!(
        prompts[6].contains("[Ann, 4] secret-of-ann")
            && prompts[6].contains("[Bob, 5] bob-in-one")
            && !prompts[6].contains("bob-in-two")
    );
    assert!(
        prompts.iter().all(|prompt| prompt.contains("- kept for all")),
        "the operator's memory is shown everywhere"
    );
    let file =
        |name: &str| std::fs::read_to_string(desk.folder.path().join("config").join(name)).unwrap();
    assert_eq!(
        file("memory.md"),
        "# Memory\n\n- kept for all\n- console\n",
        "only the terminal writes to it"
    );
    assert!(file("memory/webhook-deploy.md").contains("[webhook:deploy] elsewhere"));
}

#[tokio::test(flavor = "multi_thread")]
async fn channels_of_a_project_share_a_memory_unless_the_operator_separates_them() {
    let (desk, prompts) = remembering().await;
    let channels = "## project site\n- mode: build\n\n## channel 1\n- project: site\n\n## channel 2\n- project: site\n\n\
        ## channel 3\n- project: site\n- memory: own\n\n## channel 4\n- memory: shared\n\n## channel 5\n- memory: none\n";
    std::fs::write(desk.folder.path().join("config/channels.md"), channels).unwrap();
    for channel in [1, 4, 5] {
        ask(&desk, of(channel, 4, "Ann", &format!("fact-of-{channel}"))).await;
    }
    for channel in [2, 3, 5] {
        ask(&desk, of(channel, 5, "Bob", "what-is-known")).await;
    }
    let prompts = prompts.lock().unwrap().clone();
    assert!(prompts[3].contains("[Ann, 4] fact-of-1"), "the same project: {}", prompts[3]);
    assert!(!prompts[4].contains("fact-of-1") && !prompts[5].contains("fact-of-1"));
    assert!(
        prompts[3..].iter().all(|prompt| prompt.contains("[Ann, 4] fact-of-4")),
        "shared with all, and still with the member's name"
    );
    assert!(prompts.iter().all(|prompt| !prompt.contains("fact-of-5")), "nothing is noted there");
    let answers = desk.collected.answers(6).await;
    assert!(
        answers[2].1.notices.iter().any(|notice| notice.contains("notes are disabled here")),
        "{:?}",
        answers[2].1
    );
}

//! The durable intake: after a kill at any time, the next process knows every event that was
//! acknowledged, refused or postponed.

use std::time::Duration;

use rustix::process::{Resource, Rlimit, Signal, getrlimit, kill_process, prlimit};

use super::{installed, serving, used_a_tool};
use crate::support::discord::{ANN, BOB, CHANNEL, Fault, LocalDiscord, OTHER, Request};
use crate::support::program::{Installation, Program};

async fn kill_gateway(mut program: Program) {
    program.signal(Signal::KILL);
    program.ended().await;
}

#[tokio::test]
async fn a_command_killed_after_its_acknowledgement_is_answered_in_its_message() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local);
    let program = serving(&installation).await;
    local.faults().latency(Duration::from_millis(200));
    let id = local.slash(CHANNEL, ANN, "ask", Some("are you there?"));
    local.wait_for("the acknowledgement", |local| local.interaction(id).acknowledged).await;
    kill_gateway(program).await;
    local.faults().latency(Duration::ZERO);
    let _next = serving(&installation).await;
    let answer = local.answer_to(id).await;
    let whole = local.wait_for("the whole answer", |local| {
        local.messages(CHANNEL).into_iter().find(|message| {
            message.id == answer.id && message.content.contains("of our conversation.")
        })
    });
    assert!(whole.await.content.starts_with("> 💬 are you there?\nYou said: are you there?"));
    assert_eq!(
        local.texts(CHANNEL).len(),
        1,
        "one message, which is the answer: {:?}",
        local.texts(CHANNEL)
    );
}

#[tokio::test]
async fn a_reset_is_done_before_its_answer_and_a_steering_message_is_saved_before_its_acknowledgement()
 {
    let local = LocalDiscord::start().await;
    let installation = installed(&local);
    let program = serving(&installation).await;
    local.mention(CHANNEL, ANN, "hello");
    local.wait_for_message(CHANNEL, |text| text.starts_with("You said: hello")).await;
    local.faults().latency(Duration::from_millis(300));
    let id = local.slash(CHANNEL, ANN, "reset", None);
    let (_, kind) =
        local.wait_for("the acknowledgement", |local| local.interaction(id).acknowledged).await;
    kill_gateway(program).await;
    assert_eq!(kind, 4, "answered without a deferral");
    assert!(
        !installation.read("state/sessions.md").contains("demo-"),
        "{}",
        installation.read("state/sessions.md")
    );
    assert!(local.answer_to(id).await.content.starts_with("Done: "));
    local.faults().latency(Duration::ZERO);

    let program = serving(&installation).await;
    local.mention(CHANNEL, ANN, "slow 2");
    local.wait_for_message(CHANNEL, |text| text.contains("Second 1.")).await;
    local.faults().latency(Duration::from_millis(300));
    let id = local.slash(CHANNEL, ANN, "steer", Some("and hurry"));
    local.wait_for("the acknowledgement", |local| local.interaction(id).acknowledged).await;
    kill_gateway(program).await;
    local.faults().latency(Duration::ZERO);
    let _next = serving(&installation).await;
    let answer = local
        .wait_for_message(CHANNEL, |text| text.starts_with("> 💬 and hurry\nYou said: and hurry"))
        .await;
    assert_eq!(answer.id, local.answer_to(id).await.id, "in the message of the command");
    let texts = local.texts(CHANNEL);
    assert_eq!(texts.iter().filter(|text| text.ends_with("There.")).count(), 1, "{texts:?}");
}

#[tokio::test]
async fn messages_that_arrive_during_catching_up_are_answered_once_and_in_order_after_a_kill() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local);
    let program = serving(&installation).await;
    local.mention(CHANNEL, ANN, "before");
    local.wait_for_message(CHANNEL, |text| text.starts_with("You said: before")).await;
    local
        .wait_for("the mark", |_| {
            installation.read("state/discord.md").contains(&CHANNEL.to_string()).then_some(())
        })
        .await;
    kill_gateway(program).await;
    local.mention(CHANNEL, ANN, "missed");
    local.faults().next("GET", &format!("/channels/{CHANNEL}/messages"), Fault::Status(503), 1_000);
    let program = serving(&installation).await;
    let is_try = |request: &Request| {
        request.method == "GET" && request.path.ends_with(&format!("/channels/{CHANNEL}/messages"))
    };
    local
        .wait_for("the first try", |local| local.requests().iter().any(is_try).then_some(()))
        .await;
    // Neither message is acknowledged or saved. The saved position in the channel is still before
    // both.
    local.mention(CHANNEL, ANN, "live");
    local.mention(OTHER, ANN, "elsewhere");
    local.wait_for_message(OTHER, |text| text.starts_with("You said: elsewhere")).await;
    kill_gateway(program).await;
    assert!(!installation.read("state/queue.md").contains("missed"));
    local.faults().clear();
    let _next = serving(&installation).await;
    local.wait_for_message(CHANNEL, |text| text.starts_with("You said: live")).await;
    let said: Vec<String> = local
        .texts(CHANNEL)
        .into_iter()
        .map(|text| text.lines().next().unwrap_or_default().to_owned())
        .collect();
    assert_eq!(said, ["You said: before", "You said: missed", "You said: live"]);
}

#[tokio::test]
async fn a_posted_draft_that_was_not_noted_is_marked_as_unfinished_after_a_kill() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local).with("DEMO_AGENT_DELAY_MS", "150");
    let bot = serving(&installation).await;
    // Discord executes requests at once and answers later. The gateway is killed in between.
    local.faults().latency(Duration::from_millis(1_500));
    let question = local.mention(CHANNEL, ANN, "tool");
    let draft = local.wait_for("the draft", |local| local.messages(CHANNEL).pop()).await;
    used_a_tool(&local, &installation).await;
    kill_gateway(bot).await;
    // As in a crash of the machine, the agents end, too.
    for holder in installation.holders() {
        kill_process(holder, Signal::KILL).unwrap();
    }
    local.wait_for("no holder", |_| installation.holders().is_empty().then_some(())).await;
    assert!(
        !installation.read("state/queue.md").contains("posted"),
        "the draft was already noted, so the test proves nothing"
    );
    local.faults().latency(Duration::ZERO);
    let _next = serving(&installation).await;
    let notice = local.wait_for_message(CHANNEL, |text| text.ends_with("(interrupted)")).await;
    let found = local.messages(CHANNEL).remove(0);
    assert!(
        found.id == draft.id
            && found.content.ends_with("This is not finished: I was interrupted here."),
        "{}",
        found.content
    );
    assert_eq!((local.texts(CHANNEL).len(), notice.reply_to), (2, Some(question)));
}

#[tokio::test]
async fn messages_written_while_the_gateway_was_down_are_not_rate_limited() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local).with("USER_PROMPTS_PER_MINUTE", "1");
    let program = serving(&installation).await;
    local.mention(CHANNEL, ANN, "one");
    local.wait_for_message(CHANNEL, |text| text.starts_with("You said: one")).await;
    local
        .wait_for("the mark", |_| {
            installation.read("state/discord.md").contains(&CHANNEL.to_string()).then_some(())
        })
        .await;
    kill_gateway(program).await;
    for prompt in ["two", "three", "four"] {
        local.mention(CHANNEL, ANN, prompt);
    }
    let _next = serving(&installation).await;
    local.wait_for_message(CHANNEL, |text| text.starts_with("You said: four")).await;
    local.mention(CHANNEL, ANN, "five");
    local.wait_for_message(CHANNEL, |text| text.starts_with("You said: five")).await;
    local.mention(CHANNEL, ANN, "six");
    local.wait_for_message(CHANNEL, |text| text.contains("asking faster")).await;
    assert_eq!(local.texts(CHANNEL).len(), 6, "{:?}", local.texts(CHANNEL));
}

/// A name, and whether `/new` has reached this point in Discord.
type Point = (&'static str, fn(&LocalDiscord, u64) -> bool);

const POINTS: [Point; 4] = [
    ("it was acknowledged", |local, id| local.interaction(id).acknowledged.is_some()),
    ("its message is there", |local, _| {
        local.texts(CHANNEL).iter().any(|text| text.starts_with("🧵"))
    }),
    ("its thread is there", |local, _| !local.threads().is_empty()),
    ("its thread says what was asked", |local, _| {
        local.threads().first().is_some_and(|thread| !local.texts(thread.0).is_empty())
    }),
];

#[tokio::test]
async fn a_new_conversation_killed_at_any_point_has_one_thread_and_one_answer() {
    for (when, reached) in POINTS {
        let local = LocalDiscord::start().await;
        let installation = installed(&local);
        let program = serving(&installation).await;
        // Discord executes requests at once and answers later. The gateway is killed in between.
        local.faults().latency(Duration::from_millis(300));
        let id = local.slash(CHANNEL, ANN, "new", Some("begin here"));
        local.wait_for(when, |local| reached(local, id).then_some(())).await;
        kill_gateway(program).await;
        local.faults().latency(Duration::ZERO);
        let _next = serving(&installation).await;
        let thread = local
            .wait_for("a thread", |local| local.threads().first().map(|thread| thread.0))
            .await;
        local.wait_for_message(thread, |text| text.contains("of our conversation.")).await;
        assert_eq!(local.threads().len(), 1, "{when}");
        let texts = local.texts(thread);
        assert_eq!(texts.len(), 2, "{when}: {texts:?}");
        assert!(
            texts[0].starts_with("**ann**:") && texts[1].starts_with("You said: begin here"),
            "{when}: {texts:?}"
        );
        assert_eq!(
            local.texts(CHANNEL),
            ["🧵 New conversation: **begin here**"],
            "{when}: no message shows thinking"
        );
        assert_eq!(installation.recordings().len(), 1, "{when}: one turn ran");
    }
}

#[tokio::test]
async fn a_refused_prompt_is_neither_refused_again_nor_answered_after_a_kill() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local).with("USER_PROMPTS_PER_MINUTE", "1");
    let program = serving(&installation).await;
    local.mention(CHANNEL, ANN, "one");
    local.wait_for_message(CHANNEL, |text| text.starts_with("You said: one")).await;
    let refused = local.mention(CHANNEL, ANN, "too fast");
    local.wait_for_message(CHANNEL, |text| text.contains("asking faster")).await;
    kill_gateway(program).await;
    let _next = serving(&installation).await;
    // This later message is read after all missed ones.
    local.mention(CHANNEL, BOB, "and then");
    local.wait_for_message(CHANNEL, |text| text.starts_with("You said: and then")).await;
    let about: Vec<_> = local
        .messages(CHANNEL)
        .into_iter()
        .filter(|message| message.reply_to == Some(refused))
        .collect();
    assert_eq!(about.len(), 1, "{:?}", local.texts(CHANNEL));
}

#[tokio::test]
async fn a_saved_refusal_that_was_not_posted_is_posted_by_the_next_process() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local).with("USER_PROMPTS_PER_MINUTE", "1");
    let program = serving(&installation).await;
    local.mention(CHANNEL, ANN, "one");
    local.wait_for_message(CHANNEL, |text| text.starts_with("You said: one")).await;
    local.faults().next("POST", &format!("{CHANNEL}/messages"), Fault::Status(503), 1_000);
    let refused = local.mention(CHANNEL, ANN, "too fast");
    local
        .wait_for("the journal", |_| {
            installation.read("state/queue.md").contains("asking faster").then_some(())
        })
        .await;
    kill_gateway(program).await;
    local.faults().clear();
    let _next = serving(&installation).await;
    let refusal = local.wait_for_message(CHANNEL, |text| text.contains("asking faster")).await;
    assert_eq!(refusal.reply_to, Some(refused));
    assert_eq!(installation.recordings().len(), 1, "no turn ran for it");
}

fn limit(program: &Program, bytes: Option<u64>) {
    let maximum = getrlimit(Resource::Fsize).maximum;
    prlimit(Some(program.pid), Resource::Fsize, Rlimit { current: bytes, maximum })
        .expect("limited");
}

/// Starts a gateway, has it answer once, and then simulates a full disk with a limit of the file
/// size.
async fn without_room(local: &LocalDiscord, installation: &Installation) -> Program {
    let program = installation.start_in_shell("trap '' XFSZ; exec \"$0\" run");
    program.logs("aetheel is ready").await;
    local.mention(CHANNEL, ANN, "hello");
    local.wait_for_message(CHANNEL, |text| text.starts_with("You said: hello")).await;
    local
        .wait_for("the mark", |_| {
            installation.read("state/discord.md").contains(&CHANNEL.to_string()).then_some(())
        })
        .await;
    limit(&program, Some(16));
    program
}

#[tokio::test]
async fn prompts_that_wait_for_disk_space_are_answered_later_even_by_the_next_process() {
    for kill in [false, true] {
        let local = LocalDiscord::start().await;
        let installation = installed(&local);
        let program = without_room(&local, &installation).await;
        let waiting = local.mention(CHANNEL, ANN, "is there room?");
        local.mention(CHANNEL, ANN, "and after that?");
        local.wait_for_message(CHANNEL, |text| text.ends_with("(storage)")).await;
        // A command is refused for good, because it can be answered only once.
        let id = local.slash(OTHER, ANN, "ask", Some("not this"));
        local
            .wait_for("the refusal", |local| {
                (local.interaction(id).acknowledged?.1 == 4).then_some(())
            })
            .await;
        let _program = if kill {
            kill_gateway(program).await;
            serving(&installation).await
        } else {
            limit(&program, None);
            program
        };
        local.wait_for_message(CHANNEL, |text| text.starts_with("You said: and after that?")).await;
        let texts = local.texts(CHANNEL);
        assert_eq!(texts.len(), 4, "{texts:?}");
        assert!(
            texts[1].ends_with("(storage)") && texts[2].starts_with("You said: is there room?"),
            "{texts:?}"
        );
        assert_eq!(local.messages(CHANNEL)[2].reply_to, Some(waiting));
        assert_eq!(installation.recordings().len(), 3, "kill={kill}: the command did not run");
    }
}

#[tokio::test]
async fn messages_written_during_the_shutdown_are_answered_by_the_next_process() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local);
    let mut bot = serving(&installation).await;
    local.mention(CHANNEL, ANN, "slow 2");
    local.wait_for_message(CHANNEL, |text| text.contains("Second 1.")).await;
    bot.signal(Signal::INT);
    bot.logs("shutdown: intake closed").await;
    // No message was written in this channel before.
    local.mention(OTHER, ANN, "in the meantime");
    local.wait_for_message(OTHER, |text| text.contains("I am restarting")).await;
    assert_eq!(bot.ended().await.code, 0);
    let _next = serving(&installation).await;
    local.wait_for_message(OTHER, |text| text.starts_with("You said: in the meantime")).await;
    assert_eq!(local.texts(OTHER).len(), 2);
}

#[tokio::test]
async fn a_turn_stopped_after_a_tool_gets_its_button_and_its_text_appears_once() {
    // A holder would keep the agents of a killed gateway.
    for (signal, holder) in [(Signal::INT, "auto"), (Signal::KILL, "off")] {
        let local = LocalDiscord::start().await;
        let installation =
            installed(&local).with("DEMO_AGENT_DELAY_MS", "150").with("SHUTDOWN_GRACE_MS", "0");
        let installation = installation.with("AGENT_HOLDER", holder);
        let mut bot = serving(&installation).await;
        let question = local.mention(CHANNEL, ANN, "tool");
        used_a_tool(&local, &installation).await;
        local
            .wait_for("the draft's note", |_| {
                installation.read("state/queue.md").contains("posted").then_some(())
            })
            .await;
        bot.signal(signal);
        bot.ended().await;
        let installation = installation.with("DEMO_AGENT_DELAY_MS", "0");
        let _next = serving(&installation).await;
        let notice = local.wait_for_message(CHANNEL, |text| text.ends_with("(interrupted)")).await;
        assert_eq!(notice.reply_to, Some(question), "{signal:?}");
        let draft = local.messages(CHANNEL).remove(0);
        assert!(
            draft.content.ends_with("This is not finished: I was interrupted here."),
            "{signal:?}: {}",
            draft.content
        );
        local.press(notice.id, ANN, "Try again");
        local
            .wait_for_message(CHANNEL, |text| text.ends_with("One tool worked, one did not."))
            .await;
        let answers: Vec<_> =
            local.messages(CHANNEL).into_iter().filter(|message| message.id != notice.id).collect();
        assert_eq!(answers.len(), 1, "{signal:?}: {:?}", local.texts(CHANNEL));
        assert_eq!(answers[0].id, draft.id);
    }
}

//! Questions of agents and messages to running turns, with the whole program.

use rustix::process::Signal;

use super::{installed, serving};
use crate::support::discord::{ANN, BOB, CHANNEL, LocalDiscord, Message};
use crate::support::program::{Installation, Program};

const CONSOLE: &[&str] = &["console", "--backend", "demo"];

#[tokio::test]
async fn a_script_answers_questions_line_by_line_and_its_end_dismisses_the_rest() {
    let script = "ask make\nallow\nedit\nmaybe\ndeny it is mine\nquestion\nteal\n1, 3\nask ls\nstop\npropose\n";
    let ended = Installation::new().run(CONSOLE, script).await;
    let expected = "\
? Run `make`?
  shell
  1) Allow once
  2) Always in this session
  3) Deny; `deny WHY` says why
  4) Deny and stop
  Allowed by you
I would like to run something. Done, this once.
? Change notes.txt?
  edit
  | notes.txt
  | @@ -1,2 +1,2 @@
  |  A list
  | -of old things
  | +of new things
  1) Allow once
  2) Deny; `deny WHY` says why
  3) Deny and stop
  Denied by you: it is mine
Then not, because: it is mine
? I have two questions.
  Which colour do you like?
  1) Red
  2) Green
  3) Blue
  4) Deny
  Anything else is your answer in your own words.
  Which letters?
  1) A
  2) B
  3) C
  4) D
  5) E
  6) Deny
  Several may be chosen: 1,2
  Answered by you: teal · A, C
You answered: colour teal; letters A and C.
? Run `ls`?
  shell
  1) Allow once
  2) Always in this session
  3) Deny; `deny WHY` says why
  4) Deny and stop
  Denied and stopped by you
I would like to run something. 
? Shall I go on with this plan?
  | ## The plan
  | 
  | 1. Look at everything
  | 2. Think
  | 3. Change as little as possible
  1) Accept the plan
  2) Deny; `deny WHY` says why
  3) Deny and stop
  No one was available to answer, so the agent was refused.
There was no answer, so I did not.
";
    assert_eq!((ended.stdout.as_str(), ended.code), (expected, 1), "{}", ended.stderr);
    for reported in ["✗ please answer with one of: allow, deny, stop\n", "✗ Stopped.\n"] {
        assert!(ended.stderr.contains(reported), "{}", ended.stderr);
    }
}

async fn start_console(installation: &Installation) -> Program {
    let console = installation.start_at_terminal(CONSOLE);
    wait_for_text(&console, "/help for commands\r\n> ").await;
    console
}

async fn wait_for_text(console: &Program, text: &str) {
    console.prints(&format!("{text:?}"), |screen| screen.contains(text).then_some(())).await;
}

#[tokio::test]
async fn a_terminal_asks_below_the_text_so_far_and_stop_and_ctrl_c_still_work() {
    let installation = Installation::new();
    let mut console = start_console(&installation).await;
    console.type_in("ask make\n").await;
    wait_for_text(
        &console,
        "I would like to run something. \r\n? Run `make`?\r\n  shell\r\n  1) Allow once\r\n",
    )
    .await;
    wait_for_text(&console, "4) Deny and stop\r\n> ").await;
    console.type_in("2\n").await;
    wait_for_text(&console, "  Allowed for this session by you\r\n⚙ shell make\r\n  | $ make … 1 more line (/open 1)\r\nDone, and I will not ask again.\r\n[Demo agent").await;
    for (wish, number) in [("/stop\n", 1), ("\x03", 2)] {
        console.type_in("login\n").await;
        console
            .prints("the question", |screen| {
                (screen.matches("| https://example.com/device").count() == number).then_some(())
            })
            .await;
        console.type_in(wish).await;
        console
            .prints("its end", |screen| {
                (screen.matches("✗ Stopped.\r\n").count() == number).then_some(())
            })
            .await;
        assert_eq!(console.stdout().matches("No longer open: the turn is over.").count(), number);
    }
    console.type_in("hello\n").await;
    wait_for_text(&console, "You said: hello").await;
    console.type_in("\x04").await;
    assert_eq!(console.ended().await.code, 0);
}

#[tokio::test]
async fn a_message_that_a_working_agent_cannot_read_becomes_the_next_prompt() {
    let installation = Installation::new();
    let mut console = start_console(&installation).await;
    console.type_in("slow 2\n").await;
    wait_for_text(&console, "Second 1. ").await;
    console.type_in("/steer and hurry\n").await;
    wait_for_text(
        &console,
        "This agent takes no messages while it works: this is queued as your next prompt.",
    )
    .await;
    wait_for_text(&console, "You said: and hurry").await;
    console.type_in("/steer\n/steer hello\n").await;
    wait_for_text(&console, "✗ write the message for the agent after /steer").await;
    wait_for_text(&console, "You said: hello").await;
    console.type_in("\x04").await;
    assert_eq!(console.ended().await.code, 0);
}

async fn wait_for_question(local: &LocalDiscord) -> Message {
    local
        .wait_for("a question", |local| {
            local.messages(CHANNEL).into_iter().find(|message| local.asks(message.id))
        })
        .await
}

#[tokio::test]
async fn only_the_author_of_a_prompt_can_answer_its_question_in_discord() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local);
    let bot = serving(&installation).await;
    local.mention(CHANNEL, ANN, "ask make");
    let question = wait_for_question(&local).await;
    assert_eq!(question.content, format!("🔐 **Run \\`make\\`?** <@{ANN}>\n-# Tool: shell"));
    local.press(question.id, BOB, "Allow once");
    let word =
        local.wait_for_message(CHANNEL, |text| text.contains("may not answer this question")).await;
    assert!(word.ephemeral);
    bot.logs("refused an answer").await;
    local.press(question.id, ANN, "Allow once");
    local.wait_for_message(CHANNEL, |text| text.ends_with("✅ Allowed by ann")).await;
    local.wait_for_message(CHANNEL, |text| text == "Done, this once.").await;
    assert_eq!(bot.logs("question answered").await["decision"], "allow once");
    assert!(!bot.stderr().contains("serenity does not know"), "{}", bot.stderr());
    local
        .wait_for("a clean book", |_| {
            (!installation.read("state/discord.md").contains("`question:")).then_some(())
        })
        .await;
}

#[tokio::test]
async fn an_approver_can_answer_any_question_and_unanswered_questions_expire() {
    let local = LocalDiscord::start().await;
    let installation =
        installed(&local).with("APPROVERS", &BOB.to_string()).with("ASK_TIMEOUT_MS", "3000");
    let _bot = serving(&installation).await;
    local.mention(CHANNEL, ANN, "edit");
    let question = wait_for_question(&local).await;
    local.press(question.id, BOB, "Deny");
    local.wait_for_message(CHANNEL, |text| text.ends_with("🚫 Denied by bob")).await;
    local.wait_for_message(CHANNEL, |text| text == "Then not.").await;
    local.mention(CHANNEL, ANN, "propose");
    wait_for_question(&local).await;
    local
        .wait_for_message(CHANNEL, |text| text.contains("⌛ The question was not answered in time"))
        .await;
    local.wait_for_message(CHANNEL, |text| text == "There was no answer, so I did not.").await;
}

#[tokio::test]
async fn a_question_of_a_killed_gateway_is_closed_by_the_next_one() {
    let local = LocalDiscord::start().await;
    // A holder would keep the agents running.
    let installation = installed(&local).with("AGENT_HOLDER", "off");
    let bot = serving(&installation).await;
    local.mention(CHANNEL, ANN, "ask make");
    let question = wait_for_question(&local).await;
    let old = local.button(question.id, "Allow once").unwrap();
    local
        .wait_for("the book", |_| {
            installation.read("state/discord.md").contains("`question:").then_some(())
        })
        .await;
    bot.signal(Signal::KILL);
    drop(bot);
    let _next = serving(&installation).await;
    let closed = local
        .wait_for_message(CHANNEL, |text| {
            text.ends_with("⏹️ No longer open: the gateway was restarted.")
        })
        .await;
    assert!(closed.id == question.id && local.buttons(question.id).is_empty());
    let press = local.press_id(question.id, ANN, &old);
    local.wait_for("the acknowledgement", |local| local.interaction(press).acknowledged).await;
    local.wait_for_message(CHANNEL, |text| text == "This question is no longer open.").await;
}

#[tokio::test]
async fn steer_in_discord_reports_the_outcome_of_the_message() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local);
    let _bot = serving(&installation).await;
    local.mention(CHANNEL, ANN, "slow 3");
    local.wait_for_message(CHANNEL, |text| text.contains("Second 1.")).await;
    local.slash(CHANNEL, ANN, "steer", Some("and hurry"));
    local
        .wait_for_message(CHANNEL, |text| {
            text.starts_with("> 💬 and hurry\n") && text.contains("queued as your next prompt")
        })
        .await;
    local
        .wait_for_message(CHANNEL, |text| text.starts_with("> 💬 and hurry\nYou said: and hurry"))
        .await;
}

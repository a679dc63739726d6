//! Tests of agents' questions in Discord: buttons, menus and modal windows, the people who may use
//! them, and the removal of outdated ones.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use aetheel_dispatch::{AnswerRefusal, Excerpt, OpenQuestion, Outlet as _, Settlement, Subject};
use aetheel_model::agent::{AnswerForm, AskDecision, Question, QuestionChoice};
use aetheel_model::event::{EventOrigin, Lane};
use aetheel_model::id::{ChannelId, MessageId, UserId, UserOrRoleId};

use super::bot::{Bot, Home, Turn, answer};
use crate::support::discord::{
    ANN, BOB, CHANNEL, DIRECT, Fault, GUILD, LocalDiscord, Message, OWNER, ROLE,
};

pub(super) fn permission(always: Option<&str>) -> OpenQuestion {
    let about = Some(Excerpt { language: "sh", text: "make -j2".to_owned() });
    OpenQuestion {
        id: "0123456789abcdef".to_owned(),
        title: "Run the build?".to_owned(),
        subject: Subject::Permission { tool: "Bash".to_owned(), about },
        always: always.map(str::to_owned),
        options: vec![],
        input: None,
        asker: None,
        collision: None,
    }
}

fn questions(list: Vec<Question>) -> OpenQuestion {
    OpenQuestion { subject: Subject::Questions(list), ..permission(None) }
}

fn which(id: &str, options: &[&str], many: bool, free_text: bool) -> Question {
    let options = options.iter().map(|option| (*option).into()).collect();
    Question {
        id: id.to_owned(),
        text: format!("Which {id}?"),
        options,
        many,
        free_text,
        ..Question::default()
    }
}

/// Starts a turn of Ann whose agent has asked `question`. Returns the bot, the turn, the question's
/// id and the message with the buttons.
async fn asked(local: &LocalDiscord, question: &OpenQuestion) -> (Bot, Turn, String, Message) {
    let bot = Bot::start(local).await;
    let (turn, question) = bot.asked(local, (CHANNEL, ANN, "go"), question).await;
    let message = with_buttons(local).await;
    (bot, turn, question.id, message)
}

pub(super) async fn with_buttons(local: &LocalDiscord) -> Message {
    local
        .wait_for("a question", |local| {
            local.messages(CHANNEL).into_iter().find(|message| local.asks(message.id))
        })
        .await
}

/// Waits until a question was answered. Returns its id, the person's name and the decision.
pub(super) async fn decision(local: &LocalDiscord, bot: &Bot) -> (String, String, AskDecision) {
    local.wait_for("a decision", |_| bot.home.decided.lock().unwrap().pop()).await
}

async fn acknowledged(local: &LocalDiscord, interaction: u64) -> u64 {
    local
        .wait_for("the acknowledgement", |local| local.interaction(interaction).acknowledged)
        .await
        .1
}

/// Waits until the person who pressed the button gets this refusal in a message only they can see.
async fn expect_private_refusal(local: &LocalDiscord, interaction: u64, refusal: AnswerRefusal) {
    assert_eq!(acknowledged(local, interaction).await, 4, "{refusal}");
    let word = local.interaction(interaction).original.unwrap();
    let word = local.messages(CHANNEL).into_iter().find(|message| message.id == word).unwrap();
    assert_eq!((word.content, word.ephemeral), (refusal.to_string(), true));
}

fn answered(decision: AskDecision) -> Settlement {
    Settlement::Answered { by: "ann".to_owned(), decision }
}

#[tokio::test]
async fn a_question_is_posted_below_the_draft_and_typing_stops_while_it_waits() {
    let local = LocalDiscord::start().await;
    let bot = Bot::start(&local).await;
    let question = permission(Some("Always for make"));
    let (mut turn, question) = bot.asking(&local, (CHANNEL, ANN, "go"), &question).await;
    turn.say("I will build it.");
    turn.ask(&question);
    let message = with_buttons(&local).await;
    let texts = local.texts(CHANNEL);
    assert_eq!(
        texts,
        ["I will build it.", "🔐 **Run the build?**\n-# Tool: Bash\n```sh\nmake -j2\n```"]
    );
    assert_eq!(
        local.buttons(message.id),
        ["Allow once", "Always for make", "Deny", "Deny and say why…", "Deny and stop"]
    );
    let noted =
        format!("`question:{}` open in `channel:{CHANNEL}` at `{}`", question.id, message.id);
    local
        .wait_for("the saved question", |_| {
            bot.home.state("discord.md").contains(&noted).then_some(())
        })
        .await;
    let typed = local.typing(CHANNEL).len();
    assert!(typed > 0 && local.typing(CHANNEL).iter().all(|at| *at < message.created));

    let press = local.press(message.id, ANN, "Allow once");
    let decided = decision(&local, &bot).await;
    assert_eq!(decided, (question.id.clone(), "ann".to_owned(), AskDecision::AllowOnce));
    assert_eq!(acknowledged(&local, press).await, 6);
    turn.settled(&question.id, &answered(AskDecision::AllowOnce));
    let over =
        local.wait_for_message(CHANNEL, |text| text.ends_with("```\n-# ✅ Allowed by ann")).await;
    assert_eq!((over.id, local.buttons(over.id).len()), (message.id, 0));
    local
        .wait_for("the saved question to be removed", |_| {
            (!bot.home.is_noted(&question.id)).then_some(())
        })
        .await;
    local
        .wait_for("typing again", |local| (local.typing(CHANNEL).len() > typed).then_some(()))
        .await;
    turn.say(" Done.");
    turn.done("I will build it. Done.").await;
    assert_eq!(
        local.texts(CHANNEL),
        ["I will build it.", over.content.as_str(), "Done."],
        "later text is below"
    );
    assert!(local.messages(CHANNEL).iter().all(|message| local.buttons(message.id).is_empty()));
}

#[tokio::test]
async fn a_question_pings_the_asker_once_in_a_reply_to_the_prompt() {
    let local = LocalDiscord::start().await;
    let bot = Bot::start(&local).await;
    let prompt = local.mention(CHANNEL, ANN, "go");
    let mut turn = bot.turn(&local, "go").await;
    let long = Some(Excerpt { language: "sh", text: "make ".repeat(600) });
    let subject = Subject::Permission { tool: "Bash".to_owned(), about: long };
    turn.ask(&OpenQuestion {
        asker: Some(UserId::discord(ANN)),
        subject,
        ..permission(Some("make"))
    });
    let message = with_buttons(&local).await;
    assert!(local.buttons(message.id).contains(&"Always allow: make".to_owned()));
    let called: Vec<_> = local
        .messages(CHANNEL)
        .into_iter()
        .filter(|message| message.content.contains(&format!("<@{ANN}>")))
        .collect();
    assert!(
        matches!(&called[..], [first] if first.reply_to == Some(prompt)),
        "once, in a reply to the prompt: {called:?}"
    );
    let pings = local
        .requests()
        .into_iter()
        .filter(|request| request.body.contains(r#""users":["#))
        .count();
    assert_eq!(pings, 1);
    turn.done("so").await;
}

#[tokio::test]
async fn a_typed_word_answers_a_question_and_is_not_a_prompt() {
    let local = LocalDiscord::start().await;
    let (bot, turn, _, _) = asked(&local, &permission(None)).await;
    let refused = local.mention(CHANNEL, BOB, "allow");
    let told =
        local.wait_for_message(CHANNEL, |text| text.contains("may not answer this question")).await;
    assert_eq!(told.reply_to, Some(refused));
    local.mention(CHANNEL, ANN, "allow me to explain");
    let allowed = local.mention(CHANNEL, ANN, "allow");
    assert_eq!(decision(&local, &bot).await.2, AskDecision::AllowOnce);
    bot.event(&local, "allow me to explain").await;
    assert_eq!(bot.home.last_seen(CHANNEL).await, Some(allowed));
    // Without an open question, the word is an ordinary prompt.
    local.mention(CHANNEL, ANN, "allow");
    bot.event(&local, "allow").await;
    assert_eq!(bot.home.prompts(), ["go", "allow me to explain", "allow"]);
    turn.done("so").await;
}

#[tokio::test]
async fn every_button_makes_its_decision_and_texts_come_from_a_modal() {
    let local = LocalDiscord::start().await;
    let bot = Bot::start(&local).await;
    let all = [
        ("Allow once", AskDecision::AllowOnce),
        ("Always", AskDecision::AllowAlways),
        ("Deny", AskDecision::Deny(None)),
        ("Deny and stop", AskDecision::DenyAndStop),
        ("Deny and say why…", AskDecision::Deny(Some("use ninja".to_owned()))),
    ];
    for (label, expected) in all {
        let question = permission(Some("Always"));
        let (turn, _) = bot.asked(&local, (CHANNEL, ANN, label), &question).await;
        let message = with_buttons(&local).await;
        let mut press = local.press(message.id, ANN, label);
        if expected == AskDecision::Deny(Some("use ninja".to_owned())) {
            assert_eq!(acknowledged(&local, press).await, 9);
            press = local.fill(press, ANN, "use ninja").await;
        }
        assert_eq!(decision(&local, &bot).await.2, expected, "{label}");
        assert_eq!(acknowledged(&local, press).await, 6);
        turn.done("so").await;
        bot.dispatcher.turns.idle().await;
    }
}

#[tokio::test]
async fn owners_approvers_and_people_in_direct_messages_may_answer() {
    let local = LocalDiscord::start().await;
    // Approvers can be everybody with a role, or every member of the guild.
    for (approvers, presses, by) in [
        (vec![], OWNER, "olga"),
        (vec![UserOrRoleId::discord(ROLE)], ANN, "ann"),
        (vec![UserOrRoleId::discord(GUILD)], ANN, "ann"),
    ] {
        let bot =
            Bot::with_home(&local, &Home::with(|home| home.approvers = approvers).await).await;
        let asker = if presses == OWNER { ANN } else { OWNER };
        let (turn, _) = bot.asked(&local, (CHANNEL, asker, by), &permission(None)).await;
        let message = with_buttons(&local).await;
        local.press(message.id, presses, "Allow once");
        assert_eq!(decision(&local, &bot).await.1, by);
        turn.done("so").await;
        bot.listening.close().await;
    }
    let bot = Bot::start(&local).await;
    local.say(DIRECT, ANN, "in private");
    bot.event(&local, "in private").await;
    let (turn, _) = bot.asked(&local, (DIRECT, ANN, "and again"), &permission(None)).await;
    let message = local.wait_for_message(DIRECT, |text| text.contains("Run the build?")).await;
    local.press(message.id, ANN, "Deny");
    assert_eq!(decision(&local, &bot).await.1, "ann");
    turn.done("so").await;
}

#[tokio::test]
async fn people_who_may_not_answer_get_a_private_refusal_and_no_modal() {
    let local = LocalDiscord::start().await;
    let (bot, turn, _, message) = asked(&local, &permission(None)).await;
    for label in ["Allow once", "Deny and say why…"] {
        let press = local.press(message.id, BOB, label);
        expect_private_refusal(&local, press, AnswerRefusal::NotYours).await;
    }
    assert_eq!(local.buttons(message.id).len(), 4, "it is still open");
    assert!(bot.home.decided.lock().unwrap().is_empty());
    turn.done("so").await;
}

#[tokio::test]
async fn an_invalid_answer_expect_private_refusal_and_the_question_stays_open() {
    let local = LocalDiscord::start().await;
    let number = Question { form: AnswerForm::Whole, ..which("number", &[], false, true) };
    let (bot, turn, _, message) = asked(&local, &questions(vec![number])).await;
    let buttons = local.buttons(message.id);
    let press = local.press(message.id, ANN, "Write an answer…");
    assert_eq!(acknowledged(&local, press).await, 9);
    let filled = local.fill(press, ANN, "many").await;
    expect_private_refusal(
        &local,
        filled,
        AnswerRefusal::Misfit("The answer must be a whole number."),
    )
    .await;
    assert_eq!(local.buttons(message.id), buttons, "it is still open");
    assert!(bot.home.decided.lock().unwrap().is_empty());
    turn.done("so").await;
}

#[tokio::test]
async fn several_questions_are_asked_one_after_the_other_in_one_message() {
    let local = LocalDiscord::start().await;
    let list = vec![
        which("colour", &["red", "green"], false, false),
        which("letters", &["a", "b", "c", "d", "e"], true, false),
        which("number", &[], false, true),
    ];
    let (bot, mut turn, question, message) = asked(&local, &questions(list)).await;
    let shows = |number: u8| {
        let wanted = format!("({number} of 3)");
        local.wait_for_message(CHANNEL, move |text| text.contains(&wanted))
    };
    assert_eq!(shows(1).await.content, "❓ **Run the build?** (1 of 3)\n> Which colour?");
    assert_eq!(local.buttons(message.id), ["red", "green", "Deny", "Deny and stop"]);
    let old = local.button(message.id, "red").unwrap();
    let press = local.press(message.id, ANN, "green");
    assert_eq!(acknowledged(&local, press).await, 7);
    shows(2).await;
    // A second click on a button that was removed changes nothing.
    let late = local.press_id(message.id, ANN, &old);
    assert_eq!(acknowledged(&local, late).await, 7);
    local.choose(message.id, ANN, &["b", "d"]);
    shows(3).await;
    let press = local.press(message.id, ANN, "Write an answer…");
    local.fill(press, ANN, "twelve").await;
    let owned =
        |values: &[&str]| values.iter().map(|value| (*value).to_owned()).collect::<Vec<_>>();
    let answers = AskDecision::Answers(vec![
        ("colour".to_owned(), owned(&["green"])),
        ("letters".to_owned(), owned(&["b", "d"])),
        ("number".to_owned(), owned(&["twelve"])),
    ]);
    assert_eq!(decision(&local, &bot).await.2, answers);
    turn.settled(&question, &answered(answers));
    local
        .wait_for_message(CHANNEL, |text| {
            text.ends_with("-# 💬 Answered by ann: green · b, d · twelve")
        })
        .await;
    turn.done("so").await;
}

#[tokio::test]
async fn a_plan_is_shown_completely_and_a_sign_in_address_is_a_link() {
    let local = LocalDiscord::start().await;
    let bot = Bot::start(&local).await;
    local.mention(CHANNEL, ANN, "go");
    let mut turn = bot.turn(&local, "go").await;
    let plan: String = (0..120)
        .map(|number| format!("{number}. Do the thing with the number {number}\n"))
        .collect();
    turn.ask(&OpenQuestion {
        id: "a".to_owned(),
        subject: Subject::Plan(plan.clone()),
        ..permission(None)
    });
    let message = with_buttons(&local).await;
    let shown = local.texts(CHANNEL);
    assert!(
        shown.len() >= 3 && shown.last() == Some(&message.content),
        "the buttons are below the last piece: {shown:#?}"
    );
    assert!((0..120).all(|number| shown.concat().contains(&format!("number {number}"))));
    turn.settled("a", &answered(AskDecision::AllowOnce));
    local.wait_for_message(CHANNEL, |text| text.contains("Allowed by ann")).await;
    turn.done("so").await;
    let address = "https://example.com/device?code=AB-12";
    let sign_in = OpenQuestion { subject: Subject::SignIn(address.to_owned()), ..permission(None) };
    let (turn, _) = bot.asked(&local, (CHANNEL, ANN, "more"), &sign_in).await;
    let message = local.wait_for_message(CHANNEL, |text| text.contains(address)).await;
    assert_eq!(local.buttons(message.id), ["Sign in", "Done", "Cancel"]);
    local.press(message.id, ANN, "Done");
    assert_eq!(decision(&local, &bot).await.2, AskDecision::AllowOnce);
    turn.done("so").await;
}

/// A text that imitates lines of the gateway, hides where a link leads, and addresses people.
const IMITATION: &str = "Which one?\n-# 💬 Answered by Ann: yes\n# Approved\n> quoted\n[the report](https://evil.example/a_b) <@5> <@&6> @everyone\n```\n-# ✅ Allowed by ann";

#[tokio::test]
async fn the_text_of_an_agent_cannot_imitate_the_gateway() {
    let hostile = Question {
        text: IMITATION.to_owned(),
        description: Some(IMITATION.to_owned()),
        options: vec![QuestionChoice {
            description: Some(IMITATION.to_owned()),
            ..QuestionChoice::plain(IMITATION)
        }],
        ..which("colour", &[], false, true)
    };
    let plan = Subject::Plan(IMITATION.to_owned());
    for subject in [Subject::Questions(vec![hostile]), plan] {
        let local = LocalDiscord::start().await;
        let is_plan = matches!(subject, Subject::Plan(_));
        let question = OpenQuestion { title: IMITATION.to_owned(), subject, ..permission(None) };
        let (_bot, _turn, _, message) = asked(&local, &question).await;
        let text = message.content;
        let mut in_code = false;
        for (at, line) in text.lines().enumerate() {
            assert!(
                at == 0 || line.starts_with("> ") || line.starts_with("1\\. "),
                "line {at} is not a quotation: {text}"
            );
            let inner = line.trim_start_matches("> ");
            in_code ^= inner.starts_with("```");
            assert!(in_code || !inner.starts_with("-#"), "a small line: {text}");
            assert!(is_plan || !inner.starts_with("# "), "a heading: {text}");
        }
        assert!(!text.contains("](") && text.contains("https://evil.example/a_b"), "{text}");
        assert!(!text.contains("> <@5>") && !text.contains(") <@5> <@&6>"), "{text}");
    }
}

#[tokio::test]
async fn an_unanswered_question_is_marked_as_closed_and_a_late_click_changes_nothing() {
    for (how, says) in [
        (Settlement::Expired, "⌛ The question was not answered in time"),
        (Settlement::Withdrawn, "⏹️ The agent withdrew the question"),
        (Settlement::TurnEnded, "⏹️ No longer open: the turn is over"),
    ] {
        let local = LocalDiscord::start().await;
        let (bot, mut turn, question, message) = asked(&local, &permission(None)).await;
        let old = local.button(message.id, "Allow once").unwrap();
        assert!(bot.dispatcher.turns.stop(&Lane::Channel(ChannelId::discord(CHANNEL))));
        bot.dispatcher.turns.idle().await;
        turn.settled(&question, &how);
        turn.done("The end.").await;
        let over = local.wait_for_message(CHANNEL, |text| text.contains(says)).await;
        assert!(local.buttons(over.id).is_empty());
        local
            .wait_for("the saved question to be removed", |_| {
                (!bot.home.is_noted(&question)).then_some(())
            })
            .await;
        let press = local.press_id(message.id, ANN, &old);
        assert_eq!(acknowledged(&local, press).await, 7);
        let word = local
            .wait_for_message(CHANNEL, |text| text == "This question is no longer open.")
            .await;
        assert!(word.ephemeral);
        let after =
            local.messages(CHANNEL).into_iter().find(|found| found.id == message.id).unwrap();
        assert_eq!(after.content, over.content, "the outcome is still shown");
    }
}

#[tokio::test]
async fn after_a_restart_open_questions_are_closed_and_old_buttons_are_answered() {
    let local = LocalDiscord::start().await;
    let (bot, turn, question, first) = asked(&local, &permission(None)).await;
    // The bot is killed, so it cannot close anything.
    let home = Arc::clone(&bot.home);
    local.wait_for("the saved question", |_| home.is_noted(&question).then_some(())).await;
    drop(bot.listening);
    std::mem::forget(turn);
    local
        .wait_for("the end of the first bot", |local| (local.connections() == 0).then_some(()))
        .await;
    let gone = local.say(CHANNEL, ANN, "not a question");
    local.delete(gone);
    home.workspace.state.discord.open_question(
        "b",
        ChannelId::discord(CHANNEL),
        MessageId::discord(gone),
    );
    let old = local.button(first.id, "Allow once").unwrap();
    let again = Bot::with_home(&local, &home).await;
    let closed = local
        .wait_for_message(CHANNEL, |text| {
            text.ends_with("⏹️ No longer open: the gateway was restarted.")
        })
        .await;
    assert!(
        closed.id == first.id
            && closed.content.contains("make -j2")
            && local.buttons(first.id).is_empty()
    );
    local
        .wait_for("the saved questions to be removed", |_| {
            (!home.is_noted(&question) && !home.is_noted("b")).then_some(())
        })
        .await;
    let press = local.press_id(first.id, ANN, &old);
    assert_eq!(acknowledged(&local, press).await, 7);
    local.wait_for_message(CHANNEL, |text| text == "This question is no longer open.").await;
    // The question is closed even if nothing was saved about it.
    local.mention(CHANNEL, ANN, "more");
    let mut turn = again.turn(&local, "more").await;
    turn.ask(&permission(None));
    let second = with_buttons(&local).await;
    let press = local.press_id(second.id, ANN, "ask:fedcba9876543210:allow");
    assert_eq!(acknowledged(&local, press).await, 7);
    let shown = local.wait_for_message(CHANNEL, |text| text.ends_with("⏹️ No longer open.")).await;
    assert!(shown.id == second.id && local.buttons(second.id).is_empty());
    let strange = local.press_id(second.id, ANN, "page:2");
    assert_eq!(acknowledged(&local, strange).await, 4);
    turn.done("so").await;
}

#[tokio::test]
async fn a_question_that_cannot_be_posted_is_dismissed() {
    let local = LocalDiscord::start().await;
    let bot = Bot::start(&local).await;
    local.mention(CHANNEL, ANN, "go");
    let mut turn = bot.turn(&local, "go").await;
    local.faults().next("POST", "/messages", Fault::Refuse(403, 50013), 1);
    let dismissed = turn.ask(&permission(None));
    local.wait_for("the dismissal", |_| dismissed.load(Ordering::SeqCst).then_some(())).await;
    assert!(!bot.home.state("discord.md").contains("question:"));
    turn.done("Then not.").await;
    assert_eq!(local.texts(CHANNEL), ["Then not."]);
}

#[tokio::test]
async fn a_question_without_a_channel_is_dismissed() {
    let local = LocalDiscord::start().await;
    let bot = Bot::start(&local).await;
    local.mention(CHANNEL, ANN, "go");
    let mut event = bot.event(&local, "go").await;
    (event.request.lane, event.request.origin) =
        (Lane::Heartbeat("tidy".to_owned()), EventOrigin::Internal { channel: None });
    let mut turn = Turn::of(&bot, &event);
    assert!(turn.ask(&permission(None)).load(Ordering::SeqCst));
    // A question that cannot be shown is logged, but is not a delivery failure.
    assert!(turn.finish(answer("so")).await.is_ok());
    assert_eq!(local.texts(CHANNEL).len(), 0);
}

#[tokio::test]
async fn a_dropped_turn_removes_its_buttons() {
    let local = LocalDiscord::start().await;
    let (bot, turn, question, message) = asked(&local, &permission(None)).await;
    local.wait_for("the saved question", |_| bot.home.is_noted(&question).then_some(())).await;
    drop(turn);
    local
        .wait_for("closed buttons", |local| local.buttons(message.id).is_empty().then_some(()))
        .await;
    local
        .wait_for("the saved question to be removed", |_| {
            (!bot.home.is_noted(&question)).then_some(())
        })
        .await;
}

#[tokio::test]
async fn a_message_for_the_running_turn_is_passed_on_and_its_outcome_shown() {
    let local = LocalDiscord::start().await;
    let bot = Bot::start(&local).await;
    bot.home.busy.send_replace(true);
    local.mention(CHANNEL, ANN, "go");
    let launched = |_: &LocalDiscord| (bot.home.launched() == 1).then_some(());
    bot.event(&local, "go").await;
    local.wait_for("the agent", launched).await;
    local.slash(CHANNEL, ANN, "steer", Some(" not that way "));
    local
        .wait_for_message(CHANNEL, |text| {
            text.starts_with("> 💬 not that way\nThis agent takes no messages while it works")
        })
        .await;
    bot.home.busy.send_replace(false);
    let steered = bot.event(&local, "not that way").await;
    assert_eq!(
        (steered.request.lane, steered.request.asker),
        (Lane::Channel(ChannelId::discord(CHANNEL)), Some(UserId::discord(ANN)))
    );
}

#[tokio::test]
async fn a_press_is_acknowledged_in_time_while_other_requests_are_slow() {
    let local = LocalDiscord::start().await;
    let (bot, turn, _, message) = asked(&local, &permission(None)).await;
    local.faults().next("POST", "/typing", Fault::Slow(Duration::from_secs(10)), 100);
    local.faults().next("PATCH", "/messages", Fault::Slow(Duration::from_secs(10)), 1);
    let press = local.press(message.id, ANN, "Allow once");
    let (at, kind) =
        local.wait_for("the acknowledgement", |local| local.interaction(press).acknowledged).await;
    assert!(kind == 6 && at - local.interaction(press).used < Duration::from_secs(2));
    assert_eq!(decision(&local, &bot).await.2, AskDecision::AllowOnce);
    turn.done("so").await;
}

/// Ends a bot without the end of its turn.
async fn ended(local: &LocalDiscord, bot: Bot, turn: Turn) {
    drop(bot.listening);
    std::mem::forget(turn);
    local.wait_for("the end of a bot", |local| (local.connections() == 0).then_some(())).await;
}

/// Kills a bot while a question is open. Returns the next bot, which continues the turn.
async fn restarted_while_asking(local: &LocalDiscord) -> (Bot, OpenQuestion, Message) {
    let bot = Bot::start(local).await;
    let (turn, question) = bot.asked(local, (CHANNEL, ANN, "go"), &permission(None)).await;
    let message = with_buttons(local).await;
    let home = Arc::clone(&bot.home);
    local.wait_for("the saved question", |_| home.is_noted(&question.id).then_some(())).await;
    ended(local, bot, turn).await;
    home.continues.lock().unwrap().push(question.id.clone());
    (Bot::with_home(local, &home).await, question, message)
}

#[tokio::test]
async fn a_question_whose_turn_continues_keeps_its_message() {
    let local = LocalDiscord::start().await;
    let (bot, question, message) = restarted_while_asking(&local).await;
    let press = local.press(message.id, ANN, "Allow once");
    assert_eq!(acknowledged(&local, press).await, 4);
    local.wait_for_message(CHANNEL, |text| text.starts_with("I have just restarted.")).await;
    local.mention(CHANNEL, ANN, "more");
    let mut turn = bot.turn(&local, "more").await;
    turn.ask(&question);
    turn.settled(&question.id, &answered(AskDecision::AllowOnce));
    let over = local.wait_for_message(CHANNEL, |text| text.contains("Allowed by ann")).await;
    assert_eq!((over.id, local.buttons(over.id).len()), (message.id, 0));
    let asked =
        local.texts(CHANNEL).into_iter().filter(|text| text.contains("Run the build?")).count();
    assert_eq!(asked, 1);
    turn.done("so").await;
}

#[tokio::test]
async fn a_question_whose_message_was_deleted_is_posted_again() {
    let local = LocalDiscord::start().await;
    let (bot, question, message) = restarted_while_asking(&local).await;
    local.delete(message.id);
    local.mention(CHANNEL, ANN, "more");
    let mut turn = bot.turn(&local, "more").await;
    turn.ask(&question);
    assert_ne!(with_buttons(&local).await.id, message.id);
    turn.done("so").await;
}

#[tokio::test]
async fn a_question_whose_turn_cannot_continue_is_closed() {
    let local = LocalDiscord::start().await;
    let (bot, question, message) = restarted_while_asking(&local).await;
    bot.discord.close_question(&question.id);
    let closed = local.wait_for_message(CHANNEL, |text| text.contains("was restarted")).await;
    assert_eq!((closed.id, local.buttons(closed.id).len()), (message.id, 0));
}

#[tokio::test]
async fn a_press_before_the_turn_is_resumed_does_not_close_an_unsaved_question() {
    let local = LocalDiscord::start().await;
    let (first, turn, id, message) = asked(&local, &permission(None)).await;
    let question = OpenQuestion { id, ..permission(None) };
    ended(&local, first, turn).await;
    // The message of the question was not saved.
    let bot = Bot::start(&local).await;
    let press = local.press(message.id, ANN, "Allow once");
    assert_eq!(acknowledged(&local, press).await, 7);
    local.mention(CHANNEL, ANN, "more");
    let mut turn = bot.turn(&local, "more").await;
    turn.ask(&question);
    assert_eq!(with_buttons(&local).await.id, message.id);
    turn.done("so").await;
}

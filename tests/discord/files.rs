//! Tests of attached files in prompts and answers, and of the footer of an answer.

use std::time::Duration;

use aetheel_discord::TimeLimits;
use aetheel_dispatch::{AnswerFile, Excerpt, OpenQuestion, Outlet, Subject, TurnAnswer};
use aetheel_model::agent::Usage;
use aetheel_model::choice::FooterPart;
use aetheel_model::event::AttachedFile;
use aetheel_model::split::split;

use super::bot::{Bot, Home, answer, options};
use crate::support::discord::{ANN, CHANNEL, Fault, LocalDiscord};

/// Starts a bot that attaches answers of more than 3,000 characters as files.
async fn attaching(local: &LocalDiscord) -> Bot {
    let mut options = options(local, TimeLimits::default());
    options.settings.long_answer = Some(3_000);
    Bot::with_options(options, Home::new().await).await.expect("the bot starts")
}

fn long() -> String {
    (0..400).map(|number| format!("This is line {number}.\n")).collect()
}

#[tokio::test]
async fn attached_files_belong_to_the_prompt_and_need_no_text() {
    let local = LocalDiscord::start().await;
    let bot = Bot::start(&local).await;
    let url = local.keep_file("cat.png", 200, Some(3), b"cat");
    local.send_files(
        CHANNEL,
        ANN,
        "look",
        &[("cat.png", "image/png", 3, &url), ("../x\n", "", 4, "https://cdn.discordapp.com/x")],
    );
    let event = bot.event(&local, "look").await;
    let file = |name: &str, media_type: &str, size, source: &str| AttachedFile {
        name: name.to_owned(),
        media_type: Some(media_type.to_owned()),
        size,
        source: source.to_owned(),
    };
    assert_eq!(
        event.attached,
        [
            file("cat.png", "image/png", 3, &url),
            file("../x\n", "", 4, "https://cdn.discordapp.com/x")
        ]
    );
    assert_eq!(bot.discord.fetch(&event.attached[0], 3).await.as_deref(), Ok(&b"cat"[..]));
    local.send_files(CHANNEL, ANN, "", &[("cat.png", "image/png", 3, &url)]);
    let event = bot.event(&local, "").await;
    assert_eq!(event.attached.len(), 1);
}

#[tokio::test]
async fn a_file_is_downloaded_within_its_limit_or_the_reason_is_reported() {
    let local = LocalDiscord::start().await;
    let bot = Bot::start(&local).await;
    let reason = async |source: String| {
        let file = AttachedFile { name: "x".to_owned(), media_type: None, size: 1, source };
        bot.discord.fetch(&file, 10_000).await.expect_err("refused")
    };
    let huge = vec![b'x'; 1 << 20];
    assert_eq!(
        reason(local.keep_file("said", 200, Some(1 << 20), &huge)).await,
        "it has more than 10000 bytes"
    );
    assert_eq!(
        reason(local.keep_file("unsaid", 200, None, &huge)).await,
        "it has more than 10000 bytes"
    );
    assert_eq!(
        reason(local.keep_file("gone", 404, Some(0), b"")).await,
        "Discord does not have it any more"
    );
    assert_eq!(
        reason(local.keep_file("moved", 302, Some(0), b"")).await,
        "Discord refused to send it (302)"
    );
    for elsewhere in
        ["http://127.0.0.1:9/x", "http://169.254.169.254/latest/meta-data", "file:///etc/passwd"]
    {
        assert_eq!(reason(elsewhere.to_owned()).await, "it is not stored by Discord");
    }
}

#[tokio::test]
async fn a_long_answer_begins_in_a_message_and_is_attached_completely() {
    let local = LocalDiscord::start().await;
    let bot = attaching(&local).await;
    local.mention(CHANNEL, ANN, "go");
    let mut turn = bot.turn(&local, "go").await;
    let text = long();
    turn.say(&text);
    local.wait_for_message(CHANNEL, |text| text.ends_with("\n-# The rest follows.")).await;
    // The response to the upload is lost. The file must not be posted twice.
    local.faults().next("POST", &format!("{CHANNEL}/messages"), Fault::CutAfter, 1);
    turn.done(&text).await;
    let [first, file] = &local.messages(CHANNEL)[..] else {
        panic!("two messages: {:?}", local.texts(CHANNEL))
    };
    assert!(
        text.starts_with(first.content.lines().next().unwrap())
            && first.content.chars().count() <= 2_000
    );
    assert!(
        first.content.ends_with(&format!(
            "\n-# The whole answer ({} characters) is attached below.",
            text.chars().count()
        )),
        "{}",
        first.content
    );
    assert_eq!(file.files, [("answer.md".to_owned(), text.clone().into_bytes())]);
    assert_eq!(file.content, "");
}

#[tokio::test]
async fn files_of_the_agent_are_posted_once_below_its_answer() {
    let local = LocalDiscord::start().await;
    let bot = Bot::start(&local).await;
    local.mention(CHANNEL, ANN, "draw");
    let turn = bot.turn(&local, "draw").await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("blob");
    std::fs::write(&path, b"a picture").unwrap();
    let file = |name: &str, path: &std::path::Path| AnswerFile {
        name: name.to_owned(),
        path: path.to_owned(),
    };
    // The response to the upload is lost, and another file no longer exists.
    let posted = answer("Here it is.");
    local.faults().next("POST", &format!("{CHANNEL}/messages"), Fault::CutAfter, 2);
    turn.finish(TurnAnswer {
        files: vec![file("gone.png", &folder.path().join("none")), file("cat.png", &path)],
        ..posted
    })
    .await
    .unwrap();
    let messages = local.messages(CHANNEL);
    assert!(messages[0].content.starts_with("Here it is."), "{:?}", local.texts(CHANNEL));
    let files: Vec<_> = messages.iter().flat_map(|message| message.files.clone()).collect();
    assert_eq!(files, [("cat.png".to_owned(), b"a picture".to_vec())]);
}

#[tokio::test]
async fn without_permission_to_attach_files_a_long_answer_is_posted_as_messages() {
    let local = LocalDiscord::start().await;
    let bot = attaching(&local).await;
    local.slash(CHANNEL, ANN, "ask", Some("go"));
    let turn = bot.turn(&local, "go").await;
    local.faults().next("POST", &format!("{CHANNEL}/messages"), Fault::Refuse(403, 50013), 1);
    turn.done(&long()).await;
    assert_eq!(local.texts(CHANNEL), split(&format!("> 💬 go\n{}", long()), 2_000));
}

#[tokio::test]
async fn a_long_subject_of_a_question_is_attached() {
    let local = LocalDiscord::start().await;
    let bot = Bot::start(&local).await;
    local.mention(CHANNEL, ANN, "go");
    let mut turn = bot.turn(&local, "go").await;
    let about = Some(Excerpt { language: "diff", text: "+ line\n".repeat(1_000) });
    let subject = Subject::Permission { tool: "Edit".to_owned(), about };
    let (id, title) = ("0123456789abcdef".to_owned(), "Edit?".to_owned());
    let question = OpenQuestion {
        id,
        title,
        subject,
        always: None,
        options: vec![],
        input: None,
        asker: None,
        collision: None,
    };
    turn.ask(&question);
    let with_buttons = |local: &LocalDiscord| {
        local
            .messages(CHANNEL)
            .into_iter()
            .find(|message| message.components != serde_json::json!([]))
    };
    let asked = local.wait_for("the question", with_buttons).await;
    assert!(asked.content.contains("more characters are in the file above."), "{}", asked.content);
    assert_eq!(
        local.messages(CHANNEL)[0].files,
        [("changes.diff".to_owned(), "+ line\n".repeat(1_000).into_bytes())]
    );

    local.faults().next("POST", &format!("{CHANNEL}/messages"), Fault::Refuse(403, 50013), 1);
    turn.ask(&OpenQuestion { id: "fedcba9876543210".to_owned(), ..question });
    local
        .wait_for_message(CHANNEL, |text| text.ends_with("I need the permission Attach Files."))
        .await;
}

#[tokio::test]
async fn a_configured_footer_is_below_the_answer() {
    let local = LocalDiscord::start().await;
    let mut options = options(&local, TimeLimits::default());
    options.settings.footer = vec![
        FooterPart::Backend,
        FooterPart::Model,
        FooterPart::Time,
        FooterPart::Tokens,
        FooterPart::Cost,
    ];
    let bot = Bot::with_options(options, Home::new().await).await.expect("the bot starts");
    local.mention(CHANNEL, ANN, "go");
    let usage = Usage { input: 3_120, output: 800, cost_usd: Some(0.0234), ..Usage::default() };
    let told = TurnAnswer {
        model: Some("opus".to_owned()),
        usage: Some(usage),
        took: Duration::from_secs(12),
        ..answer("Done")
    };
    bot.turn(&local, "go").await.finish(told).await.expect("delivered");
    assert_eq!(
        local.texts(CHANNEL),
        ["Done\n-# demo · opus · 12 s · 3.1k in, 800 out · $0.02 list price"]
    );
}

//! The pages for owners: backends, schedules and health.

use super::{serving, with_dashboard};
use crate::support::browser::{Browser, Page};
use crate::support::discord::{ANN, CHANNEL, LocalDiscord, OTHER, OWNER};
use crate::support::program::{built, rebuilt};

/// Returns the generation of the first backend on the page, such as `1@a53a38c91f59`.
fn generation(page: &Page) -> String {
    let (_, rest) = page.body.split_once("<dd>version ").expect("a backend that serves");
    let (_, rest) = rest.split_once(" (").expect("a generation after the version");
    rest.split(')').next().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn an_owner_rolls_a_backend_back_and_the_output_channel_is_notified() {
    let local = LocalDiscord::start().await;
    let installation = with_dashboard(&local).with("OUTPUT_CHANNEL_ID", &OTHER.to_string());
    let bot = serving(&installation).await;
    let olga = Browser::signed_in(&local, CHANNEL, OWNER).await;
    let first = olga.get("/components").await;
    assert!(first.body.contains("Demo agent (demo)"), "{}", first.body);
    assert!(!first.body.contains("Go back"), "there is no earlier generation: {}", first.body);
    let (csrf, before) = (first.field("csrf"), generation(&first));
    let roll_back = async |generation: &str| {
        let fields = [("csrf", csrf.as_str()), ("backend", "demo"), ("generation", generation)];
        assert_eq!(olga.post("/components/roll-back", &fields).await.status, 303);
        olga.get("/components").await
    };
    let staged = installation.path("staged.wasm");
    std::fs::write(&staged, rebuilt(built("demo"), "another")).unwrap();
    std::fs::rename(&staged, installation.backend("demo")).unwrap();
    bot.logs_where("generation 2", |line| {
        line["generation"].as_str().is_some_and(|generation| generation.starts_with("2@"))
    })
    .await;
    let late = roll_back(&before).await;
    assert!(late.body.contains("Another version of demo serves by now"), "{}", late.body);
    let second = generation(&late);
    assert_eq!(late.field("generation"), second);
    assert!(second.starts_with("2@"), "{second}");
    let back = roll_back(&second).await;
    let serves = generation(&back);
    assert!(serves.starts_with("3@") && serves[1..] == before[1..], "{before} {second} {serves}");
    local
        .wait_for_message(OTHER, |text| {
            text == format!("-# 🖥️ olga rolled demo back: version {serves} serves.")
        })
        .await;
    let nothing = roll_back(&serves).await;
    assert!(nothing.body.contains("role=\"status\""), "{}", nothing.body);
    assert_eq!(generation(&nothing), serves);
}

#[tokio::test]
async fn pages_for_owners_do_not_exist_for_others() {
    let local = LocalDiscord::start().await;
    let installation = with_dashboard(&local);
    let _bot = serving(&installation).await;
    let ann = Browser::signed_in(&local, CHANNEL, ANN).await;
    let olga = Browser::signed_in(&local, CHANNEL, OWNER).await;
    let page = ann.get("/").await;
    assert!(!page.body.contains("/components") && !page.body.contains("/health"));
    let menu = olga.get("/").await.body;
    assert!(menu.contains("/components") && menu.contains("/health"), "{menu}");
    for path in ["/components", "/schedules", "/health"] {
        assert_eq!(ann.get(path).await.status, 404, "{path}");
        assert_eq!(olga.get(path).await.status, 200, "{path}");
    }
    let served = generation(&olga.get("/components").await);
    let csrf = page.field("csrf");
    let fields = [("csrf", csrf.as_str()), ("backend", "demo"), ("generation", &served)];
    assert_eq!(ann.post("/components/roll-back", &fields).await.status, 404);
    assert_eq!(generation(&olga.get("/components").await), served);

    local.mention(CHANNEL, ANN, "slow 600");
    local.wait_for_message(CHANNEL, |text| text.contains("Second 1.")).await;
    let health = olga.get("/health").await.body;
    for part in ["<dt>Running</dt><dd>yes</dd>", "1 running, 0 waiting", "Aetheel 0."] {
        assert!(health.contains(part), "{part} is missing in\n{health}");
    }
    local.faults().refuse_gateway(true);
    local.faults().drop_gateway(true);
    let mut looks = tokio::time::interval(std::time::Duration::from_millis(300));
    while !olga.get("/health").await.body.contains("discord is not connected") {
        looks.tick().await;
    }
}

#[tokio::test]
async fn an_owner_sees_schedules_and_hooks_and_can_run_one_now() {
    let local = LocalDiscord::start().await;
    let installation = with_dashboard(&local);
    let agents = format!(
        "## Cron Jobs\n\n### yearly\n\n- expression: `0 9 1 1 *`\n- channel: <#{CHANNEL}>\n\ncount the sheep\n\n## Hooks\n\n### startup\n\n- instruction: say hello\n- channel: {OTHER}\n"
    );
    std::fs::write(installation.path("config/agents.md"), agents).unwrap();
    let _bot = serving(&installation).await;
    let olga = Browser::signed_in(&local, CHANNEL, OWNER).await;
    let page = olga.get("/schedules").await;
    for part in ["cron:yearly", "count the sheep", "-01-01 09:00 UTC", "say hello"] {
        assert!(page.body.contains(part), "{part} is missing in\n{}", page.body);
    }
    let csrf = page.field("csrf");
    let run = async |browser: &Browser, csrf: &str, lane: &str| {
        browser.post("/schedules/run", &[("csrf", csrf), ("lane", lane)]).await.status
    };
    let ann = Browser::signed_in(&local, CHANNEL, ANN).await;
    let hers = ann.get("/").await.field("csrf");
    assert_eq!(run(&ann, &hers, "cron:yearly").await, 404);
    for lane in ["cron:monthly", "console", "channel:1", "nonsense"] {
        assert_eq!(run(&olga, &csrf, lane).await, 303);
        assert!(olga.get("/schedules").await.body.contains("There is no such schedule."), "{lane}");
    }
    assert_eq!(run(&olga, &csrf, "cron:yearly").await, 303);
    assert!(olga.get("/schedules").await.body.contains("It is running, or waits in its lane."));
    local.wait_for_message(CHANNEL, |text| text == "-# 🖥️ olga had cron:yearly run now.").await;
    local.wait_for_message(CHANNEL, |text| text.contains("You said: count the sheep")).await;
    // The key prevents a second node of a cluster from running it too.
    let journal = || std::fs::read_to_string(installation.path("config/state/queue.md")).unwrap();
    local.wait_for("its key", |_| journal().contains(" key `cron:yearly:").then_some(())).await;
}

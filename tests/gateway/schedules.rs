//! Heartbeats and cron jobs of the real program.

use std::fs;

use rustix::process::Signal;

use super::{installed, serving};
use crate::support::discord::{CHANNEL, LocalDiscord};

#[tokio::test]
async fn a_cron_job_runs_on_schedule_and_is_answered_in_the_output_channel() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local).with("OUTPUT_CHANNEL_ID", &CHANNEL.to_string());
    fs::write(
        installation.path("config/agents.md"),
        "## Cron Jobs\n\n- **pulse** `* * * * * *`: tick tock\n",
    )
    .unwrap();
    let mut bot = serving(&installation).await;
    let scheduled = bot.logs_where("the job", |line| line["message"] == "scheduled").await;
    assert_eq!(
        (scheduled["lane"].as_str(), scheduled["schedule"].as_str()),
        (Some("cron:pulse"), Some("* * * * * * UTC"))
    );
    local
        .wait_for_message(CHANNEL, |text| {
            text.starts_with("You said: tick tock\n\nThis is message 2")
        })
        .await;
    bot.logs_where("a tick", |line| line["message"] == "fired" && line["lane"] == "cron:pulse")
        .await;
    local
        .wait_for("its state", |_| {
            installation.read("state/schedules.md").contains("- `cron:pulse`").then_some(())
        })
        .await;
    bot.signal(Signal::TERM);
    assert_eq!(bot.ended().await.code, 0);
}

#[tokio::test]
async fn errors_in_schedules_are_logged_and_corrected_files_apply_at_once() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local);
    let hasty = "## Hasty\n- interval: 30\n- instruction: Look.\n";
    fs::write(installation.path("config/heartbeat.md"), hasty).unwrap();
    fs::write(
        installation.path("config/agents.md"),
        "## Cron Jobs\n- **bad** `61 * * * *`: x\n- **never** `0 0 30 2 *`: x\n",
    )
    .unwrap();
    let check = installation.run(&["check"], "").await;
    for part in [
        "the minimum is 60 seconds",
        "cron job \"bad\" is left out",
        "cron job \"never\" is left out: `0 0 30 2 *` never occurs",
    ] {
        assert!(check.stdout.contains(part), "{part}: {check:?}");
    }
    let bot = serving(&installation).await;
    bot.logs("heartbeat.md line 1: heartbeat \"Hasty\" is left out: an interval of 30 seconds is too short: the minimum is 60 seconds")
        .await;
    bot.logs("agents.md line 2: cron job \"bad\" is left out: the cron expression \"61 * * * *\" is invalid").await;
    bot.logs_where("an empty plan", |line| {
        line["message"] == "schedules loaded" && line["cron_jobs"] == 0
    })
    .await;

    fs::write(installation.path("config/heartbeat.md"), hasty.replace("30", "60")).unwrap();
    bot.logs_where("the heartbeat", |line| {
        line["message"] == "scheduled" && line["lane"] == "heartbeat:Hasty"
    })
    .await;
    bot.logs("heartbeat.md line 1: heartbeat \"Hasty\" has no `channel`, and OUTPUT_CHANNEL_ID is not set").await;
    fs::remove_file(installation.path("config/heartbeat.md")).unwrap();
    bot.logs("there is no heartbeat.md").await;
}

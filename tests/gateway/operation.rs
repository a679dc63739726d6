//! `aetheel status`, `logs`, `stop` and `restart` without a service manager.

use std::fs;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::Value;

use super::{installed, serving};
use crate::support::discord::{ANN, CHANNEL, LocalDiscord};
use crate::support::program::{Installation, LIMIT};

async fn status(installation: &Installation) -> (i32, Value) {
    let ended = installation.run(&["status", "--json"], "").await;
    (ended.code, serde_json::from_str(&ended.stdout).unwrap())
}

/// Ends the gateway that a command started in the background, when the test ends.
pub(super) struct Background<'a>(pub(super) &'a Installation);

impl Drop for Background<'_> {
    fn drop(&mut self) {
        let lock = self.0.read("state/gateway.lock");
        let pid = lock.lines().next().and_then(|pid| Pid::from_raw(pid.parse().ok()?));
        if let Some(pid) = pid {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

#[tokio::test]
async fn the_status_shows_the_work_of_a_running_gateway_and_that_none_runs() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local);
    let ended = installation.run(&["status"], "").await;
    assert_eq!(ended.code, 3, "{ended:?}");
    assert!(
        ended.stdout.contains("not running") && ended.stdout.contains("`aetheel run`"),
        "{ended:?}"
    );

    let bot = serving(&installation).await;
    local.mention(CHANNEL, ANN, "slow 60");
    let until = Instant::now() + LIMIT;
    let (mut code, mut report) = status(&installation).await;
    while report["work"]["running"] != 1 && Instant::now() < until {
        (code, report) = status(&installation).await;
    }
    assert_eq!((code, &report["work"]["running"]), (0, &1.into()), "{report:#}");
    assert_eq!(report["process"], bot.gateway().as_raw_nonzero().get(), "{report:#}");
    assert_eq!(report["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(report["work"]["discord"], serde_json::json!([1, 1]), "{report:#}");
    let ended = installation.run(&["status"], "").await;
    for part in ["running (process ", "discord:  connected", "1 turn running, 0 prompts waiting"] {
        assert!(ended.stdout.contains(part), "{part}: {ended:?}");
    }
}

#[tokio::test]
async fn stop_ends_the_gateway_and_says_what_its_agents_do() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local);
    let nothing = installation.run(&["stop"], "").await;
    assert!(nothing.code == 0 && nothing.stdout.contains("no gateway serves"), "{nothing:?}");
    let mut bot = serving(&installation).await;
    let pid = bot.gateway();
    let (ended, left) = tokio::join!(installation.run(&["stop"], ""), bot.ended());
    assert_eq!((ended.code, left.code), (0, 0), "{ended:?} {left:?}");
    assert!(
        ended.stdout.contains(&format!("process {} has ended", pid.as_raw_nonzero())),
        "{ended:?}"
    );
    assert!(ended.stdout.contains("its agents continue for 10 minutes"), "{ended:?}");
    assert_eq!(status(&installation).await.0, 3);
}

#[tokio::test]
async fn restart_starts_the_gateway_again_while_its_agents_continue() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local);
    let none = installation.run(&["restart"], "").await;
    assert!(none.code == 1 && none.stderr.contains("start one with `aetheel run`"), "{none:?}");
    let mut bot = serving(&installation).await;
    let _background = Background(&installation);
    local.mention(CHANNEL, ANN, "slow 8");
    local.wait_for_message(CHANNEL, |text| text.contains("Second 1.")).await;
    let (ended, _) = tokio::join!(installation.run(&["restart"], ""), bot.ended());
    assert_eq!(ended.code, 0, "{ended:?}");
    let (code, report) = status(&installation).await;
    let pid = report["process"].as_u64().unwrap();
    assert_eq!(code, 0, "{report:#}");
    assert!(ended.stdout.contains(&format!("the gateway is process {pid}")), "{ended:?}");
    local.wait_for_message(CHANNEL, |text| text.ends_with("Second 8. There.")).await;

    // The log of a gateway in the background is a file.
    let log = installation.run(&["logs"], "").await;
    assert!(log.code == 0 && log.stdout.contains("aetheel is ready"), "{log:?}");
    let later = installation.run(&["logs", "--since", "2099-01-01T00:00:00Z"], "").await;
    assert!(later.code == 0 && later.stdout.is_empty(), "{later:?}");
    let recent = installation.run(&["logs", "--since", "1h"], "").await;
    assert!(recent.stdout.contains("aetheel is ready"), "{recent:?}");
    assert_eq!(installation.run(&["logs", "--since", "soon"], "").await.code, 64);

    let ended = installation.run(&["stop"], "").await;
    assert_eq!(ended.code, 0, "{ended:?}");
    let raw = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    let until = Instant::now() + Duration::from_secs(10);
    while test_kill_process(raw).is_ok() && Instant::now() < until {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_restart_without_the_settings_of_the_gateway_leaves_it_running() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local);
    let bot = serving(&installation).await;
    let installation = installation.with("DISCORD_BOT_TOKEN", "");
    let ended = installation.run(&["restart"], "").await;
    assert!(
        ended.code == 1 && ended.stderr.contains("DISCORD_BOT_TOKEN is not set here"),
        "{ended:?}"
    );
    test_kill_process(bot.gateway()).unwrap();
}

#[tokio::test]
async fn logs_say_where_they_are_if_they_are_not_kept() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local);
    let none = installation.run(&["logs"], "").await;
    assert!(none.code == 1 && none.stderr.contains("no gateway has run"), "{none:?}");
    // The test reads the log through a pipe.
    let _bot = serving(&installation).await;
    let piped = installation.run(&["logs"], "").await;
    assert!(piped.code == 1 && piped.stderr.contains("to another program (pipe:"), "{piped:?}");
    assert!(piped.stderr.contains("aetheel run 2>> FILE"), "{piped:?}");

    let file = installation.path("gateway.log");
    let other = installed(&local);
    let bot = other.start_in_shell(&format!("exec \"$0\" run 2>> {}", file.display()));
    let until = Instant::now() + LIMIT;
    let is_ready = || fs::read_to_string(&file).is_ok_and(|log| log.contains("aetheel is ready"));
    while !is_ready() && Instant::now() < until {
        tokio::task::yield_now().await;
    }
    let log = other.run(&["logs"], "").await;
    assert!(log.code == 0 && log.stdout.contains("aetheel is ready"), "{log:?}");
    drop(bot);
}

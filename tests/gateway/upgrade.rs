//! `aetheel backend compare` and `aetheel upgrade` with the real program. A new program is tested
//! beside the running gateway, and a failed test changes nothing.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use rustix::process::{Signal, test_kill_process};
use serde_json::Value;

use super::operation::Background;
use super::{installed, serving};
use crate::support::discord::{ANN, CHANNEL, LocalDiscord};
use crate::support::program::{
    Ended, Installation, aetheel, aetheel_kit, built, copy_program, rebuilt,
};

/// Returns an installation with a recording of the demo agent for each prompt.
pub(super) async fn with_recordings(prompts: &[&str]) -> Installation {
    let installation = Installation::new();
    for prompt in prompts {
        let ended = installation.run(&["console"], &format!("{prompt}\n")).await;
        assert_eq!(ended.code, 0, "{}", ended.stderr);
    }
    assert_eq!(installation.recordings().len(), prompts.len());
    installation
}

/// Compares the recordings and returns the report.
async fn compare(installation: &Installation, more: &[&str]) -> (Ended, Value) {
    let ended = installation.run(&[&["backend", "compare", "--json"][..], more].concat(), "").await;
    let report = serde_json::from_str(&ended.stdout)
        .unwrap_or_else(|error| panic!("{error}: {} {}", ended.stdout, ended.stderr));
    (ended, report)
}

/// Returns the files of all recordings.
pub(super) fn files(installation: &Installation) -> Vec<PathBuf> {
    let days = fs::read_dir(installation.path("recordings")).unwrap();
    days.flat_map(|day| fs::read_dir(day.unwrap().path()).unwrap())
        .map(|file| file.unwrap().path())
        .collect()
}

/// Replaces a word in the inputs (`in`) or actions (`out`) of all recordings, so that they differ.
pub(super) fn change_recordings(installation: &Installation, of: &str, from: &str, to: &str) {
    let of = format!("\"{of}\":");
    for file in files(installation) {
        let text = fs::read_to_string(&file).unwrap();
        let changed: String = text
            .lines()
            .map(|line| if line.contains(&of) { line.replace(from, to) } else { line.into() })
            .map(|line| line + "\n")
            .collect();
        assert_ne!(changed, text, "{text}");
        fs::write(file, changed).unwrap();
    }
}

pub(super) fn executable(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

#[tokio::test]
async fn a_comparison_without_differences_succeeds_and_changes_nothing() {
    let installation = with_recordings(&["hello", "tool", "thanks"]).await;
    let before = installation.everything();
    let ended = installation.run(&["backend", "compare"], "").await;
    assert_eq!(ended.code, 0, "{} {}", ended.stdout, ended.stderr);
    assert!(
        ended
            .stdout
            .contains("3 recordings read: 3 as before, 0 read differently, 0 could not be read\n"),
        "{}",
        ended.stdout
    );
    let (_, report) = compare(&installation, &["--recordings", "2"]).await;
    assert_eq!((&report["counts"]["read"], &report["fit"]), (&2.into(), &true.into()), "{report}");
    let [mut before, mut now] = [before, installation.everything()];
    before.sort();
    now.sort();
    assert!(before == now, "nothing was written");
}

#[tokio::test]
async fn a_difference_that_users_would_see_is_shown_and_fails_the_comparison() {
    let installation = with_recordings(&["hello"]).await;
    change_recordings(&installation, "out", "You said", "You wrote");
    let ended = installation.run(&["backend", "compare"], "").await;
    assert_eq!(ended.code, 1, "{}", ended.stdout);
    for part in [
        "of demo: reads differently\n  line ",
        ": answer\n    - You wrote: hello This is message 1",
        "\n    + You said: hello This is message 1",
        "1 recording read: 0 as before, 1 read differently, 0 could not be read\n",
    ] {
        assert!(ended.stdout.contains(part), "{part} is missing in\n{}", ended.stdout);
    }
}

#[tokio::test]
async fn another_component_may_give_other_results_but_must_be_able_to_read() {
    let installation = with_recordings(&["hello"]).await;
    fs::write(installation.backend("demo"), rebuilt(built("demo"), "later")).unwrap();
    let (ended, report) = compare(&installation, &[]).await;
    assert_eq!((ended.code, &report["counts"]["as-before"]), (0, &1.into()), "{report}");
    assert_eq!(report["recordings"][0]["by-another-component"], true, "{report}");

    change_recordings(&installation, "out", "You said", "You wrote");
    let (ended, report) = compare(&installation, &[]).await;
    assert_eq!((ended.code, &report["counts"]["otherwise"]), (0, &1.into()), "{report}");

    // As if the earlier component had known another format of the agent's lines.
    change_recordings(&installation, "in", r#"\"text\""#, r#"\"words\""#);
    let (ended, report) = compare(&installation, &[]).await;
    assert_eq!((ended.code, &report["counts"]["unreadable"]), (1, &1.into()), "{report}");
}

#[tokio::test]
async fn recordings_that_cannot_be_compared_are_reported_and_skipped() {
    let installation = with_recordings(&["hello", "thanks"]).await;
    let [first, second] = &files(&installation)[..] else { panic!("two recordings") };
    fs::write(first, "damaged\n").unwrap();
    let text = fs::read_to_string(second).unwrap();
    fs::write(second, text.replacen("\"backend\":\"demo\"", "\"backend\":\"gone\"", 1)).unwrap();
    let (ended, report) = compare(&installation, &[]).await;
    assert_eq!((ended.code, &report["counts"]["skipped"]), (0, &2.into()), "{report}");
    let why = report["recordings"].to_string();
    assert!(why.contains("line 1 is not a recording's") && why.contains("`gone` is not there"));
}

#[tokio::test]
async fn a_check_reports_unreadable_settings_and_state() {
    let installation = with_recordings(&[]).await;
    fs::create_dir_all(installation.path("config/state")).unwrap();
    fs::write(installation.path("config/state/queue.md"), "# Queue\n\n- [ ] `1` `{\"new\":`\n")
        .unwrap();
    let ended = installation.run(&["check"], "").await;
    assert_eq!(ended.code, 78, "{}", ended.stdout);
    assert!(ended.stdout.contains("state/queue.md` line 3 is left out: "), "{}", ended.stdout);
    let installation = installation.with("MAX_QUEUE_DEPTH", "many").with("AGENT_BACKEND", "none");
    let ended = installation.run(&["check", "--json"], "").await;
    assert_eq!(ended.code, 78);
    let faults = ended.stdout;
    assert!(faults.contains("MAX_QUEUE_DEPTH") && faults.contains("none"), "{faults}");
}

#[tokio::test]
async fn a_program_that_fails_its_checks_changes_nothing() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local);
    let bot = serving(&installation).await;
    let held = installation.read("state/gateway.lock");
    let said: Vec<&str> = held.lines().collect();
    let pid = bot.gateway().as_raw_nonzero().to_string();
    assert_eq!(said[..2], [&pid, env!("CARGO_PKG_VERSION")]);
    assert_eq!(Path::new(said[2]), aetheel());
    let stamp = || fs::metadata(aetheel()).and_then(|file| file.modified()).unwrap();
    let (before, program) = (stamp(), installation.path("other"));
    for (script, why) in [
        ("#!/bin/sh\n[ \"$1\" = --version ] && echo aetheel 9.9.9 || exit 3\n", "exit code 3"),
        ("#!/bin/sh\n[ \"$1\" = --version ] && echo aetheel 9.9.9 || kill -9 $$\n", "it crashed"),
        ("#!/bin/sh\necho something else\n", "does not report that it is aetheel"),
    ] {
        executable(&program, script);
        let ended =
            installation.run(&["upgrade", "--binary", &program.display().to_string()], "").await;
        assert_eq!(ended.code, 1, "{}", ended.stdout);
        assert!(ended.stderr.contains(why), "{}", ended.stderr);
        assert!(ended.stderr.ends_with("nothing was changed\n"), "{}", ended.stderr);
    }
    let ended = installation.run(&["upgrade", "--binary", "/nonexistent"], "").await;
    assert!(ended.stderr.contains("is not a file that can be executed"), "{}", ended.stderr);
    assert_eq!(stamp(), before, "the program is unchanged");
    let still = installation.read("state/gateway.lock");
    assert!(held.lines().take(3).eq(still.lines().take(3)), "the gateway still runs");
    test_kill_process(bot.gateway()).unwrap();
}

#[tokio::test]
async fn without_a_gateway_only_the_file_is_replaced() {
    let installation = with_recordings(&["hello"]).await;
    let (old, new) = (installation.path("aetheel"), installation.path("new"));
    executable(&old, "old\n");
    copy_program(aetheel(), &new);
    symlink(aetheel_kit(), installation.path("aetheel-kit")).unwrap();
    fs::create_dir_all(installation.path("config/state")).unwrap();
    // The lock file of the last gateway names the installed program.
    let last = format!("1\n0.0.9\n{}\n", old.display());
    fs::write(installation.path("config/state/gateway.lock"), last).unwrap();
    let ended = installation.run(&["upgrade", "--binary", &new.display().to_string()], "").await;
    assert_eq!(ended.code, 0, "{} {}", ended.stdout, ended.stderr);
    assert!(
        ended.stdout.contains("1 recording read: 1 as before")
            && ended.stdout.contains("no gateway runs here: start it with `"),
        "{}",
        ended.stdout
    );
    assert!(
        fs::read(&old).unwrap() == fs::read(&new).unwrap(),
        "the new program replaced the old one"
    );
    assert_eq!(fs::read_to_string(installation.path("aetheel.before")).unwrap(), "old\n");
}

#[tokio::test]
async fn the_programs_of_the_holder_and_of_authors_are_replaced_with_the_gateways() {
    let installation = with_recordings(&["hello"]).await;
    let old = installation.path("aetheel");
    executable(&old, "old\n");
    executable(&installation.path("aetheel-hold"), "old holder\n");
    fs::create_dir_all(installation.path("config/state")).unwrap();
    let last = format!("1\n0.0.9\n{}\n", old.display());
    fs::write(installation.path("config/state/gateway.lock"), last).unwrap();
    let ended = installation.run(&["upgrade"], "").await;
    assert_eq!(ended.code, 0, "{} {}", ended.stdout, ended.stderr);
    let same = |a: &Path, b: &Path| fs::read(a).unwrap() == fs::read(b).unwrap();
    assert!(same(&old, aetheel()));
    assert!(same(&installation.path("aetheel-hold"), &aetheel().with_file_name("aetheel-hold")));
    let kept = fs::read_to_string(installation.path("aetheel-hold.before")).unwrap();
    assert_eq!(kept, "old holder\n");
    assert!(same(&installation.path("aetheel-kit"), aetheel_kit()));
}

#[tokio::test]
async fn a_good_program_replaces_the_old_one_and_the_gateway_hands_over_during_an_answer() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local).with("AGENT_HOLDER", "require");
    let (old, new) = (installation.path("aetheel"), installation.path("new"));
    copy_program(aetheel(), &old);
    // The same program with other bytes.
    let mut changed = fs::read(aetheel()).unwrap();
    changed.extend(b"later");
    let written = installation.path("written");
    fs::write(&written, &changed).unwrap();
    fs::set_permissions(&written, fs::metadata(aetheel()).unwrap().permissions()).unwrap();
    copy_program(&written, &new);
    symlink(aetheel_kit(), installation.path("aetheel-kit")).unwrap();
    let start = format!("exec {} run", old.display());
    let mut bot = installation.start_in_shell(&start);
    bot.logs("aetheel is ready").await;
    let question = local.mention(CHANNEL, ANN, "slow 8");
    local.wait_for_message(CHANNEL, |text| text.contains("Second 1.")).await;
    let binary = new.display().to_string();
    let upgrade = ["upgrade", "--binary", &binary];
    let restarted = async {
        let left = bot.ended().await;
        (left, installation.start_in_shell(&start))
    };
    let (ended, (left, next)) = tokio::join!(installation.run(&upgrade, ""), restarted);
    assert_eq!((ended.code, left.code), (0, 75), "{} {}", ended.stderr, left.stderr);
    assert!(fs::read(&old).unwrap() == changed, "the new program replaced the old one");
    assert!(installation.path("aetheel.before").is_file());
    let handed = format!("handed over: the gateway is process {}", next.pid.as_raw_nonzero());
    assert!(ended.stdout.contains(&handed), "{}", ended.stdout);
    local.wait_for_message(CHANNEL, |text| text.ends_with("Second 8. There.")).await;
    let answers = local.messages(CHANNEL);
    assert_eq!((answers.len(), answers[0].reply_to), (1, Some(question)), "{answers:?}");

    // No service manager starts the next gateway this time.
    let mut next = next;
    let _background = Background(&installation);
    let (ended, left) = tokio::join!(installation.run(&["upgrade"], ""), next.ended());
    assert_eq!((ended.code, left.code), (0, 75), "{} {}", ended.stderr, left.stderr);
    assert!(ended.stdout.contains("its agents continue for 10 minutes\n"), "{}", ended.stdout);
    let next = installation.read("state/gateway.lock");
    let handed = format!("handed over: the gateway is process {}", next.lines().next().unwrap());
    assert!(ended.stdout.contains(&handed), "{} {}", ended.stdout, ended.stderr);
}

#[tokio::test]
async fn recordings_can_be_ignored_and_problems_of_the_running_gateway_do_not_stop_an_upgrade() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local);
    let ended = installation.run(&["console"], "hello\n").await;
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    change_recordings(&installation, "out", "You said", "You wrote");
    let ended = installation.run(&["upgrade"], "").await;
    assert_eq!(ended.code, 1, "{ended:?}");
    assert!(ended.stdout.contains("hint: `aetheel upgrade --ignore-recordings`"), "{ended:?}");
    let ended = installation.run(&["upgrade", "--ignore-recordings"], "").await;
    assert_eq!(ended.code, 0, "{ended:?}");

    // A start ignores this entry.
    fs::write(installation.path("config/agents.md"), "# Hooks\n- agent_boot: hello\n").unwrap();
    let ended = installation.run(&["upgrade", "--ignore-recordings"], "").await;
    assert_eq!(ended.code, 1, "{ended:?}");
    assert_eq!(ended.stdout.matches("fault: ").count(), 1, "{ended:?}");
    let mut bot = serving(&installation).await;
    let _background = Background(&installation);
    let upgrade = installation.run(&["upgrade", "--ignore-recordings"], "");
    let (ended, left) = tokio::join!(upgrade, bot.ended());
    assert_eq!((ended.code, left.code), (0, 75), "{} {}", ended.stderr, left.stderr);
    assert!(ended.stdout.contains("works without it"), "{}", ended.stdout);
}

#[tokio::test]
async fn recordings_of_a_component_that_was_rolled_back_do_not_stop_an_upgrade() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local);
    let mut bot = serving(&installation).await;
    local.mention(CHANNEL, ANN, "hello");
    local.wait_for_message(CHANNEL, |text| text.starts_with("You said: hello")).await;
    bot.signal(Signal::KILL);
    bot.ended().await;
    // As if a newer component had known another format of the agent's lines.
    change_recordings(&installation, "in", r#"\"text\""#, r#"\"words\""#);
    for file in files(&installation) {
        let text = fs::read_to_string(&file).unwrap();
        let at = text.find("\"digest\":\"").unwrap() + 10;
        fs::write(&file, format!("{}{}{}", &text[..at], "0".repeat(64), &text[at + 64..])).unwrap();
    }
    let (ended, report) = compare(&installation, &[]).await;
    assert_eq!((ended.code, &report["counts"]["unreadable"]), (1, &1.into()), "{report}");
    let _bot = serving(&installation).await;
    let (ended, report) = compare(&installation, &[]).await;
    assert_eq!((ended.code, &report["counts"]["unreadable"]), (0, &1.into()), "{report}");
}

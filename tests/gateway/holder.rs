//! The gateway with a holder, which it finds or starts depending on the setting, and ends at
//! shutdown.

use std::fs::{self, File};
use std::path::Path;
use std::time::Duration;

use aetheel::cli::exit;
use rustix::process::{Pid, Signal, kill_process};

use super::upgrade::executable;
use super::{installed, serving};
use crate::support::discord::{ANN, CHANNEL, LocalDiscord, TOKEN};
use crate::support::program::{Installation, LIMIT, aetheel, copy_program};

/// The holders of an installation, which are ended on drop.
struct Holders(String);

impl Holders {
    fn of(installation: &Installation) -> Self {
        Self(installation.path("config").join("state").display().to_string())
    }

    fn pids(&self) -> Vec<i32> {
        let entries = fs::read_dir("/proc").unwrap().flatten();
        let all = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let ours = |pid: &i32| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line).replace('\0', " ");
            let is_holder =
                ["aetheel-hold ", "aetheel hold "].iter().any(|name| line.starts_with(name));
            is_holder && line.contains(&self.0)
        };
        all.filter(ours).collect()
    }

    async fn gone(&self) {
        let leaving = async {
            while !self.pids().is_empty() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        assert!(tokio::time::timeout(LIMIT, leaving).await.is_ok(), "a holder did not end");
    }
}

impl Drop for Holders {
    fn drop(&mut self) {
        for pid in self.pids() {
            let _ = kill_process(Pid::from_raw(pid).unwrap(), Signal::TERM);
        }
    }
}

/// Returns the name of a process, which is the name of its program's file.
fn name_of(pid: i32) -> String {
    fs::read_to_string(format!("/proc/{pid}/comm")).unwrap().trim_end().to_owned()
}

/// Returns the files that a process has open, without the standard streams, its runtime's own, and
/// the paths that the sandbox grants, which are open without access to their content.
fn open_files(pid: i32) -> Vec<String> {
    let entries = fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten();
    let only_names = |number: &str| {
        let info = fs::read_to_string(format!("/proc/{pid}/fdinfo/{number}")).unwrap_or_default();
        let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
        let flags = flags.and_then(|flags| i32::from_str_radix(flags.trim(), 8).ok());
        flags.is_some_and(|flags| flags & libc::O_PATH != 0)
    };
    let named = entries.filter(|entry| {
        let number = entry.file_name().into_string().unwrap();
        !["0", "1", "2"].contains(&number.as_str()) && !only_names(&number)
    });
    let targets = named.filter_map(|entry| fs::read_link(entry.path()).ok());
    targets
        .map(|target| target.display().to_string())
        .filter(|target| {
            target.starts_with('/') && !Path::new(target).starts_with("/sys/fs/cgroup")
        })
        .collect()
}

#[tokio::test]
async fn a_started_holder_inherits_nothing_and_ends_with_the_gateway() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local).with("AGENT_HOLDER", "require");
    let holders = Holders::of(&installation);
    let mut bot = serving(&installation).await;
    bot.logs("agents outlive the gateway").await;
    local.mention(CHANNEL, ANN, "through a holder");
    local.wait_for_message(CHANNEL, |text| text.contains("You said: through a holder")).await;
    let [holder] = holders.pids()[..] else { panic!("{:?}", holders.pids()) };
    assert_eq!(name_of(holder), "aetheel-hold", "the program beside the gateway's");
    // Only root and the owner can read this.
    if let Ok(environment) = fs::read(format!("/proc/{holder}/environ")) {
        let environment = String::from_utf8_lossy(&environment).into_owned();
        assert!(!environment.contains(TOKEN) && !environment.contains("CONFIG_DIR"));
        let open = open_files(holder);
        assert!(open.iter().all(|file| file.ends_with("/holder.lock")), "{open:?}");
    }
    bot.signal(Signal::TERM);
    assert_eq!(bot.ended().await.code, 0);
    holders.gone().await;
}

#[tokio::test]
async fn a_gateway_without_the_holders_program_of_its_version_starts_its_own_program_instead() {
    let local = LocalDiscord::start().await;
    for (script, why) in [
        (None, "aetheel-hold` does not exist"),
        (Some("echo aetheel-hold 0.0.1"), "prints \"aetheel-hold 0.0.1\" as its version"),
    ] {
        let installation = installed(&local).with("AGENT_HOLDER", "require");
        let holders = Holders::of(&installation);
        let gateway = installation.path("aetheel");
        copy_program(aetheel(), &gateway);
        if let Some(script) = script {
            executable(&installation.path("aetheel-hold"), &format!("#!/bin/sh\n{script}\n"));
        }
        let mut bot = installation.start_in_shell(&format!("exec {} run", gateway.display()));
        let line = bot.logs("the holder is `aetheel hold`, which uses more memory").await;
        assert_eq!(line["level"], "WARN");
        assert!(line["error"].as_str().unwrap().contains(why), "{line}");
        assert!(
            line["message"].as_str().unwrap().contains("hint: install `aetheel-hold` "),
            "{line}"
        );
        bot.logs("aetheel is ready").await;
        let [holder] = holders.pids()[..] else { panic!("{:?}", holders.pids()) };
        assert_eq!(name_of(holder), "aetheel");
        local.mention(CHANNEL, ANN, "through the other program");
        local.wait_for_message(CHANNEL, |text| text.contains("You said: through the other")).await;
        bot.signal(Signal::TERM);
        assert_eq!(bot.ended().await.code, 0);
        holders.gone().await;
    }
}

#[tokio::test]
async fn without_a_holder_the_gateway_continues_or_refuses_to_start_as_configured() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local).with("AGENT_HOLDER", "require");
    let state = installation.path("config").join("state");
    fs::create_dir_all(&state).unwrap();
    let lock = File::create(state.join("holder.lock")).unwrap();
    lock.lock().unwrap();
    let refused = installation.start(&["run"]).ended().await;
    assert_eq!(refused.code, i32::from(exit::UNAVAILABLE), "{}", refused.stderr);
    assert!(refused.stderr.contains("AGENT_HOLDER=require: cannot start"), "{}", refused.stderr);
    let installation = installation.with("AGENT_HOLDER", "auto");
    let bot = serving(&installation).await;
    bot.logs("agents end with the gateway (AGENT_HOLDER=auto)").await;
    local.mention(CHANNEL, ANN, "without");
    local.wait_for_message(CHANNEL, |text| text.contains("You said: without")).await;
    assert_eq!(Holders::of(&installation).pids(), Vec::<i32>::new());
}

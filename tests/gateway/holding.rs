//! The gateway with a holder: found or started as the operator wishes, and left in order.

use std::fs::{self, File};
use std::path::Path;
use std::time::Duration;

use aetheel::cli::exit;
use rustix::process::{Pid, Signal, kill_process};

use super::{installed, serving};
use crate::support::discord::{ANN, CHANNEL, LocalDiscord, TOKEN};
use crate::support::program::{Installation, LIMIT};

/// The holders of an installation; ended when dropped.
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
            line.starts_with("aetheel hold ") && line.contains(&self.0)
        };
        all.filter(ours).collect()
    }

    async fn gone(&self) {
        let leaving = async {
            while !self.pids().is_empty() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        assert!(tokio::time::timeout(LIMIT, leaving).await.is_ok(), "a holder stays");
    }
}

impl Drop for Holders {
    fn drop(&mut self) {
        for pid in self.pids() {
            let _ = kill_process(Pid::from_raw(pid).unwrap(), Signal::TERM);
        }
    }
}

/// Files that a process has open beside the first three, but those of its own runtime.
fn open_files(pid: i32) -> Vec<String> {
    let entries = fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten();
    let named = entries.filter(|entry| {
        entry.file_name().to_str().unwrap().len() > 1
            || !"012".contains(entry.file_name().to_str().unwrap())
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
async fn it_starts_one_that_has_nothing_of_its_own_and_leaves_it_in_order() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local).with("AGENT_HOLDER", "require");
    let holders = Holders::of(&installation);
    let mut bot = serving(&installation).await;
    bot.logs("agents outlive the gateway").await;
    local.mention(CHANNEL, ANN, "through a holder");
    local.wait_for_message(CHANNEL, |text| text.contains("You said: through a holder")).await;
    let [holder] = holders.pids()[..] else { panic!("{:?}", holders.pids()) };
    // Root may look.
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
async fn where_none_can_be_had_it_goes_on_or_refuses_as_the_operator_wishes() {
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

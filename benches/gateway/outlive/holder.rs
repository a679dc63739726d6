//! A separate holder, started as `aetheel run` starts one.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use aetheel_process::Sandbox;
use aetheel_process::holder::{HeldLauncher, HolderStart, PROGRAM};
use rustix::process::{Pid, Signal, kill_process};

use crate::program::Home;

/// The folders of a started holder. The holder is terminated when this is dropped.
pub struct Holder {
    state: PathBuf,
    /// Where a gateway's program would be: beside the holder's.
    gateway: PathBuf,
}

impl Holder {
    /// Prepares a holder for a home. The first gateway starts it.
    pub fn new(home: &Home) -> Self {
        let program = home.path().join(PROGRAM);
        // The holder inherits our environment, and its log is not part of the figures.
        let text = format!(
            "#!/bin/sh\nLOG_LEVEL=error TMPDIR='{}' exec '{}' \"$@\"\n",
            home.temporary().display(),
            env!("CARGO_BIN_EXE_aetheel-hold")
        );
        fs::write(&program, text).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        Self { state: home.path().join("state"), gateway: home.path().join("aetheel") }
    }

    /// Returns the holder that the whole program starts in a home.
    pub fn of_program(home: &Home) -> Self {
        Self { state: home.path().join("config/state"), gateway: PathBuf::new() }
    }

    /// Returns a launcher that uses the holder, as a gateway does.
    pub async fn launcher(&self) -> HeldLauncher {
        let holding = HolderStart {
            program: Some(self.gateway.clone()),
            claim_within: Duration::from_secs(120),
        };
        HeldLauncher::start_or_connect(&self.state, Sandbox::Off, holding).await.unwrap()
    }

    /// Returns the holder's process id.
    pub fn id(&self) -> u32 {
        find(&self.state).expect("a holder runs")
    }

    /// Terminates the holder and its agents, and waits until it has ended.
    pub async fn end(self) {
        let state = self.state.clone();
        drop(self);
        while find(&state).is_some() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        if let Some(id) = find(&self.state) {
            let _ = kill_process(Pid::from_raw(id as i32).unwrap(), Signal::TERM);
        }
    }
}

fn find(state: &Path) -> Option<u32> {
    let ids = fs::read_dir("/proc").unwrap().flatten();
    ids.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).find(|id: &u32| {
        let line = fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        line.contains(PROGRAM) && line.contains(&format!(" --state {} ", state.display()))
    })
}

//! One machine of the cluster: its installation, its links and its running program.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::super::installed;
use super::super::load::{Prompts, number};
use super::LEASE;
use crate::support::link::{Link, Way};
use crate::support::postgres::Postgres;
use crate::support::program::{Installation, Program};

/// A wrapper of the agent. It records an agent that starts while another one of its channel is
/// running. It also performs the first tool call of each prompt, a line in `tools`, before the
/// gateway can know of it.
pub(super) const GUARD: &str = r#"#!/bin/bash
IFS= read -r line
if [[ $line =~ in\ c([0-9]+) ]]; then
    exec 9>"LOCKS/${BASH_REMATCH[1]}"
    flock --nonblock 9 || printf '%s\n' "$line" >>LOCKS/overlaps
fi
[[ $line =~ tool\ number\ ([0-9]+) ]] && number=${BASH_REMATCH[1]}
"$@" < <(exec 9>&-; printf '%s\n' "$line"; exec cat) | while IFS= read -r said; do
    [[ -n $number && $said == *'"id":"t1"'* && $said == *'"type":"tool"'* ]] && echo "$number" >>LOCKS/tools
    printf '%s\n' "$said"
done
exit "${PIPESTATUS[0]}"
"#;

/// Builds the library that shifts the clock of a program.
pub(super) fn skewed_clock(folder: &Path) -> PathBuf {
    let library = folder.join("skew.so");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/support/skew.c");
    let built = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-o"])
        .args([&library, &source])
        .arg("-ldl")
        .status()
        .expect("a C compiler");
    assert!(built.success());
    library
}

/// One machine of the cluster.
pub(super) struct Machine {
    pub(super) installation: Installation,
    pub(super) database: Link,
    pub(super) discord: [Link; 2],
    /// The folder of its link to the database.
    _folder: TempDir,
    pub(super) program: Program,
    /// The logs of its earlier processes.
    pub(super) before: String,
    /// When it is started or woken again. With `None`, it is started as soon as it has ended.
    pub(super) asleep_until: Option<Instant>,
    /// Whether `aetheel drain` is in effect.
    pub(super) drained: bool,
    /// When its links are restored.
    pub(super) cut_until: Option<Instant>,
    /// When it was killed or stopped, and how often other machines had taken over its channels
    /// before.
    pub(super) gone: Option<(Instant, usize)>,
}

impl Machine {
    pub(super) async fn new(
        prompts: &Prompts,
        postgres: &Postgres,
        locks: &Path,
        (name, skew): (&str, i64),
    ) -> Self {
        let folder = tempfile::Builder::new().prefix("link").tempdir_in("/tmp").expect("a folder");
        let database = Link::to_postgres(folder.path(), postgres.folder());
        match number("IDLE_CUT_MS", 2_000) {
            0 => {}
            idle => database.cut_idle(Duration::from_millis(idle)),
        }
        let (base, discord) = prompts.local.linked().await;
        let installation = installed(&prompts.local)
            .with("DISCORD_API_BASE", &base)
            .with("AGENT_HOLDER", "require")
            .with("AGENT_WRAPPER", &locks.join("guard").display().to_string())
            .with("CLUSTER_URL", &postgres.team_url(folder.path()))
            .with("CLUSTER_LEASE_SECONDS", &LEASE.as_secs().to_string())
            .with("NODE_NAME", name)
            .with("BUSY_POLICY", "queue")
            .with("MAX_QUEUE_DEPTH", "100000")
            .with("MAX_CONCURRENT_QUERIES", "8")
            .with("DEMO_AGENT_DELAY_MS", "15")
            .with("LD_PRELOAD", &locks.join("skew.so").display().to_string())
            .with("SKEW_SECONDS", &skew.to_string());
        let program = installation.start(&["run"]);
        Self {
            installation,
            database,
            discord,
            _folder: folder,
            program,
            before: String::new(),
            asleep_until: None,
            drained: false,
            cut_until: None,
            gone: None,
        }
    }

    pub(super) fn start(&mut self) {
        self.before.push_str(&self.program.stderr());
        self.program = self.installation.start(&["run"]);
    }

    pub(super) fn cut(&mut self, way: Way, database: bool, discord: bool, until: Instant) {
        if database {
            self.database.set(way);
        }
        for link in self.discord.iter().filter(|_| discord) {
            link.set(way);
        }
        self.cut_until = Some(until);
    }

    pub(super) fn mend(&mut self) {
        self.database.set(Way::Open);
        self.discord.iter().for_each(|link| link.set(Way::Open));
        self.cut_until = None;
    }

    /// Returns the process id of its holder.
    fn holder(&self) -> Option<i32> {
        let folder = self.installation.path("config").canonicalize().ok()?;
        let processes = fs::read_dir("/proc").ok()?.flatten();
        let mut pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        pids.find(|pid: &i32| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line).replace('\0', " ");
            line.contains(" hold") && line.contains(&*folder.to_string_lossy())
        })
    }

    pub(super) fn signal_holder(&self, signal: Signal) {
        if let Some(holder) = self.holder().and_then(Pid::from_raw) {
            // It may have ended in the meantime.
            let _ = kill_process(holder, signal);
        }
    }
}

//! The real program: `aetheel run` against a local Discord, `aetheel console` with and without a
//! terminal, its refusals and its exit codes. Needs the built demo backend (`make guests`).

mod access;
mod accounts;
mod allowed_backends;
mod answers;
mod audit;
mod audit_entries;
mod away;
mod backends;
mod baselines;
mod budgets;
mod capabilities;
mod chaos;
mod chaos_cluster;
mod choices;
mod cluster;
mod cluster_database;
mod cluster_files;
mod cluster_returns;
mod cluster_tls;
mod cluster_tools;
mod components;
mod config;
mod console;
mod dashboard;
mod delivery;
mod doctor;
mod drift;
mod earlier_state;
mod editing;
mod ended_agents;
mod failures;
mod faults;
mod files;
mod flood;
mod full_disk;
mod health;
mod holder;
mod holder_replacement;
mod hooks;
mod host_calls;
mod init;
mod installed;
mod intake;
mod journal;
mod lifecycle;
mod limits;
mod load;
mod logs;
mod mending;
mod messages;
mod observers;
mod operation;
mod options;
mod outlive;
mod output;
mod panel;
mod policies;
mod projects;
mod questions;
mod readme;
mod recovery;
mod reload;
mod replaced_directory;
mod report;
mod rollout;
mod sandbox;
mod schedules;
mod secret_access;
mod secrets;
mod signals;
mod simulate_crash;
mod start_errors;
mod status;
mod terminal;
mod tls;
mod tools;
mod tracing;
mod turn_lease;
mod turns;
mod unit;
mod upgrade;
mod webhooks;

use crate::support::discord::{LocalDiscord, TOKEN};
use crate::support::program::{Installation, Program};

/// Returns an installation that uses the local Discord and trusts its certificate.
pub fn installed(local: &LocalDiscord) -> Installation {
    let trusted = local.authority().map_or_else(String::new, |file| file.display().to_string());
    Installation::new()
        .with("DISCORD_API_BASE", local.url())
        .with("DISCORD_BOT_TOKEN", TOKEN)
        .with("SSL_CERT_FILE", &trusted)
}

/// Waits until the journal contains that an agent has used a tool.
async fn used_a_tool(local: &LocalDiscord, installation: &Installation) {
    let noted = || installation.read("state/queue.md").contains("used a tool").then_some(());
    local.wait_for("the tool", |_| noted()).await;
}

/// Returns how many prompts the demo agent got, according to its own notes.
fn prompt_count(installation: &Installation) -> usize {
    let sessions = installation.path("workspace").join(".demo-agent");
    let files = std::fs::read_dir(sessions).into_iter().flatten().flatten();
    files.map(|file| std::fs::read_to_string(file.path()).unwrap().lines().count()).sum()
}

/// Starts `aetheel run` and waits until it is ready.
pub async fn serving(installation: &Installation) -> Program {
    let program = installation.start(&["run"]);
    program.logs("aetheel is ready").await;
    program
}

/// Returns the id at the end of a failure: `… (kind, id)`.
pub fn id_of<'a>(text: &'a str, kind: &str) -> &'a str {
    let rest = text
        .split_once(&format!("({kind}, "))
        .unwrap_or_else(|| panic!("{kind:?} is not named in {text:?}"))
        .1;
    let id = rest.split(')').next().unwrap();
    assert!(
        id.len() == 8 && id.bytes().all(|byte| byte.is_ascii_hexdigit()),
        "{id:?} is not an id"
    );
    id
}

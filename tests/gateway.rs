//! The real program: `aetheel run` against a local Discord, `aetheel console` with and without a terminal, its refusals
//! and its exit codes. Needs the built demo backend (`make guests`).

mod access;
mod answers;
mod backends;
mod chaos;
mod choosing;
mod console;
mod doctor;
mod failures;
mod kept;
mod life;
mod logs;
mod panel;
mod projects;
mod questions;
mod refusals;
mod reload;
mod secrets;
mod status;
mod terminal;
mod webhooks;

use crate::support::discord::{LocalDiscord, TOKEN};
use crate::support::program::{Installation, Program};

/// An installation whose Discord is the local one.
fn installed(local: &LocalDiscord) -> Installation {
    Installation::new().with("DISCORD_API_BASE", local.url()).with("DISCORD_BOT_TOKEN", TOKEN)
}

/// `aetheel run`, ready to answer.
async fn serving(installation: &Installation) -> Program {
    let program = installation.start(&["run"]);
    program.logs("aetheel is ready").await;
    program
}

/// The id that a failure ends with: `… (kind, id)`.
fn id_of<'a>(text: &'a str, kind: &str) -> &'a str {
    let told = text.split_once(&format!("({kind}, ")).unwrap_or_else(|| panic!("{kind:?} is not named in {text:?}")).1;
    let id = told.split(')').next().unwrap();
    assert!(id.len() == 8 && id.bytes().all(|byte| byte.is_ascii_hexdigit()), "{id:?} is no id");
    id
}

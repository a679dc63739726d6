//! Tests that the loss of the reception task is noticed. The bot would receive nothing from then
//! on, so the program must restart.
//!
//! A process has a single supervisor, so the bot runs in a process of its own, which executes this
//! test binary again.

use std::io::Write;

use aetheel_runtime::supervisor;

use super::bot::Bot;
use crate::support::discord::{LIMIT, LocalDiscord};

#[test]
fn a_panic_in_reception_is_noticed_with_the_tasks_name() {
    let child = "discord::watched::a_bot_whose_reception_panics";
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", child, "--nocapture"])
        .output()
        .expect("the test binary starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a process of its own; run by a_panic_in_reception_is_noticed_with_the_tasks_name"]
async fn a_bot_whose_reception_panics() {
    let _watch = supervisor::supervise();
    let local = LocalDiscord::start().await;
    // Reception logs the login.
    tracing_subscriber::fmt().with_writer(|| Brittle).init();
    let bot = Bot::start(&local).await;
    let fallen = tokio::time::timeout(LIMIT, supervisor::first_failure())
        .await
        .expect("the panic is noticed");
    assert_eq!((fallen.name, fallen.how), ("reception", "panicked"));
    drop(bot);
}

/// A log that panics when a line is written.
struct Brittle;

impl Write for Brittle {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        assert!(!String::from_utf8_lossy(bytes).contains("discord is ready"), "as it happens");
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

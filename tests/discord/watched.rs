//! A reception that is gone: a bot that hears nobody notices, and is started again.
//!
//! There is one watch a program, so that the bot runs in a program of its own: this test's binary
//! once more.

use std::sync::Arc;

use aetheel::discord::Windows;
use aetheel::vigil;

use super::desk::{Bot, Office};
use crate::support::discord::{LIMIT, LocalDiscord};

#[test]
fn a_panic_in_reception_is_missed_by_name() {
    let child = "discord::watched::a_bot_whose_reception_panics";
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", child, "--nocapture"])
        .output()
        .expect("it starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "it is run by the test above, in a program of its own"]
async fn a_bot_whose_reception_panics() {
    let _watch = vigil::keep();
    let local = LocalDiscord::start().await;
    let office = Arc::new(Office::default());
    let spoiled = Arc::clone(&office);
    // Whoever comes after this finds the lock poisoned, and panics: reception, when it is told of
    // the login.
    let panicked = std::thread::spawn(move || {
        let _held = spoiled.seen.lock().unwrap();
        panic!("as it happens");
    });
    assert!(panicked.join().is_err());
    let bot = Bot::try_start(&local, Windows::default(), office).await.expect("the bot starts");
    let fallen = tokio::time::timeout(LIMIT, vigil::fallen()).await.expect("it is noticed");
    assert_eq!((fallen.name, fallen.how), ("reception", "panicked"));
    drop(bot);
}

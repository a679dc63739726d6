//! `aetheel simulate-crash` with the real program.

use serde_json::Value;

use super::upgrade::{change_recordings, files, with_recordings};
use crate::support::program::{Ended, Installation};

async fn simulate(installation: &Installation, arguments: &[&str]) -> (Ended, Value) {
    let ended =
        installation.run(&[&["simulate-crash", "--json"][..], arguments].concat(), "").await;
    let report = serde_json::from_str(&ended.stdout)
        .unwrap_or_else(|error| panic!("{error}: {} {}", ended.stdout, ended.stderr));
    (ended, report)
}

#[tokio::test]
async fn every_point_of_an_unchanged_recording_can_be_rebuilt() {
    let installation = with_recordings(&["tool"]).await;
    let path = files(&installation).remove(0);
    let id = path.file_stem().unwrap().to_str().unwrap().to_owned();
    let before = installation.everything();
    let (ended, report) = simulate(&installation, &[&id, "--points", "0"]).await;
    assert_eq!((ended.code, &report["failed"]), (0, &0.into()), "{report}");
    assert!(report["rebuilt"].as_u64().unwrap() > 5, "{report}");
    let (_, fewer) = simulate(&installation, &["console", "--points", "3"]).await;
    assert_eq!((&fewer["rebuilt"], &fewer["recording"]), (&3.into(), &report["recording"]));
    let shown = installation.run(&["simulate-crash", path.to_str().unwrap()], "").await;
    assert!(shown.stdout.contains(" rebuilt, 0 not\n"), "{}", shown.stdout);
    let [mut before, mut now] = [before, installation.everything()];
    before.sort();
    now.sort();
    assert!(before == now, "nothing was written");
}

#[tokio::test]
async fn a_component_that_reads_otherwise_fails_with_a_next_step() {
    let installation = with_recordings(&["hello"]).await;
    change_recordings(&installation, "out", "You said", "You wrote");
    let path = files(&installation).remove(0);
    let shown = installation.run(&["simulate-crash", path.to_str().unwrap()], "").await;
    assert_eq!(shown.code, 1, "{}", shown.stdout);
    assert!(
        shown.stdout.contains("not rebuilt: its backend returned other actions"),
        "{}",
        shown.stdout
    );
    assert!(shown.stdout.contains("hint: `aetheel backend replay"), "{}", shown.stdout);
    let none = installation.run(&["simulate-crash", "no-such-turn"], "").await;
    assert_eq!(none.code, 64, "{}", none.stderr);
    assert!(none.stderr.contains("no recording `no-such-turn.jsonl`"), "{}", none.stderr);
}

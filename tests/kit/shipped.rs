//! Tests that the shipped components fulfil everything that the kit demands of contributors.

use super::Bench;

macro_rules! components {
    ($($test:ident: $name:literal, $least:literal;)*) => { $(
        #[test]
        fn $test() {
            Bench::shipped($name, |_| true).passes($least, 1);
        }
    )* };
}
components! {
    acp_passes_over_all_its_recordings: "acp", 12;
    claude_passes_over_all_its_recordings: "claude", 90;
    codex_passes_over_all_its_recordings: "codex", 60;
    opencode_passes_over_all_its_recordings: "opencode", 45;
    droid_passes_over_all_its_recordings: "droid", 50;
    gemini_passes_over_all_its_recordings: "gemini", 45;
}

#[test]
fn the_scripted_agents_component_passes_without_recordings() {
    let bench = Bench::of(&crate::support::built("demo.wasm"));
    let checked = bench.run(&["check", bench.component(), "--json"]);
    assert_eq!(checked.code, Some(0), "{:#?}", checked.findings());
}

#[test]
fn idle_agents_of_claude_and_droid_are_handed_over_to_a_new_component() {
    for (name, recording) in [("claude", "live-two-turns"), ("droid", "live-hello")] {
        let bench = Bench::shipped(name, |case| case == recording);
        let checked = bench.run(&["check", bench.component(), "--json"]);
        assert_eq!(checked.code, Some(0), "{:#?}", checked.findings());
        let handover = checked.json()["areas"][3].clone();
        assert!(
            handover["name"] == "handover" && handover["trials"].as_u64() > Some(0),
            "{name}: {handover}"
        );
    }
}

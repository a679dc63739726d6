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

/// A state that forgets anything would end an agent after a crash of the gateway, so the state of
/// each component is moved at every place of all its recordings.
#[test]
fn idle_agents_are_handed_over_at_every_place_of_all_recordings() {
    for (name, least) in [("claude", 40), ("codex", 45), ("droid", 90), ("opencode", 90)] {
        let bench = Bench::shipped(name, |_| true);
        let checked = bench.run(&["check", bench.component(), "--json"]);
        assert_eq!(checked.code, Some(0), "{:#?}", checked.findings());
        let areas = checked.json()["areas"].as_array().unwrap().clone();
        let handover = areas.iter().find(|area| area["name"] == "handover").unwrap();
        assert!(handover["trials"].as_u64() >= Some(least), "{name}: {handover}");
    }
}

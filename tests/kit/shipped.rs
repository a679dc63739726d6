//! Tests that the shipped components fulfil everything that the kit demands of contributors.

use super::Bench;

macro_rules! components {
    ($($test:ident: $name:literal, $least:literal, $handovers:literal;)*) => { $(
        #[test]
        fn $test() {
            // A state that forgets anything ends the agent after a crash of the gateway.
            let handovers = Bench::shipped($name, |_| true).passes($least, 1);
            assert!(($handovers..).contains(&handovers), "the state was handed over {handovers} times");
        }
    )* };
}
components! {
    acp_passes_over_all_its_recordings: "acp", 12, 0;
    claude_passes_over_all_its_recordings: "claude", 90, 40;
    codex_passes_over_all_its_recordings: "codex", 60, 45;
    opencode_passes_over_all_its_recordings: "opencode", 45, 90;
    droid_passes_over_all_its_recordings: "droid", 50, 90;
    gemini_passes_over_all_its_recordings: "gemini", 45, 0;
}

#[test]
fn the_scripted_agents_component_passes_without_recordings() {
    let bench = Bench::of(&crate::support::built("demo.wasm"));
    let checked = bench.run(&["check", bench.component(), "--json"]);
    assert_eq!(checked.code, Some(0), "{:#?}", checked.findings());
}

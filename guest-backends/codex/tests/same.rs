//! The same conversation in both modes has the same events.

use std::path::Path;

use aetheel_backend_sdk::outline;

#[test]
fn both_modes_report_the_same_events() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/codex");
    for (once, live) in [
        ("plain", "live-init-prompt-streaming"),
        ("tool-write", "live-permission-patch-accept"),
        ("tools-parallel", "live-permission-command-accept"),
    ] {
        let told = outline(&folder.join(once), 1);
        assert!(told.len() >= 4, "{told:?}");
        assert_eq!(outline(&folder.join(live), 1), told, "{live} and {once}");
    }
}

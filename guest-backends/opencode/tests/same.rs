//! One-shot and live mode: users see the same events.

use std::path::Path;

use aetheel_backend_sdk::outline;

#[test]
fn both_modes_report_the_same_events() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/opencode");
    for (once, live) in [("run-plain", "hello"), ("run-tool-write", "permission-edit")] {
        let told = outline(&folder.join(once), 1);
        assert!(told.len() >= 4, "{told:?}");
        assert_eq!(outline(&folder.join(live), 1), told, "{live} and {once}");
    }
}

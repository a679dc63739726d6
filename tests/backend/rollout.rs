//! Tests that a new version on rollout does not serve until it is promoted, also after a restart.

use std::fs;

use aetheel_recording::Backend as _;
use aetheel_store::workspace::{Components, ServedComponent};
use aetheel_turn::Backends as _;
use aetheel_wasm::LoadReport;

use super::{Stand, digest};
use crate::support::guests::{Wat, answering};

const SHADOW: &[(&str, &str)] = &[("BACKEND_ROLLOUT", "shadow:5")];

fn mini(version: &str) -> Vec<u8> {
    answering("mini", version)
}

/// Starts a registry where `mini` 1 serves and `mini` 2 is on rollout.
async fn on_rollout() -> Stand {
    let mut stand = Stand::new(SHADOW, &[("mini.wasm", &mini("1"))]).await;
    assert!(matches!(&stand.reports[..], [LoadReport::Loaded { .. }]), "the first serves at once");
    stand.keeps("mini", 1).await;
    stand.put("mini.wasm", &mini("2"));
    let report = stand.news().await;
    assert!(matches!(&report, LoadReport::OnRollout { name, .. } if name == "mini"), "{report:?}");
    stand
}

fn successor(stand: &Stand) -> Option<String> {
    Some(stand.registry.rollout("mini")?.successor.descriptor().version.clone())
}

#[tokio::test]
async fn a_promoted_version_serves_and_can_be_rolled_back() {
    let mut stand = on_rollout().await;
    stand.serves("mini", "1").await;
    let pair = stand.registry.rollout("mini").unwrap();
    assert_eq!(
        (&*pair.serving.descriptor().version, &*pair.successor.descriptor().version),
        ("1", "2")
    );
    let refused = stand.registry.promote("mini", &digest(&mini("1"))).await.unwrap_err();
    assert!(refused.to_string().contains("no new version of `mini` is on rollout"), "{refused}");
    let generation = stand.registry.promote("mini", &digest(&mini("2"))).await.unwrap();
    assert_eq!(generation.number, 2);
    assert!(matches!(&stand.news().await, LoadReport::Loaded { .. }));
    stand.serves("mini", "2").await;
    assert_eq!(successor(&stand), None);
    stand.registry.roll_back("mini", &generation).await.unwrap();
    stand.serves("mini", "1").await;
}

#[tokio::test]
async fn after_a_restart_the_version_that_served_last_serves() {
    let folder = on_rollout().await.end();
    let stand = Stand::over(folder, SHADOW).await;
    stand.serves("mini", "1").await;
    assert_eq!(successor(&stand).as_deref(), Some("2"));
    stand.registry.promote("mini", &digest(&mini("2"))).await.unwrap();
    let folder = stand.end();

    let stand = Stand::over(folder, SHADOW).await;
    stand.serves("mini", "2").await;
    assert_eq!(successor(&stand), None);
    // A file that was replaced while no gateway ran is a new version too.
    let folder = stand.end();
    fs::write(folder.path().join("backends/mini.wasm"), mini("3")).unwrap();
    let stand = Stand::over(folder, SHADOW).await;
    stand.serves("mini", "2").await;
    assert_eq!(successor(&stand).as_deref(), Some("3"));
    // Without a rollout, the file serves.
    let stand = Stand::over(stand.end(), &[]).await;
    stand.serves("mini", "3").await;
}

#[tokio::test]
async fn a_withdrawn_version_leaves_the_folder_to_the_serving_one() {
    let stand = on_rollout().await;
    let moved = stand.registry.withdraw("mini", &digest(&mini("2"))).await.unwrap();
    assert_eq!(fs::read(moved).unwrap(), mini("2"));
    assert_eq!(fs::read(stand.file("mini.wasm")).unwrap(), mini("1"));
    assert_eq!(successor(&stand), None);
    let stand = Stand::over(stand.end(), SHADOW).await;
    stand.serves("mini", "1").await;
    assert_eq!(successor(&stand), None);
}

#[tokio::test]
async fn another_process_promotes_a_version_through_the_store() {
    let mut stand = on_rollout().await;
    let components = Components::new(&stand.path("config"));
    let bytes = mini("2");
    let served = ServedComponent { digest: digest(&bytes), bytes: bytes.into(), signature: None };
    components.keep("mini", &served).unwrap();
    stand.registry.rescan();
    assert!(matches!(&stand.news().await, LoadReport::Loaded { .. }));
    stand.serves("mini", "2").await;
}

#[tokio::test]
async fn a_rollout_ends_when_its_file_changes() {
    let mut stand = on_rollout().await;
    stand.put("mini.wasm", &mini("3"));
    assert!(matches!(&stand.news().await, LoadReport::OnRollout { .. }));
    assert_eq!(successor(&stand).as_deref(), Some("3"));
    stand.put("mini.wasm", b"nonsense");
    assert!(matches!(&stand.news().await, LoadReport::Refused { .. }));
    assert_eq!(successor(&stand), None);
    stand.serves("mini", "1").await;
}

#[tokio::test]
async fn a_version_for_the_installed_agent_replaces_one_for_another_agent_at_once() {
    let made = |version: &str, understands: &str| {
        Wat {
            descriptor: serde_json::json!({ "understands": [understands] }),
            ..Wat::new("mini", version)
        }
        .build()
    };
    let stand = Stand::new(SHADOW, &[("mini.wasm", &made("1.0.0", "^1"))]).await;
    stand.registry.set_agent_version("mini", "1.5.0").await;
    stand.keeps("mini", 1).await;
    stand.put("new.wasm", &made("2.0.0", "^2"));
    // The agent is still the old one, so the new file only stands by.
    let mut stand = stand;
    assert!(matches!(&stand.news().await, LoadReport::Standby { .. }));
    assert!(stand.registry.set_agent_version("mini", "2.0.0").await);
    assert!(matches!(&stand.news().await, LoadReport::Loaded { .. }));
    stand.serves("mini", "2.0.0").await;
    // The same agent: a higher version waits.
    stand.put("higher.wasm", &made("2.1.0", "^2"));
    assert!(matches!(&stand.news().await, LoadReport::OnRollout { .. }));
    stand.serves("mini", "2.0.0").await;
    // For the next agent, the one on rollout is the only one that fits.
    stand.put("higher.wasm", &made("3.0.0", "^3"));
    while successor(&stand).is_some() {
        stand.news().await;
    }
    assert!(stand.registry.set_agent_version("mini", "3.0.0").await);
    stand.serves("mini", "3.0.0").await;
}

#[tokio::test]
async fn a_rollback_during_a_rollout_names_the_next_step() {
    let stand = on_rollout().await;
    let serving = stand.registry.component("mini").unwrap().generation().clone();
    let refused = stand.registry.roll_back("mini", &serving).await.unwrap_err().to_string();
    assert!(refused.contains("hint: `aetheel backend withdraw mini` drops it first"), "{refused}");
    stand.registry.withdraw("mini", &digest(&mini("2"))).await.unwrap();
    let refused = stand.registry.roll_back("mini", &serving).await.unwrap_err().to_string();
    assert!(!refused.contains("withdraw"), "{refused}");
    stand.serves("mini", "1").await;
}

#[tokio::test]
async fn a_version_that_serves_a_part_keeps_its_generation_when_it_is_promoted() {
    let stand = on_rollout().await;
    let successor = stand.registry.partial().successor("mini").unwrap();
    assert!(successor.is_on_rollout());
    assert_eq!(stand.registry.partial().on_rollout(), ["mini"]);
    let promoted = stand.registry.promote("mini", &digest(&mini("2"))).await.unwrap();
    assert_eq!(*successor.generation(), promoted);
    assert!(stand.registry.partial().successor("mini").is_none());
}

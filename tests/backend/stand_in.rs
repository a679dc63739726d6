//! Tests that a kept component serves while the file of its backend is refused, also after a
//! restart.

use std::fs;

use aetheel_recording::Backend as _;
use aetheel_turn::Backends as _;
use aetheel_wasm::LoadReport;

use super::{Stand, digest};
use crate::support::guests::answering;

/// Restarts a registry in whose folders `mini` 1 and then 2 served from `mini.wasm`, after `change`
/// modified them.
async fn restarted(settings: &[(&str, &str)], change: impl FnOnce(&std::path::Path)) -> Stand {
    let mut stand = Stand::new(&[], &[("mini.wasm", &answering("mini", "1"))]).await;
    stand.keeps("mini", 1).await;
    stand.put("mini.wasm", &answering("mini", "2"));
    assert!(matches!(&stand.news().await, LoadReport::Loaded { .. }));
    stand.keeps("mini", 2).await;
    let folder = stand.end();
    change(folder.path());
    Stand::over(folder, settings).await
}

fn damage(folder: &std::path::Path) {
    let whole = answering("mini", "2");
    fs::write(folder.join("backends/mini.wasm"), &whole[..whole.len() / 2]).unwrap();
}

fn stands_in(stand: &Stand) -> bool {
    stand.registry.serving_info("mini").unwrap().is_fallback
}

#[tokio::test]
async fn a_kept_component_serves_in_place_of_a_damaged_file_until_a_valid_one_arrives() {
    let mut stand = restarted(&[], damage).await;
    assert!(
        matches!(&stand.reports[..], [LoadReport::Refused { .. }, LoadReport::Loaded { .. }]),
        "{:?}",
        stand.reports
    );
    stand.serves("mini", "2").await;
    let of = stand.registry.fallback_of(&stand.file("mini.wasm"));
    assert_eq!(of, Some(("mini".to_owned(), "2".to_owned())));

    // Another damaged file does not end the stand-in.
    stand.put("mini.wasm", b"nonsense");
    assert!(matches!(&stand.news().await, LoadReport::Refused { .. }));
    stand.serves("mini", "2").await;
    assert!(stands_in(&stand));

    stand.put("mini.wasm", &answering("mini", "3"));
    assert!(matches!(&stand.news().await, LoadReport::Loaded { .. }));
    stand.serves("mini", "3").await;
    assert!(!stands_in(&stand));
}

#[tokio::test]
async fn the_same_component_in_a_valid_file_ends_the_stand_in() {
    let stand = restarted(&[], damage).await;
    assert!(stands_in(&stand));
    stand.put("mini.wasm", &answering("mini", "2"));
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while stands_in(&stand) {
        assert!(std::time::Instant::now() < deadline, "the stand-in is never replaced");
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    stand.serves("mini", "2").await;
}

#[tokio::test]
async fn a_damaged_kept_component_is_skipped_for_the_previous_one() {
    let stand = restarted(&[], |folder| {
        damage(folder);
        let kept = folder.join("config/state/components/mini");
        let newest = kept.join(format!("2-{}.wasm", digest(&answering("mini", "2"))));
        fs::write(newest, "damaged too").unwrap();
    })
    .await;
    stand.serves("mini", "1").await;
    assert!(stands_in(&stand));
}

#[tokio::test]
async fn a_file_that_the_operator_removed_has_no_stand_in() {
    let stand = restarted(&[], |folder| {
        fs::remove_file(folder.join("backends/mini.wasm")).unwrap();
        fs::write(folder.join("backends/other.wasm"), "nonsense").unwrap();
    })
    .await;
    assert!(matches!(&stand.reports[..], [LoadReport::Refused { .. }]), "{:?}", stand.reports);
    assert!(stand.registry.get("mini").is_none());
}

#[tokio::test]
async fn a_kept_component_that_is_not_trusted_does_not_stand_in() {
    let stand = restarted(&[("BACKEND_TRUST", "pinned")], damage).await;
    assert!(stand.registry.get("mini").is_none());
}

#[tokio::test]
async fn a_rollback_without_a_generation_writes_the_stand_in_to_the_file() {
    let stand = restarted(&[], damage).await;
    let before = stand.registry.component("mini").unwrap().generation().clone();
    assert_eq!(stand.registry.restore_previous("mini", None).await.unwrap(), before);
    assert_eq!(fs::read(stand.file("mini.wasm")).unwrap(), answering("mini", "2"));
    assert!(!stands_in(&stand));
    stand.serves("mini", "2").await;
}

#[tokio::test]
async fn a_rollback_from_the_stand_in_restores_the_component_before_it() {
    let stand = restarted(&[], damage).await;
    let from = stand.registry.component("mini").unwrap().generation().clone();
    stand.registry.roll_back("mini", &from).await.unwrap();
    stand.serves("mini", "1").await;
    assert_eq!(fs::read(stand.file("mini.wasm")).unwrap(), answering("mini", "1"));
    assert!(!stands_in(&stand));
}

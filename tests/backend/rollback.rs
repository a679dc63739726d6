//! Tests that components that have served are kept, and can be restored.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use aetheel_recording::{Backend as _, Generation};
use aetheel_turn::Backends as _;
use aetheel_wasm::LoadReport;

use super::{Stand, digest};
use crate::support::guests::{Wat, answering};

/// Starts a registry with `mini` 1, 2 and 3, of which 3 serves.
async fn third() -> Stand {
    let mut stand = Stand::new(&[], &[("mini.wasm", &answering("mini", "1"))]).await;
    stand.keeps("mini", 1).await;
    for version in ["2", "3"] {
        stand.put("mini.wasm", &answering("mini", version));
        assert!(matches!(&stand.news().await, LoadReport::Loaded { .. }));
        stand.keeps("mini", version.parse().unwrap()).await;
    }
    stand
}

fn generation(stand: &Stand) -> Generation {
    stand.registry.component("mini").unwrap().generation().clone()
}

#[tokio::test]
async fn a_rollback_restores_the_previous_component_and_a_second_one_the_one_before() {
    let mut stand = third().await;
    let from = generation(&stand);
    let back = stand.registry.roll_back("mini", &from).await.unwrap();
    assert_eq!((back.number, back.digest.as_str()), (4, digest(&answering("mini", "2")).as_str()));
    assert!(
        matches!(&stand.news().await, LoadReport::Loaded { generation, .. } if *generation == back)
    );
    stand.serves("mini", "2").await;
    assert_eq!(fs::read(stand.file("mini.wasm")).unwrap(), answering("mini", "2"));
    let aside = stand.file(&format!("mini.wasm.rolled-back-{}", &from.digest[..12]));
    assert_eq!(fs::read(&aside).unwrap(), answering("mini", "3"), "the replaced component is kept");

    stand.registry.roll_back("mini", &back).await.unwrap();
    stand.serves("mini", "1").await;
    let refused =
        stand.registry.roll_back("mini", &generation(&stand)).await.unwrap_err().to_string();
    assert!(refused.contains("no earlier version of `mini` is kept"), "{refused}");
    stand.serves("mini", "1").await;

    // A component that was rolled back may be installed again.
    stand.put("mini.wasm", &answering("mini", "3"));
    stand.serves("mini", "3").await;
    let only: Vec<_> = fs::read_dir(stand.path("backends"))
        .unwrap()
        .map(|file| file.unwrap().file_name())
        .collect();
    assert!(
        only.iter().all(|name| !name.to_string_lossy().starts_with('.')),
        "no incomplete file is left: {only:?}"
    );
}

#[tokio::test]
async fn a_generation_that_no_longer_serves_is_not_rolled_back() {
    let stand = third().await;
    let old = Generation { number: 2, digest: digest(&answering("mini", "2")) };
    let refused = stand.registry.roll_back("mini", &old).await.unwrap_err().to_string();
    assert!(
        refused.contains(&format!("version {} serves `mini` by now", generation(&stand))),
        "{refused}"
    );
    let refused = stand.registry.roll_back("nobody", &old).await.unwrap_err().to_string();
    assert!(refused.contains("nothing serves `nobody`"), "{refused}");
    stand.serves("mini", "3").await;
}

#[tokio::test]
async fn kept_components_survive_a_restart_and_a_damaged_copy_is_skipped() {
    let stand = third().await;
    let folder = stand.end();
    let kept = folder.path().join("config/state/components/mini");
    let second = kept.join(format!("2-{}.wasm", digest(&answering("mini", "2"))));
    fs::write(&second, answering("mini", "evil")).unwrap();
    let stand = Stand::over(folder, &[]).await;
    stand.registry.roll_back("mini", &generation(&stand)).await.unwrap();
    stand.serves("mini", "1").await;
}

#[tokio::test]
async fn an_earlier_component_that_may_not_serve_is_not_restored() {
    let mut stand = third().await;
    // The kept file contains another backend, as if somebody had copied it there.
    let other = Wat::new("other", "2").build();
    let kept = stand.path("config/state/components/mini");
    fs::remove_file(kept.join(format!("2-{}.wasm", digest(&answering("mini", "2"))))).unwrap();
    fs::write(kept.join(format!("2-{}.wasm", digest(&other))), &other).unwrap();
    let refused =
        stand.registry.roll_back("mini", &generation(&stand)).await.unwrap_err().to_string();
    assert!(refused.contains("may not serve") && refused.contains("another backend"), "{refused}");
    assert_eq!(fs::read(stand.file("mini.wasm")).unwrap(), answering("mini", "3"));
    // Another file was installed in the meantime, and does not serve.
    stand.put("mini.wasm", b"nonsense");
    assert!(matches!(&stand.news().await, LoadReport::Refused { .. }));
    let refused =
        stand.registry.roll_back("mini", &generation(&stand)).await.unwrap_err().to_string();
    assert!(refused.contains("contains another version by now"), "{refused}");
    assert_eq!(fs::read(stand.file("mini.wasm")).unwrap(), b"nonsense");
}

#[tokio::test]
async fn a_kept_component_can_be_restored_if_none_serves() {
    let stand = third().await;
    let folder = stand.end();
    fs::remove_file(folder.path().join("backends/mini.wasm")).unwrap();
    let stand = Stand::over(folder, &[]).await;
    assert!(stand.registry.get("mini").is_none());
    stand.registry.restore_previous("mini", None).await.unwrap();
    stand.serves("mini", "3").await;
    assert_eq!(fs::read(stand.file("mini.wasm")).unwrap(), answering("mini", "3"));
}

#[tokio::test]
async fn a_rollback_changes_the_serving_file_and_only_if_it_would_then_be_chosen() {
    let made = |version: &str, understands: &str| {
        Wat {
            descriptor: serde_json::json!({ "understands": [understands] }),
            ..Wat::new("mini", version)
        }
        .build()
    };
    let files: [(&str, &[u8]); 2] =
        [("one.wasm", &made("1.0.0", "^1")), ("two.wasm", &made("2.0.0", "^2"))];
    let mut stand = Stand::new(&[], &files).await;
    stand.registry.set_agent_version("mini", "2.0.0").await;
    stand.keeps("mini", 1).await;
    stand.put("two.wasm", &made("2.1.0", "^2"));
    stand.serves("mini", "2.1.0").await;
    stand.keeps("mini", 2).await;
    stand.registry.roll_back("mini", &generation(&stand)).await.unwrap();
    stand.serves("mini", "2.0.0").await;
    assert_eq!(
        fs::read(stand.file("one.wasm")).unwrap(),
        made("1.0.0", "^1"),
        "the other file is not touched"
    );

    stand.put("two.wasm", &made("2.2.0", "^3"));
    while stand.registry.component("mini").unwrap().descriptor().version != "2.2.0" {
        stand.news().await;
    }
    stand.keeps("mini", 2).await;
    stand.registry.set_agent_version("mini", "1.0.0").await;
    stand.serves("mini", "1.0.0").await;
    stand.keeps("mini", 3).await;
    let refused = stand.registry.roll_back("mini", &generation(&stand)).await;
    // `one.wasm` would then contain 2.0.0, made for ^2, and `two.wasm` would have the highest
    // version.
    assert!(
        refused.as_ref().is_err_and(|why| why.to_string().contains("would not serve, but")),
        "{refused:?}"
    );
    stand.serves("mini", "1.0.0").await;
}

#[tokio::test]
async fn an_unwritable_folder_is_named_and_an_unwritable_store_does_no_harm() {
    let stand = third().await;
    if rustix::process::geteuid().is_root() {
        // Permissions do not apply to root, but a folder in place of the target file prevents the
        // write.
        let aside =
            stand.file(&format!("mini.wasm.rolled-back-{}", &generation(&stand).digest[..12]));
        fs::create_dir(aside).unwrap();
    } else {
        fs::set_permissions(stand.path("backends"), fs::Permissions::from_mode(0o500)).unwrap();
    }
    let refused =
        stand.registry.roll_back("mini", &generation(&stand)).await.unwrap_err().to_string();
    assert!(refused.contains("cannot write") && refused.contains("BACKENDS_DIR"), "{refused}");
    stand.serves("mini", "3").await;
    fs::set_permissions(stand.path("backends"), fs::Permissions::from_mode(0o700)).unwrap();

    fs::remove_dir_all(stand.path("config/state/components")).unwrap();
    fs::write(stand.path("config/state/components"), "in its place").unwrap();
    stand.put("mini.wasm", &answering("mini", "4"));
    stand.serves("mini", "4").await;
}

//! Tests of several components of one backend, of which one is chosen by the agent's version.

use aetheel_wasm::{AdmissionError, LoadReport};

use super::Stand;
use crate::support::guests::{Wat, answering};

/// Builds a component for these agent versions.
fn made_for(name: &str, version: &str, understands: &str) -> Vec<u8> {
    Wat {
        descriptor: serde_json::json!({ "understands": [understands] }),
        ..Wat::new(name, version)
    }
    .build()
}

#[tokio::test]
async fn the_component_for_the_installed_agent_serves_with_a_reason() {
    let files: [(&str, &[u8]); 2] = [
        ("old.wasm", &made_for("mini", "1.0.0", "^1")),
        ("new.wasm", &made_for("mini", "2.0.0", "^2")),
    ];
    let mut stand = Stand::new(&[], &files).await;
    stand.serves("mini", "2.0.0").await;
    let chosen = stand.registry.serving_info("mini").unwrap();
    assert!(
        chosen.doubtful
            && chosen.why.as_deref().unwrap().starts_with("the agent's version is unknown"),
        "{chosen:?}"
    );

    assert!(stand.registry.set_agent_version("mini", "1.4.2").await, "another one serves now");
    let LoadReport::Loaded { generation, path, .. } = stand.news().await else {
        panic!("it is loaded")
    };
    assert_eq!((generation.number, path), (2, stand.file("old.wasm")));
    stand.serves("mini", "1.0.0").await;
    let chosen = stand.registry.serving_info("mini").unwrap();
    assert_eq!(chosen.why.as_deref(), Some("it is made for agent versions ^1, installed is 1.4.2"));
    assert_eq!(
        (chosen.doubtful, chosen.alternatives.len(), chosen.alternatives[0].version.as_str()),
        (false, 1, "2.0.0")
    );

    assert!(!stand.registry.set_agent_version("mini", "1.4.3").await, "the same one serves");
    assert!(stand.registry.set_agent_version("mini", "2.0.1").await);
    stand.serves("mini", "2.0.0").await;
    assert!(
        !stand.registry.set_agent_version("mini", "3.0.0").await,
        "none fits, so the highest serves"
    );
    assert!(stand.registry.serving_info("mini").unwrap().doubtful);
}

#[tokio::test]
async fn a_running_link_keeps_its_component_when_the_choice_changes() {
    use super::{prompt, timed, version_told};
    use aetheel_model::agent::Input;
    use aetheel_turn::Backends as _;

    let files: [(&str, &[u8]); 2] = [
        ("old.wasm", &made_for("mini", "1.0.0", "^1")),
        ("new.wasm", &made_for("mini", "2.0.0", "^2")),
    ];
    let stand = Stand::new(&[], &files).await;
    let mut running = stand.registry.get("mini").unwrap().open().await.unwrap();
    assert_eq!(version_told(&running.handle(prompt(1, 1)).await.unwrap()), "2.0.0");
    assert!(stand.registry.set_agent_version("mini", "1.0.0").await);
    assert_eq!(version_told(&running.handle(vec![timed(Input::Timer(1))]).await.unwrap()), "2.0.0");
    stand.serves("mini", "1.0.0").await;
}

#[tokio::test]
async fn a_later_file_serves_or_waits_depending_on_the_agents_version() {
    let mut stand = Stand::new(&[], &[("a.wasm", &made_for("mini", "1.0.0", "^1"))]).await;
    assert!(!stand.registry.set_agent_version("mini", "1.1.0").await, "there is nothing to choose");
    assert_eq!(stand.registry.serving_info("mini").unwrap().why, None);
    stand.put("b.wasm", &made_for("mini", "2.0.0", "^2"));
    let report = stand.news().await;
    assert!(
        matches!(&report, LoadReport::Standby { name, path } if name == "mini" && *path == stand.file("b.wasm")),
        "{report:?}"
    );
    stand.serves("mini", "1.0.0").await;
    stand.put("c.wasm", &made_for("mini", "1.1.0", "^1"));
    assert!(
        matches!(&stand.news().await, LoadReport::Loaded { generation, .. } if generation.number == 2)
    );
    stand.serves("mini", "1.1.0").await;
}

#[tokio::test]
async fn when_the_chosen_file_vanishes_another_one_serves() {
    let files: [(&str, &[u8]); 2] = [
        ("old.wasm", &made_for("mini", "1.0.0", "^1")),
        ("new.wasm", &made_for("mini", "2.0.0", "^2")),
    ];
    let mut stand = Stand::new(&[], &files).await;
    std::fs::remove_file(stand.file("new.wasm")).unwrap();
    let report = stand.news().await;
    assert!(
        matches!(&report, LoadReport::Vanished { path, .. } if *path == stand.file("new.wasm")),
        "{report:?}"
    );
    assert!(
        matches!(&stand.news().await, LoadReport::Loaded { path, .. } if *path == stand.file("old.wasm"))
    );
    stand.serves("mini", "1.0.0").await;
    assert!(stand.registry.serving_info("mini").unwrap().alternatives.is_empty());
    // The last component continues to serve without its file.
    std::fs::remove_file(stand.file("old.wasm")).unwrap();
    assert!(matches!(&stand.news().await, LoadReport::Vanished { .. }));
    stand.serves("mini", "1.0.0").await;
}

#[tokio::test]
async fn a_broken_file_leaves_the_choice_as_it_was() {
    let files: [(&str, &[u8]); 2] = [
        ("old.wasm", &made_for("mini", "1.0.0", "^1")),
        ("new.wasm", &made_for("mini", "2.0.0", "^2")),
    ];
    let mut stand = Stand::new(&[], &files).await;
    stand.put("new.wasm", b"nonsense");
    assert!(matches!(&stand.news().await, LoadReport::Refused { .. }));
    stand.serves("mini", "2.0.0").await;
    stand.put("new.wasm", &made_for("mini", "2.1.0", "^2"));
    assert!(
        matches!(&stand.news().await, LoadReport::Loaded { generation, .. } if generation.number == 2)
    );
    stand.serves("mini", "2.1.0").await;
}

#[tokio::test]
async fn a_second_file_without_agent_versions_is_refused() {
    for (first, second) in [
        (answering("mini", "1"), made_for("mini", "2", "^2")),
        (made_for("mini", "1", "^1"), answering("mini", "2")),
    ] {
        let mut stand = Stand::new(&[], &[("a.wasm", &first)]).await;
        stand.put("b.wasm", &second);
        let report = stand.news().await;
        let LoadReport::Refused { reason, .. } = &report else { panic!("{report:?}") };
        assert!(
            matches!(&**reason, AdmissionError::NameTaken { owner, .. } if *owner == stand.file("a.wasm")),
            "{reason}"
        );
        stand.serves("mini", "1").await;
    }
}

#[tokio::test]
async fn the_same_one_of_two_conflicting_files_serves_after_a_restart() {
    let plain = |version: &str| Wat::new("mini", version).build();
    let mut stand = Stand::new(&[], &[("b.wasm", &plain("1.0.0"))]).await;
    stand.serves("mini", "1.0.0").await;
    stand.keeps("mini", 1).await;
    stand.put("a.wasm", &plain("2.0.0"));
    let report = stand.news().await;
    let taken = |report: &LoadReport| matches!(report, LoadReport::Refused { reason, .. } if matches!(**reason, AdmissionError::NameTaken { .. }));
    assert!(taken(&report), "{report:?}");

    // By name, the second file would come first.
    let stand = Stand::over(stand.end(), &[]).await;
    stand.serves("mini", "1.0.0").await;
    assert!(stand.reports.iter().any(taken), "{:?}", stand.reports);
    // A file that replaces the serving one at a restart serves.
    let folder = stand.end();
    std::fs::write(folder.path().join("backends/b.wasm"), plain("1.1.0")).unwrap();
    let stand = Stand::over(folder, &[]).await;
    stand.serves("mini", "1.1.0").await;
    stand.keeps("mini", 2).await;
    // The file may have been renamed while the gateway was down.
    let folder = stand.end();
    std::fs::rename(folder.path().join("backends/b.wasm"), folder.path().join("backends/c.wasm"))
        .unwrap();
    let stand = Stand::over(folder, &[]).await;
    stand.serves("mini", "1.1.0").await;
}

#[tokio::test]
async fn the_newest_of_files_that_replace_each_other_during_a_load_serves() {
    let stand = Stand::new(&[], &[("mini.wasm", &Wat::new("mini", "0").build())]).await;
    stand.serves("mini", "0").await;
    let all: Vec<Vec<u8>> =
        (1..=40).map(|version| Wat::new("mini", &version.to_string()).build()).collect();
    for component in &all {
        stand.put("mini.wasm", component);
        // Some files arrive while the previous one is read, some while it is compiled.
        tokio::task::yield_now().await;
    }
    stand.serves("mini", "40").await;
    assert_eq!(std::fs::read(stand.file("mini.wasm")).unwrap(), all[39]);
}

//! `aetheel report` and `aetheel reproduce` with recordings and components of a gateway.

use super::upgrade::{change_recordings, files, with_recordings};

#[tokio::test]
async fn the_fault_of_a_turn_is_reported_by_its_id_and_reproduced_by_its_component() {
    let installation = with_recordings(&["marlowe"]).await;
    let id = files(&installation).remove(0);
    let id = id.file_stem().unwrap().to_str().unwrap().to_owned();
    let output = installation.path("report.jsonl");
    let output = output.to_str().unwrap();
    let none = installation.run(&["report", &id, "-o", output], "").await;
    assert_eq!(none.code, 1, "{} {}", none.stdout, none.stderr);
    assert!(none.stderr.contains("shows no fault"), "{}", none.stderr);

    change_recordings(
        &installation,
        "in",
        "\\\"type\\\":\\\"text\\\"",
        "\\\"type\\\":\\\"prose\\\"",
    );
    let made = installation.run(&["report", &id, "-o", output, "--fault", "drift"], "").await;
    assert_eq!(made.code, 0, "{} {}", made.stdout, made.stderr);
    let text = std::fs::read_to_string(output).unwrap();
    assert!(text.contains("\"backend\":\"demo\"") && text.contains("prose"), "{text}");
    assert!(!text.contains("marlowe") && !text.contains(&id), "{text}");
    let shown = installation.run(&["reproduce", output], "").await;
    assert_eq!(shown.code, 0, "{} {}", shown.stdout, shown.stderr);
    assert!(shown.stdout.contains("reproduced: drift: "), "{}", shown.stdout);
}

//! Tests of pins, of signatures, and of cached code that was not compiled by us.

use std::fs;
use std::io::Cursor;

use aetheel_recording::Backend as _;
use aetheel_turn::Backends as _;
use aetheel_wasm::{AdmissionError, Distrust, LoadReport, TrustState};
use minisign::KeyPair;

use super::{Stand, digest};
use crate::support::guests::answering;

const PINNED: [(&str, &str); 1] = [("BACKEND_TRUST", "pinned")];

fn distrust(report: &LoadReport) -> &Distrust {
    let LoadReport::Refused { reason, .. } = report else { panic!("{report:?}") };
    assert!(!reason.hint().is_empty());
    match &**reason {
        AdmissionError::Untrusted(distrust) => distrust,
        other => panic!("{other}"),
    }
}

fn pin(stand: &Stand, backend: &str, bytes: &[u8]) {
    let text = fs::read_to_string(stand.path("config/backends.md")).unwrap();
    let others: String = text
        .lines()
        .filter(|line| !line.starts_with("- sha256"))
        .map(|line| format!("{line}\n"))
        .collect();
    fs::write(
        stand.path("config/backends.md"),
        format!("{others}\n## {backend}\n\n- sha256: {}\n", digest(bytes)),
    )
    .unwrap();
}

/// Returns a signature of these bytes.
fn sign(keys: &KeyPair, bytes: &[u8], comment: &str) -> String {
    minisign::sign(Some(&keys.pk), &keys.sk, Cursor::new(bytes), Some(comment), None)
        .unwrap()
        .into_string()
}

#[tokio::test]
async fn a_component_without_a_pin_loads_once_its_pin_is_added() {
    let one = answering("mini", "1");
    let mut stand = Stand::new(&PINNED, &[("mini.wasm", &one)]).await;
    assert_eq!(*distrust(&stand.reports[0]), Distrust::NotPinned(digest(&one)));
    pin(&stand, "mini", &one);
    stand.registry.rescan();
    assert!(matches!(&stand.news().await, LoadReport::Loaded { .. }));
    stand.serves("mini", "1").await;
    assert_eq!(stand.registry.serving_info("mini").unwrap().trust, TrustState::Pinned);

    stand.put("mini.wasm", &answering("mini", "2"));
    assert!(matches!(distrust(&stand.news().await), Distrust::NotPinned(_)));
    stand.serves("mini", "1").await;
}

#[tokio::test]
async fn a_pin_is_for_one_backend() {
    let one = answering("mini", "1");
    let mut stand = Stand::new(&PINNED, &[]).await;
    pin(&stand, "other", &one);
    stand.put("mini.wasm", &one);
    let wanted = Distrust::PinnedAs { pinned: "other".to_owned(), name: "mini".to_owned() };
    assert_eq!(*distrust(&stand.news().await), wanted);
    assert!(stand.registry.get("mini").is_none());
    // It is reported once, however often the folder is scanned.
    for _ in 0..3 {
        stand.registry.rescan();
    }
    pin(&stand, "mini", &one);
    stand.registry.rescan();
    assert!(matches!(&stand.news().await, LoadReport::Loaded { .. }));
}

#[tokio::test]
async fn a_new_pin_takes_effect_without_a_rescan() {
    let one = answering("mini", "1");
    let mut stand = Stand::new(&PINNED, &[("mini.wasm", &one)]).await;
    pin(&stand, "mini", &one);
    // No rescan is requested: the file is checked every two seconds.
    assert!(matches!(&stand.news().await, LoadReport::Loaded { .. }));
}

#[tokio::test]
async fn only_components_signed_by_a_known_key_serve_and_the_signature_may_come_later() {
    let (ours, theirs) = (
        KeyPair::generate_unencrypted_keypair().unwrap(),
        KeyPair::generate_unencrypted_keypair().unwrap(),
    );
    let one = answering("mini", "1");
    let settings = [
        ("BACKEND_TRUST", "signed"),
        (
            "BACKEND_SIGNERS",
            &*format!(
                "{},{}",
                KeyPair::generate_unencrypted_keypair().unwrap().pk.to_base64(),
                ours.pk.to_base64()
            ),
        ),
    ];
    let mut stand = Stand::new(&settings, &[("mini.wasm", &one)]).await;
    assert_eq!(*distrust(&stand.reports[0]), Distrust::NotSigned(stand.file("mini.wasm.minisig")));

    stand.put("mini.wasm.minisig", b"no signature");
    assert_eq!(
        *distrust(&stand.news().await),
        Distrust::NoSignature(stand.file("mini.wasm.minisig"))
    );
    stand.put("mini.wasm.minisig", sign(&theirs, &one, "mini 1").as_bytes());
    assert_eq!(*distrust(&stand.news().await), Distrust::NotOurs);
    stand.put("mini.wasm.minisig", sign(&ours, &answering("mini", "2"), "mini 2").as_bytes());
    assert_eq!(
        *distrust(&stand.news().await),
        Distrust::NotOurs,
        "the signature is for another file"
    );
    // The signature covers the comment.
    stand.put(
        "mini.wasm.minisig",
        sign(&ours, &one, "mini 1").replace("mini 1", "mini 9").as_bytes(),
    );
    assert_eq!(*distrust(&stand.news().await), Distrust::NotOurs);

    stand.put("mini.wasm.minisig", sign(&ours, &one, "mini 1").as_bytes());
    assert!(matches!(&stand.news().await, LoadReport::Loaded { .. }));
    stand.serves("mini", "1").await;
    let wanted = TrustState::Signed { key: 2, comment: "mini 1".to_owned() };
    assert_eq!(stand.registry.serving_info("mini").unwrap().trust, wanted);

    stand.put("mini.wasm", &answering("mini", "2"));
    assert_eq!(
        *distrust(&stand.news().await),
        Distrust::NotOurs,
        "the signature is that of the previous component"
    );
    stand.serves("mini", "1").await;
}

#[tokio::test]
async fn a_signature_without_a_file_event_is_found_by_a_rescan() {
    let ours = KeyPair::generate_unencrypted_keypair().unwrap();
    let one = answering("mini", "1");
    let settings = [("BACKEND_TRUST", "signed"), ("BACKEND_SIGNERS", &*ours.pk.to_base64())];
    let mut stand = Stand::new(&settings, &[("mini.wasm", &one)]).await;
    let elsewhere = stand.path("signature");
    std::os::unix::fs::symlink(&elsewhere, stand.file("mini.wasm.minisig")).unwrap();
    assert!(
        matches!(distrust(&stand.news().await), Distrust::NotSigned(_)),
        "the link has no target"
    );
    fs::write(elsewhere, sign(&ours, &one, "late")).unwrap();
    stand.registry.rescan();
    assert!(matches!(&stand.news().await, LoadReport::Loaded { .. }));
}

#[tokio::test]
async fn a_rollback_checks_trust_again_and_restores_the_signature() {
    let ours = KeyPair::generate_unencrypted_keypair().unwrap();
    let settings = [("BACKEND_TRUST", "signed"), ("BACKEND_SIGNERS", &*ours.pk.to_base64())];
    let (one, two) = (answering("mini", "1"), answering("mini", "2"));
    let stand = Stand::new(
        &settings,
        &[("mini.wasm", &one), ("mini.wasm.minisig", sign(&ours, &one, "one").as_bytes())],
    )
    .await;
    stand.keeps("mini", 1).await;
    stand.put("mini.wasm.minisig", sign(&ours, &two, "two").as_bytes());
    stand.put("mini.wasm", &two);
    stand.serves("mini", "2").await;
    stand.keeps("mini", 2).await;
    let serves = stand.registry.component("mini").unwrap().generation().clone();
    stand.registry.roll_back("mini", &serves).await.unwrap();
    stand.serves("mini", "1").await;
    assert!(fs::read_to_string(stand.file("mini.wasm.minisig")).unwrap().contains("one"));

    // The same folders with pins: the component that served before is not pinned.
    let folder = stand.end();
    fs::write(folder.path().join("backends/mini.wasm"), &two).unwrap();
    let text = fs::read_to_string(folder.path().join("config/backends.md")).unwrap();
    fs::write(
        folder.path().join("config/backends.md"),
        format!("{text}\n## mini\n- sha256: {}\n", digest(&two)),
    )
    .unwrap();
    let stand = Stand::over(folder, &PINNED).await;
    stand.serves("mini", "2").await;
    stand.keeps("mini", 2).await;
    let serves = stand.registry.component("mini").unwrap().generation().clone();
    let refused = stand.registry.roll_back("mini", &serves).await.unwrap_err().to_string();
    assert!(refused.contains("may not serve") && refused.contains("not pinned"), "{refused}");
    stand.serves("mini", "2").await;
}

#[tokio::test]
async fn precompiled_code_is_not_loaded_under_any_name() {
    let compiled =
        wasmtime::Engine::default().precompile_component(&answering("mini", "1")).unwrap();
    let mut stand = Stand::new(&[], &[("mini.cwasm", &compiled)]).await;
    assert!(stand.reports.is_empty() && stand.registry.names().is_empty());
    stand.put("mini.wasm", &compiled);
    let report = stand.news().await;
    let LoadReport::Refused { reason, .. } = &report else { panic!("{report:?}") };
    assert!(
        matches!(&**reason, AdmissionError::NotWasm(why) if why.contains("compiled code, which is never loaded")),
        "{reason}"
    );
    assert!(stand.registry.names().is_empty());
}

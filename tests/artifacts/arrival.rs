//! Tests of a backend that arrives from a registry: the steps of `install`, its cases, its
//! signature and its permissions.

use std::fs;
use std::io::Cursor;

use minisign::KeyPair;

use super::{done, file, installation, mini, push_with_cases, refused};
use crate::support::built;
use crate::support::oci_registry::{OciRegistry, push};
use crate::support::program::Installation;

#[tokio::test]
async fn a_pushed_backend_arrives_with_its_cases_and_shows_what_it_was_proven_with() {
    let registry = OciRegistry::start();
    let author = Installation::new();
    let published = push_with_cases(&author, &registry).await;
    let tag = registry.reference("team/gemini:0.1");
    assert!(published.starts_with(&format!("{tag}@sha256:")), "{published}");

    let operator = Installation::new();
    let said = done(&operator, &["install", &tag]).await;
    let digest = super::digest_of(&published);
    for part in [
        &format!("{tag} is {digest}\n"),
        "backend gemini: version 0.",
        "proven with agent version 0.61.0 (2 cases)\n",
        "installed as ",
        "noted in backends.lock.md\n",
    ] {
        assert!(said.contains(part), "{part} is missing in\n{said}");
    }
    assert_eq!(fs::read(operator.backend("gemini")).unwrap(), built("gemini.wasm"));
    let lock = operator.read("backends.lock.md");
    for part in
        ["## gemini.wasm\n", &format!("- from: {published}\n"), "- proven-with: 0.61.0 (2 cases)\n"]
    {
        assert!(lock.contains(part), "{part} is missing in\n{lock}");
    }
    let listed = done(&operator, &["list", "--all"]).await;
    assert!(listed.contains("proven with: 0.61.0 (2 cases)"), "{listed}");
    assert!(listed.contains(&format!("from: {published}")), "{listed}");
    let json: serde_json::Value =
        serde_json::from_str(&done(&operator, &["list", "--json"]).await).unwrap();
    let rows = json["backends"].as_array().unwrap();
    let row = rows.iter().find(|row| row["name"] == "gemini").unwrap();
    assert_eq!(row["registry"]["reference"], published);
    let project = author.path("project/gemini.wasm").display().to_string();
    let inspected = done(&author, &["inspect", &project]).await;
    assert!(inspected.contains("agent version 0.61.0 (2 cases)"), "{inspected}");

    // The same version again, and then another file in its place.
    let again = done(&operator, &["install", &published]).await;
    assert!(again.contains("it is already installed"), "{again}");
    let other = operator.path("other.wasm");
    fs::write(&other, crate::support::program::rebuilt(built("gemini.wasm"), "x")).unwrap();
    let said = done(&operator, &["install", &other.display().to_string()]).await;
    assert!(said.contains("removed from backends.lock.md"), "{said}");
    assert!(!operator.read("backends.lock.md").contains("gemini"));
}

#[tokio::test]
async fn a_component_that_fails_a_case_on_arrival_changes_nothing() {
    let registry = OciRegistry::start();
    let author = Installation::new();
    push_with_cases(&author, &registry).await;
    let cases = author.path("project/gemini.cases");
    let actions = cases.join("plain.actions.jsonl");
    let text = fs::read_to_string(&actions).unwrap();
    fs::write(&actions, text.replacen("MOCK ANSWER", "OTHER ANSWER", 1)).unwrap();

    let project = author.path("project/gemini.wasm").display().to_string();
    push(&project, &registry.reference("gemini:3")).await;
    let operator = Installation::new();
    let errors = refused(&operator, &["install", &registry.reference("gemini:3")], 1).await;
    assert!(errors.contains("fails a recording of its own"), "{errors}");
    assert!(errors.contains("gemini.cases/plain.jsonl"), "{errors}");
    assert!(errors.contains("nothing was changed"), "{errors}");
}

#[tokio::test]
async fn a_version_with_more_permissions_is_not_installed_before_they_are_accepted() {
    let registry = OciRegistry::start();
    let operator = installation();
    for (version, passes) in [("1.0.0", &[][..]), ("2.0.0", &["MINI_KEY"])] {
        let file = file(&operator, version, &mini(version, passes).build());
        push(&file, &registry.reference(&format!("mini:{version}"))).await;
    }
    let first = done(&operator, &["install", &registry.reference("mini:1.0.0")]).await;
    assert!(first.contains("proven with no version of its agent"), "{first}");
    let errors = refused(&operator, &["install", &registry.reference("mini:2.0.0")], 1).await;
    assert!(errors.contains("pass the gateway's variable `MINI_KEY`"), "{errors}");
    assert!(errors.contains("stdin is not a terminal"), "{errors}");
    let said = done(&operator, &["install", &registry.reference("mini:2.0.0"), "--yes"]).await;
    assert!(said.contains("new variables: MINI_KEY (passed on)"), "{said}");
}

#[tokio::test]
async fn with_trust_in_signatures_the_signature_must_travel_along_and_fit() {
    let keys = KeyPair::generate_unencrypted_keypair().unwrap();
    let sign = |bytes: &[u8]| {
        minisign::sign(None, &keys.sk, Cursor::new(bytes), Some("run 7"), None).unwrap()
    };
    let registry = OciRegistry::start();
    let operator = installation()
        .with("BACKEND_TRUST", "signed")
        .with("BACKEND_SIGNERS", &keys.pk.to_base64());
    let component = mini("1.0.0", &[]).build();
    let path = file(&operator, "project", &component);
    push(&path, &registry.reference("mini:unsigned")).await;
    let other = sign(b"other bytes").into_string();
    fs::write(format!("{path}.minisig"), other).unwrap();
    push(&path, &registry.reference("mini:wrong")).await;
    fs::write(format!("{path}.minisig"), sign(&component).into_string()).unwrap();
    push(&path, &registry.reference("mini:signed")).await;

    let errors = refused(&operator, &["install", &registry.reference("mini:unsigned")], 1).await;
    assert!(errors.contains("came without a signature"), "{errors}");
    let errors = refused(&operator, &["install", &registry.reference("mini:wrong")], 1).await;
    assert!(errors.contains("its signature is not by a key of BACKEND_SIGNERS"), "{errors}");
    let said = done(&operator, &["install", &registry.reference("mini:signed")]).await;
    assert!(said.contains("trust: signed by key 1: run 7"), "{said}");
    assert!(operator.path("backends/mini.wasm.minisig").exists());

    // Pins count for artifacts as for files.
    let pinned = installation().with("BACKEND_TRUST", "pinned");
    let reference = registry.reference("mini:signed");
    let errors = refused(&pinned, &["install", &reference], 1).await;
    assert!(errors.contains("its SHA-256 is not pinned"), "{errors}");
    done(&pinned, &["install", &reference, "--pin"]).await;
}

#[tokio::test]
async fn a_disk_that_is_full_while_the_backend_arrives_changes_nothing() {
    let registry = OciRegistry::start();
    let operator = installation();
    let mut component = mini("1.0.0", &[]);
    // More than the limit below.
    component.module = format!("(data (i32.const 8192) \"{}\")", "x".repeat(64 << 10));
    component.pages = 4;
    let path = file(&operator, "project", &component.build());
    let reference = registry.reference("mini:1");
    push(&path, &reference).await;
    let before = super::state(&operator);
    // A limit on the size of files simulates a full disk: 40 blocks of 512 bytes.
    let line = format!("ulimit -f 40; exec \"$0\" backend install {reference}");
    let ended = operator.start_in_shell(&line).ended().await;
    assert_eq!(ended.code, 1, "{}{}", ended.stdout, ended.stderr);
    assert!(ended.stderr.contains("cannot save it in the temporary folder"), "{}", ended.stderr);
    assert!(ended.stderr.contains("nothing was changed"), "{}", ended.stderr);
    assert_eq!(super::state(&operator), before);
    done(&operator, &["install", &reference]).await;
}

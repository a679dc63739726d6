//! Tests of components that are refused, and of the reasons that are reported.

use std::time::{Duration, Instant};

use aetheel_model::limits::ResourceLimits;
use aetheel_recording::GuestFailure;
use aetheel_wasm::{AdmissionError, Engine, Inspection};

use super::limits;
use crate::support::guests::{Wat, answering};

const LOOP: &str = "(loop $for_ever (br $for_ever))";

async fn examine_under(
    limits: &ResourceLimits,
    bytes: &[u8],
) -> Result<Inspection, AdmissionError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("candidate.wasm");
    std::fs::write(&path, bytes).unwrap();
    Engine::new(limits, None, aetheel_settings::NAMES).unwrap().inspect(&path).await
}

async fn examine(bytes: &[u8]) -> Result<Inspection, AdmissionError> {
    examine_under(&limits(), bytes).await
}

async fn refusal(wat: Wat) -> AdmissionError {
    examine(&wat.build()).await.expect_err("it was admitted")
}

#[tokio::test]
async fn a_good_backend_is_described() {
    let bytes = answering("mini", "1.2.3");
    let inspection = examine(&bytes).await.unwrap();
    assert_eq!(
        (inspection.descriptor.name.as_str(), inspection.descriptor.version.as_str()),
        ("mini", "1.2.3")
    );
    assert_eq!(
        (inspection.contract.as_str(), inspection.size),
        ("aetheel:backend@0.3.0", bytes.len() as u64)
    );
    assert_eq!(inspection.imports, ["aetheel:backend/types@0.3.0"]);
    assert_eq!(inspection.digest.len(), 64);
}

#[tokio::test]
async fn a_patch_version_of_the_contract_fits() {
    let wat = Wat { contract: "0.3.7".to_owned(), ..Wat::new("mini", "1") };
    assert_eq!(examine(&wat.build()).await.unwrap().contract, "aetheel:backend@0.3.7");
}

#[tokio::test]
async fn files_that_are_not_components_are_refused_with_their_kind() {
    let refused = async |bytes: &[u8]| examine(bytes).await.expect_err("admitted");
    assert!(matches!(refused(b"").await, AdmissionError::NotWasm("it is empty")));
    assert!(matches!(refused(b"(component)").await, AdmissionError::NotWasm("it is text")));
    assert!(matches!(
        refused(b"\x7fEL\xff").await,
        AdmissionError::NotWasm("its first bytes are not those of WebAssembly")
    ));
    assert!(matches!(refused(b"\0asm\x01\0\0\0").await, AdmissionError::CoreModule));
    let good = answering("mini", "1");
    assert!(matches!(refused(&good[..good.len() / 2]).await, AdmissionError::Compile(_)));
    // The empty component compiles.
    assert!(matches!(refused(&good[..8]).await, AdmissionError::NoContract));
}

#[tokio::test]
async fn a_truncated_component_is_never_admitted_partly() {
    // About one in a hundred truncated components compiles. An admitted one must be complete.
    let engine = Engine::new(&limits(), None, aetheel_settings::NAMES).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cut.wasm");
    let good = answering("mini", "1");
    let mut let_in = 0;
    for end in (0..good.len()).step_by(97).chain(good.len() - 200..good.len()) {
        std::fs::write(&path, &good[..end]).unwrap();
        if let Ok(inspection) = engine.inspect(&path).await {
            assert_eq!(inspection.descriptor.name, "mini");
            let_in += 1;
        }
    }
    assert!(let_in < 10, "only files truncated within trailing metadata pass: {let_in}");
}

#[tokio::test]
async fn a_file_over_the_limit_is_not_read() {
    let limits = ResourceLimits { component: 1000, ..limits() };
    let error = examine_under(&limits, &answering("mini", "1")).await.expect_err("too large");
    assert!(matches!(error, AdmissionError::TooLarge { limit: 1000, .. }), "{error}");
}

#[tokio::test]
async fn a_pipe_is_refused_without_waiting() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pipe.wasm");
    assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
    let error = Engine::new(&limits(), None, aetheel_settings::NAMES)
        .unwrap()
        .inspect(&path)
        .await
        .expect_err("no file");
    assert!(matches!(error, AdmissionError::NotAFile), "{error}");
}

#[tokio::test]
async fn a_compilation_has_a_time_limit() {
    // Many functions that each take a while to compile.
    let mut module = String::new();
    for n in 0..400 {
        module += &format!("(func $f{n} (param i64) (result i64) (local.get 0)");
        for k in 0..200 {
            module += &format!(
                "(i64.mul (local.get 0) (i64.const {k})) i64.xor (i64.rotl (local.get 0) (i64.const 3)) i64.add"
            );
        }
        module += ")";
    }
    let bytes = Wat { module, ..Wat::new("slow", "1") }.build();
    let limits = ResourceLimits { compile: Duration::from_millis(20), ..limits() };
    let begun = Instant::now();
    let error = examine_under(&limits, &bytes).await.expect_err("too slow");
    assert!(matches!(error, AdmissionError::CompileTime(_)), "{error}");
    assert!(
        begun.elapsed() < Duration::from_secs(2),
        "the load waited for it: {:?}",
        begun.elapsed()
    );
}

#[tokio::test]
async fn a_forbidden_import_is_named() {
    let mut wat = Wat::new("spy", "1");
    wat.wit_imports = "import host;".to_owned();
    wat.wit_packages = "interface host { shout: func(); }".to_owned();
    wat.module = r#"(import "aetheel:backend/host@0.3.0" "shout" (func $shout))"#.to_owned();
    wat.on_timer = "(call $shout)".to_owned();
    let error = refusal(wat).await;
    assert!(
        matches!(&error, AdmissionError::ForbiddenImport(name) if name == "aetheel:backend/host@0.3.0"),
        "{error}"
    );

    let mut wat = Wat::new("spy", "1");
    wat.wit_imports = "import wasi:http/outgoing-handler@0.2.0;".to_owned();
    wat.wit_packages =
        "package wasi:http@0.2.0 { interface outgoing-handler { handle: func(); } }".to_owned();
    wat.module = r#"(import "wasi:http/outgoing-handler@0.2.0" "handle" (func $get))"#.to_owned();
    wat.on_timer = "(call $get)".to_owned();
    let error = refusal(wat).await;
    assert!(
        matches!(&error, AdmissionError::ForbiddenImport(name) if name == "wasi:http/outgoing-handler@0.2.0"),
        "{error}"
    );
}

#[tokio::test]
async fn an_unknown_function_of_an_allowed_interface_is_named() {
    let mut wat = Wat::new("spy", "1");
    wat.wit_imports = "import wasi:cli/environment@0.2.0;".to_owned();
    wat.wit_packages =
        "package wasi:cli@0.2.0 { interface environment { get-secrets: func(); } }".to_owned();
    wat.module = r#"(import "wasi:cli/environment@0.2.0" "get-secrets" (func $get))"#.to_owned();
    wat.on_timer = "(call $get)".to_owned();
    let error = refusal(wat).await;
    assert!(
        matches!(&error, AdmissionError::Link(text) if text.contains("get-secrets")),
        "{error}"
    );
}

#[tokio::test]
async fn another_version_of_the_contract_is_named_together_with_ours() {
    let error = refusal(Wat { contract: "0.4.0".to_owned(), ..Wat::new("future", "1") }).await;
    assert!(
        matches!(&error, AdmissionError::ContractVersion(version) if version == "0.4.0"),
        "{error}"
    );
    assert_eq!(
        error.to_string(),
        "implements aetheel:backend/backend@0.4.0, this host supports 0.3, 0.2 and 0.1"
    );
}

#[tokio::test]
async fn a_changed_record_under_the_same_version_is_found() {
    let mut wat = Wat::new("changed", "1");
    wat.wit_changes.push((
        "    level: level,\n    text: string,".into(),
        "    level: level,\n    text: string,\n    extra: u32,".into(),
    ));
    let error = refusal(wat).await;
    assert!(
        matches!(&error, AdmissionError::ContractTypes(text) if text.contains("expected record of 2 fields, found 3 fields")),
        "{error}"
    );
}

#[tokio::test]
async fn a_new_case_under_the_same_version_is_found() {
    let mut wat = Wat::new("changed", "1");
    wat.wit_changes.push((
        "    diagnostic(diagnostic),".into(),
        "    diagnostic(diagnostic),\n    more(u32),".into(),
    ));
    let error = refusal(wat).await;
    assert!(
        matches!(&error, AdmissionError::ContractTypes(text) if text.contains("cases")),
        "{error}"
    );
}

#[track_caller]
fn failed_in(error: &AdmissionError, at: &str) -> GuestFailure {
    match error {
        AdmissionError::Trial { step, failure } if *step == at => failure.clone(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn loops_before_around_and_after_the_exports_are_cut_off() {
    for (wat, step) in [
        (Wat { start: LOOP.to_owned(), ..Wat::new("evil", "1") }, "its start"),
        (Wat { describe: LOOP.to_owned(), ..Wat::new("evil", "1") }, "its `describe`"),
        (
            Wat { realloc: LOOP.to_owned(), ..Wat::new("evil", "1") },
            "its first `handle`, without inputs",
        ),
        (
            Wat { handle: LOOP.to_owned(), ..Wat::new("evil", "1") },
            "its first `handle`, without inputs",
        ),
        (
            Wat { after_handle: LOOP.to_owned(), ..Wat::new("evil", "1") },
            "its first `handle`, without inputs",
        ),
    ] {
        let error = refusal(wat).await;
        let failure = failed_in(&error, step);
        assert!(
            matches!(&failure, GuestFailure::CutOff(text) if text.contains("ran for more than 300 ms")),
            "{failure:?}"
        );
    }
}

#[tokio::test]
async fn a_backend_that_needs_too_much_memory_or_crashes_is_refused() {
    let failure =
        failed_in(&refusal(Wat { pages: 300, ..Wat::new("big", "1") }).await, "its start");
    assert!(
        matches!(&failure, GuestFailure::CutOff(text) if text.contains("16 MiB")),
        "{failure:?}"
    );
    let failure = failed_in(
        &refusal(Wat { start: "unreachable".to_owned(), ..Wat::new("bad", "1") }).await,
        "its start",
    );
    assert!(matches!(failure, GuestFailure::Trapped(_)), "{failure:?}");
    let crash = "(if (local.get $n) (then unreachable))".to_owned();
    let failure = failed_in(
        &refusal(Wat { handle: crash, ..Wat::new("bad", "1") }).await,
        "its `handle` of a first prompt",
    );
    assert!(matches!(failure, GuestFailure::Trapped(_)), "{failure:?}");
}

#[tokio::test]
async fn a_descriptor_must_be_usable_and_constant() {
    let described = |descriptor| Wat { descriptor, ..Wat::new("mini", "1") };
    let error = refusal(described(serde_json::json!({ "name": "../etc" }))).await;
    assert!(matches!(error, AdmissionError::Descriptor(_)), "{error}");
    assert!(
        aetheel_model::plain::with_causes(&error).contains("`name` \"../etc\""),
        "{}",
        aetheel_model::plain::with_causes(&error)
    );
    let error = refusal(described(serde_json::json!({ "programs": 7 }))).await;
    assert!(matches!(error, AdmissionError::Descriptor(_)), "{error}");

    // The second description is one byte shorter.
    let mut fickle = Wat::new("fickle", "1");
    fickle.module = "(global $calls (mut i32) (i32.const 0))".to_owned();
    fickle.describe = "(if (global.get $calls) (then (i32.store (i32.const 904) (i32.const 1)) (return (i32.const 900))))
        (global.set $calls (i32.const 1))"
        .to_owned();
    assert!(
        matches!(refusal(fickle).await, AdmissionError::SelfTest(text) if text.contains("describe"))
    );
}

#[tokio::test]
async fn a_backend_that_acts_unasked_fails_its_self_test() {
    let mut wat = Wat::new("eager", "1");
    // ok([close-stdin(0)])
    wat.handle = "(if (i32.eqz (local.get $n)) (then (i32.store8 (i32.const 65536) (i32.const 2)) (i32.store (i32.const 904) (i32.const 65536)) (i32.store (i32.const 908) (i32.const 1)) (return (i32.const 900))))".to_owned();
    assert!(
        matches!(refusal(wat).await, AdmissionError::SelfTest(text) if text.contains("handle"))
    );
}

#[tokio::test]
async fn compiled_components_are_kept_in_a_private_folder() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().join("deep/cache");
    let path = folder.path().join("mini.wasm");
    std::fs::write(&path, answering("mini", "1")).unwrap();
    for _ in 0..2 {
        Engine::new(&limits(), Some(&cache), aetheel_settings::NAMES)
            .unwrap()
            .inspect(&path)
            .await
            .unwrap();
    }
    assert_eq!(std::fs::metadata(&cache).unwrap().permissions().mode() & 0o777, 0o700);
    assert!(std::fs::read_dir(&cache).unwrap().next().is_some(), "nothing was kept");
    std::fs::set_permissions(&cache, std::fs::Permissions::from_mode(0o755)).unwrap();
    Engine::new(&limits(), Some(&cache), aetheel_settings::NAMES).unwrap();
    assert_eq!(
        std::fs::metadata(&cache).unwrap().permissions().mode() & 0o777,
        0o700,
        "made private again"
    );
    std::fs::set_permissions(&cache, std::fs::Permissions::from_mode(0o777)).unwrap();
    let refused = Engine::new(&limits(), Some(&cache), aetheel_settings::NAMES)
        .expect_err("other users may have put code there")
        .to_string();
    assert!(refused.contains("can be written to by others"), "{refused}");
}

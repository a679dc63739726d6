//! Credentials for registries: they are used for their registry only, and appear nowhere.

use std::fs;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use super::{done, file, installation, mini, refused, run};
use crate::support::oci_registry::{OciRegistry, PASSWORD, USER, push};

#[tokio::test]
async fn a_registry_with_a_login_is_used_with_credentials_that_appear_nowhere() {
    let registry = OciRegistry::start_with_login();
    let tag = registry.reference("mini:1");
    let operator = installation();
    let path = file(&operator, "project", &mini("1.0.0", &[]).build());
    push(&path, &tag).await;
    let errors = refused(&operator, &["install", &tag], 69).await;
    for part in [&registry.host(), "status 401", "set REGISTRY_KEY to USER:PASSWORD@HOST"] {
        assert!(errors.contains(part), "{part}: {errors}");
    }
    let key = format!("{USER}:{PASSWORD}@{}", registry.host());
    let operator = operator.with("REGISTRY_KEY", &key);
    let ended = run(&operator, &["install", &tag, "-vv"]).await;
    assert_eq!(ended.code, 0, "{}", ended.stderr);

    let operator = operator.with("REGISTRY_KEY", &key.replace(PASSWORD, "wrong-Pw8"));
    let errors = refused(&operator, &["install", &tag], 69).await;
    assert!(errors.contains("check the credentials in REGISTRY_KEY"), "{errors}");
    assert!(!errors.contains("wrong-Pw8"), "{errors}");

    // The key of another registry is not sent.
    let operator = operator.with("REGISTRY_KEY", &format!("{USER}:{PASSWORD}@registry.example"));
    let errors = refused(&operator, &["install", &tag], 69).await;
    assert!(errors.contains("set REGISTRY_KEY"), "{errors}");

    // Docker's file.
    let auth = BASE64_STANDARD.encode(format!("{USER}:{PASSWORD}"));
    let docker = operator.path("home/.docker");
    fs::create_dir(&docker).unwrap();
    let config = format!(r#"{{"auths":{{"{}":{{"auth":"{auth}"}}}}}}"#, registry.host());
    fs::write(docker.join("config.json"), config).unwrap();
    let again = done(&operator, &["install", &tag]).await;
    fs::remove_dir_all(&docker).unwrap();
    for text in [&again, &ended.stdout, &ended.stderr] {
        assert!(!text.contains(PASSWORD) && !text.contains(&auth), "{text}");
    }
    for (path, bytes) in operator.everything() {
        let text = String::from_utf8_lossy(&bytes);
        assert!(!text.contains(PASSWORD) && !text.contains(&auth), "{}", path.display());
    }
}

#[tokio::test]
async fn an_invalid_key_is_reported_without_its_value() {
    let operator = installation().with("REGISTRY_KEY", "s3cret-without-a-host");
    let errors = refused(&operator, &["install", "oci://127.0.0.1:1/mini:1"], 78).await;
    assert!(errors.contains("REGISTRY_KEY is not USER:PASSWORD@HOST"), "{errors}");
    assert!(!errors.contains("s3cret"), "{errors}");
}

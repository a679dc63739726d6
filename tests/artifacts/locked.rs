//! The lock file, tags that move, and machines without a network.

use std::fs;

use aetheel::oci::BlobDigest;

use super::{digest_of, done, file, installation, mini, publish, refused, run};
use crate::support::oci_registry::OciRegistry;

#[tokio::test]
async fn a_new_machine_installs_exactly_the_locked_versions() {
    let registry = OciRegistry::start();
    let (first, second) = (installation(), installation());
    let old = mini("1.0.0", &[]).build();
    let path = file(&first, "project", &old);
    let published = publish(&first, &path, &registry.reference("mini:stable")).await;
    done(&first, &["install", &registry.reference("mini:stable")]).await;
    // The tag moves on, the lock file does not.
    let path = file(&first, "project", &mini("2.0.0", &[]).build());
    done(&first, &["publish", &path, &registry.reference("mini:stable"), "--replace"]).await;

    let lock = first.path("config/backends.lock.md");
    fs::copy(lock, second.path("config/backends.lock.md")).unwrap();
    let said = done(&second, &["install", "--locked"]).await;
    assert!(said.contains(&published) && said.contains("version 1.0.0"), "{said}");
    assert_eq!(fs::read(second.backend("mini")).unwrap(), old);
    assert_eq!(second.read("backends.lock.md"), first.read("backends.lock.md"));

    // A lock file that was edited by hand is compared with what arrives.
    let text = first.read("backends.lock.md");
    let digest = BlobDigest::of(&old);
    fs::write(second.path("config/backends.lock.md"), text.replace(digest.hex(), &"0".repeat(64)))
        .unwrap();
    let errors = refused(&second, &["install", "--locked"], 1).await;
    assert!(errors.contains("has another component"), "{errors}");
    fs::write(second.path("config/backends.lock.md"), "## mini.wasm\n\n- from: mini\n").unwrap();
    let errors = refused(&second, &["install", "--locked"], 1).await;
    assert!(errors.contains("backends.lock.md line 1: `sha256` is missing"), "{errors}");
    fs::remove_file(second.path("config/backends.lock.md")).unwrap();
    let errors = refused(&second, &["install", "--locked"], 64).await;
    assert!(errors.contains("backends.lock.md names no backend"), "{errors}");
}

#[tokio::test]
async fn a_version_that_was_rolled_back_is_not_installed_again_from_the_lock_file() {
    let registry = OciRegistry::start();
    let operator = installation();
    let old = mini("1.0.0", &[]).build();
    for (version, bytes) in [("1", old.clone()), ("2", mini("2.0.0", &[]).build())] {
        let path = file(&operator, version, &bytes);
        let tag = registry.reference(&format!("mini:{version}"));
        publish(&operator, &path, &tag).await;
        done(&operator, &["install", &tag]).await;
    }
    let said = done(&operator, &["rollback", "mini"]).await;
    assert!(said.contains("removed from backends.lock.md"), "{said}");
    let errors = refused(&operator, &["install", "--locked"], 64).await;
    assert!(errors.contains("backends.lock.md names no backend"), "{errors}");
    assert_eq!(fs::read(operator.backend("mini")).unwrap(), old);
}

#[tokio::test]
async fn a_tag_that_moved_is_shown_and_not_followed_silently() {
    let registry = OciRegistry::start();
    let operator = installation();
    let tag = registry.reference("mini:stable");
    let path = file(&operator, "1", &mini("1.0.0", &[]).build());
    let old = publish(&operator, &path, &tag).await;
    done(&operator, &["install", &tag]).await;
    let path = file(&operator, "2", &mini("2.0.0", &[]).build());
    let ended = run(&operator, &["publish", &path, &tag]).await;
    assert_eq!(ended.code, 1, "{}", ended.stderr);
    let taken = format!("{tag} is already the version {}", digest_of(&old));
    assert!(ended.stderr.contains(&taken), "{}", ended.stderr);
    done(&operator, &["publish", &path, &tag, "--replace"]).await;

    let errors = refused(&operator, &["install", &tag, "--yes"], 1).await;
    for part in ["now, but backends.lock.md has", digest_of(&old), "--follow-tag", &old] {
        assert!(errors.contains(part), "{part}: {errors}");
    }
    // The known version, by its digest.
    let said = done(&operator, &["install", &old]).await;
    assert!(said.contains("it is already installed"), "{said}");
    let said = done(&operator, &["install", &tag, "--follow-tag"]).await;
    assert!(said.contains(&format!("it was {}", digest_of(&old))), "{said}");
    assert!(said.contains("version 2.0.0"), "{said}");
    assert!(!operator.read("backends.lock.md").contains(digest_of(&old)));
}

#[tokio::test]
async fn a_machine_without_a_network_installs_the_same_digests_from_a_folder() {
    let registry = OciRegistry::start();
    let (online, offline) = (installation(), installation());
    let component = mini("1.0.0", &[]).build();
    let path = file(&online, "project", &component);
    let tag = registry.reference("mini:1");
    let published = publish(&online, &path, &tag).await;
    done(&online, &["install", &tag]).await;
    let folder = online.path("mirror");
    let mirror = folder.display().to_string();
    let said = done(&online, &["mirror", &mirror]).await;
    assert_eq!(said, format!("copied {published}\n"));
    // Copying again, by the tag, changes nothing.
    let index = fs::read(folder.join("index.json")).unwrap();
    done(&online, &["mirror", &mirror, &tag]).await;
    assert_eq!(fs::read(folder.join("index.json")).unwrap(), index);
    let marker = fs::read_to_string(folder.join("oci-layout")).unwrap();
    assert!(marker.contains("\"imageLayoutVersion\": \"1.0.0\""), "{marker}");
    for blob in fs::read_dir(folder.join("blobs/sha256")).unwrap().flatten() {
        let digest = BlobDigest::of(&fs::read(blob.path()).unwrap());
        assert_eq!(digest.hex(), blob.file_name().to_str().unwrap());
    }
    drop(registry);

    let errors = refused(&offline, &["install", &tag], 69).await;
    assert!(errors.contains("cannot be reached"), "{errors}");
    let said = done(&offline, &["install", &tag, "--from", &mirror]).await;
    assert!(said.contains(digest_of(&published)), "{said}");
    assert_eq!(fs::read(offline.backend("mini")).unwrap(), component);
    fs::remove_file(offline.backend("mini")).unwrap();
    done(&offline, &["install", "--locked", "--from", &mirror]).await;
    assert_eq!(fs::read(offline.backend("mini")).unwrap(), component);

    // The folder is checked like a registry.
    let other = tag.replace("mini:1", "other:1");
    let errors = refused(&offline, &["install", &other, "--from", &mirror], 64).await;
    assert!(errors.contains("does not contain"), "{errors}");
    let blob = folder.join("blobs/sha256").join(BlobDigest::of(&component).hex());
    let mut bytes = component.clone();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&blob, &bytes).unwrap();
    let errors = refused(&offline, &["install", &published, "--from", &mirror], 1).await;
    assert!(errors.contains("the content has the digest"), "{errors}");
    let errors = refused(&offline, &["install", &tag, "--from", "/nowhere"], 64).await;
    assert!(errors.contains("cannot read /nowhere/oci-layout"), "{errors}");
    let errors = refused(&offline, &["install", "mini.wasm", "--from", &mirror], 64).await;
    assert!(errors.contains("--from needs a reference"), "{errors}");
}

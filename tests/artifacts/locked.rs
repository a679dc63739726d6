//! The lock file, tags that move, and machines without a network.

use std::fs;

use aetheel_registry::BlobDigest;

use super::{digest_of, done, file, installation, mini, refused};
use crate::support::oci_registry::{OciRegistry, push};

#[tokio::test]
async fn a_new_machine_installs_exactly_the_locked_versions() {
    let registry = OciRegistry::start();
    let (first, second) = (installation(), installation());
    let old = mini("1.0.0", &[]).build();
    let path = file(&first, "project", &old);
    let published = push(&path, &registry.reference("mini:stable")).await;
    done(&first, &["install", &registry.reference("mini:stable")]).await;
    // The tag moves on, the lock file does not.
    let path = file(&first, "project", &mini("2.0.0", &[]).build());
    push(&path, &registry.reference("mini:stable")).await;

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
        push(&path, &tag).await;
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
    let old = push(&path, &tag).await;
    done(&operator, &["install", &tag]).await;
    let path = file(&operator, "2", &mini("2.0.0", &[]).build());
    push(&path, &tag).await;

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
    let published = push(&path, &tag).await;
    done(&online, &["install", &tag]).await;
    let folder = online.path("layout");
    let layout = folder.display().to_string();
    registry.copy_to_layout(&published, tag.strip_prefix("oci://").unwrap(), &folder);
    let said = done(&offline, &["install", &tag, "--from", &layout]).await;
    assert!(said.contains(digest_of(&published)), "{said}");
    assert_eq!(fs::read(offline.backend("mini")).unwrap(), component);
    fs::remove_file(offline.backend("mini")).unwrap();
    done(&offline, &["install", "--locked", "--from", &layout]).await;
    assert_eq!(fs::read(offline.backend("mini")).unwrap(), component);

    // A program may name the artifact otherwise in the folder. The digest is the same.
    registry.copy_to_layout(&published, "1", &folder);
    drop(registry);
    fs::remove_file(offline.backend("mini")).unwrap();
    done(&offline, &["install", "--locked", "--from", &layout]).await;
    done(&offline, &["install", &published, "--from", &layout]).await;
    let errors = refused(&offline, &["install", &tag, "--from", &layout], 64).await;
    assert!(errors.contains("name it by its digest"), "{errors}");

    let errors = refused(&offline, &["install", &tag], 69).await;
    assert!(errors.contains("cannot be reached"), "{errors}");

    // The folder is checked like a registry.
    let other = tag.replace("mini:1", "other:1");
    let errors = refused(&offline, &["install", &other, "--from", &layout], 64).await;
    assert!(errors.contains("does not contain"), "{errors}");
    let blob = folder.join("blobs/sha256").join(BlobDigest::of(&component).hex());
    let mut bytes = component.clone();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&blob, &bytes).unwrap();
    let errors = refused(&offline, &["install", &published, "--from", &layout], 1).await;
    assert!(errors.contains("the content has the digest"), "{errors}");
    let errors = refused(&offline, &["install", &tag, "--from", "/nowhere"], 64).await;
    assert!(errors.contains("cannot read /nowhere/oci-layout"), "{errors}");
    let errors = refused(&offline, &["install", "mini.wasm", "--from", &layout], 64).await;
    assert!(errors.contains("--from needs a reference"), "{errors}");
}

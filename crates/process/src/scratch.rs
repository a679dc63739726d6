//! The temporary folders of agents. Their names identify the gateway, so that the folders of a
//! killed gateway can be removed.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use super::gateway_id::GatewayId;

/// Prefix of the names of all temporary folders.
const BEGIN: &str = "aetheel-";

pub(super) fn prefix(gateway: &GatewayId) -> String {
    format!("{BEGIN}{gateway}-")
}

/// Removes the temporary folders in `folder` that belong to this user and to gateways that no
/// longer run. Returns their number.
pub(super) fn sweep(folder: &Path, own: &GatewayId) -> usize {
    let mut swept = 0;
    for entry in std::fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok) {
        let name = entry.file_name();
        let of = name.to_str().and_then(|name| GatewayId::parse(name.strip_prefix(BEGIN)?));
        // Symbolic links are not followed.
        let ours = entry.metadata().is_ok_and(|found| {
            found.is_dir() && found.uid() == rustix::process::geteuid().as_raw()
        });
        if !ours || of.is_none_or(|of| !own.knows_dead(&of)) {
            continue;
        }
        match std::fs::remove_dir_all(entry.path()) {
            Ok(()) => swept += 1,
            Err(error) => {
                tracing::warn!(folder = %entry.path().display(), %error, "cannot remove a temporary folder that an earlier gateway left behind; hint: remove it");
            }
        }
    }
    swept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_folders_of_dead_gateways_are_removed_and_links_are_not_followed() {
        let (folder, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let own = GatewayId::own().unwrap();
        let dead = GatewayId { start: own.start + 1, ..own.clone() };
        let foreign = GatewayId { namespace: "1".to_owned(), ..dead.clone() };
        let at = |gateway: &GatewayId, name: &str| {
            folder.path().join(format!("{}{name}", prefix(gateway)))
        };
        for made in [
            at(&own, "a"),
            at(&dead, "b"),
            at(&foreign, "c"),
            folder.path().join("aetheel-abcdef"),
            folder.path().join("other"),
        ] {
            std::fs::create_dir_all(made.join("tmp/deep")).unwrap();
        }
        std::fs::write(elsewhere.path().join("kept"), "").unwrap();
        std::os::unix::fs::symlink(elsewhere.path(), at(&dead, "link")).unwrap();
        std::os::unix::fs::symlink(elsewhere.path(), at(&dead, "b").join("tmp/link")).unwrap();
        assert_eq!(sweep(folder.path(), &own), 1);
        assert!(!at(&dead, "b").exists() && elsewhere.path().join("kept").exists());
        let left = std::fs::read_dir(folder.path()).unwrap().count();
        assert_eq!((left, sweep(folder.path(), &own)), (5, 0));
    }
}

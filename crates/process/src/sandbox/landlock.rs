//! Landlock: rules that a process applies to itself and its descendants, and that cannot be
//! removed.

use std::os::fd::OwnedFd;
use std::path::Path;

use landlock::{
    ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, PathBeneath, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr, Scope, make_bitflags,
};

use super::SandboxError;
use super::grants::Grants;
use super::system_paths::{self, OpenedPath};

/// The version of the rights that are handled, independent of the running kernel. Rights that the
/// kernel does not know are left out, and reported at the start.
const RIGHTS: ABI = ABI::V9;
/// The oldest version with which agents are confined; checked at the start.
const NEEDED: ABI = ABI::V3;

/// Returns the version of Landlock in the kernel, or 0 or less without Landlock.
pub(super) fn abi() -> i32 {
    const VERSION: u32 = 1;
    // SAFETY: with this flag, the call accepts a null pointer and no size, and returns a number.
    #[expect(unsafe_code, reason = "the crate does not expose the version that it detects")]
    let abi = unsafe {
        libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<u8>(), 0usize, VERSION)
    };
    i32::try_from(abi).unwrap_or(0)
}

/// Creates a ruleset for the granted paths.
///
/// # Errors
/// [`SandboxError`] if the kernel refuses the rules.
pub(super) fn rules(granted: &Grants) -> Result<OwnedFd, SandboxError> {
    let mut rules = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(NEEDED))
        .and_then(|rules| {
            rules
                .set_compatibility(CompatLevel::BestEffort)
                .handle_access(AccessFs::from_all(RIGHTS))
        })
        .and_then(|rules| rules.scope(Scope::Signal | Scope::AbstractUnixSocket))
        .and_then(Ruleset::create)
        .map_err(SandboxError::Ruleset)?;
    let read = AccessFs::from_read(RIGHTS);
    let devices = make_bitflags!(AccessFs::{ReadFile | ReadDir | WriteFile | Truncate | IoctlDev});
    let process = make_bitflags!(AccessFs::{ReadFile | ReadDir});
    let write =
        AccessFs::from_all(RIGHTS) & !make_bitflags!(AccessFs::{MakeChar | MakeBlock | IoctlDev});
    let readable = granted.read.iter().filter(|place| !is_covered(granted, place));
    let places = readable.map(|place| (place, read));
    for (place, rights) in places.chain(granted.write.iter().map(|place| (place, write))) {
        let opened = granted.opened.iter().find(|opened| opened.path == **place);
        rules = match opened {
            Some(opened) => add(rules, opened, rights)?,
            None => grant(rules, place, rights)?,
        };
    }
    let devices = system_paths::DEVICES.iter().map(|name| (*name, devices));
    for (name, rights) in devices.chain([(system_paths::PROCESSES, process)]) {
        if let Some(opened) = system_paths::get(name) {
            rules = add(rules, &opened, rights)?;
        }
    }
    Option::<OwnedFd>::from(rules).ok_or(SandboxError::NoLandlock)
}

/// Returns whether a path that can be read is below another granted path, so that it needs no rule:
/// everything that can be written can be read.
fn is_covered(granted: &Grants, place: &Path) -> bool {
    granted.write.contains(place)
        || place
            .ancestors()
            .skip(1)
            .any(|above| granted.read.contains(above) || granted.write.contains(above))
}

/// Grants rights to a path. Does nothing if the path cannot be opened, for example because it no
/// longer exists.
fn grant(
    rules: RulesetCreated,
    place: &Path,
    rights: BitFlags<AccessFs>,
) -> Result<RulesetCreated, SandboxError> {
    match OpenedPath::open(place.to_owned()) {
        Ok(opened) => add(rules, &opened, rights),
        Err(_) => Ok(rules),
    }
}

/// Grants rights to an opened path.
fn add(
    rules: RulesetCreated,
    opened: &OpenedPath,
    rights: BitFlags<AccessFs>,
) -> Result<RulesetCreated, SandboxError> {
    let rights = if opened.is_folder { rights } else { rights & AccessFs::from_file(RIGHTS) };
    rules
        .add_rule(PathBeneath::new(&opened.handle, rights))
        .map_err(|error| SandboxError::Rule { path: opened.path.clone(), error })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::PathBuf;

    use super::*;

    #[test]
    fn a_readable_path_below_another_granted_path_needs_no_rule() {
        let paths = |names: &[&str]| names.iter().map(PathBuf::from).collect::<BTreeSet<_>>();
        let granted = Grants {
            read: paths(&["/usr", "/usr/bin", "/srv/a", "/srv/a/b", "/srv/w/c", "/srv/w2"]),
            write: paths(&["/srv/w", "/srv/a/b"]),
            ..Grants::default()
        };
        let needed: Vec<&str> = granted
            .read
            .iter()
            .filter(|place| !is_covered(&granted, place))
            .filter_map(|place| place.to_str())
            .collect();
        assert_eq!(needed, ["/srv/a", "/srv/w2", "/usr"]);
    }
}

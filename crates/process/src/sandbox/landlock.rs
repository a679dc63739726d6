//! Landlock: rules that a process applies to itself and its descendants, and that cannot be
//! removed.

use std::os::fd::OwnedFd;
use std::path::Path;

use landlock::{
    ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, PathBeneath, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr, Scope, make_bitflags,
};
use rustix::fs::{Mode, OFlags, fstat, open};

use super::SandboxError;
use super::grants::Grants;

/// The version of the rights that are handled, independent of the running kernel. Rights that the
/// kernel does not know are left out, and reported at the start.
const RIGHTS: ABI = ABI::V9;
/// The oldest version with which agents are confined; checked at the start.
const NEEDED: ABI = ABI::V3;

/// Programs on Node and Bun read information about themselves, their children, memory and
/// processors here.
const PROCESSES: &str = "/proc";
/// Devices that agents may use.
const DEVICES: &[&str] = &[
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/tty",
    "/dev/ptmx",
    "/dev/pts",
];

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
    let read = granted.read.iter().map(|place| (place.as_path(), read));
    let write = granted.write.iter().map(|place| (place.as_path(), write));
    let devices = DEVICES.iter().map(|place| (Path::new(place), devices));
    for (place, rights) in read.chain(write).chain(devices).chain([(Path::new(PROCESSES), process)])
    {
        rules = grant(rules, place, rights)
            .map_err(|error| SandboxError::Rule { path: place.to_owned(), error })?;
    }
    Option::<OwnedFd>::from(rules).ok_or(SandboxError::NoLandlock)
}

/// Grants rights to a path. Does nothing if the path does not exist or cannot be opened.
fn grant(
    rules: RulesetCreated,
    place: &Path,
    rights: BitFlags<AccessFs>,
) -> Result<RulesetCreated, landlock::RulesetError> {
    let Ok(handle) = open(place, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()) else {
        return Ok(rules);
    };
    let is_folder =
        fstat(&handle).is_ok_and(|file| rustix::fs::FileType::from_raw_mode(file.st_mode).is_dir());
    let rights = if is_folder { rights } else { rights & AccessFs::from_file(RIGHTS) };
    rules.add_rule(PathBeneath::new(handle, rights))
}

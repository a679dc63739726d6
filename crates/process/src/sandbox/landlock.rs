//! Landlock: rules that a process takes upon itself and all it starts, and can never give up.

use std::os::fd::OwnedFd;
use std::path::Path;

use landlock::{
    ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, PathBeneath, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr, Scope, make_bitflags,
};
use rustix::fs::{Mode, OFlags, fstat, open};

use super::grants::Grants;

/// Fixed, never taken from the running kernel: what that lacks is left out, and said at the start.
const RIGHTS: ABI = ABI::V9;
/// Without these nothing is confined; checked at the start.
const NEEDED: ABI = ABI::V3;

/// Programs on Node and Bun read of themselves and their children, memory and processors.
const PROCESSES: &str = "/proc";
/// What of the devices everybody may use.
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

/// What of Landlock the kernel has; none: 0 or less.
pub(super) fn abi() -> i32 {
    const VERSION: u32 = 1;
    // SAFETY: with this flag the call takes a null pointer and no size, and gives a number.
    #[expect(unsafe_code, reason = "the crate asks the kernel itself and does not tell")]
    let abi = unsafe {
        libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<u8>(), 0usize, VERSION)
    };
    i32::try_from(abi).unwrap_or(0)
}

/// Builds the rules.
///
/// # Errors
/// In words for the operator.
pub(super) fn rules(granted: &Grants) -> Result<OwnedFd, String> {
    let failed = |error: landlock::RulesetError| {
        format!("the kernel refuses the rules of Landlock: {error}")
    };
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
        .map_err(failed)?;
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
            .map_err(|error| format!("{}: {}", place.display(), failed(error)))?;
    }
    Option::<OwnedFd>::from(rules).ok_or_else(|| "the kernel has no Landlock".to_owned())
}

/// What does not exist any more, or we cannot see, is nothing to grant.
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

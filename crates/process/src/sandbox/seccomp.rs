//! System calls that agents are refused: those that change or read other processes of the same
//! user.
//!
//! Landlock restricts files and signals, but the kernel lets a process set limits, processors and
//! priorities of every process of its user. A seccomp filter cannot look up whose process an id
//! belongs to, so the calls are allowed for the calling process itself (id 0) and refused with
//! `EPERM` for every other id. Pinned by `tests/process/confined.rs`.

use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::sync::LazyLock;

use rustix::fs::{MemfdFlags, SeekFrom, memfd_create, seek};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule,
};

use super::SandboxError;

/// Calls whose first argument is the process they act on; 0 is the caller.
const ON_A_PROCESS: [i64; 4] = [
    libc::SYS_sched_setaffinity,
    libc::SYS_sched_setattr,
    libc::SYS_sched_setparam,
    libc::SYS_sched_setscheduler,
];

/// Calls whose first argument is a kind of target, the second the target; 0 is the caller. With
/// the kind that selects all processes of a user.
const ON_A_TARGET: [(i64, u64); 2] = [
    (libc::SYS_setpriority, 2), // PRIO_USER
    (libc::SYS_ioprio_set, 3),  // IOPRIO_WHO_USER
];

const ALWAYS_REFUSED: [i64; 10] = [
    libc::SYS_add_key,
    libc::SYS_bpf,
    libc::SYS_kcmp,
    libc::SYS_keyctl,
    libc::SYS_perf_event_open,
    libc::SYS_pidfd_getfd,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_request_key,
    libc::SYS_userfaultfd,
];

/// The second ABI of x86_64: the same calls with this bit in their number.
#[cfg(target_arch = "x86_64")]
const X32: i64 = 0x4000_0000;

/// The filter's instructions in the kernel's format.
static PROGRAM: LazyLock<Result<BpfProgram, seccompiler::BackendError>> =
    LazyLock::new(build_filter);

/// Returns the filter. It kills a program of another architecture (32-bit) at its first system
/// call.
///
/// # Errors
/// [`SandboxError::Filter`] if there is no filter for this machine.
pub(super) fn filter() -> Result<&'static [seccompiler::sock_filter], SandboxError> {
    PROGRAM.as_deref().map_err(SandboxError::Filter)
}

/// Returns the filter as a file that bubblewrap can read.
///
/// # Errors
/// [`SandboxError`] if there is no filter, or if the file cannot be created.
pub(super) fn filter_file() -> Result<OwnedFd, SandboxError> {
    let bytes: Vec<u8> = filter()?
        .iter()
        .flat_map(|one| {
            let [a, b] = one.code.to_ne_bytes();
            let [c, d, e, f] = one.k.to_ne_bytes();
            [a, b, one.jt, one.jf, c, d, e, f]
        })
        .collect();
    let made = || -> io::Result<OwnedFd> {
        let mut file = std::fs::File::from(memfd_create("aetheel-calls", MemfdFlags::CLOEXEC)?);
        file.write_all(&bytes)?;
        seek(&file, SeekFrom::Start(0))?;
        Ok(file.into())
    };
    made().map_err(SandboxError::FilterFile)
}

fn build_filter() -> Result<BpfProgram, seccompiler::BackendError> {
    let is = SeccompCondition::new;
    let other = |argument| is(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, 0);
    let all = SeccompRule::new;
    let mut rules: Vec<(i64, Vec<SeccompRule>)> = Vec::new();
    // Reading the limits of other processes is allowed: it changes nothing.
    let sets = is(2, SeccompCmpArgLen::Qword, SeccompCmpOp::Ne, 0)?;
    rules.push((libc::SYS_prlimit64, vec![all(vec![other(0)?, sets])?]));
    for call in ON_A_PROCESS {
        rules.push((call, vec![all(vec![other(0)?])?]));
    }
    for (call, user) in ON_A_TARGET {
        let of_user = is(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, user)?;
        rules.push((call, vec![all(vec![of_user])?, all(vec![other(1)?])?]));
    }
    rules.extend(ALWAYS_REFUSED.map(|call| (call, Vec::new())));
    #[cfg(target_arch = "x86_64")]
    {
        let second: Vec<_> = rules.iter().map(|(call, _)| (call | X32, Vec::new())).collect();
        rules.extend(second);
        // process_vm_readv and process_vm_writev, whose numbers differ in this ABI.
        rules.extend([539, 540].map(|call| (call | X32, Vec::new())));
    }
    SeccompFilter::new(
        rules.into_iter().collect(),
        SeccompAction::Allow,
        SeccompAction::Errno(libc::EPERM as u32),
        std::env::consts::ARCH.try_into()?,
    )?
    .try_into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_filter_fits_the_kernels_limit_and_is_passed_completely() {
        let length = filter().expect("a filter for this machine").len();
        assert!((20..4096).contains(&length), "{length}");
        let mut file = std::fs::File::from(filter_file().expect("a file"));
        let mut bytes = Vec::new();
        std::io::Read::read_to_end(&mut file, &mut bytes).expect("read");
        assert_eq!(bytes.len(), length * 8);
    }
}

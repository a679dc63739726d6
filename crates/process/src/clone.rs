//! Starts a program in its own session and cgroup, with three descriptors and nothing else
//! inherited.
//!
//! `std::process::Command` is fast only without `pre_exec`. With it, it forks, which copies the
//! page tables of the whole gateway: 3 ms of CPU time at 40 MB and 12 ms at 150 MB were measured,
//! and 0.1 ms here. Moreover, a child that is moved into its cgroup after the fork may have forked
//! before. So the child is created as `posix_spawn` does it, with `CLONE_VM | CLONE_VFORK` (the
//! calling thread waits, and memory is shared until the exec), and with `CLONE_INTO_CGROUP` (Linux
//! 5.7, clone3(2)) if the run has a cgroup. The child gets its own session and not only its own
//! process group, so that it has no controlling terminal. A terminal would stop an agent that asks
//! for a password.
//!
//! The child must not allocate, lock or panic between clone and exec. Pinned by the tests in
//! `tests/process`.
#![allow(unsafe_code, reason = "each use gives its reason")]

use std::arch::asm;
use std::cell::UnsafeCell;
use std::ffi::{CStr, CString, c_char, c_int, c_long};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

use rustix::process::{Pid, WaitOptions, waitpid};

use super::sandbox::Filter;

#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
compile_error!(
    "processes are started with raw system calls, on Linux for x86_64 and aarch64 only; add the system call for this machine"
);

/// A program to start, and the state in which it starts.
pub(super) struct ClonePlan<'a> {
    pub(super) program: &'a CStr,
    /// The arguments, including the program's name.
    pub(super) arguments: &'a [CString],
    pub(super) environment: &'a [CString],
    pub(super) cwd: BorrowedFd<'a>,
    /// Become descriptors 0, 1 and 2.
    pub(super) stdio: [BorrowedFd<'a>; 3],
    /// Landlock ruleset that the child applies to itself.
    pub(super) rules: Option<BorrowedFd<'a>>,
    /// Seccomp filter that the child applies to itself.
    pub(super) filter: Option<Filter>,
    /// Becomes descriptor 3, from which the program reads.
    pub(super) passed_fd: Option<BorrowedFd<'a>>,
    /// Identifies the processes of the run, see `family`.
    pub(super) tag: u64,
    /// The folder of the cgroup in which the child starts.
    pub(super) cgroup: Option<BorrowedFd<'a>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CloneStage {
    /// No process was created. With a cgroup, the start may succeed without it.
    Clone = 0,
    Directory,
    Stdio,
    /// Confinement.
    Rules,
    Program,
}

/// Starts a program in its own session and process group. The caller must reap the child.
///
/// # Errors
/// The stage that failed and the system's error. No process is left.
pub(super) fn start(plan: &ClonePlan<'_>) -> Result<Pid, (CloneStage, io::Error)> {
    let stdio = plan.stdio.map(|fd| fd.as_raw_fd());
    if stdio.iter().any(|fd| *fd < 3) {
        return Err((
            CloneStage::Stdio,
            io::Error::other("standard descriptors of the gateway are closed"),
        ));
    }
    let job = UnsafeCell::new(ChildJob {
        program: plan.program.as_ptr(),
        arguments: pointers(plan.arguments),
        environment: pointers(plan.environment),
        cwd: plan.cwd.as_raw_fd(),
        stdio,
        rules: plan.rules.map_or(-1, |rules| rules.as_raw_fd()),
        filter: filter_program(plan.filter.unwrap_or_default()),
        passed_fd: plan.passed_fd.map_or(-1, |handed| handed.as_raw_fd()),
        tag: plan.tag,
        stage: CloneStage::Clone as c_int,
        error: 0,
    });
    let flags = libc::CLONE_VM | libc::CLONE_VFORK;
    // SAFETY: an all-zero sigset_t is valid; sigfillset and pthread_sigmask only write to these
    // locals.
    let mut before: libc::sigset_t = unsafe { std::mem::zeroed() };
    unsafe {
        let mut all = before;
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
    }
    // SAFETY: `child` obeys the rules of `clone_vfork`; `job` outlives the call and nobody else
    // touches it meanwhile; the arguments are those of the system call (clone3: pointer and size;
    // clone: flags, zero for the parent's stack).
    let made = unsafe {
        match plan.cgroup {
            Some(cgroup) => {
                let arguments = CloneArguments {
                    flags: flags as u64 | CLONE_INTO_CGROUP,
                    exit_signal: libc::SIGCHLD as u64,
                    cgroup: cgroup.as_raw_fd() as u64,
                    ..CloneArguments::default()
                };
                clone_vfork(
                    libc::SYS_clone3,
                    (&raw const arguments).addr(),
                    size_of::<CloneArguments>(),
                    job.get(),
                )
            }
            None => clone_vfork(libc::SYS_clone, (flags | libc::SIGCHLD) as usize, 0, job.get()),
        }
    };
    // SAFETY: restores the mask that was read above.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, ptr::null_mut()) };
    let job = job.into_inner();
    if made < 0 {
        return Err((CloneStage::Clone, io::Error::from_raw_os_error(-made as i32)));
    }
    let pid = Pid::from_raw(made as i32)
        .ok_or_else(|| (CloneStage::Clone, io::Error::other("the child has no process id")))?;
    if job.error == 0 {
        return Ok(pid);
    }
    // The child has already ended. An error means that another thread reaped it.
    let _ = waitpid(Some(pid), WaitOptions::empty());
    let stage = match job.stage {
        1 => CloneStage::Directory,
        2 => CloneStage::Stdio,
        3 => CloneStage::Rules,
        _ => CloneStage::Program,
    };
    Err((stage, io::Error::from_raw_os_error(job.error)))
}

fn pointers(strings: &[CString]) -> Vec<*const c_char> {
    strings.iter().map(|string| string.as_ptr()).chain([ptr::null()]).collect()
}

/// Converts the filter to the system call's argument. The system call only reads it.
fn filter_program(filter: Filter) -> libc::sock_fprog {
    let len = u16::try_from(filter.len()).expect("the kernel takes 4096 instructions at most");
    libc::sock_fprog { len, filter: filter.as_ptr().cast_mut().cast() }
}

/// Memory that the child reads, and in which it reports its error.
struct ChildJob {
    program: *const c_char,
    /// Ends with a null pointer, like `environment`.
    arguments: Vec<*const c_char>,
    environment: Vec<*const c_char>,
    cwd: c_int,
    stdio: [c_int; 3],
    /// Negative if there are no rules.
    rules: c_int,
    /// Empty if there is no filter.
    filter: libc::sock_fprog,
    /// Negative if no descriptor is passed.
    passed_fd: c_int,
    tag: u64,
    stage: c_int,
    error: c_int,
}

/// Capabilities that bypass the rules of Landlock or administer the machine
/// (linux/capability.h). With `CAP_PERFMON`, root reads the environment of any process since Linux
/// 6.17.
const DROPPED_CAPABILITIES: [libc::c_ulong; 18] = [
    12, // CAP_NET_ADMIN
    16, // CAP_SYS_MODULE
    17, // CAP_SYS_RAWIO
    19, // CAP_SYS_PTRACE
    20, // CAP_SYS_PACCT
    21, // CAP_SYS_ADMIN
    22, // CAP_SYS_BOOT
    25, // CAP_SYS_TIME
    26, // CAP_SYS_TTY_CONFIG
    27, // CAP_MKNOD
    30, // CAP_AUDIT_CONTROL
    32, // CAP_MAC_OVERRIDE
    33, // CAP_MAC_ADMIN
    34, // CAP_SYSLOG
    36, // CAP_BLOCK_SUSPEND
    38, // CAP_PERFMON
    39, // CAP_BPF
    40, // CAP_CHECKPOINT_RESTORE
];

/// linux/sched.h
const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

/// `struct clone_args` of linux/sched.h, version 2.
#[repr(C)]
#[derive(Default)]
struct CloneArguments {
    flags: u64,
    pidfd: u64,
    child_tid: u64,
    parent_tid: u64,
    exit_signal: u64,
    stack: u64,
    stack_size: u64,
    tls: u64,
    set_tid: u64,
    set_tid_size: u64,
    cgroup: u64,
}

/// Creates a child that runs `child(job)` on this thread's stack while this thread waits. Returns
/// the child's id or `-errno`.
///
/// # Safety
/// `call` must be clone or clone3 with `CLONE_VM | CLONE_VFORK` and without a stack for the child,
/// and all signals must be blocked. `job` must be valid, and nobody else may access it until this
/// returns.
#[inline(never)]
unsafe fn clone_vfork(call: c_long, first: usize, second: usize, job: *mut ChildJob) -> isize {
    let made: isize;
    // SAFETY: the child continues below this frame (the block may push, because `nostack` is
    // absent, so there is no red zone either), never returns, and has its own registers. So the
    // parent's frame and registers are unchanged. The child writes to shared memory only below the
    // frame, in `job`, and to errno.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        asm!(
            "syscall",
            "test rax, rax",
            "jnz 2f",
            "xor ebp, ebp",
            "mov rdi, r12",
            "and rsp, -16",
            "call r13",
            "ud2",
            "2:",
            inlateout("rax") call as isize => made,
            in("rdi") first,
            in("rsi") second,
            in("rdx") 0usize,
            in("r10") 0usize,
            in("r8") 0usize,
            in("r12") job,
            in("r13") child as unsafe extern "C" fn(*mut ChildJob) -> !,
            lateout("rcx") _,
            lateout("r11") _,
        );
    }
    // SAFETY: as above.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        asm!(
            "svc 0",
            "cbnz x0, 2f",
            "mov x29, xzr",
            "mov x0, x20",
            "blr x21",
            "brk 1",
            "2:",
            in("x8") call as isize,
            inlateout("x0") first => made,
            in("x1") second,
            in("x2") 0usize,
            in("x3") 0usize,
            in("x4") 0usize,
            in("x20") job,
            in("x21") child as unsafe extern "C" fn(*mut Job) -> !,
        );
    }
    made
}

/// Prepares the child and executes the program.
///
/// # Safety
/// Only for [`clone_vfork`]. The memory is the parent's, so this must not allocate, lock or panic,
/// and may call only functions that are bare system calls in the C library.
unsafe extern "C" fn child(job: *mut ChildJob) -> ! {
    // SAFETY: `job` is valid by the contract of `clone_vfork`, its strings and arrays end with
    // zero; signal handlers, descriptors, session, limits and working directory are the child's
    // own, for neither CLONE_SIGHAND nor CLONE_FILES nor CLONE_FS was given.
    unsafe {
        // The gateway's handlers must not run here, and the signals that it ignores (SIGPIPE) must
        // have their default action in agents. The raw system call also resets the signals that the
        // C library reserves. All zero is SIG_DFL.
        let default = [0u64; 4];
        for signal in 1..=64 {
            libc::syscall(libc::SYS_rt_sigaction, signal, default.as_ptr(), ptr::null::<u64>(), 8);
        }
        libc::setsid();
        (*job).stage = CloneStage::Directory as c_int;
        if libc::fchdir((*job).cwd) != 0 {
            fail(job);
        }
        (*job).stage = CloneStage::Stdio as c_int;
        if libc::dup2((*job).stdio[0], 0) < 0
            || libc::dup2((*job).stdio[1], 1) < 0
            || libc::dup2((*job).stdio[2], 2) < 0
        {
            fail(job);
        }
        if (*job).rules >= 0 {
            (*job).stage = CloneStage::Rules as c_int;
            // Fails without root, which is fine: other users do not have these capabilities.
            for capability in DROPPED_CAPABILITIES {
                libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0);
            }
            if libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0
                || libc::syscall(libc::SYS_landlock_restrict_self, (*job).rules, 0) != 0
            {
                fail(job);
            }
        }
        // Without SECCOMP_FILTER_FLAG_TSYNC, the filter applies to this process and its descendants
        // only.
        if (*job).filter.len > 0 {
            (*job).stage = CloneStage::Rules as c_int;
            let filter = &raw const (*job).filter;
            if libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0
                || libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, filter) != 0
            {
                fail(job);
            }
        }
        let mut first = 3;
        if (*job).passed_fd >= 0 {
            (*job).stage = CloneStage::Stdio as c_int;
            // If the descriptor already has this number, dup2 does not clear its close-on-exec
            // flag.
            if libc::dup2((*job).passed_fd, first) < 0 || libc::fcntl(first, libc::F_SETFD, 0) < 0 {
                fail(job);
            }
            first += 1;
        }
        // close_range needs Linux 5.9. Without it, or in a sandbox that forbids it, close the
        // descriptors that are likely to be open.
        if libc::syscall(libc::SYS_close_range, first, u32::MAX, 0) != 0 {
            for fd in first..4096 {
                libc::close(fd);
            }
        }
        let zero = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        libc::setrlimit(libc::RLIMIT_CORE, &raw const zero);
        let mut locks = zero;
        libc::getrlimit(libc::RLIMIT_LOCKS, &raw mut locks);
        locks.rlim_cur = (*job).tag;
        libc::setrlimit(libc::RLIMIT_LOCKS, &raw const locks);
        let mut open: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut open);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const open, ptr::null_mut());
        (*job).stage = CloneStage::Program as c_int;
        libc::execve((*job).program, (*job).arguments.as_ptr(), (*job).environment.as_ptr());
        fail(job)
    }
}

/// # Safety
/// As for [`child`].
unsafe fn fail(job: *mut ChildJob) -> ! {
    // SAFETY: as in `child`.
    unsafe {
        (*job).error = *libc::__errno_location();
        libc::_exit(127)
    }
}

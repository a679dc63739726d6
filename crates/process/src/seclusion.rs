//! Protects this process from its own agents, which run as the same user.
//!
//! If a process is not dumpable, other processes of its user cannot read its `environ`, `mem`,
//! `maps` and `fd` in `/proc`, cannot trace it, and cannot copy its descriptors (pidfd_getfd(2)).
//! It also leaves no core file (PR_SET_DUMPABLE(2const)). Programs that it starts are dumpable
//! again. Files that everybody may read, such as `cmdline`, are not protected. Pinned by
//! `tests/gateway/secret_access.rs`.
#![allow(unsafe_code, reason = "each use gives its reason")]

use std::ffi::{CStr, OsString, c_char};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, RawFd};
use std::os::unix::ffi::OsStringExt as _;
use std::time::Duration;

use rustix::process::{DumpableBehavior, set_dumpable_behavior};

/// Longest wait for data on an inherited descriptor.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

unsafe extern "C" {
    /// environ(7)
    static mut environ: *mut *mut c_char;
}

/// Protects this process from other processes of its user.
///
/// # Errors
/// The system's error. The process is then not protected.
pub fn seclude() -> io::Result<()> {
    Ok(set_dumpable_behavior(DumpableBehavior::NotDumpable)?)
}

/// Ignores SIGXFSZ, so that a write beyond the file size limit fails as on a full disk instead of
/// ending the process. Agents start with the default action again.
pub fn ignore_file_size_signal() {
    // SAFETY: SIG_IGN installs no handler, and the signal exists on every Linux.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

/// Removes variables from the environment, and overwrites their values in the memory that
/// `/proc/PID/environ` shows, even to root. Must be called before any other thread exists.
pub fn forget_variables(is_secret: impl Fn(&str) -> bool) {
    let mut names: Vec<OsString> = Vec::new();
    // SAFETY: there is no other thread that could read or change the environment. `environ` is null
    // or ends with a null pointer. It points to strings in writable memory, each of which ends with
    // zero. That zero is not overwritten.
    unsafe {
        let mut entry = environ;
        while !entry.is_null() && !(*entry).is_null() {
            let bytes = CStr::from_ptr(*entry).to_bytes();
            let equals = bytes.iter().position(|byte| *byte == b'=');
            if let Some(at) = equals.filter(|at| is_secret(&String::from_utf8_lossy(&bytes[..*at])))
            {
                names.push(OsString::from_vec(bytes[..at].to_vec()));
                let length = bytes.len();
                for place in at + 1..length {
                    // Volatile, because the compiler may omit writes that nobody reads.
                    (*entry).add(place).write_volatile(0);
                }
            }
            entry = entry.add(1);
        }
        for name in names {
            std::env::remove_var(name);
        }
    }
}

/// Reads an inherited descriptor to its end, and closes it. Descriptor 0 becomes `/dev/null`.
///
/// # Errors
/// The descriptor is not open, or is a folder or a terminal. No data and no end came for 10 s.
/// There are more than `limit` bytes.
pub fn take_descriptor(number: RawFd, limit: usize) -> io::Result<Vec<u8>> {
    let refuse = |why: &str| io::Error::other(why.to_owned());
    if number < 0 || number == 1 || number == 2 {
        return Err(refuse("it must be 0, or 3 and more"));
    }
    // SAFETY: F_GETFD accepts any number.
    if unsafe { libc::fcntl(number, libc::F_GETFD) } < 0 {
        return Err(refuse("it is not open"));
    }
    // SAFETY: it is open, and this process has one thread, which closes it only below.
    let descriptor = unsafe { BorrowedFd::borrow_raw(number) };
    // SAFETY: the descriptor is open.
    if unsafe { libc::isatty(number) } == 1 {
        return Err(refuse("it is a terminal"));
    }
    let read = read_all(descriptor, limit);
    let replaced = if number == 0 { File::open("/dev/null").map(Some)? } else { None };
    // SAFETY: the descriptor is ours and is not used any more. Descriptor 0 must stay open, because
    // the next opened file would get that number.
    unsafe {
        match replaced {
            Some(nothing) => libc::dup2(nothing.as_raw_fd(), number),
            None => libc::close(number),
        };
    }
    read
}

fn read_all(descriptor: BorrowedFd<'_>, limit: usize) -> io::Result<Vec<u8>> {
    let (mut bytes, mut piece) = (Vec::new(), [0; 4096]);
    loop {
        let mut asked =
            libc::pollfd { fd: descriptor.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: the array has one entry, which is valid, with an open descriptor.
        if unsafe { libc::poll(&raw mut asked, 1, ANSWER_TIMEOUT.as_millis() as libc::c_int) } == 0
        {
            return Err(io::Error::other(format!(
                "no data and no end came for {} s",
                ANSWER_TIMEOUT.as_secs()
            )));
        }
        match rustix::io::read(descriptor, &mut piece)? {
            0 => return Ok(bytes),
            length => bytes.extend_from_slice(&piece[..length]),
        }
        if bytes.len() > limit {
            return Err(io::Error::other(format!("there are more than {limit} bytes")));
        }
    }
}

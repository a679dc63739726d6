//! This very process, out of reach of its own agents, which run as the same user.
//!
//! A process that is not dumpable has no `environ`, `mem`, `maps` and `fd` in `/proc` for others of
//! its user, cannot be traced, has no descriptor taken from it (pidfd_getfd(2)) and leaves no core
//! file (PR_SET_DUMPABLE(2const)). A program it starts is dumpable again. What is readable for
//! everybody, such as `cmdline`, stays so. Pinned by `tests/gateway/seclusion.rs`.
#![allow(unsafe_code, reason = "each use gives its reason")]

use std::ffi::{CStr, OsString, c_char};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, RawFd};
use std::os::unix::ffi::OsStringExt as _;
use std::time::Duration;

use rustix::process::{DumpableBehavior, set_dumpable_behavior};

/// Longest wait for whoever writes to a descriptor that was handed over.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

unsafe extern "C" {
    /// environ(7)
    static mut environ: *mut *mut c_char;
}

/// Closes this process to others of its user.
///
/// # Errors
/// What the system says; it then stays open.
pub fn seclude() -> io::Result<()> {
    Ok(set_dumpable_behavior(DumpableBehavior::NotDumpable)?)
}

/// Ignores SIGXFSZ: a write beyond the file size limit then fails like one on a full disk, instead
/// of ending the process. Programs that it starts for agents have the default again.
pub fn ignore_file_size_signal() {
    // SAFETY: SIG_IGN installs no handler, and the signal exists on every Linux.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

/// Takes variables out of the environment, and their values out of the memory in which the program
/// was given them: that is what `/proc/PID/environ` shows, to root too. To be called before any
/// other thread exists.
pub fn forget_variables(is_secret: impl Fn(&str) -> bool) {
    let mut names: Vec<OsString> = Vec::new();
    // SAFETY: there is no other thread that could read or change the environment. `environ` is null
    // or ends with a null pointer; what it points to are strings in writable memory, each ending
    // with zero, which is left where it is.
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
                    // Volatile: nobody reads it again, and it must be written all the same.
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

/// Reads what somebody put behind a descriptor before starting us, and closes it. 0 becomes
/// `/dev/null`.
///
/// # Errors
/// It is not open, a folder or a terminal, nobody writes or ends it for 10 s, or there are more
/// than `limit` bytes.
pub fn take_descriptor(number: RawFd, limit: usize) -> io::Result<Vec<u8>> {
    let refuse = |why: &str| io::Error::other(why.to_owned());
    if number < 0 || number == 1 || number == 2 {
        return Err(refuse("it must be 0, or 3 and more"));
    }
    // SAFETY: asks about a number; any number may be asked about.
    if unsafe { libc::fcntl(number, libc::F_GETFD) } < 0 {
        return Err(refuse("it is not open"));
    }
    // SAFETY: it is open, and nobody else in this process, which has one thread, closes it before
    // `close` below.
    let descriptor = unsafe { BorrowedFd::borrow_raw(number) };
    // SAFETY: asks about an open descriptor.
    if unsafe { libc::isatty(number) } == 1 {
        return Err(refuse("it is a terminal"));
    }
    let read = read_all(descriptor, limit);
    let replaced = if number == 0 { File::open("/dev/null").map(Some)? } else { None };
    // SAFETY: the number is ours and is not used any more; 0 must stay open, or the next file would
    // be it.
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
        // SAFETY: one entry, which is ours, of an open descriptor.
        if unsafe { libc::poll(&raw mut asked, 1, ANSWER_TIMEOUT.as_millis() as libc::c_int) } == 0
        {
            return Err(io::Error::other(format!(
                "nothing came for {} s, and it was not closed",
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

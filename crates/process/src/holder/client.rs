//! Checks the process at the other end of a connection to the holder.
//!
//! Agents run as the same user, and before Linux 7.1 Landlock does not keep them from connecting to
//! a socket. The key in the state folder is not sufficient, because it can leak. So the holder also
//! refuses its own agents, and every process that is more confined than the holder itself: a process
//! can neither leave its cgroup and its ancestors nor remove its confinement, even if it executes
//! the gateway's program.
//!
//! The program file is not compared. The gateway hides its `/proc/PID/exe` from its own user
//! ([`crate::seclude`]), and every process can execute that file after it has connected.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};

use rustix::process::{Pid, PidfdFlags, pidfd_open};
use tokio::net::UnixStream;

use super::socket;
use crate::Custody;
use crate::gateway_id::read_mark;

/// The reason why a process may not use the holder.
#[derive(Debug, thiserror::Error)]
pub(super) enum RefusedClient {
    #[error("process {pid} runs as user {uid}, not as the user of this holder")]
    OtherUser { pid: i32, uid: u32 },
    #[error("process {pid} is an agent of this holder (run `{run}`)")]
    Agent { pid: i32, run: String },
    #[error(
        "process {pid} is more confined than this holder (`NoNewPrivs` and `Seccomp_filters` in `/proc/{pid}/status`), as an agent is; if it is a gateway, start it with the restrictions of the holder's unit"
    )]
    Confined { pid: i32 },
    #[error(
        "the process that connected has ended, or is in another PID namespace than this holder; start both in the same one"
    )]
    NotVisible,
    #[error("the process that connected cannot be examined: {0}")]
    Unreadable(#[from] io::Error),
    #[error("the client does not know the key of the state folder")]
    WrongKey,
}

/// Checks that the process that made this connection may use the holder.
///
/// # Errors
/// [`RefusedClient`]
pub(super) fn check(stream: &UnixStream, agents: &Custody) -> Result<(), RefusedClient> {
    // Refers to the process itself. Its number could be reused.
    let process = connected_process(stream)?;
    let pid = pid_of(&process).ok_or(RefusedClient::NotVisible)?;
    let uid = socket::peer_uid(stream)?;
    if uid != socket::own_uid() {
        return Err(RefusedClient::OtherUser { pid, uid });
    }
    if pid == std::process::id() as i32 {
        return Ok(());
    }
    if agents.owns_process(pid) {
        let run = read_mark(pid).unwrap_or_else(|| "unknown".to_owned());
        return Err(RefusedClient::Agent { pid, run });
    }
    if Restrictions::of(&pid.to_string())?.exceeds(Restrictions::of("self")?) {
        return Err(RefusedClient::Confined { pid });
    }
    // The files in `/proc` were those of the process if it still exists.
    if pid_of(&process) == Some(pid) { Ok(()) } else { Err(RefusedClient::NotVisible) }
}

/// The restrictions of a process that it passes to its children and cannot remove.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Restrictions {
    no_new_privileges: u32,
    filters: u32,
}

impl Restrictions {
    fn of(process: &str) -> io::Result<Self> {
        let status = fs::read_to_string(format!("/proc/{process}/status"))?;
        Self::parse(&status).ok_or_else(|| {
            io::Error::other(format!("`/proc/{process}/status` has no line `NoNewPrivs`"))
        })
    }

    /// Parses `/proc/PID/status` (proc_pid_status(5)).
    fn parse(status: &str) -> Option<Self> {
        let number = |name: &str| {
            let value = status.lines().find_map(|line| line.strip_prefix(name))?;
            value.strip_prefix(':')?.trim().parse().ok()
        };
        // Before Linux 5.9 the filters are not counted.
        let filters = number("Seccomp_filters").or_else(|| number("Seccomp"));
        Some(Self { no_new_privileges: number("NoNewPrivs")?, filters: filters.unwrap_or(0) })
    }

    fn exceeds(self, other: Self) -> bool {
        self.no_new_privileges > other.no_new_privileges || self.filters > other.filters
    }
}

/// Returns a pidfd of the process that made the connection.
fn connected_process(stream: &UnixStream) -> Result<OwnedFd, RefusedClient> {
    let (mut number, mut size): (libc::c_int, _) =
        (-1, size_of::<libc::c_int>() as libc::socklen_t);
    // SAFETY: the descriptor is open, and the call writes at most `size` bytes to `number`.
    #[expect(unsafe_code, reason = "rustix does not have this option")]
    let answer = unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            SO_PEERPIDFD,
            (&raw mut number).cast(),
            &raw mut size,
        )
    };
    if answer == 0 {
        // SAFETY: the call succeeded, so it has opened this descriptor for us.
        #[expect(unsafe_code, reason = "see above")]
        return Ok(unsafe { OwnedFd::from_raw_fd(number) });
    }
    match io::Error::last_os_error().raw_os_error() {
        // Before Linux 6.5, only the number of the process is known.
        Some(libc::ENOPROTOOPT) => {
            let pid = stream.peer_cred()?.pid().and_then(Pid::from_raw);
            let pid = pid.ok_or(RefusedClient::NotVisible)?;
            pidfd_open(pid, PidfdFlags::empty()).map_err(|_| RefusedClient::NotVisible)
        }
        // The process has been reaped.
        Some(libc::ESRCH | libc::EINVAL | libc::ENODATA) => Err(RefusedClient::NotVisible),
        _ => Err(RefusedClient::Unreadable(io::Error::last_os_error())),
    }
}

/// asm-generic/socket.h
const SO_PEERPIDFD: libc::c_int = 77;

/// Returns the number of a process, or `None` if it was reaped or has no number here.
fn pid_of(process: &OwnedFd) -> Option<i32> {
    let info = fs::read_to_string(format!("/proc/self/fdinfo/{}", process.as_raw_fd())).ok()?;
    let pid = info.lines().find_map(|line| line.strip_prefix("Pid:"))?.trim().parse().ok()?;
    (pid > 0).then_some(pid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_with_more_filters_or_without_new_privileges_exceeds_the_holders_confinement() {
        let status = |privileges: u32, filters: u32| {
            let text = format!(
                "Name:\tsh\nNoNewPrivs:\t{privileges}\nSeccomp:\t2\nSeccomp_filters:\t{filters}\n"
            );
            Restrictions::parse(&text).expect("complete")
        };
        let (free, unit) = (status(0, 0), status(1, 12));
        assert!(status(1, 0).exceeds(free) && status(1, 13).exceeds(unit));
        assert!(!free.exceeds(free) && !unit.exceeds(unit) && !free.exceeds(unit));
        assert_eq!(Restrictions::parse("Name:\tsh\n"), None);
    }
}

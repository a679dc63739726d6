//! Finds the running gateway, and asks it to end or to hand over.

use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, Signal, geteuid, pidfd_open, pidfd_send_signal};
use tokio::time::{Instant, sleep};

use aetheel_store::workspace::{LockOwner, ServiceUnit, locked_by};

/// Time limit for the gateway to exit, in addition to the time for its turns and its hook
/// `shutdown`.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(30);
/// Time limit for the next gateway if a service manager starts it.
const RESTART_TIMEOUT: Duration = Duration::from_secs(60);
/// Time limit for the next gateway otherwise.
const START_TIMEOUT: Duration = Duration::from_secs(10);
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Bit of SIGUSR2 in the signal masks of `/proc/PID/status`.
const SIGUSR2_MASK: u64 = 1 << (Signal::USR2.as_raw() - 1);

/// The gateway that serves a folder. The pidfd makes sure that no other process is mistaken for it.
#[derive(Debug)]
pub(in crate::commands) struct ServingGateway {
    serving: LockOwner,
    process: OwnedFd,
    /// Whether a holder keeps its agents running after it exits.
    pub(in crate::commands) holder_keeps_agents: bool,
    /// The service that it belongs to, whose manager starts the next gateway.
    pub(in crate::commands) unit: Option<ServiceUnit>,
}

#[derive(Debug, PartialEq, Eq)]
pub(in crate::commands) enum HandoverResult {
    /// Another gateway serves.
    Successor(LockOwner),
    /// No gateway serves yet.
    NoSuccessor,
}

#[derive(Debug, thiserror::Error)]
pub(in crate::commands) enum HandoverError {
    #[error("the gateway (process {0}) has just ended; run this command again")]
    Gone(u32),
    #[error(
        "the gateway (process {pid}) belongs to the user with the id {user}; run this command as that user, with `sudo -u '#{user}'`"
    )]
    OtherUser { pid: u32, user: u32 },
    #[error(
        "process {pid} holds the lock of the gateway and calls itself `{name}`, which is not aetheel; end it, then run this again"
    )]
    NotOurs { pid: u32, name: String },
    #[error(
        "the gateway (process {0}) is too old to hand over; stop it (SIGTERM), replace the program, and start the new one"
    )]
    TooOld(u32),
    #[error("cannot send a signal to the gateway (process {pid})")]
    Signal {
        pid: u32,
        #[source]
        source: std::io::Error,
    },
    #[error(
        "the gateway (process {pid}) has not ended within {} s; its log (`aetheel logs`) shows what it waits for; a second `kill {pid}` makes it stop waiting",
        limit.as_secs()
    )]
    DoesNotLeave { pid: u32, limit: Duration },
}

impl ServingGateway {
    /// Finds the gateway that serves a configuration folder. Returns `None` if none runs.
    ///
    /// # Errors
    /// The process is not a gateway, or this user cannot ask it to hand over.
    pub(in crate::commands) fn find(folder: &Path) -> Result<Option<Self>, HandoverError> {
        let Some(found) = LockOwner::current(folder) else { return Ok(None) };
        let pid = found.pid;
        let gone = || HandoverError::Gone(pid);
        let raw = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or_else(gone)?;
        let process = pidfd_open(raw, PidfdFlags::empty()).map_err(|_| gone())?;
        // The pidfd is open, so the process id now refers to this process only.
        let serving =
            LockOwner::current(folder).filter(|again| again.pid == pid).ok_or_else(gone)?;
        let read = |name: &str| fs::read_to_string(format!("/proc/{pid}/{name}"));
        let status =
            read("status").ok().and_then(|text| ProcessStatus::parse(&text)).ok_or_else(gone)?;
        status.check(&serving, geteuid().as_raw())?;
        let cgroups = read("cgroup").unwrap_or_default();
        let holder_keeps_agents = has_separate_holder(folder, &cgroups);
        let unit = ServiceUnit::of_cgroups(&cgroups);
        Ok(Some(Self { serving, process, holder_keeps_agents, unit }))
    }

    pub(in crate::commands) fn pid(&self) -> u32 {
        self.serving.pid
    }

    /// Returns the file that the gateway was started from, or `own` if it is unknown.
    pub(in crate::commands) fn program(&self, own: &Path) -> PathBuf {
        let link = || fs::read_link(format!("/proc/{}/exe", self.serving.pid)).ok();
        let said = self.serving.program.clone().or_else(link).filter(|program| program.is_file());
        said.unwrap_or_else(|| own.to_owned())
    }

    /// Asks the gateway to hand over, and waits until it has exited and another one serves. Waits
    /// only briefly for the next one if no service manager starts it. `shutdown` is the time that
    /// the gateway's turns have, or with a holder its hook.
    ///
    /// # Errors
    /// [`HandoverError`]; the gateway continues to serve.
    pub(in crate::commands) async fn hand_over(
        self,
        folder: &Path,
        shutdown: Duration,
    ) -> Result<HandoverResult, HandoverError> {
        let pid = self.serving.pid;
        self.end(folder, Signal::USR2, shutdown).await?;
        let limit = if self.unit.is_some() { RESTART_TIMEOUT } else { START_TIMEOUT };
        let next = wait(limit, folder, |serving| {
            serving.as_ref().is_some_and(|next| next.pid != pid && next.version.is_some())
        });
        Ok(next.await.flatten().map_or(HandoverResult::NoSuccessor, HandoverResult::Successor))
    }

    /// Sends a signal that ends the gateway, and waits until it has exited. `shutdown` is the time
    /// that its turns have.
    ///
    /// # Errors
    /// [`HandoverError`]; the gateway may still exit later.
    pub(in crate::commands) async fn end(
        &self,
        folder: &Path,
        signal: Signal,
        shutdown: Duration,
    ) -> Result<(), HandoverError> {
        let (pid, limit) = (self.serving.pid, shutdown + LEAVE_TIMEOUT);
        pidfd_send_signal(&self.process, signal)
            .map_err(|error| HandoverError::Signal { pid, source: error.into() })?;
        let serves = |serving: &Option<LockOwner>| serving.as_ref().is_some_and(|it| it.pid == pid);
        match wait(limit, folder, |serving| !serves(serving)).await {
            Some(_) => Ok(()),
            None => Err(HandoverError::DoesNotLeave { pid, limit }),
        }
    }
}

/// Polls which gateway serves until the condition is true, and returns that gateway. Returns `None`
/// after the time limit.
pub(in crate::commands) async fn wait(
    limit: Duration,
    folder: &Path,
    wanted: impl Fn(&Option<LockOwner>) -> bool,
) -> Option<Option<LockOwner>> {
    let end = Instant::now() + limit;
    loop {
        let serving = LockOwner::current(folder);
        if wanted(&serving) {
            return Some(serving);
        }
        if Instant::now() >= end {
            return None;
        }
        sleep(POLL_INTERVAL).await;
    }
}

/// The public properties of a process (proc_pid_status(5)). The gateway hides the others.
#[derive(Debug, PartialEq, Eq)]
struct ProcessStatus {
    name: String,
    user: u32,
    /// Mask of the signals that it handles.
    caught: u64,
}

impl ProcessStatus {
    fn parse(text: &str) -> Option<Self> {
        let field = |name: &str| {
            text.lines().find_map(|line| Some(line.strip_prefix(name)?.strip_prefix(':')?.trim()))
        };
        Some(Self {
            name: field("Name")?.to_owned(),
            // The ids are real, effective, saved and file system.
            user: field("Uid")?.split_whitespace().nth(1)?.parse().ok()?,
            caught: u64::from_str_radix(field("SigCgt")?, 16).ok()?,
        })
    }

    /// Checks that it is a gateway, and that a user can ask it to hand over.
    fn check(&self, serving: &LockOwner, asker: u32) -> Result<(), HandoverError> {
        let pid = serving.pid;
        if asker != 0 && asker != self.user {
            return Err(HandoverError::OtherUser { pid, user: self.user });
        }
        let file = serving.program.as_deref().and_then(Path::file_name);
        // The kernel truncates names to 15 bytes.
        let named = file.is_some_and(|file| {
            let file = file.as_encoded_bytes();
            file[..file.len().min(15)] == *self.name.as_bytes()
        });
        if !named && !self.name.starts_with("aetheel") {
            return Err(HandoverError::NotOurs { pid, name: self.name.clone() });
        }
        // The signal would terminate the process.
        if self.caught & SIGUSR2_MASK == 0 {
            return Err(HandoverError::TooOld(pid));
        }
        Ok(())
    }
}

/// Returns whether a holder keeps the agents of a gateway. A holder in the gateway's own service
/// does not, because it ends with the service.
fn has_separate_holder(folder: &Path, cgroups: &str) -> bool {
    locked_by(&folder.join("state/holder.lock")).is_some_and(|holder| {
        let its = fs::read_to_string(format!("/proc/{holder}/cgroup"));
        !(ServiceUnit::of_cgroups(cgroups).is_some() && its.is_ok_and(|its| its == cgroups))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn serving(program: Option<&str>) -> LockOwner {
        LockOwner { pid: 7, version: None, program: program.map(PathBuf::from) }
    }

    fn status(name: &str, user: u32, caught: u64) -> ProcessStatus {
        ProcessStatus { name: name.to_owned(), user, caught }
    }

    #[test]
    fn the_status_has_the_user_and_the_handled_signals_of_a_process() {
        let text = "Name:\taetheel\nUmask:\t0077\nUid:\t1000\t1001\t1001\t1001\nSigIgn:\t0000000000001000\nSigCgt:\t0000000100004a03\n";
        assert_eq!(ProcessStatus::parse(text), Some(status("aetheel", 1001, 0x1_0000_4a03)));
        let own = fs::read_to_string("/proc/self/status").unwrap();
        assert_eq!(ProcessStatus::parse(&own).unwrap().user, geteuid().as_raw());
        assert_eq!(ProcessStatus::parse("Name:\tx\n"), None);
    }

    #[test]
    fn only_a_gateway_that_can_hand_over_is_asked() {
        let able = status("aetheel", 1001, SIGUSR2_MASK);
        assert!(able.check(&serving(None), 1001).is_ok() && able.check(&serving(None), 0).is_ok());
        let refused =
            |status: &ProcessStatus, asker| status.check(&serving(None), asker).unwrap_err();
        assert!(matches!(refused(&able, 1002), HandoverError::OtherUser { user: 1001, .. }));
        let old = status("aetheel", 1001, SIGUSR2_MASK - 1);
        assert!(matches!(refused(&old, 1001), HandoverError::TooOld(7)));
        let other = status("a-name-of-anothe", 1001, SIGUSR2_MASK);
        assert!(matches!(refused(&other, 1001), HandoverError::NotOurs { .. }));
        let renamed = status("gateway-of-the-", 1001, SIGUSR2_MASK);
        assert!(renamed.check(&serving(Some("/opt/gateway-of-the-house")), 1001).is_ok());
    }
}

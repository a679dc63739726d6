//! The gateway that runs: whether it can be asked to hand over, and asking it.

use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, Signal, geteuid, pidfd_open, pidfd_send_signal};
use tokio::time::{Instant, sleep};

use crate::workspace::{Serving, locked_by};

/// Longest wait for a gateway to leave, beside the time for its turns and its hook `shutdown`.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(30);
/// Longest wait for the next one where a service manager starts it.
const RESTART_TIMEOUT: Duration = Duration::from_secs(60);
/// Where nobody is known to start it.
const START_TIMEOUT: Duration = Duration::from_secs(10);
/// Between two looks.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);
/// SIGUSR2 in the masks of `/proc/PID/status`.
const HANDS_OVER: u64 = 1 << (Signal::USR2.as_raw() - 1);

/// The gateway that serves a folder, held so that no other process is taken for it.
#[derive(Debug)]
pub(super) struct Gateway {
    serving: Serving,
    process: OwnedFd,
    /// A holder keeps its agents when it leaves.
    pub(super) leaves_agents: bool,
    /// A service manager starts the next one.
    is_service: bool,
}

/// A gateway has handed over.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Left {
    /// Another one serves.
    To(Serving),
    /// Nobody serves yet.
    ToNobody,
}

/// Why a gateway does not hand over.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotHandedOver {
    #[error("the gateway (process {0}) ended at this moment; run `aetheel upgrade` again")]
    Gone(u32),
    #[error(
        "the gateway (process {pid}) belongs to the user with the id {user}; run this as that user, as with `sudo -u '#{user}' aetheel upgrade`"
    )]
    OtherUser { pid: u32, user: u32 },
    #[error(
        "process {pid} holds the lock of the gateway and calls itself `{name}`, which is not aetheel; end it, and run this again"
    )]
    NotOurs { pid: u32, name: String },
    #[error(
        "the gateway (process {0}) cannot hand over: its version is older than that; stop it (SIGTERM), put the new program in its place, and start that"
    )]
    TooOld(u32),
    #[error("cannot ask the gateway (process {pid}) to hand over")]
    Signal {
        pid: u32,
        #[source]
        source: std::io::Error,
    },
    #[error(
        "the gateway (process {pid}) has not left within {} s; its log says what it waits for; what its file was before is in its place again, and a second `kill {pid}` makes the gateway stop waiting",
        limit.as_secs()
    )]
    DoesNotLeave { pid: u32, limit: Duration },
}

impl Gateway {
    /// The gateway that serves a configuration folder; none: there is none.
    ///
    /// # Errors
    /// It is none that this user could ask to hand over.
    pub(super) fn of(folder: &Path) -> Result<Option<Self>, NotHandedOver> {
        let Some(found) = Serving::of(folder) else { return Ok(None) };
        let pid = found.pid;
        let gone = || NotHandedOver::Gone(pid);
        let raw = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or_else(gone)?;
        let process = pidfd_open(raw, PidfdFlags::empty()).map_err(|_| gone())?;
        // Whatever the process id meant before, from now on it means this one.
        let serving = Serving::of(folder).filter(|again| again.pid == pid).ok_or_else(gone)?;
        let read = |name: &str| fs::read_to_string(format!("/proc/{pid}/{name}"));
        let status = read("status").ok().and_then(|text| Status::parse(&text)).ok_or_else(gone)?;
        status.check(&serving, geteuid().as_raw())?;
        let cgroups = read("cgroup").unwrap_or_default();
        let (leaves_agents, is_service) = (leaves_agents(folder, &cgroups), is_service(&cgroups));
        Ok(Some(Self { serving, process, leaves_agents, is_service }))
    }

    /// The file it was started from; where nobody can tell, this one.
    pub(super) fn program(&self, own: &Path) -> PathBuf {
        let link = || fs::read_link(format!("/proc/{}/exe", self.serving.pid)).ok();
        let said = self.serving.program.clone().or_else(link).filter(|program| program.is_file());
        said.unwrap_or_else(|| own.to_owned())
    }

    /// Asks it to hand over, and waits until it has left and another one serves. Where nobody is
    /// known to start that one, not for long. Its turns, or with a holder its hook, have the time
    /// of a `shutdown`.
    ///
    /// # Errors
    /// [`NotHandedOver`]; it serves on then.
    pub(super) async fn hand_over(
        self,
        folder: &Path,
        shutdown: Duration,
    ) -> Result<Left, NotHandedOver> {
        let limit = shutdown + LEAVE_TIMEOUT;
        let pid = self.serving.pid;
        pidfd_send_signal(&self.process, Signal::USR2)
            .map_err(|error| NotHandedOver::Signal { pid, source: error.into() })?;
        let serves = |serving: &Option<Serving>| serving.as_ref().is_some_and(|it| it.pid == pid);
        if wait(limit, folder, |serving| !serves(serving)).await.is_none() {
            return Err(NotHandedOver::DoesNotLeave { pid, limit });
        }
        let limit = if self.is_service { RESTART_TIMEOUT } else { START_TIMEOUT };
        let next = wait(limit, folder, |serving| {
            serving.as_ref().is_some_and(|next| next.pid != pid && next.version.is_some())
        });
        Ok(next.await.flatten().map_or(Left::ToNobody, Left::To))
    }
}

/// Looks until who serves is as wanted, and returns that; none: not in time.
async fn wait(
    limit: Duration,
    folder: &Path,
    wanted: impl Fn(&Option<Serving>) -> bool,
) -> Option<Option<Serving>> {
    let end = Instant::now() + limit;
    loop {
        let serving = Serving::of(folder);
        if wanted(&serving) {
            return Some(serving);
        }
        if Instant::now() >= end {
            return None;
        }
        sleep(LOOK_INTERVAL).await;
    }
}

/// What everybody may know of a process (proc_pid_status(5)); the gateway hides the rest.
#[derive(Debug, PartialEq, Eq)]
struct Status {
    name: String,
    user: u32,
    /// Signals it has handlers for.
    caught: u64,
}

impl Status {
    fn parse(text: &str) -> Option<Self> {
        let field = |name: &str| {
            text.lines().find_map(|line| Some(line.strip_prefix(name)?.strip_prefix(':')?.trim()))
        };
        Some(Self {
            name: field("Name")?.to_owned(),
            // Real, effective, saved and of files.
            user: field("Uid")?.split_whitespace().nth(1)?.parse().ok()?,
            caught: u64::from_str_radix(field("SigCgt")?, 16).ok()?,
        })
    }

    /// Whether a user can ask it to hand over.
    fn check(&self, serving: &Serving, asker: u32) -> Result<(), NotHandedOver> {
        let pid = serving.pid;
        if asker != 0 && asker != self.user {
            return Err(NotHandedOver::OtherUser { pid, user: self.user });
        }
        let file = serving.program.as_deref().and_then(Path::file_name);
        // The system keeps 15 bytes of a name.
        let named = file.is_some_and(|file| {
            let file = file.as_encoded_bytes();
            file[..file.len().min(15)] == *self.name.as_bytes()
        });
        if !named && !self.name.starts_with("aetheel") {
            return Err(NotHandedOver::NotOurs { pid, name: self.name.clone() });
        }
        // It would die of the signal.
        if self.caught & HANDS_OVER == 0 {
            return Err(NotHandedOver::TooOld(pid));
        }
        Ok(())
    }
}

/// Whether a holder keeps the agents of a gateway in these cgroups: whoever ends the gateway's
/// service ends a holder within it.
fn leaves_agents(folder: &Path, cgroups: &str) -> bool {
    locked_by(&folder.join("state/holder.lock")).is_some_and(|holder| {
        let its = fs::read_to_string(format!("/proc/{holder}/cgroup"));
        !(is_service(cgroups) && its.is_ok_and(|its| its == cgroups))
    })
}

/// Whether a process belongs to a service of systemd, by its cgroups (cgroups(7)).
fn is_service(cgroups: &str) -> bool {
    let units = cgroups.lines().filter_map(|line| line.rsplit(':').next());
    let mut innermost = units.filter_map(|path| {
        path.rsplit('/').find(|part| part.ends_with(".service") || part.ends_with(".scope"))
    });
    innermost.any(|unit| unit.ends_with(".service") && !unit.starts_with("user@"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn serving(program: Option<&str>) -> Serving {
        Serving { pid: 7, version: None, program: program.map(PathBuf::from) }
    }

    fn status(name: &str, user: u32, caught: u64) -> Status {
        Status { name: name.to_owned(), user, caught }
    }

    #[test]
    fn a_status_says_whose_process_it_is_and_which_signals_it_handles() {
        let text = "Name:\taetheel\nUmask:\t0077\nUid:\t1000\t1001\t1001\t1001\nSigIgn:\t0000000000001000\nSigCgt:\t0000000100004a03\n";
        assert_eq!(Status::parse(text), Some(status("aetheel", 1001, 0x1_0000_4a03)));
        let own = fs::read_to_string("/proc/self/status").unwrap();
        assert_eq!(Status::parse(&own).unwrap().user, geteuid().as_raw());
        assert_eq!(Status::parse("Name:\tx\n"), None);
    }

    #[test]
    fn only_a_gateway_of_ours_that_can_hand_over_is_asked() {
        let able = status("aetheel", 1001, HANDS_OVER);
        assert!(able.check(&serving(None), 1001).is_ok() && able.check(&serving(None), 0).is_ok());
        let refused = |status: &Status, asker| status.check(&serving(None), asker).unwrap_err();
        assert!(matches!(refused(&able, 1002), NotHandedOver::OtherUser { user: 1001, .. }));
        let old = status("aetheel", 1001, HANDS_OVER - 1);
        assert!(matches!(refused(&old, 1001), NotHandedOver::TooOld(7)));
        let other = status("a-name-of-anothe", 1001, HANDS_OVER);
        assert!(matches!(refused(&other, 1001), NotHandedOver::NotOurs { .. }));
        let renamed = status("gateway-of-the-", 1001, HANDS_OVER);
        assert!(renamed.check(&serving(Some("/opt/gateway-of-the-house")), 1001).is_ok());
    }

    #[test]
    fn a_service_is_known_by_its_innermost_unit() {
        assert!(is_service("0::/system.slice/aetheel.service/gateway\n"));
        assert!(is_service(
            "0::/user.slice/user-0.slice/user@0.service/app.slice/aetheel.service\n"
        ));
        assert!(!is_service("0::/user.slice/user-0.slice/user@0.service/app.slice/shell.scope\n"));
        assert!(!is_service("0::/user.slice/user-0.slice/user@0.service\n"));
        assert!(!is_service("0::/\n"));
    }
}

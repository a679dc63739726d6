//! `aetheel health`: reports whether the gateway with these settings is alive, for a container's
//! health check.
//!
//! Asks the status pages if they are enabled; otherwise checks the lock, and when the gateway
//! last updated it. Loads no backend, starts nothing, and returns within two seconds. Tested by
//! `tests/gateway/health.rs`.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::context::with_settings;
use crate::app::liveness::STALL_TIMEOUT;
use crate::cli::{JsonArgs, exit};
use crate::startup::settings::OperatorSettings;
use crate::terminal::{self, Verbosity, line, print_stderr};
use aetheel_model::plain::one_line;
use aetheel_settings::Config;
use aetheel_store::workspace::LockOwner;

/// Time limit for the status pages, so that the command takes less than two seconds.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(1_500);
const MAX_ANSWER_BYTES: u64 = 16 << 10;

/// The reason why the gateway does not count as alive.
#[derive(Debug, thiserror::Error)]
enum NotAlive {
    #[error("STATUS_ADDRESS {address}: {}", describe_error(error))]
    Unreachable {
        address: SocketAddr,
        #[source]
        error: io::Error,
    },
    /// The status pages answer with another status, and give no reasons.
    #[error("STATUS_ADDRESS {address}: /livez answers `{status}`")]
    Status { address: SocketAddr, status: String },
    /// The reasons that the status pages give.
    #[error("{}", .0.join("; "))]
    Reported(Vec<String>),
    #[error("no gateway serves `{}`", .0.display())]
    NoGateway(PathBuf),
    /// The process has this state of `/proc/PID/status`.
    #[error("the gateway (process {pid}) is stopped: state {state}")]
    Stopped { pid: u32, state: String },
    /// The gateway has not updated its lock for this time.
    #[error("the gateway (process {pid}) has shown no activity for {} s; see its log", silence.as_secs())]
    Silent { pid: u32, silence: Duration },
}

fn describe_error(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => {
            format!("no answer within {} ms", ANSWER_TIMEOUT.as_millis())
        }
        _ => error.to_string(),
    }
}

/// Returns the reason why the gateway that holds the lock does not count as alive.
pub(super) fn problem(config: &Config) -> Option<String> {
    check_lock(config).err().map(|error| error.to_string())
}

pub(super) fn run(args: &JsonArgs) -> u8 {
    with_settings(&args.common, None, |settings| report(&settings, args.json))
}

/// Prints one line that reports whether the gateway is alive. Returns the exit code.
fn report(settings: &OperatorSettings, json: bool) -> u8 {
    let looked = match settings.config.status_address.filter(|address| address.port() != 0) {
        Some(address) => check_livez(address),
        None => check_lock(&settings.config),
    };
    let quiet = terminal::verbosity() == Verbosity::Quiet;
    match looked {
        Ok(says) if json => {
            terminal::json_line(&json!({"alive": true, "says": says}));
            exit::OK
        }
        Ok(says) => {
            if !quiet {
                line(&format!("alive: {says}"));
            }
            exit::OK
        }
        Err(error) => {
            let mut why = error.to_string();
            if let Some(fault) = settings.faults.first() {
                why.push_str(&format!("; the settings have a fault: {fault}"));
            }
            let why = settings.redactor.redact(one_line(&why));
            match json {
                true => terminal::json_line(&json!({"alive": false, "says": why})),
                false => print_stderr(&format!("not alive: {why}")),
            }
            exit::FAILED
        }
    }
}

/// Asks the status pages. Returns a text for the operator.
fn check_livez(address: SocketAddr) -> Result<String, NotAlive> {
    let answer =
        fetch(reachable(address)).map_err(|error| NotAlive::Unreachable { address, error })?;
    let status = answer.split_whitespace().nth(1).unwrap_or_default();
    if status == "200" {
        return Ok(format!("/livez at {address} reports it"));
    }
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    let said: Value = serde_json::from_str(body).unwrap_or_default();
    let reasons = said["reasons"].as_array().into_iter().flatten();
    let reasons: Vec<String> = reasons.filter_map(Value::as_str).map(str::to_owned).collect();
    Err(match reasons.is_empty() {
        true => NotAlive::Status { address, status: status.to_owned() },
        false => NotAlive::Reported(reasons),
    })
}

/// Returns the answer to a request for `/livez`. If the gateway is alive, only the first line is
/// guaranteed to be complete.
fn fetch(address: SocketAddr) -> io::Result<String> {
    let end = Instant::now() + ANSWER_TIMEOUT;
    let left = || {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(io::Error::from(io::ErrorKind::TimedOut)) } else { Ok(left) }
    };
    let mut stream = TcpStream::connect_timeout(&address, left()?)?;
    stream.set_write_timeout(Some(left()?))?;
    stream.write_all(format!("GET /livez HTTP/1.0\r\nHost: {address}\r\n\r\n").as_bytes())?;
    let mut answer = Vec::new();
    let mut part = [0; 1024];
    loop {
        stream.set_read_timeout(Some(left()?))?;
        let read = stream.read(&mut part)?;
        answer.extend_from_slice(part.get(..read).unwrap_or_default());
        let alive = answer.windows(5).any(|part| part == b" 200 ");
        if read == 0 || alive || answer.len() as u64 > MAX_ANSWER_BYTES {
            return Ok(String::from_utf8_lossy(&answer).into_owned());
        }
    }
}

/// Returns an address at which this machine can reach a listener. A listener on all interfaces is
/// reached at the loopback address.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        ip if !ip.is_unspecified() => ip,
        IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
    };
    SocketAddr::new(ip, address.port())
}

/// Checks which process holds the lock, and when the gateway last updated it.
fn check_lock(config: &Config) -> Result<String, NotAlive> {
    let folder = &config.config_dir;
    let Some(serving) = LockOwner::current(folder) else {
        return Err(NotAlive::NoGateway(folder.clone()));
    };
    let pid = serving.pid;
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    if let Some(state) = stopped(&status) {
        return Err(NotAlive::Stopped { pid, state: state.to_owned() });
    }
    // The gateway does not update the lock while it shuts down.
    let limit = STALL_TIMEOUT + config.shutdown_grace;
    match LockOwner::age_of_last_sign(folder) {
        Some(silence) if silence > limit => Err(NotAlive::Silent { pid, silence }),
        _ => Ok(format!("process {pid} serves `{}`", folder.display())),
    }
}

/// Returns the state of a process if it is stopped or dead, from `/proc/PID/status`
/// (proc_pid_status(5)).
fn stopped(status: &str) -> Option<&str> {
    let state = status.lines().find_map(|line| line.strip_prefix("State:"))?.trim();
    state.starts_with(['T', 't', 'Z', 'X']).then_some(state)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stopped_and_dead_processes_are_detected() {
        assert_eq!(stopped("Name:\taetheel\nState:\tS (sleeping)\n"), None);
        assert_eq!(stopped("State:\tT (stopped)\n"), Some("T (stopped)"));
        assert_eq!(stopped(""), None);
    }

    #[test]
    fn a_listener_on_all_interfaces_is_asked_at_the_loopback_address() {
        let at = |text: &str| reachable(text.parse().unwrap()).to_string();
        assert_eq!(at("0.0.0.0:80"), "127.0.0.1:80");
        assert_eq!(at("[::]:80"), "[::1]:80");
        assert_eq!(at("10.1.2.3:80"), "10.1.2.3:80");
    }
}

//! The public address of the dashboard. Pure.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use axum::http::Uri;
use axum::http::uri::Authority;

/// The scheme, host and port under which browsers reach the dashboard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DashboardOrigin {
    secure: bool,
    /// Host and port in the form that browsers use: lower case, and without the default port.
    host: String,
}

impl DashboardOrigin {
    /// Parses `DASHBOARD_URL`.
    ///
    /// # Errors
    /// Returns the problem, as a phrase to print after the value.
    pub fn parse(url: &str) -> Result<Self, &'static str> {
        let uri: Uri = url.parse().map_err(|_| "is not a URL")?;
        let secure = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err("must begin with https:// or http://"),
        };
        let authority = uri.authority().ok_or("has no host")?;
        if authority.as_str().contains('@') {
            return Err("must not contain a user name or a password");
        }
        if !matches!(uri.path(), "" | "/") || uri.query().is_some() {
            return Err("must have no path: the dashboard needs a host or a port of its own");
        }
        let origin = Self { secure, host: host_of(authority, secure) };
        if !secure && !is_loopback(authority.host()) {
            return Err(
                "must begin with https://, because others on the network could take over a session",
            );
        }
        Ok(origin)
    }

    /// Returns the address of a listener without a proxy.
    #[must_use]
    pub fn of(address: SocketAddr) -> Self {
        Self { secure: false, host: address.to_string() }
    }

    /// Returns whether browsers use TLS.
    #[must_use]
    pub fn is_secure(&self) -> bool {
        self.secure
    }

    /// Returns whether a `Host` header with this value is for the dashboard.
    #[must_use]
    pub fn is_host(&self, host: &str) -> bool {
        host.parse::<Authority>().is_ok_and(|given| host_of(&given, self.secure) == self.host)
    }
}

impl fmt::Display for DashboardOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", if self.secure { "https" } else { "http" }, self.host)
    }
}

fn host_of(authority: &Authority, secure: bool) -> String {
    let host = authority.host().to_ascii_lowercase();
    let plain = if secure { 443 } else { 80 };
    match authority.port_u16().filter(|port| *port != plain) {
        Some(port) => format!("{host}:{port}"),
        None => host,
    }
}

/// Returns whether a host is this machine.
pub(super) fn is_loopback(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    address.map_or_else(|_| host.eq_ignore_ascii_case("localhost"), |address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_have_only_scheme_and_host_and_need_tls_except_on_this_machine() {
        for (url, shown) in [
            ("https://agents.example.com", "https://agents.example.com"),
            ("https://Agents.Example.com:443/", "https://agents.example.com"),
            ("https://agents.example.com:8443", "https://agents.example.com:8443"),
            ("http://127.0.0.1:8788", "http://127.0.0.1:8788"),
            ("http://localhost:80", "http://localhost"),
            ("http://[::1]:8788", "http://[::1]:8788"),
        ] {
            assert_eq!(
                DashboardOrigin::parse(url).map(|origin| origin.to_string()),
                Ok(shown.to_owned())
            );
        }
        for url in [
            "",
            "agents.example.com",
            "ftp://agents.example.com",
            "https://",
            "https://ann:secret@agents.example.com",
            "https://agents.example.com/dashboard",
            "https://agents.example.com/?a=b",
            "http://agents.example.com",
            "http://192.0.2.1:8788",
            "http://127.0.0.1.example.com",
        ] {
            assert!(DashboardOrigin::parse(url).is_err(), "{url}");
        }
    }

    #[test]
    fn a_host_is_accepted_in_all_its_spellings_and_others_are_not() {
        let origin = DashboardOrigin::parse("https://agents.example.com").unwrap();
        for host in ["agents.example.com", "AGENTS.example.com", "agents.example.com:443"] {
            assert!(origin.is_host(host), "{host}");
        }
        for host in
            ["", "example.com", "agents.example.com:80", "agents.example.com.evil.example", "a b"]
        {
            assert!(!origin.is_host(host), "{host}");
        }
    }
}

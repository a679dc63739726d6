//! Checks the settings of the dashboard: sessions must not cross a network without TLS.

use crate::config::Config;
use crate::web::dashboard::DashboardOrigin;

/// Returns the problems of the dashboard's settings, each with a hint. Empty without a dashboard.
pub fn faults(config: &Config) -> Vec<String> {
    let Some(address) = config.dashboard_address else { return Vec::new() };
    let url = match &config.dashboard_url {
        None => None,
        Some(url) => match DashboardOrigin::parse(url) {
            Ok(origin) => Some(origin),
            Err(why) => {
                return vec![format!(
                    "DASHBOARD_URL {url:?} {why}; write it as `https://agents.example.com`"
                )];
            }
        },
    };
    if address.ip().is_loopback() || url.is_some_and(|url| url.is_secure()) {
        return Vec::new();
    }
    vec![format!(
        "DASHBOARD_ADDRESS {address} can be reached from other machines, and others on the network could take over a session; listen at 127.0.0.1, or put a proxy with TLS before it and set DASHBOARD_URL to its https:// address"
    )]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults_of(address: &str, url: &str) -> Vec<String> {
        let read = |name: &str| match name {
            "DASHBOARD_ADDRESS" => Some(address.to_owned()),
            "DASHBOARD_URL" => Some(url.to_owned()),
            _ => None,
        };
        faults(&Config::read(read).expect("a configuration"))
    }

    #[test]
    fn the_dashboard_needs_a_loopback_address_or_tls() {
        for (address, url) in [
            ("", "nonsense"),
            ("127.0.0.1:8788", ""),
            ("[::1]:8788", "http://localhost:8788"),
            ("127.0.0.1:8788", "https://agents.example.com"),
            ("10.0.0.5:8788", "https://agents.example.com"),
        ] {
            assert_eq!(faults_of(address, url), Vec::<String>::new(), "{address} {url}");
        }
        for (address, url, part) in [
            ("0.0.0.0:8788", "", "can be reached from other machines"),
            ("10.0.0.5:8788", "http://127.0.0.1:8788", "can be reached from other machines"),
            ("127.0.0.1:8788", "http://agents.example.com", "must begin with https://"),
            ("127.0.0.1:8788", "https://agents.example.com/d", "must have no path"),
        ] {
            let faults = faults_of(address, url);
            assert!(faults.len() == 1 && faults[0].contains(part), "{faults:?}");
        }
    }
}

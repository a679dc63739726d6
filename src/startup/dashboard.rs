//! Checks the settings of the dashboard: sessions must not cross a network without TLS.

use aetheel_model::finding::Finding;
use aetheel_settings::Config;
use aetheel_web::dashboard::DashboardOrigin;

/// Returns the problem of the dashboard's settings. `None` without a dashboard.
pub fn finding(config: &Config) -> Option<Finding> {
    let Some(address) = config.dashboard_address else {
        let message = "DASHBOARD_URL is set, but DASHBOARD_ADDRESS is not";
        return config.dashboard_url.as_ref().map(|_| {
            Finding::invalid("dashboard", message)
                .with_hint("set DASHBOARD_ADDRESS=127.0.0.1:8788, or remove DASHBOARD_URL")
        });
    };
    let url = match &config.dashboard_url {
        None => None,
        Some(url) => match DashboardOrigin::parse(url) {
            Ok(origin) => Some(origin),
            Err(why) => {
                return Some(
                    Finding::invalid("dashboard", format!("DASHBOARD_URL {url:?} {why}"))
                        .with_hint("write it as `https://agents.example.com`"),
                );
            }
        },
    };
    if address.ip().is_loopback() || url.is_some_and(|url| url.is_secure()) {
        return None;
    }
    let message = format!(
        "DASHBOARD_ADDRESS {address} can be reached from other machines, and others on the network could take over a session"
    );
    let hint = "listen at 127.0.0.1, or put a proxy with TLS before it and set DASHBOARD_URL to its https:// address";
    Some(Finding::invalid("dashboard", message).with_hint(hint))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding_of(address: &str, url: &str) -> Option<Finding> {
        let read = |name: &str| match name {
            "DASHBOARD_ADDRESS" => Some(address.to_owned()),
            "DASHBOARD_URL" => Some(url.to_owned()),
            _ => None,
        };
        finding(&Config::read(read).expect("a configuration"))
    }

    #[test]
    fn the_dashboard_needs_a_loopback_address_or_tls() {
        for (address, url) in [
            ("", ""),
            ("127.0.0.1:8788", ""),
            ("[::1]:8788", "http://localhost:8788"),
            ("127.0.0.1:8788", "https://agents.example.com"),
            ("10.0.0.5:8788", "https://agents.example.com"),
        ] {
            assert_eq!(finding_of(address, url), None, "{address} {url}");
        }
        for (address, url, part) in [
            ("", "https://agents.example.com", "DASHBOARD_ADDRESS is not"),
            ("0.0.0.0:8788", "", "can be reached from other machines"),
            ("10.0.0.5:8788", "http://127.0.0.1:8788", "can be reached from other machines"),
            ("127.0.0.1:8788", "http://agents.example.com", "must begin with https://"),
            ("127.0.0.1:8788", "https://agents.example.com/d", "must have no path"),
        ] {
            let found = finding_of(address, url).expect("a problem");
            assert!(found.message.contains(part), "{found:?}");
        }
    }
}

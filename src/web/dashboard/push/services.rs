//! Which push services the gateway sends to. Pure.
//!
//! An endpoint is an address that a member gives us, so it is held against the operator's list
//! before it is kept and again before each push: `https`, a listed host, the usual port, and
//! nothing else in the authority. What a listed host resolves to must be public as well, unless
//! the operator wrote the whole address.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use reqwest::Url;

use super::super::origin::is_loopback;

/// Longest endpoint, bytes. Those of real services have some hundred.
const LONGEST: usize = 1_024;

/// The services of the setting `PUSH_SERVICES`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Services(Vec<Service>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Service {
    /// This host, at public addresses.
    Host(String),
    /// All hosts below this one, with its leading dot, at public addresses.
    Below(String),
    /// Scheme, host and port, wherever they lead.
    Origin(String),
}

/// Why an endpoint is not sent to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// It is no address that a push service gives out.
    Malformed,
    /// It is of a host that is not listed; its name, for people.
    Unlisted(String),
}

impl Services {
    /// Reads the entries of `PUSH_SERVICES`; `none` alone means none.
    ///
    /// # Errors
    /// What is wrong with an entry, to stand behind the variable's name.
    pub fn parse(entries: &[String]) -> Result<Self, String> {
        if entries == ["none"] {
            return Ok(Self::default());
        }
        entries.iter().map(|entry| Service::parse(entry)).collect::<Result<_, _>>().map(Self)
    }

    /// This one host, whatever its name.
    #[cfg(test)]
    pub(super) fn of_host(name: &str) -> Self {
        Self(vec![Service::Host(name.to_owned())])
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Reads an endpoint.
    pub(super) fn endpoint(&self, text: &str) -> Result<Url, Refusal> {
        if text.len() > LONGEST || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(Refusal::Malformed);
        }
        let url = Url::parse(text).map_err(|_| Refusal::Malformed)?;
        let bare = url.username().is_empty() && url.password().is_none();
        let Some(host) = url.host_str().filter(|_| bare && url.fragment().is_none()) else {
            return Err(Refusal::Malformed);
        };
        let origin = url.origin().ascii_serialization();
        let usual = url.scheme() == "https" && url.port().is_none();
        let fits = self.0.iter().any(|service| match service {
            Service::Host(name) => usual && host == name,
            Service::Below(dotted) => usual && is_below(host, dotted),
            Service::Origin(listed) => origin == *listed,
        });
        if fits { Ok(url) } else { Err(Refusal::Unlisted(host.to_owned())) }
    }

    /// Whether a host may be reached at an address. A host that no entry names is that of the
    /// operator's proxy.
    pub(super) fn may_be_at(&self, host: &str, address: IpAddr) -> bool {
        let whole = |service: &Service| match service {
            Service::Origin(origin) => {
                Url::parse(origin).is_ok_and(|url| url.host_str() == Some(host))
            }
            _ => false,
        };
        let named = |service: &Service| match service {
            Service::Host(name) => host == name,
            Service::Below(dotted) => is_below(host, dotted),
            Service::Origin(_) => false,
        };
        is_public(address) || self.0.iter().any(whole) || !self.0.iter().any(named)
    }
}

impl Service {
    fn parse(entry: &str) -> Result<Self, String> {
        let wrong = |why: &str| Err(format!("{entry:?} {why}"));
        if entry.contains("://") {
            let Ok(url) = Url::parse(entry) else { return wrong("is no address") };
            let origin = url.origin().ascii_serialization();
            // With anything beside scheme, host and port it would read otherwise.
            if url.as_str() != format!("{origin}/") {
                return wrong(
                    "must be a scheme, a host and a port, such as `https://push.example.com:8443`",
                );
            }
            let local = url.scheme() == "http" && url.host_str().is_some_and(is_loopback);
            if url.scheme() != "https" && !local {
                return wrong(
                    "must begin with https://, because whoever is on the way could learn whom to wake",
                );
            }
            return Ok(Self::Origin(origin));
        }
        let (below, name) = match entry.strip_prefix("*.") {
            Some(name) => (true, name),
            None => (false, entry),
        };
        let label = |label: &str| {
            let inner = label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
            !label.is_empty() && inner
        };
        let named = name.split('.').count() >= 2 && name.split('.').all(label);
        if !named || name.parse::<IpAddr>().is_ok() {
            return wrong(
                "must be a host such as `push.example.com` or `*.push.example.com`, or an address that begins with https://",
            );
        }
        let name = name.to_ascii_lowercase();
        Ok(if below { Self::Below(format!(".{name}")) } else { Self::Host(name) })
    }
}

fn is_below(host: &str, dotted: &str) -> bool {
    host.len() > dotted.len() && host.ends_with(dotted)
}

/// Whether an address is one of the public internet.
fn is_public(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(short) => is_public_short(short),
        IpAddr::V6(long) => is_public_long(long),
    }
}

fn is_public_short(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let special = address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_documentation()
        || a == 0
        // Of carriers, of protocols, of measurements; multicast and reserved.
        || (a == 100 && (64..128).contains(&b))
        || (a == 192 && b == 0 && c == 0)
        || (a == 198 && (b == 18 || b == 19))
        || a >= 224;
    !special
}

fn is_public_long(address: Ipv6Addr) -> bool {
    let parts = address.segments();
    let embedded = || {
        let [.., high, low] = parts;
        let [a, b] = high.to_be_bytes();
        let [c, d] = low.to_be_bytes();
        Ipv4Addr::new(a, b, c, d)
    };
    match parts {
        // What a network without IPv4 makes of one.
        [0x64, 0xff9b, 0, 0, 0, 0, ..] => is_public_short(embedded()),
        // Protocols, documentation, and tunnels into IPv4.
        [0x2001, 0..0x200, ..] | [0x2001, 0xdb8, ..] | [0x2002, ..] | [0x3fff, 0..0x1000, ..] => {
            false
        }
        [first, ..] => first & 0xe000 == 0x2000,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn services(entries: &[&str]) -> Result<Services, String> {
        Services::parse(&entries.iter().map(|&entry| entry.to_owned()).collect::<Vec<_>>())
    }

    fn usual() -> Services {
        services(&["fcm.googleapis.com", "*.push.example.com"]).unwrap()
    }

    #[test]
    fn an_endpoint_is_https_at_a_listed_host_and_nothing_else() {
        let services = usual();
        for endpoint in [
            "https://fcm.googleapis.com/fcm/send/abc:def",
            "https://FCM.googleapis.com:443/wp/abc",
            "https://eu.a.push.example.com/w/?token=x%20y",
        ] {
            assert!(services.endpoint(endpoint).is_ok(), "{endpoint}");
        }
        for endpoint in [
            "",
            "fcm.googleapis.com",
            "http://fcm.googleapis.com/wp/abc",
            "https://fcm.googleapis.com:8443/wp/abc",
            "https://fcm.googleapis.com:22/",
            "https://ann@fcm.googleapis.com/wp/abc",
            "https://:secret@fcm.googleapis.com/wp/abc",
            "https://fcm.googleapis.com@evil.example/wp/abc",
            "https://fcm.googleapis.com.evil.example/wp/abc",
            "https://fcm.googleapis.com./wp/abc",
            "https://evil.example\\@fcm.googleapis.com/",
            "https://fcm.googleapis.com/wp/abc#there",
            "https://push.example.com/w",
            "https://.push.example.com/w",
            "https://evilpush.example.com/w",
            "https://169.254.169.254/latest/meta-data",
            "https://[::ffff:169.254.169.254]/",
            "https://0x7f.1/",
            "https://localhost/",
            "https://metadata.google.internal/",
            "file:///etc/passwd",
            "ftp://fcm.googleapis.com/",
            "https://fcm.googleapis.com/wp/a b",
            "https://fcm.googleapis.com/wp/\r\nHost: evil",
        ] {
            assert!(services.endpoint(endpoint).is_err(), "{endpoint:?}");
        }
        let long = format!("https://fcm.googleapis.com/{}", "x".repeat(LONGEST));
        assert_eq!(services.endpoint(&long), Err(Refusal::Malformed));
        let named = services.endpoint("https://evil.example/x");
        assert_eq!(named, Err(Refusal::Unlisted("evil.example".to_owned())));
    }

    #[test]
    fn a_listed_host_is_reached_at_public_addresses_only() {
        let services = usual();
        for address in [
            "127.0.0.1",
            "10.1.2.3",
            "172.16.0.1",
            "192.168.1.1",
            "169.254.169.254",
            "0.0.0.0",
            "100.64.0.1",
            "198.18.0.1",
            "192.0.0.1",
            "192.0.2.1",
            "224.0.0.1",
            "255.255.255.255",
            "::1",
            "::",
            "fe80::1",
            "fd00::1",
            "ff02::1",
            "::ffff:10.0.0.1",
            "64:ff9b::a00:1",
            "2001:db8::1",
            "2002:a00:1::1",
            "2001::1",
            "::a00:1",
            "fec0::1",
        ] {
            let address = address.parse().unwrap();
            for host in ["fcm.googleapis.com", "eu.push.example.com"] {
                assert!(!services.may_be_at(host, address), "{address}");
            }
            assert!(services.may_be_at("proxy.example", address), "a proxy is the operator's");
        }
        for address in ["142.250.74.74", "2a00:1450:4001:82b::200a", "64:ff9b::8efa:4a4a"] {
            assert!(services.may_be_at("fcm.googleapis.com", address.parse().unwrap()));
        }
    }

    #[test]
    fn whoever_writes_a_whole_address_means_it() {
        let services = services(&["https://push.internal:8443", "http://127.0.0.1:9999"]).unwrap();
        assert!(services.endpoint("https://push.internal:8443/w").is_ok());
        assert!(services.endpoint("http://127.0.0.1:9999/w").is_ok());
        for endpoint in [
            "https://push.internal/w",
            "http://push.internal:8443/w",
            "http://127.0.0.1/w",
            "http://127.0.0.1:9998/w",
            "http://localhost:9999/w",
            "https://127.0.0.1:9999/w",
        ] {
            assert!(services.endpoint(endpoint).is_err(), "{endpoint}");
        }
        assert!(services.may_be_at("push.internal", "10.0.0.1".parse().unwrap()));
    }

    #[test]
    fn a_list_says_hosts_and_whole_addresses_and_nothing_wider() {
        assert!(services(&["none"]).unwrap().is_empty());
        for entry in [
            "*",
            "*.",
            "*.com",
            "com",
            "localhost",
            "none",
            "127.0.0.1",
            "*.127.0.0.1",
            "a..b",
            "push.example.com:443",
            "push.example.com/x",
            "http://push.example.com",
            "http://192.0.2.1",
            "ftp://push.example.com",
            "https://push.example.com/path",
            "https://ann@push.example.com",
            "https://",
            "p*sh.example.com",
            "[::1]",
        ] {
            let entries = [entry, "fcm.googleapis.com"];
            let fault = services(&entries).expect_err(entry);
            assert!(fault.contains(&format!("{entry:?}")), "{fault}");
        }
    }
}

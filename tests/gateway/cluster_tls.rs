//! TLS connections to the database of a cluster require a valid certificate of the server.

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd};
use tempfile::NamedTempFile;

use super::cluster::node;
use super::serving;
use crate::support::discord::{ANN, CHANNEL, LocalDiscord};
use crate::support::postgres::Postgres;

/// A certificate authority and its file.
struct Authority {
    params: CertificateParams,
    key: KeyPair,
    file: NamedTempFile,
}

impl Authority {
    fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "authority of a database");
        let file = NamedTempFile::new().unwrap();
        std::fs::write(file.path(), params.self_signed(&key).unwrap().pem()).unwrap();
        Self { params, key, file }
    }

    fn path(&self) -> String {
        self.file.path().display().to_string()
    }

    /// Starts a server with a certificate for a name, valid to the end of a year.
    fn server(&self, name: &str, year: i32) -> Postgres {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, "database");
        params.not_after = date_time_ymd(year, 12, 31);
        let issuer = Issuer::from_params(&self.params, &self.key);
        let certificate = params.signed_by(&key, &issuer).unwrap();
        Postgres::start_with_tls(&certificate.pem(), &key.serialize_pem())
    }
}

#[tokio::test]
async fn a_node_connects_by_tls_if_the_certificate_is_valid() {
    let (local, authority) = (LocalDiscord::start().await, Authority::new());
    let postgres = authority.server("127.0.0.1", 2_400);
    let node = node(&local, &postgres, "one")
        .with("CLUSTER_URL", &postgres.tcp_url())
        .with("SSL_CERT_FILE", &authority.path());
    let program = serving(&node).await;
    program.logs("discord is ready").await;
    local.mention(CHANNEL, ANN, "hello");
    local.wait_for_message(CHANNEL, |text| text.contains("You said: hello")).await;
    let encrypted = "select count(*) > 0 and bool_and(ssl) from pg_stat_ssl
                     join pg_stat_activity using (pid) where application_name = 'aetheel'";
    assert_eq!(postgres.ask(encrypted), "t");
}

#[tokio::test]
async fn an_untrusted_certificate_is_78_with_a_hint() {
    let (local, authority, other) =
        (LocalDiscord::start().await, Authority::new(), Authority::new());
    let cases = [
        ("another name", authority.server("db.example.com", 2_400), authority.path()),
        ("expired", authority.server("127.0.0.1", 2_020), authority.path()),
        ("unknown authority", authority.server("127.0.0.1", 2_400), other.path()),
    ];
    for (case, postgres, trusted) in cases {
        let node = node(&local, &postgres, "one")
            .with("CLUSTER_URL", &postgres.tcp_url())
            .with("SSL_CERT_FILE", &trusted);
        let ended = node.run(&["run"], "").await;
        assert_eq!(ended.code, 78, "{case}: {}", ended.stderr);
        for part in ["CLUSTER_URL", "is not trusted", "hint: ", "`SSL_CERT_FILE`"] {
            assert!(
                ended.stderr.contains(part),
                "{case}: {part:?} is missing in\n{}",
                ended.stderr
            );
        }
        assert_eq!(postgres.ask("select to_regclass('aetheel.form') is null"), "t", "{case}");
    }
}

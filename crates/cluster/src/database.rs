//! The connection to the database, and its schema.
//!
//! One connection serves most calls. Lease renewals, journal lines, large transfers and `LISTEN`
//! have connections of their own, so that they do not wait for other calls. A connection that fails
//! or times out is dropped, and the next call opens a new one.

use std::future::poll_fn;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, Notify};
use tokio::time::timeout;
use tokio_postgres::config::{Host, SslMode, TargetSessionAttrs};
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{AsyncMessage, Client, Config, Socket};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::{ClusterError, UrlError};

/// Time limit for a new connection, including authentication.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// TCP keepalive: the idle time before the first probe, the time between two probes, and how many
/// probes may be lost.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(5);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(2);
const KEEPALIVE_PROBES: u32 = 2;
/// The oldest supported server, as `server_version_num`: PostgreSQL 14.
pub(super) const OLDEST_SERVER: i32 = 140_000;
/// The schema version of this program, and the oldest program version that can use this schema.
/// During an upgrade, older and newer nodes run side by side.
pub(super) const SCHEMA: i32 = 6;
const SCHEMA_SINCE: i32 = 1;
/// The migrations. Each upgrades the schema by one version.
const MIGRATIONS: [&str; SCHEMA as usize] = [
    include_str!("schema/1.sql"),
    include_str!("schema/2.sql"),
    include_str!("schema/3.sql"),
    include_str!("schema/4.sql"),
    include_str!("schema/5.sql"),
    include_str!("schema/6.sql"),
];
/// Key of the advisory lock that a node holds while it checks and changes the schema.
const SCHEMA_LOCK: i64 = 0x6165_7468_6565_6c01;

/// The part of a connection that does the I/O for its `Client`.
type PgConnection =
    tokio_postgres::Connection<Socket, <MakeRustlsConnect as MakeTlsConnect<Socket>>::Stream>;

/// The address of the database, and an open connection to it.
pub(super) struct Database {
    config: Config,
    tls: MakeRustlsConnect,
    client: Mutex<Option<Arc<Client>>>,
    call_timeout: Duration,
}

impl Database {
    /// Parses `CLUSTER_URL`. Connections to other machines use TLS unless the URL contains
    /// `sslmode=disable`. With TLS, the server's certificate is always checked.
    ///
    /// # Errors
    /// [`UrlError`] if the URL is invalid or this machine has no certificates.
    pub(super) fn parse(url: &str, patience: Duration) -> Result<Self, UrlError> {
        let mut config: Config = url.parse().map_err(|_| UrlError::Invalid)?;
        if config.get_hosts().is_empty() {
            return Err(UrlError::NoHost);
        }
        if config.get_ssl_mode() == SslMode::Prefer && !config.get_hosts().iter().all(is_local) {
            config.ssl_mode(SslMode::Require);
        }
        config
            .application_name("aetheel")
            .connect_timeout(CONNECT_TIMEOUT)
            .tcp_user_timeout(CONNECT_TIMEOUT)
            .keepalives_idle(KEEPALIVE_IDLE)
            .keepalives_interval(KEEPALIVE_INTERVAL)
            .keepalives_retries(KEEPALIVE_PROBES)
            .target_session_attrs(TargetSessionAttrs::ReadWrite);
        let (tls, _) =
            MakeRustlsConnect::with_native_certs().map_err(|_| UrlError::NoCertificates)?;
        Ok(Self { config, tls, client: Mutex::default(), call_timeout: patience })
    }

    /// Runs one call, within the time limit. The call must be safe to repeat: if an existing
    /// connection turns out to be broken, the call is repeated once on a new connection. Firewalls
    /// and load balancers close idle connections, and only the next call notices it.
    ///
    /// # Errors
    /// Returns [`ClusterError::Away`] if the database cannot be reached or does not answer in time.
    /// It is then unknown whether the call took effect.
    pub(super) async fn call<T>(
        &self,
        work: impl AsyncFnOnce(&Client) -> Result<T, tokio_postgres::Error> + Clone,
    ) -> Result<T, ClusterError> {
        let mut is_repeated = false;
        loop {
            let (client, is_new) = self.client().await?;
            let (failed, is_broken) = match timeout(self.call_timeout, work.clone()(&client)).await
            {
                Ok(Ok(done)) => return Ok(done),
                Ok(Err(error)) => {
                    let is_broken = error.as_db_error().is_none() || client.is_closed();
                    (ClusterError::of(&error), is_broken)
                }
                Err(_) => (ClusterError::Away("it does not answer in time".to_owned()), false),
            };
            if !matches!(failed, ClusterError::Away(_)) {
                return Err(failed);
            }
            self.discard(&client).await;
            if is_new || is_repeated || !is_broken {
                return Err(failed);
            }
            is_repeated = true;
        }
    }

    /// Drops a connection, so that the next call opens a new one.
    async fn discard(&self, client: &Arc<Client>) {
        let mut known = self.client.lock().await;
        if known.as_ref().is_some_and(|known| Arc::ptr_eq(known, client)) {
            *known = None;
        }
    }

    /// Returns the connection, and whether it is new.
    async fn client(&self) -> Result<(Arc<Client>, bool), ClusterError> {
        let mut known = self.client.lock().await;
        if let Some(client) = known.as_ref().filter(|client| !client.is_closed()) {
            return Ok((Arc::clone(client), false));
        }
        let (client, connection) = self.connect().await?;
        // This task ends with the client, whose callers get the error too.
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(error = %aetheel_model::plain::with_causes(&error), "the connection to the database ended");
            }
        });
        let client = Arc::new(client);
        *known = Some(Arc::clone(&client));
        Ok((client, true))
    }

    async fn connect(&self) -> Result<(Client, PgConnection), ClusterError> {
        timeout(CONNECT_TIMEOUT, self.config.connect(self.tls.clone()))
            .await
            .map_err(|_| ClusterError::Away("it did not answer in time".to_owned()))?
            .map_err(|error| ClusterError::of(&error))
    }

    /// Returns a second connection to the same database, with another time limit for a call.
    pub(super) fn another_connection(&self, patience: Duration) -> Self {
        let (config, tls) = (self.config.clone(), self.tls.clone());
        Self { config, tls, client: Mutex::default(), call_timeout: patience }
    }

    /// Listens on a channel with a connection of its own, until that connection ends. Returns the
    /// reason for its end. Calls `notify_one` on `notify` when listening begins, because earlier
    /// notifications were missed, and for each notification with this payload.
    pub(super) async fn listen(
        &self,
        channel: &str,
        payload: &str,
        notify: &Notify,
    ) -> ClusterError {
        let (client, mut connection) = match self.connect().await {
            Ok(connected) => connected,
            Err(error) => return error,
        };
        let messages = async {
            loop {
                match poll_fn(|context| connection.poll_message(context)).await {
                    Some(Ok(AsyncMessage::Notification(note))) if note.payload() == payload => {
                        notify.notify_one();
                    }
                    Some(Ok(_)) => {}
                    Some(Err(error)) => return ClusterError::of(&error),
                    None => return ClusterError::Away("the connection ended".to_owned()),
                }
            }
        };
        let asking = async {
            let listen = format!("listen {channel}");
            match timeout(self.call_timeout, client.batch_execute(&listen)).await {
                Ok(Ok(())) => {
                    notify.notify_one();
                    std::future::pending().await
                }
                Ok(Err(error)) => ClusterError::of(&error),
                Err(_) => ClusterError::Away("it does not answer in time".to_owned()),
            }
        };
        tokio::select! {
            ended = messages => ended,
            refused = asking => refused,
        }
    }

    /// Returns the server's version, as `server_version_num`.
    ///
    /// # Errors
    /// Returns the [`ClusterError`] of the database call.
    pub(super) async fn server(&self) -> Result<i32, ClusterError> {
        let version = "show server_version_num";
        let row = self.call(async |client| client.query_one(version, &[]).await).await?;
        Ok(row.get::<_, String>(0).parse().unwrap_or(0))
    }

    /// Checks that the schema exists.
    ///
    /// # Errors
    /// Returns [`ClusterError::Refused`] if no node has created it yet.
    pub(super) async fn has_tables(&self) -> Result<(), ClusterError> {
        match self.call(async |client| schema_version(client).await).await? {
            Some(_) => Ok(()),
            None => Err(ClusterError::Refused(
                "it has no tables yet; hint: start the first node (`aetheel run` with this `CLUSTER_URL`), which creates them".to_owned(),
            )),
        }
    }

    /// Checks the server's version, and creates or upgrades the schema.
    ///
    /// # Errors
    /// Returns [`ClusterError::Refused`] if the server is too old, or if the schema is too new.
    pub(super) async fn prepare(&self) -> Result<(), ClusterError> {
        let server = self.server().await?;
        if server < OLDEST_SERVER {
            return Err(ClusterError::Refused(format!(
                "the server is PostgreSQL {}; {} or newer is needed",
                server / 10_000,
                OLDEST_SERVER / 10_000
            )));
        }
        let form = self.call(async |client| make_tables(client).await).await?;
        match form {
            Some((version, since)) if since > SCHEMA => Err(ClusterError::Refused(format!(
                "its tables have version {version} of a newer Aetheel, which this one (version {SCHEMA}) cannot use; upgrade this node"
            ))),
            _ => Ok(()),
        }
    }
}

/// Creates or upgrades the schema. Returns its version if that is newer than this program's.
async fn make_tables(client: &Client) -> Result<Option<(i32, i32)>, tokio_postgres::Error> {
    client.execute("select pg_advisory_lock($1)", &[&SCHEMA_LOCK]).await?;
    let made = make_tables_alone(client).await;
    // The server also releases the lock when the connection ends.
    client.execute("select pg_advisory_unlock($1)", &[&SCHEMA_LOCK]).await?;
    made
}

async fn make_tables_alone(client: &Client) -> Result<Option<(i32, i32)>, tokio_postgres::Error> {
    let found = schema_version(client).await?;
    let (exists, form) = (found.is_some(), found.unwrap_or_default());
    if form.0 > SCHEMA {
        return Ok(Some(form));
    }
    if form.0 == SCHEMA {
        return Ok(None);
    }
    let mut all = String::from("begin;");
    if !exists {
        all += "create schema if not exists aetheel;
                create table aetheel.form (one bool primary key default true check (one), version int not null, since int not null);
                insert into aetheel.form (version, since) values (0, 0);";
    }
    for step in &MIGRATIONS[usize::try_from(form.0).unwrap_or(0)..] {
        all += step;
    }
    all += &format!("update aetheel.form set version = {SCHEMA}, since = {SCHEMA_SINCE}; commit;");
    if let Err(error) = client.batch_execute(&all).await {
        client.batch_execute("rollback").await?;
        return Err(error);
    }
    Ok(None)
}

/// Returns the schema version, and the oldest program version that can use it. Returns `None` if
/// there is no schema.
pub(super) async fn schema_version(
    client: &Client,
) -> Result<Option<(i32, i32)>, tokio_postgres::Error> {
    let exists: bool =
        client.query_one("select to_regclass('aetheel.form') is not null", &[]).await?.get(0);
    if !exists {
        return Ok(None);
    }
    let row = client.query_one("select version, since from aetheel.form", &[]).await?;
    Ok(Some((row.get(0), row.get(1))))
}

fn is_local(host: &Host) -> bool {
    match host {
        Host::Unix(_) => true,
        Host::Tcp(name) => {
            name == "localhost" || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(url: &str) -> SslMode {
        Database::parse(url, CONNECT_TIMEOUT).map_err(drop).unwrap().config.get_ssl_mode()
    }

    #[test]
    fn connections_to_other_machines_use_tls_unless_the_url_disables_it() {
        assert_eq!(mode("postgres://a:b@db.example.com/x"), SslMode::Require);
        assert_eq!(mode("postgres://a:b@192.0.2.1,127.0.0.1/x"), SslMode::Require);
        assert_eq!(mode("postgres://a:b@db.example.com/x?sslmode=disable"), SslMode::Disable);
        assert_eq!(mode("postgres://a:b@127.0.0.1/x"), SslMode::Prefer);
        assert_eq!(mode("host=/run/postgresql user=a dbname=x"), SslMode::Prefer);
    }

    #[test]
    fn errors_about_a_url_do_not_contain_its_password() {
        for url in ["", "postgres://", "mysql://ann:hunter2@h/x", "postgres://ann:hunter2@h:port/x"]
        {
            let why = Database::parse(url, CONNECT_TIMEOUT).err().expect(url).to_string();
            assert!(!why.contains("hunter2"), "{why}");
        }
    }
}

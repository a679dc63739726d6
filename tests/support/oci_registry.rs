//! A real OCI registry: the reference implementation (CNCF Distribution), on loopback.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// How long a registry may take to start.
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// The user that a registry with a login knows.
pub const USER: &str = "ci";
pub const PASSWORD: &str = "s3cret-Pw7";
/// The line of its `htpasswd` file (bcrypt).
const HTPASSWD: &str = "ci:$2b$05$abcdefghijklmnopqrstuu9BbBIn6EpGmRMDBbkicsCM0BxmWK/NW\n";

/// A running registry. Dropping it ends it.
pub struct OciRegistry {
    folder: TempDir,
    server: Child,
    port: u16,
}

impl OciRegistry {
    /// Starts a registry that everybody may use.
    pub fn start() -> Self {
        Self::start_with("")
    }

    /// Starts a registry that only [`USER`] may use.
    pub fn start_with_login() -> Self {
        Self::start_with("auth:\n  htpasswd: {realm: test, path: FOLDER/htpasswd}\n")
    }

    fn start_with(more: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let place = folder.path().display().to_string();
        let settings = format!(
            "version: 0.1\nlog: {{level: info, accesslog: {{disabled: true}}}}\nstorage:\n  filesystem: {{rootdirectory: FOLDER/data}}\nhttp: {{addr: '127.0.0.1:0'}}\n{more}"
        );
        fs::write(folder.path().join("htpasswd"), HTPASSWD).expect("written");
        let config = folder.path().join("config.yml");
        fs::write(&config, settings.replace("FOLDER", &place)).expect("written");
        let log = fs::File::create(folder.path().join("log")).expect("a log");
        let server = Command::new(program())
            .arg("serve")
            .arg(config)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("the registry runs");
        let mut registry = Self { folder, server, port: 0 };
        registry.port = registry.wait();
        registry
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "a server announces only in its log that it listens"
    )]
    fn wait(&mut self) -> u16 {
        let until = Instant::now() + START_TIMEOUT;
        loop {
            let log = fs::read_to_string(self.folder.path().join("log")).expect("read");
            let port = log
                .split_once("listening on 127.0.0.1:")
                .map(|(_, rest)| rest.chars().take_while(char::is_ascii_digit).collect::<String>());
            if let Some(port) = port {
                return port.parse().expect("a port");
            }
            assert!(Instant::now() < until, "the registry does not listen: {log}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Returns its host with its port.
    pub fn host(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Returns the reference of an artifact in it, such as `oci://HOST/mini:1`.
    pub fn reference(&self, of: &str) -> String {
        format!("oci://{}/{of}", self.host())
    }

    /// Returns the file in which it stores the blob with this SHA-256.
    pub fn blob(&self, hex: &str) -> PathBuf {
        let blobs = self.folder.path().join("data/docker/registry/v2/blobs/sha256");
        blobs.join(&hex[..2]).join(hex).join("data")
    }
}

impl Drop for OciRegistry {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// Returns the registry's program. Without it the tests fail. They are not skipped.
fn program() -> PathBuf {
    let named = std::env::var_os("REGISTRY_BIN").map(PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let installed = std::env::split_paths(&path).map(|folder| folder.join("docker-registry"));
    let unpacked =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("target/registry/usr/bin/docker-registry");
    named
        .into_iter()
        .chain(installed)
        .chain([unpacked])
        .find(|program| program.is_file())
        .expect("an OCI registry; run scripts/registry, or name its program in REGISTRY_BIN")
}

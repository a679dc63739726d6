//! A real OCI registry: the reference implementation (CNCF Distribution), on loopback. Backends are
//! pushed to it with the commands of `docs/kit.md`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use aetheel_registry::BlobDigest;
use reqwest::{Client, StatusCode, Url};
use serde_json::{Value, json};
use tempfile::TempDir;

/// How long a registry may take to start.
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// The user that a registry with a login knows.
pub const USER: &str = "ci";
pub const PASSWORD: &str = "s3cret-Pw7";
/// The line of its `htpasswd` file (bcrypt).
const HTPASSWD: &str = "ci:$2b$05$abcdefghijklmnopqrstuu9BbBIn6EpGmRMDBbkicsCM0BxmWK/NW\n";

/// The page that describes how to push a backend.
const GUIDE: &str = include_str!("../../docs/kit.md");
/// The name of the backend in the commands of that page.
const GUIDE_NAME: &str = "my-agent";
const MANIFEST_TYPE: &str = "application/vnd.oci.image.manifest.v1+json";
/// The annotation with the name of an artifact in a folder.
const REF_NAME: &str = "org.opencontainers.image.ref.name";

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

impl OciRegistry {
    /// Copies an artifact into a folder with the OCI image layout, in which it has this name.
    pub fn copy_to_layout(&self, pushed: &str, name: &str, folder: &Path) {
        let blobs = folder.join("blobs/sha256");
        fs::create_dir_all(&blobs).expect("a folder");
        let copy = |digest: &str| {
            let hex = digest.strip_prefix("sha256:").expect("a digest");
            fs::copy(self.blob(hex), blobs.join(hex)).expect("a blob");
            fs::read(blobs.join(hex)).expect("a copy")
        };
        let digest = pushed.split_once('@').expect("a digest").1;
        let bytes = copy(digest);
        let manifest: Value = serde_json::from_slice(&bytes).expect("JSON");
        let layers = manifest["layers"].as_array().expect("layers");
        for blob in layers.iter().chain([&manifest["config"]]) {
            copy(blob["digest"].as_str().expect("a digest"));
        }
        let entry = json!({
            "mediaType": MANIFEST_TYPE, "digest": digest, "size": bytes.len(),
            "annotations": { REF_NAME: name },
        });
        let index = json!({ "schemaVersion": 2, "manifests": [entry] });
        fs::write(folder.join("index.json"), index.to_string()).expect("written");
        let marker = json!({ "imageLayoutVersion": "1.0.0" });
        fs::write(folder.join("oci-layout"), marker.to_string()).expect("written");
    }
}

/// Pushes a component with what lies beside it, and returns its reference with the digest. Runs the
/// commands of [`GUIDE`], and does what `oras push` does with the arguments there.
pub async fn push(component: &str, reference: &str) -> String {
    let component = Path::new(component);
    let folder = component.parent().expect("a folder");
    let name = component.file_stem().and_then(|name| name.to_str()).expect("a name");
    let (_, section) = GUIDE.split_once("\n## Publish\n").expect("the section");
    let (_, block) = section.split_once("```sh\n").expect("commands");
    let commands = block.split("```").next().unwrap_or_default().replace(GUIDE_NAME, name);
    let (before, arguments) = commands.split_once("oras push ").expect("a push");
    let has_cases = folder.join(format!("{name}.cases")).is_dir();
    for line in before.lines().filter(|line| has_cases || !line.contains(".cases")) {
        let done = Command::new("sh").args(["-c", line]).current_dir(folder).status();
        assert!(done.expect("a shell").success(), "{line}");
    }
    let repository = Repository::of(reference);
    let (mut config, mut layers) = (Value::Null, Vec::new());
    let mut words = arguments.split_whitespace().filter(|word| *word != "\\").skip(1);
    while let Some(word) = words.next() {
        let is_config = word == "--config";
        let named = if is_config { words.next().expect("a file") } else { word };
        let (file, media_type) = named.split_once(':').expect("FILE:TYPE");
        // The page says to leave out files that do not exist.
        let Ok(bytes) = fs::read(folder.join(file)) else { continue };
        let mut blob = repository.put_blob(media_type, bytes).await;
        if is_config {
            config = blob;
        } else {
            blob["annotations"] = json!({ "org.opencontainers.image.title": file });
            layers.push(blob);
        }
    }
    let manifest = json!({
        "schemaVersion": 2, "mediaType": MANIFEST_TYPE, "config": config, "layers": layers,
        "annotations": { "org.opencontainers.image.created": "2026-01-02T03:04:05Z" },
    });
    repository.put_manifest(&manifest).await;
    format!("{reference}@{}", BlobDigest::of(manifest.to_string().as_bytes()))
}

/// The name in a registry under which an artifact is pushed.
struct Repository {
    client: Client,
    base: Url,
    tag: String,
}

impl Repository {
    fn of(reference: &str) -> Self {
        let (host, name) = reference
            .strip_prefix("oci://")
            .and_then(|rest| rest.split_once('/'))
            .expect("a reference");
        let (name, tag) = name.rsplit_once(':').expect("a tag");
        let client = Client::builder().no_proxy().build().expect("a client");
        let base = Url::parse(&format!("http://{host}/v2/{name}/")).expect("an address");
        Self { client, base, tag: tag.to_owned() }
    }

    /// Stores a blob and returns its descriptor.
    async fn put_blob(&self, media_type: &str, bytes: Vec<u8>) -> Value {
        let (digest, size) = (BlobDigest::of(&bytes).to_string(), bytes.len());
        let begin = self.base.join("blobs/uploads/").expect("an address");
        let begun = self.client.post(begin).basic_auth(USER, Some(PASSWORD)).send().await;
        let begun = begun.expect("an answer");
        assert_eq!(begun.status(), StatusCode::ACCEPTED);
        let location = begun.headers()["location"].to_str().expect("an address");
        let mut upload = self.base.join(location).expect("an address");
        upload.query_pairs_mut().append_pair("digest", &digest);
        let put = self.client.put(upload).basic_auth(USER, Some(PASSWORD)).body(bytes).send().await;
        assert_eq!(put.expect("an answer").status(), StatusCode::CREATED);
        json!({ "mediaType": media_type, "digest": digest, "size": size })
    }

    async fn put_manifest(&self, manifest: &Value) {
        let address = self.base.join(&format!("manifests/{}", self.tag)).expect("an address");
        let request = self.client.put(address).basic_auth(USER, Some(PASSWORD));
        let request = request.header("content-type", MANIFEST_TYPE).body(manifest.to_string());
        assert_eq!(request.send().await.expect("an answer").status(), StatusCode::CREATED);
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

//! Hostile registries: wrong bytes, endless answers, foreign artifacts, redirects that ask for
//! credentials, tags that move, and archives that leave their folder.

use std::collections::BTreeMap;
use std::fs;
use std::sync::{Arc, Mutex};

use aetheel_registry::BlobDigest;
use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::{Response, StatusCode};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use super::{done, file, installation, mini, refused, run};
use crate::support::oci_registry::{OciRegistry, PASSWORD, USER, push};

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.wasm.config.v0+json";
const CASES: &str = "application/vnd.aetheel.backend.cases.v1.tar+gzip";

/// A request that a server got.
#[derive(Clone, Debug)]
struct Seen {
    /// The host of the server.
    host: String,
    path: String,
    authorization: Option<String>,
    /// The number of earlier requests with the same path.
    earlier: usize,
}

/// A server that answers as a test decides.
struct Hostile {
    host: String,
    seen: Arc<Mutex<Vec<Seen>>>,
    task: tokio::task::JoinHandle<()>,
}

impl Hostile {
    async fn start(answer: impl Fn(&Seen) -> Response<Body> + Send + Sync + 'static) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let host = listener.local_addr().unwrap().to_string();
        let (seen, answer) = (Arc::new(Mutex::new(Vec::<Seen>::new())), Arc::new(answer));
        let (noted, own) = (Arc::clone(&seen), host.clone());
        let router = Router::new().fallback(move |request: Request| {
            let (noted, answer) = (Arc::clone(&noted), Arc::clone(&answer));
            let host = own.clone();
            async move {
                let path = request.uri().path().to_owned();
                let header = request.headers().get("authorization");
                let authorization = header.map(|value| value.to_str().unwrap().to_owned());
                let mut all = noted.lock().unwrap();
                let earlier = all.iter().filter(|seen| seen.path == path).count();
                let seen = Seen { host, path, authorization, earlier };
                all.push(seen.clone());
                drop(all);
                answer(&seen)
            }
        });
        let task = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { host, seen, task }
    }

    fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    fn reference(&self, of: &str) -> String {
        format!("oci://{}/{of}", self.host)
    }
}

impl Drop for Hostile {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn with_status(status: u16) -> axum::http::response::Builder {
    Response::builder().status(StatusCode::from_u16(status).unwrap())
}

fn ok(bytes: impl Into<Body>) -> Response<Body> {
    with_status(200).body(bytes.into()).unwrap()
}

fn redirect(to: &str) -> Response<Body> {
    with_status(307).header("location", to).body(Body::empty()).unwrap()
}

fn challenge(value: &str) -> Response<Body> {
    with_status(401).header("www-authenticate", value).body(Body::empty()).unwrap()
}

/// Sends zeros as long as somebody reads.
fn endless() -> Response<Body> {
    let piece = || Ok::<_, std::io::Error>(vec![b' '; 64 << 10]);
    ok(Body::from_stream(futures_util::stream::repeat_with(piece)))
}

/// An artifact as an honest registry serves it.
#[derive(Clone)]
struct Stored {
    manifest: Value,
    blobs: BTreeMap<String, Vec<u8>>,
}

impl Stored {
    fn new(component: &[u8]) -> Self {
        let mut stored = Self { manifest: Value::Null, blobs: BTreeMap::new() };
        let config = stored.blob(CONFIG, b"{}");
        let layer = stored.blob("application/wasm", component);
        stored.manifest = json!({
            "schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": [layer],
        });
        stored
    }

    /// Adds a blob and returns its descriptor.
    fn blob(&mut self, media_type: &str, bytes: &[u8]) -> Value {
        let digest = BlobDigest::of(bytes).to_string();
        self.blobs.insert(digest.clone(), bytes.to_vec());
        json!({ "mediaType": media_type, "digest": digest, "size": bytes.len() })
    }

    fn answer(&self, path: &str) -> Response<Body> {
        if path.contains("/manifests/") {
            return ok(self.manifest.to_string());
        }
        match path.rsplit('/').next().and_then(|digest| self.blobs.get(digest)) {
            Some(bytes) => ok(bytes.clone()),
            None => with_status(404).body(Body::empty()).unwrap(),
        }
    }

    fn digest(&self) -> BlobDigest {
        BlobDigest::of(self.manifest.to_string().as_bytes())
    }
}

fn component() -> Vec<u8> {
    mini("1.0.0", &[]).build()
}

/// Returns the path of the component's blob.
fn component_path(stored: &Stored) -> String {
    format!("/v2/mini/blobs/{}", stored.manifest["layers"][0]["digest"].as_str().unwrap())
}

#[tokio::test]
async fn wrong_endless_and_foreign_content_is_refused_and_changes_nothing() {
    let stored = Stored::new(&component());
    let (other, path) = (Stored::new(b"\0asm other"), component_path(&stored));
    let changed = |change: &dyn Fn(&mut Value)| {
        let mut stored = stored.clone();
        change(&mut stored.manifest);
        stored
    };
    let huge = changed(&|manifest| manifest["layers"][0]["size"] = (1_u64 << 40).into());
    let image = changed(&|manifest| {
        manifest["config"]["mediaType"] = "application/vnd.oci.image.config.v1+json".into();
    });
    let layer = changed(&|manifest| {
        manifest["layers"][0]["mediaType"] = "application/vnd.oci.image.layer.v1.tar".into();
    });
    let mut escaping = stored.clone();
    let archive = escaping_archive();
    let cases = escaping.blob(CASES, &archive);
    escaping.manifest["layers"].as_array_mut().unwrap().push(cases);
    type Answer = Box<dyn Fn(&Seen) -> Response<Body> + Send + Sync>;
    let honest = |stored: &Stored| -> Answer {
        let stored = stored.clone();
        Box::new(move |seen| stored.answer(&seen.path))
    };
    // Answers differently for the component.
    let except = |answer: fn() -> Response<Body>| -> Answer {
        let (stored, path) = (stored.clone(), path.clone());
        Box::new(move |seen| if seen.path == path { answer() } else { stored.answer(&seen.path) })
    };
    let digest = stored.digest();
    let by_digest = format!("mini@{digest}");
    let sent = format!("the registry sent more than {} bytes", component().len());
    let attacks: [(&str, &str, Answer, &str); 9] = [
        ("other bytes", "mini:1", except(|| ok("other")), "the content has the digest"),
        ("another manifest", &by_digest, honest(&other), "the content has the digest"),
        ("an endless component", "mini:1", except(endless), &sent),
        ("an endless manifest", "mini:1", Box::new(|_| endless()), "more than 262144 bytes"),
        ("a huge component", "mini:1", honest(&huge), "1099511627776 bytes; at most 50331648"),
        ("an image", "mini:1", honest(&image), "but a \"application/vnd.oci.image.config"),
        ("a foreign layer", "mini:1", honest(&layer), "image.layer.v1.tar"),
        ("an archive that escapes", "mini:1", honest(&escaping), "is not the name of a recording"),
        ("a page", "mini:1", Box::new(|_| ok("<html>")), "its manifest is invalid"),
    ];
    let operator = installation();
    for (what, of, answer, says) in attacks {
        let registry = Hostile::start(answer).await;
        let errors = refused(&operator, &["install", &registry.reference(of), "--yes"], 1).await;
        assert!(errors.contains(says), "{what}: {errors}");
        assert!(errors.contains("nothing was changed"), "{what}: {errors}");
        if what.starts_with("a huge") {
            let blobs = registry.seen().iter().filter(|seen| seen.path.contains("/blobs/")).count();
            assert_eq!(blobs, 0, "a blob that is too large was requested");
        }
    }
    assert!(!std::env::temp_dir().join("aetheel-escaped.jsonl").exists());
    // The same artifact from an honest server.
    let registry = Hostile::start(honest(&stored)).await;
    let said = done(&operator, &["install", &registry.reference("mini:1")]).await;
    assert!(said.contains(&format!("is {digest}")), "{said}");
}

/// An archive with a file outside of its folder.
fn escaping_archive() -> Vec<u8> {
    let text = b"../../aetheel-escaped.jsonl";
    let mut header = [0_u8; 512];
    header[..text.len()].copy_from_slice(text);
    header[100..108].copy_from_slice(b"0000644\0");
    header[124..136].copy_from_slice(b"00000000000\0");
    header[136..148].copy_from_slice(b"00000000000\0");
    header[156] = b'0';
    header[257..265].copy_from_slice(b"ustar\x0000");
    header[148..156].copy_from_slice(b"        ");
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    let archive = [&header[..], &[0; 1024]].concat();
    // gzip without compression: one stored block.
    let size = u16::try_from(archive.len()).unwrap();
    let mut packed = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255, 1];
    packed.extend(size.to_le_bytes());
    packed.extend((!size).to_le_bytes());
    packed.extend(&archive);
    packed.extend(crc32(&archive).to_le_bytes());
    packed.extend(u32::from(size).to_le_bytes());
    packed
}

fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0_u32, |mut crc, byte| {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ 0xEDB8_8320 } else { crc >> 1 };
        }
        crc
    })
}

#[tokio::test]
async fn a_real_registry_with_a_damaged_blob_is_noticed() {
    let registry = OciRegistry::start();
    let operator = installation();
    let path = file(&operator, "project", &component());
    let tag = registry.reference("mini:1");
    push(&path, &tag).await;
    let blob = registry.blob(BlobDigest::of(&component()).hex());
    let mut bytes = fs::read(&blob).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&blob, bytes).unwrap();
    let errors = refused(&operator, &["install", &tag], 1).await;
    assert!(errors.contains("the content has the digest"), "{errors}");
}

#[tokio::test]
async fn a_tag_that_moves_between_two_requests_installs_what_was_shown() {
    let (first, second) = (component(), mini("2.0.0", &[]).build());
    let (one, two) = (Stored::new(&first), Stored::new(&second));
    let digest = one.digest();
    let registry = Hostile::start(move |seen| match seen.path.contains("/manifests/") {
        true if seen.earlier == 0 => one.answer(&seen.path),
        true => two.answer(&seen.path),
        false if one.blobs.keys().any(|digest| seen.path.ends_with(digest)) => {
            one.answer(&seen.path)
        }
        false => two.answer(&seen.path),
    })
    .await;
    let operator = installation();
    let said = done(&operator, &["install", &registry.reference("mini:1")]).await;
    assert!(said.contains(&format!("is {digest}")), "{said}");
    assert_eq!(fs::read(operator.backend("mini")).unwrap(), first);
    assert!(operator.read("backends.lock.md").contains(&digest.to_string()));
}

#[tokio::test]
async fn credentials_follow_no_redirect_and_no_address_without_tls() {
    let stored = Stored::new(&component());
    let secret = BASE64_STANDARD.encode(format!("{USER}:{PASSWORD}"));
    // Another server has the blobs, as content networks do.
    let blobs = stored.clone();
    let elsewhere = Hostile::start(move |seen| blobs.answer(&seen.path)).await;
    let (manifest, other) = (stored.clone(), elsewhere.host.clone());
    let registry = Hostile::start(move |seen| match &seen.authorization {
        None => challenge("Basic realm=\"r\""),
        Some(_) if seen.path.contains("/manifests/") => manifest.answer(&seen.path),
        Some(_) => redirect(&format!("http://{other}{}", seen.path)),
    })
    .await;
    let key = |registry: &Hostile| format!("{USER}:{PASSWORD}@{}", registry.host);
    let operator = installation().with("REGISTRY_KEY", &key(&registry));
    done(&operator, &["install", &registry.reference("mini:1")]).await;
    let login = format!("Basic {secret}");
    assert!(registry.seen().iter().any(|it| it.authorization.as_deref() == Some(&*login)));
    assert!(!elsewhere.seen().is_empty());
    assert!(elsewhere.seen().iter().all(|seen| seen.authorization.is_none()));

    // Nothing is sent to these addresses.
    for (target, says) in [
        ("http://registry.example/x", "which does not use TLS"),
        ("file:///etc/passwd", "which does not use TLS"),
        ("/v2/mini/manifests/1", "after too many redirects"),
    ] {
        let registry = Hostile::start(move |_| redirect(target)).await;
        let errors = refused(&operator, &["install", &registry.reference("mini:1")], 1).await;
        assert!(errors.contains(says), "{target}: {errors}");
    }
    let realm = "Bearer realm=\"http://registry.example/token\",service=\"r\"";
    let registry = Hostile::start(move |_| challenge(realm)).await;
    let operator = operator.with("REGISTRY_KEY", &key(&registry));
    let errors = refused(&operator, &["install", &registry.reference("mini:1")], 1).await;
    assert!(errors.contains("http://registry.example, which does not use TLS"), "{errors}");
    assert!(!errors.contains(PASSWORD) && !errors.contains(&secret), "{errors}");
}

#[tokio::test]
async fn the_token_service_of_a_registry_gets_the_login_and_the_rest_only_the_token() {
    let stored = Stored::new(&component());
    let registry = Hostile::start(move |seen| match seen.authorization.as_deref() {
        Some("Bearer t0ken-9") => stored.answer(&seen.path),
        _ if seen.path.starts_with("/token") => ok(r#"{"token":"t0ken-9"}"#),
        _ => challenge(&format!("Bearer realm=\"http://{}/token\",service=\"r\"", seen.host)),
    })
    .await;
    let key = format!("{USER}:{PASSWORD}@{}", registry.host);
    let operator = installation().with("REGISTRY_KEY", &key);
    let ended = run(&operator, &["install", &registry.reference("mini:1"), "-vv"]).await;
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(!ended.stderr.contains("t0ken-9") && !ended.stdout.contains("t0ken-9"));
    let is_basic = |seen: &Seen| {
        seen.authorization.as_ref().is_some_and(|authorization| authorization.starts_with("Basic"))
    };
    let (tokens, rest): (Vec<Seen>, Vec<Seen>) =
        registry.seen().into_iter().partition(|seen| seen.path.starts_with("/token"));
    assert!(!tokens.is_empty() && tokens.iter().all(is_basic));
    assert!(!rest.iter().any(is_basic));
}

#[tokio::test]
async fn a_token_service_on_another_port_does_not_get_the_login() {
    let stored = Stored::new(&component());
    let service = Hostile::start(|_| ok(r#"{"token":"t0ken-9"}"#)).await;
    let realm = format!("Bearer realm=\"http://{}/token\",service=\"r\"", service.host);
    let registry = Hostile::start(move |seen| match seen.authorization.as_deref() {
        Some("Bearer t0ken-9") => stored.answer(&seen.path),
        _ => challenge(&realm),
    })
    .await;
    let key = format!("{USER}:{PASSWORD}@{}", registry.host);
    let operator = installation().with("REGISTRY_KEY", &key);
    done(&operator, &["install", &registry.reference("mini:1")]).await;
    assert!(!service.seen().is_empty());
    assert!(service.seen().iter().all(|seen| seen.authorization.is_none()));

    // The error names the reason if the service refuses tokens without a password.
    let strict = Hostile::start(|_| with_status(401).body(Body::empty()).unwrap()).await;
    let realm = format!("Bearer realm=\"http://{}/token\",service=\"r\"", strict.host);
    let registry = Hostile::start(move |_| challenge(&realm)).await;
    let key = format!("{USER}:{PASSWORD}@{}", registry.host);
    let operator = operator.with("REGISTRY_KEY", &key);
    let errors = refused(&operator, &["install", &registry.reference("mini:1")], 1).await;
    assert!(errors.contains("is another server, which does not get the password"), "{errors}");
    assert!(strict.seen().iter().all(|seen| seen.authorization.is_none()));
}

//! Tests of policy components: their admission, their replacement, and hostile ones.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use aetheel_model::agent::{Ask, AskKind, Safety, ToolStart};
use aetheel_model::limits::ResourceLimits;
use aetheel_model::policy::{PolicyContext, PolicyEffect, PolicyRequest, PolicyVote};
use aetheel_model::redact::Redactor;
use aetheel_turn::Policies as _;
use aetheel_wasm::{Engine, LoadedPolicy, PolicySet, TrustGate};

use crate::support::guests::answering;
use crate::support::policies::WatPolicy;

pub fn request(command: &str) -> PolicyRequest {
    let context = PolicyContext {
        backend: "scripted".into(),
        lane: "console".into(),
        project: None,
        person: None,
        safety: Safety::Default,
        cwd: "/work".into(),
    };
    let tool = ToolStart {
        id: "t".into(),
        parent: None,
        kind: "bash".into(),
        native_name: "Bash".into(),
        title: "run".into(),
        target: Some(command.into()),
        input: serde_json::json!({ "command": command }).to_string(),
    };
    let ask = Ask {
        ask: 1,
        session: 1,
        turn: 1,
        title: "May I?".into(),
        kind: AskKind::Permission(tool),
        always_label: None,
        options: vec![],
        diffs: vec![],
        changeable: false,
        parent: None,
        deadline_ms: None,
    };
    PolicyRequest::of(context, &ask, &Redactor::default()).unwrap()
}

fn engine() -> Engine {
    let limits = ResourceLimits { guest_memory: 16 << 20, ..ResourceLimits::default() };
    Engine::new(&limits, None, aetheel_settings::NAMES).unwrap()
}

pub(super) async fn until(what: &str, found: impl Fn() -> bool) {
    let waiting = async {
        while !found() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let met = tokio::time::timeout(Duration::from_secs(60), waiting).await;
    assert!(met.is_ok(), "waited in vain until {what}");
}

/// A backends folder with a folder of policies.
struct PolicyFolder(tempfile::TempDir);

impl PolicyFolder {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("policies")).unwrap();
        Self(folder)
    }

    /// Replaces a file by a rename, as an operator should.
    fn put(&self, name: &str, bytes: &[u8]) {
        let policies = self.0.path().join("policies");
        std::fs::write(policies.join(".fresh"), bytes).unwrap();
        std::fs::rename(policies.join(".fresh"), policies.join(name)).unwrap();
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.0.path().join("policies").join(name)
    }

    async fn start(&self) -> PolicySet {
        let (set, refused) = PolicySet::start(engine(), self.0.path(), TrustGate::open()).await;
        assert!(refused.is_empty(), "{refused:?}");
        set
    }
}

fn versions(set: &PolicySet) -> Vec<String> {
    set.list().into_iter().map(|policy| policy.descriptor.version).collect()
}

async fn vote_of(set: &PolicySet, command: &str) -> PolicyVote {
    set.decide(&request(command)).await.remove(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_decides_and_a_hostile_one_leaves_the_decision_to_people() {
    let folder = PolicyFolder::new();
    folder.put("test.wasm", &WatPolicy::new("test", "1").build());
    let set = folder.start().await;
    for (command, effect) in [
        ("a", PolicyEffect::Allow),
        ("d", PolicyEffect::Deny),
        ("k", PolicyEffect::Ask),
        ("p", PolicyEffect::Pass),
    ] {
        let vote = vote_of(&set, command).await;
        assert_eq!((vote.effect, vote.failed), (effect, false), "{vote:?}");
    }
    for (command, part) in [
        ("t", "it crashed: wasm trap: wasm `unreachable`"),
        ("x", "it was stopped: a call ran for more than 500 ms"),
        ("m", "it was stopped: it wanted more than 16 MiB of memory"),
        ("e", "it gave up: because the test says so"),
    ] {
        let vote = vote_of(&set, command).await;
        assert_eq!((vote.effect, vote.failed), (PolicyEffect::Ask, true), "{vote:?}");
        assert!(vote.reason.contains(part), "{vote:?}");
        assert_eq!(vote_of(&set, "a").await.effect, PolicyEffect::Allow, "it decides again");
    }
    assert!(vote_of(&set, "h").await.reason.len() <= 4 << 10, "a reason is cut");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_has_no_memory() {
    let folder = PolicyFolder::new();
    folder.put("test.wasm", &WatPolicy::new("test", "1").build());
    let set = folder.start().await;
    // It would crash in the second call of an instance.
    for _ in 0..100 {
        assert_eq!(vote_of(&set, "s").await.effect, PolicyEffect::Allow);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn several_policies_vote_in_the_order_of_their_names_and_a_slow_one_delays_none() {
    let folder = PolicyFolder::new();
    folder.put("x.wasm", &WatPolicy::new("strict", "1").build());
    folder.put("y.wasm", &WatPolicy { allow: 2, ..WatPolicy::new("denying", "1") }.build());
    let set = folder.start().await;
    let votes = set.decide(&request("a")).await;
    let votes: Vec<_> = votes.iter().map(|vote| (vote.policy.as_str(), vote.effect)).collect();
    assert_eq!(votes, [("denying", PolicyEffect::Deny), ("strict", PolicyEffect::Allow)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_policy_is_replaced_and_a_broken_one_changes_nothing() {
    let folder = PolicyFolder::new();
    let set = folder.start().await;
    assert!(set.is_empty());
    folder.put("test.wasm", &WatPolicy::new("test", "1").build());
    until("it is loaded", || versions(&set) == ["1"]).await;
    // A decision that runs meanwhile ends with the old version.
    let running = async { set.decide(&request("x")).await.remove(0) };
    let replaced = async {
        folder.put("test.wasm", &WatPolicy { allow: 2, ..WatPolicy::new("test", "2") }.build());
        until("it is replaced", || versions(&set) == ["2"]).await;
    };
    let (vote, ()) = tokio::join!(running, replaced);
    assert_eq!((vote.version.as_str(), vote.effect), ("1", PolicyEffect::Ask));
    assert_eq!(vote_of(&set, "a").await.effect, PolicyEffect::Deny);
    // A broken version is refused when the next good file is loaded after it.
    folder.put("test.wasm", b"\0asm\x0d\0\x01\0broken");
    folder.put("z.wasm", &WatPolicy::new("z", "1").build());
    until("the other one is loaded", || versions(&set).len() == 2).await;
    assert_eq!(vote_of(&set, "a").await.version, "2", "the old version still decides");
    std::fs::remove_file(folder.path("test.wasm")).unwrap();
    until("it is gone", || versions(&set) == ["1"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn options_are_checked_when_they_change() {
    let folder = PolicyFolder::new();
    std::fs::write(folder.path("test.json"), "!").unwrap();
    folder.put("test.wasm", &WatPolicy::new("test", "1").build());
    let (set, refused) = PolicySet::start(engine(), folder.0.path(), TrustGate::open()).await;
    let reason = refused[0].reason.to_string();
    assert!(reason.contains("test.json: because the test says so"), "{reason}");
    assert!(set.is_empty());
    std::fs::write(folder.path("test.json"), "{}").unwrap();
    until("it is loaded with other options", || !set.is_empty()).await;
}

async fn refusal(bytes: &[u8]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("test.wasm");
    std::fs::write(&path, bytes).unwrap();
    let Err(error) = LoadedPolicy::open(&engine(), &path).await else { panic!("it is admitted") };
    error.to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn only_policies_without_forbidden_imports_are_admitted() {
    let backend = refusal(&answering("gemini", "1")).await;
    assert!(backend.contains("`aetheel:policy/policy@0.1`: it is not a policy"), "{backend}");
    let module = wat::parse_str("(module)").unwrap();
    assert!(refusal(&module).await.contains("core module"));
    for (package, interface, version) in
        [("wasi:http", "outgoing-handler", "0.2.0"), ("aetheel:host", "files", "0.1.0")]
    {
        let refused = refusal(&WatPolicy::importing(package, interface, version)).await;
        let import = format!("imports `{package}/{interface}@{version}`");
        assert!(refused.contains(&import), "{refused}");
    }
    let named = WatPolicy::new("Not A Name", "1").build();
    assert!(refusal(&named).await.contains("invalid descriptor"));
    let looping = WatPolicy {
        items: "(func $begin (loop $for_ever (br $for_ever))) (start $begin)".into(),
        ..WatPolicy::new("test", "1")
    };
    assert!(refusal(&looping.build()).await.contains("failed in its start"));
}

fn shipped() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("target/guests/wasm32-wasip2/release/guard.wasm")
}

#[tokio::test(flavor = "multi_thread")]
async fn the_shipped_policy_allows_reading_and_denies_writing_outside() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("guard.wasm");
    std::fs::copy(shipped(), &path).expect("`make guests` built it");
    let policy = Arc::new(LoadedPolicy::open(&engine(), &path).await.unwrap());
    let effect = async |command: &str| policy.decide(&request(command)).await.effect;
    assert_eq!(effect("ls -la | head").await, PolicyEffect::Allow);
    assert_eq!(effect("ls; rm -rf .").await, PolicyEffect::Pass);
    assert_eq!(effect("cat /etc/shadow").await, PolicyEffect::Pass);
    std::fs::write(folder.path().join("guard.json"), r#"{"commands": ["rm"]}"#).unwrap();
    let policy = LoadedPolicy::open(&engine(), &path).await.unwrap();
    assert_eq!(policy.decide(&request("ls")).await.effect, PolicyEffect::Pass);
    std::fs::write(folder.path().join("guard.json"), r#"{"comands": []}"#).unwrap();
    let Err(error) = LoadedPolicy::open(&engine(), &path).await else { panic!("misspelled") };
    assert!(error.to_string().contains("unknown field `comands`"), "{error}");
}

//! Components that an operator distributes to all nodes of a cluster. Each node applies its own
//! rules.

use std::fs;

use serde_json::{Value, json};

use super::cluster::{connected, node};
use super::components::{download, expect_answer, mini, prepared, wait_for_generation};
use super::serving;
use crate::backend::digest;
use crate::support::discord::LocalDiscord;
use crate::support::postgres::Postgres;
use crate::support::program::{Installation, Program};

/// A node with the default backend `mini` 1.0.0.
fn machine(local: &LocalDiscord, postgres: &Postgres, name: &str) -> Installation {
    let installation = prepared(node(local, postgres, name));
    fs::write(installation.backend("mini"), mini("1.0.0", json!({}))).unwrap();
    installation
}

/// Starts two nodes. The first one is connected to Discord, and the second one serves the channel.
async fn two(
    local: &LocalDiscord,
    postgres: &Postgres,
    with: impl FnOnce(Installation) -> Installation,
) -> [(Installation, Program); 2] {
    let one = machine(local, postgres, "one");
    let first = connected(&one).await;
    let two = with(machine(local, postgres, "two").with("NODE_LABELS", "gpu"));
    let second = serving(&two).await;
    expect_answer(local, "1.0.0").await;
    [(one, first), (two, second)]
}

async fn hand_out(installation: &Installation, bytes: &[u8]) {
    let file = download(installation, "new.wasm", bytes);
    let ended = installation.run(&["backend", "install", &file, "--yes", "--all-nodes"], "").await;
    assert_eq!(ended.code, 0, "{}{}", ended.stdout, ended.stderr);
    assert!(ended.stdout.contains("sent to all machines"), "{}", ended.stdout);
}

/// Waits for a log line about a distributed component that contains this text, and returns its
/// message.
async fn distribution_log(program: &Program, what: &str) -> String {
    let says = |line: &Value| {
        line["message"]
            .as_str()
            .is_some_and(|text| text.starts_with("a backend for all nodes") && text.contains(what))
    };
    program.logs_where(what, says).await["message"].as_str().unwrap().to_owned()
}

/// Checks with `aetheel nodes` that the components of the second node differ, once it has reported
/// them.
async fn second_differs(local: &LocalDiscord, postgres: &Postgres, one: &Installation) {
    let different = "select count(distinct components) from aetheel.node";
    local.wait_for("reports", |_| postgres.ask(different).eq("2").then_some(())).await;
    let nodes = one.run(&["nodes"], "").await.stdout;
    let second = nodes.lines().find(|line| line.starts_with("two")).unwrap();
    assert!(second.ends_with("its backends differ"), "{nodes}");
}

#[tokio::test]
async fn a_distributed_component_serves_the_next_turn_on_all_nodes_and_on_later_ones() {
    let (local, postgres) = (LocalDiscord::start().await, Postgres::start());
    let [(one, first), (two, mut second)] = two(&local, &postgres, |two| two).await;
    let new = mini("2.0.0", json!({}));
    hand_out(&one, &new).await;
    wait_for_generation(&second, 2).await;
    expect_answer(&local, "2.0.0").await;
    assert_eq!(fs::read(two.backend("mini")).unwrap(), new);
    // The node that distributed the component also installs it.
    distribution_log(&first, "is installed").await;
    let looked_at = "select count(*) from aetheel.node where component = 1";
    local.wait_for("both", |_| postgres.ask(looked_at).eq("2").then_some(())).await;

    // A component that an operator installs afterwards stays, even after a restart.
    let own = mini("3.0.0", json!({}));
    fs::write(two.backend("mini"), &own).unwrap();
    wait_for_generation(&second, 3).await;
    second.signal(rustix::process::Signal::INT);
    second.ended().await;
    let third = machine(&local, &postgres, "three");
    let program = serving(&third).await;
    distribution_log(&program, "is installed").await;
    assert_eq!(fs::read(third.backend("mini")).unwrap(), new);
    let _second = serving(&two).await;
    assert_eq!(fs::read(two.backend("mini")).unwrap(), own);
}

#[tokio::test]
async fn a_node_that_trusts_only_pins_keeps_its_component_and_logs_a_hint() {
    let (local, postgres) = (LocalDiscord::start().await, Postgres::start());
    let first = mini("1.0.0", json!({}));
    let pinned = |two: Installation| {
        let notes = two.read("backends.md");
        let pin = format!("\n## mini\n- sha256: {}\n", digest(&first));
        fs::write(two.path("config/backends.md"), notes + &pin).unwrap();
        two.with("BACKEND_TRUST", "pinned")
    };
    let [(one, _first), (two, second)] = two(&local, &postgres, pinned).await;
    let files = || {
        let names = fs::read_dir(two.path("backends")).unwrap();
        let mut names: Vec<_> = names.map(|file| file.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let before = files();
    let new = mini("2.0.0", json!({}));
    hand_out(&one, &new).await;
    let says = distribution_log(&second, "is refused").await;
    assert!(says.contains(&digest(&new)) && says.contains("hint: "), "{says}");
    assert_eq!(fs::read(two.backend("mini")).unwrap(), first);
    assert_eq!(files(), before);
    expect_answer(&local, "1.0.0").await;
    second_differs(&local, &postgres, &one).await;
}

#[tokio::test]
async fn a_component_with_more_capabilities_waits_for_the_operator_of_each_node() {
    let (local, postgres) = (LocalDiscord::start().await, Postgres::start());
    let [(one, _first), (two, second)] = two(&local, &postgres, |two| two).await;
    let more = json!({ "programs": [
        { "name": "mini", "version-arguments": ["--version"] },
        { "name": "curl", "version-arguments": ["--version"] },
    ] });
    hand_out(&one, &mini("2.0.0", more)).await;
    let says = distribution_log(&second, "waits for approval").await;
    assert!(says.contains("curl") && says.contains("aetheel backend approve mini"), "{says}");
    expect_answer(&local, "1.0.0").await;
    second_differs(&local, &postgres, &one).await;
    let approved = two.run(&["backend", "approve", "mini", "--yes"], "").await;
    assert_eq!(approved.code, 0, "{}{}", approved.stdout, approved.stderr);
    wait_for_generation(&second, 2).await;
    expect_answer(&local, "2.0.0").await;
}

#[tokio::test]
async fn forged_components_in_the_database_are_refused_and_not_written() {
    let (local, postgres) = (LocalDiscord::start().await, Postgres::start());
    let one = machine(&local, &postgres, "one");
    let first = connected(&one).await;
    let bot = postgres.ask("select bot from aetheel.node");
    let new = mini("2.0.0", json!({}));
    let hex: String = new.iter().map(|byte| format!("{byte:02x}")).collect();
    let before: Vec<_> = one.everything().into_iter().map(|(path, _)| path).collect();
    let good = digest(&new);
    for (file, digest, body, why) in [
        ("../x.wasm", good.as_str(), hex.as_str(), "has an invalid file name"),
        ("/tmp/x.wasm", &good, &hex, "has an invalid file name"),
        ("mini.wasm", "00", &hex, "its SHA-256 is another one"),
        ("empty.wasm", &good, "", "is larger than"),
    ] {
        postgres.ask(&format!(
            "select aetheel.hand_out({bot}, '{file}', '{digest}', '\\x{body}', null, 'mallory')"
        ));
        assert!(distribution_log(&first, why).await.contains("nothing was changed"));
    }
    assert_eq!(fs::read(one.backend("mini")).unwrap(), mini("1.0.0", json!({})));
    assert!(!one.path("x.wasm").exists() && !std::path::Path::new("/tmp/x.wasm").exists());
    let wasm = |path: &&std::path::PathBuf| path.extension().is_some_and(|end| end == "wasm");
    let after: Vec<_> = one.everything().into_iter().map(|(path, _)| path).collect();
    assert_eq!(after.iter().filter(wasm).count(), before.iter().filter(wasm).count());
}

#[tokio::test]
async fn without_a_cluster_distribution_fails_and_installs_nothing() {
    let local = LocalDiscord::start().await;
    let alone = prepared(super::installed(&local));
    let file = download(&alone, "mini.wasm", &mini("1.0.0", json!({})));
    let ended = alone.run(&["backend", "install", &file, "--all-nodes"], "").await;
    assert_eq!(ended.code, 78, "{}", ended.stderr);
    assert!(ended.stderr.contains("--all-nodes: CLUSTER_URL is not set"), "{}", ended.stderr);
    assert!(!alone.backend("mini").exists());
    // A database that is away does not undo the local installation.
    let away = alone.with("CLUSTER_URL", "postgres://a:hunter2@127.0.0.1:1/x");
    let ended = away.run(&["backend", "install", &file, "--all-nodes"], "").await;
    assert_eq!(ended.code, 75, "{}{}", ended.stdout, ended.stderr);
    assert!(ended.stderr.contains("it is installed here, but was not sent"), "{}", ended.stderr);
    assert!(!ended.stderr.contains("hunter2") && away.backend("mini").exists());
}

//! Tests that run the examples of `docs/webhooks.md` unchanged.

use std::path::Path;

use super::{Stand, serve_with};
use crate::support::needs;

/// Returns the shell examples of the page, in order.
fn examples() -> Vec<String> {
    let page =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/webhooks.md"))
            .unwrap();
    page.split("```sh\n").skip(1).map(|rest| rest.split("```").next().unwrap().to_owned()).collect()
}

/// Returns the value that an example assigns to its variable `secret`.
fn secret(example: &str) -> String {
    example
        .split_whitespace()
        .find_map(|word| word.strip_prefix("secret="))
        .expect("it begins with a secret")
        .to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_documented_calls_are_accepted() {
    if !needs::program("curl", "curl") || !needs::program("openssl", "openssl") {
        return;
    }
    let examples = examples();
    let names = ["deploy", "pull-requests", "alarm"];
    assert_eq!(examples.len(), names.len());
    let stand = Stand::quick().await;
    let schemes = ["standard", "github", "bearer"];
    let definition = |n: usize| {
        format!("## {}\n- scheme: {}\n- secret: SECRET_{n}\n\nDo it.\n\n", names[n], schemes[n])
    };
    stand.define(&(0..names.len()).map(definition).collect::<String>());
    let secrets = examples
        .iter()
        .enumerate()
        .map(|(n, example)| (format!("SECRET_{n}"), secret(example).into()))
        .collect();
    let serving = serve_with(&stand.desk, secrets).await;
    serving.open().await;
    for (example, name) in examples.iter().zip(names) {
        assert!(example.contains(&format!("/webhooks/{name}")), "{example}");
        let script = example.replace("127.0.0.1:8787", &serving.address.to_string());
        let run =
            tokio::process::Command::new("/bin/sh").args(["-ec", &script]).output().await.unwrap();
        let said = String::from_utf8_lossy(&run.stdout).into_owned();
        assert!(
            said.starts_with("HTTP/1.1 202 ") && said.contains("{\"status\":\"accepted\"}"),
            "{script}\n{said}"
        );
    }
}

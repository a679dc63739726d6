//! `aetheel policy check`: tests whether a policy can be used, and whether it decides about every
//! request.

use std::path::{Path, PathBuf};

use serde_json::json;

use crate::open;
use aetheel::cli::exit;
use aetheel::commands::kit::KitError;
use aetheel::terminal::{self, OutputStyle};
use aetheel_model::agent::{Ask, AskKind, FileDiff, Safety, ToolStart};
use aetheel_model::policy::{PolicyContext, PolicyRequest};
use aetheel_model::redact::Redactor;
use aetheel_wasm::LoadedPolicy;

pub(crate) async fn run(component: PathBuf, json: bool) -> u8 {
    match examine(&component).await {
        Ok((policy, problems)) => print(&component, &policy, &problems, json),
        Err(unable) if json && unable.code == exit::FAILED => {
            terminal::json(&json!({
                "component": component.display().to_string(),
                "passed": false,
                "refused": unable.text,
                "hint": unable.hint,
            }));
            unable.code
        }
        Err(unable) => unable.report(),
    }
}

/// Admits a policy and lets it decide about each request twice. Returns its problems.
async fn examine(component: &Path) -> Result<(LoadedPolicy, Vec<String>), KitError> {
    let policy = super::policy(&open::engine()?, component).await?;
    let mut problems = Vec::new();
    for (what, request) in requests() {
        let (one, other) = (policy.decide(&request).await, policy.decide(&request).await);
        if one.failed {
            problems.push(format!("it does not decide about {what}: {}", one.reason));
        } else if one != other {
            problems.push(format!("it decides differently about {what} each time"));
        }
    }
    Ok((policy, problems))
}

fn print(component: &Path, policy: &LoadedPolicy, problems: &[String], json: bool) -> u8 {
    let code = if problems.is_empty() { exit::OK } else { exit::FAILED };
    if json {
        terminal::json(&json!({
            "component": component.display().to_string(),
            "name": policy.descriptor().name,
            "version": policy.descriptor().version,
            "description": policy.descriptor().description,
            "sha256": policy.digest(),
            "passed": problems.is_empty(),
            "problems": problems,
        }));
        return code;
    }
    let page = OutputStyle::for_stdout();
    let file = component.display().to_string();
    terminal::line(&format!("{}  {}", page.bold(&super::title(policy)), page.dim(&file)));
    for problem in problems {
        terminal::line(&page.bad(problem));
    }
    if problems.is_empty() {
        terminal::line(&page.good("no problems found"));
    }
    code
}

/// Returns requests of every kind, some of them hostile, each with its description.
fn requests() -> Vec<(String, PolicyRequest)> {
    let long = "x".repeat(60 << 10);
    let targets = [
        None,
        Some("ls -la"),
        Some("/etc/passwd"),
        Some("../../a"),
        Some("https://example.com/"),
        Some("\u{0}\u{1b}[2J\u{202e}\u{fffd}\n'\"`$(x)"),
        Some(long.as_str()),
    ];
    let kinds = [
        "bash",
        "file_read",
        "file_write",
        "file_edit",
        "file_search",
        "web_fetch",
        "mcp",
        "other",
        "a-kind-of-tomorrow",
    ];
    let mut requests = Vec::new();
    for kind in kinds {
        for target in targets {
            let what = target.map_or_else(
                || format!("`{kind}` without a target"),
                |target| {
                    format!(
                        "`{kind}` with {}",
                        aetheel_model::plain::shortened(&format!("{target:?}"), 60)
                    )
                },
            );
            requests.extend(request(kind, target).map(|request| (what, request)));
        }
    }
    requests
}

fn request(kind: &str, target: Option<&str>) -> Option<PolicyRequest> {
    let context = PolicyContext {
        backend: "check".to_owned(),
        lane: "console".to_owned(),
        project: target.map(str::to_owned),
        person: None,
        safety: Safety::Default,
        cwd: "/work".to_owned(),
    };
    let tool = ToolStart {
        id: "t".to_owned(),
        parent: None,
        kind: kind.to_owned(),
        native_name: kind.to_owned(),
        title: target.unwrap_or_default().to_owned(),
        target: target.map(str::to_owned),
        input: json!({ "target": target }).to_string(),
    };
    let diffs = target.map(|path| FileDiff { path: path.to_owned(), ..FileDiff::default() });
    let ask = Ask {
        ask: 1,
        session: 1,
        turn: 1,
        title: String::new(),
        kind: AskKind::Permission(tool),
        always_label: None,
        options: Vec::new(),
        diffs: diffs.into_iter().collect(),
        changeable: false,
        parent: None,
        deadline_ms: None,
    };
    PolicyRequest::of(context, &ask, &Redactor::default())
}

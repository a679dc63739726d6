//! `aetheel backend test`: compares a component's actions with the stored actions of recordings.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::open::{self, OpenedComponent};
use aetheel::cli::{TestArgs, exit};
use aetheel::commands::kit::{KitError, read_cases};
use aetheel::terminal::{self, OutputStyle};
use aetheel_kit::golden::{self, CaseVerdict};
use aetheel_model::agent::Action;
use aetheel_model::plain::counted;
use aetheel_recording::case::Case;
use aetheel_store::disk::{WORLD_READABLE_MODE, replace_for};

pub(crate) async fn run(args: TestArgs) -> u8 {
    match test(args).await {
        Ok(code) => code,
        Err(unable) => unable.report(),
    }
}

async fn test(args: TestArgs) -> Result<u8, KitError> {
    let TestArgs { component, cases, update, json } = args;
    let component = component.as_path();
    let cases = read_cases(cases).await?;
    let opened = open::component(&open::explaining_engine()?, component).await?;
    let page = OutputStyle::for_stdout();
    let (mut passed, mut rows) = (0, Vec::new());
    for case in &cases {
        let (verdict, actions) = golden::judge(&opened.backend, case)
            .await
            .map_err(|failure| KitError::failed(format!("no guest can be opened: {failure}")))?;
        let outcome = decide_outcome(case, verdict, &actions, update)?;
        passed += usize::from(outcome.is_success());
        if json {
            rows.push(outcome.to_json(case, actions.len()));
        } else {
            outcome.print(page, case, actions.len());
        }
    }
    if json {
        terminal::json(&to_json(component, &opened, passed, &rows));
    } else {
        let all = format!("{passed} of {} passed", cases.len());
        terminal::line(&if passed == cases.len() { page.good(&all) } else { page.bad(&all) });
    }
    Ok(if passed == cases.len() { exit::OK } else { exit::FAILED })
}

fn to_json(component: &Path, opened: &OpenedComponent, passed: usize, rows: &[Value]) -> Value {
    let descriptor = &opened.inspection.descriptor;
    json!({
        "component": component.display().to_string(),
        "name": descriptor.name,
        "version": descriptor.version,
        "passed": passed,
        "failed": rows.len() - passed,
        "cases": rows,
    })
}

/// Prints a case if it failed. Returns whether it passed.
pub(super) fn print_failure(
    page: OutputStyle,
    case: &Case,
    verdict: CaseVerdict,
    actions: usize,
) -> bool {
    if matches!(verdict, CaseVerdict::Same) {
        return true;
    }
    CaseOutcome::Failed(verdict).print(page, case, actions);
    false
}

enum CaseOutcome {
    Passed,
    Updated(PathBuf),
    Failed(CaseVerdict),
}

fn decide_outcome(
    case: &Case,
    verdict: CaseVerdict,
    actions: &[Action],
    update: bool,
) -> Result<CaseOutcome, KitError> {
    Ok(match verdict {
        CaseVerdict::Same => CaseOutcome::Passed,
        CaseVerdict::Differs(_) | CaseVerdict::Unknown if update => {
            let beside = aetheel_recording::case::actions_beside(&case.path);
            replace_for(
                &beside,
                aetheel_recording::comparison::to_jsonl(actions).as_bytes(),
                WORLD_READABLE_MODE,
            )
            .map_err(|error| {
                KitError::usage(format!("cannot write {}: {error}", beside.display()))
            })?;
            CaseOutcome::Updated(beside)
        }
        verdict => CaseOutcome::Failed(verdict),
    })
}

impl CaseOutcome {
    fn is_success(&self) -> bool {
        !matches!(self, Self::Failed(_))
    }

    fn to_json(&self, case: &Case, actions: usize) -> Value {
        let recording = case.path.display().to_string();
        let (result, line, reason, difference) = match self {
            Self::Passed => ("passed", None, None, Value::Null),
            Self::Updated(_) => ("updated", None, None, Value::Null),
            Self::Failed(CaseVerdict::Differs(found)) => {
                ("differs", found.line, None, serde_json::to_value(found).unwrap_or_default())
            }
            Self::Failed(CaseVerdict::Failed(at, failure)) => (
                "failed",
                case.tape.lines.get(*at).copied(),
                Some(failure.to_string()),
                Value::Null,
            ),
            Self::Failed(CaseVerdict::Batching(how)) => {
                ("batching", None, Some(how.clone()), Value::Null)
            }
            Self::Failed(CaseVerdict::Unknown | CaseVerdict::Same) => {
                ("unknown", None, None, Value::Null)
            }
        };
        json!({ "recording": recording, "result": result, "actions": actions, "line": line, "reason": reason, "difference": difference })
    }

    fn print(&self, page: OutputStyle, case: &Case, actions: usize) {
        let path = case.path.display();
        let detail = |text: String| terminal::line(&format!("      {text}"));
        match self {
            Self::Passed => terminal::line(&format!(
                "{}  {path}  {}",
                page.good("ok  "),
                page.dim(&counted(actions, "action"))
            )),
            Self::Updated(beside) => {
                terminal::line(&format!(
                    "{}  {path}  {}",
                    page.good("new "),
                    page.dim(&format!("{} in {}", counted(actions, "action"), beside.display()))
                ));
            }
            Self::Failed(CaseVerdict::Failed(at, failure)) => {
                terminal::line(&format!("{}  {}", page.bad("FAIL"), case.position(*at)));
                detail(failure.to_string());
            }
            Self::Failed(CaseVerdict::Batching(how)) => {
                terminal::line(&format!("{}  {path}", page.bad("FAIL")));
                detail(format!(
                    "other batches of inputs ({how}) give other actions; `aetheel backend check` shows where"
                ));
            }
            Self::Failed(CaseVerdict::Differs(found)) => {
                let line = found.line.map(|line| format!(":{line}")).unwrap_or_default();
                let field = found
                    .field
                    .as_ref()
                    .map(|field| format!("  field {field}"))
                    .unwrap_or_default();
                terminal::line(&format!("{}  {path}{line}{field}", page.bad("FAIL")));
                let what = found.path.as_ref().map(|path| format!(", {path}")).unwrap_or_default();
                let nothing = || "no action".to_owned();
                detail(format!("action {}{what}", found.action));
                detail(format!(
                    "{} {}",
                    page.dim("expected"),
                    found.expected.clone().unwrap_or_else(nothing)
                ));
                detail(format!(
                    "{}      {}",
                    page.dim("got"),
                    found.got.clone().unwrap_or_else(nothing)
                ));
                detail(format!("{}    {}", page.dim("input"), found.input));
                found.diff.lines().for_each(|line| detail(page.diff(line)));
            }
            Self::Failed(CaseVerdict::Unknown | CaseVerdict::Same) => {
                let beside = aetheel_recording::case::actions_beside(&case.path);
                terminal::line(&format!("{}  {path}", page.bad("FAIL")));
                detail(format!(
                    "{} is missing; `--update` writes the actions of this backend, for you to review and keep",
                    beside.display()
                ));
            }
        }
    }
}

//! The artifacts of an answer: images, files and links. Files are stored until they are delivered.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::deps::DispatcherDeps;
use crate::outlet::answer::AnswerFile;
use aetheel_model::agent::{AgentTask, Artifact, ArtifactBody, Quota, TaskStatus};
use aetheel_model::fold::Transcript;
use aetheel_model::plain::one_line;
use aetheel_model::shown_time::shown_date;
use aetheel_store::workspace::save_blob;

/// The maximum length of a file name, in characters.
const NAME_LIMIT: usize = 80;
/// The used percentage of a quota from which a notice is shown.
const QUOTA_NOTICE_PERCENT: f64 = 90.0;
/// The beginning of the notice about an exhausted quota.
pub(crate) const QUOTA_IS_USED_UP: &str = "The quota is used up";

/// Stores the artifacts of an answer. Returns its files, and notices about the other artifacts.
pub(super) async fn store_artifacts(
    parts: &DispatcherDeps,
    transcript: &Transcript,
) -> (Vec<AnswerFile>, Vec<String>) {
    let (mut files, mut notices) = (Vec::new(), Vec::new());
    for (number, artifact) in (1..).zip(transcript.artifacts()) {
        let name = file_name(artifact, number);
        let bytes = match &artifact.body {
            ArtifactBody::Link(address) => {
                notices.push(format!("{name}: {}", one_line(address)));
                continue;
            }
            ArtifactBody::Text(text) => parts.redactor.redact(text.clone()).into_bytes(),
            ArtifactBody::Base64(text) => {
                let plain: String = text.split_ascii_whitespace().collect();
                match STANDARD.decode(plain) {
                    Ok(bytes) => bytes,
                    Err(error) => {
                        tracing::warn!(name, %error, "an artifact is not valid base64; it is left out");
                        notices.push(format!("{name} could not be read."));
                        continue;
                    }
                }
            }
        };
        let size = bytes.len();
        match save_blob(parts.workspace.folder(), bytes).await {
            Ok(path) => {
                tracing::info!(name, size, "stored an artifact");
                files.push(AnswerFile { name, path });
            }
            Err(error) => {
                tracing::warn!(name, size, %error, "cannot store an artifact; hint: is there room below CONFIG_DIR?");
                notices.push(format!("{name} could not be saved."));
            }
        }
    }
    (files, notices)
}

/// Returns notices about background tasks that still run, and about quotas that are nearly used up.
pub(super) fn notices(transcript: &Transcript) -> Vec<String> {
    let goes_on = |task: &&AgentTask| task.background && task.status == TaskStatus::Running;
    let tasks = transcript
        .tasks()
        .iter()
        .filter(goes_on)
        .map(|task| format!("Continues in the background: {}", one_line(&task.title)));
    tasks.chain(transcript.quota().iter().filter_map(quota_notice)).collect()
}

fn quota_notice(quota: &Quota) -> Option<String> {
    let label = one_line(&quota.label);
    let resets = quota.resets.as_deref().map(|at| match at.parse() {
        Ok(time) => format!(" until {}", shown_date(time)),
        Err(_) => format!(" until {}", one_line(at)),
    });
    let resets = resets.unwrap_or_default();
    match quota.used_percent {
        _ if quota.exhausted => Some(format!("{QUOTA_IS_USED_UP} ({label}){resets}.")),
        Some(used) if used >= QUOTA_NOTICE_PERCENT => {
            Some(format!("{used:.0}% of the quota is used ({label})."))
        }
        _ => None,
    }
}

/// Returns a plain file name with an extension that fits the media type.
fn file_name(artifact: &Artifact, number: usize) -> String {
    let kind =
        artifact.media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let ending = match kind.as_str() {
        "image/png" => "png",
        "image/jpeg" => "jpg",
        "image/gif" => "gif",
        "image/webp" => "webp",
        "image/svg+xml" => "svg",
        "application/pdf" => "pdf",
        "application/json" => "json",
        "text/markdown" => "md",
        "text/html" => "html",
        kind if kind.starts_with("text/") => "txt",
        _ => "bin",
    };
    let given = artifact.name.as_deref().unwrap_or_default();
    let given = given.rsplit(['/', '\\']).next().unwrap_or_default();
    let plain: String = given
        .chars()
        .map(|c| if c.is_alphanumeric() || "._-".contains(c) { c } else { '_' })
        .take(NAME_LIMIT)
        .collect();
    let plain = plain.trim_matches(['.', '_']);
    match (plain, plain.contains('.')) {
        ("", _) => format!(
            "{}-{number}.{ending}",
            if kind.starts_with("image/") { "image" } else { "file" }
        ),
        (plain, true) => plain.to_owned(),
        (plain, false) => format!("{plain}.{ending}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use aetheel_model::agent::{AgentEventKind, TaskKind};

    fn named(name: Option<&str>, media_type: &str) -> String {
        let artifact = Artifact {
            name: name.map(str::to_owned),
            media_type: media_type.to_owned(),
            body: ArtifactBody::Text(String::new()),
            tool: None,
        };
        super::file_name(&artifact, 2)
    }

    #[test]
    fn a_file_name_is_plain_and_has_the_extension_of_its_type() {
        assert_eq!(named(None, "image/png"), "image-2.png");
        assert_eq!(named(Some("a chart"), "image/jpeg; q=1"), "a_chart.jpg");
        assert_eq!(named(Some("../../etc/passwd.txt"), "text/plain"), "passwd.txt");
        assert_eq!(named(Some("/"), "application/x"), "file-2.bin");
    }

    #[test]
    fn notices_name_background_tasks_and_nearly_used_quotas() {
        let task = |id: &str, status, background| {
            AgentEventKind::Task(AgentTask {
                id: id.to_owned(),
                kind: TaskKind::Command,
                title: format!("task {id}"),
                status,
                tool: None,
                background,
                summary: None,
            })
        };
        let quota = |used, exhausted| Quota {
            id: "q".to_owned(),
            label: "5 hours".to_owned(),
            used_percent: used,
            resets: None,
            exhausted,
        };
        let mut transcript = Transcript::default();
        for event in [
            task("a", TaskStatus::Running, true),
            task("b", TaskStatus::Running, true),
            task("c", TaskStatus::Running, false),
            task("b", TaskStatus::Done, true),
            AgentEventKind::Quota(vec![
                quota(Some(40.0), false),
                quota(Some(93.0), false),
                quota(None, true),
            ]),
        ] {
            transcript.apply(&event);
        }
        assert_eq!(
            notices(&transcript),
            [
                "Continues in the background: task a",
                "93% of the quota is used (5 hours).",
                "The quota is used up (5 hours).",
            ]
        );
    }
}

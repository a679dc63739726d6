//! `aetheel backend profile`: shows in which functions a component spends its time while it reads a
//! recording, and writes a profile for Firefox's profiler.

use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;
use tempfile::NamedTempFile;

use crate::open::{self, OpenedComponent};
use aetheel::cli::{ProfileArgs, exit};
use aetheel::commands::kit::KitError;
use aetheel::terminal::{self, OutputStyle};
use aetheel_model::plain::counted;
use aetheel_recording::case::Case;
use aetheel_recording::replay::{Batches, replay};
use aetheel_wasm::{FunctionShare, StackProfile};

/// How long a recording is read again and again if the number of rounds is not given.
const MEASURE_TIME: Duration = Duration::from_secs(3);
/// Inputs per call, about as many as a busy agent produces at once.
const INPUTS_PER_CALL: usize = 64;
const FUNCTIONS_SHOWN: usize = 10;

struct ProfileResult {
    title: String,
    output: PathBuf,
    profile: Arc<StackProfile>,
    rounds: u32,
    ran: Duration,
}

pub(crate) async fn run(args: ProfileArgs) -> u8 {
    match measure(&args).await {
        Ok(result) if args.json => {
            terminal::json(&result.to_json(&args.component));
            exit::OK
        }
        Ok(result) => {
            result.print(&args.component);
            exit::OK
        }
        Err(unable) => unable.report(),
    }
}

async fn measure(args: &ProfileArgs) -> Result<ProfileResult, KitError> {
    let case = open::case(args.recording.clone()).await.map_err(|error| KitError {
        hint: Some(
            "name one recording (`NAME.jsonl`): of a gateway, from RECORDINGS_DIR, or made with `aetheel backend record`",
        ),
        ..error
    })?;
    let engine = open::profiling_engine()?;
    let OpenedComponent { inspection, backend } = open::component(&engine, &args.component).await?;
    if !args.any_backend {
        check_backend(&case, &inspection.descriptor.name)?;
    }
    let output = args.output.clone().unwrap_or_else(|| default_output(&args.component));
    // A folder that cannot be written to is reported before the measurement.
    let file = create_beside(&output).map_err(|error| unwritable(&output, &error))?;

    let profile = Arc::new(StackProfile::default());
    let opened = OpenedComponent { inspection, backend: backend.profiled(Arc::clone(&profile)) };
    let (start, mut rounds) = (Instant::now(), 0);
    while args.rounds.map_or(start.elapsed() < MEASURE_TIME, |max| rounds < max.get()) {
        read_once(&opened, &case).await?;
        rounds += 1;
    }
    check_samples(&profile, &case.path, rounds)?;
    let title = open::title(&opened);
    write(&profile, &title, file, &output).map_err(|error| unwritable(&output, &error))?;
    let ran = opened.backend.resource_usage().ran;
    Ok(ProfileResult { title, output, profile, rounds, ran })
}

/// Checks that at least one sample was taken.
fn check_samples(profile: &StackProfile, recording: &Path, rounds: u32) -> Result<(), KitError> {
    if profile.samples() > 0 {
        return Ok(());
    }
    Err(KitError {
        hint: Some("raise `--rounds`, or leave it out to read the recording for 3 s"),
        ..KitError::failed(format!(
            "{}: the backend read it {} in less than a sample (1 ms)",
            recording.display(),
            counted(rounds, "time")
        ))
    })
}

/// Checks that a recording of a gateway was made with this backend. Others have no digest.
fn check_backend(case: &Case, name: &str) -> Result<(), KitError> {
    let header = &case.tape.header;
    if header.digest.is_empty() || header.backend == name {
        return Ok(());
    }
    Err(KitError {
        hint: Some(
            "name a recording of this backend; if both are the same agent (a launch profile, or a new name), add `--any-backend`",
        ),
        ..KitError::usage(format!(
            "{}: it is a recording of the backend `{}`, and the component is `{name}`",
            case.path.display(),
            header.backend
        ))
    })
}

async fn read_once(opened: &OpenedComponent, case: &Case) -> Result<(), KitError> {
    let batches = Batches::Of(INPUTS_PER_CALL);
    let replayed = replay(&opened.backend, &case.tape.entries, batches).await;
    let replayed = replayed
        .map_err(|failure| KitError::failed(format!("no guest can be opened: {failure}")))?;
    match replayed.failure {
        None => Ok(()),
        Some((at, failure)) => Err(KitError {
            hint: Some(
                "fix the failure first; `aetheel backend replay` shows what the backend did before it",
            ),
            ..KitError::failed(format!("{}: {failure}", case.position(at)))
        }),
    }
}

/// Returns `NAME.profile.json` in this folder, for a component `NAME.wasm`.
fn default_output(component: &Path) -> PathBuf {
    let name = component.file_stem().unwrap_or_default().to_string_lossy();
    PathBuf::from(format!("{name}.profile.json"))
}

/// Creates the file that replaces `output` once it is complete.
fn create_beside(output: &Path) -> std::io::Result<NamedTempFile> {
    // Replacing a device such as `/dev/null` would remove it.
    if std::fs::metadata(output).is_ok_and(|found| !found.is_file()) {
        return Err(std::io::Error::other("it is not a regular file"));
    }
    let folder = output.parent().filter(|folder| !folder.as_os_str().is_empty());
    NamedTempFile::new_in(folder.unwrap_or(Path::new(".")))
}

fn write(
    profile: &StackProfile,
    title: &str,
    file: NamedTempFile,
    output: &Path,
) -> std::io::Result<()> {
    let mut writer = BufWriter::new(file);
    profile.write_firefox(title, &mut writer)?;
    writer.flush()?;
    let file = writer.into_inner().map_err(std::io::IntoInnerError::into_error)?;
    file.persist(output).map_err(|error| error.error)?;
    Ok(())
}

fn unwritable(output: &Path, error: &std::io::Error) -> KitError {
    KitError {
        hint: Some("name another file with `-o FILE`"),
        ..KitError::usage(format!("{}: cannot be written: {error}", output.display()))
    }
}

impl ProfileResult {
    fn to_json(&self, component: &Path) -> serde_json::Value {
        let functions = self.profile.functions();
        json!({
            "component": component.display().to_string(),
            "output": self.output.display().to_string(),
            "rounds": self.rounds,
            "ran-ms": self.ran.as_secs_f64() * 1e3,
            "samples": self.profile.samples(),
            "functions": functions.iter().take(FUNCTIONS_SHOWN).map(|function| json!({
                "name": function.name,
                "own": function.own,
                "total": function.total,
            })).collect::<Vec<_>>(),
        })
    }

    fn print(&self, component: &Path) {
        let page = OutputStyle::for_stdout();
        terminal::line(&format!(
            "{}  {}",
            page.bold(&self.title),
            page.dim(&component.display().to_string())
        ));
        let samples = self.profile.samples();
        terminal::line(&format!(
            "  {} in {}, which ran for {}",
            counted(samples, "sample"),
            counted(self.rounds, "round"),
            terminal::time(self.ran)
        ));
        terminal::line(&format!("  {}", page.dim("  own   total  function")));
        let percent = |count: usize| format!("{:>5.1} %", count as f64 * 100.0 / samples as f64);
        for FunctionShare { name, own, total } in
            self.profile.functions().iter().take(FUNCTIONS_SHOWN)
        {
            terminal::line(&format!("  {} {} {name}", percent(*own), percent(*total)));
        }
        if !self.profile.has_names() {
            terminal::line(
                "note: the component has no function names; build it with names (in Rust: `strip = \"debuginfo\"`)",
            );
        }
        terminal::line(&format!(
            "wrote {}: open it at https://profiler.firefox.com (\"Load a profile from file\")",
            self.output.display()
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether a quick component gets a sample depends on the machine, so no command shows this.
    #[test]
    fn a_measurement_without_samples_names_the_next_step() {
        let error =
            check_samples(&StackProfile::default(), Path::new("quick.jsonl"), 1).unwrap_err();
        assert!(error.text.contains("quick.jsonl"), "{}", error.text);
        assert!(error.text.contains("1 time in less than a sample"), "{}", error.text);
        assert!(error.hint.is_some_and(|hint| hint.contains("raise `--rounds`")));
    }
}

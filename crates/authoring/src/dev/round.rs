//! One round: build, cases, recordings, and the check of the kit.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use similar::ChangeTag;

use crate::guest_output::{self, GuestOutput};
use crate::open::{self, OpenedComponent};
use crate::{check, resolve, test};
use aetheel::cli::DevArgs;
use aetheel::commands::kit::{KitError, read_cases};
use aetheel::terminal::{self, OutputStyle};
use aetheel_kit::golden;
use aetheel_kit::summary::{self, Style, SummaryEntry};
use aetheel_model::plain::counted;
use aetheel_process::OperatorCommand;
use aetheel_recording::case::Case;
use aetheel_recording::replay::{Batches, ReplayResult, replay};
use aetheel_recording::{MAX_READ_BYTES, ParsedRecording};
use aetheel_runtime::ordinary::read_ordinary;
use aetheel_settings::Config;
use aetheel_wasm::Engine;

/// How long a build may take.
const BUILD_LIMIT: Duration = Duration::from_secs(60 * 60);
/// How many of the gateway's recordings are looked through for those of the backend.
const LOOKED_THROUGH: usize = 10_000;
/// How many lines of a failed build are shown, from its end.
const BUILD_LINES: usize = 60;
/// How many differences of a recording, and how many answers that were not read, are shown.
const MOST_SHOWN: usize = 12;
/// Maximum number of characters of a text that is shown.
const MOST_CHARACTERS: usize = 200;
/// Runs a command in a folder, with one stream for its output and its errors. The command finds the
/// program `aetheel` in `AETHEEL`, as the Makefiles of `aetheel backend new` expect.
const BUILD_SCRIPT: &str =
    r#"cd "$1" && exec 2>&1 && export AETHEEL="${AETHEEL:-$3}" && eval "$2""#;

/// Tries one build after the other.
pub(super) struct Author<'a> {
    config: Config,
    args: &'a DevArgs,
    engine: Engine,
    printed: GuestOutput,
    /// The recordings, once the name of the backend is known.
    recordings: Option<Vec<Case>>,
    baseline: Option<ComparedComponent>,
    good: bool,
}

/// A component and its reading of each recording.
struct ComparedComponent {
    name: String,
    component: OpenedComponent,
    replays: Vec<ReplayResult>,
}

/// A component that passed the round, and the cases that it was tried with.
pub(super) struct TriedComponent {
    path: PathBuf,
    opened: OpenedComponent,
    cases: Vec<Case>,
}

impl TriedComponent {
    /// Returns the name of its backend, and its file.
    pub(super) fn file(&self) -> (&str, &Path) {
        (&self.opened.inspection.descriptor.name, &self.path)
    }
}

impl<'a> Author<'a> {
    /// Reads the recordings and the component to compare with.
    ///
    /// # Errors
    /// An argument names nothing that can be used.
    pub(super) async fn new(config: Config, args: &'a DevArgs) -> Result<Self, KitError> {
        let engine = open::explaining_engine()?;
        let mut baseline = None;
        if let Some(against) = &args.against {
            let path = resolve::component_path(against, &config)?;
            let component = open::component(&engine, &path).await?;
            let name = path.display().to_string();
            baseline = Some(ComparedComponent { name, component, replays: Vec::new() });
        }
        let printed = guest_output::capture();
        Ok(Self { config, args, engine, printed, recordings: None, baseline, good: false })
    }

    /// Returns whether the last round found no problem.
    pub(super) fn is_good(&self) -> bool {
        self.good
    }

    /// Builds the component, and tries it with the cases and the recordings. Returns `None` if the
    /// build failed.
    ///
    /// # Errors
    /// The component or a case cannot be used.
    pub(super) async fn round(&mut self) -> Result<Option<TriedComponent>, KitError> {
        self.good = false;
        self.printed.clear();
        let (page, start) = (OutputStyle::for_stdout(), Instant::now());
        if !self.build(page).await? {
            return Ok(None);
        }
        let path = self.component()?;
        let built = start.elapsed();
        let opened = open::component(&self.engine, &path).await?;
        terminal::line(&format!(
            "{} in {}: {}  {}",
            page.good("built"),
            terminal::time(built),
            page.bold(&open::title(&opened)),
            page.dim(&path.display().to_string())
        ));
        self.good = true;
        let cases = self.cases(&opened, page).await?;
        self.recordings(&opened, page).await?;
        self.printed.print();
        terminal::line(&page.dim(&format!("result after {}", terminal::time(start.elapsed()))));
        if self.baseline.is_none() {
            self.baseline = Some(self.first_build(&path).await?);
        }
        Ok(Some(TriedComponent { path, opened, cases }))
    }

    /// Runs the build. Prints the end of its output if it fails.
    async fn build(&self, page: OutputStyle) -> Result<bool, KitError> {
        let [script, name] = ["-c", BUILD_SCRIPT].map(OsString::from);
        let (folder, build) = (self.args.folder.as_os_str(), &self.args.build);
        let beside = std::env::current_exe().unwrap_or_default().with_file_name("aetheel");
        let aetheel = if beside.is_file() { beside.into() } else { OsString::from("aetheel") };
        let command = OperatorCommand {
            program: PathBuf::from("sh"),
            arguments: vec![script, name, "sh".into(), folder.to_owned(), build.into(), aetheel],
            inherits_stdin: false,
            limit: BUILD_LIMIT,
        };
        let (code, output) = command
            .output()
            .await
            .map_err(|error| KitError::failed(format!("`{build}`: {error}")))?;
        if code != 0 {
            let lines: Vec<&str> = output.lines().collect();
            lines[lines.len().saturating_sub(BUILD_LINES)..]
                .iter()
                .for_each(|line| terminal::line(&format!("  {line}")));
            terminal::line(&page.bad(&format!("`{build}` failed with exit code {code}")));
        }
        Ok(code == 0)
    }

    /// Returns the file that the build wrote.
    fn component(&self) -> Result<PathBuf, KitError> {
        let folder = &self.args.folder;
        if let Some(named) = &self.args.component {
            return Ok(folder.join(named));
        }
        let files = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
        let mut found: Vec<PathBuf> =
            files.filter(|path| path.extension().is_some_and(|end| end == "wasm")).collect();
        match (found.pop(), found.is_empty()) {
            (Some(only), true) => Ok(only),
            (None, _) => Err(KitError::failed(format!(
                "the build wrote no `*.wasm` into {}; name its file with --component",
                folder.display()
            ))),
            (Some(_), false) => Err(KitError::usage(format!(
                "there are several `*.wasm` in {}; name one with --component",
                folder.display()
            ))),
        }
    }

    /// Tries the cases of the project, and prints those that fail.
    async fn cases(
        &mut self,
        opened: &OpenedComponent,
        page: OutputStyle,
    ) -> Result<Vec<Case>, KitError> {
        let folder = self.args.folder.join("cases");
        if aetheel_recording::case::find(std::slice::from_ref(&folder)).is_err() {
            terminal::line(&page.dim("cases: there are no recordings in `cases`"));
            return Ok(Vec::new());
        }
        let cases = read_cases(vec![folder]).await?;
        let mut passed = 0;
        for case in &cases {
            let judged = golden::judge(&opened.backend, case).await;
            let (verdict, actions) = judged.map_err(unopened)?;
            passed += usize::from(test::print_failure(page, case, verdict, actions.len()));
        }
        let text = format!("cases: {passed} of {} passed", cases.len());
        self.good &= passed == cases.len();
        terminal::line(&if passed == cases.len() { page.good(&text) } else { page.bad(&text) });
        Ok(cases)
    }

    /// Reads the recordings, and prints the differences to the baseline and the answers that the
    /// component does not show.
    async fn recordings(
        &mut self,
        opened: &OpenedComponent,
        page: OutputStyle,
    ) -> Result<(), KitError> {
        if self.recordings.is_none() {
            self.recordings = Some(self.find_recordings(&opened.inspection.descriptor.name).await?);
        }
        let recordings = self.recordings.as_deref().unwrap_or_default();
        if recordings.is_empty() {
            return Ok(());
        }
        if let Some(baseline) = self.baseline.as_mut().filter(|found| found.replays.is_empty()) {
            baseline.replays = replay_all(&baseline.component, recordings).await?;
        }
        let replays = replay_all(opened, recordings).await?;
        let mut changed = 0;
        for (at, (case, replayed)) in recordings.iter().zip(&replays).enumerate() {
            let entries = summary::summarize(&case.tape, replayed);
            let problems: Vec<&SummaryEntry> =
                entries.iter().filter(|entry| is_problem(entry)).collect();
            self.good &= problems.is_empty();
            let apart = match &self.baseline {
                Some(baseline) => {
                    aetheel_kit::summary::changes(&case.tape, &baseline.replays[at], replayed)
                }
                None => problems.iter().map(|entry| (ChangeTag::Equal, (*entry).clone())).collect(),
            };
            changed += usize::from(!apart.is_empty() && self.baseline.is_some());
            print_differences(page, case, &apart);
        }
        let mut text = format!("recordings: {} read", recordings.len());
        if let Some(baseline) = &self.baseline {
            text.push_str(&match changed {
                0 => format!(", all as {} reads them", baseline.name),
                some => format!(", {some} not as {} reads them", baseline.name),
            });
        }
        terminal::line(&if changed == 0 { page.good(&text) } else { page.bold(&text) });
        Ok(())
    }

    /// Reads the named recordings and the newest ones of the gateway.
    async fn find_recordings(&self, backend: &str) -> Result<Vec<Case>, KitError> {
        let mut found = if self.args.recordings.is_empty() {
            Vec::new()
        } else {
            read_cases(self.args.recordings.clone()).await?
        };
        let (folder, limit) = (self.config.recordings_dir.clone(), self.args.turns);
        let backend = backend.to_owned();
        let read = tokio::task::spawn_blocking(move || recent(&folder, &backend, limit)).await;
        found.extend(read.unwrap_or_default());
        Ok(found)
    }

    /// Makes the first build the baseline. It is loaded again, because its file is replaced.
    async fn first_build(&self, path: &Path) -> Result<ComparedComponent, KitError> {
        let component = open::component(&self.engine, path).await?;
        Ok(ComparedComponent { name: "the first build".to_owned(), component, replays: Vec::new() })
    }

    /// Runs the check of the kit and prints its findings.
    pub(super) async fn check(&mut self, tried: TriedComponent) {
        let (page, start) = (OutputStyle::for_stdout(), Instant::now());
        let areas = match aetheel_kit::check::check(&tried.opened.backend, &tried.cases).await {
            Ok(areas) => areas,
            Err(failure) => {
                self.good = false;
                unopened(failure).report();
                return;
            }
        };
        areas
            .iter()
            .filter(|area| !area.findings.is_empty())
            .for_each(|area| check::print_area(page, area));
        let found: usize = areas.iter().map(|area| area.findings.len()).sum();
        let trials: usize = areas.iter().map(|area| area.trials).sum();
        let tried = format!("{} in {}", counted(trials, "trial"), terminal::time(start.elapsed()));
        self.good &= found == 0;
        terminal::line(&match found {
            0 => format!("{} {}", page.good("check: no problems found"), page.dim(&tried)),
            some => page.bad(&format!("check: {} ({tried})", counted(some, "finding"))),
        });
    }
}

fn unopened(failure: aetheel_recording::GuestFailure) -> KitError {
    KitError::failed(format!("no guest can be opened: {failure}"))
}

async fn replay_all(
    component: &OpenedComponent,
    recordings: &[Case],
) -> Result<Vec<ReplayResult>, KitError> {
    let mut replays = Vec::new();
    for case in recordings {
        let replayed = replay(&component.backend, &case.tape.entries, Batches::Single).await;
        replays.push(replayed.map_err(unopened)?);
    }
    Ok(replays)
}

/// Reads the newest recordings of a backend. Skips those that cannot be read. Blocks.
fn recent(folder: &Path, backend: &str, limit: usize) -> Vec<Case> {
    let paths = aetheel_recording::newest(folder, LOOKED_THROUGH).unwrap_or_default();
    let read = paths.into_iter().filter_map(|path| {
        let tape =
            ParsedRecording::read_unfinished(&read_ordinary(&path, MAX_READ_BYTES).ok()?).ok()?;
        (tape.header.backend == backend).then_some(Case { path, tape, actions: None })
    });
    read.take(limit).collect()
}

/// Returns whether an entry is an answer that was not read, a field that the component misses, or a
/// failure of the component.
fn is_problem(entry: &SummaryEntry) -> bool {
    matches!(entry.what.as_str(), "unread" | "missing" | "failed")
}

fn print_differences(page: OutputStyle, case: &Case, apart: &[(ChangeTag, SummaryEntry)]) {
    let mut place = 0;
    for (tag, entry) in apart.iter().take(MOST_SHOWN) {
        if entry.line != place {
            place = entry.line;
            terminal::line(&page.bold(&format!("  {}:{place}", case.path.display())));
        }
        let text = aetheel_model::plain::shortened(&entry.text.replace('\n', "⏎"), MOST_CHARACTERS);
        let line = |sign: char| format!("    {sign} {:<10} {text}", entry.what);
        terminal::line(&match tag {
            ChangeTag::Delete => page.bad(&line('-')),
            ChangeTag::Insert => page.good(&line('+')),
            ChangeTag::Equal => page.style(Style::Bad, &line('!')),
        });
    }
    if apart.len() > MOST_SHOWN {
        let more = counted(apart.len() - MOST_SHOWN, "more difference");
        terminal::line(&page.dim(&format!("    and {more}")));
    }
}

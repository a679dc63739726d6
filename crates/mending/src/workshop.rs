//! Builds candidates of a backend, where their author cannot reach.
//!
//! A build gets the operator's sources with the candidate's own `*.rs` files, the pinned lock file,
//! and no network. It runs in the sandbox: it reads the toolchain and the downloaded crates, and
//! writes only its own temporary folder. Its environment has no variable of the gateway. So a
//! candidate can at most fail, or take as long as the limit.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;
use tokio::time::timeout;

use super::files::{self, LinkPolicy, SourceFolderError};
use aetheel_kit::mend::{SourceFiles, SourcePatch};
use aetheel_model::agent::Exit;
use aetheel_model::agent::descriptor::Framing;
use aetheel_process::Custody;
use aetheel_turn::{Launch, LaunchError, Launcher as _, OutputLine, ProcessEvent, Reach};

const BUILD_TIMEOUT: Duration = Duration::from_secs(20 * 60);
/// Time limit for the question which toolchain is used.
const TOOLCHAIN_TIMEOUT: Duration = Duration::from_secs(60);
const TARGET: &str = "wasm32-wasip2";
/// Number of lines of a failed build that are kept, from its end.
const KEPT_LINES: usize = 80;
/// Limits of a build's output, in bytes.
const LINE_LIMIT: usize = 64 * 1024;
const OUTPUT_LIMIT: u64 = 64 << 20;

/// The reason why nothing can be built.
#[derive(Debug, thiserror::Error)]
pub enum WorkshopError {
    /// Agents are not confined on this machine.
    #[error(
        "agents are not confined here, so that the change of an agent cannot be built safely; set AGENT_SANDBOX to `landlock` or `bwrap`"
    )]
    NoSandbox,
    /// The sources cannot be used.
    #[error(transparent)]
    Source(#[from] SourceFolderError),
    /// There is no toolchain.
    #[error("there is no Rust toolchain with `cargo` for {}; install Rust with the target {TARGET}", .0.display())]
    NoToolchain(PathBuf),
    /// The temporary folder cannot be used.
    #[error("a temporary folder: {0}")]
    Scratch(#[from] io::Error),
    /// The build cannot be started.
    #[error("the build cannot be started: {0}")]
    Launch(#[from] LaunchError),
}

/// The reason why a candidate has no component.
#[derive(Debug, thiserror::Error)]
pub enum BuildFailure {
    /// It cannot be built on this machine at all.
    #[error(transparent)]
    Workshop(#[from] WorkshopError),
    /// The compiler refuses it. Contains the end of the output.
    #[error("it does not build:\n{0}")]
    Compiler(String),
    /// The build takes too long.
    #[error("its build takes longer than {} minutes", BUILD_TIMEOUT.as_secs() / 60)]
    Timeout,
    /// The build wrote no component.
    #[error("its build wrote no component: {0}")]
    NoComponent(String),
}

/// A place where candidates of one backend are built, one after the other.
pub struct Workshop {
    /// The operator's folder of sources.
    pub source: PathBuf,
    /// The operator's sources.
    pub original: SourceFiles,
    /// The folder of the backend's package below them; empty for a project with one backend.
    pub package: String,
    /// The toolchain and the crates, which may be read.
    pub readable: Vec<PathBuf>,
    scratch: TempDir,
    cargo: PathBuf,
    custody: Custody,
    hidden: Vec<PathBuf>,
    variables: Vec<(String, String)>,
}

impl Workshop {
    /// Copies the sources into a temporary folder and finds the toolchain. `variables` are those of
    /// the operator, and `hidden` paths are not readable for builds. `more` variables are passed to
    /// cargo.
    ///
    /// # Errors
    /// [`WorkshopError`] if nothing can be built here.
    pub async fn open(
        custody: Custody,
        hidden: Vec<PathBuf>,
        variables: &HashMap<String, String>,
        (source, backend): (&Path, &str),
        more: &[(&str, &str)],
    ) -> Result<Self, WorkshopError> {
        if !custody.sandbox().is_on() {
            return Err(WorkshopError::NoSandbox);
        }
        let sysroot = sysroot(&custody, source, variables).await?;
        let cargo = sysroot.join("bin/cargo");
        if !cargo.is_file() {
            return Err(WorkshopError::NoToolchain(source.to_owned()));
        }
        let home = variables.get("CARGO_HOME").map(PathBuf::from);
        let home = home.or_else(|| Some(Path::new(variables.get("HOME")?).join(".cargo")));
        let crates = home.map(|home| home.join("registry")).filter(|path| path.is_dir());
        let (source, backend) = (source.to_owned(), backend.to_owned());
        let folder = source.clone();
        let prefix = custody.scratch();
        let registry = crates.clone();
        let opened = move || -> Result<_, WorkshopError> {
            let original = files::read(&source, LinkPolicy::Followed)?;
            let package = files::package_of(&original, &source, &backend)?;
            let scratch = tempfile::Builder::new().prefix(&prefix).tempdir()?;
            files::write(&scratch.path().join("source"), &original)?;
            for folder in ["target", "tmp", "home"] {
                fs::create_dir(scratch.path().join(folder))?;
            }
            // Only the crates: the folder beside them may contain tokens of registries.
            if let Some(registry) = registry {
                symlink(registry, scratch.path().join("home/registry"))?;
            }
            Ok((original, package, scratch))
        };
        let opened = tokio::task::spawn_blocking(opened).await.map_err(io::Error::other)?;
        let (original, package, scratch) = opened?;
        let at = |name: &str| scratch.path().join(name).display().to_string();
        let path = format!("{}:/usr/local/bin:/usr/bin:/bin", sysroot.join("bin").display());
        let mut variables: Vec<(String, String)> = [
            ("PATH", path),
            ("HOME", at("home")),
            ("TMPDIR", at("tmp")),
            ("CARGO_HOME", at("home")),
            ("CARGO_TARGET_DIR", at("target")),
            ("CARGO_NET_OFFLINE", "true".to_owned()),
            ("CARGO_TERM_COLOR", "never".to_owned()),
            ("CARGO_INCREMENTAL", "0".to_owned()),
            ("RUSTC", sysroot.join("bin/rustc").display().to_string()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into();
        variables.extend(more.iter().map(|(name, value)| ((*name).into(), (*value).into())));
        let readable = [Some(sysroot), crates].into_iter().flatten().collect();
        let source = folder;
        Ok(Self { source, original, package, readable, scratch, cargo, custody, hidden, variables })
    }

    /// Returns the folders of the backend's own sources: `src` of its package and of the packages
    /// below it, for example `acp/src` and `acp/client/src`. Packages that run in the compiler are
    /// left out.
    #[must_use]
    pub fn sources(&self) -> Vec<String> {
        files::sources_of(&self.original, &self.package)
    }

    /// Builds a candidate and returns its component. Dropping the future ends the build.
    ///
    /// # Errors
    /// [`BuildFailure`].
    pub async fn build(&self, patch: &SourcePatch) -> Result<Vec<u8>, BuildFailure> {
        let (root, sources) = (self.scratch.path().join("source"), self.sources());
        let is_own = |name: &str| sources.iter().any(|folder| Path::new(name).starts_with(folder));
        let mut wanted: SourceFiles = self
            .original
            .iter()
            .filter(|(name, _)| is_own(name) && !patch.removed.contains(*name))
            .map(|(name, bytes)| (name.clone(), bytes.clone()))
            .collect();
        wanted.extend(patch.written.clone());
        let target = self.scratch.path().join("target").join(TARGET).join("release");
        let (folder, at) = (root.clone(), target.clone());
        let prepared = move || -> Result<(), WorkshopError> {
            // All sources are written anew, so that cargo sees that they changed.
            for own in &sources {
                fs::remove_dir_all(folder.join(own))?;
            }
            files::write(&folder, &wanted)?;
            for old in components(&at) {
                fs::remove_file(old)?;
            }
            Ok(())
        };
        let prepared = tokio::task::spawn_blocking(prepared).await;
        prepared.map_err(|error| WorkshopError::Scratch(io::Error::other(error)))??;
        let (exit, output) = timeout(BUILD_TIMEOUT, self.run_cargo(&root))
            .await
            .map_err(|_| BuildFailure::Timeout)??;
        if exit != Exit::Code(0) {
            return Err(BuildFailure::Compiler(output));
        }
        let found = components(&target);
        match &found[..] {
            [one] => fs::read(one).map_err(|error| BuildFailure::NoComponent(error.to_string())),
            _ => Err(BuildFailure::NoComponent(format!("there are {} files", found.len()))),
        }
    }

    /// Runs cargo in the sandbox. Returns the end of its output, without the temporary path.
    async fn run_cargo(&self, root: &Path) -> Result<(Exit, String), WorkshopError> {
        let manifest = Path::new(&self.package).join("Cargo.toml");
        let arguments =
            ["build", "--release", "--lib", "--offline", "--locked", "--target", TARGET];
        let mut arguments: Vec<OsString> = arguments.map(OsString::from).into();
        arguments.extend([OsString::from("--manifest-path"), manifest.into()]);
        let writable = ["target", "tmp", "home"].map(|name| self.scratch.path().join(name));
        let launch = Launch {
            run: "mend-build".to_owned(),
            proc: 1,
            program: self.cargo.clone(),
            arguments,
            environment: self.variables.clone(),
            cwd: root.to_owned(),
            stdin: Vec::new(),
            keep_open: false,
            framing: Framing::Lines,
            line_limit: LINE_LIMIT,
            output_limit: OUTPUT_LIMIT,
            reach: Reach {
                read: self.readable.iter().cloned().chain([root.to_owned()]).collect(),
                write: writable.into(),
                hidden: self.hidden.clone(),
                ..Reach::default()
            },
        };
        let (how, lines) = output_of(&self.custody, launch).await?;
        let scratch = self.scratch.path().display().to_string();
        Ok((how, lines.join("\n").replace(&scratch, "")))
    }
}

fn components(folder: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    files.filter(|path| path.extension().is_some_and(|end| end == "wasm")).collect()
}

/// Returns the folder of the toolchain that the operator uses for these sources. Asks in the
/// sandbox, because no other program of this process may start programs.
async fn sysroot(
    custody: &Custody,
    source: &Path,
    variables: &HashMap<String, String>,
) -> Result<PathBuf, WorkshopError> {
    let home = |name: &str, folder: &str| {
        let set = variables.get(name).map(PathBuf::from);
        set.or_else(|| Some(Path::new(variables.get("HOME")?).join(folder)))
    };
    let named = ["PATH", "HOME", "RUSTUP_HOME", "CARGO_HOME", "RUSTUP_TOOLCHAIN"];
    let passed =
        named.into_iter().filter_map(|name| Some((name.to_owned(), variables.get(name)?.clone())));
    let programs = home("CARGO_HOME", ".cargo").map(|home| home.join("bin"));
    let read = programs.into_iter().chain(home("RUSTUP_HOME", ".rustup"));
    let read =
        read.chain(variables.get("PATH").into_iter().flat_map(|path| compiler_folders(path)));
    let launch = Launch {
        run: "mend-toolchain".to_owned(),
        proc: 1,
        program: PathBuf::from("rustc"),
        arguments: ["--print", "sysroot"].map(OsString::from).into(),
        environment: passed.collect(),
        cwd: source.to_owned(),
        stdin: Vec::new(),
        keep_open: false,
        framing: Framing::Lines,
        line_limit: LINE_LIMIT,
        output_limit: OUTPUT_LIMIT,
        reach: Reach { read: read.chain([source.to_owned()]).collect(), ..Reach::default() },
    };
    let asked = timeout(TOOLCHAIN_TIMEOUT, output_of(custody, launch)).await;
    match asked.map_err(|_| WorkshopError::NoToolchain(source.to_owned()))? {
        Ok((Exit::Code(0), lines)) => {
            let path = lines.iter().map(PathBuf::from).find(|path| path.is_absolute());
            path.ok_or_else(|| WorkshopError::NoToolchain(source.to_owned()))
        }
        Ok(_) | Err(LaunchError::NotFound(_)) => Err(WorkshopError::NoToolchain(source.to_owned())),
        Err(error) => Err(error.into()),
    }
}

/// Returns the folders that the first `rustc` of PATH needs: its own, that of the file to which it
/// links, and the libraries beside that.
fn compiler_folders(path: &str) -> Vec<PathBuf> {
    let all = std::env::split_paths(path).map(|folder| folder.join("rustc"));
    let Some(found) = all.into_iter().find(|file| file.is_file()) else { return Vec::new() };
    let real = fs::canonicalize(&found).unwrap_or_else(|_| found.clone());
    let own = [found.parent(), real.parent()].into_iter().flatten().map(Path::to_owned);
    let libraries = real.parent().and_then(Path::parent).map(|root| root.join("lib"));
    own.chain(libraries.filter(|folder| folder.is_dir())).collect()
}

/// Runs a program to its end. Returns its exit and the last lines of its output.
async fn output_of(custody: &Custody, launch: Launch) -> Result<(Exit, Vec<String>), LaunchError> {
    let mut process = custody.launch(launch).await?;
    let (mut lines, mut how) = (Vec::new(), Exit::Unknown);
    while let Some(event) = process.events.recv().await {
        match event {
            ProcessEvent::Lines(more) => {
                lines.extend(more.into_iter().map(|OutputLine { text, .. }| text));
                let excess = lines.len().saturating_sub(KEPT_LINES);
                lines.drain(..excess);
            }
            ProcessEvent::OutputLimit => {}
            ProcessEvent::Exited { how: exit, .. } => how = exit,
        }
    }
    Ok((how, lines))
}

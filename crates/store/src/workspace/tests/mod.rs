use std::fs;
use std::io::Write as _;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime};

use super::documents::KnownDocument;
use super::*;
use aetheel_model::agent::SessionId;
use aetheel_model::budget::BudgetRules;
use aetheel_model::prompt::Document;

mod layout;
mod layout_files;
mod state_files;

impl Workspace {
    fn memory_path(&self) -> PathBuf {
        self.documents.path(Document::Memory)
    }

    async fn read_documents(&self) -> Documents {
        self.read_documents_in(&MemoryLocation::OperatorFile).await
    }

    async fn append_memory(&self, text: &str) -> Result<(), FileError> {
        self.append_memory_in(&MemoryLocation::OperatorFile, text).await
    }
}

async fn workspace() -> (tempfile::TempDir, Workspace) {
    let folder = tempfile::tempdir().unwrap();
    let workspace = Workspace::open(&folder.path().join("config")).await.unwrap();
    (folder, workspace)
}

fn put(workspace: &Workspace, file: &str, text: impl AsRef<[u8]>) {
    fs::write(workspace.folder().join(file), text).unwrap();
}

#[tokio::test]
async fn an_empty_folder_gets_only_a_memory() {
    let (_folder, workspace) = workspace().await;
    assert!(!workspace.memory_path().exists(), "opening does not create it");
    let documents = workspace.read_documents().await;
    assert_eq!(documents.get(Document::Memory), Some("# Memory\n"));
    assert!(
        Document::ALL
            .into_iter()
            .all(|document| document == Document::Memory || documents.get(document).is_none())
    );
    fs::remove_file(workspace.memory_path()).unwrap();
    assert_eq!(
        workspace.read_documents().await.get(Document::Memory),
        Some("# Memory\n"),
        "created again"
    );
    assert_eq!(fs::read_to_string(workspace.memory_path()).unwrap(), "# Memory\n");
    assert!(documents.warnings.is_empty() && workspace.folder().is_absolute());
}

#[tokio::test]
async fn every_read_sees_the_latest_content_however_it_was_written() {
    let (folder, workspace) = workspace().await;
    let soul = workspace.folder().join("soul.md");
    let read = async || workspace.read_documents().await.get(Document::Soul).map(str::to_owned);
    for text in ["one", "two", "six"] {
        fs::write(&soul, text).unwrap();
        assert_eq!(read().await.as_deref(), Some(text), "written in place, same size, at once");
    }
    let other = folder.path().join("other.md");
    fs::write(&other, "renamed").unwrap();
    fs::rename(&other, &soul).unwrap();
    assert_eq!(read().await.as_deref(), Some("renamed"));
    fs::write(&other, "linked").unwrap();
    fs::remove_file(&soul).unwrap();
    std::os::unix::fs::symlink(&other, &soul).unwrap();
    assert_eq!(read().await.as_deref(), Some("linked"));
    fs::remove_file(&soul).unwrap();
    assert_eq!(read().await, None);
}

#[tokio::test]
async fn our_own_appends_are_read_at_once_and_later_writes_of_others_are_not() {
    let (_folder, workspace) = workspace().await;
    let memory = workspace.memory_path();
    workspace.append_memory("- likes tea").await.unwrap();
    let want = |ours| stable_read::ReadRequest {
        path: memory.clone(),
        limit: DOCUMENT_LIMIT,
        keep_end: true,
        expected: true,
        ours,
        shrinks_below: 0,
        now: std::time::SystemTime::now,
    };
    let ours = *workspace.documents.memory_stamp.lock();
    assert_eq!(ours, stable_read::stamp(&memory).unwrap(), "the stamp after our write is known");
    let settled = |want| stable_read::read_once(&want);
    assert!(settled(want(ours)));
    // The file is never at rest, however slow this machine is.
    fs::File::open(&memory)
        .unwrap()
        .set_modified(SystemTime::now() + Duration::from_secs(3600))
        .unwrap();
    assert!(!settled(want(ours)), "another program wrote it");
    assert!(settled(want(stable_read::stamp(&memory).unwrap())), "the state decides, not the time");
}

#[tokio::test]
async fn a_file_that_is_too_large_or_not_text_is_used_in_part_with_a_warning() {
    let (_folder, workspace) = workspace().await;
    let limit = usize::try_from(DOCUMENT_LIMIT).unwrap();
    put(&workspace, "soul.md", "é".repeat(limit / 2 + 1).as_bytes());
    put(&workspace, "memory.md", format!("x{}", "é".repeat(limit / 2 + 1)));
    put(&workspace, "tools.md", format!("x{}", "é".repeat(limit / 2 + 1)));
    put(&workspace, "user.md", b"caf\xe9");
    fs::create_dir(workspace.folder().join("agents.md")).unwrap();
    let documents = workspace.read_documents().await;
    let bytes = |document| documents.get(document).unwrap().len();
    assert_eq!(
        (bytes(Document::Soul), bytes(Document::Memory), bytes(Document::Tools)),
        (limit, limit, limit - 1)
    );
    assert_eq!(documents.get(Document::User), Some("caf\u{fffd}"));
    for part in [
        "soul.md is larger",
        "memory.md is larger",
        "tools.md is larger",
        "user.md is not valid",
        "agents.md cannot be read: it is a folder",
    ] {
        assert!(
            documents.warnings.iter().any(|warning| warning.contains(part)),
            "{part}: {:#?}",
            documents.warnings
        );
    }
    assert_eq!(documents.warnings.len(), 5);
}

#[tokio::test]
async fn a_pipe_in_place_of_a_file_does_not_block() {
    let (_folder, workspace) = workspace().await;
    let pipe = workspace.folder().join("soul.md");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let documents = tokio::time::timeout(Duration::from_secs(5), workspace.read_documents())
        .await
        .expect("read hangs");
    assert!(
        documents.warnings[0].starts_with("soul.md cannot be read"),
        "{:?}",
        documents.warnings
    );
}

/// Returns one of many texts of different lengths, each recognisable as complete.
fn generation(n: usize) -> String {
    format!("begin {n}\n{}end {n}\n", "a line of the file\n".repeat(2_000 + n % 7 * 300))
}

fn is_whole(text: &str) -> bool {
    let numbers = || text.strip_prefix("begin ")?.lines().next()?.parse().ok();
    numbers().is_some_and(|n: usize| text == generation(n))
}

/// Writes generations in place, as fast as it can, until it is stopped.
struct GenerationWriter {
    stop: Arc<AtomicBool>,
    written: Arc<AtomicUsize>,
    /// The longest time that it was delayed in the middle of a write, in milliseconds.
    longest_pause: Arc<AtomicUsize>,
    thread: std::thread::JoinHandle<()>,
}

impl GenerationWriter {
    fn start(path: PathBuf) -> Self {
        let (stop, written, longest_pause) = (
            Arc::<AtomicBool>::default(),
            Arc::<AtomicUsize>::default(),
            Arc::<AtomicUsize>::default(),
        );
        let thread = std::thread::spawn({
            let (stop, written, longest_pause) =
                (Arc::clone(&stop), Arc::clone(&written), Arc::clone(&longest_pause));
            move || {
                while !stop.load(Ordering::Relaxed) {
                    let text = generation(written.load(Ordering::Relaxed) + 1);
                    let mut last = Instant::now();
                    let mut file = fs::File::create(&path).unwrap();
                    for piece in text.as_bytes().chunks(4096) {
                        file.write_all(piece).unwrap();
                        longest_pause
                            .fetch_max(last.elapsed().as_millis() as usize, Ordering::Relaxed);
                        last = Instant::now();
                    }
                    written.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        Self { stop, written, longest_pause, thread }
    }

    fn wait_for_more(&self) {
        let (limit, now) =
            (Instant::now() + Duration::from_secs(20), self.written.load(Ordering::Relaxed));
        while self.written.load(Ordering::Relaxed) < now + 2 {
            assert!(Instant::now() < limit && !self.thread.is_finished(), "the writer is stuck");
            std::thread::yield_now();
        }
    }

    /// Stops it and returns the number of the last generation.
    fn stop(self) -> usize {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap();
        self.written.load(Ordering::Relaxed)
    }
}

#[tokio::test]
async fn a_file_that_is_being_written_in_place_is_never_seen_torn() {
    let (_folder, workspace) = workspace().await;
    let soul = workspace.folder().join("soul.md");
    put(&workspace, "soul.md", generation(0));
    assert_eq!(workspace.read_documents().await.get(Document::Soul), Some(generation(0).as_str()));
    let writer = GenerationWriter::start(soul.clone());
    let limit = Instant::now() + Duration::from_secs(20);
    while is_whole(&fs::read_to_string(&soul).unwrap()) {
        assert!(Instant::now() < limit, "naive reads were never torn, so this test proves nothing");
    }
    let mut warned = false;
    for _ in 0..15 {
        let documents = workspace.read_documents().await;
        warned |=
            documents.warnings.iter().any(|warning| warning.contains("soul.md keeps changing"));
        if !is_whole(documents.get(Document::Soul).unwrap()) {
            // A torn read is only excused on a busy machine, if the writer itself was stopped for
            // longer than the reader waits.
            writer.wait_for_more();
            let pause =
                Duration::from_millis(writer.longest_pause.load(Ordering::Relaxed) as u64 + 1);
            assert!(
                pause >= stable_read::REST_TIMEOUT,
                "torn, and the writer never paused for longer than {pause:?}"
            );
        }
    }
    let last = writer.stop();
    assert!(warned, "a file that keeps changing causes a warning");
    let documents = workspace.read_documents().await;
    assert_eq!(documents.get(Document::Soul), Some(generation(last).as_str()), "fresh again");
    assert!(documents.warnings.is_empty());
}

#[tokio::test]
async fn memory_is_appended_on_lines_of_its_own() {
    let (_folder, workspace) = workspace().await;
    put(&workspace, "memory.md", "# Mine\nno newline at the end");
    workspace.append_memory("\n- one\n- two\n\n").await.unwrap();
    workspace.append_memory("- three").await.unwrap();
    workspace.append_memory(" \n").await.unwrap();
    let expected = "# Mine\nno newline at the end\n- one\n- two\n- three\n";
    assert_eq!(fs::read_to_string(workspace.memory_path()).unwrap(), expected);
    assert_eq!(workspace.read_documents().await.get(Document::Memory), Some(expected));
    fs::remove_file(workspace.memory_path()).unwrap();
    workspace.append_memory("- four").await.unwrap();
    assert_eq!(fs::read_to_string(workspace.memory_path()).unwrap(), "# Memory\n\n- four\n");
}

#[tokio::test]
async fn notes_of_one_place_are_not_read_in_another() {
    let (_folder, workspace) = workspace().await;
    let here = |file: &str| MemoryLocation::NotesFile {
        file: file.to_owned(),
        called: "this channel".to_owned(),
    };
    workspace.append_memory_in(&here("channel-1.md"), "- one\n").await.unwrap();
    workspace.append_memory_in(&here("channel-1.md"), "- two\n").await.unwrap();
    workspace.append_memory_in(&MemoryLocation::Discarded, "- lost\n").await.unwrap();
    workspace.append_memory_in(&MemoryLocation::OperatorFile, "- all\n").await.unwrap();
    let noted = async |place: &MemoryLocation| workspace.read_documents_in(place).await.notes;
    assert_eq!(
        noted(&here("channel-1.md")).await,
        Some(("this channel".to_owned(), "# Memory\n\n- one\n- two\n".to_owned()))
    );
    for place in [here("channel-2.md"), MemoryLocation::OperatorFile, MemoryLocation::Discarded] {
        assert_eq!(noted(&place).await, None);
    }
    let operators = fs::read_to_string(workspace.memory_path()).unwrap();
    assert_eq!(operators, "# Memory\n\n- all\n");
}

#[tokio::test]
async fn concurrent_reads_never_see_torn_appends() {
    let (_folder, workspace) = workspace().await;
    workspace.read_documents().await;
    let appending = tokio::spawn({
        let workspace = workspace.clone();
        async move {
            for n in 0..30 {
                workspace
                    .append_memory(&format!("- begin {n} {} end", "x".repeat(20_000)))
                    .await
                    .unwrap();
            }
        }
    });
    let mut seen = 0;
    while !appending.is_finished() {
        let documents = workspace.read_documents().await;
        let text = documents.get(Document::Memory).unwrap();
        assert!(
            text.lines().skip(1).all(|line| line.starts_with("- begin ") && line.ends_with(" end")),
            "torn"
        );
        seen = seen.max(text.lines().count());
    }
    appending.await.unwrap();
    assert_eq!(workspace.read_documents().await.get(Document::Memory).unwrap().lines().count(), 31);
    assert!(seen > 0);
}

#[tokio::test]
async fn an_error_names_the_folder_that_cannot_be_created() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let error = Workspace::open(&file).await.unwrap_err();
    assert!(error.to_string().contains("file/state"), "{error}");
    assert!(std::error::Error::source(&error).is_some());
}

/// Set in a child process that has a small disk of its own.
const SMALL_DISK: &str = "AETHEEL_TEST_SMALL_DISK";

#[test]
fn a_full_disk_is_an_error_and_existing_content_stays() {
    if let Some(disk) = std::env::var_os(SMALL_DISK) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        return runtime.block_on(on_a_full_disk(Path::new(&disk)));
    }
    // A file system of 64 KiB that only the child sees and that ends with it.
    let folder = tempfile::tempdir().unwrap();
    let script = r#"mount -t tmpfs -o size=64k none "$1" || exit 99; shift; exec "$@""#;
    let name = std::thread::current().name().unwrap().to_owned();
    let output = std::process::Command::new("unshare")
        .args(["--map-root-user", "--mount", "sh", "-c", script, "sh"])
        .arg(folder.path())
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", &name, "--nocapture"])
        .env(SMALL_DISK, folder.path())
        .output();
    match output {
        Ok(output) if output.status.success() => {
            assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"), "{output:?}");
        }
        Ok(output) if output.status.code() == Some(101) => {
            panic!("{}", String::from_utf8_lossy(&output.stdout))
        }
        unable => eprintln!("not shown here: no private file system ({unable:?})"),
    }
}

async fn on_a_full_disk(disk: &Path) {
    use aetheel_model::event::Lane;
    use aetheel_model::id::ChannelId;

    let workspace = Workspace::open(disk).await.unwrap();
    workspace.append_memory("- known").await.unwrap();
    let lane = Lane::Channel(ChannelId::discord(1));
    let session = |id: &str| Some(SessionId::new(id).unwrap());
    workspace.state.bindings.set_session(&lane, "claude", session("known")).await.unwrap();
    let sessions = disk.join("state").join("sessions.md");
    let before = fs::read(&sessions).unwrap();
    let filler = disk.join("filler");
    // Tmpfs allocates whole pages, so the file system is filled first and then the rest of the last
    // page of memory.md.
    let mut file = fs::File::create(&filler).unwrap();
    while file.write_all(&[0; 512]).is_ok() {}
    let memory = fs::read(workspace.memory_path()).unwrap();
    let error = workspace.append_memory(&"- too much\n".repeat(1_000)).await.unwrap_err();
    assert!(
        error.to_string().contains("append to") && error.to_string().contains("memory.md"),
        "{error}"
    );
    assert_eq!(fs::read(workspace.memory_path()).unwrap(), memory, "nothing is half-written");
    workspace.state.bindings.set_session(&lane, "claude", session("new")).await.unwrap_err();
    assert_eq!(fs::read(&sessions).unwrap(), before);
    fs::remove_file(&filler).unwrap();
    drop(file);
    workspace.append_memory("- after").await.unwrap();
    workspace
        .state
        .bindings
        .set_session(&Lane::Channel(ChannelId::discord(2)), "claude", session("two"))
        .await
        .unwrap();
    let again = Workspace::open(disk).await.unwrap();
    assert_eq!(
        again.state.bindings.get(&lane, "claude").await.session,
        session("new"),
        "written with the next"
    );
    assert!(fs::read_to_string(workspace.memory_path()).unwrap().ends_with("- known\n- after\n"));
    assert_eq!(fs::read_dir(disk.join("state")).unwrap().count(), 1, "no temporary file is left");
}

#[tokio::test]
async fn the_starter_files_make_a_complete_prompt() {
    use aetheel_model::prompt::{MemoryTarget, assemble};

    let (_folder, workspace) = workspace().await;
    let starters = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../config");
    for document in Document::ALL {
        fs::copy(starters.join(document.file()), workspace.folder().join(document.file())).unwrap();
    }
    let prompt = assemble(&workspace.read_documents().await, MemoryTarget::OperatorFile);
    assert_eq!((prompt.sections.len(), prompt.warnings), (6, Vec::new()));
    assert!(prompt.text.len() < 6_000, "starters are short: {} bytes", prompt.text.len());
}

#[tokio::test]
async fn an_unchanged_document_keeps_its_text_and_warnings_without_being_read_again() {
    let (_folder, workspace) = workspace().await;
    put(&workspace, "soul.md", b"calm \xff".as_slice());
    let first = workspace.read_documents().await;
    assert_eq!(first.get(Document::Soul), Some("calm \u{fffd}"));
    assert_eq!(first.warnings.len(), 1);
    let known = workspace.documents.known.lock().clone();
    let second = workspace.read_documents().await;
    assert_eq!(second.get(Document::Soul), first.get(Document::Soul));
    assert_eq!(second.warnings, first.warnings);
    let is_same = |before: &Option<Arc<KnownDocument>>, now: &Option<Arc<KnownDocument>>| {
        before.as_ref().zip(now.as_ref()).is_some_and(|(before, now)| Arc::ptr_eq(before, now))
    };
    let soul = Document::Soul as usize;
    assert!(is_same(&known[soul], &workspace.documents.known.lock()[soul]));
    put(&workspace, "soul.md", "lively");
    let third = workspace.read_documents().await;
    assert_eq!((third.get(Document::Soul), third.warnings.len()), (Some("lively"), 0));
}

//! Tests that attached files reach the agent, and that nothing else receives their contents.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use aetheel_dispatch::PromptRefusal;
use aetheel_model::agent::{Action, Chunk, Exit, HostCommand, Input, PromptPart};
use aetheel_model::event::{AttachedFile, NewEvent};

use crate::support::scripted::{
    Agent, Desk, DeskOptions, ScriptedLauncher, Understanding, message, plain, spawn,
};

const PNG: &[u8] = b"\x89PNG\r\n\x1a\nand pixels";

fn file(name: &str, source: &str) -> AttachedFile {
    AttachedFile {
        name: name.to_owned(),
        media_type: Some("image/png".to_owned()),
        size: 20,
        source: source.to_owned(),
    }
}

/// Like `plain`, but also writes `<base64>` for images and the paths of files to the agent.
fn writing_files() -> Understanding {
    let plain = plain();
    Arc::new(move |state, input| {
        let Input::Command(HostCommand::StartTurn(start)) = input else {
            return plain(state, input);
        };
        let Action::Spawn(mut action) = spawn(start, &[]) else { unreachable!("it spawns") };
        action.stdin = start
            .parts
            .iter()
            .flat_map(|part| match part {
                PromptPart::Text(text) => vec![Chunk::Text(format!("{text}\n"))],
                PromptPart::Image(image) => vec![
                    Chunk::Text(format!(
                        "image {} {} {} at {}\n<",
                        image.name, image.media_type, image.size, image.path
                    )),
                    Chunk::Base64(image.blob),
                    Chunk::Text(">\n".to_owned()),
                ],
                PromptPart::File(file) => vec![Chunk::Text(format!(
                    "file {} {} {} at {}\n",
                    file.name, file.media_type, file.size, file.path
                ))],
            })
            .collect();
        Ok(vec![Action::Spawn(action)])
    })
}

/// The messages that agents received, and the contents of the files that they name.
type Found = Arc<Mutex<Vec<(String, Vec<(PathBuf, Vec<u8>)>)>>>;

async fn desk(feature: Option<&'static str>, files: &[(&str, &[u8])]) -> (Desk, Found) {
    let found = Found::default();
    let seen = Arc::clone(&found);
    let launcher = ScriptedLauncher::new(move |agent: Agent| {
        let seen = Arc::clone(&seen);
        async move {
            let places =
                agent.prompt.split(" at /").skip(1).map(|rest| {
                    PathBuf::from(format!("/{}", rest.split(['\n', ']']).next().unwrap()))
                });
            let files = places
                .map(|path| (path.clone(), std::fs::read(&path).expect("the agent can read it")))
                .collect();
            seen.lock().unwrap().push((agent.prompt.clone(), files));
            agent.say(&["text ok", "done"]).await;
            agent.exit(Exit::Code(0), "").await;
        }
    });
    let desk = Desk::new(
        launcher,
        DeskOptions { understanding: writing_files(), feature, ..DeskOptions::default() },
    )
    .await;
    let kept = files.iter().map(|(source, bytes)| ((*source).to_owned(), bytes.to_vec()));
    desk.collected.files.lock().unwrap().extend(kept);
    (desk, found)
}

fn with(prompt: &str, attached: Vec<AttachedFile>) -> NewEvent {
    NewEvent { attached, ..message(1, prompt) }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_reaches_an_agent_that_accepts_images_and_no_recording() {
    let (desk, found) = desk(Some("images"), &[("a", PNG), ("b", b"not an image")]).await;
    desk.dispatcher
        .intake
        .submit(with("look", vec![file("../../evil\n--name.exe", "a"), file("claims.png", "b")]))
        .unwrap();
    let answer = desk.collected.answers(1).await.remove(0).1;
    assert_eq!((answer.text.as_str(), answer.failure, answer.notices), ("ok", None, vec![]));
    desk.dispatcher.turns.idle().await;
    let (prompt, files) = found.lock().unwrap().remove(0);
    let [(path, bytes)] = &files[..] else { panic!("one file: {files:?}") };
    assert_eq!(bytes, PNG);
    assert!(
        path.starts_with(desk.folder.path().join("workspace")) && path.ends_with("att-1.png"),
        "{}",
        path.display()
    );
    assert!(!path.exists() && !path.parent().unwrap().exists(), "removed with the turn");
    let wanted = format!(
        "look\nimage _.._evil_--name.exe image/png {} at {}\n<iVBORw0KGgphbmQgcGl4ZWxz>\n[Attached file: claims.png]\n```\nnot an image\n```\n",
        PNG.len(),
        path.display()
    );
    assert_eq!(prompt, wanted);
    desk.recorder.flush();
    let recorded: String = std::fs::read_dir(desk.folder.path().join("recordings"))
        .unwrap()
        .flat_map(|day| std::fs::read_dir(day.unwrap().path()).unwrap())
        .map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap())
        .collect();
    assert!(
        recorded.contains(" bytes, sha256 ")
            && !recorded.contains("iVBOR")
            && !recorded.contains("pixels"),
        "{recorded}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_accepts_files_gets_them_and_another_one_gets_their_paths() {
    let big = vec![b'x'; 70 << 10];
    let files: &[(&str, &[u8])] =
        &[("pdf", b"%PDF-1.7\0"), ("big", &big), ("png", PNG), ("text", b"@/etc/passwd")];
    let sent = || {
        vec![
            file("a.pdf", "pdf"),
            file("big.log", "big"),
            file("c.png", "png"),
            file("d.txt", "text"),
        ]
    };
    let (first, found) = desk(Some("files"), files).await;
    first.dispatcher.intake.submit(with("look", sent())).unwrap();
    first.collected.answers(1).await;
    let (prompt, read) = found.lock().unwrap().remove(0);
    assert_eq!(
        read.iter().map(|(_, bytes)| bytes.len()).collect::<Vec<_>>(),
        [9, 70 << 10, PNG.len(), 12]
    );
    for line in [
        "file a.pdf application/octet-stream 9 at ",
        "file big.log text/plain 71680 at ",
        "file c.png image/png 18 at ",
        "file d.txt text/plain 12 at ",
    ] {
        assert!(prompt.contains(line), "{line:?} in {prompt}");
    }
    let (second, found) = desk(None, files).await;
    second.dispatcher.intake.submit(with("look", sent())).unwrap();
    second.collected.answers(1).await;
    let (prompt, read) = found.lock().unwrap().remove(0);
    assert_eq!(
        read.iter().map(|(_, bytes)| bytes.len()).collect::<Vec<_>>(),
        [9, 70 << 10, PNG.len()]
    );
    for line in [
        "[Attached file: a.pdf (application/octet-stream, 9 bytes) at ",
        "[Attached file: d.txt]\n```\n\\@/etc/passwd\n```\n",
    ] {
        assert!(prompt.contains(line), "{line:?} in {prompt}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn too_many_and_too_large_files_are_refused_before_anything_is_read() {
    let (desk, _) = desk(None, &[]).await;
    let many = desk.dispatcher.intake.submit(with("look", vec![file("a", "a"); 11])).unwrap_err();
    assert_eq!(many.to_string(), "That is 11 files, at most 10 are taken. Send fewer.");
    let huge = AttachedFile { size: (10 << 20) + 1, ..file("my @everyone/film.mp4", "a") };
    let large =
        desk.dispatcher.intake.submit(with("look", vec![file("a", "a"), huge])).unwrap_err();
    assert_eq!(
        large.to_string(),
        "\"my _everyone_film.mp4\" is too large: 10485761 bytes, at most 10485760 are taken. Send a smaller one."
    );
    assert!(matches!(large, PromptRefusal::FileTooLarge { .. }));
}

#[tokio::test(flavor = "multi_thread")]
async fn files_that_fail_or_have_a_wrong_size_are_named_and_the_turn_continues() {
    let lie = vec![0; (10 << 20) + 1];
    let (desk, found) = desk(None, &[("lie", &lie), ("good", b"good words")]).await;
    desk.dispatcher
        .intake
        .submit(with(
            "look",
            vec![file("gone.png", "nowhere"), file("lie.bin", "lie"), file("good.txt", "good")],
        ))
        .unwrap();
    let answer = desk.collected.answers(1).await.remove(0).1;
    assert_eq!(answer.text, "ok");
    assert_eq!(
        answer.notices,
        [
            "\"gone.png\" was not taken: the file is gone.",
            "\"lie.bin\" was not taken: it has more than 10485760 bytes."
        ]
    );
    let prompt = found.lock().unwrap().remove(0).0;
    assert!(
        prompt.contains("[A file that came with this could not be read: gone.png]")
            && prompt.contains("good words"),
        "{prompt}"
    );

    desk.dispatcher.intake.submit(with("", vec![file("gone.png", "nowhere")])).unwrap();
    let answer = desk.collected.answers(2).await.remove(1).1;
    assert!(
        answer.failure.is_some_and(
            |failure| failure.starts_with("None of the files could be taken. (files, ")
        )
    );
    assert_eq!(answer.notices.len(), 1);
    desk.dispatcher.intake.submit(with("", vec![file("good.txt", "good")])).unwrap();
    desk.collected.answers(3).await;
    assert!(
        found.lock().unwrap().remove(0).0.starts_with("(no words, only files)\n"),
        "no turn began in vain"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn no_file_is_stored_in_a_directory_that_was_replaced_by_a_link() {
    let (desk, found) = desk(Some("files"), &[("pdf", b"%PDF-1.7\0")]).await;
    let at = |name: &str| desk.folder.path().join(name);
    std::fs::create_dir(at("elsewhere")).unwrap();
    std::fs::rename(at("workspace"), at("moved")).unwrap();
    std::os::unix::fs::symlink("elsewhere", at("workspace")).unwrap();
    desk.dispatcher.intake.submit(with("look", vec![file("a.pdf", "pdf")])).unwrap();
    let answer = desk.collected.answers(1).await.remove(0).1;
    assert_eq!(answer.notices, ["\"a.pdf\" was not taken: it could not be saved."]);
    assert_eq!(std::fs::read_dir(at("elsewhere")).unwrap().count(), 0);
    assert!(found.lock().unwrap().iter().all(|(_, files)| files.is_empty()));
}

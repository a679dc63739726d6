//! `aetheel console` at a terminal with line editing: the content of its screen.

use std::num::NonZeroU16;

use rustix::process::{Pid, Signal, kill_process};

use crate::support::program::{Installation, Program};

const INTERRUPT: &str = "\x03";
const END: &str = "\x04";
const ROWS: u16 = 60;
const COLUMNS: u16 = 100;

/// Starts a console and waits for its prompt.
async fn start_console(installation: &Installation) -> Program {
    let line = format!(
        "stty rows {ROWS} cols {COLUMNS}; \"$AETHEEL\" console --backend demo; stty -a; echo gone"
    );
    let console = installation.start_at("xterm", &line);
    wait_for_text(&console, "/help for commands\n> \n").await;
    console
}

/// Returns the content of the screen after this output.
fn screen(printed: &str) -> String {
    let [rows, columns] = [ROWS, COLUMNS].map(|size| NonZeroU16::new(size).unwrap());
    let mut terminal = vt100::Parser::new(rows, columns, 0);
    terminal.process(printed.as_bytes());
    let rows: Vec<String> =
        terminal.screen().contents().lines().map(|row| row.trim_end().to_owned() + "\n").collect();
    // Blanks at the end of a row are removed, except after the prompt character.
    rows.concat().replace("\n>\n", "\n> \n")
}

/// Waits until the screen contains this text.
async fn wait_for_text(console: &Program, text: &str) {
    wait_for_screen(console, &format!("{text:?}"), |screen| screen.contains(text)).await;
}

async fn wait_for_screen(console: &Program, what: &str, right: impl Fn(&str) -> bool) {
    let found = |printed: &str| right(&screen(printed)).then_some(());
    console.prints(&format!("{what} on the screen"), found).await;
}

/// Waits until an answer is complete. Before that, Ctrl-C would stop the turn.
async fn wait_for_answer(console: &Program, text: &str) {
    wait_for_screen(console, &format!("the answer {text:?}"), |screen| {
        screen.rfind(text).is_some_and(|at| screen[at..].contains(" out]\n"))
    })
    .await;
}

/// Types Ctrl-D once the console reads a prompt. Before that, the terminal itself would take it for
/// the end of an empty line.
async fn type_end(console: &mut Program) {
    let reads = |printed: &str| {
        let [on, off] = ["\x1b[?2004h", "\x1b[?2004l"].map(|mode| printed.rfind(mode));
        (on > off).then_some(())
    };
    console.prints("a prompt", reads).await;
    console.type_in(END).await;
}

#[tokio::test]
async fn pasted_text_is_one_prompt_and_text_longer_than_the_screen_is_complete() {
    let installation = Installation::new();
    let mut console = start_console(&installation).await;
    console.type_in("\x1b[200~one\ntwo\r\nthree\x1b[201~ and more").await;
    wait_for_text(&console, "> one\ntwo\nthree and more\n").await;
    console.type_in("\r").await;
    wait_for_answer(
        &console,
        "You said: one\ntwo\nthree and more\n\nThis is message 1 of our conversation.\n",
    )
    .await;
    let long = "x".repeat(9000);
    console.type_in(&format!("\x1b[200~{long}\n{long}\x1b[201~\r")).await;
    // Twice in the echoed prompt, and twice in the answer.
    console
        .prints("the long answer", |printed| {
            (printed.matches(&format!("{long}\r\n")).count() >= 4).then_some(())
        })
        .await;
    wait_for_text(&console, "This is message 2 of our conversation.\n").await;
    type_end(&mut console).await;
    assert_eq!(console.ended().await.code, 0);
}

#[tokio::test]
async fn the_markdown_of_an_answer_is_shown_without_its_marks() {
    let installation = Installation::new();
    let mut console = start_console(&installation).await;
    let prompt = "hi **you**\r\r# Plan\r* one & `two`\r\r| a | n |\r|---|--:|\r| long | 1 |";
    console.type_in(&format!("\x1b[200~{prompt}\x1b[201~\r")).await;
    wait_for_answer(
        &console,
        "You said: hi you\n\nPlan\n• one & `two`\n\na     n\n────  ─\nlong  1\n\nThis is message 1 of our conversation.\n",
    )
    .await;
    type_end(&mut console).await;
    assert_eq!(console.ended().await.code, 0);
}

#[tokio::test]
async fn a_line_can_be_edited_and_the_history_survives_a_restart() {
    let installation = Installation::new();
    let mut console = start_console(&installation).await;
    console.type_in("ello\x01h\x05 you\r").await;
    wait_for_answer(&console, "You said: hello you\n").await;
    console.type_in("two\x1b\rlines\r").await;
    wait_for_answer(&console, "You said: two\nlines\n").await;
    console.type_in("gone\x03").await;
    type_end(&mut console).await;
    assert_eq!(console.ended().await.code, 0);
    let mut console = start_console(&installation).await;
    console.type_in("\x1b[A").await;
    wait_for_text(&console, "> two\nlines\n").await;
    console.type_in(INTERRUPT).await;
    wait_for_screen(&console, "an empty line", |screen| screen.ends_with("\n> \n")).await;
    // Searched in the history, found and changed.
    console.type_in("\x12ello").await;
    wait_for_text(&console, "(reverse-i-search)`ello': hello you\n").await;
    console.type_in("\x05, again\r").await;
    wait_for_answer(&console, "You said: hello you, again\n").await;
    console.type_in(INTERRUPT).await;
    wait_for_text(&console, "Ctrl-C again or Ctrl-D to leave\n> \n").await;
    console.type_in(INTERRUPT).await;
    assert_eq!(console.ended().await.code, 0, "Ctrl-C twice exits");
    use std::os::unix::fs::PermissionsExt;
    let kept = std::fs::metadata(installation.path("config/state/console.history")).unwrap();
    assert_eq!(kept.permissions().mode() & 0o777, 0o600);
}

#[tokio::test]
async fn an_answer_streams_above_the_input_line_and_ctrl_c_stops_it() {
    let installation = Installation::new().with("DEMO_AGENT_DELAY_MS", "10");
    let mut console = start_console(&installation).await;
    console.type_in("tool ls -l\r").await;
    // A paragraph is printed when it is complete, and the line is below it.
    wait_for_text(&console, "> tool ls -l\nI will look.\n").await;
    console.type_in("a draft").await;
    wait_for_answer(&console, "One tool worked, one did not.\n").await;
    wait_for_screen(&console, "the draft", |screen| screen.ends_with(" out]\n> a draft\n")).await;
    console.type_in(INTERRUPT).await;
    wait_for_screen(&console, "an empty line", |screen| screen.ends_with(" out]\n> \n")).await;
    console.type_in("ask make\r").await;
    wait_for_screen(&console, "the question", |screen| screen.ends_with("4) Deny and stop\n> \n"))
        .await;
    console.type_in(INTERRUPT).await;
    wait_for_text(&console, "✗ Stopped.\n> \n").await;
    assert_eq!(console.agents(), []);
    let stood = screen(&console.stdout());
    assert_eq!(stood.matches("I will look.").count(), 1, "{stood}");
    type_end(&mut console).await;
    assert_eq!(console.ended().await.code, 0);
}

#[tokio::test]
async fn log_lines_appear_above_the_input_line() {
    let installation = Installation::new().with("LOG_LEVEL", "info").with("LOG_FORMAT", "json");
    // Nothing that another test left behind is logged here.
    let temporary = installation.path("temporary");
    std::fs::create_dir(&temporary).unwrap();
    let installation = installation.with("TMPDIR", &temporary.display().to_string());
    let mut console = start_console(&installation).await;
    console.type_in("slow 2\r").await;
    wait_for_text(&console, "turn begins").await;
    console.type_in("half a line").await;
    wait_for_text(&console, "turn ended").await;
    wait_for_text(&console, "out]\n").await;
    wait_for_screen(&console, "the whole line", |screen| screen.ends_with("\n> half a line\n"))
        .await;
    let stood = screen(&console.stdout());
    let rows: Vec<&str> = stood.lines().filter(|row| row.contains("turn ended")).collect();
    assert!(
        !rows.is_empty() && rows.iter().all(|row| row.starts_with('{') && row.ends_with('}')),
        "{stood}"
    );
    console.type_in(" goes on\r").await;
    wait_for_answer(&console, "You said: half a line goes on\n").await;
    type_end(&mut console).await;
    assert_eq!(console.ended().await.code, 0);
}

#[tokio::test]
async fn unknown_output_is_reported_at_once_and_a_question_is_answered_by_a_word() {
    let installation = Installation::new().with("DEMO_AGENT_DELAY_MS", "50");
    let mut console = start_console(&installation).await;
    console.type_in("noise\r").await;
    wait_for_text(&console, "hologram").await;
    wait_for_answer(&console, "There was noise.\n").await;
    console.type_in("ask make\r").await;
    wait_for_text(&console, "4) Deny and stop\n> \n").await;
    console.type_in("deny\r").await;
    wait_for_answer(&console, "Denied by you\n").await;
    type_end(&mut console).await;
    assert_eq!(console.ended().await.code, 0);
}

#[tokio::test]
async fn commands_names_and_paths_are_completed() {
    let installation = Installation::new();
    std::fs::write(installation.path("two words.txt"), "the content").unwrap();
    let mut console = start_console(&installation).await;
    console.type_in("/re\t").await;
    wait_for_screen(&console, "both commands", |screen| {
        screen.contains("/recover") && screen.contains("/reset") && screen.ends_with("> /re\n")
    })
    .await;
    console.type_in("s\t").await;
    wait_for_text(&console, "\n> /reset\n").await;
    console.type_in("\r").await;
    wait_for_text(&console, "the conversation is forgotten\n").await;
    console.type_in("/back\t d\t\r").await;
    wait_for_text(&console, "> /backend demo\n").await;
    wait_for_text(&console, "demo answers from now on\n").await;
    console.type_in("/file two\t\r").await;
    wait_for_text(&console, "two words.txt (11 bytes) goes along with the next prompt\n").await;
    console.type_in("look at @tw\t").await;
    wait_for_text(&console, "> look at @\"two words.txt\n").await;
    console.type_in("\"\r").await;
    wait_for_answer(&console, "the content").await;
    type_end(&mut console).await;
    assert_eq!(console.ended().await.code, 0);
}

#[tokio::test]
async fn the_terminal_is_restored_however_the_console_ends() {
    for how in ["\x04", "/quit\r", "TERM"] {
        let installation = Installation::new();
        let mut console = start_console(&installation).await;
        if how == "TERM" {
            // The console is a child of the shell.
            let shell = console.gateway().as_raw_nonzero();
            let children =
                std::fs::read_to_string(format!("/proc/{shell}/task/{shell}/children")).unwrap();
            kill_process(Pid::from_raw(children.trim().parse().unwrap()).unwrap(), Signal::TERM)
                .unwrap();
        } else {
            console.type_in(how).await;
        }
        wait_for_text(&console, "gone\n").await;
        let modes = console.stdout().rsplit("\x1b[?2004l").next().unwrap().to_owned();
        // `script` had already turned the echo off.
        assert!(
            ["icanon", "isig", "icrnl"]
                .iter()
                .all(|mode| modes.split_whitespace().any(|now| now == *mode)),
            "{how}: {modes}"
        );
        assert_eq!(console.ended().await.code, 0);
    }
}

#[tokio::test]
async fn files_are_attached_by_their_paths() {
    let installation = Installation::new();
    let (one, two) = (installation.path("one.txt"), installation.path("two.txt"));
    std::fs::write(&one, "the content of one").unwrap();
    std::fs::write(&two, "the content of two").unwrap();
    let mut console = start_console(&installation).await;
    console.type_in(&format!("/file {}\r", one.display())).await;
    wait_for_text(&console, "one.txt (18 bytes) goes along with the next prompt\n").await;
    console.type_in(&format!("compare with @{}\r", two.display())).await;
    wait_for_answer(&console, "the content of two").await;
    assert!(screen(&console.stdout()).contains("the content of one"));
    console.type_in("/file /nowhere\r").await;
    wait_for_text(&console, "✗ /nowhere: No such file").await;
    type_end(&mut console).await;
    assert_eq!(console.ended().await.code, 0);
}

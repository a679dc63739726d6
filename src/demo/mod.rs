//! The demo agent: `aetheel demo-agent`, a small scripted agent for trying and testing everything
//! without keys or models.
//!
//! It reads one prompt from stdin, answers with JSON lines on stdout, and exits. With `--talk`
//! stdin stays open: its first line is the prompt, and each further line answers a question of the
//! agent. This module owns the protocol below and the sessions, one file of prompts each, in
//! `DEMO_AGENT_HOME` or else `.demo-agent/` in the working directory. It does not know the gateway;
//! `guest-backends/demo` is the backend for it. Its tests cover every kind of line.
//!
//! | line | meaning |
//! |---|---|
//! | `{"type":"hello","session":ID,"model":M}` | first line, once the session exists |
//! | `{"type":"thinking","text":T}`, `{"type":"text","text":T}` | more thinking, more of the answer |
//! | `{"type":"tool","id":I,"tool":NAME,"about":A}` | a tool starts (`shell` or `read`) |
//! | `{"type":"tool-output","id":I,"text":T}` | more output of it |
//! | `{"type":"tool-end","id":I,"ok":BOOL}` | it ends |
//! | `{"type":"plan","steps":[{"text":T,"status":S}]}` | the plan; S is `pending`, `active` or `done` |
//! | `{"type":"retry","kind":K,"message":M,"after_ms":N}` | it tries again by itself |
//! | `{"type":"ask","ask":N,"title":T, …}` | asks for permission (`tool`, `about`, `input`, `always`), approval (`plan`), answers (`questions`) or a sign-in (`address`) |
//! | `{"type":"call","call":N,"name":T,"input":I}` | calls a tool of the gateway |
//! | `{"type":"artifact","name":F,"media":M,"base64":B}` | an image or another file of the answer |
//! | `{"type":"task","id":I,"title":T,"status":S,"background":BOOL}` | a helper, or something in the background |
//! | `{"type":"usage","input":N,"output":N}` | tokens of the turn |
//! | `{"type":"done"}`, `{"type":"interrupted"}`, `{"type":"error","kind":K,"message":M}` | last line |
//!
//! With `--talk` it reads `{"type":"prompt","text":T}` and then
//! `{"type":"answer","ask":N,"decision":D}`. D is `allow`, `always`, `deny` (with `words`), `stop`,
//! `answers` (with `answers`, pairs of id and texts) or `dismissed`. The reply to a call is
//! `{"type":"result","call":N,"text":T,"failed":BOOL}`.
//!
//! The first word of the prompt selects the behaviour ([`HELP`]).

use std::fs;
use std::io::{self, BufRead as _, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

mod mend;
mod questions;
mod script;
mod stop;
#[cfg(test)]
mod tests;

use questions::AnswerSource;
pub use script::HELP;
use stop::DemoStop;

const USAGE: &str = "usage: aetheel demo-agent [--resume ID] [--model NAME] [--system-file FILE] [--talk] [--version] < PROMPT";
/// Bytes of text per output line, and the pause after each line in milliseconds, unless
/// `DEMO_AGENT_DELAY_MS` is set.
const PIECE_BYTES: usize = 24;
const DELAY_MS: u64 = 15;

/// Runs the agent and returns its exit code: 0 done, 1 failed, 64 wrong arguments, 101 crashed on
/// request, 130 interrupted. `args` are the arguments after `demo-agent`. SIGINT and SIGTERM end a
/// turn. A separate thread handles them from here on, so this function may be called on any thread.
pub fn run(
    args: impl IntoIterator<Item = String>,
    stdin: impl Read + Send + 'static,
    mut stdout: impl Write,
    mut stderr: impl Write,
) -> u8 {
    let result = match DemoOptions::parse(args) {
        Ok(None) => {
            writeln!(stdout, "aetheel demo-agent {}", env!("CARGO_PKG_VERSION")).map(|()| 0)
        }
        Ok(Some(options)) => {
            let (mut stdin, mut prompt) = (BufReader::new(stdin), Vec::new());
            let read = if options.talk {
                stdin.read_until(b'\n', &mut prompt)
            } else {
                stdin.read_to_end(&mut prompt)
            };
            read.and_then(|_| {
                let stop = DemoStop::on_signals()?;
                let mut prompt = String::from_utf8_lossy(&prompt).into_owned();
                let mut answers = AnswerSource::nobody();
                if options.talk {
                    let line: Value = serde_json::from_str(&prompt)?;
                    prompt = line["text"].as_str().unwrap_or_default().to_owned();
                    answers = AnswerSource::read(stdin);
                }
                DemoAgent::new(options, stop, answers, &mut stdout, &mut stderr).turn(&prompt)
            })
        }
        Err(message) => {
            let _ = writeln!(stderr, "{message}\n{USAGE}");
            return 64;
        }
    };
    result.unwrap_or_else(|error| {
        let _ = writeln!(stderr, "demo-agent: {error}");
        1
    })
}

/// The reason why the arguments are invalid.
#[derive(Debug, thiserror::Error)]
enum ArgumentError {
    #[error("`{0}` needs a value")]
    NoValue(String),
    #[error("unknown argument {0:?}")]
    Unknown(String),
}

struct DemoOptions {
    resume: Option<String>,
    model: Option<String>,
    system_file: Option<PathBuf>,
    home: PathBuf,
    delay: Duration,
    talk: bool,
}

impl DemoOptions {
    /// Returns `None` if only the version is to be printed.
    fn parse(args: impl IntoIterator<Item = String>) -> Result<Option<Self>, ArgumentError> {
        let home = std::env::var_os("DEMO_AGENT_HOME")
            .map_or_else(|| PathBuf::from(".demo-agent"), PathBuf::from);
        let delay = std::env::var("DEMO_AGENT_DELAY_MS")
            .ok()
            .and_then(|text| text.parse().ok())
            .unwrap_or(DELAY_MS);
        let mut options = Self {
            resume: None,
            model: None,
            system_file: None,
            home,
            delay: Duration::from_millis(delay),
            talk: false,
        };
        let mut args = args.into_iter();
        while let Some(flag) = args.next() {
            let mut value = || args.next().ok_or_else(|| ArgumentError::NoValue(flag.clone()));
            match flag.as_str() {
                "--resume" => options.resume = Some(value()?),
                "--model" => options.model = Some(value()?),
                "--system-file" => options.system_file = Some(value()?.into()),
                "--talk" => options.talk = true,
                "--version" => return Ok(None),
                _ => return Err(ArgumentError::Unknown(flag)),
            }
        }
        Ok(Some(options))
    }
}

/// The reason why a turn ended early.
enum DemoHalt {
    Interrupted,
    Failed { kind: String, message: String },
    Crashed,
    Broken(io::Error),
}

impl From<io::Error> for DemoHalt {
    fn from(error: io::Error) -> Self {
        Self::Broken(error)
    }
}

struct DemoAgent<'a> {
    options: DemoOptions,
    stop: DemoStop,
    answers: AnswerSource,
    stdout: &'a mut dyn Write,
    stderr: &'a mut dyn Write,
    text_bytes: usize,
}

impl<'a> DemoAgent<'a> {
    fn new(
        options: DemoOptions,
        stop: DemoStop,
        answers: AnswerSource,
        stdout: &'a mut dyn Write,
        stderr: &'a mut dyn Write,
    ) -> Self {
        Self { options, stop, answers, stdout, stderr, text_bytes: 0 }
    }

    fn turn(&mut self, prompt: &str) -> io::Result<u8> {
        let ended = self.answer(prompt);
        if !matches!(ended, Err(DemoHalt::Crashed | DemoHalt::Broken(_))) {
            let tokens = |characters: usize| characters.div_ceil(4);
            self.say(&json!({"type": "usage", "input": tokens(prompt.len()), "output": tokens(self.text_bytes)}))?;
        }
        match ended {
            Ok(()) => self.say(&json!({"type": "done"})).map(|()| 0),
            Err(DemoHalt::Interrupted) => self.say(&json!({"type": "interrupted"})).map(|()| 130),
            Err(DemoHalt::Failed { kind, message }) => {
                self.say(&json!({"type": "error", "kind": kind, "message": message})).map(|()| 1)
            }
            Err(DemoHalt::Crashed) => {
                writeln!(self.stderr, "demo-agent: crashed, as asked").map(|()| 101)
            }
            Err(DemoHalt::Broken(error)) => Err(error),
        }
    }

    /// Opens the session, appends the prompt to it, and returns the earlier prompts.
    fn session(&mut self, prompt: &str) -> Result<Vec<String>, DemoHalt> {
        let home = self.options.home.clone();
        let (id, history) = match self.options.resume.clone() {
            None => (format!("demo-{}", uuid::Uuid::new_v4()), Vec::new()),
            Some(id) => match read_session(&home, &id)? {
                Some(history) => (id, history),
                None => {
                    let message = format!("there is no session {id:?}");
                    return Err(DemoHalt::Failed { kind: "session-unknown".to_owned(), message });
                }
            },
        };
        fs::create_dir_all(&home)?;
        let mut file = fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(home.join(format!("{id}.jsonl")))?;
        file.write_all(format!("{}\n", Value::from(prompt.trim())).as_bytes())?;
        self.say(&json!({"type": "hello", "session": id, "model": self.options.model}))?;
        Ok(history)
    }

    fn text(&mut self, text: &str) -> Result<(), DemoHalt> {
        self.text_bytes += text.len();
        self.pieces("text", text)
    }

    fn pieces(&mut self, kind: &str, text: &str) -> Result<(), DemoHalt> {
        let mut rest = text;
        while !rest.is_empty() {
            let (piece, more) = rest.split_at(rest.ceil_char_boundary(PIECE_BYTES));
            self.say(&json!({"type": kind, "text": piece}))?;
            self.pause(self.options.delay)?;
            rest = more;
        }
        Ok(())
    }

    fn pause(&self, time: Duration) -> Result<(), DemoHalt> {
        if self.stop.wait(time) { Err(DemoHalt::Interrupted) } else { Ok(()) }
    }

    fn say(&mut self, line: &Value) -> io::Result<()> {
        writeln!(self.stdout, "{line}")?;
        self.stdout.flush()
    }
}

/// Returns `None` if there is no such session. Ids with other characters could name other files,
/// and are treated as unknown.
fn read_session(home: &Path, id: &str) -> io::Result<Option<Vec<String>>> {
    if !id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
        return Ok(None);
    }
    match fs::read_to_string(home.join(format!("{id}.jsonl"))) {
        Ok(text) => {
            Ok(Some(text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

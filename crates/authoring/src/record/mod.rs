//! `aetheel backend record`: runs an agent and records its output. Tested by
//! `tests/kit/recording.rs`.

mod script;

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal as _, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use self::script::{StdinScript, StdinStep};
use aetheel::cli::{RecordArgs, exit};
use aetheel::commands::kit::KitError;
use aetheel::startup::settings;
use aetheel::terminal::print_stderr;
use aetheel_model::agent::descriptor::Framing;
use aetheel_model::agent::{
    AgentLine, Exit, Exited, HostCommand, Input, Pipe, PromptPart, Signal, Spawned, StartTurn,
    TurnRef,
};
use aetheel_model::limits::ResourceLimits;
use aetheel_model::plain::{counted, with_causes};
use aetheel_model::redact::Redactor;
use aetheel_process::{Custody, Means};
use aetheel_recording::{EntryKind, FORMAT, Header, RecordingEntry};
use aetheel_turn::{AgentProcess, Launch, Launcher as _, ProcessCommand, ProcessEvent, Reach};

/// Time that an interrupted agent has to exit.
const STOP_GRACE: Duration = Duration::from_secs(10);
/// Key of the only process, of its only session, and of the first turn.
const KEY: u32 = 1;
/// Working directory in the recording. The real one is left out, because recordings are shared.
const RECORDED_CWD: &str = "/project";

pub(crate) async fn run(args: RecordArgs) -> u8 {
    match record(args).await {
        Ok(code) => code,
        Err(unable) => unable.report(),
    }
}

async fn record(args: RecordArgs) -> Result<u8, KitError> {
    let variables: HashMap<String, String> = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect();
    let cwd = std::env::current_dir()
        .map_err(|error| KitError::usage(format!("the working directory: {error}")))?;
    let custody = Custody::new(Means::Best)
        .map_err(|error| KitError::usage(format!("cannot take custody of processes: {error}")))?;
    let launch = launch(&args.command, &variables, &cwd);
    let mut tape = RecordingWriter::create(&args, settings::redactor_of(&variables))?;
    tape.write_opening(&args, &launch)?;
    let process = match custody.launch(launch).await {
        Ok(process) => process,
        Err(error) => {
            tape.discard();
            return Err(KitError::usage(with_causes(&error)));
        }
    };
    tape.append(EntryKind::In(Input::Spawned(Spawned {
        proc: KEY,
        agent_version: args.agent_version,
    })))?;
    let exit =
        record_process(process, read_stdin(), StdinScript::new(args.live, args.until), &mut tape)
            .await?;
    let how = match exit {
        Exit::Code(0) => "completed".to_owned(),
        Exit::Code(code) => format!("agent-failure: exit code {code}"),
        Exit::Signal(signal) => format!("agent-failure: signal {signal}"),
        Exit::Unknown => "agent-failure: unknown exit".to_owned(),
    };
    tape.end_turn(how)?;
    tape.close()?;
    Ok(match exit {
        Exit::Code(code) => u8::try_from(code).unwrap_or(u8::MAX),
        // The same exit code as that of shells.
        Exit::Signal(signal) => u8::try_from(128 + signal).unwrap_or(u8::MAX),
        Exit::Unknown => exit::SOFTWARE,
    })
}

fn launch(command: &[String], variables: &HashMap<String, String>, cwd: &Path) -> Launch {
    Launch {
        run: "record".to_owned(),
        proc: 1,
        program: PathBuf::from(&command[0]),
        arguments: command[1..].iter().map(OsString::from).collect(),
        environment: variables.clone().into_iter().collect(),
        cwd: cwd.to_owned(),
        stdin: Vec::new(),
        keep_open: true,
        framing: Framing::Lines,
        line_limit: ResourceLimits::default().line,
        // No limit: the operator watches the agent and can stop it.
        output_limit: u64::MAX,
        // Not confined: the operator chose the command.
        reach: Reach::default(),
    }
}

/// Reads stdin on a thread and returns the pieces as they arrive (whole lines at a terminal). The
/// channel ends with stdin; the thread ends with the program.
fn read_stdin() -> UnboundedReceiver<Vec<u8>> {
    let (pieces, received) = unbounded_channel();
    let hand_on = move || {
        let mut piece = vec![0; 64 << 10];
        let mut stdin = io::stdin().lock();
        while let Ok(read @ 1..) = stdin.read(&mut piece)
            && pieces.send(piece[..read].to_vec()).is_ok()
        {}
    };
    if let Err(error) = std::thread::Builder::new().name("stdin".to_owned()).spawn(hand_on) {
        print_stderr(&format!("error: cannot read stdin: {error}"));
    }
    received
}

/// Prints and records the agent's output, and passes stdin to the agent and records it, until the
/// agent exits. The first SIGINT is passed to the agent; the second one kills it.
async fn record_process(
    mut process: AgentProcess,
    mut stdin: UnboundedReceiver<Vec<u8>>,
    mut script: StdinScript,
    tape: &mut RecordingWriter,
) -> Result<Exit, KitError> {
    let (mut interrupts, mut open, mut is_noted) = (0, true, false);
    // Created once: a new listener would not see earlier signals.
    let mut interrupt = signal(SignalKind::interrupt())
        .map_err(|error| KitError::usage(format!("cannot listen for signals: {error}")))?;
    loop {
        while let Some(next) = script.next() {
            let (note, command) = match next {
                StdinStep::Write(piece) => (
                    format!("stdin: {}", String::from_utf8_lossy(&piece)),
                    ProcessCommand::Write(piece),
                ),
                StdinStep::Close => ("stdin is closed".to_owned(), ProcessCommand::CloseStdin),
                StdinStep::Interrupt => {
                    tape.interrupt()?;
                    continue;
                }
                StdinStep::Answer(answer) => {
                    tape.append(EntryKind::In(Input::Command(HostCommand::Answer(answer))))?;
                    continue;
                }
                StdinStep::Turn(prompt) => {
                    tape.end_turn("completed".to_owned())?;
                    tape.begin_turn(&prompt)?;
                    continue;
                }
            };
            tape.append(EntryKind::Host(note))?;
            // Fails if the process has exited, which the next event reports.
            let _ = process.commands.send(command);
        }
        if let Some(text) = script.awaited().filter(|_| !is_noted) {
            is_noted = true;
            print_stderr(&format!(
                "note: the next turn, or the end of the input, waits until the agent prints `{text}` (--until); Ctrl-C ends the recording"
            ));
        }
        let event = tokio::select! {
            event = process.events.recv() => event,
            piece = stdin.recv(), if open => {
                open = piece.is_some();
                match piece {
                    Some(piece) => script.feed(&piece),
                    None => script.end(),
                }
                continue;
            }
            Some(()) = interrupt.recv() => {
                interrupts += 1;
                let signal = if interrupts == 1 { Signal::Interrupt } else { Signal::Kill };
                if interrupts == 1 {
                    tape.interrupt()?;
                }
                // Fails if the process has exited, which the next event reports.
                let _ = process.commands.send(ProcessCommand::Stop { signal, grace: STOP_GRACE });
                continue;
            }
        };
        match event {
            Some(ProcessEvent::Lines(lines)) => {
                for line in lines {
                    // Write errors are ignored: stdout may be closed, but the recording continues.
                    let _ = match line.pipe {
                        Pipe::Stdout => writeln!(io::stdout(), "{}", line.text),
                        Pipe::Stderr => writeln!(io::stderr(), "{}", line.text),
                    };
                    tape.lines += 1;
                    script.observe_output(&line.text);
                    let line = AgentLine {
                        proc: KEY,
                        pipe: line.pipe,
                        text: line.text,
                        truncated: line.truncated,
                    };
                    tape.append(EntryKind::In(Input::Line(line)))?;
                }
            }
            Some(ProcessEvent::OutputLimit) => {}
            Some(ProcessEvent::Exited { how, stderr_tail }) => {
                tape.append(EntryKind::In(Input::Exited(Exited { proc: KEY, how, stderr_tail })))?;
                return Ok(how);
            }
            None => return Ok(Exit::Unknown),
        }
    }
}

struct RecordingWriter {
    path: PathBuf,
    file: File,
    program: String,
    began: Instant,
    redactor: Redactor,
    lines: usize,
    /// The start command of every turn, without its number and prompt.
    turn_template: StartTurn,
    turn: String,
}

impl RecordingWriter {
    fn create(args: &RecordArgs, redactor: Redactor) -> Result<Self, KitError> {
        let name = Path::new(&args.command[0])
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let numbered = |number: u32| {
            if number == 1 { format!("{name}.jsonl") } else { format!("{name}-{number}.jsonl") }
        };
        let places = match &args.output {
            Some(path) => vec![path.clone()],
            None => (1..1_000).map(|number| PathBuf::from(numbered(number))).collect(),
        };
        let mut pattern = StartTurn {
            cwd: RECORDED_CWD.to_owned(),
            one_shot: !args.live,
            turn: KEY - 1,
            ..StartTurn::plain("", args.safety)
        };
        pattern.settings.mode = args.mode;
        let mut refused =
            KitError::usage("no free file name for the recording; name a file with --output");
        for path in places {
            // The recording may contain private data.
            match OpenOptions::new().create_new(true).write(true).mode(0o600).open(&path) {
                Ok(file) => {
                    let (began, turn) = (Instant::now(), String::new());
                    return Ok(Self {
                        path,
                        file,
                        program: name,
                        began,
                        redactor,
                        lines: 0,
                        turn_template: pattern,
                        turn,
                    });
                }
                Err(error) => {
                    refused = KitError::usage(format!(
                        "{}: {error}; name another file with --output",
                        path.display()
                    ))
                }
            }
        }
        Err(refused)
    }

    /// Writes the header and the start of the first turn.
    fn write_opening(&mut self, args: &RecordArgs, launch: &Launch) -> Result<(), KitError> {
        let header = Header {
            aetheel_recording: FORMAT,
            link: uuid::Uuid::new_v4().to_string(),
            backend: self.program.clone(),
            backend_version: "recorded by hand".to_owned(),
            generation: 0,
            digest: String::new(),
            agent_version: args.agent_version.clone(),
            started: jiff::Timestamp::now().to_string(),
        };
        self.write(serde_json::to_string(&header).unwrap_or_default())?;
        self.begin_turn(&args.prompt)?;
        let words = std::iter::once(launch.program.as_os_str())
            .chain(launch.arguments.iter().map(OsString::as_os_str));
        let command = words.map(|word| word.to_string_lossy().into_owned()).collect();
        // Without a descriptor, it is unknown which variables belong to the agent.
        self.append(EntryKind::Launch {
            command,
            environment: Vec::new(),
            cwd: RECORDED_CWD.to_owned(),
        })
    }

    fn begin_turn(&mut self, prompt: &str) -> Result<(), KitError> {
        self.turn_template.turn += 1;
        self.turn = uuid::Uuid::new_v4().to_string();
        let (session, key) = (self.turn_template.session, self.turn_template.turn);
        self.append(EntryKind::Turn {
            turn: self.turn.clone(),
            event: 0,
            lane: "record".to_owned(),
            session,
            key,
        })?;
        let fresh_id = uuid::Uuid::new_v4().to_string();
        let start = StartTurn {
            fresh_id,
            parts: vec![PromptPart::Text(prompt.to_owned())],
            ..self.turn_template.clone()
        };
        self.append(EntryKind::In(Input::Command(HostCommand::StartTurn(start))))
    }

    /// Records that a person interrupted the turn.
    fn interrupt(&mut self) -> Result<(), KitError> {
        let (session, turn) = (self.turn_template.session, self.turn_template.turn);
        self.append(EntryKind::In(Input::Command(HostCommand::Interrupt(TurnRef {
            session,
            turn,
        }))))
    }

    fn end_turn(&mut self, how: String) -> Result<(), KitError> {
        let turn = std::mem::take(&mut self.turn);
        self.append(EntryKind::Ending { turn, how })
    }

    fn append(&mut self, what: EntryKind) -> Result<(), KitError> {
        // Rounded to microseconds, to keep the JSON short.
        let t = self.began.elapsed().as_micros() as f64 / 1000.0;
        self.write(serde_json::to_string(&RecordingEntry { t, kind: what }).unwrap_or_default())
    }

    fn write(&mut self, line: String) -> Result<(), KitError> {
        let line = self.redactor.redact(line) + "\n";
        self.file.write_all(line.as_bytes()).map_err(|error| {
            KitError::usage(format!("cannot write {}: {error}", self.path.display()))
        })
    }

    fn discard(self) {
        // If this fails, an empty recording remains, which does no harm.
        let _ = std::fs::remove_file(self.path);
    }

    fn close(self) -> Result<(), KitError> {
        let path = self.path.display();
        self.file
            .sync_all()
            .map_err(|error| KitError::usage(format!("cannot write {path}: {error}")))?;
        print_stderr(&format!(
            "recorded {} in {:.1} s: {path}",
            counted(self.lines, "line"),
            self.began.elapsed().as_secs_f64()
        ));
        if io::stderr().is_terminal() {
            print_stderr(&format!(
                "next: `aetheel backend replay X.wasm {path}` shows how a backend reads it,"
            ));
            print_stderr(&format!(
                "      `aetheel backend test --update X.wasm {path}` stores the actions that it must produce"
            ));
        }
        Ok(())
    }
}

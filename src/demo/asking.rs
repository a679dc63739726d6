use std::io::BufRead;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use serde_json::{Value, json};

use super::{Agent, Halt};

/// How soon a wish to stop is noticed while nobody answers.
const LOOK: Duration = Duration::from_millis(50);

/// Where the answers to questions come from.
pub(super) struct Answers {
    lines: Option<Receiver<Value>>,
    asked: u32,
}

/// What somebody decided.
enum Decision {
    Allow,
    Always,
    Deny(Option<String>),
    Stop,
    Answers(Vec<String>),
    Dismissed,
}

impl Answers {
    /// Nobody answers: every question is dismissed.
    pub(super) fn nobody() -> Self {
        Self { lines: None, asked: 0 }
    }

    /// Reads answers in a thread of its own, line by line.
    pub(super) fn read(input: impl BufRead + Send + 'static) -> Self {
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in input.lines().map_while(Result::ok) {
                if let Ok(line) = serde_json::from_str(&line)
                    && sender.send(line).is_err()
                {
                    break;
                }
            }
        });
        Self { lines: Some(lines), asked: 0 }
    }
}

impl Agent<'_> {
    /// Asks for permission to run a command, twice where it is given once.
    pub(super) fn ask_to_run(&mut self, command: &str) -> Result<(), Halt> {
        self.text("I would like to run something. ")?;
        let question = json!({"title": format!("Run `{command}`?"), "tool": "shell", "about": command, "always": "Always in this session"});
        match self.ask(question)? {
            Decision::Allow => {
                self.pretend_to_run(command)?;
                self.text("Done, this once.")
            }
            Decision::Always => {
                self.pretend_to_run(command)?;
                self.text("Done, and I will not ask again.")
            }
            other => self.refused(other),
        }
    }

    /// Asks for permission to change a file.
    pub(super) fn ask_to_edit(&mut self) -> Result<(), Halt> {
        let input = json!({"diff": "--- notes.txt\n+++ notes.txt\n@@ -1,2 +1,2 @@\n A list\n-of old things\n+of new things"});
        let question = json!({"title": "Change notes.txt?", "tool": "edit", "about": "notes.txt", "input": input});
        match self.ask(question)? {
            Decision::Allow => self.text("I would have changed it, if I were a real agent."),
            other => self.refused(other),
        }
    }

    /// Asks for approval of a plan.
    pub(super) fn propose(&mut self) -> Result<(), Halt> {
        let plan = "## The plan\n\n1. Look at everything\n2. Think\n3. Change as little as possible";
        match self.ask(json!({"title": "Shall I go on with this plan?", "plan": plan}))? {
            Decision::Allow => self.text("I go on with the plan."),
            other => self.refused(other),
        }
    }

    /// Asks two questions.
    pub(super) fn question(&mut self) -> Result<(), Halt> {
        let questions = json!([
            {"id": "colour", "text": "Which colour do you like?", "options": ["Red", "Green", "Blue"], "many": false, "words": true},
            {"id": "letters", "text": "Which letters?", "options": ["A", "B", "C", "D", "E"], "many": true, "words": false},
        ]);
        match self.ask(json!({"title": "I have two questions.", "questions": questions}))? {
            Decision::Answers(answers) => self.text(&format!("You answered: {}.", answers.join("; "))),
            other => self.refused(other),
        }
    }

    /// Asks somebody to sign in.
    pub(super) fn sign_in(&mut self) -> Result<(), Halt> {
        match self.ask(json!({"title": "Please sign in.", "address": "https://example.com/device?code=DEMO-1234"}))? {
            Decision::Allow => self.text("You are signed in, or say so."),
            other => self.refused(other),
        }
    }

    fn refused(&mut self, decision: Decision) -> Result<(), Halt> {
        match decision {
            Decision::Stop => Err(Halt::Interrupted),
            Decision::Deny(Some(words)) => self.text(&format!("Then not, because: {words}")),
            Decision::Dismissed => self.text("Nobody answered, so I did not."),
            _ => self.text("Then not."),
        }
    }

    fn pretend_to_run(&mut self, command: &str) -> Result<(), Halt> {
        self.say(&json!({"type": "tool", "id": "t1", "tool": "shell", "about": command}))?;
        self.say(&json!({"type": "tool-output", "id": "t1", "text": format!("$ {command}\n(not really run)\n")}))?;
        self.say(&json!({"type": "tool-end", "id": "t1", "ok": true})).map_err(Halt::Broken)
    }

    /// Asks, and waits for the answer or for a wish to stop.
    fn ask(&mut self, mut question: Value) -> Result<Decision, Halt> {
        self.answers.asked += 1;
        let ask = self.answers.asked;
        question["type"] = json!("ask");
        question["ask"] = json!(ask);
        if self.answers.lines.is_some() {
            self.say(&question)?;
        }
        loop {
            let Some(lines) = &self.answers.lines else { return Ok(Decision::Dismissed) };
            match lines.recv_timeout(LOOK) {
                Ok(line) if line["type"] == "answer" && line["ask"] == ask => return Ok(read(&line)),
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout) => self.pause(Duration::ZERO)?,
                Err(RecvTimeoutError::Disconnected) => return Ok(Decision::Dismissed),
            }
        }
    }
}

fn read(line: &Value) -> Decision {
    match line["decision"].as_str() {
        Some("allow") => Decision::Allow,
        Some("always") => Decision::Always,
        Some("deny") => Decision::Deny(line["words"].as_str().map(str::to_owned)),
        Some("stop") => Decision::Stop,
        Some("answers") => {
            let values = |pair: &Value| {
                let values: Vec<&str> = pair[1].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
                format!("{} {}", pair[0].as_str().unwrap_or_default(), values.join(" and "))
            };
            Decision::Answers(line["answers"].as_array().into_iter().flatten().map(values).collect())
        }
        _ => Decision::Dismissed,
    }
}

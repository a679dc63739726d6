use std::io::BufRead;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use serde_json::{Value, json};

use super::{DemoAgent, DemoHalt};

/// Interval in which a stop request is noticed while the agent waits for an answer.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// A PNG image of one pixel, in Base64.
const DOT: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

/// Source of the answers to the agent's questions.
pub(super) struct AnswerSource {
    lines: Option<Receiver<Value>>,
    asked: u32,
    /// The number of results of calls for which the agent did not wait.
    surplus_results: usize,
}

/// A decision about a question of the demo agent.
enum DemoDecision {
    Allow,
    Always,
    Deny(Option<String>),
    Stop,
    Answers(Vec<String>),
    Declined,
    Dismissed,
    /// One of the options that the question offered.
    Chosen(String),
    /// Allowed, with a changed command.
    Changed(String),
}

impl AnswerSource {
    /// Makes a source without a person: every question is dismissed.
    pub(super) fn nobody() -> Self {
        Self { lines: None, asked: 0, surplus_results: 0 }
    }

    /// Makes a source that reads answers line by line on a separate thread.
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
        Self { lines: Some(lines), asked: 0, surplus_results: 0 }
    }

    /// Counts the unread results of calls.
    fn unread_results(&self) -> usize {
        let lines = self.lines.iter().flat_map(Receiver::try_iter);
        lines.filter(|line| line["type"] == "result").count()
    }
}

impl DemoAgent<'_> {
    pub(super) fn ask_to_run(&mut self, command: &str) -> Result<(), DemoHalt> {
        self.text("I would like to run something. ")?;
        let question = json!({"title": format!("Run `{command}`?"), "tool": "shell", "about": command, "always": "Always in this session"});
        match self.ask(question)? {
            DemoDecision::Allow => {
                self.pretend_to_run(command)?;
                self.text("Done, this once.")
            }
            DemoDecision::Always => {
                self.pretend_to_run(command)?;
                self.text("Done, and I will not ask again.")
            }
            other => self.refused(other),
        }
    }

    /// Asks for permission to change a file.
    pub(super) fn ask_to_edit(&mut self) -> Result<(), DemoHalt> {
        let change = json!({"path": "notes.txt", "diff": "@@ -1,2 +1,2 @@\n A list\n-of old things\n+of new things"});
        let question = json!({"title": "Change notes.txt?", "tool": "edit", "about": "notes.txt", "diffs": [change]});
        match self.ask(question)? {
            DemoDecision::Allow => self.text("I would have changed it, if I were a real agent."),
            other => self.refused(other),
        }
    }

    /// Asks for permission with its own options, which are valid for different times, and accepts a
    /// changed command.
    pub(super) fn choose(&mut self, command: &str) -> Result<(), DemoHalt> {
        let option = |id: &str, label: &str, allows: bool, scope: &str| json!({"id": id, "label": label, "allows": allows, "scope": scope});
        let options = json!([
            option("once", "Run it", true, "once"),
            option("project", "Run such commands", true, "project"),
            option("never", "Never run such commands", false, "project"),
        ]);
        let input = json!({"command": command});
        let title = format!("Run `{command}`?");
        let question = json!({"title": title, "tool": "shell", "about": command, "input": input, "options": options, "changeable": true});
        match self.ask(question)? {
            DemoDecision::Allow => self.pretend_to_run(command),
            DemoDecision::Chosen(option) if option == "never" => {
                self.text("I will not ask for such commands again.")
            }
            DemoDecision::Chosen(option) => {
                self.pretend_to_run(command)?;
                self.text(&format!("Done, as you chose: {option}."))
            }
            DemoDecision::Changed(command) => {
                self.pretend_to_run(&command)?;
                self.text("Done, as you changed it.")
            }
            other => self.refused(other),
        }
    }

    /// Asks questions of different kinds.
    pub(super) fn survey(&mut self) -> Result<(), DemoHalt> {
        let questions = json!([
            {"id": "many", "text": "How many?", "says": "The number of things to make.", "form": "whole", "words": true, "preset": ["3"]},
            {"id": "sure", "text": "Are you sure?", "form": "yes-no"},
            {"id": "colour", "text": "Which colour?", "optional": true,
                "options": [{"id": "r", "label": "Red", "says": "as blood"}, {"id": "b", "label": "Blue", "says": "as the sea"}]},
            {"id": "word", "text": "What is the magic word?", "words": true, "secret": true},
        ]);
        match self.ask(json!({"title": "A few questions.", "questions": questions}))? {
            DemoDecision::Answers(answers) => {
                self.text(&format!("You gave me {} answers.", answers.len()))
            }
            other => self.refused(other),
        }
    }

    /// Sends an image as an artifact.
    pub(super) fn draw(&mut self) -> Result<(), DemoHalt> {
        self.say(
            &json!({"type": "artifact", "name": "dot.png", "media": "image/png", "base64": DOT}),
        )?;
        self.text("This is the smallest picture I can draw.")
    }

    /// Calls tools of the gateway one after another, and answers with their results.
    pub(super) fn call(&mut self, mut calls: &str) -> Result<(), DemoHalt> {
        loop {
            let (name, rest) = calls.split_once(char::is_whitespace).unwrap_or((calls, "{}"));
            let mut inputs = serde_json::Deserializer::from_str(rest).into_iter::<Value>();
            let Some(Ok(input)) = inputs.next() else {
                return self.text("The input of the tool is not JSON.");
            };
            let line = json!({"type": "call", "name": name, "input": input});
            match self.request(line, "call", "result")? {
                Some(result) => {
                    let text = result["text"].as_str().unwrap_or_default();
                    let how = if result["failed"] == true { "failed" } else { "returned" };
                    self.text(&format!("The tool {how}: {text}"))?;
                }
                None => self.text("There was no result.")?,
            }
            calls = rest[inputs.byte_offset()..].trim();
            if calls.is_empty() {
                break;
            }
            self.text("\n\n")?;
        }
        match self.answers.surplus_results + self.answers.unread_results() {
            0 => Ok(()),
            count => self.text(&format!("\n\nResults that I did not expect: {count}.")),
        }
    }

    /// Reports the work of a sub-agent, and a background task that does not end.
    pub(super) fn delegate(&mut self) -> Result<(), DemoHalt> {
        let task = |id: &str, title: &str, status: &str, background: bool| json!({"type": "task", "id": id, "title": title, "status": status, "background": background});
        self.say(&json!({"type": "tool", "id": "h1", "tool": "helper", "about": "look around"}))?;
        self.say(&task("h", "look around", "running", false))?;
        self.say(&json!({"type": "text", "parent": "h1", "text": "I looked everywhere."}))?;
        self.say(&task("h", "look around", "done", false))?;
        self.say(&json!({"type": "tool-end", "id": "h1", "ok": true,
            "diffs": [{"path": "new.txt", "change": "renamed", "was": "old.txt"}, {"path": "dot.png", "change": "deleted", "binary": true}]}))?;
        self.say(&task("b", "watch the weather", "running", true))?;
        self.text("My helper looked around. Something goes on in the background.")
    }

    /// Asks for approval of a plan.
    pub(super) fn propose(&mut self) -> Result<(), DemoHalt> {
        let plan =
            "## The plan\n\n1. Look at everything\n2. Think\n3. Change as little as possible";
        match self.ask(json!({"title": "Shall I go on with this plan?", "plan": plan}))? {
            DemoDecision::Allow => self.text("I go on with the plan."),
            other => self.refused(other),
        }
    }

    /// Asks two questions at once: one with a single choice or free text, and one with several
    /// choices.
    pub(super) fn question(&mut self) -> Result<(), DemoHalt> {
        let questions = json!([
            {"id": "colour", "text": "Which colour do you like?", "options": ["Red", "Green", "Blue"], "many": false, "words": true},
            {"id": "letters", "text": "Which letters?", "options": ["A", "B", "C", "D", "E"], "many": true, "words": false},
        ]);
        match self.ask(json!({"title": "I have two questions.", "questions": questions}))? {
            DemoDecision::Answers(answers) => {
                self.text(&format!("You answered: {}.", answers.join("; ")))
            }
            other => self.refused(other),
        }
    }

    /// Asks somebody to sign in.
    pub(super) fn sign_in(&mut self) -> Result<(), DemoHalt> {
        match self.ask(json!({"title": "Please sign in.", "address": "https://example.com/device?code=DEMO-1234"}))? {
            DemoDecision::Allow => self.text("You are signed in, or say so."),
            other => self.refused(other),
        }
    }

    fn refused(&mut self, decision: DemoDecision) -> Result<(), DemoHalt> {
        match decision {
            DemoDecision::Stop => Err(DemoHalt::Interrupted),
            DemoDecision::Deny(Some(words)) => self.text(&format!("Then not, because: {words}")),
            DemoDecision::Declined => self.text("Then I go on without an answer."),
            DemoDecision::Dismissed => self.text("There was no answer, so I did not."),
            _ => self.text("Then not."),
        }
    }

    fn pretend_to_run(&mut self, command: &str) -> Result<(), DemoHalt> {
        self.say(&json!({"type": "tool", "id": "t1", "tool": "shell", "about": command}))?;
        self.say(&json!({"type": "tool-output", "id": "t1", "text": format!("$ {command}\n(not really run)\n")}))?;
        self.say(&json!({"type": "tool-end", "id": "t1", "ok": true})).map_err(DemoHalt::Broken)
    }

    /// Asks a question, and waits for the answer or a stop request.
    fn ask(&mut self, mut question: Value) -> Result<DemoDecision, DemoHalt> {
        question["type"] = json!("ask");
        let answer = self.request(question, "ask", "answer")?;
        Ok(answer.as_ref().map_or(DemoDecision::Dismissed, read))
    }

    /// Prints a line with a number in the field `key`, and waits for the line of the type `reply`
    /// with the same number, or for a stop request. Returns `None` if no reply can arrive.
    fn request(
        &mut self,
        mut line: Value,
        key: &str,
        reply: &str,
    ) -> Result<Option<Value>, DemoHalt> {
        self.answers.asked += 1;
        let number = self.answers.asked;
        line[key] = json!(number);
        if self.answers.lines.is_some() {
            self.say(&line)?;
        }
        loop {
            let Some(lines) = &self.answers.lines else { return Ok(None) };
            match lines.recv_timeout(LOOK_INTERVAL) {
                Ok(line) if line["type"] == reply && line[key] == number => {
                    return Ok(Some(line));
                }
                Ok(line) if line["type"] == "result" => self.answers.surplus_results += 1,
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout) => self.pause(Duration::ZERO)?,
                Err(RecvTimeoutError::Disconnected) => return Ok(None),
            }
        }
    }
}

fn read(line: &Value) -> DemoDecision {
    match line["decision"].as_str() {
        Some("allow") => DemoDecision::Allow,
        Some("always") => DemoDecision::Always,
        Some("deny") => DemoDecision::Deny(line["words"].as_str().map(str::to_owned)),
        Some("stop") => DemoDecision::Stop,
        Some("declined") => DemoDecision::Declined,
        Some("chosen") => {
            DemoDecision::Chosen(line["option"].as_str().unwrap_or_default().to_owned())
        }
        Some("changed") => {
            DemoDecision::Changed(line["input"]["command"].as_str().unwrap_or_default().to_owned())
        }
        Some("answers") => {
            let values = |pair: &Value| {
                let values: Vec<&str> =
                    pair[1].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
                format!("{} {}", pair[0].as_str().unwrap_or_default(), values.join(" and "))
            };
            DemoDecision::Answers(
                line["answers"].as_array().into_iter().flatten().map(values).collect(),
            )
        }
        _ => DemoDecision::Dismissed,
    }
}

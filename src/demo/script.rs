//! The script of the demo agent: the reaction to each prompt.

use std::fs;
use std::path::Path;
use std::time::Duration;

use serde_json::json;

use super::{DemoAgent, DemoHalt};

/// The list of words that a prompt may begin with.
pub const HELP: &str = "\
I am a scripted agent. Begin a prompt with one of these words:

- `help`: this list
- `tool COMMAND`: pretend to run a command
- `call TOOL INPUT [TOOL INPUT]`: call tools of the gateway; the input is JSON
- `ask COMMAND`, `edit`: ask for permission to run one, to change a file
- `choose COMMAND`, `survey`: ask with answers of my own, ask questions of all kinds
- `draw`, `delegate`: make a picture, have a helper work
- `propose`, `question`, `login`: ask for approval of a plan, for answers, for a sign-in
- `think TOPIC`: think before answering
- `plan`: make a plan and tick it off
- `markdown`, `code LANGUAGE`: answers with formatting
- `long CHARACTERS`, `slow SECONDS`: long or slow answers
- `history`, `system`, `remember TEXT`: earlier prompts, the system prompt, a note for memory.md
- `retry`, `fail KIND`, `crash`, `silent`, `noise`: trouble
- `hang`, `stubborn`: wait to be interrupted; wait to be killed
- `read TASK.md`: mend the demo backend, for `aetheel backend mend`

Anything else I repeat.";

impl DemoAgent<'_> {
    /// Answers a prompt according to its first word.
    pub(super) fn answer(&mut self, prompt: &str) -> Result<(), DemoHalt> {
        let history = self.session(prompt)?;
        // A gateway may insert earlier messages and the name of the sender before the prompt.
        let last = prompt.rfind("\n\n[").map_or(prompt, |at| &prompt[at + 2..]);
        let said = last
            .strip_prefix('[')
            .and_then(|rest| rest.split_once("]:"))
            .map_or(prompt, |(_, rest)| rest)
            .trim();
        let (word, rest) = said.split_once(char::is_whitespace).unwrap_or((said, ""));
        let rest = rest.trim();
        let number = |default: usize, most: usize| rest.parse().unwrap_or(default).min(most);
        match word.to_lowercase().as_str() {
            "help" => self.text(HELP),
            "read" if rest.starts_with("TASK.md") => {
                let done = super::mend::mend(Path::new("."))?;
                self.text(&done)
            }
            "tool" => self.tool(if rest.is_empty() { "echo hello" } else { rest }),
            "call" => self.call(rest),
            "ask" => self.ask_to_run(if rest.is_empty() { "echo hello" } else { rest }),
            "edit" => self.ask_to_edit(),
            "choose" => self.choose(if rest.is_empty() { "echo hello" } else { rest }),
            "survey" => self.survey(),
            "draw" => self.draw(),
            "delegate" => self.delegate(),
            "propose" => self.propose(),
            "question" => self.question(),
            "login" => self.sign_in(),
            "think" => {
                self.pieces(
                    "thinking",
                    &format!("The topic is {rest:?}. I turn it around, look at it from behind, and find it pleasing."),
                )?;
                self.text(&format!("Having thought about {rest:?}: yes."))
            }
            "plan" => self.plan(),
            "markdown" => self.text(MARKDOWN),
            "code" => {
                let language = rest.split_whitespace().next().unwrap_or("rust");
                self.text(&format!("Here it is:\n\n```{language}\nfn main() {{\n    println!(\"hello\");\n}}\n```\n\nThat is all."))
            }
            "long" => self.long(number(5_000, 1_000_000)),
            "slow" => {
                for second in 1..=number(5, 3600) {
                    self.text(&format!("Second {second}. "))?;
                    self.pause(Duration::from_secs(1))?;
                }
                self.text("There.")
            }
            "history" if history.is_empty() => {
                self.text("This is the beginning of our conversation.")
            }
            "history" => self.text(&format!("You said before:\n\n- {}", history.join("\n- "))),
            "system" => {
                let text = self.options.system_file.as_ref().map(fs::read_to_string).transpose()?;
                self.text(&text.unwrap_or_else(|| "I was given no system prompt.".to_owned()))
            }
            "remember" => self.text(&format!("Noted.\n\n```memory\n{rest}\n```")),
            "retry" => {
                self.say(&json!({"type": "retry", "kind": "overloaded", "message": "attempt 1 of 2", "after_ms": 200}))?;
                self.pause(Duration::from_millis(200))?;
                self.text("It worked the second time.")
            }
            "fail" => {
                self.text("I begin, and then ")?;
                let kind = if rest.is_empty() { "other" } else { rest };
                Err(DemoHalt::Failed {
                    kind: kind.to_owned(),
                    message: format!("failed on request: {kind}"),
                })
            }
            "crash" => {
                self.text("I begin, and then ")?;
                Err(DemoHalt::Crashed)
            }
            "silent" => Ok(()),
            "noise" => {
                writeln!(self.stdout, "Debugger attached.")?;
                writeln!(self.stderr, "warning: noise, as asked")?;
                self.say(&json!({"type": "hologram", "colour": "blue"}))?;
                self.text("There was noise.")
            }
            "hang" => self.pause(Duration::from_secs(3600)),
            "stubborn" => {
                self.stop.ignore_signals();
                self.text("I will not stop.")?;
                self.pause(Duration::from_secs(3600))
            }
            _ => self.text(&format!(
                "You said: {said}\n\nThis is message {} of our conversation.",
                history.len() + 1
            )),
        }
    }

    fn tool(&mut self, command: &str) -> Result<(), DemoHalt> {
        self.text("I will look. ")?;
        self.say(&json!({"type": "tool", "id": "t1", "tool": "shell", "about": command}))?;
        self.pause(self.options.delay * 20)?;
        self.say(&json!({"type": "tool-output", "id": "t1", "text": format!("$ {command}\n(not really run)\n")}))?;
        self.say(&json!({"type": "tool-end", "id": "t1", "ok": true}))?;
        self.say(&json!({"type": "tool", "id": "t2", "tool": "read", "about": "missing.txt"}))?;
        self.say(&json!({"type": "tool-output", "id": "t2", "text": "no such file"}))?;
        self.say(&json!({"type": "tool-end", "id": "t2", "ok": false}))?;
        self.text("One tool worked, one did not.")
    }

    fn plan(&mut self) -> Result<(), DemoHalt> {
        for done in 0..=2 {
            let status = |step| match step {
                step if step < done => "done",
                step if step == done => "active",
                _ => "pending",
            };
            self.say(&json!({"type": "plan", "steps": [
                {"text": "look", "status": status(0)}, {"text": "leap", "status": status(1)},
            ]}))?;
            self.pause(self.options.delay * 20)?;
        }
        self.text("Everything is done.")
    }

    fn long(&mut self, characters: usize) -> Result<(), DemoHalt> {
        let mut text = String::new();
        for line in 1.. {
            if text.len() >= characters {
                break;
            }
            text += &format!("{line:04} The quick brown fox jumps over the lazy dog.\n");
        }
        text.truncate(characters);
        self.text(&text)
    }
}

const MARKDOWN: &str = "\
# A heading

**Bold**, *slanted*, `code`, ~~gone~~, and a [link](https://example.com).

1. one
2. two
   - nested

> quoted

| a | b |
|---|---|
| 1 | 2 |

```python
print(\"@everyone\")
```";

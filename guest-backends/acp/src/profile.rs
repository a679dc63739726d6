use std::collections::BTreeMap;

use aetheel_backend_sdk::json::{self, Value};
use aetheel_backend_sdk::wit::{Failure, FailureKind, StartTurn};

use aetheel_acp_client::{Agent, Launch, Modes, SystemPrompt};

/// The agent of one of the operator's launch profiles (`config/acp.md`), read from
/// `settings.options`.
#[derive(Debug, Default)]
pub struct Profile {
    launch: Option<Launch>,
    modes: Modes,
    system_prompt: SystemPrompt,
    sign_in: Option<String>,
}

impl Agent for Profile {
    fn describe() -> String {
        include_str!("descriptor.json").to_owned()
    }

    fn launch(&mut self, start: Option<&StartTurn>) -> Result<Launch, Failure> {
        if let Some(start) = start {
            let options = json::parse(&start.settings.options).unwrap_or_default();
            self.read(&options)?;
        }
        self.launch
            .clone()
            .ok_or_else(|| failure("the agent to start is not known yet; send it a message first"))
    }

    fn modes(&self) -> &Modes {
        &self.modes
    }

    fn system_prompt(&self) -> SystemPrompt {
        self.system_prompt
    }

    fn sign_in(&self) -> Option<&str> {
        self.sign_in.as_deref()
    }
}

impl Profile {
    fn read(&mut self, options: &Value) -> Result<(), Failure> {
        let program = options.text("program").filter(|program| !program.is_empty());
        let program = program.ok_or_else(|| {
            failure(
                "the launch profile names no program; add `- command:` to its section in acp.md",
            )
        })?;
        let texts =
            |list: &[Value]| list.iter().filter_map(Value::as_str).map(str::to_owned).collect();
        let environment: BTreeMap<String, String> =
            serde_json::from_str(&options["environment"].to_string()).unwrap_or_default();
        self.launch = Some(Launch {
            program: program.to_owned(),
            arguments: texts(options.list("arguments")),
            environment: environment.into_iter().collect(),
            files: Vec::new(),
        });
        let mode = |level: &str| options["modes"].text(level).map(str::to_owned);
        self.modes = Modes {
            default: mode("default"),
            edit: mode("edit"),
            danger: mode("danger"),
            plan: mode("plan"),
        };
        self.system_prompt = match options.text("system-prompt") {
            Some("meta") => SystemPrompt::Meta,
            Some("none") => SystemPrompt::None,
            _ => SystemPrompt::Prompt,
        };
        self.sign_in = options.text("sign-in").map(str::to_owned);
        Ok(())
    }
}

fn failure(message: &str) -> Failure {
    Failure { kind: FailureKind::Unsupported, message: message.to_owned(), retry_after_ms: None }
}

//! `aetheel backend ping`: asks a backend's agent whether it can work.

use std::io::Write as _;
use std::time::Duration;

use aetheel_dispatch::{
    DeliveryError, OpenQuestion, Outlet, QuestionDismissal, Reply, Settlement, TurnAnswer,
};
use aetheel_model::agent::AgentEventKind;
use aetheel_model::event::Event;
use aetheel_model::fold::Transcript;
use async_trait::async_trait;

use super::context::start_log;
use crate::cli::exit;
use crate::startup::settings::OperatorSettings;
use crate::startup::{PreparedStart, Purpose};
use crate::terminal::print_stderr;

/// Runs the command. Returns the exit code.
pub(super) async fn run(settings: OperatorSettings) -> u8 {
    if let Err(code) = start_log(&settings.redactor) {
        return code;
    }
    let prepared = match PreparedStart::prepare(settings, Purpose::Console).await {
        Ok(prepared) => prepared,
        Err(refused) => {
            return refused.print();
        }
    };
    let (name, redactor) = (prepared.config.agent_backend.clone(), prepared.redactor.clone());
    let (dispatcher, guard) = prepared.dispatcher(std::sync::Arc::new(NoPrompts), None);
    let said = dispatcher.backends.ping(&name).await;
    dispatcher.shutdown(Duration::ZERO).await;
    guard.close().await;
    match said {
        Ok(said) => {
            // Write errors are ignored: stdout may be closed. The exit code reports the result.
            let _ = writeln!(std::io::stdout(), "{}", redactor.redact(said));
            exit::OK
        }
        Err(error) => {
            print_stderr(&format!("error: {}", redactor.redact(error.to_string())));
            exit::UNAVAILABLE
        }
    }
}

/// Shows nothing, because there are no prompts.
struct NoPrompts;

impl Outlet for NoPrompts {
    fn open(&self, _event: &Event) -> Box<dyn Reply> {
        Box::new(Self)
    }
}

#[async_trait]
impl Reply for NoPrompts {
    fn update(&mut self, _event: &AgentEventKind, _transcript: &Transcript) {}

    fn ask(&mut self, _question: &OpenQuestion, unseen: QuestionDismissal) {
        unseen.dismiss();
    }

    fn question_settled(&mut self, _id: &str, _how: &Settlement) {}

    async fn finish(self: Box<Self>, _answer: TurnAnswer) -> Result<(), DeliveryError> {
        Ok(())
    }
}

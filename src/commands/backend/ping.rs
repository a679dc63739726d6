//! `aetheel backend ping`: asks a backend's agent whether it can work.

use std::time::Duration;

use aetheel_dispatch::{
    DeliveryError, OpenQuestion, Outlet, QuestionDismissal, Reply, Settlement, TurnAnswer,
};
use aetheel_model::agent::AgentEventKind;
use aetheel_model::event::Event;
use aetheel_model::fold::Transcript;
use async_trait::async_trait;
use clap::Args;

use crate::cli::{Common, exit};
use crate::commands::context::{block_on_command, start_log, with_console_settings};
use crate::startup::settings::OperatorSettings;
use crate::startup::{PreparedStart, Purpose};
use crate::terminal::{line, print_stderr};

/// Arguments of `aetheel backend ping`.
#[derive(Args, Debug)]
pub struct PingArgs {
    /// Settings shared by all commands.
    #[command(flatten)]
    common: Common,
    /// Backend to check, instead of AGENT_BACKEND
    #[arg(value_name = "BACKEND")]
    name: Option<String>,
}

impl PingArgs {
    pub(super) fn run(self) -> u8 {
        with_console_settings(&self.common, self.name, |settings| block_on_command(ping(settings)))
    }
}

async fn ping(settings: OperatorSettings) -> Result<u8, u8> {
    start_log(&settings.redactor)?;
    let prepared = PreparedStart::prepare(settings, Purpose::Console)
        .await
        .map_err(|refused| refused.print())?;
    let (name, redactor) = (prepared.config.agent_backend.clone(), prepared.redactor.clone());
    let (dispatcher, guard) = prepared.dispatcher(std::sync::Arc::new(NoPrompts), None);
    let said = dispatcher.backends.ping(&name).await;
    dispatcher.shutdown(Duration::ZERO).await;
    guard.close().await;
    match said {
        Ok(said) => {
            line(&redactor.redact(said));
            Ok(exit::OK)
        }
        Err(error) => {
            print_stderr(&format!("error: {}", redactor.redact(error.to_string())));
            Err(exit::UNAVAILABLE)
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

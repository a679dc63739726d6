//! Tests of webhooks over HTTP, with a dispatcher and scripted agents.

mod bounds;
mod calls;
mod documented;

use std::net::SocketAddr;
use std::sync::Arc;

use aetheel_model::agent::Exit;
use aetheel_store::workspace::{Deliveries, WebhookFile, Workspace};
use aetheel_web::webhooks::{
    Definitions, WebhookDeps as Calls, WebhookListener, WebhookSecrets, WebhookServer,
};

use crate::support::caller::Call;
use crate::support::scripted::{Agent, Desk, DeskOptions, ScriptedLauncher};

const STANDARD: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const OLD: &str = "whsec_QW5vdGhlclNlY3JldEFub3RoZXJTZWNyZXQ=";
const GITHUB: &str = "It's a Secret to Everybody";
const BEARER: &str = "token-0123456789abcdef";

const DEFINITIONS: &str = "\
## deploy
- scheme: standard
- secret: DEPLOY_SECRET, DEPLOY_SECRET_NEW
- channel: 7
- limit: 100000/min burst 100000

Say what was deployed.

## code
- scheme: github
- secret: CODE_SECRET
- limit: 100000/min burst 100000

Review it.

## alarm
- scheme: bearer
- secret: ALARM_SECRET
- limit: 100000/min burst 100000

Look after it.
";

/// The webhooks of a gateway, with its dispatcher.
struct Stand {
    desk: Desk,
    serving: WebhookServer,
    address: SocketAddr,
}

impl Stand {
    async fn new(desk_options: DeskOptions, launcher: Arc<ScriptedLauncher>) -> Self {
        let desk = Desk::new(launcher, desk_options).await;
        std::fs::write(desk.folder.path().join("config/webhooks.md"), DEFINITIONS).unwrap();
        let serving = serve(&desk).await;
        serving.open().await;
        Self { address: serving.address, serving, desk }
    }

    async fn quick() -> Self {
        let launcher = ScriptedLauncher::new(|agent: Agent| async move {
            agent.say(&["text ok", "done"]).await;
            agent.exit(Exit::Code(0), "").await;
        });
        Self::new(DeskOptions { slots: 1, ..DeskOptions::default() }, launcher).await
    }

    fn define(&self, text: &str) {
        let path = self.desk.folder.path().join("config/webhooks.md");
        // A shorter file counts only after a moment.
        let before = std::fs::metadata(&path).map_or(0, |found| found.len() as usize);
        let padding = "\n".repeat(before.saturating_sub(text.len()));
        std::fs::write(&path, format!("{text}{padding}")).unwrap();
    }

    /// Returns how many turns began, after a last call of our own was processed.
    async fn begun(&self) -> usize {
        let marked =
            Call::post("alarm", "{\"the\": \"mark\"}").bearer(BEARER).send(self.address).await;
        assert_eq!(marked.status, 202, "{marked:?}");
        self.desk.dispatcher.turns.idle().await;
        self.desk.launcher.launches.lock().unwrap().len() - 1
    }
}

/// Listens on a free port, as the program does after a start.
async fn serve(desk: &Desk) -> WebhookServer {
    let values = [
        ("DEPLOY_SECRET", OLD),
        ("DEPLOY_SECRET_NEW", STANDARD),
        ("CODE_SECRET", GITHUB),
        ("ALARM_SECRET", BEARER),
    ];
    serve_with(desk, values.map(|(name, value)| (name.to_owned(), value.into())).into()).await
}

async fn serve_with(desk: &Desk, secrets: WebhookSecrets) -> WebhookServer {
    let config = desk.folder.path().join("config");
    let workspace = Workspace::open(&config).await.unwrap();
    let deliveries = Deliveries::open(workspace.folder()).await.unwrap();
    let definitions = Definitions::new(WebhookFile::new(&config), secrets);
    let bound = WebhookListener::take("127.0.0.1:0".parse().unwrap()).await.unwrap();
    bound.serve(Calls { definitions, intake: desk.dispatcher.intake.clone(), deliveries })
}

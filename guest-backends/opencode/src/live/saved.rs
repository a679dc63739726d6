//! The state of an idle link, for another generation: the server and its stream go on under the keys they have.

use aetheel_backend_sdk::json::{self, Value};
use serde_json::json;

use super::Live;
use super::server::Server;
use super::session::{Model, Session};

/// The form of the state; another one is not taken over.
const FORM: u32 = 1;

impl Live {
    pub(super) fn to_save(&self) -> Option<String> {
        let Server::Up { stream, .. } = self.server else { return None };
        let proc = self.link.proc.filter(|_| self.is_idle())?;
        let sessions: Vec<_> = self.sessions.values().filter_map(Session::to_save).collect();
        let state = json!({
            "form": FORM, "last": self.link.last, "proc": proc, "stream": stream, "sessions": sessions, "defaults": self.defaults.iter().collect::<Vec<_>>(),
        });
        Some(state.to_string())
    }

    /// Takes a link over.
    pub(super) fn saved(state: &str) -> Result<Self, String> {
        let state = json::parse(state).map_err(|error| format!("the state is not JSON: {error}"))?;
        if state.count("form") != Some(FORM) {
            return Err("the state has another form; the sessions are resumed instead".to_owned());
        }
        let key = |of: &Value, key: &str| of.count(key).ok_or_else(|| format!("the state has no `{key}`"));
        let mut live = Self { server: Server::Up { stream: key(&state, "stream")?, heard: true }, ..Self::default() };
        live.link.last = key(&state, "last")?;
        live.link.proc = Some(key(&state, "proc")?);
        let text = |of: &Value, key: &str| of.text(key).map(str::to_owned);
        for saved in state.list("sessions") {
            let (Some(cwd), Some(native)) = (text(saved, "cwd"), text(saved, "native")) else {
                return Err("the state has a session without a name or a directory".to_owned());
            };
            let mut session = Session::saved(key(saved, "key")?, cwd, native, text(saved, "rules"), saved.is_true("chosen"));
            session.title = text(saved, "title");
            session.model = model(&saved["model"]);
            session.allowed.extend(saved.list("allowed").iter().filter_map(allowed));
            live.sessions.insert(session.key, session);
        }
        for default in state.list("defaults") {
            if let Some([directory, of]) = default.as_array()
                && let (Some(directory), Some(model)) = (directory.as_str(), model(of))
            {
                live.defaults.insert(directory.to_owned(), model);
            }
        }
        Ok(live)
    }
}

fn model(of: &Value) -> Option<Model> {
    let [provider, model] = of.as_array()? else { return None };
    Some((provider.as_str()?.to_owned(), model.as_str()?.to_owned()))
}

fn allowed(of: &Value) -> Option<(String, Vec<String>)> {
    let [permission, patterns] = of.as_array()? else { return None };
    let patterns = patterns.as_array()?.iter().filter_map(Value::as_str).map(str::to_owned).collect();
    Some((permission.as_str()?.to_owned(), patterns))
}

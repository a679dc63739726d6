//! A push service on this machine: writes down what it is sent, and answers as a test wants.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::to_bytes;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Longest time for a push to come: a question is open for a while before anybody is told.
const LIMIT: Duration = Duration::from_secs(60);

/// A push as it came.
#[derive(Clone, Debug)]
pub struct Wake {
    /// The device.
    pub path: String,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

impl Wake {
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }
}

#[derive(Default)]
struct Kept {
    came: watch::Sender<Vec<Wake>>,
    /// By device; 0: it never answers.
    statuses: Mutex<HashMap<String, u16>>,
}

/// The service. Dropping it closes it.
pub struct PushService {
    kept: Arc<Kept>,
    /// Its scheme, host and port.
    pub url: String,
    server: JoinHandle<()>,
}

impl PushService {
    pub async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let kept = Arc::<Kept>::default();
        let router = Router::new().fallback(take).with_state(Arc::clone(&kept));
        let server = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { kept, url, server }
    }

    /// The address of a device.
    pub fn device(&self, name: &str) -> String {
        format!("{}/wake/{name}", self.url)
    }

    /// From now on pushes to a device are answered so; 0: never.
    pub fn answer(&self, name: &str, status: u16) {
        self.kept.statuses.lock().insert(format!("/wake/{name}"), status);
    }

    /// The pushes that came to a device.
    pub fn woken(&self, name: &str) -> Vec<Wake> {
        let path = format!("/wake/{name}");
        self.kept.came.borrow().iter().filter(|wake| wake.path == path).cloned().collect()
    }

    /// All that came.
    pub fn all(&self) -> Vec<String> {
        self.kept.came.borrow().iter().map(|wake| wake.path.clone()).collect()
    }

    /// Waits until so many pushes came to a device, and returns the last one.
    pub async fn wait(&self, name: &str, count: usize) -> Wake {
        let mut came = self.kept.came.subscribe();
        let path = format!("/wake/{name}");
        let of = |all: &Vec<Wake>| all.iter().filter(|wake| wake.path == path).count();
        let found = tokio::time::timeout(LIMIT, came.wait_for(|all| of(all) >= count)).await;
        drop(found.unwrap_or_else(|_| panic!("no push {count} to {name}: {:?}", self.all())));
        self.woken(name).remove(count - 1)
    }
}

impl Drop for PushService {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn take(State(kept): State<Arc<Kept>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let body = to_bytes(body, 1 << 20).await.unwrap().to_vec();
    let path = parts.uri.path().to_owned();
    let status = kept.statuses.lock().get(&path).copied().unwrap_or(201);
    let wake = Wake { path, headers: parts.headers, body };
    kept.came.send_modify(|came| came.push(wake));
    if status == 0 {
        std::future::pending::<()>().await;
    }
    let elsewhere = [(header::LOCATION, "/elsewhere")];
    (StatusCode::from_u16(status).unwrap(), elsewhere, "x".repeat(1 << 16)).into_response()
}

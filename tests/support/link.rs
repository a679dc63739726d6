//! A network link that a test can cut and stall: it forwards connections to a server.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, split};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// The state of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    Open,
    /// Connections end, new ones too.
    Cut,
    /// Data does not pass, but connections stay open.
    Stalled,
    /// Answers are delayed by [`SLOW`].
    Slow,
}

/// Delay of the answers on a slow link.
const SLOW: Duration = Duration::from_millis(200);

/// A link. Dropping it cuts it.
pub struct Link {
    way: watch::Sender<Way>,
    /// The time after which silent connections are cut.
    idle: watch::Sender<Option<Duration>>,
    task: JoinHandle<()>,
}

impl Drop for Link {
    fn drop(&mut self) {
        self.task.abort();
        self.way.send_replace(Way::Cut);
    }
}

impl Link {
    /// Forwards a port of this machine to a server. Also returns the port's address.
    pub async fn to_port(server: SocketAddr) -> (Self, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let (way, idle) = (watch::Sender::new(Way::Open), watch::Sender::new(None));
        let (state, silence) = (way.subscribe(), idle.subscribe());
        let task = tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                let (state, silence) = (state.clone(), silence.clone());
                tokio::spawn(async move {
                    let far = TcpStream::connect(server).await;
                    join(near, far, state, silence).await;
                });
            }
        });
        (Self { way, idle, task }, address)
    }

    /// Forwards PostgreSQL's socket in a folder to the one in another folder.
    pub fn to_postgres(folder: &Path, server: &Path) -> Self {
        const NAME: &str = ".s.PGSQL.5432";
        let listener = UnixListener::bind(folder.join(NAME)).expect("a socket");
        let server: Arc<PathBuf> = Arc::new(server.join(NAME));
        let (way, idle) = (watch::Sender::new(Way::Open), watch::Sender::new(None));
        let (state, silence) = (way.subscribe(), idle.subscribe());
        let task = tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                let (state, silence) = (state.clone(), silence.clone());
                let server = Arc::clone(&server);
                tokio::spawn(async move {
                    let far = UnixStream::connect(&*server).await;
                    join(near, far, state, silence).await;
                });
            }
        });
        Self { way, idle, task }
    }

    /// Cuts connections that are silent for this long, as firewalls and load balancers do.
    pub fn cut_idle(&self, after: Duration) {
        self.idle.send_replace(Some(after));
    }

    pub fn set(&self, way: Way) {
        self.way.send_replace(way);
    }
}

async fn join<S: AsyncRead + AsyncWrite>(
    near: S,
    far: io::Result<S>,
    mut state: watch::Receiver<Way>,
    silence: watch::Receiver<Option<Duration>>,
) {
    let Ok(far) = far else { return };
    let ((near_in, near_out), (far_in, far_out)) = (split(near), split(far));
    let (there, back) = (state.clone(), state.clone());
    let activity = watch::Sender::new(());
    tokio::select! {
        () = forward((near_in, false), far_out, there, &activity) => {}
        () = forward((far_in, true), near_out, back, &activity) => {}
        _ = state.wait_for(|way| *way == Way::Cut) => {}
        () = silent(activity.subscribe(), silence) => {}
    }
}

/// Returns when no data has passed for the allowed time.
async fn silent(mut activity: watch::Receiver<()>, mut allowed: watch::Receiver<Option<Duration>>) {
    loop {
        let limit = *allowed.borrow_and_update();
        let Some(limit) = limit else {
            if allowed.changed().await.is_err() {
                return std::future::pending().await;
            }
            continue;
        };
        if tokio::time::timeout(limit, activity.changed()).await.is_err() {
            return;
        }
    }
}

async fn forward(
    (mut from, answers): (impl AsyncRead + Unpin, bool),
    mut to: impl AsyncWrite + Unpin,
    mut state: watch::Receiver<Way>,
    activity: &watch::Sender<()>,
) {
    let mut buffer = vec![0; 16 << 10];
    loop {
        let Ok(read) = from.read(&mut buffer).await else { return };
        if read == 0 || state.wait_for(|way| *way != Way::Stalled).await.is_err() {
            return;
        }
        activity.send_replace(());
        if answers && *state.borrow() == Way::Slow {
            tokio::time::sleep(SLOW).await;
        }
        if to.write_all(&buffer[..read]).await.is_err() {
            return;
        }
    }
}

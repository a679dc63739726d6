//! A network link that a test can cut and stall: it forwards connections to a server.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, split};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// How a link is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    Open,
    /// Connections end, new ones too.
    Cut,
    /// Nothing goes through, and nobody is told.
    Stalled,
}

/// A link. Dropping it cuts it.
pub struct Link {
    way: watch::Sender<Way>,
    task: JoinHandle<()>,
}

impl Drop for Link {
    fn drop(&mut self) {
        self.task.abort();
        self.way.send_replace(Way::Cut);
    }
}

impl Link {
    /// Forwards a port of this machine to a server; returns the port's address, too.
    pub async fn to_port(server: SocketAddr) -> (Self, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let way = watch::Sender::new(Way::Open);
        let state = way.subscribe();
        let task = tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                let state = state.clone();
                tokio::spawn(async move {
                    let far = TcpStream::connect(server).await;
                    join(near, far, state).await;
                });
            }
        });
        (Self { way, task }, address)
    }

    /// Forwards a socket of PostgreSQL's name in a folder to that in another one.
    pub fn to_postgres(folder: &Path, server: &Path) -> Self {
        const NAME: &str = ".s.PGSQL.5432";
        let listener = UnixListener::bind(folder.join(NAME)).expect("a socket");
        let server: Arc<PathBuf> = Arc::new(server.join(NAME));
        let way = watch::Sender::new(Way::Open);
        let state = way.subscribe();
        let task = tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                let (state, server) = (state.clone(), Arc::clone(&server));
                tokio::spawn(async move {
                    let far = UnixStream::connect(&*server).await;
                    join(near, far, state).await;
                });
            }
        });
        Self { way, task }
    }

    pub fn set(&self, way: Way) {
        self.way.send_replace(way);
    }
}

async fn join<S: AsyncRead + AsyncWrite>(
    near: S,
    far: io::Result<S>,
    mut state: watch::Receiver<Way>,
) {
    let Ok(far) = far else { return };
    let ((near_in, near_out), (far_in, far_out)) = (split(near), split(far));
    let (there, back) = (state.clone(), state.clone());
    tokio::select! {
        () = forward(near_in, far_out, there) => {}
        () = forward(far_in, near_out, back) => {}
        _ = state.wait_for(|way| *way == Way::Cut) => {}
    }
}

async fn forward(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut state: watch::Receiver<Way>,
) {
    let mut buffer = vec![0; 16 << 10];
    loop {
        let Ok(read) = from.read(&mut buffer).await else { return };
        if read == 0 || state.wait_for(|way| *way != Way::Stalled).await.is_err() {
            return;
        }
        if to.write_all(&buffer[..read]).await.is_err() {
            return;
        }
    }
}

//! Limits of simultaneous connections, event streams and sessions.

use std::io::{ErrorKind, Read as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use super::{serving, with_dashboard};
use crate::support::browser::{Browser, Events, address};
use crate::support::discord::{ANN, BOB, CHANNEL, LocalDiscord, OWNER};

const CONNECTIONS: usize = 256;
const STREAMS: usize = 128;
const STREAMS_OF_SESSION: usize = 12;
const SESSIONS_OF_USER: usize = 5;
/// Silent connections are closed after ten seconds in any case, so a longer run proves nothing.
const CONCLUSIVE: Duration = Duration::from_secs(8);

/// Opens connections that send nothing, one after the other.
fn idle_connections(address: SocketAddr, number: usize) -> Vec<TcpStream> {
    (0..number).map(|_| TcpStream::connect(address).unwrap()).collect()
}

/// Returns whether the other side has closed a connection.
fn is_closed(mut connection: &TcpStream) -> bool {
    connection.set_nonblocking(true).unwrap();
    match connection.read(&mut [0]) {
        Ok(length) => length == 0,
        Err(error) => error.kind() != ErrorKind::WouldBlock,
    }
}

#[tokio::test]
async fn the_oldest_idle_connections_are_closed_when_there_are_too_many() {
    const TOO_MANY: usize = 4;
    let local = LocalDiscord::start().await;
    let installation = with_dashboard(&local);
    let bot = serving(&installation).await;
    let address = address(&bot).await;
    // If the machine was so slow that connections may have been closed by the timeout, try again.
    for _ in 0..5 {
        let began = Instant::now();
        let connections = idle_connections(address, CONNECTIONS + TOO_MANY);
        let last_to_go = &connections[TOO_MANY - 1];
        while !is_closed(last_to_go) && began.elapsed() < CONCLUSIVE {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let closed: Vec<usize> =
            (0..connections.len()).filter(|&number| is_closed(&connections[number])).collect();
        if began.elapsed() < CONCLUSIVE {
            assert_eq!(closed, [0, 1, 2, 3]);
            return;
        }
        assert!(closed.len() > 1, "no connection was closed within {CONCLUSIVE:?}");
    }
    panic!("this machine is too slow to open {CONNECTIONS} connections within {CONCLUSIVE:?}");
}

/// Opens event streams until one is refused, and returns the others.
async fn pages(browser: &Browser) -> Vec<Events> {
    let mut open = Vec::new();
    while let Some(events) = browser.try_follow("/live").await {
        open.push(events);
        assert!(open.len() <= CONNECTIONS, "no stream was refused");
    }
    open
}

#[tokio::test]
async fn event_streams_are_limited_per_session_and_in_total() {
    let local = LocalDiscord::start().await;
    let installation = with_dashboard(&local);
    let _bot = serving(&installation).await;
    let mut open = Vec::new();
    'all: for user in [ANN, BOB, OWNER] {
        for _ in 0..SESSIONS_OF_USER {
            let browser = Browser::signed_in(&local, CHANNEL, user).await;
            let pages = pages(&browser).await;
            let (before, number) = (open.len(), pages.len());
            open.extend(pages);
            if number < STREAMS_OF_SESSION {
                assert_eq!(open.len(), STREAMS, "the total limit");
                break 'all;
            }
            assert_eq!((number, before % STREAMS_OF_SESSION), (STREAMS_OF_SESSION, 0));
        }
    }
    assert_eq!(open.len(), STREAMS);
    // Ordinary pages are still served, and a closed stream makes room for another one.
    let browser = Browser::signed_in(&local, CHANNEL, OWNER).await;
    assert_eq!(browser.get("/").await.status, 200);
    open.truncate(STREAMS - 1);
    let next = async {
        while browser.try_follow("/live").await.is_none() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(crate::support::program::LIMIT, next)
        .await
        .expect("a stream is accepted again");
}

//! `aetheel health` for a running gateway, a stopped one and one that hangs.

use std::fs::File;
use std::net::TcpListener;
use std::time::{Duration, Instant, SystemTime};

use rustix::process::Signal;

use super::{installed, serving};
use crate::support::discord::LocalDiscord;
use crate::support::program::{Ended, Installation};

/// Runs `aetheel health` and checks that it ends in time with one line.
async fn health(installation: &Installation) -> Ended {
    let began = Instant::now();
    let ended = installation.run(&["health"], "").await;
    // Its own limit is 2 s, but the machine may be busy.
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}: {ended:?}", began.elapsed());
    let lines = ended.stdout.lines().chain(ended.stderr.lines()).count();
    assert_eq!(lines, 1, "one line: {ended:?}");
    ended
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

#[tokio::test]
async fn the_lock_shows_whether_a_gateway_is_alive_stopped_silent_or_gone() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local);
    let none = health(&installation).await;
    assert!(none.code == 1 && none.stderr.contains("no gateway serves"), "{none:?}");
    let mut bot = serving(&installation).await;
    let alive = health(&installation).await;
    assert!(alive.code == 0 && alive.stdout.starts_with("alive: process "), "{alive:?}");

    bot.signal(Signal::STOP);
    let mut hangs = health(&installation).await;
    let limit = Instant::now() + Duration::from_secs(10);
    // The signal may take a moment.
    while hangs.code == 0 && Instant::now() < limit {
        hangs = health(&installation).await;
    }
    assert!(hangs.code == 1 && hangs.stderr.contains("is stopped"), "{hangs:?}");
    bot.signal(Signal::CONT);

    let lock = File::options().write(true).open(installation.path("config/state/gateway.lock"));
    let long_ago = SystemTime::now() - Duration::from_secs(3600);
    lock.unwrap().set_modified(long_ago).unwrap();
    let silent = health(&installation).await;
    assert!(silent.code == 1 && silent.stderr.contains("shown no activity for 36"), "{silent:?}");

    bot.signal(Signal::KILL);
    bot.ended().await;
    let gone = health(&installation).await;
    assert!(gone.code == 1 && gone.stderr.contains("no gateway serves"), "{gone:?}");
}

#[tokio::test]
async fn with_status_pages_health_requests_livez() {
    let local = LocalDiscord::start().await;
    let port = free_port();
    let installation = installed(&local).with("STATUS_ADDRESS", &format!("127.0.0.1:{port}"));
    let dead = health(&installation).await;
    assert!(dead.code == 1 && dead.stderr.contains("STATUS_ADDRESS"), "{dead:?}");
    let bot = serving(&installation).await;
    let alive = health(&installation).await;
    assert!(alive.code == 0 && alive.stdout.contains("/livez"), "{alive:?}");
    // The system still accepts connections, but the process does not answer.
    bot.signal(Signal::STOP);
    let hangs = health(&installation).await;
    assert!(hangs.code == 1 && hangs.stderr.contains("no answer within"), "{hangs:?}");
    bot.signal(Signal::CONT);
}

#[tokio::test]
async fn the_reasons_on_the_page_are_printed() {
    use std::io::{Read as _, Write as _};
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let answering = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut asked = [0; 512];
        let read = stream.read(&mut asked).unwrap();
        let body = r#"{"alive":false,"reasons":["deaf","and stuck"]}"#;
        let head =
            format!("HTTP/1.1 503 Service Unavailable\r\ncontent-length: {}\r\n\r\n", body.len());
        stream.write_all((head + body).as_bytes()).unwrap();
        String::from_utf8_lossy(&asked[..read]).into_owned()
    });
    let installation = Installation::new().with("STATUS_ADDRESS", &address);
    let ended = health(&installation).await;
    assert_eq!((ended.code, ended.stderr.trim()), (1, "not alive: deaf; and stuck"));
    assert!(answering.join().unwrap().starts_with("GET /livez "));
}

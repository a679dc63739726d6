//! Tests of the limits on calls.

use std::time::Duration;

use aetheel_model::agent::Exit;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::watch;

use super::{BEARER, DEFINITIONS, STANDARD, Stand};
use crate::support::caller::{Call, answer};
use crate::support::scripted::{Agent, DeskOptions, ScriptedLauncher};

fn call(id: &str) -> Call {
    Call::post("deploy", "{}").standard(STANDARD, id, 0)
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_calls_are_refused_before_their_body_is_read() {
    let stand = Stand::quick().await;
    let mut statuses = Vec::new();
    for call in [
        Call { method: "GET", ..call("1") },
        Call { method: "PUT", ..call("1") },
        Call { path: "/".into(), ..call("1") },
        Call { path: "/webhook/deploy".into(), ..call("1") },
        call("1").with("Content-Type", "image/png"),
        call("1").without("Content-Type"),
        call("1").also("Content-Type", "text/plain"),
        call("1").with("Content-Encoding", "gzip"),
    ] {
        let answered = call.send(stand.address).await;
        assert_eq!(
            answered.headers.get("allow").map(String::as_str),
            (answered.status == 405).then_some("POST")
        );
        statuses.push(answered.status);
    }
    assert_eq!(statuses, [405, 405, 404, 404, 415, 415, 415, 415]);
    // A gigabyte that is only announced.
    let mut stream = TcpStream::connect(stand.address).await.unwrap();
    stream
        .write_all(format!("{}Content-Length: 1073741824\r\n\r\n", call("1").head()).as_bytes())
        .await
        .unwrap();
    assert_eq!(answer(&mut stream).await.status, 413);
    for kind in ["text/plain; charset=utf-8", "application/cloudevents+json", "Application/JSON"] {
        assert_eq!(
            call(kind.split(['/', ';']).nth(1).unwrap().trim())
                .with("Content-Type", kind)
                .send(stand.address)
                .await
                .status,
            202
        );
    }
    assert_eq!(stand.begun().await, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endless_body_is_cut_off_and_not_stored() {
    let stand = Stand::quick().await;
    let mut stream = TcpStream::connect(stand.address).await.unwrap();
    stream
        .write_all(format!("{}Transfer-Encoding: chunked\r\n\r\n", call("1").head()).as_bytes())
        .await
        .unwrap();
    let (mut reading, mut writing) = stream.into_split();
    let piece = [b"10000\r\n".as_slice(), &[b'x'; 1 << 16], b"\r\n"].concat();
    let (sent, mut told) = watch::channel(0_usize);
    let writer = tokio::spawn(async move {
        // Up to a gigabyte, if the server accepts it.
        while *sent.borrow() < 1 << 30 && writing.write_all(&piece).await.is_ok() {
            sent.send_modify(|bytes| *bytes += 1 << 16);
        }
    });
    let mut answered = Vec::new();
    // The connection may be reset afterwards, since unread data remains.
    let _ = tokio::time::timeout(Duration::from_secs(60), reading.read_to_end(&mut answered))
        .await
        .expect("it is cut off");
    writer.await.unwrap();
    assert!(
        String::from_utf8_lossy(&answered).starts_with("HTTP/1.1 413 "),
        "{}",
        String::from_utf8_lossy(&answered)
    );
    // One body, and the data in the buffers of two sockets.
    assert!(*told.borrow_and_update() < 32 << 20, "{} bytes were read", *told.borrow());
    assert_eq!(stand.begun().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_body_is_truncated_in_the_prompt() {
    let stand = Stand::quick().await;
    let body = format!("\"{}\"", "ä".repeat(500_000));
    assert_eq!(
        Call::post("deploy", &body).standard(STANDARD, "1", 0).send(stand.address).await.status,
        202
    );
    let (event, _) = stand.desk.collected.answers(1).await.remove(0);
    assert!((64 << 10..66 << 10).contains(&event.prompt.len()), "{}", event.prompt.len());
    assert!(event.prompt.contains("The data was cut: these are the first 65535 of 1000002 bytes."));
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_callers_are_cut_off_and_delay_nobody() {
    let stand = Stand::quick().await;
    let mut silent = TcpStream::connect(stand.address).await.unwrap();
    let mut dripping = TcpStream::connect(stand.address).await.unwrap();
    dripping.write_all(b"POST /webhooks/deploy HTTP/1.1\r\nHost: x\r\nX-A: b").await.unwrap();
    let mut slow = TcpStream::connect(stand.address).await.unwrap();
    slow.write_all(format!("{}Content-Length: 100\r\n\r\nab", call("1").head()).as_bytes())
        .await
        .unwrap();
    let mut endless = TcpStream::connect(stand.address).await.unwrap();
    let header = format!("X-A: {}\r\n", "x".repeat(4_000));
    let flood = async {
        let mut sent = endless.write_all(b"POST / HTTP/1.1\r\n").await;
        for _ in 0..1_000 {
            if sent.is_err() {
                break;
            }
            sent = endless.write_all(header.as_bytes()).await;
        }
        let mut rest = Vec::new();
        // The connection is closed or reset.
        let _ = endless.read_to_end(&mut rest).await;
        rest
    };
    let refused = tokio::time::timeout(Duration::from_secs(60), flood)
        .await
        .expect("endless headers are cut off");
    assert!(
        refused.is_empty() || refused.starts_with(b"HTTP/1.1 431 "),
        "{}",
        String::from_utf8_lossy(&refused)
    );
    assert_eq!(call("2").send(stand.address).await.status, 202, "no call is delayed");

    assert_eq!(answer(&mut slow).await.status, 408);
    for stream in [&mut silent, &mut dripping] {
        let mut rest = Vec::new();
        let _ = tokio::time::timeout(Duration::from_secs(60), stream.read_to_end(&mut rest))
            .await
            .expect("it is cut off");
        assert!(rest.is_empty(), "{}", String::from_utf8_lossy(&rest));
    }
    assert_eq!(stand.begun().await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_bodies_delay_no_valid_call_and_are_asked_to_retry() {
    let stand = Stand::quick().await;
    let mut slow = Vec::new();
    for n in 0..200 {
        let mut stream = TcpStream::connect(stand.address).await.unwrap();
        let head = call(&format!("slow-{n}")).with("webhook-signature", "v1,AAAA").head();
        stream.write_all(format!("{head}Content-Length: 100\r\n\r\nab").as_bytes()).await.unwrap();
        slow.push(stream);
        if n % 20 == 0 {
            assert_eq!(
                call(&format!("good-{n}")).send(stand.address).await.status,
                202,
                "beside {n} slow ones"
            );
        }
    }
    // With 64 parallel calls, the oldest is dropped when another arrives.
    for stream in &mut slow[..100] {
        let refused = tokio::time::timeout(Duration::from_secs(60), answer(stream))
            .await
            .expect("it is cut off");
        if refused.status == 408 {
            // On a busy machine, the call was idle for too long.
            continue;
        }
        assert_eq!(
            (refused.status, refused.headers["retry-after"].as_str(), refused.body.trim_end()),
            (503, "1", "{\"error\":\"busy\"}")
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_connections_delay_no_valid_call() {
    let stand = Stand::quick().await;
    let mut idle = Vec::new();
    for _ in 0..300 {
        idle.push(TcpStream::connect(stand.address).await.unwrap());
    }
    assert_eq!(call("good").send(stand.address).await.status, 202);
    let alive = |stream: &TcpStream| {
        stream.try_read(&mut [0]).is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
    };
    assert!(
        alive(&idle[200]),
        "the call did not wait until idle connections before it were closed"
    );
    let mut rest = Vec::new();
    let gone = tokio::time::timeout(Duration::from_secs(60), idle[0].read_to_end(&mut rest))
        .await
        .expect("the oldest connection was closed");
    assert!(gone.is_err() || rest.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_cannot_be_verified_is_refused_before_its_body_arrives() {
    let stand = Stand::quick().await;
    let unsigned = || call("1").without("webhook-signature");
    for head in [
        Call::post("alarm", "").bearer("token-of-somebody-else").head(),
        Call::post("alarm", "").head(),
        Call::post("no-such-webhook", "").bearer(BEARER).head(),
        unsigned().head(),
    ] {
        let mut stream = TcpStream::connect(stand.address).await.unwrap();
        stream
            .write_all(format!("{head}Content-Length: 1000000\r\n\r\n").as_bytes())
            .await
            .unwrap();
        assert_eq!(answer(&mut stream).await.status, 401, "{head}");
    }
    assert_eq!(
        Call::post("alarm", "the disk is full").bearer(BEARER).send(stand.address).await.status,
        202
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn each_webhook_has_a_limit_for_its_own_callers() {
    let stand = Stand::quick().await;
    stand.define(&DEFINITIONS.replacen("100000/min burst 100000", "1/min burst 2", 1));
    for _ in 0..20 {
        assert_eq!(call("x").with("webhook-id", "y").send(stand.address).await.status, 401);
    }
    for (id, status) in [("1", 202), ("2", 202), ("3", 429), ("4", 429)] {
        let answered = call(id).send(stand.address).await;
        assert_eq!(answered.status, status, "{answered:?}");
        let retry =
            answered.headers.get("retry-after").map(|seconds| seconds.parse::<u64>().unwrap());
        assert_eq!(retry.is_some(), status == 429);
        assert!(retry.is_none_or(|seconds| (1..=61).contains(&seconds)), "{retry:?}");
    }
    assert_eq!(
        Call::post("alarm", "{}").bearer(BEARER).send(stand.address).await.status,
        202,
        "another webhook has its own limit"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_queue_is_reported_and_the_delivery_can_be_repeated() {
    let (release, gate) = watch::channel(false);
    let launcher = ScriptedLauncher::new(move |agent: Agent| {
        let mut gate = gate.clone();
        async move {
            gate.wait_for(|open| *open).await.expect("it is opened");
            agent.say(&["text ok", "done"]).await;
            agent.exit(Exit::Code(0), "").await;
        }
    });
    let stand =
        Stand::new(DeskOptions { slots: 1, depth: 1, ..DeskOptions::default() }, launcher).await;
    for (id, status) in [("1", 202), ("2", 202), ("3", 503), ("3", 503), ("1", 200)] {
        let answered = call(id).send(stand.address).await;
        assert_eq!(answered.status, status, "{id}: {answered:?}");
        assert_eq!(answered.headers.contains_key("retry-after"), status == 503);
    }
    release.send_replace(true);
    stand.desk.collected.answers(2).await;
    stand.desk.dispatcher.turns.idle().await;
    assert_eq!(call("3").send(stand.address).await.status, 202);
}

#[tokio::test(flavor = "multi_thread")]
async fn before_the_start_and_after_the_end_callers_are_asked_to_retry() {
    let stand = Stand::quick().await;
    let early = super::serve(&stand.desk).await;
    let answered = call("1").send(early.address).await;
    assert_eq!((answered.status, answered.headers["retry-after"].as_str()), (503, "30"));
    early.open().await;
    assert_eq!(call("1").send(early.address).await.status, 202);
    early.stop_intake();
    assert_eq!(call("2").send(early.address).await.status, 503);
    early.close().await;
    assert_eq!(call("2").send(stand.address).await.status, 202, "its id was not saved");
}

//! Tests of gateway and holder with a peer that speaks only the previous version of their protocol.
//! The bytes are recorded from that version. Delete this file with the version.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream as BlockingStream};
use std::thread;

use aetheel_model::agent::Exit;
use aetheel_turn::Launcher as _;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;

use super::{Served, gateway, lines, numbers, only, read_all, until, write};

const RUN: &str = "test.19829.8";
const GATEWAY_HELLO: &str = r#"{"protocol":1,"program":"0.1.0","scratch":"","key":"14357dd107ee4f13b0bde22aedc31532","fences":false,"sandbox":null,"leaves_when_empty":false,"tool_port":null}"#;
const HOLDER_HELLO: &[u8] = b"\xa1\0\0\0\x01{\"protocol\":1,\"program\":\"0.1.0\",\"scratch\":\"aetheel-4026531836-19829-5535658-\",\"key\":\"\",\"fences\":true,\"sandbox\":\"Off\",\"leaves_when_empty\":false,\"tool_port\":43663}";
const LAUNCH: &[u8] = b"\x7e\x01\0\0\x02\x01\0\0\0\0\0\0\0\0\0\0\0[{\"run\":\"test.19829.8\",\"proc\":1,\"program\":\"/bin/sh\",\"arguments\":[\"-c\",\"seq 1 10; read x; seq 11 20; read x\"],\"environment\":[[\"PATH\",\"/usr/local/bin:/usr/bin:/bin\"]],\"cwd\":\"/\",\"keep_open\":true,\"framing\":\"lines\",\"line_limit\":1048576,\"output_limit\":1073741824,\"reach\":{\"programs\":[],\"read\":[],\"write\":[],\"hidden\":[],\"kept\":[],\"agent_folders\":[],\"own_sandbox\":false}},\"Off\"]";
const GO_AND_RECORDED: &[u8] = b"\x14\0\0\0\x05\x01\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x01go\n\x10\0\0\0\x06\x01\0\0\0\0\0\0\0\x04\0\0\0\0\0\0\0";
/// The lines that the process prints at its start and after the command.
const LINES: &[u8] = b"\0\x01\0\0\x001\0\x01\0\0\x002\0\x01\0\0\x003\0\x01\0\0\x004\0\x01\0\0\x005\0\x01\0\0\x006\0\x01\0\0\x007\0\x01\0\0\x008\0\x01\0\0\x009\0\x02\0\0\x0010";
const MORE_LINES: &[u8] = b"\0\x02\0\0\x0011\0\x02\0\0\x0012\0\x02\0\0\x0013\0\x02\0\0\x0014\0\x02\0\0\x0015\0\x02\0\0\x0016\0\x02\0\0\x0017\0\x02\0\0\x0018\0\x02\0\0\x0019\0\x02\0\0\x0020";
/// The requests of a gateway that adopts a process, and the answers of the holder.
const ADOPTION: &[(&[u8], &[u8])] = &[
    (
        b"\0\0\0\0\x04",
        b"\x46\0\0\0\x04[{\"run\":\"test.19829.8\",\"keepsake\":[],\"asked\":1,\"processes\":[[1,1,4]]}]",
    ),
    (
        b"\x16\0\0\0\x03[1,\"test.19829.8\",1,3]",
        b"\xb5\0\0\0\x43[1,{\"Start\":{\"program\":\"process 1 of run test.19829.8\",\"fault\":{\"number\":null,\"kind\":\"Other\",\"words\":\"the gateway has 3 of its lines; the holder has the lines after 4, up to 20\"}}}]",
    ),
    (
        b"\x08\0\0\0\x07\x01\0\0\0\0\0\0\0\x17\0\0\0\x03[2,\"test.19829.8\",1,21]",
        b"\xb6\0\0\0\x43[2,{\"Start\":{\"program\":\"process 1 of run test.19829.8\",\"fault\":{\"number\":null,\"kind\":\"Other\",\"words\":\"the gateway has 21 of its lines; the holder has the lines after 4, up to 20\"}}}]",
    ),
    (
        b"\x08\0\0\0\x07\x02\0\0\0\0\0\0\0\x16\0\0\0\x03[3,\"test.19829.8\",2,4]",
        b"\x89\0\0\0\x43[3,{\"Start\":{\"program\":\"process 2 of run test.19829.8\",\"fault\":{\"number\":null,\"kind\":\"Other\",\"words\":\"the holder has no such process\"}}}]",
    ),
    (
        b"\x08\0\0\0\x07\x03\0\0\0\0\0\0\0\x16\0\0\0\x03[4,\"test.19829.8\",1,7]",
        b"\x1e\0\0\0\x42[4,{\"pid\":19848,\"commands\":1}]\x1b\0\0\0\x44\x04\0\0\0\0\0\0\0\0\x01\0\0\x008\0\x01\0\0\x009\0\x02\0\0\x0010\x4e\0\0\0\x44\x04\0\0\0\0\0\0\0\0\x02\0\0\x0011\0\x02\0\0\x0012\0\x02\0\0\x0013\0\x02\0\0\x0014\0\x02\0\0\x0015\0\x02\0\0\x0016\0\x02\0\0\x0017\0\x02\0\0\x0018\0\x02\0\0\x0019\0\x02\0\0\x0020",
    ),
    (
        b"\x14\0\0\0\x05\x04\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0\x01go\n",
        b"\x11\0\0\0\x46[4,{\"code\":0},\"\"]",
    ),
];

/// Answers one gateway as the previous version did, and checks its requests.
fn serve_adoption(listener: &UnixListener) {
    let (mut stream, _) = listener.accept().unwrap();
    let mut header = [0; 5];
    stream.read_exact(&mut header).unwrap();
    let [length @ .., kind] = header;
    let mut hello = vec![0; u32::from_le_bytes(length) as usize];
    stream.read_exact(&mut hello).unwrap();
    let hello: Value = serde_json::from_slice(&hello).unwrap();
    assert_eq!((kind, &hello["protocol"], &hello["key"]), (1, &json!(1), &json!("key")));
    stream.write_all(HOLDER_HELLO).unwrap();
    for (request, answer) in ADOPTION {
        let mut received = vec![0; request.len()];
        stream.read_exact(&mut received).unwrap();
        assert_eq!(received.escape_ascii().to_string(), request.escape_ascii().to_string());
        stream.write_all(answer).unwrap();
    }
    stream.read_to_end(&mut Vec::new()).unwrap();
}

#[tokio::test]
async fn a_gateway_adopts_an_agent_of_a_holder_of_the_previous_version() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("holder.key"), "key").unwrap();
    let listener = UnixListener::bind(folder.path().join("holder.sock")).unwrap();
    let holder = thread::spawn(move || serve_adoption(&listener));
    let gateway = gateway(folder.path()).await;
    assert!(gateway.fences());
    assert_eq!(gateway.tool_port(), Some(43663));
    let survivor = only(&gateway).await;
    assert_eq!((survivor.run.as_str(), survivor.attach_count), (RUN, 1));
    assert_eq!((survivor.processes[0].commands, survivor.processes[0].recorded), (1, 4));
    for (proc, lines) in [(1, 3), (1, 21), (2, 4)] {
        let refused = gateway.adopt(RUN, proc, lines).await.unwrap_err();
        assert!(format!("{refused:?}").contains("the holder has "), "{refused:?}");
    }
    let mut process = gateway.adopt(RUN, 1, 7).await.unwrap();
    assert_eq!(process.pid, Some(19848));
    assert_eq!(lines(&mut process, 13).await, numbers(8..=20));
    write(&process, "go\n");
    assert_eq!(read_all(&mut process).await.how, Some(Exit::Code(0)));
    gateway.leave().await;
    holder.join().unwrap();
}

/// A gateway that speaks only the previous version.
struct PreviousGateway(UnixStream);

impl PreviousGateway {
    /// Connects, waiting for the holder and until the last gateway has disconnected.
    async fn connect(holder: &Served) -> Self {
        let socket = holder.state().join("holder.sock");
        until("the holder listens", || BlockingStream::connect(&socket).is_ok()).await;
        loop {
            let mut gateway = Self(UnixStream::connect(&socket).await.unwrap());
            let key = fs::read_to_string(holder.state().join("holder.key")).unwrap();
            let hello = GATEWAY_HELLO.replace("14357dd107ee4f13b0bde22aedc31532", &key);
            gateway.send_hello(&hello).await;
            match gateway.receive().await {
                (1, hello) => {
                    assert_eq!(json(&hello)["protocol"], 1);
                    return gateway;
                }
                (65, refusal) => assert_eq!(json(&refusal)["busy"], true),
                other => panic!("{other:?}"),
            }
        }
    }

    async fn send_hello(&mut self, hello: &str) {
        self.0.write_all(&u32::try_from(hello.len()).unwrap().to_le_bytes()).await.unwrap();
        self.0.write_all(&[&[1], hello.as_bytes()].concat()).await.unwrap();
    }

    /// Returns the kind and the body of the next frame.
    async fn receive(&mut self) -> (u8, Vec<u8>) {
        let length = self.0.read_u32_le().await.unwrap();
        let kind = self.0.read_u8().await.unwrap();
        let mut body = vec![0; length as usize];
        self.0.read_exact(&mut body).await.unwrap();
        (kind, body)
    }

    /// Receives these lines of the first stream, in one frame or several.
    async fn receive_lines(&mut self, expected: &[u8]) {
        let mut received = Vec::new();
        while received.len() < expected.len() {
            let (kind, body) = self.receive().await;
            let (stream, lines) = body.split_at(8);
            assert_eq!((kind, stream), (68, &1_u64.to_le_bytes()[..]));
            received.extend(lines);
        }
        assert_eq!(received.escape_ascii().to_string(), expected.escape_ascii().to_string());
    }
}

fn json(body: &[u8]) -> Value {
    serde_json::from_slice(body).unwrap()
}

#[tokio::test]
async fn a_holder_serves_a_gateway_of_the_previous_version_and_then_one_of_this_version() {
    let holder = Served::new();
    let mut previous = PreviousGateway::connect(&holder).await;
    previous.0.write_all(LAUNCH).await.unwrap();
    let (kind, started) = previous.receive().await;
    assert_eq!(
        (kind, &json(&started)[0], &json(&started)[1]["commands"]),
        (66, &json!(1), &json!(0))
    );
    previous.receive_lines(LINES).await;
    previous.0.write_all(GO_AND_RECORDED).await.unwrap();
    previous.receive_lines(MORE_LINES).await;
    drop(previous);
    let mut previous = PreviousGateway::connect(&holder).await;
    previous.0.write_all(ADOPTION[0].0).await.unwrap();
    let (kind, survivors) = previous.receive().await;
    assert_eq!((kind, json(&survivors)), (4, json(&ADOPTION[0].1[5..])));
    drop(previous);
    let next = gateway(&holder.state()).await;
    let survivor = only(&next).await;
    assert_eq!((survivor.processes[0].commands, survivor.processes[0].recorded), (1, 4));
    let mut process = next.adopt(RUN, 1, 7).await.unwrap();
    assert_eq!(lines(&mut process, 13).await, numbers(8..=20));
    write(&process, "go\n");
    assert_eq!(read_all(&mut process).await.how, Some(Exit::Code(0)));
    holder.end().await;
}

#[tokio::test]
async fn a_holder_refuses_a_gateway_that_no_longer_speaks_its_protocol() {
    let holder = Served::new();
    drop(PreviousGateway::connect(&holder).await);
    let socket = holder.state().join("holder.sock");
    let mut later = PreviousGateway(UnixStream::connect(socket).await.unwrap());
    later.send_hello(r#"{"protocol":3,"newest":4,"program":"9.0.0","key":"any"}"#).await;
    let (kind, refusal) = later.receive().await;
    assert_eq!((kind, &json(&refusal)["busy"]), (65, &json!(false)));
    let why = json(&refusal)["why"].to_string();
    assert!(why.contains("9.0.0; stop the holder when its agents are done"), "{why}");
    holder.end().await;
}

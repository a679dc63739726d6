use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;

use proptest::prelude::*;

use super::*;
use crate::Sandbox;
use aetheel_model::agent::Pipe;
use aetheel_model::agent::descriptor::Framing;
use aetheel_turn::{Launch, Reach};

fn raw() -> impl Strategy<Value = OsString> {
    prop::collection::vec(any::<u8>(), 0..20).prop_map(OsString::from_vec)
}

fn lines() -> impl Strategy<Value = Vec<OutputLine>> {
    let line = (any::<bool>(), ".{0,40}", any::<bool>());
    let line = line.prop_map(|(error, text, truncated)| OutputLine {
        pipe: if error { Pipe::Stderr } else { Pipe::Stdout },
        text,
        truncated,
    });
    prop::collection::vec(line, 0..20)
}

fn command() -> impl Strategy<Value = ProcessCommand> {
    let grace = any::<u32>().prop_map(|grace| Duration::from_millis(grace.into()));
    let signal = prop::sample::select(vec![Signal::Interrupt, Signal::Terminate, Signal::Kill]);
    prop_oneof![
        prop::collection::vec(any::<u8>(), 0..100).prop_map(ProcessCommand::Write),
        Just(ProcessCommand::CloseStdin),
        (signal, grace).prop_map(|(signal, grace)| ProcessCommand::Stop { signal, grace }),
        any::<u64>().prop_map(ProcessCommand::Recorded),
    ]
}

fn launch() -> impl Strategy<Value = Launch> {
    let paths = || prop::collection::vec(raw().prop_map(PathBuf::from), 0..4);
    let given = (raw(), prop::collection::vec(raw(), 0..4), ".{0,9}", any::<u32>());
    let pipes = (prop::collection::vec(any::<u8>(), 0..50), any::<bool>(), any::<bool>());
    (given, pipes, paths(), paths(), any::<u64>()).prop_map(
        |((program, arguments, run, proc), (stdin, keep_open, framed), read, hidden, limit)| {
            Launch {
                run,
                proc,
                program: program.into(),
                arguments,
                environment: vec![("A".to_owned(), "b=c\n".to_owned())],
                cwd: PathBuf::from("/"),
                stdin,
                keep_open,
                framing: if framed { Framing::ContentLength } else { Framing::Lines },
                line_limit: 7,
                output_limit: limit,
                reach: Reach { read, hidden, own_sandbox: keep_open, ..Reach::default() },
            }
        },
    )
}

fn read(bytes: &[u8]) -> io::Result<Option<(u8, Vec<u8>)>> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let mut body = Vec::new();
        let kind = read_frame(&mut &bytes[..], &mut body, MAX_FRAME_BYTES).await?;
        Ok(kind.map(|kind| (kind, body)))
    })
}

fn again(request: &HolderRequest) -> HolderRequest {
    let mut bytes = Vec::new();
    request.encode(&mut bytes);
    let (kind, body) = read(&bytes).unwrap().unwrap();
    HolderRequest::decode(kind, &body).unwrap()
}

fn decoded(answer: &HolderAnswer) -> HolderAnswer {
    let mut bytes = Vec::new();
    answer.encode(&mut bytes);
    let (kind, body) = read(&bytes).unwrap().unwrap();
    HolderAnswer::decode(kind, &body).unwrap()
}

proptest! {
    #[test]
    fn launches_are_decoded_as_they_were_encoded(launch in launch(), program in raw()) {
        let sandbox = Sandbox::Landlock { abi: 7, bubblewrap: Some(program.into()) };
        let request = HolderRequest::Launch {
            stream: 9,
            launch: Box::new(launch.clone().into()),
            sandbox: (&sandbox).into(),
        };
        let HolderRequest::Launch { launch: came, sandbox: confined, .. } = again(&request) else {
            panic!("another request")
        };
        prop_assert_eq!(format!("{:?}", Launch::from(*came)), format!("{launch:?}"));
        prop_assert_eq!(Sandbox::from(confined), sandbox);
    }

    #[test]
    fn commands_are_decoded_as_they_were_encoded(command in command(), stream: u64, number: u64) {
        let request = HolderRequest::Command { stream, number, command };
        prop_assert_eq!(again(&request), request);
    }

    #[test]
    fn lines_are_decoded_as_they_were_encoded_and_can_be_skipped(lines in lines(), skip in 0..9_usize, most in 0..9_usize) {
        let answer = HolderAnswer::Lines { stream: 3, lines: lines.clone() };
        prop_assert_eq!(decoded(&answer), answer);
        let mut bytes = Vec::new();
        lines.iter().for_each(|line| encode_line(&mut bytes, line));
        let between = decode_lines(lines_between(&bytes, skip as u64, most as u64)).unwrap();
        prop_assert_eq!(between, lines.into_iter().skip(skip).take(most).collect::<Vec<_>>());
    }

    #[test]
    fn random_bytes_never_panic(kind: u8, bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = HolderRequest::decode(kind, &bytes);
        let _ = HolderAnswer::decode(kind, &bytes);
        let _ = read(&bytes);
    }

    #[test]
    fn truncated_or_changed_frames_never_panic(command in command(), at: prop::sample::Index, to: u8) {
        let mut bytes = Vec::new();
        HolderRequest::Command { stream: 1, number: 2, command }.encode(&mut bytes);
        prop_assert!(read(&bytes[..at.index(bytes.len())]).is_ok_and(|read| read.is_none())
            || read(&bytes[..at.index(bytes.len())]).is_err());
        let place = at.index(bytes.len());
        bytes[place] = to;
        if let Ok(Some((kind, body))) = read(&bytes) {
            let _ = HolderRequest::decode(kind, &body);
        }
    }
}

#[test]
fn other_messages_are_decoded_as_they_were_encoded() {
    let requests = [
        HolderRequest::Hello(Hello::gateway("key".to_owned())),
        HolderRequest::Adopt { stream: 1, run: "r".to_owned(), proc: 2, lines: 3 },
        HolderRequest::Survivors,
        HolderRequest::Recorded { stream: 4, lines: 5 },
        HolderRequest::Abandon { stream: 6 },
        HolderRequest::Keep { run: "r".to_owned(), keepsake: vec![0, 255] },
        HolderRequest::End { run: "r".to_owned() },
        HolderRequest::SetDeadline(u64::MAX),
    ];
    for request in requests {
        assert_eq!(again(&request), request);
    }
    let run =
        WireRun { run: "r".to_owned(), keepsake: vec![1], asked: 2, processes: vec![(1, 2, 3)] };
    let answers = [
        HolderAnswer::Hello(Hello::holder("aetheel-".to_owned(), &Sandbox::Off, true, Some(4097))),
        HolderAnswer::Refused(HandshakeRefusal { busy: true, why: "why".to_owned() }),
        HolderAnswer::Started { stream: 1, started: Started { pid: Some(2), commands: 3 } },
        HolderAnswer::Survivors(vec![run]),
        HolderAnswer::OutputLimit { stream: 7 },
        HolderAnswer::Exited { stream: 8, how: Exit::Signal(9), stderr_tail: "tail".to_owned() },
    ];
    for answer in answers {
        assert_eq!(decoded(&answer), answer);
    }
}

#[test]
fn a_frame_that_is_too_long_is_refused_before_it_is_read() {
    let mut body = Vec::new();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let read = runtime.block_on(read_frame(&mut &[255; 5][..], &mut body, MAX_HELLO_BYTES));
    assert!(read.is_err() && body.capacity() == 0);
}

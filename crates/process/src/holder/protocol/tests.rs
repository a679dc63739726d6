use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;
use std::time::Duration;

use proptest::prelude::*;

use super::*;
use aetheel_model::agent::descriptor::Framing;
use aetheel_model::agent::{Pipe, Signal};
use aetheel_turn::{Reach, SurvivingProcess};

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

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..50)
}

fn sandbox() -> impl Strategy<Value = Sandbox> {
    let bubblewrap = || raw().prop_map(PathBuf::from);
    prop_oneof![
        Just(Sandbox::Off),
        (any::<i32>(), prop::option::of(bubblewrap()))
            .prop_map(|(abi, bubblewrap)| Sandbox::Landlock { abi, bubblewrap }),
        bubblewrap().prop_map(Sandbox::Bubblewrap),
    ]
}

fn failure() -> impl Strategy<Value = LaunchError> {
    let path = || raw().prop_map(PathBuf::from);
    let kind = prop::sample::select(vec![
        io::ErrorKind::NotFound,
        io::ErrorKind::PermissionDenied,
        io::ErrorKind::InvalidInput,
        io::ErrorKind::Other,
    ]);
    let source = prop_oneof![
        (1..100).prop_map(io::Error::from_raw_os_error),
        (kind, ".{0,9}").prop_map(|(kind, why)| io::Error::new(kind, why)),
    ];
    prop_oneof![
        path().prop_map(LaunchError::NotFound),
        path().prop_map(LaunchError::NoDirectory),
        path().prop_map(LaunchError::HolderLost),
        (path(), source).prop_map(|(program, source)| LaunchError::Start { program, source }),
    ]
}

fn request() -> impl Strategy<Value = HolderRequest> {
    let stream = any::<u64>;
    prop_oneof![
        (stream(), launch(), sandbox()).prop_map(|(stream, launch, sandbox)| {
            HolderRequest::Launch { stream, launch: Box::new(launch), sandbox }
        }),
        (stream(), ".{0,9}", any::<u32>(), any::<u64>()).prop_map(|(stream, run, proc, lines)| {
            HolderRequest::Adopt { stream, run, proc, lines }
        }),
        Just(()).prop_map(|()| HolderRequest::Survivors),
        (stream(), any::<u64>(), command()).prop_map(|(stream, number, command)| {
            HolderRequest::Command { stream, number, command }
        }),
        (stream(), any::<u64>())
            .prop_map(|(stream, lines)| HolderRequest::Recorded { stream, lines }),
        stream().prop_map(|stream| HolderRequest::Abandon { stream }),
        (".{0,9}", bytes()).prop_map(|(run, keepsake)| HolderRequest::Keep { run, keepsake }),
        ".{0,9}".prop_map(|run| HolderRequest::End { run }),
        any::<u64>().prop_map(HolderRequest::SetDeadline),
    ]
}

fn survivor() -> impl Strategy<Value = Survivor> {
    let process = (any::<u32>(), any::<u64>(), any::<u64>())
        .prop_map(|(proc, commands, recorded)| SurvivingProcess { proc, commands, recorded });
    let processes = prop::collection::vec(process, 0..4);
    (".{0,9}", bytes(), any::<u32>(), processes).prop_map(
        |(run, keepsake, attach_count, processes)| Survivor {
            run,
            keepsake,
            attach_count,
            processes,
        },
    )
}

fn answer() -> impl Strategy<Value = HolderAnswer> {
    let stream = any::<u64>;
    let exit = prop_oneof![
        any::<u32>().prop_map(Exit::Code),
        any::<u32>().prop_map(Exit::Signal),
        Just(Exit::Unknown)
    ];
    prop_oneof![
        (stream(), any::<Option<u32>>(), any::<u64>()).prop_map(|(stream, pid, commands)| {
            HolderAnswer::Started { stream, started: Started { pid, commands } }
        }),
        (stream(), failure())
            .prop_map(|(stream, failure)| HolderAnswer::Failed { stream, failure }),
        prop::collection::vec(survivor(), 0..3).prop_map(HolderAnswer::Survivors),
        (stream(), lines()).prop_map(|(stream, lines)| HolderAnswer::Lines { stream, lines }),
        stream().prop_map(|stream| HolderAnswer::OutputLimit { stream }),
        (stream(), exit, ".{0,40}").prop_map(|(stream, how, stderr_tail)| {
            HolderAnswer::Exited { stream, how, stderr_tail }
        }),
    ]
}

fn version() -> impl Strategy<Value = Version> {
    prop::sample::select(Version::ALL.to_vec())
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

fn read(bytes: &[u8]) -> io::Result<Option<BytesMut>> {
    block_on(FrameReader::new(bytes, MAX_FRAME_BYTES).next())
}

fn frame(message: &impl PreviousMessage, version: Version) -> BytesMut {
    let mut bytes = BytesMut::new();
    push_message(message, version, &mut bytes);
    bytes
}

fn again<M: PreviousMessage>(message: &M, version: Version) -> M {
    read_message(&read(&frame(message, version)).unwrap().unwrap(), version).unwrap()
}

proptest! {
    #[test]
    fn requests_are_decoded_as_they_were_encoded(request in request(), version in version()) {
        prop_assert_eq!(format!("{:?}", again(&request, version)), format!("{request:?}"));
    }

    #[test]
    fn answers_are_decoded_as_they_were_encoded(answer in answer(), version in version()) {
        prop_assert_eq!(format!("{:?}", again(&answer, version)), format!("{answer:?}"));
    }

    #[test]
    fn lines_are_decoded_as_they_were_encoded_and_can_be_skipped(lines in lines(), skip in 0..9_usize, most in 0..9_usize, version in version()) {
        let mut bytes = Vec::new();
        lines.iter().for_each(|line| encode_line(&mut bytes, line));
        let between = lines_between(&bytes, skip as u64, most as u64);
        let expected: Vec<_> = lines.into_iter().skip(skip).take(most).collect();
        let mut frame = BytesMut::new();
        let message = lines_message(3, expected.len() as u64, between);
        push_lines(&message, version, &mut frame);
        let Ok(HolderAnswer::Lines { stream: 3, lines }) = read_message(&read(&frame).unwrap().unwrap(), version) else {
            panic!("another answer")
        };
        prop_assert_eq!(lines, expected);
    }

    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), version in version()) {
        let _ = read_message::<HolderRequest>(&bytes, version);
        let _ = read_message::<HolderAnswer>(&bytes, version);
        let _ = Hello::read(&bytes);
        let _ = read_hello_answer(&bytes);
        let _ = read(&bytes);
    }

    #[test]
    fn truncated_or_changed_frames_never_panic(request in request(), at: prop::sample::Index, to: u8, version in version()) {
        let mut bytes = frame(&request, version);
        prop_assert!(read(&bytes[..at.index(bytes.len())]).is_ok_and(|read| read.is_none())
            || read(&bytes[..at.index(bytes.len())]).is_err());
        let place = at.index(bytes.len());
        bytes[place] = to;
        if let Ok(Some(message)) = read(&bytes) {
            let _ = read_message::<HolderRequest>(&message, version);
        }
    }
}

#[test]
fn greetings_are_decoded_as_they_were_encoded() {
    let gateway = Hello::gateway("key".to_owned());
    assert_eq!(Hello::read(&read(&gateway.frame()).unwrap().unwrap()).unwrap(), gateway);
    let holder =
        Hello::holder(Version::Current, "aetheel-".to_owned(), &Sandbox::Off, true, Some(4097));
    let read_answer = |frame: BytesMut| read_hello_answer(&read(&frame).unwrap().unwrap()).unwrap();
    assert_eq!(read_answer(holder.frame()), Ok(holder));
    let refusal = HandshakeRefusal { busy: true, why: "why".to_owned() };
    assert_eq!(read_answer(refusal.frame()), Err(refusal));
}

#[test]
fn the_newest_version_that_both_sides_speak_is_used() {
    let of = |protocol, newest| Hello { protocol, newest, ..Hello::default() }.version();
    assert_eq!(Hello::gateway(String::new()).version(), Some(Version::Current));
    assert_eq!((of(1, 0), of(2, 0)), (Some(Version::Previous), Some(Version::Current)));
    assert_eq!((of(1, 2), of(2, 3), of(1, 9)), (of(2, 0), of(2, 0), of(2, 0)));
    assert_eq!((of(0, 0), of(3, 0), of(3, 4)), (None, None, None));
}

#[test]
fn a_frame_that_is_too_long_is_refused_before_it_is_read() {
    let mut frames = FrameReader::new(&[255; 5][..], MAX_HELLO_BYTES);
    assert!(block_on(frames.next()).is_err());
}

#[test]
fn a_frame_of_the_largest_length_is_read_and_its_memory_is_freed() {
    let most = 1 << 20;
    let mut bytes = BytesMut::new();
    for length in [most, most, most + 1] {
        push_frame(&mut bytes, &vec![7; length + 1]);
    }
    let mut frames = FrameReader::new(&bytes[..], most);
    block_on(async {
        for _ in 0..2 {
            assert_eq!(frames.next().await.unwrap().unwrap().len(), most + 1);
            assert!(frames.capacity() < most, "{}", frames.capacity());
        }
        assert!(frames.next().await.is_err());
    });
}

#[test]
fn memory_is_reserved_only_for_received_bytes() {
    let announced = u32::try_from(MAX_FRAME_BYTES).unwrap().to_le_bytes();
    let mut frames = FrameReader::new(&announced[..], MAX_FRAME_BYTES);
    let error = block_on(frames.next()).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    assert!(frames.capacity() < 1 << 20, "{}", frames.capacity());
}

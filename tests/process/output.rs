//! Tests of the output and the input of a process.

use std::time::Duration;

use aetheel_model::agent::descriptor::Framing;
use aetheel_model::agent::{Exit, Pipe};
use aetheel_turn::{Launcher, ProcessCommand};

use super::{custodies, line, living, read_all, run, sh, state, wait_for_async};

#[tokio::test]
async fn a_line_of_100_mb_is_cut_and_the_next_one_is_read() {
    for custody in custodies() {
        let output =
            run(&custody, sh("head -c 100000000 /dev/zero | tr '\\0' x; echo; echo after")).await;
        assert_eq!(output.lines.len(), 2);
        assert_eq!((output.lines[0].text.len(), output.lines[0].truncated), (1 << 20, true));
        assert_eq!((output.lines[1].text.as_str(), output.lines[1].truncated), ("after", false));
        assert_eq!(output.how, Some(Exit::Code(0)));
    }
}

#[tokio::test]
async fn a_program_that_does_not_wait_can_print_a_mebibyte_at_once() {
    for custody in custodies() {
        // `dd` ends when the pipe is full, as agents that exit without waiting lose the rest of
        // their output.
        let said = sh("dd if=/dev/zero bs=1048576 count=1 oflag=nonblock status=none");
        let output = run(&custody, said).await;
        assert_eq!(
            (output.how, output.lines[0].text.len()),
            (Some(Exit::Code(0)), 1 << 20),
            "{}",
            output.tail
        );
    }
}

#[tokio::test]
async fn invalid_utf_8_is_replaced_and_later_lines_are_read() {
    for custody in custodies() {
        let output = run(&custody, sh("printf 'a\\377b\\n\\303(\\r\\n'; printf '\\346\\274'; sleep 0.05; printf '\\242\\nend'")).await;
        assert_eq!(output.text(Pipe::Stdout), ["a\u{fffd}b", "\u{fffd}(", "漢", "end"]);
    }
}

#[tokio::test]
async fn endless_output_is_ended_at_the_limit() {
    for custody in custodies() {
        let mut launch = sh("setsid yes; yes");
        launch.output_limit = 1_000_000;
        let output = run(&custody, launch).await;
        assert!(output.over);
        assert_eq!(output.how, Some(Exit::Signal(9)));
        let bytes: usize = output.lines.iter().map(|line| line.text.len() + 1).sum();
        assert!((900_000..1_100_000).contains(&bytes), "{bytes}");
    }
}

#[tokio::test]
async fn both_pipes_are_drained_and_the_end_of_stderr_is_kept_clean() {
    for custody in custodies() {
        let script = "head -c 5000000 /dev/zero | tr '\\0' e >&2; yes out | head -n 100000; \
            printf '\\n\\033[31mred\\033[0m \\033]0;title\\007end\\r\\n' >&2; exit 3";
        let output = run(&custody, sh(script)).await;
        assert_eq!(output.text(Pipe::Stdout).len(), 100_000);
        assert_eq!(output.text(Pipe::Stderr).len(), 2);
        assert_eq!(output.how, Some(Exit::Code(3)));
        assert!(
            output.tail.len() <= 64 << 10 && output.tail.ends_with("red end\n"),
            "{:?}",
            output.tail
        );
    }
}

#[tokio::test]
async fn a_long_prompt_to_a_program_that_floods_first_does_not_lock_up() {
    for custody in custodies() {
        let mut launch = sh("yes | head -c 3000000; yes | head -c 3000000 >&2; wc -c");
        launch.stdin = vec![b'p'; 200 << 10];
        let output = run(&custody, launch).await;
        assert_eq!(output.text(Pipe::Stdout).last().map(|line| line.trim()), Some("204800"));
        assert_eq!(output.text(Pipe::Stderr).len(), 1_500_000);
    }
}

#[tokio::test]
async fn a_program_that_never_reads_its_prompt_causes_no_problem() {
    for custody in custodies() {
        let mut launch = sh("exec <&-; echo deaf; sleep 0.05; exit 4");
        launch.stdin = vec![b'p'; 200 << 10];
        launch.keep_open = true;
        let name = launch.run.clone();
        let mut process = custody.launch(launch).await.unwrap();
        for _ in 0..10 {
            process.commands.send(ProcessCommand::Write(vec![b'q'; 10_000])).unwrap();
        }
        let output = read_all(&mut process).await;
        assert_eq!((output.text(Pipe::Stdout), output.how), (vec!["deaf"], Some(Exit::Code(4))));
        assert_eq!(living(&name), Vec::<String>::new());
    }
}

#[tokio::test]
async fn stdin_stays_open_until_it_is_closed() {
    for custody in custodies() {
        let mut launch = sh("while read -r line; do echo \"got $line\"; done; echo end");
        launch.stdin = b"one\n".to_vec();
        launch.keep_open = true;
        let mut process = custody.launch(launch).await.unwrap();
        super::line(&mut process, "got one").await;
        process.commands.send(ProcessCommand::Write(b"two\n".to_vec())).unwrap();
        super::line(&mut process, "got two").await;
        process.commands.send(ProcessCommand::Write(b"three\n".to_vec())).unwrap();
        process.commands.send(ProcessCommand::CloseStdin).unwrap();
        let output = read_all(&mut process).await;
        assert_eq!(
            (output.text(Pipe::Stdout), output.how),
            (vec!["got three", "end"], Some(Exit::Code(0)))
        );
        // The process has ended, so the message has no effect.
        let _ = process.commands.send(ProcessCommand::Write(b"four\n".to_vec()));
    }
}

#[tokio::test]
async fn a_slow_reader_loses_nothing_when_the_program_ends() {
    for custody in custodies() {
        let launch = sh("i=0; while [ $i -lt 40 ]; do i=$((i + 1)); echo $i; sleep 0.01; done");
        let mut process = custody.launch(launch).await.unwrap();
        let pid = process.pid.unwrap() as i32;
        wait_for_async("the leader's end", || state(pid).is_none_or(|(state, _)| state == "Z"))
            .await;
        // Longer than leftovers of a run may keep its pipes open. That does not apply here, since
        // the reader is slow.
        tokio::time::sleep(Duration::from_millis(900)).await;
        let output = read_all(&mut process).await;
        let wanted: Vec<String> = (1..=40).map(|number| number.to_string()).collect();
        assert_eq!(output.text(Pipe::Stdout), wanted);
        assert_eq!(output.how, Some(Exit::Code(0)));
    }
}

#[tokio::test]
async fn messages_with_a_length_header_are_read_and_written() {
    for custody in custodies() {
        // It prints its input as messages, after a line that is not a message and a line on stderr.
        let mut launch = sh("echo starting; echo careful >&2; exec cat");
        launch.framing = Framing::ContentLength;
        launch.stdin = b"{\n}".to_vec();
        launch.keep_open = true;
        let name = launch.run.clone();
        let mut process = custody.launch(launch).await.unwrap();
        process.commands.send(ProcessCommand::Write(b"[1]".to_vec())).unwrap();
        line(&mut process, "[1]").await;
        process.commands.send(ProcessCommand::CloseStdin).unwrap();
        let output = read_all(&mut process).await;
        assert_eq!((output.how, output.tail.as_str()), (Some(Exit::Code(0)), "careful\n"));
        assert_eq!(living(&name), Vec::<String>::new());
    }
    for custody in custodies() {
        let mut launch = sh("cat");
        launch.framing = Framing::ContentLength;
        launch.stdin = b"{\n}".to_vec();
        assert_eq!(run(&custody, launch).await.text(Pipe::Stdout), ["{\n}"]);
        let mut launch = sh("printf 'Content-Length: 9\\r\\n\\r\\nabc'");
        launch.framing = Framing::ContentLength;
        let output = run(&custody, launch).await;
        assert_eq!(
            (output.lines[0].text.as_str(), output.lines[0].truncated),
            ("abc", true),
            "truncated"
        );
    }
}

//! Tests of the environment in which a process starts, and of the reasons why it does not start.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use aetheel_model::agent::{Exit, Pipe};
use aetheel_process::{Custody, Means, ProbeError};
use aetheel_turn::{LaunchError, Launcher};

use super::{custodies, living, run, sh};
use crate::support::needs;

#[tokio::test]
async fn the_environment_contains_only_the_given_variables_and_the_mark() {
    for custody in custodies() {
        let mut launch = sh("");
        launch.program = "env".into();
        launch.arguments = Vec::new();
        launch.environment.push(("GIVEN".to_owned(), "a b".to_owned()));
        launch.environment.push(("AETHEEL_RUN".to_owned(), "forged".to_owned()));
        let name = launch.run.clone();
        let output = run(&custody, launch).await;
        let lines = output.text(Pipe::Stdout);
        assert_eq!(lines[..2], ["PATH=/usr/local/bin:/usr/bin:/bin", "GIVEN=a b"]);
        assert_eq!(lines.len(), 3, "{lines:?}");
        assert!(
            lines[2].starts_with("AETHEEL_RUN=") && lines[2].ends_with(&format!("-{name}")),
            "{lines:?}"
        );
    }
}

#[tokio::test]
async fn only_the_three_standard_descriptors_are_inherited() {
    let stray = tempfile::NamedTempFile::new().unwrap();
    rustix::io::fcntl_setfd(&stray, rustix::io::FdFlags::empty()).unwrap();
    for custody in custodies() {
        let mut launch = sh("");
        launch.program = "/bin/ls".into();
        launch.arguments = ["-l", "/proc/self/fd"].map(Into::into).into();
        let output = run(&custody, launch).await;
        let links: Vec<&str> =
            output.text(Pipe::Stdout).into_iter().filter(|line| line.contains(" -> ")).collect();
        // The fourth is the folder that `ls` reads.
        assert_eq!(links.len(), 4, "{links:#?}");
        assert!(
            links[..3].iter().all(|link| link.contains("pipe:")) && links[3].contains("/fd"),
            "{links:#?}"
        );
    }
    rustix::io::fcntl_setfd(&stray, rustix::io::FdFlags::CLOEXEC).unwrap();
}

#[tokio::test]
async fn a_process_leads_its_own_session_without_core_dumps_or_unusual_signals() {
    for custody in custodies() {
        let output =
            run(&custody, sh("ulimit -Sc; ulimit -Hc; grep -E 'Sig(Blk|Ign)' /proc/self/status; cut -d' ' -f5,6 /proc/$$/stat; echo $$"))
                .await;
        let lines = output.text(Pipe::Stdout);
        let none = "0000000000000000";
        assert_eq!(lines[..2], ["0", "0"]);
        assert_eq!(lines[2..4], [format!("SigBlk:\t{none}"), format!("SigIgn:\t{none}")]);
        assert_eq!(lines[4], format!("{0} {0}", lines[5]));
    }
}

/// Returns whether this process may create cgroups below its own one. See [`needs::met`].
fn has_own_cgroup() -> bool {
    let create = || {
        let own = fs::read_to_string("/proc/self/cgroup").map_err(|error| error.to_string())?;
        let own = own.lines().find_map(|line| line.strip_prefix("0::"));
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let mount = mounts.lines().find(|line| line.contains(" - cgroup2 "));
        let mount = mount.and_then(|line| line.split(' ').nth(4));
        let (Some(own), Some(mount)) = (own, mount) else {
            return Err("this system has no cgroups of version 2".to_owned());
        };
        let folder = format!("{mount}{own}/probe-{}", std::process::id());
        fs::create_dir(&folder).map_err(|error| format!("{folder}: {error}"))?;
        fs::remove_dir(&folder).map_err(|error| format!("{folder}: {error}"))
    };
    let hint = "run the tests with `systemd-run --user --scope --property=Delegate=yes make test`";
    needs::met("cgroup", create(), hint)
}

#[tokio::test]
async fn a_cgroup_is_used_where_there_is_one_and_removed_with_its_run() {
    let custody = Custody::new(Means::Best).unwrap();
    let output = run(&custody, sh("sed -n s/^0:://p /proc/self/cgroup")).await;
    let cgroup = output.text(Pipe::Stdout).concat();
    if has_own_cgroup() {
        assert!(custody.has_cgroups() && cgroup.contains("/aetheel-"), "{cgroup}");
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let mount = mounts
            .lines()
            .find(|line| line.contains(" - cgroup2 "))
            .and_then(|line| line.split(' ').nth(4))
            .unwrap();
        let folder = format!("{mount}{cgroup}");
        assert!(
            Path::new(&folder).parent().unwrap().exists() && !Path::new(&folder).exists(),
            "{folder}"
        );
    }
    let output = run(&Custody::new(Means::Descent).unwrap(), sh("cat /proc/self/cgroup")).await;
    assert!(!output.text(Pipe::Stdout).concat().contains("/aetheel-"));
}

#[tokio::test]
async fn the_working_directory_is_the_requested_one() {
    let folder = tempfile::tempdir().unwrap();
    for custody in custodies() {
        let mut launch = sh("pwd -P");
        launch.cwd = folder.path().canonicalize().unwrap();
        let wanted = launch.cwd.to_string_lossy().into_owned();
        assert_eq!(run(&custody, launch).await.text(Pipe::Stdout), [wanted]);
    }
}

#[tokio::test]
async fn a_failed_start_has_a_reason_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str, mode: u32| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path
    };
    let plain = file("plain", "#!/bin/sh\n", 0o644);
    let lost = file("lost", "#!/no/such/interpreter\n", 0o755);
    let garbage = file("garbage", "\u{7f}nonsense", 0o755);
    for custody in custodies() {
        let refusal = async |change: &dyn Fn(&mut aetheel_turn::Launch)| {
            let mut launch = sh("");
            change(&mut launch);
            let name = launch.run.clone();
            let error = custody.launch(launch).await.expect_err("it started");
            assert_eq!(living(&name), Vec::<String>::new());
            error
        };
        let missing = refusal(&|launch| launch.program = "no-such-program".into()).await;
        assert!(
            matches!(&missing, LaunchError::NotFound(program) if program == Path::new("no-such-program")),
            "{missing:?}"
        );
        let missing = refusal(&|launch| launch.program = "/no/such/program".into()).await;
        assert!(matches!(missing, LaunchError::NotFound(_)), "{missing:?}");
        let nowhere = refusal(&|launch| launch.cwd = "/no/such/folder".into()).await;
        assert!(
            matches!(&nowhere, LaunchError::NoDirectory(cwd) if cwd == Path::new("/no/such/folder")),
            "{nowhere:?}"
        );
        let nowhere = refusal(&|launch| launch.cwd = "/etc/passwd".into()).await;
        assert!(matches!(nowhere, LaunchError::NoDirectory(_)), "{nowhere:?}");
        for (program, wanted) in
            [(&plain, "not executable"), (&lost, "interpreter"), (&garbage, "format error")]
        {
            let error = refusal(&|launch| launch.program.clone_from(program)).await;
            let source =
                std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
            assert!(
                source.to_lowercase().contains(wanted),
                "{source:?} does not contain {wanted:?}"
            );
        }
        let nul =
            refusal(&|launch| launch.environment.push(("A".to_owned(), "b\0c".to_owned()))).await;
        assert!(matches!(nul, LaunchError::Start { .. }), "{nul:?}");
    }
}

#[tokio::test]
async fn a_probe_returns_the_answer_and_ends_a_silent_program() {
    let path = || vec![("PATH".to_owned(), "/usr/bin:/bin".to_owned())];
    for custody in custodies() {
        let ask = async |program: &str, arguments: &[&str], limit: u64| {
            custody
                .probe(
                    &PathBuf::from(program),
                    arguments,
                    path(),
                    aetheel_turn::Reach::default(),
                    Duration::from_millis(limit),
                )
                .await
        };
        assert_eq!(ask("sh", &["-c", "echo 1.2.3"], 10_000).await.unwrap(), "1.2.3");
        assert_eq!(ask("sh", &["-c", "echo 1.2.4 >&2"], 10_000).await.unwrap(), "1.2.4");
        assert!(ask("sh", &["-c", "yes"], 10_000).await.is_err());
        assert_eq!(ask("sh", &["-c", "yes | head -c 8000"], 10_000).await.unwrap().len(), 4095);
        let failed = ask("sh", &["-c", "echo no >&2; exit 3"], 10_000).await.unwrap_err();
        assert_eq!(failed.to_string(), "sh failed with code 3: no");
        assert!(matches!(
            ask("sh", &["-c", "sleep 1000"], 100).await,
            Err(ProbeError::Timeout { .. })
        ));
        assert!(matches!(
            ask("no-such-program", &[], 100).await,
            Err(ProbeError::Launch(LaunchError::NotFound(_)))
        ));
    }
}

#[tokio::test]
async fn an_exit_code_and_a_signal_are_distinguished() {
    for custody in custodies() {
        for (script, how) in [
            ("exit 0", Exit::Code(0)),
            ("exit 255", Exit::Code(255)),
            ("kill -9 $$", Exit::Signal(9)),
        ] {
            assert_eq!(run(&custody, sh(script)).await.how, Some(how), "{script}");
        }
    }
}

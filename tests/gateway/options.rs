//! Options of backends in `backends.md` reach their agents, with the real program and the shipped
//! components.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use crate::support::program::{Installation, built};

/// Installs an agent that only records its arguments.
fn install_agent(installation: &Installation, name: &str) {
    let bin = installation.path("bin");
    fs::create_dir_all(&bin).unwrap();
    let arguments = installation.path(&format!("workspace/{name}.arguments"));
    fs::write(
        bin.join(name),
        format!(
            "#!/bin/sh\ncase $1 in --version) echo 2.1.0;; *) echo \"$@\" >> {};; esac\n",
            arguments.display()
        ),
    )
    .unwrap();
    fs::set_permissions(bin.join(name), fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(installation.backend(name), built(name)).unwrap();
}

#[tokio::test]
async fn options_of_claude_and_codex_reach_the_command_line_and_invalid_ones_are_reported() {
    let installation = Installation::new()
        .with("ANTHROPIC_API_KEY", "sk-ant-none")
        .with("CODEX_API_KEY", "sk-none");
    let path = format!("{}:/usr/bin:/bin", installation.path("bin").display());
    let installation = installation
        .with("PATH", &path)
        .with("BACKEND_RUN", "one-shot")
        .with("PERMISSION_MODE", "default");
    for name in ["claude", "codex"] {
        install_agent(&installation, name);
    }
    let notes = "## claude\n\n- option: setting-sources = user,project\n- option: settings = {}\n\n\
        ## codex\n\n- option: verbosity = low\n- option: reasoning-summary = loud\n\n## nobody\n- option: a = b\n";
    fs::write(installation.path("config/backends.md"), notes).unwrap();
    for (name, wanted) in [
        ("claude", &["--setting-sources=user,project"][..]),
        ("codex", &["-c model_verbosity=low "]),
    ] {
        let ended = installation.run(&["console", "--backend", name], "hello\n").await;
        let arguments =
            fs::read_to_string(installation.path(&format!("workspace/{name}.arguments")))
                .unwrap_or_default();
        for part in wanted {
            assert!(
                arguments.contains(part),
                "{name} was started with {arguments:?}: {} {}",
                ended.stdout,
                ended.stderr
            );
        }
        assert!(!arguments.contains("loud") && !arguments.contains("--settings"), "{arguments}");
    }
    let listed = installation.run(&["backend", "list"], "").await;
    let checked = installation.with("AGENT_BACKEND", "claude").run(&["check"], "").await;
    for said in [
        "backends.md line 4: option `settings` of `claude` is not an option of this backend; it has `setting-sources`",
        "backends.md line 9: option `reasoning-summary` of `codex` must be one of auto, concise, detailed, none; it is left out",
        "backends.md line 12: option `a` of `nobody` belongs to a backend that does not serve here; it is left out",
    ] {
        assert!(listed.stdout.contains(said), "{said} is missing in {}", listed.stdout);
        assert!(
            checked.stderr.contains(said) || checked.stdout.contains(said),
            "{said} is missing in {} {}",
            checked.stdout,
            checked.stderr
        );
    }
}

//! `aetheel config` prints the settings and limits in force with the lines that say so.

use crate::support::discord::{CHANNEL, TOKEN};
use crate::support::program::Installation;

#[tokio::test]
async fn each_setting_and_limit_has_the_line_that_says_so_and_no_secret_is_printed() {
    let installation = Installation::new();
    let file = installation.path("env");
    std::fs::write(&file, format!("# mine\nDISCORD_BOT_TOKEN={TOKEN}\nMAX_QUEUE_DEPTH=7\n"))
        .unwrap();
    let write = |name: &str, text: &str| std::fs::write(installation.path(name), text).unwrap();
    write("config/budgets.md", "## team\n- person: each\n- cap: $5 a day\n");
    write(
        "config/channels.md",
        &format!(
            "## project site\n- backend: demo\n\n## channel {CHANNEL}\n- project: site\n- safety: ask\n"
        ),
    );
    let env = file.to_str().unwrap();
    let shown = installation.run(&["config", "--env-file", env, &CHANNEL.to_string()], "").await;
    assert_eq!(shown.code, 0, "{shown:?}");
    for line in [
        &format!("MAX_QUEUE_DEPTH = 7  ({env}:3)"),
        "MAX_CONCURRENT_QUERIES = ",
        "(default)",
        "team = $5.00 a day, person: each  (budgets.md:3)",
        "safety = ask  (channels.md:6)",
        "backend = demo  (channels.md:2)",
        "tools = ",
    ] {
        assert!(shown.stdout.contains(line), "{line:?} is missing in\n{}", shown.stdout);
    }
    assert!(!shown.stdout.contains(TOKEN), "{}", shown.stdout);
    let check = installation.run(&["check"], "").await;
    assert!(
        check.stdout.contains("caps in budgets.md: 1; channels in channels.md: 1"),
        "{check:?}"
    );
    let wrong = installation.run(&["config", "general"], "").await;
    assert_eq!(wrong.code, 64, "{wrong:?}");
}

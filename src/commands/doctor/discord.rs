//! Checks Discord: the token, the bot's permissions in the channels that it uses, and the clock.

use std::collections::BTreeMap;
use std::time::Duration;

use super::report::{fault, warning};
use crate::startup::survey;
use aetheel_discord::{BotProfile, ChannelCheck, Checkup};
use aetheel_model::event::Lane;
use aetheel_model::finding::Finding;
use aetheel_model::id::{ChannelId, GuildId};
use aetheel_model::redact::Redactor;
use aetheel_runtime::ordinary::read_ordinary;
use aetheel_settings::Config;
use aetheel_store::workspace::Channels;

const CHECK_TIMEOUT: Duration = Duration::from_secs(30);
/// Largest number of channels that are checked; each needs a request.
const MAX_CHANNELS: usize = 50;
/// Largest difference to Discord's clock that is accepted, in seconds. Webhooks and cron jobs need
/// the right time.
const MAX_CLOCK_SKEW_SECS: i64 = 30;
/// Largest size of a file that names channels, in bytes.
const MAX_FILE_BYTES: u64 = 1 << 24;
/// Largest number of people of a list that are looked up.
const MAX_PEOPLE: usize = 50;
const MAX_NAMED_SERVERS: usize = 5;
/// Number of remaining logins below which a restart loop could make Discord reset the token.
const MIN_LOGINS: u64 = 100;

/// Runs all checks, and reports if Discord does not answer in time.
pub(super) async fn examine(config: &Config, redactor: &Redactor) -> Vec<Finding> {
    let mut found = Vec::new();
    let looked =
        tokio::time::timeout(CHECK_TIMEOUT, examine_online(&mut found, config, redactor)).await;
    if looked.is_err() {
        let says = format!("not finished within {} s", CHECK_TIMEOUT.as_secs());
        found.push(fault("discord", says, "discord is slow or hard to reach; try again"));
    }
    found
}

/// Adds what was found as soon as it is known, because the time limit may end the checks.
async fn examine_online(found: &mut Vec<Finding>, config: &Config, redactor: &Redactor) {
    // Errors of the token itself are already reported.
    let Ok(options) = crate::startup::discord_options(config, redactor.clone()) else { return };
    let Ok(mut checkup) = Checkup::new(&options) else { return };
    let known = checkup.bot(&options).await;
    found.push(clock(checkup.clock_ahead()));
    let known = match known {
        Ok(known) => known,
        Err(error) => return found.push(error.finding("discord")),
    };
    found.extend([
        Finding::ok("discord", format!("the token belongs to {} ({})", known.name, known.id)),
        intent(config, &known),
        servers(&known),
        logins(&known),
        shards(config.discord.shards, known.shards),
    ]);
    found.extend(listed_servers(config, &known));
    people(found, config, &checkup).await;
    let channels = channels(config);
    if channels.is_empty() {
        let says = "no setting names a channel, and no channel has a conversation yet";
        found.push(Finding::ok("discord channels", says));
    }
    for (channel, why) in channels.iter().take(MAX_CHANNELS) {
        let place = checkup.channel(*channel, known.id).await;
        found.extend(permissions(*channel, why, place));
    }
    if channels.len() > MAX_CHANNELS {
        let says = format!("not checked: {} more", channels.len() - MAX_CHANNELS);
        found.push(Finding::ok("discord channels", says));
    }
}

/// Checks that this machine and Discord agree about the time.
fn clock(ahead: Option<i64>) -> Finding {
    match ahead {
        Some(ahead) if ahead.abs() > MAX_CLOCK_SKEW_SECS => {
            let side = if ahead > 0 { "ahead of" } else { "behind" };
            warning(
                "clock",
                format!("{} s {side} discord's", ahead.abs()),
                "webhooks and cron jobs need the right time: switch time synchronisation on (`timedatectl set-ntp true`)",
            )
        }
        Some(ahead) => {
            Finding::ok("clock", format!("within {} s of discord's", ahead.abs().max(1)))
        }
        None => {
            warning("clock", "could not be compared with discord's", "see the line about discord")
        }
    }
}

/// Checks that the bot can connect often enough today.
fn logins(known: &BotProfile) -> Finding {
    let (left, all) = known.logins;
    let says = format!("{left} of {all} remain today");
    match left < MIN_LOGINS {
        true => warning(
            "discord logins",
            says,
            "discord resets the token of a bot that uses them up: look for a restart loop",
        ),
        false => Finding::ok("discord logins", says),
    }
}

/// Checks that the bot has the Message Content Intent if the settings need it.
fn intent(config: &Config, known: &BotProfile) -> Finding {
    let about = "message content intent";
    if known.message_content {
        return Finding::ok(about, "on: inside its own threads the bot needs no mention");
    }
    let open = survey::without_mention(config);
    if open.is_empty() {
        let says = "off. This is fine, because no channel has `require-mention: no`";
        return Finding::ok(about, says);
    }
    let open: Vec<String> = open.iter().map(ChannelId::to_string).collect();
    let says =
        format!("off, so `require-mention: no` in channels.md does not work: {}", open.join(", "));
    let hint = format!(
        "switch Message Content Intent on at {}, or remove the entry",
        known.settings_page()
    );
    Finding::left_out(about, says).with_hint(hint)
}

fn servers(known: &BotProfile) -> Finding {
    let about = "discord servers";
    let names: Vec<&str> = known.servers.iter().map(|(_, name)| name.as_str()).collect();
    if names.is_empty() {
        let says = "the bot is in no server, so nobody can reach it there";
        return Finding::left_out(about, says)
            .with_hint(format!("invite it: {}", known.invite_url()));
    }
    let shown = names.iter().take(MAX_NAMED_SERVERS).copied().collect::<Vec<_>>().join(", ");
    let more = names.len().saturating_sub(MAX_NAMED_SERVERS);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    Finding::ok(about, format!("{shown}{more}"))
}

/// Warns about servers in `ALLOWED_GUILDS` that the bot is not in.
fn listed_servers(config: &Config, known: &BotProfile) -> impl Iterator<Item = Finding> {
    let is_missing = |id: &&GuildId| !known.servers.iter().any(|(server, _)| server == *id);
    config.discord.allowed.guilds.iter().filter(is_missing).map(|id| {
        let says = format!("the bot is not in the server {id}");
        warning("ALLOWED_GUILDS", says, "invite the bot there, or correct the id")
    })
}

/// Looks up the names of the listed people, to find mistyped ids.
async fn people(found: &mut Vec<Finding>, config: &Config, checkup: &Checkup) {
    let lists =
        [("ALLOWED_USERS", &config.discord.allowed.users), ("OWNERS", &config.discord.owners)];
    for (name, ids) in lists {
        let mut known = Vec::new();
        for id in ids.iter().take(MAX_PEOPLE) {
            match checkup.user(*id).await {
                Ok(Some(user)) => known.push(format!("{user} ({id})")),
                Ok(None) => found.push(warning(
                    name,
                    format!("Discord knows no user with the id {id}"),
                    "correct it: switch on Discord's developer mode, right-click the person, Copy ID",
                )),
                Err(error) => {
                    let says = format!("{id} was not looked up: {error}");
                    found.push(warning(name, says, "try again"));
                }
            }
        }
        if !known.is_empty() {
            found.push(Finding::ok(name, known.join(", ")));
        }
    }
}

fn permissions(channel: ChannelId, why: &str, place: ChannelCheck) -> Vec<Finding> {
    let about = format!("channel {channel}");
    let hint = "change the bot's role, or its permissions in the channel";
    match place {
        ChannelCheck::Found { name, missing } => {
            let lacks =
                |what: &[&str]| format!("#{name} ({why}): the bot lacks {}", what.join(", "));
            let needed = (!missing.needed.is_empty()).then(|| {
                let hint = format!("it cannot answer there; {hint}");
                fault(about.as_str(), lacks(&missing.needed), hint)
            });
            let wanted = (!missing.wanted.is_empty())
                .then(|| warning(about.as_str(), lacks(&missing.wanted), hint));
            let found: Vec<Finding> = needed.into_iter().chain(wanted).collect();
            if !found.is_empty() {
                return found;
            }
            vec![Finding::ok(about, format!("#{name} ({why}): the bot may do what it needs"))]
        }
        ChannelCheck::Inaccessible => vec![fault(
            about,
            format!("it does not exist, or the bot cannot see it ({why})"),
            "invite the bot, give it View Channel, or remove the channel from the setting",
        )],
        ChannelCheck::Unknown(error) => {
            vec![warning(about, format!("not checked ({why}): {error}"), "try again")]
        }
    }
}

/// Returns the channels in use, each with the setting or file that names it. If several name it,
/// the most explicit one is used.
fn channels(config: &Config) -> BTreeMap<ChannelId, &'static str> {
    let text = |name: &str| {
        let read = read_ordinary(&config.config_dir.join(name), MAX_FILE_BYTES);
        read.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
    };
    let bound =
        channels_in(&text("state/sessions.md")).into_iter().map(|id| (id, "has a conversation"));
    let written = Channels::parse(&text("channels.md"));
    let written: Vec<ChannelId> = written
        .lanes()
        .filter_map(|(lane, _)| if let Lane::Channel(id) = lane { Some(*id) } else { None })
        .collect();
    let mut all: BTreeMap<ChannelId, &'static str> = bound.collect();
    all.extend(survey::channels(config));
    all.extend(written.into_iter().map(|id| (id, "channels.md")));
    all.extend(config.discord.allowed.channels.iter().map(|id| (*id, "ALLOWED_CHANNELS")));
    all.extend(config.discord.output_channel.map(|id| (id, "OUTPUT_CHANNEL_ID")));
    all
}

/// Returns the Discord channels in `state/sessions.md`. The file is read leniently, because people
/// may have edited it.
fn channels_in(text: &str) -> Vec<ChannelId> {
    let after = text.split("channel:").skip(1);
    after
        .map(|rest| rest.strip_prefix("discord:").unwrap_or(rest))
        .filter_map(|rest| rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok())
        .collect()
}

/// Compares the number of shards in the settings with Discord's recommendation.
fn shards(set: Option<u32>, recommended: u32) -> Finding {
    let says = format!("discord recommends {recommended}");
    match set {
        Some(set) if set < recommended => warning(
            "discord shards",
            format!("{says}, and `SHARDS` says {set}"),
            "unset `SHARDS`: discord refuses a shard with more than 2,500 servers",
        ),
        Some(set) => Finding::ok("discord shards", format!("{says}; `SHARDS` says {set}")),
        None => Finding::ok("discord shards", says),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn channels_are_collected_from_all_settings_and_files() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("state")).unwrap();
        fs::write(
            folder.path().join("state/sessions.md"),
            "# Sessions\n- `channel:11` `demo` session `x`\n- `console`\n- `channel:discord:17` `demo` session `y`\n- channel:\n",
        )
        .unwrap();
        fs::write(
            folder.path().join("channels.md"),
            "## channel #a 12\n- mode: plan\n## channel 11\n- mode: plan\n",
        )
        .unwrap();
        fs::write(
            folder.path().join("heartbeat.md"),
            "## Look\n- interval: 3600\n- channel: 15\n- instruction: Look.\n",
        )
        .unwrap();
        fs::write(
            folder.path().join("agents.md"),
            "## Cron Jobs\n\n### pulse\n- expression: `@hourly`\n- channel: 16\n\nx\n",
        )
        .unwrap();
        let set = [
            ("CONFIG_DIR", folder.path().display().to_string()),
            ("ALLOWED_CHANNELS", "13".into()),
            ("OUTPUT_CHANNEL_ID", "14".into()),
        ];
        let config = Config::read(|name| {
            set.iter().find(|(set, _)| *set == name).map(|(_, value)| value.clone())
        })
        .unwrap();
        let found: Vec<(ChannelId, &str)> = channels(&config).into_iter().collect();
        assert_eq!(
            found,
            [
                (11, "channels.md"),
                (12, "channels.md"),
                (13, "ALLOWED_CHANNELS"),
                (14, "OUTPUT_CHANNEL_ID"),
                (15, "heartbeat.md"),
                (16, "agents.md"),
                (17, "has a conversation"),
            ]
            .map(|(id, of)| (ChannelId::discord(id), of))
        );
    }
}

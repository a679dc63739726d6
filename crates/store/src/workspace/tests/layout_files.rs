//! Valid files of an operator, for tests that change their layout. The fuzz target `layout` uses
//! them, too.

use super::{
    BackendNotes, BudgetRules, Channels, CronJobs, Heartbeats, Hook, Hooks, Profiles, Webhooks,
};

#[derive(Debug)]
pub(crate) struct LimitReading {
    /// The settings without the numbers of lines.
    pub items: Vec<String>,
    pub faults: Vec<String>,
}

pub(crate) struct OperatorFile {
    pub name: &'static str,
    pub text: &'static str,
    pub read: fn(&str) -> LimitReading,
    /// Whether the items may change if there are faults: an earlier content stays in force, or the
    /// items are only permissions. Otherwise, the items with faults are left out.
    pub may_change: bool,
}

pub(crate) const FILES: [OperatorFile; 8] = [
    OperatorFile {
        name: "budgets.md",
        text: "# Budgets\n\nFor people.\n\n## team\n- cap: $5 a day\n- cap: 9 turns a week\n\n## people\n\nEach person.\n\n- person: each\n- cap: 2M tokens a day\n",
        read: budgets,
        may_change: true,
    },
    OperatorFile {
        name: "channels.md",
        text: "# Channels\n\n## project site\n- safety: ask\n- backends: codex, gemini\n\n## channel #site 42\n- project: site\n- mode: plan\n- host-tools: none\n\n## channel 43\n- require-mention: yes\n- safety: edit\n",
        read: channels,
        may_change: true,
    },
    OperatorFile {
        name: "heartbeat.md",
        text: "# Heartbeats\n\n## Inbox\n- interval: 30m\n- active hours: 08:00-22:00\n- channel: 42\n- instruction: Look for mail.\n\n## Disk\n- interval: 2h\n\nIs the disk full?\n",
        read: heartbeats,
        may_change: false,
    },
    OperatorFile {
        name: "agents.md",
        text: "# Agents\n\n- Be brief.\n\n## Cron Jobs\n\n- `0 9 * * 1-5`: Summarise.\n\n### Morning\n- expression: 0 8 * * *\n- channel: 42\n- instruction: Say good morning.\n",
        read: jobs,
        may_change: false,
    },
    OperatorFile {
        name: "agents.md",
        text: "# Agents\n\n- Be brief.\n\n## Hooks\n\n- startup: Say hello.\n- shutdown: Say goodbye.\n\n### agent_stop\n- channel: 42\n- instruction: Tidy up.\n",
        read: hooks,
        may_change: false,
    },
    OperatorFile {
        name: "webhooks.md",
        text: "# Webhooks\n\n## ci\n- scheme: github\n- secret: CI_SECRET\n- events: push\n- limit: 5/min burst 1\n\nReport the push.\n\n## deploy\n- scheme: bearer\n- secret: DEPLOY_SECRET\n- limit: 1/min\n- instruction: Say it.\n",
        read: webhooks,
        may_change: false,
    },
    OperatorFile {
        name: "acp.md",
        text: "# ACP agents\n\n## goose\n\nTested.\n\n- command: `goose acp`\n- credentials: GOOSE_KEY\n- modes: default=ask\n\n## other\n- command: other\n- own-sandbox: no\n- modes: default=ask\n",
        read: profiles,
        may_change: false,
    },
    OperatorFile {
        name: "backends.md",
        text: "# Backends\n\nDecisions.\n\n## claude\n- option: effort = high\n- account: work, CLAUDE_KEY=WORK_KEY\n- rotate: yes\n\n## codex\n- option: summary = none\n- program: codex\n",
        read: backends,
        may_change: true,
    },
];

pub(crate) fn budgets(text: &str) -> LimitReading {
    let read = BudgetRules::parse(text);
    let items = read.caps.into_iter().map(|mut cap| {
        cap.line = 0;
        format!("{cap:?}")
    });
    LimitReading { items: items.collect(), faults: read.faults }
}

pub(crate) fn channels(text: &str) -> LimitReading {
    let read = Channels::parse(text);
    let items = read.lanes().map(|lane| format!("{lane:?}")).collect();
    LimitReading { items, faults: [read.warnings, read.faults].concat() }
}

pub(crate) fn heartbeats(text: &str) -> LimitReading {
    let read = Heartbeats::parse(text);
    let items = read.checks.iter().map(|check| {
        // Without its heading, a check is named after the heading before it.
        format!("{} {:?} {:?}", check.heartbeat, check.channel, check.zone)
    });
    LimitReading { items: items.collect(), faults: read.warnings }
}

pub(crate) fn jobs(text: &str) -> LimitReading {
    let read = CronJobs::parse(text);
    let items = read.jobs.iter().map(|job| {
        // Without its heading, a job is named after its instruction.
        format!("{} {:?} {:?}", job.expression, job.channel, job.missed)
    });
    LimitReading { items: items.collect(), faults: read.warnings }
}

pub(crate) fn hooks(text: &str) -> LimitReading {
    let read = Hooks::parse(text);
    // Lines may be added to an instruction.
    let items = Hook::ALL
        .iter()
        .filter_map(|hook| read.of(*hook).map(|read| format!("{hook:?} {:?}", read.channel)));
    let items = items.collect();
    LimitReading { items, faults: [read.warnings, CronJobs::parse(text).warnings].concat() }
}

pub(crate) fn webhooks(text: &str) -> LimitReading {
    let read = Webhooks::parse(text);
    let items = read.all.values().map(|webhook| {
        let (secrets, events) = (&webhook.secrets, &webhook.events);
        format!("{} {:?} {secrets:?} {events:?} {:?}", webhook.name, webhook.scheme, webhook.rate)
    });
    LimitReading { items: items.collect(), faults: read.warnings }
}

pub(crate) fn profiles(text: &str) -> LimitReading {
    let read = Profiles::parse(text);
    let items = read.all.values().map(|profile| format!("{profile:?}")).collect();
    LimitReading { items, faults: read.warnings }
}

pub(crate) fn backends(text: &str) -> LimitReading {
    let read = BackendNotes::parse(text);
    let options = read.options().iter().flat_map(|(backend, options)| {
        options.iter().map(move |option| format!("{backend} {} {}", option.name, option.value))
    });
    let accounts =
        read.accounts().map(|account| format!("{} {:?}", account.name, account.variables));
    let others = ["claude", "codex"].map(|backend| {
        format!("{backend} {:?} {:?}", read.accepted(backend), read.rotation(backend))
    });
    let items = options.chain(accounts).chain(others).collect();
    LimitReading { items, faults: read.warnings }
}

//! Tests of one bot on two nodes: one receives the events, and each answers in its own channels.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aetheel_discord::{EventSharing, GatewayEvent, Parent, Receipt, TimeLimits};
use aetheel_dispatch::{ClusterChat as _, LoginHistory};
use aetheel_model::event::Lane;
use aetheel_model::id::ChannelId;
use aetheel_model::id::MessageId;
use async_trait::async_trait;
use tokio::sync::{mpsc, watch};

use super::asks::{decision, permission};
use super::bot::{Barrier, Bot, Home, answer, options};
use crate::support::discord::{
    ANN, BOT, CHANNEL, CROWD, DIRECT, LIMIT, LocalDiscord, OTHER, THREAD,
};

/// Sends events as text to the node that has the channel, each event once.
struct Forwarder {
    state: Mutex<ForwarderState>,
    seats: [watch::Sender<bool>; 2],
}

#[derive(Default)]
struct ForwarderState {
    /// Channels whose events go to the second node, with their threads. All others go to the first.
    second: HashSet<u64>,
    /// The senders of events to each node.
    inboxes: Vec<mpsc::UnboundedSender<(GatewayEvent, Receipt)>>,
    /// Events that Discord sent to the bot.
    heard: Vec<GatewayEvent>,
    /// Keys of the events that were forwarded.
    forwarded: HashSet<String>,
    /// Keys of the events that were handled, each with the node.
    done: Vec<(String, usize)>,
    logins: Vec<i64>,
}

#[async_trait]
impl LoginHistory for Forwarder {
    async fn logins(&self) -> Vec<i64> {
        self.state.lock().unwrap().logins.clone()
    }

    async fn record_login(&self, at_ms: i64) {
        self.state.lock().unwrap().logins.push(at_ms);
    }
}

impl Forwarder {
    fn new(second: &[u64]) -> Arc<Self> {
        let state = ForwarderState {
            second: second.iter().copied().collect(),
            ..ForwarderState::default()
        };
        let seats = [watch::Sender::new(false), watch::Sender::new(false)];
        Arc::new(Self { state: Mutex::new(state), seats })
    }

    /// Starts the next node.
    async fn node(self: &Arc<Self>, local: &LocalDiscord, home: &Arc<Home>) -> Bot {
        let (out, mut heard) = mpsc::unbounded_channel();
        let (into, from) = mpsc::unbounded_channel();
        let node = {
            let mut state = self.state.lock().unwrap();
            state.inboxes.push(into);
            state.inboxes.len() - 1
        };
        let this = Arc::clone(self);
        tokio::spawn(async move {
            while let Some(heard) = heard.recv().await {
                this.forward(&heard);
            }
        });
        let (seat, logins) = (self.seats[node].subscribe(), Arc::clone(self) as _);
        let sharing = EventSharing { outgoing: out, incoming: from, leader: seat, logins };
        let options = options(local, TimeLimits::default());
        Bot::sharing(options, Arc::clone(home), Some(sharing)).await.expect("the node starts")
    }

    fn forward(self: &Arc<Self>, heard: &GatewayEvent) {
        let text = serde_json::to_string(heard).expect("it can be written");
        let read: GatewayEvent = serde_json::from_str(&text).expect("it can be read");
        assert!(read == *heard && read.key() == heard.key(), "{heard:?}");
        assert!(heard.key().len() <= 100, "{heard:?}");
        let mut state = self.state.lock().unwrap();
        state.heard.push(read.clone());
        let Some(channel) = read.channel().and_then(ChannelId::as_discord) else {
            for node in 0..state.inboxes.len() {
                self.send_to(&state, node, read.clone());
            }
            return;
        };
        let root = match read.parent {
            Parent::Known(Some(parent)) => parent,
            Parent::Known(None) => channel,
            Parent::Unknown if channel == THREAD => CHANNEL,
            Parent::Unknown => channel,
        };
        let node = usize::from(state.second.contains(&root));
        if state.forwarded.insert(read.key()) {
            self.send_to(&state, node, read);
        }
    }

    fn send_to(self: &Arc<Self>, state: &ForwarderState, node: usize, heard: GatewayEvent) {
        let (this, key) = (Arc::clone(self), heard.key());
        let done = Receipt::new(move || this.state.lock().unwrap().done.push((key, node)));
        let _ = state.inboxes[node].send((heard, done));
    }

    /// Waits until the node has handled the event.
    async fn done(&self, local: &LocalDiscord, key: &str, node: usize) {
        local
            .wait_for(&format!("{key} to be done"), |_| self.is_done(key, node).then_some(()))
            .await;
    }

    fn is_done(&self, key: &str, node: usize) -> bool {
        self.state.lock().unwrap().done.contains(&(key.to_owned(), node))
    }

    /// Makes a node the leader.
    fn seat(&self, node: usize) {
        self.seats[1 - node].send_replace(false);
        self.seats[node].send_replace(true);
    }
}

/// Starts two nodes. The first is logged in, and the second has the channel `OTHER`.
async fn two_nodes(local: &LocalDiscord) -> (Arc<Forwarder>, Bot, Bot) {
    let forwarder = Forwarder::new(&[OTHER]);
    let (first, second) = (Home::new().await, Home::new().await);
    forwarder.seat(0);
    let first = forwarder.node(local, &first).await;
    let second = forwarder.node(local, &second).await;
    for node in [0, 1] {
        forwarder.done(local, "ready", node).await;
    }
    (forwarder, first, second)
}

#[tokio::test]
async fn events_are_answered_by_the_node_that_has_the_channel() {
    let local = LocalDiscord::start().await;
    let (forwarder, first, second) = two_nodes(&local).await;
    assert!(first.discord.has_login() && !second.discord.has_login());
    let mut numbers = Vec::new();
    for number in 0..20 {
        for channel in [CHANNEL, OTHER, THREAD] {
            numbers.push(local.mention(channel, ANN, &format!("{channel} {number}")));
        }
    }
    second.event(&local, &format!("{OTHER} 19")).await;
    first.event(&local, &format!("{THREAD} 19")).await;
    first.event(&local, &format!("{CHANNEL} 19")).await;
    for (bot, channels) in [(&first, vec![CHANNEL, THREAD]), (&second, vec![OTHER])] {
        let prompts = bot.home.prompts();
        for channel in &channels {
            let theirs: Vec<&String> =
                prompts.iter().filter(|prompt| prompt.starts_with(&channel.to_string())).collect();
            let expected: Vec<String> =
                (0..20).map(|number| format!("{channel} {number}")).collect();
            assert_eq!(theirs, expected.iter().collect::<Vec<_>>(), "in order");
        }
        assert_eq!(prompts.len(), 20 * channels.len());
    }
    for (at, message) in numbers.iter().enumerate() {
        forwarder.done(&local, &format!("message:{message}"), usize::from(at % 3 == 1)).await;
    }
    assert_eq!(local.logins().0, 1);
    assert_eq!(forwarder.state.lock().unwrap().logins.len(), 1, "counted where all nodes see it");
    assert!(!first.home.state("discord.md").contains("`login:"));
}

#[tokio::test]
async fn commands_menus_and_suggestions_are_answered_by_a_node_without_a_login() {
    let local = LocalDiscord::start().await;
    let (forwarder, first, second) = two_nodes(&local).await;
    let asked = local.slash(OTHER, ANN, "ask", Some("by command"));
    let turn = second.turn(&local, "by command").await;
    turn.deliver(answer("done by two")).await.expect("delivered");
    assert!(local.answer_to(asked).await.content.ends_with("done by two"));
    forwarder.done(&local, &format!("interaction:{asked}"), 1).await;

    let suggested = local.suggestions(OTHER, ANN, "settings:model", "son").await;
    assert_eq!(suggested[0].0, "sonnet");
    let changed = local.slash(OTHER, ANN, "settings", Some("model:=sonnet"));
    assert_eq!(local.answer_to(changed).await.content, "Model is Sonnet from now on.");
    let of = async |bot: &Bot| {
        bot.home
            .workspace
            .state
            .bindings
            .get(&Lane::Channel(ChannelId::discord(OTHER)), "demo")
            .await
    };
    local
        .wait_for("the choice", |_| {
            second.home.state("sessions.md").contains("sonnet").then_some(())
        })
        .await;
    assert!(
        format!("{:?}", of(&first).await.settings) != format!("{:?}", of(&second).await.settings)
    );
    let menus = local.slash(OTHER, ANN, "settings", None);
    let menus = local.answer_to(menus).await;
    local.choose_in(menus.id, ANN, "set:model", "Opus 5");
    local.wait_for_message(OTHER, |text| text.contains("Model is Opus 5 from now on.")).await;

    second.home.busy.send_replace(true);
    local.mention(OTHER, ANN, "a long one");
    second.event(&local, "a long one").await;
    let stopped = local.slash(OTHER, ANN, "stop", None);
    assert_eq!(local.answer_to(stopped).await.content, "Stopped.");
    forwarder.done(&local, &format!("interaction:{stopped}"), 1).await;
    assert_eq!(first.home.prompts(), Vec::<String>::new());
}

#[tokio::test]
async fn edits_and_deletions_reach_the_node_where_the_message_waits() {
    let local = LocalDiscord::start().await;
    let (forwarder, first, second) = two_nodes(&local).await;
    second.home.busy.send_replace(true);
    local.mention(OTHER, ANN, "now");
    second.event(&local, "now").await;
    let edited = local.mention(OTHER, ANN, "later");
    let deleted = local.mention(OTHER, ANN, "never");
    local.wait_for("both to wait", |_| (second.waiting() == 2).then_some(())).await;
    local.edit(edited, &format!("<@{BOT}> see <@{ANN}>"));
    local.delete(deleted);
    forwarder.done(&local, &format!("deletion:{deleted}"), 1).await;
    assert_eq!(second.waiting(), 1);
    second.home.busy.send_replace(false);
    second.event(&local, "see @ann").await;
    assert_eq!(second.home.prompts(), ["now", "see @ann"]);
    assert_eq!(first.home.prompts(), Vec::<String>::new());
    let state = forwarder.state.lock().unwrap();
    let of = |kind: &str| {
        state.heard.iter().find(|heard| heard.key().starts_with(kind)).expect("heard").addressed
    };
    assert!(of("message:") && !of("edit:") && !of("deletion:"));
}

#[tokio::test]
async fn a_button_is_answered_by_the_node_that_asked_even_after_the_channel_moved() {
    let local = LocalDiscord::start().await;
    let (forwarder, first, second) = two_nodes(&local).await;
    let (_turn, question) = second.asked(&local, (OTHER, ANN, "go"), &permission(None)).await;
    let message = with_buttons_in(&local, OTHER).await;
    local.press(message, ANN, "Allow once");
    assert_eq!(decision(&local, &second).await.0, question.id);

    let (_turn, question) = first.asked(&local, (CHANNEL, ANN, "go"), &permission(None)).await;
    let message = with_buttons_in(&local, CHANNEL).await;
    forwarder.state.lock().unwrap().second.insert(CHANNEL);
    let press = local.press(message, ANN, "Allow once");
    assert_eq!(decision(&local, &first).await.0, question.id);
    let acknowledged =
        local.wait_for("the acknowledgement", |local| local.interaction(press).acknowledged).await;
    assert_eq!(acknowledged.1, 6, "it was accepted");
    forwarder.done(&local, &format!("interaction:{press}"), 1).await;

    // No node knows this question. The node that has the channel answers the press.
    let stale = local.press_id(message, ANN, "ask:0a1b2c:allow");
    let (_, kind) =
        local.wait_for("an answer", |local| local.interaction(stale).acknowledged).await;
    assert_eq!(kind, 7);
}

#[tokio::test]
async fn the_notice_that_a_message_waits_hides_no_earlier_message_of_the_channel() {
    let local = LocalDiscord::start().await;
    let (forwarder, first, second) = two_nodes(&local).await;
    let message = local.mention(OTHER, ANN, "while the database is away");
    second.event(&local, "while the database is away").await;
    let event = {
        let state = forwarder.state.lock().unwrap();
        let key = format!("message:{message}");
        state.heard.iter().find(|event| event.key() == key).expect("it was received").clone()
    };
    first.discord.report_waiting(&event).await;
    local.wait_for_message(OTHER, |text| text.contains("waiting for my database")).await;
    // A position would be later than that of the node which has the channel.
    let notes = first.discord.export_channels(&|_| true).await;
    assert!(!notes.contains(&OTHER.to_string()), "{notes}");
}

async fn with_buttons_in(local: &LocalDiscord, channel: u64) -> u64 {
    local
        .wait_for("buttons", |local| {
            let messages = local.messages(channel);
            let asking = messages.iter().find(|message| local.asks(message.id));
            asking.map(|message| message.id)
        })
        .await
}

#[test]
fn a_receipt_is_sent_when_a_message_is_saved_and_not_before() {
    Barrier::around(async |barrier| {
        let local = LocalDiscord::start().await;
        let (forwarder, _first, second) = two_nodes(&local).await;
        barrier.close();
        let message = local.mention(OTHER, ANN, "is it safe?");
        let command = local.slash(OTHER, ANN, "ask", Some("and this?"));
        local.wait_for("the prompt at the barrier", |_| (barrier.held() > 0).then_some(())).await;
        let strange = local.say(CHANNEL, ANN, "not for the bot");
        forwarder.done(&local, &format!("message:{strange}"), 0).await;
        assert!(!forwarder.is_done(&format!("message:{message}"), 1));
        assert!(!forwarder.is_done(&format!("interaction:{command}"), 1));
        barrier.open();
        forwarder.done(&local, &format!("message:{message}"), 1).await;
        forwarder.done(&local, &format!("interaction:{command}"), 1).await;
        second.event(&local, "is it safe?").await;
    });
}

#[tokio::test]
async fn a_stopping_node_leaves_unaccepted_events_to_its_next_start() {
    let local = LocalDiscord::start().await;
    let (forwarder, _first, second) = two_nodes(&local).await;
    second.listening.stop_intake(false);
    let message = local.mention(OTHER, ANN, "who takes this?");
    local.wait_for_message(OTHER, |text| text.starts_with("I am restarting")).await;
    let home = Arc::clone(&second.home);
    second.listening.close().await;
    assert!(!forwarder.is_done(&format!("message:{message}"), 1));
    assert_eq!(home.prompts(), Vec::<String>::new());
}

#[tokio::test]
async fn the_login_follows_the_leader_and_every_node_catches_up_with_its_channels() {
    let local = LocalDiscord::start().await;
    let (forwarder, first, second) = two_nodes(&local).await;
    for (bot, channel) in [(&first, CHANNEL), (&second, OTHER)] {
        local.mention(channel, ANN, "before");
        bot.event(&local, "before").await;
    }
    forwarder.seats[0].send_replace(false);
    local.wait_for("the logout", |local| (local.connections() == 0).then_some(())).await;
    assert!(local.closed_with().contains(&Some(1000)), "with a close frame");
    local.mention(CHANNEL, ANN, "missed by one");
    local.mention(OTHER, ANN, "missed by two");
    assert_eq!(local.logins().0, 1);
    forwarder.seat(1);
    first.event(&local, "missed by one").await;
    second.event(&local, "missed by two").await;
    assert!(!first.discord.has_login() && second.discord.has_login());
    assert_eq!(local.logins().0, 2);
    local.mention(CHANNEL, ANN, "after");
    first.event(&local, "after").await;
    forwarder.seat(0);
    local.wait_for("the third login", |local| (local.logins().0 == 3).then_some(())).await;
    local.mention(OTHER, ANN, "at last");
    second.event(&local, "at last").await;
    assert_eq!(first.home.prompts(), ["before", "missed by one", "after"]);
    assert_eq!(second.home.prompts(), ["before", "missed by two", "at last"]);
    assert_eq!(forwarder.state.lock().unwrap().logins.len(), 3);
}

#[tokio::test]
async fn a_node_that_is_not_the_leader_never_logs_in_and_closes_at_once() {
    let local = LocalDiscord::start().await;
    let forwarder = Forwarder::new(&[]);
    let bot = forwarder.node(&local, &Home::new().await).await;
    assert!(!bot.discord.has_login());
    tokio::time::timeout(LIMIT / 6, bot.listening.close()).await.expect("it ends");
    assert_eq!((local.logins().0, local.connections()), (0, 0));
}

#[tokio::test]
async fn a_node_that_was_killed_before_it_had_caught_up_does_so_when_it_starts_again() {
    let local = LocalDiscord::start().await;
    let home = Home::new().await;
    // Imported by the previous process, from a node that did not receive the next message.
    let handled = local.mention(CHANNEL, ANN, "before");
    home.workspace
        .state
        .discord
        .note_seen(ChannelId::discord(CHANNEL), MessageId::discord(handled));
    local.mention(CHANNEL, ANN, "on the way");
    let forwarder = Forwarder::new(&[]);
    let bot = forwarder.node(&local, &home).await;
    bot.event(&local, "on the way").await;
    assert!(!bot.discord.has_login());
    // A message that the leader posted meanwhile is handled after it, and once.
    local.mention(CHANNEL, ANN, "after");
    forwarder.seat(0);
    bot.event(&local, "after").await;
    bot.dispatcher.turns.idle().await;
    assert_eq!(bot.home.prompts(), ["on the way", "after"]);
}

#[tokio::test]
async fn saved_positions_move_with_their_channels_and_missed_messages_are_read() {
    let local = LocalDiscord::start().await;
    let (forwarder, first, second) = two_nodes(&local).await;
    for channel in [CHANNEL, CROWD] {
        local.mention(channel, ANN, &format!("before in {channel}"));
        first.event(&local, &format!("before in {channel}")).await;
    }
    let theirs = |channel: ChannelId| channel == ChannelId::discord(CHANNEL);
    local
        .wait_for("the saved position", |_| {
            first.home.state("discord.md").contains(&format!("`channel:{CROWD}`")).then_some(())
        })
        .await;
    let lines = first.discord.export_channels(&theirs).await;
    assert!(
        lines.contains(&format!("- `channel:{CHANNEL}` seen to `")) && lines.lines().count() == 1,
        "{lines}"
    );
    first.discord.forget_channels(&theirs).await.expect("saved");
    assert_eq!(
        (first.home.last_seen(CHANNEL).await, first.home.last_seen(CROWD).await.is_some()),
        (None, true)
    );
    forwarder.state.lock().unwrap().second.insert(CHANNEL);
    // No login receives this message.
    forwarder.seats[0].send_replace(false);
    local.wait_for("the logout", |local| (local.connections() == 0).then_some(())).await;
    local.mention(CHANNEL, ANN, "on the way");
    for _ in 0..2 {
        let channels = second.discord.import_channels(&lines, &|_| true).await.expect("saved");
        assert_eq!(channels, [ChannelId::discord(CHANNEL)]);
        assert!(second.home.state("discord.md").contains(&format!("`channel:{CHANNEL}` seen to")));
        second.discord.catch_up(channels);
    }
    second.event(&local, "on the way").await;
    second.dispatcher.turns.idle().await;
    assert_eq!(second.home.prompts(), ["on the way"], "once");
}

#[tokio::test]
async fn an_open_question_of_a_dead_node_is_closed_by_the_node_that_takes_over() {
    let local = LocalDiscord::start().await;
    let (_forwarder, first, second) = two_nodes(&local).await;
    let (_turn, question) = first.asked(&local, (CHANNEL, ANN, "go"), &permission(None)).await;
    let message = with_buttons_in(&local, CHANNEL).await;
    local.wait_for("the saved question", |_| first.home.is_noted(&question.id).then_some(())).await;
    let lines = first.home.state("discord.md");
    second.discord.import_channels(&lines, &|_| true).await.expect("saved");
    local.wait_for("the buttons to be removed", |local| (!local.asks(message)).then_some(())).await;
    local
        .wait_for("the saved question to be removed", |_| {
            (!second.home.is_noted(&question.id)).then_some(())
        })
        .await;
}

#[tokio::test]
async fn the_root_of_a_thread_is_its_parent_channel() {
    let local = LocalDiscord::start().await;
    let bot = Bot::with_home(&local, &Home::new().await).await;
    let [channel, thread, other, unknown] = [CHANNEL, THREAD, OTHER, 1].map(ChannelId::discord);
    assert_eq!(bot.discord.root_channel(thread).await, Ok(channel));
    assert_eq!(bot.discord.root_channel(channel).await, Ok(channel));
    assert_eq!(bot.discord.root_channel(unknown).await, Ok(unknown), "Discord does not know it");
    local.faults().away(true);
    let began = std::time::Instant::now();
    assert!(bot.discord.root_channel(other).await.is_err());
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
}

#[tokio::test]
async fn all_shards_follow_the_leader_also_while_discord_is_unreachable() {
    let local = LocalDiscord::start().await;
    local.faults().shards(4, 4, Duration::ZERO);
    let (forwarder, first, second) = two_nodes(&local).await;
    let have = async |bot: &Bot, shards: (usize, usize)| {
        let has = || (bot.discord.shards() == shards).then_some(());
        local.wait_for(&format!("{shards:?} shards"), |_| has()).await;
    };
    have(&first, (4, 4)).await;
    assert!(first.discord.is_connected());
    assert_eq!(second.discord.shards(), (0, 0));
    for (bot, channel) in [(&first, CHANNEL), (&second, OTHER)] {
        local.mention(channel, ANN, "before");
        bot.event(&local, "before").await;
    }
    local.mention(DIRECT, ANN, "in private");
    first.event(&local, "in private").await;

    local.faults().away(true);
    forwarder.seat(1);
    local
        .wait_for("the other node to become the leader", |_| {
            second.discord.has_login().then_some(())
        })
        .await;
    have(&first, (0, 0)).await;
    local.mention(CHANNEL, ANN, "missed by one");
    local.mention(OTHER, ANN, "missed by two");
    assert!(!second.discord.is_connected());
    local.faults().away(false);
    first.event(&local, "missed by one").await;
    second.event(&local, "missed by two").await;
    have(&second, (4, 4)).await;
    let mut logins = local.shards();
    assert_eq!(logins.len(), 8, "one login a shard on each node: {logins:?}");
    logins[4..].sort_unstable();
    assert_eq!(logins[4..], [(0, 4), (1, 4), (2, 4), (3, 4)]);
    for bot in [&first, &second] {
        bot.dispatcher.turns.idle().await;
    }
    assert_eq!(first.home.prompts(), ["before", "in private", "missed by one"], "each once");
    assert_eq!(second.home.prompts(), ["before", "missed by two"]);
}

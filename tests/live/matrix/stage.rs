//! Collects the gateway's answers in the matrix, and waits for them.

use std::sync::Mutex;
use std::time::Duration;

use aetheel_dispatch::{
    ChannelError, DeliveryError, Notice, OpenQuestion, Outlet, QuestionDismissal, RecapMessage,
    Reply, Settlement, TurnAnswer,
};
use aetheel_model::access::LanePermissions;
use aetheel_model::agent::{AgentEventKind, ToolStatus, Usage};
use aetheel_model::event::{Event, Lane, Sequence};
use aetheel_model::fold::Transcript;
use aetheel_model::id::{ChannelId, UserId};
use async_trait::async_trait;
use tokio::sync::watch;

/// Time limit of all waits, after which a cell fails. It is longer than the gateway's limit for a
/// turn.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// All answers and questions that were shown.
#[derive(Default)]
pub struct Stage {
    turns: std::sync::Arc<Mutex<Vec<Turn>>>,
    notices: Mutex<Vec<Notice>>,
    changed: watch::Sender<()>,
}

#[derive(Clone)]
struct Turn {
    sequence: Sequence,
    lane: Lane,
    transcript: Transcript,
    questions: std::collections::VecDeque<OpenQuestion>,
    answer: Option<TurnAnswer>,
    read: bool,
}

impl Turn {
    fn take_answer(&mut self) -> Option<Answered> {
        let answer = self.answer.clone()?;
        self.read = true;
        Some(Answered { answer, transcript: self.transcript.clone() })
    }
}

/// An answer with the transcript that led to it.
#[derive(Clone, Debug)]
pub struct Answered {
    pub answer: TurnAnswer,
    pub transcript: Transcript,
}

impl Stage {
    /// Waits for the oldest answer of a lane that was not returned yet.
    pub async fn answer(&self, lane: &Lane) -> Answered {
        self.wait(&format!("an answer in {lane}"), |turns| {
            let turn = turns.iter_mut().find(|turn| turn.lane == *lane && !turn.read)?;
            turn.take_answer()
        })
        .await
    }

    /// Waits for a notice in a channel with these words. Returns it once.
    pub async fn notice(&self, channel: ChannelId, words: &str) -> Notice {
        self.wait(&format!("a notice with {words:?} in {channel}"), |_| {
            let mut notices = self.notices.lock().unwrap();
            let found = notices.iter().position(|notice| {
                notice.channel == Some(channel) && notice.text.contains(words)
            })?;
            Some(notices.remove(found))
        })
        .await
    }

    /// Waits for the oldest answer of a lane that was not returned yet, or for a notice in its
    /// channel with these words, whichever comes first.
    pub async fn answer_or_notice(&self, lane: &Lane, words: &str) -> Result<Answered, Notice> {
        let channel = match lane {
            Lane::Channel(channel) => *channel,
            _ => panic!("{lane} has no channel"),
        };
        self.wait(&format!("an answer, or a notice with {words:?}, in {lane}"), |turns| {
            let turn = turns.iter_mut().find(|turn| turn.lane == *lane && !turn.read);
            if let Some(answered) = turn.and_then(Turn::take_answer) {
                return Some(Ok(answered));
            }
            let mut notices = self.notices.lock().unwrap();
            let found = notices.iter().position(|notice| {
                notice.channel == Some(channel) && notice.text.contains(words)
            })?;
            Some(Err(notices.remove(found)))
        })
        .await
    }

    /// Removes the unanswered turns of a lane, whose prompts were cancelled while they waited.
    pub fn forget_cancelled(&self, lane: &Lane) {
        self.turns.lock().unwrap().retain(|turn| turn.lane != *lane || turn.answer.is_some());
    }

    /// Waits until the unfinished answer of a lane contains this text.
    pub async fn shows(&self, lane: &Lane, text: &str) {
        self.wait(&format!("{text:?} to be shown in {lane}"), |turns| {
            let turn = turns.iter().rfind(|turn| turn.lane == *lane)?;
            assert!(
                turn.answer.is_none(),
                "the turn was over before {text:?} was shown: {:?}",
                turn.answer
            );
            turn.transcript.text().contains(text).then_some(())
        })
        .await;
    }

    /// Waits for the oldest question of a lane's running turn that was not returned yet.
    pub async fn question(&self, lane: &Lane) -> OpenQuestion {
        match self.question_or_end(lane).await {
            Ok(question) => question,
            Err(told) => panic!("the turn was over without a question: {told:?}"),
        }
    }

    /// Waits for such a question, or for the end of the turn.
    pub async fn question_or_end(&self, lane: &Lane) -> Result<OpenQuestion, Answered> {
        self.wait(&format!("a question in {lane}"), |turns| {
            // A prompt that was just sent may have no turn yet.
            let turn = turns.iter_mut().rfind(|turn| turn.lane == *lane && !turn.read)?;
            turn.questions.pop_front().map(Ok).or_else(|| turn.take_answer().map(Err))
        })
        .await
    }

    async fn wait<T>(&self, what: &str, mut found: impl FnMut(&mut Vec<Turn>) -> Option<T>) -> T {
        let mut changed = self.changed.subscribe();
        let waiting = async {
            loop {
                if let Some(found) = found(&mut self.turns.lock().unwrap()) {
                    return found;
                }
                changed.changed().await.expect("the stage exists until the end");
            }
        };
        match tokio::time::timeout(PATIENCE, waiting).await {
            Ok(found) => found,
            Err(_) => panic!("waited in vain for {what}; so far: {}", self.so_far()),
        }
    }

    fn so_far(&self) -> String {
        let turns = self.turns.lock().unwrap();
        let told = turns
            .iter()
            .map(|turn| format!("{}: {:?}, {:?}", turn.lane, turn.answer, turn.transcript));
        let told = told.collect::<Vec<_>>().join("; ");
        format!("{told}; {:?}", self.notices.lock().unwrap())
    }
}

#[async_trait]
impl Outlet for Stage {
    fn open(&self, event: &Event) -> Box<dyn Reply> {
        let turn = Turn {
            sequence: event.sequence,
            lane: event.lane.clone(),
            transcript: Transcript::default(),
            questions: Default::default(),
            answer: None,
            read: false,
        };
        let mut turns = self.turns.lock().unwrap();
        // An event that waited is carried out again.
        turns.retain(|known| {
            known.answer.is_some() || (&known.lane, known.sequence) != (&turn.lane, turn.sequence)
        });
        turns.push(turn);
        drop(turns);
        Box::new(Part {
            turns: self.turns.clone(),
            changed: self.changed.clone(),
            sequence: event.sequence,
            lane: event.lane.clone(),
        })
    }

    async fn permissions(
        &self,
        _: UserId,
        channel: ChannelId,
    ) -> Result<LanePermissions, ChannelError> {
        let place = format!("#room-{channel}");
        Ok(LanePermissions { sees: true, acts: true, place, ..LanePermissions::default() })
    }

    async fn read_channel(
        &self,
        channel: ChannelId,
        _: usize,
    ) -> Result<Vec<RecapMessage>, ChannelError> {
        let text = format!("words of channel {channel}");
        Ok(vec![RecapMessage { author: Some("Bob".to_owned()), text }])
    }

    async fn notify(&self, notice: Notice) -> Result<(), DeliveryError> {
        self.notices.lock().unwrap().push(notice);
        self.changed.send_replace(());
        Ok(())
    }
}

/// The reply to one event.
struct Part {
    turns: std::sync::Arc<Mutex<Vec<Turn>>>,
    changed: watch::Sender<()>,
    sequence: Sequence,
    lane: Lane,
}

impl Part {
    fn change(&self, change: impl FnOnce(&mut Turn)) {
        let mut turns = self.turns.lock().unwrap();
        // Every gateway numbers its events from the beginning.
        change(
            turns
                .iter_mut()
                .rfind(|turn| turn.sequence == self.sequence && turn.lane == self.lane)
                .expect("it was opened"),
        );
        drop(turns);
        self.changed.send_replace(());
    }
}

#[async_trait]
impl Reply for Part {
    fn update(&mut self, _event: &AgentEventKind, transcript: &Transcript) {
        self.change(|turn| {
            turn.transcript = transcript.clone();
        });
    }

    fn ask(&mut self, question: &OpenQuestion, _unseen: QuestionDismissal) {
        self.change(|turn| turn.questions.push_back(question.clone()));
    }

    fn question_settled(&mut self, id: &str, _how: &Settlement) {
        self.change(|turn| turn.questions.retain(|question| question.id != id));
    }

    async fn finish(self: Box<Self>, answer: TurnAnswer) -> Result<(), DeliveryError> {
        self.change(|turn| turn.answer = Some(answer));
        Ok(())
    }
}

impl Answered {
    /// Fails unless the turn succeeded with this answer.
    #[track_caller]
    pub fn answers(&self, text: &str) {
        assert_eq!((self.answer.text.trim(), &self.answer.failure), (text, &None), "{self:?}");
    }

    /// Fails unless the turn failed with a message that contains these words.
    #[track_caller]
    pub fn fails(&self, words: &str) {
        let failure = self.answer.failure.as_deref().unwrap_or_default();
        assert!(failure.contains(words), "no {words:?}: {self:?}");
    }

    /// Returns the unified kinds of the used tools, with the status of each.
    pub fn tools(&self) -> Vec<(&str, Option<ToolStatus>)> {
        self.transcript.tools().iter().map(|tool| (tool.start.kind.as_str(), tool.status)).collect()
    }

    /// Returns the tokens of input and output.
    #[track_caller]
    pub fn tokens(&self) -> (u32, u32) {
        let Usage { input, output, cached, .. } =
            self.answer.usage.clone().unwrap_or_else(|| panic!("no usage: {self:?}"));
        (input + cached, output)
    }
}

//! The buttons that mute the warnings about files.
//!
//! The id of a button names the channel, and the mark of a file and of the other conversation. So it
//! works after a restart, and only in its own channel. Its beginning is random, because it prevents a
//! second post of the same notice.

use std::sync::Arc;

use super::messages::FilePlace;
use crate::Shared;
use crate::outlet::Offer;
use crate::questions::Person;
use crate::recovery::offer::{OfferEffect, OfferRefusal};
use aetheel_model::event::Lane;
use aetheel_model::id::ChannelId;
use aetheel_model::plain::{counted, short_line, with_causes};
use aetheel_model::redact::Redactor;
use aetheel_store::workspace::CollisionMute;

const PREFIX: &str = "mute";
/// The length of the random part of an id.
const RANDOM: usize = 8;
/// The length of the mark of a file. All warnings have none.
const MARK: usize = 24;
/// The maximum number of files with a button. Discord shows five buttons.
const MAX_FILE_BUTTONS: usize = 4;
/// The maximum length of the name of a file on a button, in characters.
const MAX_NAME: usize = 40;

/// Mutes the warnings about files that two conversations use. Cheap to clone.
#[derive(Clone)]
pub struct WarningMutes {
    shared: Arc<Shared>,
}

impl WarningMutes {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// Returns lines about the muted warnings of a lane, for `/status`.
    pub(crate) fn status(&self, lane: &Lane) -> Vec<String> {
        let mut mutes = self.shared.deps.workspace.state.collision_mutes.all();
        mutes.retain(|mute| mute.lane == *lane);
        if let Some(all) = mutes.iter().find(|mute| mute.mark.is_none()) {
            return vec![format!("all warnings about files, by {}", all.by)];
        }
        match mutes.len() {
            0 => Vec::new(),
            count => vec![format!("warnings about {}", counted(count, "file"))],
        }
    }

    /// Handles a press of a button below a warning. `channel` is the channel of the button if the
    /// person may use the bot there. Returns `None` for any other button, and for a button of a
    /// channel that another node serves.
    pub async fn press(
        &self,
        id: &str,
        person: &Person,
        channel: Option<ChannelId>,
    ) -> Option<Result<OfferEffect, OfferRefusal>> {
        let (named, mark) = parse(id)?;
        if let Some(router) = &self.shared.deps.router
            && !router.serves(named).await
        {
            return None;
        }
        let Person::User { name, .. } = person else { return None };
        if channel != Some(named) {
            tracing::warn!(channel = %named, ?person, "refused to mute warnings about files: the person may not use the bot in that channel");
            return Some(Err(OfferRefusal::NotHere));
        }
        let lane = Lane::Channel(named);
        let everything = mark.is_none();
        let mute = CollisionMute {
            lane: lane.clone(),
            mark: mark.map(str::to_owned),
            by: self.shared.deps.redactor.redact(short_line(name, MAX_NAME)),
        };
        Some(match self.shared.deps.workspace.state.collision_mutes.mute(mute).await {
            Ok(()) => {
                tracing::info!(%lane, ?person, everything, "a person muted warnings about files");
                Ok(OfferEffect::Decided(match everything {
                    true => "🔇 All warnings about files were muted here by",
                    false => "🔇 Warnings about this file were muted here by",
                }))
            }
            Err(error) => {
                tracing::error!(%lane, error = %with_causes(&error), "cannot save state/collisions.md; the warnings are not muted");
                Err(OfferRefusal::NotPossible)
            }
        })
    }
}

/// Returns the buttons below a warning. The console has none.
pub(super) fn buttons(
    lane: &Lane,
    channel: Option<ChannelId>,
    places: &[FilePlace],
    redactor: &Redactor,
) -> Vec<Offer> {
    let (Lane::Channel(own), Some(_)) = (lane, channel) else { return Vec::new() };
    if channel != Some(*own) {
        return Vec::new();
    }
    let mut random = uuid::Uuid::new_v4().simple().to_string();
    random.truncate(RANDOM);
    let mut marks: Vec<(String, String)> = Vec::new();
    for place in places {
        let mark = place.mark();
        if marks.iter().all(|(known, _)| *known != mark) {
            let name = redactor.redact(short_line(&place.file_name(), MAX_NAME));
            marks.push((mark, format!("Mute {name}")));
        }
    }
    marks.truncate(MAX_FILE_BUTTONS);
    let all = [(String::new(), "Mute all here".to_owned())];
    let offer = |(mark, label)| Offer { id: format!("{PREFIX}{random}{mark}-{own}"), label };
    marks.into_iter().chain(all).map(offer).collect()
}

/// Parses the id of a button: the channel, and the mark if it is about one file.
fn parse(id: &str) -> Option<(ChannelId, Option<&str>)> {
    let (mark, channel) = id.strip_prefix(PREFIX)?.split_once('-')?;
    let (random, mark) = mark.split_at_checked(RANDOM)?;
    let is_hex = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let is_mark = mark.is_empty() || mark.len() == MARK;
    if !is_hex(random) || !is_hex(mark) || !is_mark {
        return None;
    }
    Some((channel.parse().ok()?, Some(mark).filter(|mark| !mark.is_empty())))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::messages::FileInterest;
    use super::*;
    use aetheel_model::file_use::{FileAccess, LaneFileUse};

    #[test]
    fn a_button_is_about_one_file_and_pair_or_about_a_channel() {
        let lane = |channel| Lane::Channel(ChannelId::discord(channel));
        let used = |channel| {
            let (author, access) = (None, FileAccess::Write);
            FileInterest::Used(LaneFileUse { lane: lane(channel), author, access, at_ms: 0 })
        };
        let here = u64::MAX;
        let file = |name: &str| FilePlace::new(Path::new(name), used(here), used(8));
        let places = ["/a/x.rs", "/a/x.rs", "/b/x.rs", "/c", "/d", "/e"].map(file);
        let of = |lane: &Lane, channel| buttons(lane, channel, &places, &Redactor::default());
        let offers = of(&lane(here), Some(ChannelId::discord(here)));
        let labels: Vec<_> = offers.iter().map(|offer| offer.label.as_str()).collect();
        assert_eq!(labels, ["Mute x.rs", "Mute x.rs", "Mute c", "Mute d", "Mute all here"]);
        let read: Vec<_> = offers.iter().map(|offer| parse(&offer.id)).collect();
        let mark = places[0].mark();
        assert_eq!(read[0], Some((ChannelId::discord(here), Some(mark.as_str()))));
        assert_eq!(read[4], Some((ChannelId::discord(here), None)));
        assert_ne!(read[0], read[1]);
        for offer in &offers {
            assert!(offer.id.len() <= 64, "{}", offer.id);
            assert!(offer.id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-'));
        }
        let again = of(&lane(here), Some(ChannelId::discord(here)));
        assert_ne!(offers[0].id[..17], again[0].id[..17]);
        assert!(of(&Lane::Console, None).is_empty());
        for other in ["", "17-0", "lost-ab12cd34", "mute-7", "mutexxxxxxxx-7", "mute1234567890-7"] {
            assert_eq!(parse(other), None, "{other}");
        }
    }
}

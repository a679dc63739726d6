//! Sign-in links and sessions. Links are saved in memory only. Sessions are saved in a file, so
//! that users stay signed in over a restart or an upgrade. Pure, except for the lock and that file:
//! the caller passes the time.
//!
//! The permissions of users are checked elsewhere, with every request.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::super::slots::address_group;
use super::secret::{Digest, digest, secret};
use aetheel_model::access::SignInRequest;
use aetheel_model::audit::{AuditEntry, AuditKind};
use aetheel_model::id::UserId;
use aetheel_model::plain::with_causes;
use aetheel_store::workspace::{SavedSignIn, StateFile};

/// Lifetime of a link.
const LINK_AGE: Duration = Duration::from_secs(5 * 60);
/// Lifetime of a session.
pub(super) const SESSION_AGE: Duration = Duration::from_secs(12 * 3_600);
/// The largest number of links, and of sessions, of a user. A new link or session replaces the
/// oldest.
const MAX_PER_USER: usize = 5;
/// The largest number of sessions of all users.
const SESSIONS: usize = 500;
/// The largest number of streams of a session, so that the sessions of one user cannot take all
/// streams.
const STREAMS: usize = 12;
/// Limits within [`RATE_WINDOW`]: links that a user may request, and failed sign-ins of an address.
const MAX_LINK_REQUESTS: usize = 10;
const MAX_FAILURES: usize = 20;
const RATE_WINDOW: Duration = Duration::from_secs(60);

/// A session of a signed-in user.
#[derive(Debug)]
pub(super) struct DashboardSession {
    pub(super) visitor: SignInRequest,
    /// The secret in every form, which protects against forms of other sites. It is derived from
    /// the session's secret, so that pages that stay open over a restart can still send their
    /// forms. Set by the first request with the session's secret.
    csrf: OnceLock<String>,
    /// Cancelled when the session ends.
    pub(super) over: CancellationToken,
    /// Limits the streams of the session.
    pub(super) streams: Arc<Semaphore>,
    began: Instant,
    /// The time at which the session began, on the wall clock.
    since: Timestamp,
    /// The message for the next page.
    notice: Mutex<Option<String>>,
    /// The latest processed form. Locked while a form is being processed.
    pub(super) last: Arc<tokio::sync::Mutex<Option<CompletedForm>>>,
}

/// A processed form.
#[derive(Debug)]
pub(super) struct CompletedForm {
    pub(super) form: Digest,
    pub(super) at: Instant,
    /// The page to which the form redirected, and the message for that page.
    pub(super) to: String,
    pub(super) notice: Option<String>,
}

impl DashboardSession {
    fn new(visitor: SignInRequest, began: Instant, since: Timestamp) -> Self {
        Self {
            visitor,
            csrf: OnceLock::new(),
            over: CancellationToken::new(),
            streams: Arc::new(Semaphore::new(STREAMS)),
            began,
            since,
            notice: Mutex::default(),
            last: Arc::default(),
        }
    }

    /// Returns the secret of the session's forms.
    pub(super) fn csrf(&self) -> &str {
        self.csrf.get().map_or("", String::as_str)
    }

    /// Sets the message for the next page, unless it is empty.
    pub(super) fn set_notice(&self, text: impl Into<String>) {
        let text = text.into();
        if !text.is_empty() {
            *self.notice.lock() = Some(text);
        }
    }

    /// Returns the message for the next page without removing it.
    pub(super) fn notice(&self) -> Option<String> {
        self.notice.lock().clone()
    }

    /// Begins an entry of the audit log about an action of the user.
    pub(super) fn audit(&self, kind: AuditKind) -> AuditEntry {
        AuditEntry::new(kind).by(Some(self.visitor.user), Some(&self.visitor.name))
    }

    /// Removes and returns the message for the next page.
    pub(super) fn take_notice(&self) -> Option<String> {
        self.notice.lock().take()
    }
}

struct SignInLink {
    visitor: SignInRequest,
    made: Instant,
}

#[derive(Default)]
struct SessionTable {
    links: HashMap<Digest, SignInLink>,
    sessions: HashMap<Digest, Arc<DashboardSession>>,
    asked: HashMap<UserId, Vec<Instant>>,
    failed: HashMap<IpAddr, Vec<Instant>>,
}

/// All links and sessions. Cheap to clone.
#[derive(Clone, Default)]
pub(super) struct Sessions {
    known: Arc<Mutex<SessionTable>>,
    /// The file for sessions; `None` in tests.
    file: Option<StateFile<SavedSignIn>>,
}

impl Sessions {
    /// Restores the saved sessions that have not expired.
    pub(super) fn open(file: StateFile<SavedSignIn>, now: Instant, clock: Timestamp) -> Self {
        let restored = file.all().into_iter().filter_map(|saved| {
            let digest = Digest::parse(&saved.digest)?;
            // If the clock was set back, the age is negative; sessions must not last longer then.
            let age = clock.duration_since(saved.since).max(SignedDuration::ZERO);
            let began = now.checked_sub(age.unsigned_abs())?;
            let visitor =
                SignInRequest { user: saved.user, name: saved.name, channel: saved.channel };
            Some((digest, Arc::new(DashboardSession::new(visitor, began, saved.since))))
        });
        let mut known = SessionTable { sessions: restored.collect(), ..SessionTable::default() };
        known.remove_expired(now);
        Self { known: Arc::new(Mutex::new(known)), file: Some(file) }
    }

    /// Saves the sessions in the background. Must be called within a Tokio runtime.
    fn save(&self) {
        let Some(file) = self.file.clone() else { return };
        let known = Arc::clone(&self.known);
        tokio::task::spawn_blocking(move || {
            if let Err(error) = file.replace(|| known.lock().to_sign_ins()) {
                let error = with_causes(&error);
                tracing::error!(
                    "{error}; a restart may sign users out, or restore sessions that they ended"
                );
            }
        });
    }

    /// Creates a link and returns its secret.
    ///
    /// # Errors
    /// Returns the time until the user may request another link.
    pub(super) fn link(&self, visitor: SignInRequest, now: Instant) -> Result<String, Duration> {
        let mut known = self.known.lock();
        known.remove_expired(now);
        let asked = known.asked.entry(visitor.user).or_default();
        if let Some(first) = asked.first().filter(|_| asked.len() >= MAX_LINK_REQUESTS) {
            return Err((*first + RATE_WINDOW).saturating_duration_since(now));
        }
        asked.push(now);
        let user = visitor.user;
        let mine = |(_, link): &(&Digest, &SignInLink)| link.visitor.user == user;
        if known.links.iter().filter(mine).count() >= MAX_PER_USER {
            let oldest = known.links.iter().filter(mine).min_by_key(|(_, link)| link.made);
            if let Some(digest) = oldest.map(|(digest, _)| *digest) {
                known.links.remove(&digest);
            }
        }
        let made = secret();
        known.links.insert(digest(&made), SignInLink { visitor, made: now });
        Ok(made)
    }

    /// Returns whether a link is valid, without using it up.
    pub(super) fn is_open(&self, link: &str, now: Instant) -> bool {
        let mut known = self.known.lock();
        known.remove_expired(now);
        known.links.contains_key(&digest(link))
    }

    /// Uses up a link and begins a session. Returns the secret of the session, or `None` if the
    /// link is not valid.
    pub(super) fn enter(&self, link: &str, now: Instant) -> Option<String> {
        let mut known = self.known.lock();
        known.remove_expired(now);
        let SignInLink { visitor, .. } = known.links.remove(&digest(link))?;
        let user = visitor.user;
        known.make_room(now, |session| session.visitor.user == user, MAX_PER_USER);
        known.make_room(now, |_| true, SESSIONS);
        let made = secret();
        let session = DashboardSession::new(visitor, now, Timestamp::now());
        known.sessions.insert(digest(&made), Arc::new(session));
        drop(known);
        self.save();
        Some(made)
    }

    /// Returns the session with a secret.
    pub(super) fn session(&self, secret: &str, now: Instant) -> Option<Arc<DashboardSession>> {
        let mut known = self.known.lock();
        known.remove_expired(now);
        let session = known.sessions.get(&digest(secret)).cloned()?;
        session.csrf.get_or_init(|| digest(format!("form of {secret}")).to_string());
        Some(session)
    }

    /// Ends a session.
    pub(super) fn end(&self, session: &Arc<DashboardSession>) {
        session.over.cancel();
        self.known.lock().sessions.retain(|_, known| !Arc::ptr_eq(known, session));
        self.save();
    }

    /// Ends all links and sessions of a user. Returns the number of sessions.
    pub(super) fn revoke(&self, user: UserId) -> usize {
        let mut known = self.known.lock();
        known.links.retain(|_, link| link.visitor.user != user);
        let before = known.sessions.len();
        known.sessions.retain(|_, session| {
            let mine = session.visitor.user == user;
            if mine {
                session.over.cancel();
            }
            !mine
        });
        let ended = before - known.sessions.len();
        drop(known);
        if ended > 0 {
            self.save();
        }
        ended
    }

    /// Counts a sign-in with an invalid link.
    pub(super) fn failed(&self, address: IpAddr, now: Instant) {
        let mut known = self.known.lock();
        known.remove_expired(now);
        known.failed.entry(address_group(address)).or_default().push(now);
    }

    /// Returns whether an address has too many failed sign-ins.
    pub(super) fn is_kept_out(&self, address: IpAddr, now: Instant) -> bool {
        let mut known = self.known.lock();
        known.remove_expired(now);
        known.failed.get(&address_group(address)).is_some_and(|failed| failed.len() >= MAX_FAILURES)
    }
}

impl SessionTable {
    /// Returns the sessions for the file.
    fn to_sign_ins(&self) -> Vec<SavedSignIn> {
        let one = |(digest, session): (&Digest, &Arc<DashboardSession>)| SavedSignIn {
            digest: digest.to_string(),
            user: session.visitor.user,
            name: session.visitor.name.clone(),
            channel: session.visitor.channel,
            since: session.since,
        };
        self.sessions.iter().map(one).collect()
    }

    /// Removes expired entries.
    fn remove_expired(&mut self, now: Instant) {
        let recent = |at: &Instant, age: Duration| now.saturating_duration_since(*at) < age;
        self.links.retain(|_, link| recent(&link.made, LINK_AGE));
        self.sessions.retain(|_, session| {
            let lasts = recent(&session.began, SESSION_AGE);
            if !lasts {
                session.over.cancel();
            }
            lasts
        });
        for times in self.asked.values_mut().chain(self.failed.values_mut()) {
            times.retain(|at| recent(at, RATE_WINDOW));
        }
        self.asked.retain(|_, times| !times.is_empty());
        self.failed.retain(|_, times| !times.is_empty());
    }

    /// Ends the oldest of these sessions until there are fewer than `most`.
    fn make_room(&mut self, now: Instant, of: impl Fn(&DashboardSession) -> bool, most: usize) {
        while self.sessions.values().filter(|session| of(session)).count() >= most {
            let oldest = self
                .sessions
                .iter()
                .filter(|(_, session)| of(session))
                .max_by_key(|(_, session)| now.saturating_duration_since(session.began));
            let Some(digest) = oldest.map(|(digest, _)| *digest) else { return };
            if let Some(session) = self.sessions.remove(&digest) {
                session.over.cancel();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use aetheel_model::id::ChannelId;

    fn ann() -> SignInRequest {
        SignInRequest {
            user: UserId::discord(1),
            name: "ann".to_owned(),
            channel: ChannelId::discord(9),
        }
    }

    fn bob() -> SignInRequest {
        SignInRequest {
            user: UserId::discord(2),
            name: "bob".to_owned(),
            channel: ChannelId::discord(9),
        }
    }

    #[test]
    fn a_link_works_once_and_for_five_minutes() {
        let (sessions, now) = (Sessions::default(), Instant::now());
        let link = sessions.link(ann(), now).unwrap();
        assert!(
            sessions.is_open(&link, now) && sessions.is_open(&link, now),
            "checking a link does not use it up"
        );
        let cookie = sessions.enter(&link, now).unwrap();
        assert_eq!(sessions.session(&cookie, now).unwrap().visitor, ann());
        assert!(sessions.enter(&link, now).is_none() && !sessions.is_open(&link, now));
        assert!(sessions.session(&link, now).is_none(), "a link is not a session");

        let late = sessions.link(ann(), now).unwrap();
        assert!(sessions.enter(&late, now + LINK_AGE).is_none());
        assert!(sessions.enter("", now).is_none());
    }

    #[test]
    fn a_session_ends_after_twelve_hours_or_when_it_is_revoked() {
        let (sessions, now) = (Sessions::default(), Instant::now());
        let enter = |visitor: SignInRequest| {
            sessions.enter(&sessions.link(visitor, now).unwrap(), now).unwrap()
        };
        let (first, second, other) = (enter(ann()), enter(ann()), enter(bob()));
        let open = sessions.session(&second, now).unwrap();
        sessions.end(&sessions.session(&first, now).unwrap());
        assert!(sessions.session(&first, now).is_none());
        let waiting = sessions.link(ann(), now).unwrap();
        assert_eq!(sessions.revoke(UserId::discord(1)), 1);
        assert!(open.over.is_cancelled() && sessions.session(&second, now).is_none());
        assert!(!sessions.is_open(&waiting, now), "links end too");
        let left = sessions.session(&other, now).unwrap();
        assert!(sessions.session(&other, now + SESSION_AGE).is_none() && left.over.is_cancelled());
    }

    #[test]
    fn the_sessions_and_link_requests_of_a_user_are_limited() {
        let (sessions, now) = (Sessions::default(), Instant::now());
        let cookies: Vec<String> = (0..6)
            .map(|second| {
                let now = now + Duration::from_secs(second);
                sessions.enter(&sessions.link(ann(), now).unwrap(), now).unwrap()
            })
            .collect();
        let open = |cookie: &String| sessions.session(cookie, now).is_some();
        assert_eq!(
            cookies.iter().map(open).collect::<Vec<_>>(),
            [false, true, true, true, true, true]
        );

        let links: Vec<String> = (0..4).map(|_| sessions.link(ann(), now).unwrap()).collect();
        assert!(links.iter().all(|link| sessions.is_open(link, now)));
        assert_eq!(sessions.link(ann(), now), Err(RATE_WINDOW));
        assert!(sessions.link(bob(), now).is_ok(), "other users are not limited");
        assert!(sessions.link(ann(), now + RATE_WINDOW).is_ok());
    }

    #[test]
    fn an_address_that_guesses_links_has_to_wait_and_others_do_not() {
        let (sessions, now) = (Sessions::default(), Instant::now());
        let [guesser, other] = ["192.0.2.1", "192.0.2.2"].map(|ip| ip.parse().unwrap());
        (0..MAX_FAILURES).for_each(|_| sessions.failed(guesser, now));
        assert!(sessions.is_kept_out(guesser, now) && !sessions.is_kept_out(other, now));
        assert!(!sessions.is_kept_out(guesser, now + RATE_WINDOW));
    }

    #[tokio::test]
    async fn a_session_its_forms_and_its_expiry_outlive_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("state")).unwrap();
        let (now, clock) = (Instant::now(), Timestamp::now());
        let restarted = async |later: Duration| {
            let file = StateFile::load(folder.path()).await.unwrap();
            Sessions::open(file, now, clock + later)
        };
        let first = restarted(Duration::ZERO).await;
        let enter = |visitor: SignInRequest| first.enter(&first.link(visitor, now).unwrap(), now);
        let (cookie, other) = (enter(ann()).unwrap(), enter(bob()).unwrap());
        let form = first.session(&cookie, now).unwrap().csrf().to_owned();
        assert!(form.len() == 64 && form != first.session(&other, now).unwrap().csrf());
        assert_eq!(first.revoke(UserId::discord(2)), 1);
        let path = folder.path().join("state/sign-ins.md");
        let written = async || {
            while !std::fs::read_to_string(&path).is_ok_and(|text| {
                text.contains("`ann`") && !text.contains("`bob`") && !text.contains(&cookie)
            }) {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(10), written()).await.expect("written");

        let second = restarted(Duration::from_secs(60)).await;
        let session = second.session(&cookie, now).expect("still signed in");
        assert_eq!((session.visitor.clone(), session.csrf()), (ann(), form.as_str()));
        assert!(second.session(&other, now).is_none(), "a revoked session stays revoked");
        // The session began shortly after `clock` was read.
        let moment = Duration::from_secs(1);
        let rest = SESSION_AGE - Duration::from_secs(60) + moment;
        assert!(second.session(&cookie, now + rest).is_none(), "the lifetime does not restart");
        assert!(restarted(SESSION_AGE + moment).await.session(&cookie, now).is_none());
    }
}

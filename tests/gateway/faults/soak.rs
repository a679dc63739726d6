//! Random faults of all kinds in many channels at once. The same seed causes the same faults.

use std::time::Duration;

use super::{Talk, discord, serving, without_prompt_limit};
use crate::support::discord::{Fault, Faults, room};

const ROOMS: u64 = 12;
const STEPS: usize = 150;
/// The largest number of open prompts. The queue accepts many more.
const OPEN: usize = 10;
/// A new login takes five seconds, because Discord limits them.
const LOGINS: usize = 3;

/// Pseudorandom numbers (xorshift64*).
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) % sides
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.roll(all.len() as u64) as usize]
    }
}

#[tokio::test]
async fn random_faults_in_many_channels_lose_and_duplicate_no_answer() {
    let seed = std::env::var("SOAK_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(4);
    eprintln!("SOAK_SEED={seed}");
    let mut dice = Dice(seed);
    let local = discord(true).await;
    let installation = without_prompt_limit(&local).with("BUSY_POLICY", "queue");
    let _bot = serving(&installation).await;
    let mut talk = Talk::default();
    let mut asked: Vec<u64> = (0..ROOMS).map(|number| talk.ask(&local, room(number))).collect();
    talk.settled(&local, "nothing").await;
    let mut logins = 0;
    for _ in 0..STEPS {
        local.wait_for("answers", |local| (talk.open(local) < OPEN).then_some(())).await;
        match dice.roll(100) {
            0..70 => asked.push(talk.ask(&local, room(dice.roll(ROOMS)))),
            70..76 => cut(&local.faults(), &mut dice),
            76..80 if logins < LOGINS => {
                logins += 1;
                lose_session(&local.faults(), &mut dice);
            }
            80..95 => spoil_request(&local.faults(), &mut dice),
            _ if dice.roll(2) == 0 => local.repeat(dice.of(&asked)),
            _ => local.unfurl(dice.of(&asked)),
        }
    }
    local.faults().clear();
    talk.settled(&local, "all of it").await;
    for number in 0..ROOMS {
        talk.ask(&local, room(number));
    }
    talk.settled(&local, "what came before").await;
}

fn cut(faults: &Faults<'_>, dice: &mut Dice) {
    match dice.roll(5) {
        0 => faults.ask_to_reconnect(),
        1 => faults.invalidate(true),
        2 => faults.drop_gateway(false),
        3 => faults.drop_gateway(true),
        _ => faults.freeze_gateway(),
    }
}

fn lose_session(faults: &Faults<'_>, dice: &mut Dice) {
    if dice.roll(2) == 0 {
        faults.invalidate(false);
    } else {
        faults.forget_sessions();
        faults.drop_gateway(dice.roll(2) == 0);
    }
}

fn spoil_request(faults: &Faults<'_>, dice: &mut Dice) {
    let times = 1 + dice.roll(2) as usize;
    let (method, path) = dice.of(&[
        ("POST", "/messages"),
        ("POST", "/messages"),
        ("PATCH", "/messages"),
        ("POST", "/typing"),
        ("GET", "/"),
    ]);
    let fault = match dice.roll(7) {
        0 => Fault::Status(500),
        1 => Fault::Status(503),
        2 => Fault::CutBefore,
        3 => Fault::CutAfter,
        4 => Fault::Slow(Duration::from_millis(300)),
        5 => Fault::Limit { retry_after: 0.3, global: false },
        _ => Fault::Limit { retry_after: 0.3, global: true },
    };
    faults.next(method, path, fault, times);
}

//! Amounts that budgets limit, and the amounts that turns use.

use std::fmt;

use crate::agent::Usage;

/// Dollars above which a reported price is ignored, because no turn can cost that much.
const PRICE_LIMIT: f64 = 1_000_000.0;
/// The largest amount of a cap, in the unit in which people write it.
const MAX_AMOUNT: f64 = 1e12;
const MICRO: f64 = 1e6;
const MINUTE_MS: f64 = 60_000.0;

/// The kind of amount that a cap limits. Amounts are whole numbers of the unit in parentheses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum BudgetUnit {
    /// The price that agents report (millionths of a US dollar).
    Money,
    /// Input and output tokens without those that were read from a cache (tokens).
    Tokens,
    /// Turns whose agent was started (turns).
    Turns,
    /// The time in which agents work (milliseconds).
    Minutes,
}

/// The reason why a text is not an amount.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AmountError {
    /// The text is not a number with a unit.
    #[error("{0:?} is not an amount such as `$20`, `2M tokens`, `50 turns` or `90 minutes`")]
    Form(String),
    /// The amount is not within the supported range.
    #[error("{0:?} is not more than 0, or is too large")]
    Range(String),
}

impl BudgetUnit {
    /// Parses an amount such as `$20`, `2M tokens`, `50 turns` or `90 minutes`.
    ///
    /// # Errors
    /// [`AmountError`] if the text is not an amount, or the amount is zero or too large.
    pub fn parse_amount(text: &str) -> Result<(Self, u64), AmountError> {
        let invalid = || AmountError::Form(text.to_owned());
        let lower = text.trim().to_lowercase();
        let (number, unit) = match lower.strip_prefix('$') {
            Some(number) => (number.trim(), Self::Money),
            None => {
                let (number, unit) = lower.rsplit_once(char::is_whitespace).ok_or_else(invalid)?;
                let unit = match unit {
                    "usd" | "dollar" | "dollars" => Self::Money,
                    "token" | "tokens" => Self::Tokens,
                    "turn" | "turns" => Self::Turns,
                    "minute" | "minutes" | "min" => Self::Minutes,
                    _ => return Err(invalid()),
                };
                (number.trim(), unit)
            }
        };
        let (digits, factor) = match number.as_bytes().last() {
            Some(b'k') => (&number[..number.len() - 1], 1e3),
            Some(b'm') => (&number[..number.len() - 1], 1e6),
            _ => (number, 1.0),
        };
        let is_number = digits.starts_with(|c: char| c.is_ascii_digit())
            && digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        let value: f64 = digits.parse().ok().filter(|_| is_number).ok_or_else(invalid)?;
        let value = value * factor;
        if value > MAX_AMOUNT {
            return Err(AmountError::Range(text.to_owned()));
        }
        let scale = match unit {
            Self::Money => MICRO,
            Self::Minutes => MINUTE_MS,
            Self::Tokens | Self::Turns => 1.0,
        };
        match whole(value * scale) {
            0 => Err(AmountError::Range(text.to_owned())),
            amount => Ok((unit, amount)),
        }
    }

    /// Returns the unit as one word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Money => "money",
            Self::Tokens => "tokens",
            Self::Turns => "turns",
            Self::Minutes => "minutes",
        }
    }

    /// Returns an amount for people, such as `$20.00` or `2.5M tokens`.
    #[must_use]
    pub fn describe(self, amount: u64) -> String {
        match self {
            Self::Money => match amount as f64 / MICRO {
                dollars if amount > 0 && dollars < 0.01 => format!("${dollars:.4}"),
                dollars => format!("${dollars:.2}"),
            },
            Self::Tokens => format!("{} tokens", short_count(amount)),
            Self::Turns if amount == 1 => "1 turn".to_owned(),
            Self::Turns => format!("{amount} turns"),
            Self::Minutes => format!("{:.1} minutes", amount as f64 / MINUTE_MS),
        }
    }

    /// Returns the next cap to offer: half as much again as the larger of the two, rounded up to two
    /// digits.
    #[must_use]
    pub fn next_cap(self, cap: u64, used: u64) -> u64 {
        let step = match self {
            Self::Money => 1_000_000,
            Self::Minutes => 60_000,
            Self::Tokens | Self::Turns => 1,
        };
        let most = cap.max(used);
        let wanted = most.saturating_add(most / 2).div_ceil(step).max(most / step + 1);
        let mut magnitude = 1_u64;
        while wanted / magnitude >= 100 {
            magnitude *= 10;
        }
        wanted.div_ceil(magnitude).saturating_mul(magnitude).saturating_mul(step)
    }
}

fn short_count(count: u64) -> String {
    match count {
        0..10_000 => count.to_string(),
        10_000..1_000_000 => format!("{:.1}k", count as f64 / 1e3).replace(".0k", "k"),
        _ => format!("{:.1}M", count as f64 / 1e6).replace(".0M", "M"),
    }
}

/// Returns the nearest whole number, or 0 for a number that is not finite or is negative.
fn whole(value: f64) -> u64 {
    if value.is_finite() && value > 0.0 { value.round() as u64 } else { 0 }
}

/// The amounts that turns used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpentAmounts {
    /// Price in millionths of a US dollar.
    pub micro_usd: u64,
    /// Tokens, as [`BudgetUnit::Tokens`] counts them.
    pub tokens: u64,
    /// Number of turns.
    pub turns: u64,
    /// Time in milliseconds.
    pub took_ms: u64,
}

impl SpentAmounts {
    /// Returns the use of one turn. An impossible price counts as unknown.
    #[must_use]
    pub fn of_turn(usage: Option<&Usage>, took_ms: u64) -> Self {
        let price = usage.and_then(|usage| usage.cost_usd);
        let price = price.filter(|price| (0.0..=PRICE_LIMIT).contains(price)).unwrap_or(0.0);
        Self {
            micro_usd: whole(price * MICRO),
            tokens: usage.map_or(0, |usage| u64::from(usage.input) + u64::from(usage.output)),
            turns: 1,
            took_ms,
        }
    }

    /// Adds other amounts. Sums that are too large stay at the largest number.
    pub fn add(&mut self, other: &Self) {
        self.micro_usd = self.micro_usd.saturating_add(other.micro_usd);
        self.tokens = self.tokens.saturating_add(other.tokens);
        self.turns = self.turns.saturating_add(other.turns);
        self.took_ms = self.took_ms.saturating_add(other.took_ms);
    }

    /// Returns the larger amount of each kind.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self {
            micro_usd: self.micro_usd.max(other.micro_usd),
            tokens: self.tokens.max(other.tokens),
            turns: self.turns.max(other.turns),
            took_ms: self.took_ms.max(other.took_ms),
        }
    }

    /// Returns the amount of one kind.
    #[must_use]
    pub fn in_unit(&self, unit: BudgetUnit) -> u64 {
        match unit {
            BudgetUnit::Money => self.micro_usd,
            BudgetUnit::Tokens => self.tokens,
            BudgetUnit::Turns => self.turns,
            BudgetUnit::Minutes => self.took_ms,
        }
    }
}

impl fmt::Display for BudgetUnit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn amounts_have_a_number_and_a_unit() {
        let read = |text: &str| BudgetUnit::parse_amount(text);
        assert_eq!(read("$20"), Ok((BudgetUnit::Money, 20_000_000)));
        assert_eq!(read("0.5 USD"), Ok((BudgetUnit::Money, 500_000)));
        assert_eq!(read("2.5M tokens"), Ok((BudgetUnit::Tokens, 2_500_000)));
        assert_eq!(read("50 turns"), Ok((BudgetUnit::Turns, 50)));
        assert_eq!(read("90 minutes"), Ok((BudgetUnit::Minutes, 5_400_000)));
        for invalid in ["", "20", "$", "$-1", "-5 turns", "$1e3", "NaN turns", "$inf", "5 apples"] {
            assert!(matches!(read(invalid), Err(AmountError::Form(_))), "{invalid}");
        }
        for out in ["$0", "0 turns", "0.2 turns", "$9999999999999"] {
            assert!(matches!(read(out), Err(AmountError::Range(_))), "{out}");
        }
    }

    #[test]
    fn impossible_usage_counts_as_unknown_and_sums_do_not_overflow() {
        for price in [f64::NAN, f64::INFINITY, -1.0, 1e300] {
            let usage = Usage { cost_usd: Some(price), input: u32::MAX, ..Usage::default() };
            let spent = SpentAmounts::of_turn(Some(&usage), u64::MAX);
            assert_eq!((spent.micro_usd, spent.tokens), (0, u64::from(u32::MAX)));
            let mut sum = spent;
            sum.add(&spent);
            assert_eq!(sum.took_ms, u64::MAX);
        }
    }

    proptest! {
        #[test]
        fn the_next_cap_is_larger_than_the_cap_and_the_use(cap in 1..u64::MAX / 4, used in 0..u64::MAX / 4) {
            for unit in [BudgetUnit::Money, BudgetUnit::Tokens, BudgetUnit::Turns, BudgetUnit::Minutes] {
                let next = unit.next_cap(cap, used);
                prop_assert!(next > cap && next > used, "{unit}: {next}");
            }
        }
    }
}

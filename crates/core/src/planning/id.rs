//! The ids of tasks and plans: like those of interrupts they say where in the journal something was made, and nobody can
//! make one up.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::journal::Salt;
use crate::{hex, sha256};

/// Bytes of the sequence in an id: more events than any journal will have.
const SEQUENCE_BYTES: usize = 6;

/// Bytes of the hash in an id: nobody guesses one.
const HASH_BYTES: usize = 12;

const BYTES: usize = SEQUENCE_BYTES + HASH_BYTES;

/// Characters of an id behind its prefix.
pub(crate) const ID_DIGITS: usize = 2 * BYTES;

fn bytes_of(seed: &[u8], salt: &Salt, sequence: u64) -> [u8; BYTES] {
    let mut seed = seed.to_vec();
    seed.extend(salt);
    seed.extend(sequence.to_be_bytes());
    let mut bytes = [0; BYTES];
    bytes[..SEQUENCE_BYTES].copy_from_slice(&sequence.to_be_bytes()[8 - SEQUENCE_BYTES..]);
    bytes[SEQUENCE_BYTES..].copy_from_slice(&sha256(&seed)[..HASH_BYTES]);
    bytes
}

fn read(text: &str, prefix: &str) -> Option<[u8; BYTES]> {
    let digits = text.strip_prefix(prefix).filter(|digits| digits.len() == ID_DIGITS)?;
    let nibble = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    };
    let mut bytes = [0; BYTES];
    for (byte, pair) in bytes.iter_mut().zip(digits.as_bytes().chunks_exact(2)) {
        *byte = nibble(pair[0])? << 4 | nibble(pair[1])?;
    }
    Some(bytes)
}

/// The id of something else that the event at this place of the journal makes.
pub(crate) fn minted(prefix: &str, salt: &Salt, sequence: u64) -> String {
    format!("{prefix}{}", hex(&bytes_of(prefix.as_bytes(), salt, sequence)))
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident $prefix:literal $what:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name([u8; BYTES]);

        impl $name {
            /// What every id of this kind begins with.
            pub(crate) const PREFIX: &'static str = $prefix;

            /// The id of what the event at this place of the journal makes.
            pub(crate) fn of(salt: &Salt, sequence: u64) -> Self {
                Self(bytes_of($prefix.as_bytes(), salt, sequence))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}{}", $prefix, hex(&self.0))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl FromStr for $name {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                let wrong = || {
                    let text = crate::excerpt::excerpt(text);
                    format!("'{text}' is no id of {}; one looks like {}0123..", $what, $prefix)
                };
                read(text, $prefix).map(Self).ok_or_else(wrong)
            }
        }

        impl Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                String::deserialize(from)?.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

id! {
    /// Which task of a run. Older ones come first.
    TaskId "task-" "a task"
}

id! {
    /// Which plan of a run. Older ones come first.
    PlanId "plan-" "a plan"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_survives_a_round_trip_and_depends_on_the_salt_and_on_the_place() {
        let id = TaskId::of(&[7; 16], 41);
        assert_eq!(id.to_string().parse::<TaskId>(), Ok(id));
        assert_ne!(id, TaskId::of(&[8; 16], 41));
        assert_ne!(id, TaskId::of(&[7; 16], 42));
        assert!(id < TaskId::of(&[7; 16], 42));
        assert!(id.to_string().parse::<PlanId>().is_err());
        assert!("task-zz".parse::<TaskId>().is_err());
    }
}

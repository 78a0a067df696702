//! The budget of an evaluation, and the two ways in which one stops early.

use std::sync::Arc;

use crate::limits;

/// What an evaluation may still spend.
///
/// Every step, every element and every stretch of bytes burns some of it, so the time and the memory of an
/// evaluation are bounded whatever the data is. The price of a thing never depends on the machine.
#[derive(Debug)]
pub struct Fuel {
    left: u64,
}

/// Price of an element that is added to a list or a map: it takes memory as well as time.
const ELEMENT: u64 = 4;
/// Bytes that can be looked at for one unit.
const SCANNED_PER_UNIT: usize = 8;
/// Bytes that can be written for one unit.
const BUILT_PER_UNIT: usize = 4;

impl Fuel {
    /// A full tank: [`limits::EXPRESSION_FUEL_MAX`].
    pub fn full() -> Self {
        Self { left: limits::EXPRESSION_FUEL_MAX }
    }

    /// What all expressions of one node may spend together when it starts or ends: a definition may write thousands.
    pub fn for_node() -> Self {
        Self { left: limits::NODE_FUEL_MAX }
    }

    /// What is left of it.
    pub fn left(&self) -> u64 {
        self.left
    }

    pub(crate) fn burn(&mut self, units: u64) -> Result<(), Halt> {
        match self.left.checked_sub(units) {
            Some(left) => self.left = left,
            None => {
                self.left = 0;
                return Err(Halt::Costly);
            }
        }
        Ok(())
    }

    /// Pays for looking at so many bytes.
    pub(crate) fn scan(&mut self, bytes: usize) -> Result<(), Halt> {
        self.burn(1 + (bytes / SCANNED_PER_UNIT) as u64)
    }

    /// Pays for writing so many bytes of text.
    pub(crate) fn build(&mut self, bytes: usize) -> Result<(), Halt> {
        self.burn(1 + (bytes / BUILT_PER_UNIT) as u64)
    }

    /// Pays for so many elements of a list or a map.
    pub(crate) fn elements(&mut self, count: usize) -> Result<(), Halt> {
        self.burn(ELEMENT.saturating_mul(count as u64))
    }
}

/// Why an evaluation stops. Only a failure can be absorbed by `&&` and `||`.
#[derive(Clone, Debug)]
pub(crate) enum Halt {
    /// The expression does not fit the data.
    Failed(Arc<str>),
    /// The fuel is gone.
    Costly,
}

impl Halt {
    pub(crate) fn failed(message: impl Into<Arc<str>>) -> Self {
        Self::Failed(message.into())
    }
}

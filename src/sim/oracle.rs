//! What a client is compared with: the truth, what it may see of it, and what the relay was given for it.

use super::sight::Sight;
use super::starvation::Means;
use super::truth::Truth;

/// All of it, for one client.
pub struct Oracle<'a> {
    /// What was true.
    pub truth: &'a Truth,
    /// What the session may know; `None` before the relay has served it.
    pub sight: Option<&'a mut Sight>,
    /// Messages that found no room in the session's queue.
    pub refused: u64,
    /// What its records wait for; `None` where a cap on all sessions leaves no bound.
    pub means: Option<Means>,
}

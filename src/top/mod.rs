//! A terminal view of a running relay, from what its admin address tells: no more than dashboards and `/sessions` show.
//!
//! > [`Reading::take`](reading::Reading::take) asks the relay; [`picture`](picture::picture) makes text of two readings.

pub mod picture;
pub mod reading;

//! A terminal view of a running relay, from what its admin address tells: no more than dashboards and `/sessions` show.
//!
//! > [`Reading::take`](reading::Reading::take) asks the relay; [`picture`](picture::picture) makes a sheet of two readings;
//! > [`Canvas`](canvas::Canvas) fits it to a terminal.

pub mod canvas;
pub mod picture;
pub mod reading;

//! The load generator and oracle: thousands of clients on few threads, each judged against the origin's truth.
//!
//! [`run`](run::run) does a whole bench: its own origin and relay or somebody else's, a [`swarm`] of clients, the
//! [`report`]. A client here is the library's own receiving core behind its own UDP socket and its own impaired
//! link. The [`oracle`] compares every record a client decodes with what the origin published at that time, which the
//! [`truth`] keeps.
//!
//! A bench judges itself too: how late it was for its own timers, how busy its threads were, what the kernel dropped
//! (FAULTS 54, 96, 110).

pub mod admin;
pub mod attack;
pub mod ending;
pub mod farewell;
pub mod inputs;
pub mod likeness;
mod marks;
pub mod member;
pub mod merge;
pub mod oracle;
pub mod page;
pub mod places;
pub mod player;
pub mod preflight;
pub mod report;
pub mod run;
pub mod scrape;
pub mod series;
pub mod settings;
pub mod sight;
pub mod source;
pub mod stage;
pub mod summary;
pub mod surroundings;
pub mod swarm;
pub mod tally;
pub mod target;
pub mod threshold;
pub mod trail;
pub mod truth;
pub mod verdict;
pub mod view;
pub mod viewer;

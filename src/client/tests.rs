//! The client against a hand-made relay: wire, codec and the relay's half of the window, no relay core.

mod absence;
mod departures;
mod display;
mod events;
mod faults;
mod handshake;
mod hostile;
mod network;
mod playback;
mod player;
pub(crate) mod relay;
mod tables;
mod threats;
mod versions;

//! A shard against peers made by hand: they open and read what they are sent, decode no body, and say whatever a test
//! wants said under the session's real key.

mod drain;
mod gate;
mod limits;
mod nonces;
mod numbers;
mod pace;
mod peer;
mod protocol;
mod roaming;
mod turns;
mod versions;
mod views;
mod window;

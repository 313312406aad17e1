//! What a link counts. Plain numbers, in datagrams; `sent + duplicated = delivered + lost + overflowed + queued`.

/// What a link did so far, in datagrams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkCounts {
    /// Given to [`Link::send`](super::link::Link::send).
    pub sent: u64,
    /// Handed out by [`Link::poll`](super::link::Link::poll), copies included.
    pub delivered: u64,
    /// Lost, alone or in a burst.
    pub lost: u64,
    /// Copies made.
    pub duplicated: u64,
    /// Held back so that later ones overtake, copies included.
    pub held: u64,
    /// Delivered after a datagram that was sent later; copies are not counted.
    pub reordered: u64,
    /// With a bit flipped, copies included.
    pub corrupted: u64,
    /// Dropped because the link was full, copies included.
    pub overflowed: u64,
}

//! A drain, and the time over which it tells its sessions to go (SPEC OPS4).

use super::peer::{Peer, Rig};
use crate::sequence::Tick;
use crate::wire::payload::CloseReason;

const CLIENTS: u16 = 20;

/// A shard with clients that were heard, which drains over so many microseconds; after each tick of 50 ms how many clients were
/// told to go, and that each other one was served.
fn told(spread_us: u64, ticks: usize) -> (Rig, Vec<usize>) {
    let mut rig = Rig::new(10, Tick(1));
    rig.shard = rig.shard.with_drain_spread(spread_us);
    let mut peers: Vec<Peer> = (0..CLIENTS)
        .map(|port| Peer::join(&mut rig, 5_000 + port))
        .collect();
    let tick = |rig: &mut Rig, peers: &mut Vec<Peer>| {
        let here = peers.iter_mut().filter(|peer| peer.closed.is_none());
        here.for_each(|peer| peer.speak(rig));
        let sent = rig.turn_moving(5);
        for peer in peers.iter_mut() {
            let before = peer.headers.len();
            peer.take_all(&sent);
            assert!(
                peer.closed.is_some() || peer.headers.len() > before,
                "it is served"
            );
        }
        let gone = peers.iter().filter(|peer| peer.closed.is_some());
        assert!(
            gone.clone()
                .all(|peer| peer.closed == Some(CloseReason::Draining))
        );
        gone.count()
    };
    assert_eq!((0..5).map(|_| tick(&mut rig, &mut peers)).max(), Some(0));
    rig.shard.drain(rig.now_us);
    let told = (0..ticks).map(|_| tick(&mut rig, &mut peers)).collect();
    (rig, told)
}

/// SPEC OPS4: a drain tells everybody at once; with a spread a share in each tick, in even steps, and whoever was not told yet is
/// served on.
#[test]
fn ops4_a_drain_tells_all_at_once_or_a_share_at_a_time() {
    let (rig, at_once) = told(0, 8);
    assert_eq!(at_once, [usize::from(CLIENTS); 8]);
    assert_eq!(rig.shard.open(), 0, "and they are gone");

    // A second in twenty ticks: one client in each.
    let (rig, shares) = told(1_000_000, 30);
    let even: Vec<usize> = (1..=30).map(|tick: usize| tick.min(20)).collect();
    assert_eq!(shares, even);
    assert_eq!(rig.shard.open(), 0, "and they are gone");
    assert_eq!(
        rig.shard.counters().sessions_closed.iter().sum::<u64>(),
        u64::from(CLIENTS)
    );
}

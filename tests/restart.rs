//! `kill -9` of the relay and of the origin, as processes: every client shows the origin's truth again within
//! three seconds, and nothing of an old stream epoch (SPEC OPS2, PLY7; THREATS 79, 95; FAULTS 44, 46).
#![cfg(all(feature = "node", feature = "scenes"))]
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod rig;

use std::time::Duration;

use rig::Rig;
use rig::process::{free_tcp, free_udp, origin, relay};

/// Within which everyone shows the truth again.
const AGAIN: Duration = Duration::from_secs(3);
const CLIENTS: usize = 20;

#[test]
fn threats_79_95_clients_show_the_truth_again_within_three_seconds() {
    let (upstream, listen) = (free_tcp(), free_udp());
    let mut first_origin = Some(origin(&upstream));
    let mut first_relay = Some(relay(&upstream, &listen));
    let mut rig = Rig::new(&upstream, &listen, CLIENTS);
    let joined = rig.until("joining", |truth, viewer| truth.is_shown_by(&viewer.client));
    println!("{CLIENTS} clients show the truth after {joined:?}");

    first_relay.take().unwrap().kill();
    let before: Vec<u32> = rig.viewers.iter().map(|viewer| viewer.sessions).collect();
    let _relay = relay(&upstream, &listen);
    let most = before.iter().copied().max().unwrap();
    let again = rig.until("after the relay's death", |truth, viewer| {
        viewer.sessions > most && truth.is_shown_by(&viewer.client)
    });
    println!("the relay killed and started again: all show the truth after {again:?}");
    assert!(again <= AGAIN, "{again:?} after the relay's death");

    let streams = rig.truth.streams;
    first_origin.take().unwrap().kill();
    let _origin = origin(&upstream);
    let again = rig.until("after the origin's death", |truth, viewer| {
        // A new stream epoch at the client, and only it: a display of the old world has other times and numbers.
        truth.streams > streams && viewer.client.stream_epoch() == 2 && truth.is_shown_by(&viewer.client)
    });
    println!("the origin killed and started again: all show the new world after {again:?}");
    assert!(again <= AGAIN, "{again:?} after the origin's death");
    assert!(
        rig.viewers
            .iter()
            .all(|viewer| viewer.client.refusals().total() < 200),
        "no flood of refusals"
    );
}

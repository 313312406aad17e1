use proptest::prelude::*;

use super::*;

fn id(number: u64) -> SubscriberId {
    SubscriberId::of_number(number)
}

fn input(player: PlayerId, sequence: u32) -> PlayerEvent {
    PlayerEvent::Input {
        player,
        sequence,
        payload: vec![7],
    }
}

fn lost(player: PlayerId, first: u32, count: u32) -> PlayerEvent {
    PlayerEvent::InputsLost { player, first, count }
}

fn drain(players: &mut Players) -> Vec<PlayerEvent> {
    core::iter::from_fn(|| players.next())
        .map(|(_, event)| event)
        .collect()
}

/// SPEC PRE4: what is said is heard once and in order; what is doubled, or of nobody, is not.
#[test]
fn pre4_players_are_heard_once_and_in_order() {
    let mut players = Players::default();
    let camera = PlayerEvent::Camera {
        player: 1,
        position: [1, 2, 3],
    };
    for event in [
        input(1, 1),
        PlayerEvent::Joined(1, 0),
        PlayerEvent::Joined(1, 0),
        input(1, 4),
        input(1, 4),
        camera.clone(),
        lost(1, 5, 3),
        lost(1, 5, 3),
        input(1, 8),
        input(1, 10),
        PlayerEvent::Left(1),
        input(1, 11),
        PlayerEvent::Left(1),
    ] {
        players.receive(id(0), event);
    }
    let heard = [
        PlayerEvent::Joined(1, 0),
        input(1, 4),
        camera,
        lost(1, 5, 3),
        input(1, 8),
        lost(1, 9, 1),
        input(1, 10),
        PlayerEvent::Left(1),
    ];
    assert_eq!(drain(&mut players), heard);
    let counts = players.counts();
    assert_eq!((counts.unknown, counts.repeated, counts.dropped), (3, 2, 0));
    assert!(players.members.is_empty());
}

/// A subscriber that goes takes its players with it, and those of no other.
#[test]
fn the_players_of_a_subscriber_go_with_it() {
    let mut players = Players::default();
    for (subscriber, player) in [(0, 1), (0, 2), (1, 1)] {
        players.receive(id(subscriber), PlayerEvent::Joined(player, 0));
    }
    players.close(id(0));
    let heard: Vec<_> = core::iter::from_fn(|| players.next()).skip(3).collect();
    assert_eq!(
        heard,
        [(id(0), PlayerEvent::Left(1)), (id(0), PlayerEvent::Left(2))]
    );
    assert!(!players.is_there(id(0), 1) && players.is_there(id(1), 1));
}

/// THREATS 71: a subscriber that says more than is taken makes the origin keep no more than the bounds.
#[test]
fn threats_71_what_waits_is_bounded() {
    let mut players = Players::default();
    for round in 0..3u32 {
        for player in 0..SUBSCRIBER_PLAYERS_MAX as u64 + 10 {
            players.receive(id(0), PlayerEvent::Joined(player, 0));
            players.receive(id(0), input(player, round + 1));
            if round == 1 {
                players.receive(id(0), PlayerEvent::Left(player));
            }
        }
        assert!(players.queue.len() <= PLAYER_EVENTS_MAX && players.owed.len() <= SUBSCRIBER_PLAYERS_MAX);
        assert!(players.members.values().map(BTreeMap::len).sum::<usize>() <= SUBSCRIBER_PLAYERS_MAX);
    }
    assert!(players.counts().refused >= 10 && players.counts().dropped > 0);
}

proptest! {
    /// SPEC PRE4: however seldom the game takes what waits, each join is followed by its leave and each number is
    /// heard once, as an input or as lost, in order.
    #[test]
    fn pre4_overflow_loses_no_join_and_no_number(
        steps in prop::collection::vec((0u64..4, 0u8..8), 1..300), takes in 0usize..6, full in any::<bool>(),
    ) {
        let mut players = Players::default();
        let filler = id(9);
        players.receive(filler, PlayerEvent::Joined(0, 0));
        for sequence in 0..if full { PLAYER_EVENTS_MAX as u32 } else { 0 } {
            players.receive(filler, input(0, sequence + 1));
        }
        let mut said = [(false, 0u32); 4];
        let mut heard = Vec::new();
        for (player, what) in steps {
            let (there, sequence) = &mut said[player as usize];
            match what {
                0 => { *there = true; players.receive(id(1), PlayerEvent::Joined(player, 0)); }
                1 => { *there = false; players.receive(id(1), PlayerEvent::Left(player)); }
                2 => for _ in 0..takes { heard.extend(players.next()); },
                _ if *there => { *sequence += 1; players.receive(id(1), input(player, *sequence)); }
                _ => {}
            }
        }
        heard.extend(core::iter::from_fn(|| players.next()));
        prop_assert!(players.owed.is_empty());
        for player in 0..4u64 {
            let (mut there, mut next) = (false, None);
            for (_, event) in heard.iter().filter(|(of, event)| *of == id(1) && event.player() == player) {
                match event {
                    PlayerEvent::Joined(..) => { prop_assert!(!there); (there, next) = (true, None); }
                    PlayerEvent::Left(_) => { prop_assert!(there); there = false; }
                    PlayerEvent::Input { sequence, .. } => {
                        prop_assert!(there && next.is_none_or(|next| next == *sequence));
                        next = Some(sequence + 1);
                    }
                    PlayerEvent::InputsLost { first, count, .. } => {
                        prop_assert!(there && next.is_none_or(|next| next == *first));
                        next = Some(first + count);
                    }
                    PlayerEvent::Camera { .. } => {}
                }
            }
            let (is_there, last) = said[player as usize];
            prop_assert_eq!(there, is_there);
            prop_assert!(!there || next.is_none_or(|next| next == last + 1));
        }
    }
}

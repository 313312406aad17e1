use super::*;
use crate::relay::shard::SessionChange;
use crate::wire::payload::CloseReason;

fn ends() -> (Arc<PlayerLine>, Arc<Directory>, Caller) {
    let (line, directory) = (Arc::<PlayerLine>::default(), Arc::<Directory>::default());
    let caller = Caller::new(Arc::clone(&line), Arc::clone(&directory));
    (line, directory, caller)
}

fn input(player: PlayerId, sequence: u32) -> PlayerEvent {
    PlayerEvent::Input {
        player,
        sequence,
        payload: Vec::new(),
    }
}

fn lost(player: PlayerId, first: u32, count: u32) -> PlayerEvent {
    PlayerEvent::InputsLost { player, first, count }
}

fn open(line: &PlayerLine, directory: &Directory, player: PlayerId) {
    directory.record(0, 0, [SessionChange::Opened(player, 0)]);
    directory.hear(&[PlayerEvent::Joined(player, 0)]);
    line.say([PlayerEvent::Joined(player, 0)]);
}

fn close(line: &PlayerLine, directory: &Directory, player: PlayerId) {
    directory.record(0, 0, [SessionChange::Closed(player, CloseReason::Left)]);
    line.say([PlayerEvent::Left(player)]);
}

fn collected(caller: &mut Caller) -> Vec<PlayerEvent> {
    let mut out = Vec::new();
    caller.collect(&mut out);
    out
}

/// SPEC PRE4: each connection begins with who is there, each once; what was not told is told as lost; a player who is
/// gone is no more spoken of.
#[test]
fn pre4_every_connection_is_told_who_is_there_and_each_input_once() {
    let (line, directory, mut caller) = ends();
    open(&line, &directory, 1);
    line.say([input(1, 1)]);
    caller.discard();
    caller.begin();
    assert_eq!(collected(&mut caller), [PlayerEvent::Joined(1, 0)]);
    let camera = PlayerEvent::Camera {
        player: 1,
        position: [3; 3],
    };
    line.say([
        PlayerEvent::Joined(1, 0),
        input(1, 2),
        input(2, 1),
        lost(1, 3, 2),
        camera.clone(),
    ]);
    let told = [lost(1, 1, 1), input(1, 2), lost(1, 3, 2), camera.clone()];
    assert_eq!(collected(&mut caller), told);
    line.say([input(1, 2), input(1, 5)]);
    assert_eq!(collected(&mut caller), [input(1, 5)]);

    open(&line, &directory, 2);
    line.say([input(1, 6), input(2, 1)]);
    caller.begin();
    let mut told = collected(&mut caller);
    told.sort_by_key(PlayerEvent::player);
    assert_eq!(
        told,
        [PlayerEvent::Joined(1, 0), camera, PlayerEvent::Joined(2, 0)]
    );
    close(&line, &directory, 2);
    line.say([input(2, 2), input(1, 7)]);
    assert_eq!(
        collected(&mut caller),
        [PlayerEvent::Left(2), lost(1, 6, 1), input(1, 7)]
    );
    assert_eq!((caller.results(), caller.known.len()), ([3, 2, 5], 1));
}

/// A session that was opened and whose client nobody heard, as a copied token makes one, is no player at any origin,
/// neither at a new connection nor where the line was full.
#[test]
fn who_was_never_heard_is_told_to_no_origin() {
    let (line, directory, mut caller) = ends();
    directory.record(0, 0, [SessionChange::Opened(7, 77)]);
    open(&line, &directory, 1);
    caller.begin();
    assert_eq!(collected(&mut caller), [PlayerEvent::Joined(1, 0)]);
    line.behind.store(true, Ordering::Release);
    assert_eq!(collected(&mut caller), []);
    directory.hear(&[PlayerEvent::Joined(7, 77)]);
    line.behind.store(true, Ordering::Release);
    assert_eq!(collected(&mut caller), [PlayerEvent::Joined(7, 77)]);
    directory.record(0, 0, [SessionChange::Opened(8, 88)]);
    directory.record(0, 0, [SessionChange::Closed(8, CloseReason::Idle)]);
    caller.begin();
    let mut told = collected(&mut caller);
    told.sort_by_key(PlayerEvent::player);
    assert_eq!(told, [PlayerEvent::Joined(1, 0), PlayerEvent::Joined(7, 77)]);
}

/// FAULTS 42, THREATS 71: a line that is full drops inputs and counts them; joins and leaves come all the same, and the
/// inputs that did not come are told as lost.
#[test]
fn threats_71_a_full_line_loses_inputs_and_neither_joins_nor_leaves() {
    let (line, directory, mut caller) = ends();
    caller.begin();
    assert_eq!(collected(&mut caller), []);
    open(&line, &directory, 1);
    open(&line, &directory, 2);
    let all = PLAYER_EVENTS_MAX as u32 + 50;
    line.say((1..=all).map(|sequence| input(1, sequence)));
    close(&line, &directory, 2);
    open(&line, &directory, 3);
    let mut told = Vec::new();
    while told.len() < PLAYER_EVENTS_MAX {
        let before = told.len();
        caller.collect(&mut told);
        assert!(told.len() - before <= COLLECT_MAX + 4, "in pieces");
    }
    line.say([input(1, all + 1)]);
    caller.collect(&mut told);
    let count = |event: PlayerEvent| told.iter().filter(|told| **told == event).count();
    let there =
        [1, 2, 3].map(|player| count(PlayerEvent::Joined(player, 0)) - count(PlayerEvent::Left(player)));
    assert_eq!(there, [1, 0, 1]);
    assert!(
        [1, 2, 3]
            .iter()
            .all(|player| count(PlayerEvent::Joined(*player, 0)) <= 1)
    );
    let [taken, lost_by_clients, dropped] = caller.results();
    assert_eq!((taken + dropped, lost_by_clients), (u64::from(all) + 1, 0));
    let lost = told
        .iter()
        .find(|event| matches!(event, PlayerEvent::InputsLost { .. }));
    let Some(PlayerEvent::InputsLost { first, count, .. }) = lost else {
        panic!("what was dropped is not told")
    };
    assert_eq!((u64::from(*count), first + count), (dropped, all + 1));
}

//! Damage to the meaning of a snapshot's header.

use ackline::delta::encode;
use ackline::delta::layout::Layout;
use ackline::sequence::Tick;
use ackline::wire::bits::BitWriter;
use ackline::wire::snapshot::{Commit, Held, SnapshotHeader};

use crate::damage::{Maker, Scene, Shot};
use crate::dice::Dice;
use crate::payload::Payload;

pub const MAKERS: &[Maker] = &[
    unknown_stream,
    old_epoch,
    old_generation,
    leap,
    next_without_commit,
    epoch_on_base,
    epoch_with_commit,
    epoch_with_a_bad_body,
    duplicate,
    sibling,
    commit_not_held,
    commit_other_mask,
    commit_digest,
    commit_unreported,
    base_missing,
    base_unreported,
    base_outside_the_set,
    base_digest,
    commit_of_many,
    commit_of_many,
];

fn shot(name: &'static str, payload: &Payload, expected: &'static str) -> Option<Shot> {
    Some(Shot {
        name,
        payload: payload.write(),
        expected: Some(expected),
        hazard: false,
    })
}

fn hazard(name: &'static str, payload: &Payload, expected: &'static str) -> Option<Shot> {
    Some(Shot {
        name,
        payload: payload.write(),
        expected: Some(expected),
        hazard: true,
    })
}

/// The header of a part that the client would take as it is: of its epoch, generation and stream.
fn current(scene: &Scene<'_>, payload: &Payload) -> Option<SnapshotHeader> {
    let client = scene.client;
    let (header, _) = payload.snapshot.as_ref()?;
    let same = header.session_epoch == client.session_epoch()
        && header.generation == client.generation()
        && header.stream_epoch == client.stream_epoch()
        && client.refusing().is_none();
    same.then_some(SnapshotHeader {
        commit: None,
        ..*header
    })
}

fn unknown_stream(scene: &Scene<'_>, payload: &Payload, dice: &mut Dice) -> Option<Shot> {
    let header = current(scene, payload)?;
    let stream_epoch = [header.stream_epoch + 1, header.stream_epoch - 1, u32::MAX][dice.index(3)];
    shot(
        "another stream",
        &payload.alone(SnapshotHeader {
            stream_epoch,
            ..header
        }),
        "unknown_stream",
    )
}

fn old_epoch(scene: &Scene<'_>, payload: &Payload, dice: &mut Dice) -> Option<Shot> {
    let header = current(scene, payload)?;
    let session_epoch = dice.under(header.session_epoch);
    shot(
        "an epoch before",
        &payload.alone(SnapshotHeader {
            session_epoch,
            ..header
        }),
        "old_epoch",
    )
}

fn old_generation(scene: &Scene<'_>, payload: &Payload, dice: &mut Dice) -> Option<Shot> {
    let header = current(scene, payload).filter(|header| header.generation > 0)?;
    let generation = dice.under(header.generation);
    shot(
        "a generation before",
        &payload.alone(SnapshotHeader { generation, ..header }),
        "old_generation",
    )
}

fn leap(scene: &Scene<'_>, payload: &Payload, dice: &mut Dice) -> Option<Shot> {
    let header = current(scene, payload)?;
    let generation = [header.generation + 2, u32::MAX][dice.index(2)];
    // A commit names what was before its snapshot; a late packet has no room for the newest.
    let before = |commit: &Commit| commit.set().iter().all(|held| header.id.is_after(held.id));
    let commit = any_commit(scene).filter(before).filter(|_| dice.chance(500));
    let header = SnapshotHeader {
        generation,
        commit,
        ..header
    };
    shot(
        "two generations on",
        &payload.alone(header),
        "uncommitted_generation",
    )
}

/// A good commit of the newest snapshot held.
fn any_commit(scene: &Scene<'_>) -> Option<Commit> {
    let (held, digest) = *scene.held().first()?;
    Commit::new(&[held], digest)
}

fn next_without_commit(scene: &Scene<'_>, payload: &Payload, _: &mut Dice) -> Option<Shot> {
    let header = current(scene, payload)?;
    let header = SnapshotHeader {
        generation: header.generation + 1,
        ..header
    };
    shot(
        "the next generation without its commit",
        &payload.alone(header),
        "uncommitted_generation",
    )
}

fn epoch_on_base(scene: &Scene<'_>, payload: &Payload, dice: &mut Dice) -> Option<Shot> {
    let header = current(scene, payload).filter(|header| header.base.is_some())?;
    let header = SnapshotHeader {
        session_epoch: header.session_epoch + 1 + dice.under(5),
        generation: header.generation + dice.under(3),
        ..header
    };
    shot(
        "a new epoch on a base",
        &payload.alone(header),
        "uncommitted_generation",
    )
}

fn epoch_with_commit(scene: &Scene<'_>, payload: &Payload, dice: &mut Dice) -> Option<Shot> {
    let header = current(scene, payload)?;
    let header = SnapshotHeader {
        session_epoch: header.session_epoch + 1 + dice.under(5),
        base: None,
        base_digest: None,
        commit: any_commit(scene).filter(|commit| header.id.is_after(commit.set()[0].id)),
        ..header
    };
    header.commit?;
    shot(
        "a new epoch with a commit",
        &payload.alone(header),
        "uncommitted_generation",
    )
}

/// A part that would begin a new epoch, but its body ends within its first entry: nothing begins.
fn epoch_with_a_bad_body(scene: &Scene<'_>, payload: &Payload, _: &mut Dice) -> Option<Shot> {
    let header = current(scene, payload)?;
    let header = SnapshotHeader {
        session_epoch: header.session_epoch + 1,
        base: None,
        base_digest: None,
        count: 1,
        ..header
    };
    // A whole entry in the codes of the session, and of that one byte.
    let layout = Layout::new(scene.client.schema()?);
    let (slot, record, _) = scene.client.display().records().next()?;
    let as_of_us = scene.client.display().known(slot)?.as_of_us;
    let mut buffer = [0; 160];
    let mut writer = BitWriter::new(&mut buffer);
    encode::Gaps::new(&layout).put(None, 0, &mut writer);
    encode::complete(&layout, &record, as_of_us, &mut writer);
    shot(
        "a new epoch with a bad body",
        &payload.with(header, buffer[..1].to_vec()),
        "short",
    )
}

/// The part that was taken last, and is stored, in another datagram.
fn duplicate(scene: &Scene<'_>, _: &Payload, _: &mut Dice) -> Option<Shot> {
    if scene.taken.is_empty() {
        return None;
    }
    let taken = Payload::read(scene.taken);
    let header = current(scene, &taken)?;
    let holds = |id: Tick, part: u8| {
        let mut tables = scene.client.tables();
        tables.any(|(held, _)| held.id == id && held.mask >> part & 1 == 1)
    };
    let named = |id: Tick| scene.held().iter().any(|(held, _)| held.id == id);
    let stored = holds(header.id, header.part) && header.base.is_none_or(named);
    let alone = taken.alone(header);
    stored.then(|| shot("a part again", &alone, "duplicate_part"))?
}

fn sibling(scene: &Scene<'_>, payload: &Payload, dice: &mut Dice) -> Option<Shot> {
    let header = current(scene, payload)?;
    let (held, _) = scene.client.tables().last()?;
    let free = u8::try_from((!held.mask).trailing_zeros())
        .ok()
        .filter(|part| *part < 32)?;
    let base = scene
        .held()
        .into_iter()
        .map(|(held, _)| held.id)
        .find(|base| held.id.is_after(*base));
    let base = base.filter(|_| dice.chance(500));
    let header = SnapshotHeader {
        id: held.id,
        part: free,
        base,
        base_digest: None,
        candidate: false,
        count: 0,
        ..header
    };
    let payload = payload.with(header, Vec::new()).write();
    Some(Shot {
        name: "a sibling",
        payload,
        expected: None,
        hazard: false,
    })
}

/// The header of the next generation with a commit.
fn committing(scene: &Scene<'_>, payload: &Payload, set: &[Held], digest: [u32; 2]) -> Option<Payload> {
    let header = current(scene, payload).filter(|_| scene.hazards)?;
    let commit = Commit::new(set, digest)?;
    let before = commit.set().iter().all(|held| header.id.is_after(held.id));
    let header = SnapshotHeader {
        generation: header.generation + 1,
        commit: Some(commit),
        ..header
    };
    before.then(|| payload.alone(header))
}

fn commit_not_held(scene: &Scene<'_>, payload: &Payload, dice: &mut Dice) -> Option<Shot> {
    let header = current(scene, payload)?;
    let (held, digest) = *scene.held().first()?;
    let missing = missing_id(scene, header.id, dice)?;
    let mut set = vec![held, Held { id: missing, mask: 1 }];
    set.sort_by_key(|held| std::cmp::Reverse(held.id.since(header.id)));
    hazard(
        "a commit of what is not held",
        &committing(scene, payload, &set, digest)?,
        "commit_not_held",
    )
}

fn missing_id(scene: &Scene<'_>, id: Tick, dice: &mut Dice) -> Option<Tick> {
    let missing = id.minus(1 + dice.under(400));
    scene
        .client
        .tables()
        .all(|(held, _)| held.id != missing)
        .then_some(missing)
}

fn commit_other_mask(scene: &Scene<'_>, payload: &Payload, dice: &mut Dice) -> Option<Shot> {
    let (held, digest) = *scene.held().first()?;
    let mask = held.mask ^ 1 << dice.below(32);
    let set = [Held { mask, ..held }];
    hazard(
        "a commit with another mask",
        &committing(scene, payload, &set, digest)?,
        "commit_not_held",
    )
}

fn commit_digest(scene: &Scene<'_>, payload: &Payload, dice: &mut Dice) -> Option<Shot> {
    let (held, mut digest) = *scene.held().first()?;
    digest[dice.index(2)] ^= 1 << dice.below(32);
    hazard(
        "a commit with a wrong digest",
        &committing(scene, payload, &[held], digest)?,
        "commit_digest",
    )
}

fn commit_unreported(scene: &Scene<'_>, payload: &Payload, _: &mut Dice) -> Option<Shot> {
    let (held, table) = scene
        .client
        .tables()
        .find(|(held, _)| !scene.reported.contains(&held.id.0))?;
    let payload = committing(scene, payload, &[held], table.digest().0)?;
    hazard("a commit of what was not reported", &payload, "commit_not_held")
}

fn base_missing(scene: &Scene<'_>, payload: &Payload, dice: &mut Dice) -> Option<Shot> {
    let header = current(scene, payload).filter(|_| scene.hazards)?;
    let base = Some(missing_id(scene, header.id, dice)?);
    hazard(
        "a base that is not held",
        &payload.alone(SnapshotHeader { base, ..header }),
        "base_missing",
    )
}

fn base_unreported(scene: &Scene<'_>, payload: &Payload, _: &mut Dice) -> Option<Shot> {
    let header = current(scene, payload).filter(|_| scene.hazards)?;
    let unreported = |held: &Held| !scene.reported.contains(&held.id.0) && header.id.is_after(held.id);
    let (held, _) = scene.client.tables().find(|(held, _)| unreported(held))?;
    let header = SnapshotHeader {
        base: Some(held.id),
        base_digest: None,
        ..header
    };
    hazard(
        "a base that was not reported",
        &payload.alone(header),
        "base_missing",
    )
}

fn base_outside_the_set(scene: &Scene<'_>, payload: &Payload, _: &mut Dice) -> Option<Shot> {
    let held = scene.held();
    let ((kept, digest), (other, _)) = (*held.first()?, *held.get(1)?);
    let payload = committing(scene, payload, &[kept], digest)?;
    let (header, _) = payload.snapshot.as_ref()?;
    let header = SnapshotHeader {
        base: Some(other.id),
        base_digest: None,
        ..*header
    };
    hazard("a base outside the set", &payload.alone(header), "base_missing")
}

fn base_digest(scene: &Scene<'_>, payload: &Payload, dice: &mut Dice) -> Option<Shot> {
    let header = current(scene, payload).filter(|_| scene.hazards)?;
    let (held, mut digest) = scene
        .held()
        .into_iter()
        .find(|(held, _)| header.id.is_after(held.id))?;
    let taken = scene.client.tables().any(|(held, _)| held.id == header.id);
    digest[dice.index(2)] ^= 1 << dice.below(32);
    let header = SnapshotHeader {
        base: Some(held.id),
        base_digest: Some(digest),
        ..header
    };
    (!taken).then(|| {
        hazard(
            "a wrong digest of the base",
            &payload.alone(header),
            "base_digest",
        )
    })?
}

/// A good commit of up to eight, as a relay may send it that keeps more than this one. The relay knows nothing
/// of it, so that the lease ends before the two understand each other again.
fn commit_of_many(scene: &Scene<'_>, payload: &Payload, dice: &mut Dice) -> Option<Shot> {
    let header = current(scene, payload)?;
    let held: Vec<_> = scene
        .held()
        .into_iter()
        .filter(|(held, _)| header.id.is_after(held.id))
        .collect();
    let many = (1 + dice.index(8)).min(held.len());
    let set: Vec<Held> = held.iter().take(many).map(|(held, _)| *held).collect();
    let sum = held.iter().take(many).fold([0u32; 2], |sum, (_, digest)| {
        [sum[0].wrapping_add(digest[0]), sum[1].wrapping_add(digest[1])]
    });
    if many < 2 || dice.chance(500) {
        return None;
    }
    let payload = committing(scene, payload, &set, sum)?;
    let (header, _) = payload.snapshot.as_ref()?;
    let (base, digest) = held[dice.index(many)];
    let header = SnapshotHeader {
        base: Some(base.id),
        base_digest: Some(digest).filter(|_| dice.chance(500)),
        candidate: dice.chance(500),
        count: 0,
        ..*header
    };
    hazard("a commit of many", &payload.with(header, Vec::new()), "ok")
}

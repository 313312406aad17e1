//! What the checker finds of each seeded fault, after how many steps at the least. `--nocapture` prints the
//! traces.

use crate::fault::Fault;
use crate::model::{Advance, Size, WindowModel};
use crate::search::{Graph, mark};
use crate::state::Broken;
use crate::{MOST, lossy, persist};

/// What must be found of a fault: a broken property or a state that is stuck, after so many steps.
#[derive(Debug, PartialEq)]
enum Found {
    Broken(Broken, usize),
    /// Full for ever.
    Full(usize),
    /// With a lost baseline for ever.
    Lost(usize),
}

/// Without the fault nothing is stuck at this size: it is the fault that was found.
fn assert_not_stuck(size: Size) {
    let graph = Graph::explore(&WindowModel::honest(size), MOST);
    assert!(graph.broken.is_none());
    assert!(
        graph.stuck(mark::LOST, mark::WHOLE).is_empty() && graph.stuck(mark::FULL, mark::FREES).is_empty()
    );
}

fn find(fault: Fault, size: Size) -> Found {
    let model = WindowModel {
        size,
        fault: Some(fault),
    };
    let graph = Graph::explore(&model, MOST);
    let (found, state) = if let Some((state, broken)) = graph.broken {
        let steps = graph.trace(&model, state).len();
        (Found::Broken(broken, steps), state)
    } else if let Some(&state) = graph.stuck(mark::LOST, mark::WHOLE).first() {
        assert_not_stuck(size);
        (Found::Lost(graph.trace(&model, state).len()), state)
    } else if let Some(&state) = graph.stuck(mark::FULL, mark::FREES).first() {
        assert_not_stuck(size);
        (Found::Full(graph.trace(&model, state).len()), state)
    } else {
        panic!("{fault:?} was not found in {} states", graph.states());
    };
    println!(
        "{fault:?}: {found:?}, {} states\n{}",
        graph.states(),
        graph.story(&model, state)
    );
    found
}

/// Two slots and everything sent deliverable: where most faults are found.
const FEW: Size = Size {
    network: persist(4, 3, 1),
    ..Size::SMALL
};
/// The same with epochs at any moment.
const EPOCHS: Size = Size {
    epochs: true,
    network: persist(4, 4, 3),
    ..Size::SMALL
};
/// The same with snapshots of two parts.
const PARTS: Size = Size {
    parts: &[2],
    network: persist(3, 2, 1),
    ..Size::SMALL
};
/// Endless, as the product does it: where faults of liveness are found.
const ENDLESS: Size = Size {
    advance: Advance::Asked,
    network: lossy(1, 1),
    ..Size::SMALL
};

macro_rules! faults {
    ($($name:ident: $fault:ident in $size:expr => $found:expr;)*) => {$(
        #[test]
        fn $name() {
            assert_eq!(find(Fault::$fault, $size), $found);
        }
    )*};
}

faults! {
    untagged_reports: UntaggedReports in Size { slots: 3, ..FEW } => Found::Broken(Broken::NamesUnheld, 13);
    received_is_held: ReceivedIsHeld in FEW => Found::Broken(Broken::NamesUnheld, 8);
    other_set: OtherSetSameGeneration in FEW => Found::Broken(Broken::NeedlessRefusal, 10);
    confirm_untagged: ConfirmUntagged in FEW => Found::Broken(Broken::GenerationsApart, 6);
    commit_again: CommitAppliedAgain in FEW => Found::Broken(Broken::ReportedDropped, 10);
    retired_uncounted: RetiredUncounted in FEW => Found::Broken(Broken::RelayOverfull, 8);
    epoch_missing: EpochMissing in EPOCHS => Found::Broken(Broken::NeedlessEpoch, 8);
    ids_restart: IdsRestart in EPOCHS => Found::Broken(Broken::NamesUnheld, 6);
    unordered_epochs: UnorderedEpochs in EPOCHS => Found::Broken(Broken::TookOld, 5);
    generation_modulo_2: GenerationModulo2 in Size { network: persist(5, 4, 1), ..FEW }
        => Found::Broken(Broken::GenerationsApart, 11);
    generation_modulo_3: GenerationModulo3 in Size { network: persist(5, 5, 1), ..FEW }
        => Found::Broken(Broken::GenerationsApart, 16);
    id_modulo_4: IdModulo4 in Size { network: persist(6, 4, 1), ..FEW }
        => Found::Broken(Broken::NeedlessRefusal, 11);
    commit_aborted: CommitAborted in FEW => Found::Broken(Broken::GenerationsApart, 8);
    untagged_asks: UntaggedAsks in Size { advance: Advance::Asked, plain: true, ..FEW }
        => Found::Broken(Broken::NeedlessAdvance, 13);
    untagged_refusals: UntaggedRefusals in Size { request: true, ..EPOCHS }
        => Found::Broken(Broken::NeedlessEpoch, 7);
    commit_unverified: CommitUnverified in Size { damage: true, ..FEW }
        => Found::Broken(Broken::DamagedSetTaken, 8);
    anchor_verified_only: AnchorVerifiedOnly in Size { damage: true, slots: 3, commit_max: 2, ..FEW }
        => Found::Broken(Broken::DamagedSetTaken, 10);
    late_part_stored: LatePartStored in PARTS => Found::Broken(Broken::FixedChanged, 4);
    parts_fixed_when_named: PartsFixedWhenNamed in PARTS => Found::Broken(Broken::FixedChanged, 4);
    mask_grows: MaskGrows in PARTS => Found::Broken(Broken::ContentDiffers, 6);
    all_parts_assumed: AllPartsAssumed in PARTS => Found::Broken(Broken::ContentDiffers, 4);
    unreported_committed: UnreportedCommitted in PARTS => Found::Broken(Broken::NamesUnheld, 2);
    digest_over_all_parts: DigestOverAllParts in PARTS => Found::Broken(Broken::NeedlessRefusal, 7);
    mask_of_all_parts: MaskOfAllParts in PARTS => Found::Broken(Broken::NeedlessRefusal, 7);
    decoded_on_newest: DecodedOnNewest in FEW => Found::Broken(Broken::WrongBase, 8);
    parts_on_different_bases: PartsOnDifferentBases in PARTS => Found::Broken(Broken::ContentDiffers, 6);
    old_generation_taken: OldGenerationTaken in FEW => Found::Broken(Broken::TookOld, 9);
    second_part_under_newer_tag: SecondPartUnderNewerTag in PARTS
        => Found::Broken(Broken::FixedChanged, 9);
    unreported_takes_no_slot: UnreportedTakesNoSlot in FEW => Found::Broken(Broken::ClientOverfull, 6);
    reported_dropped: ReportedDropped in FEW => Found::Broken(Broken::ReportedDropped, 7);
    old_session_taken: OldSessionTaken in Size { reconnect: true, ..FEW }
        => Found::Broken(Broken::NeedlessRefusal, 8);
    commit_keeps_all: CommitKeepsAll in Size { commit_max: 2, ..ENDLESS } => Found::Full(7);
    nothing_said_at_full: NothingSaidAtFull in ENDLESS => Found::Full(5);
    refusal_unsaid: RefusalUnsaid in Size { damage: true, ..ENDLESS } => Found::Lost(5);
    refusal_said_once: RefusalSaidOnce in Size { damage: true, ..ENDLESS } => Found::Lost(11);
    ask_said_once: AskSaidOnce in ENDLESS => Found::Full(9);
    commit_said_once: CommitSaidOnce in ENDLESS => Found::Full(11);
    reported_once: ReportedOnce in ENDLESS => Found::Full(7);
    complete_only: CompleteOnly in Size { parts: &[2], network: lossy(2, 1), ..ENDLESS } => Found::Full(6);
    absence_is_freed: AbsenceIsFreed in Size { network: lossy(1, 2), ..ENDLESS } => Found::Full(11);
    lease_drops_only: LeaseDropsOnly in Size { expiry: true, ..ENDLESS } => Found::Full(9);
    nothing_usable_ignored: NothingUsableIgnored in ENDLESS => Found::Full(9);
}

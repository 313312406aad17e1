use super::super::settings::LinkDemand;
use super::*;

/// One seed is one scenario, and what is forced is all that changes.
#[test]
fn scenarios_repeat_by_seed_and_forcing_one_setting_changes_no_other() {
    let settings = SimSettings::default();
    let forced = SimSettings {
        down: LinkDemand {
            loss: Some(0.5),
            ..LinkDemand::default()
        },
        entities: Some(7),
        ..settings
    };
    for seed in 0..50 {
        let scenario = Scenario::draw(seed, &settings);
        assert_eq!(
            format!("{scenario:?}"),
            format!("{:?}", Scenario::draw(seed, &settings))
        );
        let other = Scenario::draw(seed, &forced);
        assert_eq!(
            (&scenario.turns, scenario.first_tick),
            (&other.turns, other.first_tick)
        );
        assert_eq!(other.world.entities, 7);
        assert_eq!(
            WorldPlan {
                entities: 7,
                ..scenario.world
            },
            other.world
        );
        for (plan, forced) in scenario.clients.iter().zip(&other.clients) {
            for (drawn, forced) in plan.links.iter().zip(&forced.links) {
                assert_eq!(
                    ImpairmentSettings {
                        loss: 0.5,
                        ..drawn[0]
                    },
                    forced[0]
                );
                assert_eq!(drawn[1], forced[1]);
            }
        }
    }
}

/// The run's promise: links within their bounds, an undisturbed end, every kind of trouble among few seeds.
#[test]
fn seeds_cover_every_trouble_and_stay_within_bounds() {
    let mut kinds = std::collections::BTreeSet::new();
    let mut worst = 0.0f64;
    for seed in 0..300 {
        let scenario = Scenario::draw(seed, &SimSettings::default());
        assert!((5..=200).contains(&scenario.world.entities) && (1..=6).contains(&scenario.clients.len()));
        assert!((16_000..=100_000).contains(&scenario.world.period_us));
        for plan in &scenario.clients {
            for [down, up] in &plan.links {
                assert_eq!((down.check(), up.check()), (Ok(()), Ok(())));
                let trip = down.delay_us + down.jitter_us + up.delay_us + up.jitter_us;
                assert!(trip <= ROUND_TRIP_MAX_US);
                assert!(down.expected_loss() <= 0.301 && up.expected_loss() <= 0.301);
                worst = worst.max(down.expected_loss());
            }
        }
        for (at_us, turn) in &scenario.turns {
            let length_us = match turn {
                Turn::Stall { length_us, .. } | Turn::Silence { length_us, .. } => *length_us,
                _ => 0,
            };
            assert!(at_us + length_us < scenario.clean_at_us);
            let name = format!("{turn:?}");
            kinds.insert(name.split([' ', '(']).next().map(str::to_owned));
            if let Turn::Stall { kind, .. } = turn {
                kinds.insert(Some(format!("{kind:?}")));
            }
        }
    }
    assert!(worst > 0.25, "{worst}");
    assert_eq!(kinds.len(), 7 + 4, "{kinds:?}");
}

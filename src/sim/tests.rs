use super::outcome::Outcome;
use super::run::run;
use super::scenario::SimSettings;

/// A number of the environment, to try more or other seeds.
fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

fn play(seeds: core::ops::Range<u64>, settings: &SimSettings) -> Outcome {
    let mut all = Outcome::default();
    for seed in seeds {
        all.merge(run(seed, settings));
    }
    all
}

#[test]
fn tmp() {
    let first = number("SEED", 0);
    let watch = number("WATCH", 0);
    let settings = SimSettings { watch: (watch > 0).then_some(watch as u32), seconds: number("SECONDS", 60), flips_per_minute: number("FLIPS", 0) as f64, ..SimSettings::default() };
    let all = play(first..first + number("SEEDS", 50), &settings);
    println!("{all}");
    assert!(all.is_ok());
}

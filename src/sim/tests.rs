use super::run::run;
use super::scenario::SimSettings;

#[test]
fn fifty_seeds() {
    let mut all = super::outcome::Outcome::default();
    let count: u64 = std::env::var("SEEDS").ok().and_then(|s| s.parse().ok()).unwrap_or(50);
    let first: u64 = std::env::var("SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(0);
    for seed in first..first + count {
        let begun = std::time::Instant::now();
        let outcome = run(seed, &SimSettings::default());
        println!("seed {seed}: {} failures, {:?}", outcome.failed, begun.elapsed());
        all.merge(outcome);
    }
    all.failures.truncate(40);
    println!("{all}");
    assert!(all.is_ok());
}

//! Bytes nobody can guess, from the system.

use ring::rand::{SecureRandom, SystemRandom};

/// `N` random bytes.
///
/// # Errors
/// When the system gives none.
pub fn random<const N: usize>() -> anyhow::Result<[u8; N]> {
    let mut bytes = [0; N];
    SystemRandom::new()
        .fill(&mut bytes)
        .map_err(|_| anyhow::anyhow!("the system gives no random bytes, without which no session is safe"))?;
    Ok(bytes)
}

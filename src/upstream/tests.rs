//! `docs/UPSTREAM.md` and `examples/publisher.py` against this implementation.

mod document;
mod example;

use std::path::PathBuf;

fn root(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(path)
}

//! Writes the seeds of every target into `corpus/TARGET/seed-NN`. Run it in this directory: `cargo run --example seeds`.

use std::fs;
use std::io;

fn main() -> io::Result<()> {
    for target in ackline_fuzz::TARGETS {
        let directory = format!("corpus/{}", target.name);
        fs::create_dir_all(&directory)?;
        for (index, seed) in (target.seeds)().iter().enumerate() {
            fs::write(format!("{directory}/seed-{index:02}"), seed)?;
        }
    }
    Ok(())
}

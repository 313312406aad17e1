//! An allocator that counts what a thread holds and how often it asks, and rows that say what was counted.

#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;

use super::calls::Calls;

/// The system's allocator, its calls and bytes counted.
pub struct Counting;

thread_local! {
    static HELD: Cell<isize> = const { Cell::new(0) };
}

fn count(bytes: isize) {
    // A thread that ends has no counter any more; nothing is measured there.
    let _ = HELD.try_with(|held| held.set(held.get() + bytes));
}

// SAFETY: every call is passed on to an allocator unchanged; only sizes are counted.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size().cast_signed());
        // SAFETY: the caller's own contract.
        unsafe { Calls.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-layout.size().cast_signed());
        // SAFETY: the caller's own contract.
        unsafe { Calls.dealloc(pointer, layout) }
    }
}

/// Bytes that this thread took and did not give back; what it gave back of others' counts against it.
pub fn held() -> isize {
    HELD.with(Cell::get)
}

/// Bytes that come free while `act` runs.
pub fn freed_by(act: impl FnOnce()) -> usize {
    let before = held();
    act();
    usize::try_from(before - held()).expect("more is freed than taken")
}

/// A bound and what was counted against it.
#[derive(Clone, Debug)]
pub struct Row {
    pub what: &'static str,
    pub formula: &'static str,
    pub bound: usize,
    pub counted: usize,
}

impl Row {
    pub fn new(what: &'static str, formula: &'static str, bound: usize, counted: usize) -> Row {
        Row {
            what,
            formula,
            bound,
            counted,
        }
    }
}

/// Asserts each row.
pub fn hold(rows: &[Row]) {
    for row in rows {
        assert!(row.counted <= row.bound, "{row:?}");
    }
}

/// Prints rows as one table, in one piece, and asserts them.
pub fn print(title: &str, rows: &[Row]) {
    let mut text = format!(
        "\n{title}\n{:<66} {:<44} {:>10} {:>10}\n",
        "what", "formula", "bound", "counted"
    );
    for row in rows {
        let Row {
            what,
            formula,
            bound,
            counted,
        } = row;
        text.push_str(&format!("{what:<66} {formula:<44} {bound:>10} {counted:>10}\n"));
    }
    println!("{text}");
    hold(rows);
}

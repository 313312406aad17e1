//! How large the terminal is that standard output goes to.
#![allow(unsafe_code)]

/// Rows and columns of it; `None` where it is none, or does not say.
#[must_use]
pub fn size() -> Option<(usize, usize)> {
    let mut size = libc::winsize {
        ws_row: 0,
        ws_col: 0,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    // SAFETY: the pointer is to `size`, which outlives the call and which any result leaves valid.
    if unsafe { libc::ioctl(libc::STDOUT_FILENO, libc::TIOCGWINSZ, &raw mut size) } != 0 {
        return None;
    }
    (size.ws_row > 0 && size.ws_col > 0).then(|| (size.ws_row.into(), size.ws_col.into()))
}

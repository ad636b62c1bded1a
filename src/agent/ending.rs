// SPDX-License-Identifier: GPL-2.0-only
//! Why the kernel ended a scheduler, in its own words.

use std::ffi::{CStr, c_char};
use std::slice;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use crossbeam::channel::{RecvTimeoutError, bounded};
use scx_utils::{ScxExitKind, UEI_DUMP_PTR_MUTEX, UserExitInfo, uei_read};

use crate::bpf::skel::BpfSkel;

/// How long the kernel's dump may take to be printed.
const REPORT_TAKES: Duration = Duration::from_secs(5);

pub struct Ending {
    kind: i32,
    says: UserExitInfo,
}

impl Ending {
    /// Reads how a scheduler ended. It must have ended already.
    pub fn of(skel: &mut BpfSkel<'_>) -> Result<Self> {
        let data = skel.maps.data_data.as_deref_mut().context("the kernel has no data")?;
        let dump = UEI_DUMP_PTR_MUTEX.lock().map_or(std::ptr::null(), |dump| dump.ptr);
        for words in [data.uei.reason.as_mut_ptr(), data.uei.msg.as_mut_ptr(), dump.cast_mut()] {
            // SAFETY: the programs have ended each text with a zero. They write no more to the
            // memory that this process shares with them, and nothing else refers to it.
            unsafe { make_text(words) };
        }
        let kind = data.uei.kind;
        Ok(Self { kind, says: uei_read!(skel, uei) })
    }

    pub fn by_administrator(&self) -> bool {
        self.kind == ScxExitKind::SysRq as i32
    }

    /// Returns true if the kernel asks to load the scheduler anew.
    pub fn should_restart(&self) -> bool {
        self.says.should_restart()
    }

    /// Prints what the kernel says, unless all is well. It leaves it to the caller to print an
    /// error.
    pub fn report(self) -> Result<()> {
        let is_peaceful = self.kind <= ScxExitKind::UnregKern as i32;
        let reported = if is_peaceful { Ok(()) } else { print(self.says) };
        reported.context("the kernel ejected the scheduler")
    }
}

/// Prints the report in a thread of its own, because printing may wait for a reader, and panics
/// where the disk is full.
fn print(says: UserExitInfo) -> Result<()> {
    let (tell, told) = bounded(1);
    let print = move || {
        // The caller may have stopped waiting.
        let _ = tell.send(says.report());
    };
    thread::Builder::new()
        .name("report".to_owned())
        .spawn(print)
        .context("there is no thread for its report")?;
    told.recv_timeout(REPORT_TAKES).unwrap_or_else(|error| match error {
        RecvTimeoutError::Timeout => Err(anyhow!("nobody reads its report")),
        RecvTimeoutError::Disconnected => Err(anyhow!("there is no room for its report")),
    })
}

/// Makes printable text of the bytes. The kernel prints the names of threads as they are, which may
/// be any bytes, and cuts off what is too long. `UserExitInfo` panics if it is given what is no
/// text. What it tells goes to root's terminal, which obeys characters that nobody sees.
///
/// # Safety
///
/// `words` is null, or the beginning of bytes that end with a zero and that nothing else uses.
unsafe fn make_text(words: *mut c_char) {
    if words.is_null() {
        return;
    }
    // SAFETY: the caller guarantees it.
    let bytes = unsafe {
        let length = CStr::from_ptr(words).count_bytes();
        slice::from_raw_parts_mut(words.cast::<u8>(), length)
    };
    let mut left = &mut bytes[..];
    while let Err(error) = str::from_utf8(left) {
        left = &mut left[error.valid_up_to()..];
        left[0] = b'?';
    }
    let is_obeyed = |(_, it): &(usize, char)| it.is_control() && !['\n', '\t'].contains(it);
    let text = str::from_utf8(bytes).unwrap_or_default();
    let obeyed: Vec<_> = text.char_indices().filter(is_obeyed).collect();
    for (at, it) in obeyed {
        bytes[at..at + it.len_utf8()].fill(b'?');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn as_text(words: &[u8]) -> String {
        let mut bytes = [words, b"\0"].concat();
        // SAFETY: they end with a zero, and nothing else uses them.
        unsafe { make_text(bytes.as_mut_ptr().cast()) };
        let told = CStr::from_bytes_with_nul(&bytes).unwrap();
        told.to_str().unwrap().to_owned()
    }

    #[test]
    fn any_name_of_a_thread_can_be_told() {
        assert_eq!(as_text(b""), "");
        assert_eq!(as_text("gänzlich".as_bytes()), "gänzlich");
        assert_eq!(as_text(b"\xff\xfemine[7]\xc3"), "??mine[7]?");
        // This is cut within a character, with others behind it.
        assert_eq!(as_text(b"a\xe2\x82 b\xe2\x82\xac"), "a?? b\u{20ac}");
        // A terminal shows a tab and a new line, and obeys the characters of the lines below.
        assert_eq!(as_text(b"a\tb\n"), "a\tb\n");
        assert_eq!(as_text(b"\x1b[2J\x07\r\x7f"), "?[2J???");
        assert_eq!(as_text("\u{9b}2Jä".as_bytes()), "??2Jä");
        // SAFETY: the pointer is null.
        unsafe { make_text(std::ptr::null_mut()) };
    }
}

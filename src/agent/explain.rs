// SPDX-License-Identifier: GPL-2.0-only
//! What the scheduler thinks of one thread, and why.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::status::{BOUNDARIES, Book, CAUSES, seconds};
use super::trial::standing::Known;
use crate::bpf::intf::{CLASS_AVX, CLASS_DEFAULT, CLASS_SCALAR, avx_process, task_ctx};
use crate::bpf::trials::number_of;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Explanation {
    pub thread: i32,
    /// default, scalar or avx.
    pub class: String,
    pub why: String,
    /// What would make its class another.
    pub until: String,
    pub avx512_is_hidden: bool,
    /// The generation of the policy by which its last phase began or ended; 0 if there was none.
    pub generation: u64,
    /// How long it is scalar between its phases, on average.
    pub scalar_between_phases_s: f64,
    /// For how long it is kept where it is, because to move it is not worth the cost.
    pub kept_for_s: f64,
    /// What trials know of AVX cores, if the policy leaves these to trials.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trials: Option<Known>,
    pub book: Book,
}

impl Explanation {
    pub fn new(thread: i32, task: &task_ctx, process: Option<&avx_process>) -> Self {
        let (class, why, until) = verdict(task, process.copied().unwrap_or_default());
        Self {
            thread,
            class: class.to_owned(),
            why,
            until: until.to_owned(),
            avx512_is_hidden: task.hidden,
            generation: number_of(task.generation),
            scalar_between_phases_s: seconds(task.phase.scalar),
            kept_for_s: seconds(task.phase.keep),
            trials: None,
            book: Book::new(&task.book),
        }
    }
}

fn verdict(task: &task_ctx, process: avx_process) -> (&'static str, String, &'static str) {
    let name = |names: &[&'static str], n: u32| names.get(n as usize).copied().unwrap_or("unknown");
    match task.habit.class {
        CLASS_DEFAULT => (
            "default",
            "it was never seen with wide vectors".to_owned(),
            "until it uses 512-bit instructions, or says so",
        ),
        CLASS_SCALAR if process.left_alone => (
            "scalar",
            "it was seen with wide vectors, and its program says that it gets less done with AVX \
             cores"
                .to_owned(),
            "until the next trial of AVX cores",
        ),
        CLASS_SCALAR if process.exempt || task.phase.ended == 0 => (
            "scalar",
            "it was seen with wide vectors, and AVX cores are not for it".to_owned(),
            "until they are, or it says that it does AVX work",
        ),
        CLASS_SCALAR => (
            "scalar",
            format!("its last phase ended: {}", name(&BOUNDARIES, task.boundary)),
            "until its next 512-bit instruction, or it says so",
        ),
        CLASS_AVX if task.hinted => {
            ("avx", "it said so itself".to_owned(), "until it says something else")
        }
        CLASS_AVX if task.habit.mixed => (
            "avx",
            "it mixes light instructions of AVX-512, such as string functions, with wide ones"
                .to_owned(),
            "until it used no wide ones for mixed-memory",
        ),
        _ => (
            "avx",
            format!("its phase began: {}", name(&CAUSES, task.cause)),
            "until the end that the knob return asks for, or return-timeout",
        ),
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "thread {} is {}: {}, {}", self.thread, self.class, self.why, self.until)?;
        let hidden = if self.avx512_is_hidden { "hidden from it" } else { "visible to it" };
        writeln!(out, "AVX-512 is {hidden}; decided by policy {}", self.generation)?;
        writeln!(
            out,
            "{:.3} s as an AVX task, {:.3} s between phases, each {:.6} s on average; \
             kept for {:.6} s",
            self.book.avx_s, self.book.scalar_s, self.scalar_between_phases_s, self.kept_for_s
        )?;
        if let Some(known) = &self.trials {
            writeln!(out, "{known}")?;
        }
        for (what, counts) in [
            ("phases began", &self.book.phases),
            ("phases ended", &self.book.ends),
            ("faults", &self.book.faults),
        ] {
            let list: Vec<String> = counts.iter().map(|(name, n)| format!("{n} {name}")).collect();
            let list = if list.is_empty() { "none".to_owned() } else { list.join(", ") };
            writeln!(out, "{what}: {list}")?;
        }
        writeln!(
            out,
            "asked to go to an AVX core {} times, away from one {} times",
            self.book.sent_to_avx, self.book.sent_to_scalar
        )?;
        if self.book.watched_s > 0.0 {
            writeln!(
                out,
                "{:.3} s of {:.3} s lost to clocks that others had made low, and not paid for",
                self.book.lost_s, self.book.watched_s
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bpf::intf;

    fn explain(task: &task_ctx) -> Explanation {
        Explanation::new(7, task, None)
    }

    #[test]
    fn what_was_lost_is_told_where_that_was_watched() {
        let mut it = task_ctx::default();
        assert!(!explain(&it).to_string().contains("lost"));
        (it.book.watched_ns, it.book.lost_ns) = (4_000_000_000, 500_000_000);
        let text = explain(&it).to_string();
        assert!(text.contains("\n0.500 s of 4.000 s lost to clocks"), "{text}");
        assert_eq!(Book::new(&it.book).lost_share(), 0.125);
    }

    #[test]
    fn each_class_has_its_reason() {
        let mut it = task_ctx::default();
        assert!(explain(&it).to_string().starts_with("thread 7 is default: it was never"));
        it.habit.class = CLASS_SCALAR;
        assert!(explain(&it).why.contains("AVX cores are not for it"));
        it.phase.ended = 1;
        it.boundary = intf::BOUNDARY_TICK;
        assert_eq!(explain(&it).why, "its last phase ended: timeout");
        it.habit.class = CLASS_AVX;
        it.cause = intf::CAUSE_SAMPLE;
        assert_eq!(explain(&it).why, "its phase began: sample");
        it.habit.mixed = true;
        assert!(explain(&it).until.contains("mixed-memory"));
        it.hinted = true;
        assert_eq!(explain(&it).why, "it said so itself");
    }

    #[test]
    fn a_program_that_is_exempt_has_no_next_phase() {
        let mut it = task_ctx::default();
        it.habit.class = CLASS_SCALAR;
        it.phase.ended = 1;
        let told = |exempt, left_alone| {
            let program = avx_process { exempt, left_alone, ..avx_process::default() };
            Explanation::new(7, &it, Some(&program)).why
        };
        assert!(told(true, false).contains("AVX cores are not for it"));
        assert!(told(true, true).contains("says that it gets less done with AVX cores"));
        assert!(told(false, false).starts_with("its last phase ended"));
    }
}

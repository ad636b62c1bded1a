// SPDX-License-Identifier: GPL-2.0-only
//! Manual pages: what the command line tells of itself, and what it does not.

use anyhow::{Context, Result};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

use crate::about::NAME;

/// That of programs for administrators.
const SECTION: &str = "8";

/// A heading, and what is explained below it.
type Chapter = (&'static str, &'static [(&'static str, &'static str)]);

/// For the page of the program itself.
const CHAPTERS: [Chapter; 5] = [
    (
        "SIGNALS",
        &[
            (
                "SIGINT, SIGTERM, SIGHUP",
                "The machine goes back to the kernel's default scheduler, and the program ends. \
                 SIGINT and SIGHUP do nothing where they were ignored from the start, as by \
                 nohup(1).",
            ),
            ("SIGKILL", "The same, at once: the kernel ends a scheduler whose program is gone."),
            (
                "SysRq S",
                "The kernel ejects any scheduler, whatever its program does: \
                 echo S >/proc/sysrq-trigger.",
            ),
        ],
    ),
    (
        "EXIT STATUS",
        &[
            ("0", "It was told to stop, or the command did its work. Of check: it would run here."),
            (
                "1",
                "It failed, and a sentence on standard error says why. Of check: it would not run \
                 here.",
            ),
            ("2", "The command line was not understood."),
        ],
    ),
    (
        "FILES",
        &[
            (
                "/run/scx_avxspec/control",
                "The socket over which other commands ask a scheduler that runs.",
            ),
            ("/run/scx/root/stats", "The same for --monitor."),
            (
                "/sys/fs/bpf/scx_avxspec_hints",
                "The map in which threads say what their work is, as the header \
                 scx_avxspec_hints.h shows. Its mode says who may.",
            ),
            ("/etc/default/scx_avxspec", "Where the systemd unit finds OPTIONS."),
        ],
    ),
    (
        "ENVIRONMENT",
        &[
            (
                "NOTIFY_SOCKET",
                "Where the service manager is told that the scheduler is attached, starts again, \
                 ends, and is alive; see sd_notify(3).",
            ),
            ("NO_COLOR, TERM", "With the first, or TERM=dumb, top shows no colours."),
        ],
    ),
    (
        "EXAMPLES",
        &[
            (
                "scx_avxspec check",
                "Whether it would run here, what it would go by, and what would be better.",
            ),
            (
                "scx_avxspec --stats 1",
                "Schedules in the foreground, and says each second what happened.",
            ),
            (
                "scx_avxspec --set sizing=static --set avx-cpus=4",
                "Schedules with four AVX cores, whatever AVX work needs.",
            ),
            ("scx_avxspec status", "What a scheduler that runs in another process is doing."),
            ("systemctl enable --now scx_avxspec", "Schedules now and after each boot."),
        ],
    ),
];

/// One for the program and one for each command, by the names of their files.
pub fn pages(line: clap::Command) -> Result<Vec<(String, Vec<u8>)>> {
    let mut line = line.disable_help_subcommand(true);
    line.build();
    let mut pages = Vec::new();
    add_pages(&line, &mut pages)?;
    Ok(pages)
}

fn add_pages(command: &clap::Command, pages: &mut Vec<(String, Vec<u8>)>) -> Result<()> {
    let manual = Man::new(command.clone()).section(SECTION).manual(NAME);
    let mut text = Vec::new();
    manual.render(&mut text).context("cannot write a manual page")?;
    let rest = rest_of(command.get_name() == NAME);
    rest.to_writer(&mut text).context("cannot write a manual page")?;
    pages.push((manual.get_filename(), text));
    let shown = command.get_subcommands().filter(|command| !command.is_hide_set());
    shown.into_iter().try_for_each(|command| add_pages(command, pages))
}

/// What follows what the command line tells of itself.
fn rest_of(is_whole: bool) -> Roff {
    let mut roff = Roff::default();
    if !is_whole {
        roff.control("SH", ["SEE ALSO"]);
        roff.text([bold(NAME), roman(format!("({SECTION})"))]);
        return roff;
    }
    for (heading, entries) in CHAPTERS {
        roff.control("SH", [heading]);
        for (term, text) in entries {
            roff.control("TP", []);
            roff.text([bold(*term)]);
            roff.text([roman(*text)]);
        }
    }
    roff
}

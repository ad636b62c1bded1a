// SPDX-License-Identifier: GPL-2.0-only
//! `cargo rig run`: the scheduler at work on emulated AVX-512, to look at.

use std::process::ExitCode;

use anyhow::{Result, ensure};

use crate::suite::avx::WITH_AVX512;
use crate::suite::{scheduler_guest, script};
use crate::vm::census::{self, Row};
use crate::vm::{Bochs, Flavour};

#[derive(clap::Args)]
pub struct Arguments {
    /// CPUs of the machine, 1 to 4
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=4))]
    cpus: u8,
    /// Seconds of load, by the guest's clock
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u16).range(1..=3600))]
    seconds: u16,
}

/// A server's mix: encryption with AVX-512, and compression, which knows nothing
/// of it.
const LOAD: &str = r#"
start_scheduler --stats 2
tail -f /tmp/scheduler.out &
echo "the scheduler runs: $(cat $sched_ext/root/ops)"
oraclectl reset
openssl speed -seconds $seconds -bytes 16384 -evp chacha20-poly1305 >/tmp/openssl.out 2>&1 &
encryption=$!
compress() {
	while :; do
		head -c 100000 /bin/busybox | gzip >/dev/null
		echo done >>/tmp/gzip.out
	done
}
: >/tmp/gzip.out
for n in 1 2 3; do compress & done
wait $encryption
oraclectl report >/tmp/oracle.out
stop_scheduler
tail -n 1 /tmp/scheduler.err
echo "chacha20-poly1305: $(awk '/^ChaCha20|^chacha20/ { print $2 }' /tmp/openssl.out) bytes a second; " \
	"gzip: $(wc -l </tmp/gzip.out) files"
exit $status
"#;

pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let machine = Bochs::cpus(arguments.cpus.into());
    eprintln!(
        "rig: booting an emulated Skylake-X with {} CPUs and the patched kernel",
        arguments.cpus
    );
    let outcome = scheduler_guest(machine, Flavour::Patched)?
        .package("openssl")
        .program(&census::oraclectl()?)
        .command(&script(&format!("{WITH_AVX512}\nseconds={}\n{LOAD}", arguments.seconds)))
        .collect("/tmp/oracle.out")
        // The emulator does some ten million instructions a second, and a
        // guest second has fifty million for each CPU.
        .limit(300 + u64::from(arguments.seconds) * u64::from(arguments.cpus) * 20)
        .streams()
        .boot()?;
    ensure!(
        outcome.commands[0].status == 0,
        "the scheduler ended with status {}",
        outcome.commands[0].status
    );
    let report = String::from_utf8(outcome.file("/tmp/oracle.out")?)?;
    print!("{}", summary(&census::read(&report)?));
    println!(
        "{} guest seconds of load took {:.0} s here, the boot {:.0} s of them.",
        arguments.seconds,
        outcome.elapsed.as_secs_f64(),
        outcome.boot.as_secs_f64()
    );
    Ok(ExitCode::SUCCESS)
}

const COLUMNS: [(&str, &[&str]); 5] = [
    ("all", &["retired"]),
    ("128 bit", &["v128_light", "v128_heavy"]),
    ("256 bit", &["v256_light", "v256_heavy"]),
    ("512 light", &["v512_light"]),
    ("512 heavy", &["v512_heavy"]),
];

/// The table at the end: instructions by CPU, privilege level and kind.
fn summary(rows: &[Row]) -> String {
    let mut text = String::from("\nInstructions under load, counted by the emulator:\n\n");
    text.push_str(&format!("{:6}{:8}", "CPU", "level"));
    for (name, _) in COLUMNS {
        text.push_str(&format!("{name:>15}"));
    }
    text.push('\n');
    for row in rows.iter().filter(|row| row.level != "all") {
        text.push_str(&format!("{:<6}{:8}", row.cpu, row.level));
        for (_, counters) in COLUMNS {
            text.push_str(&format!("{:>15}", row.sum(counters)));
        }
        text.push('\n');
    }
    text.push('\n');
    text
}

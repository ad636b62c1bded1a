// SPDX-License-Identifier: GPL-2.0-only
//! `cargo rig run`: what the scheduler is for, on emulated AVX-512, to look at. The same load runs
//! first while AVX work is only observed, and then with AVX cores.

use std::process::ExitCode;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::rig::census::{self, Row};
use crate::rig::guest::Outcome;
use crate::rig::{Bochs, Flavour};
use crate::suite::avx::{WIDE, WITH_AVX512};
use crate::suite::{scheduler_guest, script};

#[derive(clap::Args)]
pub struct Arguments {
    /// CPUs of the machine, 2 to 4
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u8).range(2..=4))]
    cpus: u8,
    /// Seconds of load, by the guest's clock, without AVX cores, and as many with them
    #[arg(long, default_value_t = 12, value_parser = clap::value_parser!(u16).range(2..=1800))]
    seconds: u16,
}

/// A server's mix: encryption with AVX-512, and compression, which knows nothing of it. Of each
/// half is kept what the scheduler and the emulator counted, and the screen is shown meanwhile.
const LOAD: &str = r#"
export LC_ALL=C.UTF-8
start_scheduler --policy observe
echo "the scheduler runs: $(cat $sched_ext/root/ops)"
openssl speed -seconds 10000 -bytes 16384 -evp chacha20-poly1305 >/dev/null 2>&1 &
encryption=$!
load=$encryption
compress() {
	while :; do head -c 100000 /bin/busybox | gzip >/dev/null; done
}
for n in $(seq $cpus); do
	compress &
	load="$load $!"
done
tmux -f /dev/null new-session -d -s it -x 78 -y 13 'scx_avxspec top --interval 2'

moves() { sed -n 's/^se.nr_migrations *: *//p' /proc/$encryption/sched; }
look() {
	scx_avxspec status --json >>/tmp/status.$1
	{ oraclectl report; echo "end of report"; } >>/tmp/oracle.$1
}
half() {
	echo
	echo "== $1"
	oraclectl reset
	moves >/tmp/moves.$2
	look $2
	for n in $(seq $((seconds / 2))); do
		sleep 2
		echo
		tmux capture-pane -p -t it | sed -n '2,$ { /^q quit/d; /^$/d; p }'
		look $2
	done
	moves >>/tmp/moves.$2
}
half "policy observe: AVX work is seen, and nothing is done about it" observe
echo
scx_avxspec status | grep modelled
scx_avxspec policy set avx-cores-for=all trials=off
half "AVX cores for all AVX work, without trials, switched to while everything runs" adaptive
kill $load
stop_scheduler
echo
tail -n 1 /tmp/scheduler.err
exit $status
"#;

const HALVES: [&str; 2] = ["observe", "adaptive"];
const KINDS: [&str; 3] = ["status", "oracle", "moves"];

pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let (cpus, seconds) = (arguments.cpus, arguments.seconds);
    eprintln!("rig: booting an emulated Skylake-X with {cpus} CPUs and the patched kernel");
    let mut guest = scheduler_guest(Bochs::cpus(cpus.into()), Flavour::Patched)?
        .package("openssl")
        .package("tmux")
        // Which has the locale that tmux asks for.
        .package("libc-bin")
        .command(&script(&format!("{WITH_AVX512}\ncpus={cpus}\nseconds={seconds}\n{LOAD}")))
        // The emulator does some ten million instructions a second, and a
        // guest second has fifty million for each CPU.
        .limit(300 + 2 * u64::from(seconds) * u64::from(cpus) * 20)
        .streams()
        .boots_by_itself();
    for half in HALVES {
        for kind in KINDS {
            guest = guest.collect(&format!("/tmp/{kind}.{half}"));
        }
    }
    let outcome = guest.boot()?;
    let status = outcome.commands[0].status;
    ensure!(status == 0, "the scheduler, or something beside it, ended with status {status}");
    print!("{}", table(&Half::read(&outcome, HALVES[0])?, &Half::read(&outcome, HALVES[1])?));
    println!(
        "{} guest seconds of load took {:.0} s here, the boot {:.0} s of them.",
        2 * seconds,
        outcome.elapsed.as_secs_f64(),
        outcome.boot.as_secs_f64()
    );
    Ok(ExitCode::SUCCESS)
}

/// What was counted under one policy.
struct Half {
    looks: Vec<Look>,
    /// Of the program that encrypts, from CPU to CPU.
    moves: u64,
}

/// What was counted until a moment.
struct Look {
    /// By the scheduler.
    status: Value,
    /// By the emulator.
    rows: Vec<Row>,
}

impl Look {
    fn wide_on(&self, cpu: usize) -> u64 {
        self.rows.iter().filter(|row| row.cpu == cpu).map(|row| row.sum(&WIDE)).sum()
    }

    fn cpus(&self) -> impl Iterator<Item = &Value> {
        self.status["cpus"].as_array().into_iter().flatten()
    }

    fn as_avx_cores(&self) -> Vec<f64> {
        self.cpus().map(|cpu| number(&cpu["as_avx_core_s"])).collect()
    }
}

impl Half {
    fn read(outcome: &Outcome, name: &str) -> Result<Self> {
        let file = |kind: &str| -> Result<String> {
            Ok(String::from_utf8(outcome.file(&format!("/tmp/{kind}.{name}"))?)?)
        };
        let looks = serde_json::Deserializer::from_str(&file("status")?)
            .into_iter()
            .zip(file("oracle")?.split_terminator("end of report\n"))
            .map(|(status, report)| {
                let rows = census::read(report)?;
                let rows = rows.into_iter().filter(|row| row.level != "all").collect();
                Ok(Look { status: status.context("what the status says")?, rows })
            })
            .collect::<Result<Vec<_>>>()?;
        ensure!(looks.len() > 1, "{} looks at {name}", looks.len());
        let moves = file("moves")?;
        let moves: Vec<u64> = moves.lines().filter_map(|line| line.trim().parse().ok()).collect();
        let [before, after] = moves[..] else { bail!("no count of moves: {moves:?}") };
        Ok(Self { looks, moves: after - before })
    }

    fn begin(&self) -> &Look {
        &self.looks[0]
    }

    fn end(&self) -> &Look {
        &self.looks[self.looks.len() - 1]
    }

    /// How much `of` the status there was.
    fn change(&self, of: impl Fn(&Value) -> f64) -> f64 {
        of(&self.end().status) - of(&self.begin().status)
    }

    /// On CPUs that were no AVX cores at any time between two looks.
    fn wide_on_scalar_cpus(&self) -> u64 {
        let between = |pair: &[Look]| -> u64 {
            let before = pair[0].as_avx_cores();
            let after = pair[1].as_avx_cores();
            let is_scalar = |cpu: &usize| before[*cpu] == after[*cpu];
            let wide_on = |cpu| pair[1].wide_on(cpu) - pair[0].wide_on(cpu);
            (0..after.len()).filter(is_scalar).map(wide_on).sum()
        };
        self.looks.windows(2).map(between).sum()
    }

    fn nr_cpus(&self) -> usize {
        self.end().cpus().count()
    }

    fn seconds(&self) -> f64 {
        self.change(|status| number(&status["runs_for_s"]))
    }

    fn avx_cores(&self) -> f64 {
        let sum = |look: &Look| -> f64 { look.as_avx_cores().iter().sum() };
        (sum(self.end()) - sum(self.begin())) / self.seconds()
    }

    /// While there were none.
    fn prospect(&self) -> String {
        let worth = &self.end().status["prospect"]["modelled"];
        let percent = |name: &str| worth[name].as_i64();
        match (percent("least_gain_percent"), percent("most_gain_percent")) {
            (Some(least), Some(most)) => format!("{least} to {most} %"),
            _ => "-".to_owned(),
        }
    }

    /// Below this 99 of 100 waits of a class stayed.
    fn waits(&self, class: &str) -> String {
        let counts = |status: &Value| -> Vec<f64> {
            let counts = status["waits"][class]["counts"].as_array();
            counts.into_iter().flatten().map(number).collect()
        };
        let (old, new) = (counts(&self.begin().status), counts(&self.end().status));
        let since: Vec<f64> = new.iter().zip(&old).map(|(new, old)| new - old).collect();
        let most = since.iter().sum::<f64>() * 0.99;
        let mut seen = 0.0;
        let bucket = since.iter().position(|count| {
            seen += count;
            seen >= most && seen > 0.0
        });
        let below =
            bucket.map(|bucket| number(&self.end().status["waits"][class]["below_ns"][bucket]));
        below.map_or_else(|| "none".to_owned(), |ns| format!("{:.1} ms", ns / 1e6))
    }
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_default()
}

/// Both halves beside each other.
fn table(before: &Half, after: &Half) -> String {
    let mut text = format!("\n{:44}{:>14}{:>14}\n", "the same load under", HALVES[0], HALVES[1]);
    let mut row = |name: &str, of: &dyn Fn(&Half) -> String| {
        text.push_str(&format!("{name:44}{:>14}{:>14}\n", of(before), of(after)));
    };
    row("512-bit instructions on scalar CPUs", &|half| half.wide_on_scalar_cpus().to_string());
    for cpu in 0..before.nr_cpus() {
        row(&format!("... on CPU {cpu}, whatever it is"), &|half| {
            half.end().wide_on(cpu).to_string()
        });
    }
    row("AVX cores, on average", &|half| format!("{:.1}", half.avx_cores()));
    row("moves of the program that encrypts", &|half| half.moves.to_string());
    row("99 of 100 waits of AVX tasks below", &|half| half.waits("avx"));
    row("99 of 100 waits of other tasks below", &|half| half.waits("default"));
    let low = |half: &Half| half.change(|status| number(&status["low_clock_on_scalar_cpus_s"]));
    row("low clock on scalar CPUs (modelled)", &|half| format!("{:.2} s", low(half)));
    row("AVX cores would gain, of all work (modelled)", &Half::prospect);
    text.push_str(MEANING);
    text
}

/// The emulator has no clock that AVX-512 lowers.
const MEANING: &str = "
Instructions were counted by the emulator, the rest by the scheduler. The model is of a processor
that loses a quarter of its clock during AVX-512 work and 0.67 ms after it. Without AVX cores that
goes from CPU to CPU with the AVX work, and slows down what runs there next; with them it stays on
AVX cores.

";

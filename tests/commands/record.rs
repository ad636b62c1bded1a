// SPDX-License-Identifier: GPL-2.0-only
//! `cargo rig record`: what a real web server does, step by step, as a workload of the simulator.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, ensure};

use crate::rig::{Bochs, Flavour, Guest, in_repository};
use crate::suite::avx::{CERTIFICATE, SCALAR_LIBRARY, WITH_AVX512};
use crate::suite::{scheduler_program, script};

#[derive(clap::Args)]
pub struct Arguments {
    /// Requests that are recorded
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1000))]
    requests: u32,
    /// Where the workload is written
    #[arg(
        long,
        default_value = "src/sim/workload/shipped/nginx-recorded.toml",
        value_name = "FILE"
    )]
    output: PathBuf,
}

/// What stands in front of the steps.
const HEAD: &str = "\
# Written by `cargo rig record`: a worker of nginx with OpenSSL and brotli, as Debian 12 has them, on
# an emulated Skylake-X. It compresses a page of 35 KB for each request, and encrypts it with
# ChaCha20-Poly1305.
#
# Sources: the emulator's trace of all its instructions and system calls. 6,200 instructions in a
# microsecond, by how much AVX-512 makes the cipher faster, and what a worker finds in caches: the
# thesis that nginx.toml names, whose requests are 10.6 million instructions in 1.7 ms.
# Assumptions: what the worker would wait for is always there; the C library is a quiet one, as
# under the scheduler.

about = \"a web server's worker, recorded, for each CPU\"
";

const INSTRUCTIONS_PER_US: &str = "6200";
const SPEED_UP: &str = "1.83";

pub fn record(arguments: &Arguments) -> Result<ExitCode> {
    let Arguments { requests, output } = arguments;
    eprintln!("rig: recording {requests} requests");
    let outcome = Guest::new(Bochs::cpus(1).traces().into(), Flavour::Stock)
        .file("/lib.sh", &in_repository("tests/guest/lib.sh"))
        .package("base-files")
        .package("nginx-light")
        .package("libnginx-mod-http-brotli-filter")
        .package("openssl")
        .package("curl")
        .file("/tmp/nginx.conf", &in_repository("tests/guest/avx/nginx-brotli.conf"))
        .command(&script(&format!(
            "fetch() {{
                 curl --silent --insecure --header 'Accept-Encoding: br' --output /tmp/page \
                     \"https://127.0.0.1/GPL-3?[1-$1]\"
             }}
             ip link set lo up
             {CERTIFICATE}
             ({WITH_AVX512}; {SCALAR_LIBRARY}; exec nginx -c /tmp/nginx.conf) || fail no nginx
             fetch 5
             oraclectl trace start
             fetch {requests} || fail no pages
             oraclectl trace stop
             wc -c </tmp/page
             nginx -c /tmp/nginx.conf -s quit"
        )))
        .limit(900)
        .boot()?;
    let page: u64 = outcome.stdout(0)?.trim().parse().context("nobody knows how long a page is")?;
    ensure!((5_000..20_000).contains(&page), "a page of {page} bytes was not compressed");

    let trace = tempfile::NamedTempFile::new()?;
    fs::write(&trace, outcome.host_file("oracle.trace")?)?;
    let imported = Command::new(scheduler_program()?)
        .args(["sim", "import", "--mips", INSTRUCTIONS_PER_US, "--speed-up", SPEED_UP])
        .arg(trace.path())
        .output()
        .context("cannot start the simulator")?;
    ensure!(imported.status.success(), "{}", String::from_utf8_lossy(&imported.stderr));
    let workload = String::from_utf8(imported.stdout)?;
    fs::write(output, of_each_cpu(&workload)?)
        .with_context(|| format!("cannot write {}", output.display()))?;
    eprintln!("rig: written to {}", output.display());
    Ok(ExitCode::SUCCESS)
}

/// The one worker that was recorded stands for as many as there are CPUs.
fn of_each_cpu(workload: &str) -> Result<String> {
    const GROUP: &str = "\n[[group]]\nname = \"thread 1\"\n";
    ensure!(workload.matches("[[group]]").count() == 1, "not one thread encrypts");
    let (_, steps) = workload.split_once(GROUP).context("a workload of another kind")?;
    let group = "\n[[group]]\nname = \"workers\"\nper = \"cpu\"\ncode_kib = 66\ndata_kib = 25\n";
    Ok(format!("{HEAD}{group}{steps}"))
}

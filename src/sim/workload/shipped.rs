// SPDX-License-Identifier: GPL-2.0-only
//! The workloads that come with the program, each of which names its sources.

use anyhow::{Context, Result};

use super::{Workload, file};

/// The workloads by name.
const OWN: [(&str, &str); 20] = [
    ("fair-build", include_str!("shipped/fair-build.toml")),
    ("fair-compute", include_str!("shipped/fair-compute.toml")),
    ("fair-pipeline", include_str!("shipped/fair-pipeline.toml")),
    ("fair-server", include_str!("shipped/fair-server.toml")),
    ("few", include_str!("shipped/few.toml")),
    ("nginx", include_str!("shipped/nginx.toml")),
    ("nginx-low", include_str!("shipped/nginx-low.toml")),
    ("nginx-recorded", include_str!("shipped/nginx-recorded.toml")),
    ("primes-1-100", include_str!("shipped/primes-1-100.toml")),
    ("primes-50-50", include_str!("shipped/primes-50-50.toml")),
    ("server-job", include_str!("shipped/server-job.toml")),
    ("steps", include_str!("shipped/steps.toml")),
    ("tenants", include_str!("shipped/tenants.toml")),
    ("x264", include_str!("shipped/x264.toml")),
    ("x264-low", include_str!("shipped/x264-low.toml")),
    ("x264-nginx", include_str!("shipped/x264-nginx.toml")),
    ("x265-build", include_str!("shipped/x265-build.toml")),
    ("x265-nginx", include_str!("shipped/x265-nginx.toml")),
    ("x265-parsec", include_str!("shipped/x265-parsec.toml")),
    ("yield", include_str!("shipped/yield.toml")),
];

impl Workload {
    pub fn names() -> impl Iterator<Item = &'static str> {
        OWN.iter().map(|(name, _)| *name)
    }

    pub fn named(name: &str) -> Result<Self> {
        let (name, text) = OWN.iter().find(|(known, _)| *known == name).with_context(|| {
            format!(
                "there is no workload {name:?}: choose one of {}, or name a file with --workload",
                Self::names().collect::<Vec<_>>().join(", ")
            )
        })?;
        file::read(name, text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_a_file_that_can_be_read_and_names_its_sources() {
        for (name, text) in OWN {
            let workload = Workload::named(name).unwrap();
            assert_eq!(workload.name, name);
            assert!(text.contains("\n# Sources:"), "{name}");
        }
        assert!(
            Workload::named("sleep").unwrap_err().to_string().contains("choose one of fair-build")
        );
    }
}

// SPDX-License-Identifier: GPL-2.0-only
//! What is installed, and what is left when it is not any more.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::readme::type_in;
use super::scheduler_program;
use crate::ensure_eq;
use crate::rig::in_repository;
use crate::rig::process::{output_of, text_of};

crate::tests! {
    install:
    make_install_puts_files_where_they_belong_and_uninstall_leaves_none(1),
    make_deb_builds_a_package_that_is_complete(48),
}

/// Below PREFIX, beside the manual pages of commands and the patches of the kernel.
const FILES: [&str; 35] = [
    "bin/scx_avxspec",
    "include/scx_avxspec_hints.h",
    "lib/systemd/system/scx_avxspec.service",
    "share/bash-completion/completions/scx_avxspec",
    "share/doc/scx_avxspec/CHANGELOG.md",
    "share/doc/scx_avxspec/README.md",
    "share/doc/scx_avxspec/contrib/grafana/scx_avxspec.json",
    "share/doc/scx_avxspec/contrib/hints/scx_avxspec_hints.h",
    "share/doc/scx_avxspec/contrib/kubernetes/Dockerfile",
    "share/doc/scx_avxspec/contrib/kubernetes/daemonset.yaml",
    "share/doc/scx_avxspec/contrib/prometheus/rules.yml",
    "share/doc/scx_avxspec/contrib/prometheus/rules_test.yml",
    "share/doc/scx_avxspec/contrib/systemd/scx_avxspec.default",
    "share/doc/scx_avxspec/contrib/systemd/scx_avxspec.service",
    "share/doc/scx_avxspec/docs/figures.md",
    "share/doc/scx_avxspec/docs/hacking.md",
    "share/doc/scx_avxspec/docs/metrics.md",
    "share/doc/scx_avxspec/docs/operating.md",
    "share/doc/scx_avxspec/docs/policy.md",
    "share/doc/scx_avxspec/docs/rig.md",
    "share/doc/scx_avxspec/docs/simulator.md",
    "share/doc/scx_avxspec/docs/turns.md",
    "share/doc/scx_avxspec/examples/hint.rs",
    "share/doc/scx_avxspec/kernel-patch/7.3/README.md",
    "share/doc/scx_avxspec/kernel-patch/README.md",
    "share/doc/scx_avxspec/kernel-patch/config",
    "share/doc/scx_avxspec/kernel-patch/hiding.config",
    "share/fish/vendor_completions.d/scx_avxspec.fish",
    "share/man/man8/scx_avxspec-check.8",
    "share/man/man8/scx_avxspec.8",
    "share/scx_avxspec/daemonset.yaml",
    "share/scx_avxspec/default",
    "share/scx_avxspec/grafana.json",
    "share/scx_avxspec/prometheus-rules.yml",
    "share/zsh/site-functions/_scx_avxspec",
];

fn files_below(root: &Path) -> Result<BTreeSet<String>> {
    let list = text_of(Command::new("find").args([".", "-not", "-type", "d"]).current_dir(root))?;
    Ok(list.lines().map(|line| line.trim_start_matches("./").to_owned()).collect())
}

fn patches_of(documents: &Path) -> Result<Vec<String>> {
    let files = files_below(&documents.join("kernel-patch"))?;
    Ok(files.into_iter().filter(|file| file.ends_with(".patch")).collect())
}

/// Of the documents, wherever they are installed.
fn every_link_leads_to_a_file(documents: &Path) -> Result<()> {
    let mut links = 0;
    for file in files_below(documents)?.iter().filter(|file| file.ends_with(".md")) {
        let document = documents.join(file);
        let dir = document.parent().context("a file has a directory")?;
        let text = fs::read_to_string(&document)?;
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let path = link.split('#').next().unwrap_or_default();
            ensure!(
                path.contains("://") || dir.join(path).exists(),
                "{file} links to {link}, which is not installed"
            );
            links += 1;
        }
    }
    ensure!(links > 0, "no links below {}", documents.display());
    Ok(())
}

fn make_install_puts_files_where_they_belong_and_uninstall_leaves_none() -> Result<()> {
    let root = tempfile::tempdir()?;
    let program = scheduler_program()?;
    // Another test may build a package meanwhile.
    let generated = tempfile::tempdir()?;
    for prefix in ["usr/local", "opt/avxspec"] {
        let places = format!(
            "PREFIX=/{prefix} DESTDIR={} PROGRAM={} GENERATED={}/generated",
            root.path().display(),
            program.display(),
            generated.path().display()
        );
        let files_made = generated.path().join("generated");
        if !files_made.exists() {
            let refused = type_in(&format!("make install {places}"));
            let why = refused.err().context("it installs what there is not")?.to_string();
            ensure!(why.contains("is not there: run make first"), "{why}");
            ensure_eq!(files_below(root.path())?, BTreeSet::new(), "of what was not made");
            type_in(&format!("make generated {places}"))?;
        }
        let made = fs::metadata(&files_made)?.modified()?;
        type_in(&format!("make install {places}"))?;
        // It may be root who installs, and somebody else who builds.
        ensure!(fs::metadata(&files_made)?.modified()? == made, "made anew by install");
        let is_one_of_many = |file: &str| {
            file.starts_with(&format!("{prefix}/share/man/man8/scx_avxspec-"))
                || file.ends_with(".patch")
        };
        let found: BTreeSet<String> =
            files_below(root.path())?.into_iter().filter(|file| !is_one_of_many(file)).collect();
        let expected: BTreeSet<String> = FILES
            .iter()
            .map(|file| format!("{prefix}/{file}"))
            .filter(|file| !is_one_of_many(file))
            .collect();
        ensure_eq!(found, expected);
        let below = |file: &str| root.path().join(prefix).join(file);
        for file in FILES {
            ensure!(below(file).exists(), "no {file}");
        }
        let documents = below("share/doc/scx_avxspec");
        every_link_leads_to_a_file(&documents)?;
        ensure_eq!(patches_of(&documents)?, patches_of(&in_repository(""))?, "patches");
        let unit = fs::read_to_string(below("lib/systemd/system/scx_avxspec.service"))?;
        ensure!(unit.contains(&format!("ExecStart=/{prefix}/bin/scx_avxspec ")), "{unit}");
        // What is not of this project stays where it is.
        ensure!(unit.contains("ExecStartPre=+/usr/bin/mkdir "), "{unit}");
        let said = text_of(Command::new(below("bin/scx_avxspec")).arg("--version"))?;
        ensure!(said.starts_with("scx_avxspec "), "{said}");
        type_in(&format!("make uninstall {places}"))?;
        ensure_eq!(files_below(root.path())?, BTreeSet::new(), "left by uninstall");
    }
    Ok(())
}

fn make_deb_builds_a_package_that_is_complete() -> Result<()> {
    type_in("make deb")?;
    let dir = in_repository("target/debian");
    let name = format!("scx-avxspec_{}-1_amd64.deb", env!("CARGO_PKG_VERSION"));
    let package = dir.join(name);
    ensure!(package.exists(), "no {}", package.display());
    let field =
        |name: &str| text_of(Command::new("dpkg-deb").arg("--field").arg(&package).arg(name));
    ensure_eq!(field("Section")?, "admin\n");
    for library in ["libc6", "libelf1"] {
        ensure!(field("Depends")?.contains(library), "it does not depend on {library}");
    }
    let description = field("Description")?;
    ensure!(description.lines().count() > 5 && !description.contains('`'), "{description}");

    let root = tempfile::tempdir()?;
    let unpack = |how: &str, to: &Path| {
        output_of(Command::new("dpkg-deb").arg(how).arg(&package).arg(to)).map(drop)
    };
    unpack("--extract", root.path())?;
    let control = root.path().join("DEBIAN");
    unpack("--control", &control)?;
    let documents = root.path().join("usr/share/doc/scx-avxspec");
    every_link_leads_to_a_file(&documents)?;
    ensure_eq!(patches_of(&documents)?, patches_of(&in_repository(""))?, "patches");
    let files = files_below(root.path())?;
    for file in [
        "usr/bin/scx_avxspec",
        "usr/include/scx_avxspec_hints.h",
        "usr/share/man/man8/scx_avxspec.8.gz",
        "usr/share/bash-completion/completions/scx_avxspec",
        "usr/share/doc/scx-avxspec/copyright",
        "usr/share/doc/scx-avxspec/kernel-patch/config",
        "etc/default/scx_avxspec",
    ] {
        ensure!(files.contains(file), "no {file} in {files:#?}");
    }
    let unit = files.iter().find(|file| file.ends_with("lib/systemd/system/scx_avxspec.service"));
    let unit = fs::read_to_string(root.path().join(unit.context("the unit is missing")?))?;
    ensure!(unit.contains("ExecStart=/usr/bin/scx_avxspec "), "{unit}");
    let settings = fs::read_to_string(control.join("conffiles"))?;
    ensure_eq!(settings, "/etc/default/scx_avxspec\n");
    let script = |name: &str| fs::read_to_string(control.join(name));
    // Whoever installs it has not asked for another scheduler yet. Who has, keeps it.
    let postinst = script("postinst")?;
    ensure!(!postinst.contains("deb-systemd-invoke start"), "it is started:\n{postinst}");
    ensure!(postinst.contains("if deb-systemd-helper debian-installed"), "{postinst}");
    ensure!(script("prerm")?.contains("deb-systemd-invoke stop"), "it would go on");
    Ok(())
}

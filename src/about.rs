// SPDX-License-Identifier: GPL-2.0-only
//! The name of the program, and its version.

use scx_utils::build_id;

pub const NAME: &str = env!("CARGO_PKG_NAME");

/// With the state of the sources, where the build knew it.
pub fn version() -> String {
    let number = env!("CARGO_PKG_VERSION");
    build_id::full_version(&match option_env!("AVXSPEC_COMMIT") {
        Some(commit) => format!("{number}+{commit}"),
        None => number.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// Unless an archive of the sources is built.
    #[test]
    fn the_version_tells_of_which_commit_it_is() {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut git = std::process::Command::new("git");
        git.arg("-C").arg(here).args(["describe", "--always"]);
        let asked =
            git.output().ok().filter(|it| it.status.success() && here.join(".git").exists());
        let known = asked.map(|it| format!("+{}", String::from_utf8(it.stdout).unwrap().trim()));
        let start = env!("CARGO_PKG_VERSION").to_owned() + &known.unwrap_or_default();
        assert!(version().starts_with(&start), "{} is not {start}", version());
    }
}

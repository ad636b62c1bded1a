// SPDX-License-Identifier: GPL-2.0-only
//! Kernels under test: Debian's sources, with and without our series.
//!
//! Each flavour has a source tree of its own in which it is built, and keeps
//! it, so that a changed patch costs what the change costs. The second tree
//! starts as a copy of the first one, objects included. A finished kernel is
//! an artefact of its own; a tree may go on to another series without taking
//! it back.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context, Result, ensure};

use super::cache::{Cache, Key};
use super::packages::{self, Apt};
use super::process::{make_in, output_of, run_logged, version_of};
use super::progress::Progress;
use super::series::{Source, patches_in};

const CONFIG_FRAGMENTS: [&str; 2] = ["kernel-patch/config", "tests/rig/kernel.config"];

/// Where in registers a variable is at each instruction is a fifth of the compiler's time, and
/// only a debugger reads it: types, lines and code are the same.
const COMPILER_FLAGS: &str = "KCFLAGS=-fno-var-tracking";

/// Options that only exist with the series.
const SERIES_CONFIG: &str = "kernel-patch/hiding.config";

/// Of Linux's own tests those that hiding may disturb.
const SELFTESTS: [&str; 2] = ["x86", "sched_ext"];

/// What an artefact holds, for its key: one that holds less is another one.
const ARTEFACT: &str = "bzImage, System.map, config, modules/*.ko";
const MODULES: &str = "modules";

/// Told to who asked for it, so that a test that never began is not taken for one that failed.
pub const DOES_NOT_BUILD: &str = "the kernel does not build";

/// What a first build and a rebuild print, until one of this host's own tells.
const STEPS_OF_A_BUILD: u64 = 2110;
const STEPS_OF_A_REBUILD: u64 = 60;

/// What `RIG_KERNEL` chooses among: the kernel that all tests run on.
pub struct Variant {
    pub name: &'static str,
    package: &'static str,
    /// The Debian release that carries the package, if it is not the host's.
    release: Option<&'static str>,
    series: &'static str,
    /// Options on top of everybody's.
    fragments: &'static [&'static str],
    /// How many times as long a guest may take.
    pub patience: u32,
}

const USUAL: Variant = Variant {
    name: "usual",
    package: "linux-source-6.12",
    release: None,
    series: "kernel-patch/6.12",
    fragments: &[OF_6_12],
    patience: 1,
};

const OF_6_12: &str = "tests/rig/kernel-6.12.config";

/// The usual one and those of `make test-kernels`.
pub const VARIANTS: [Variant; 4] = [
    USUAL,
    Variant {
        name: "locks",
        fragments: &[OF_6_12, "tests/rig/debug-locks.config"],
        patience: 4,
        ..USUAL
    },
    Variant {
        name: "memory",
        fragments: &[OF_6_12, "tests/rig/debug-memory.config"],
        patience: 6,
        ..USUAL
    },
    Variant {
        name: "newest",
        package: "linux-source-7.3",
        release: Some("trixie-backports"),
        series: "kernel-patch/7.3",
        fragments: &["tests/rig/kernel-7.3.config"],
        ..USUAL
    },
];

/// The directories of all series there are.
pub fn all_series() -> BTreeSet<&'static str> {
    VARIANTS.iter().map(|variant| variant.series).collect()
}

impl Variant {
    fn apt(&self, cache: &Cache) -> Result<Apt> {
        match self.release {
            Some(release) => Apt::release(cache, release),
            None => Ok(Apt::host(cache)),
        }
    }

    pub fn is_usual(&self) -> bool {
        self.name == USUAL.name
    }

    /// Whether it is another configuration of the usual source.
    pub fn has_usual_source(&self) -> bool {
        self.package == USUAL.package
    }

    /// The one that the environment chooses.
    pub fn chosen() -> Result<&'static Self> {
        let name = std::env::var("RIG_KERNEL").unwrap_or_else(|_| USUAL.name.to_owned());
        VARIANTS.iter().find(|variant| variant.name == name).with_context(|| {
            let names: Vec<&str> = VARIANTS.iter().map(|variant| variant.name).collect();
            format!("RIG_KERNEL is {name:?}, which is none of {}", names.join(", "))
        })
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flavour {
    /// With the project's series.
    Patched,
    /// The same source without it.
    Stock,
}

/// A kernel that is built.
#[derive(Clone)]
pub struct Kernel {
    pub image: PathBuf,
    modules: PathBuf,
    recipe: Recipe,
}

/// All that decides what a kernel is.
#[derive(Clone)]
pub struct Recipe {
    variant: &'static Variant,
    cache: Cache,
    version: String,
    compiler: String,
    fragments: Vec<PathBuf>,
    pub series: Vec<PathBuf>,
}

impl Kernel {
    pub fn get(flavour: Flavour) -> Result<Self> {
        Self::made_by(Recipe::of(flavour)?)
    }

    /// A kernel with any series at all.
    pub fn with_series(series: Vec<PathBuf>) -> Result<Self> {
        Self::made_by(Recipe::new(series)?)
    }

    fn made_by(recipe: Recipe) -> Result<Self> {
        let key = recipe.key()?.text_part("artefact", ARTEFACT);
        let dir = recipe.cache.artefact("kernels", &key, |dir| {
            let tree = Tree::obtain(&recipe)?;
            tree.build(&recipe)?;
            for (file, name) in [
                ("arch/x86/boot/bzImage", "bzImage"),
                ("System.map", "System.map"),
                (".config", "config"),
            ] {
                fs::copy(tree.source.tree.join(file), dir.join(name))?;
            }
            copy_modules(&tree.source.tree, &dir.join(MODULES))
        })?;
        Ok(Self { image: dir.join("bzImage"), modules: dir.join(MODULES), recipe })
    }

    /// A module that comes with the kernel's own sources.
    pub fn in_tree_module(&self, name: &str) -> Result<PathBuf> {
        let path = self.modules.join(format!("{name}.ko"));
        ensure!(path.exists(), "the kernel has no module {name}");
        Ok(path)
    }

    /// Has a script of the kernel's own sources look at something.
    pub fn run_script(script: &str, arguments: &[&str], file: &Path) -> Result<Output> {
        let tree = Tree::obtain(&Recipe::new(Vec::new())?)?;
        Command::new("perl")
            .arg(script)
            .args(arguments)
            .arg(file)
            .current_dir(&tree.source.tree)
            .output()
            .with_context(|| format!("cannot run {script}"))
    }

    /// Linux's own tests, from the source of the usual kernel, in a directory
    /// for each collection. Those of sched_ext are made for its types, and run
    /// on its other configurations as well.
    pub fn selftests() -> Result<PathBuf> {
        let recipe = Recipe::of_variant(&USUAL, Vec::new())?;
        let clang = in_repository("build/clang").display().to_string();
        let key = recipe
            .key()?
            .text_part("selftests", &SELFTESTS.join(" "))
            .text_part("clang", &version_of(&clang)?);
        recipe.cache.artefact("selftests", &key, |place| {
            let tree = Tree::obtain(&recipe)?;
            tree.build(&recipe)?;
            tree.make(&["headers"], |_| ())?;
            for collection in SELFTESTS {
                let output = place.join(collection);
                fs::create_dir(&output)?;
                tree.make(
                    &[
                        &format!("--directory=tools/testing/selftests/{collection}"),
                        &format!("OUTPUT={}", output.display()),
                        &format!("CLANG={clang}"),
                        "LLVM_STRIP=llvm-strip-19",
                    ],
                    |_| (),
                )?;
            }
            // Libraries and objects, of which the programs are made.
            fs::remove_dir_all(place.join("sched_ext/build"))?;
            Ok(())
        })
    }

    /// The module `name` that the Kbuild file in `sources/dir` describes, built
    /// for this kernel. It may include what lies anywhere in `sources`.
    pub fn module(&self, sources: &Path, dir: &str, name: &str) -> Result<PathBuf> {
        let key = self.recipe.key()?.dir_part(sources)?.text_part("module", dir);
        let built = self.recipe.cache.artefact("modules", &key, |place| {
            let tree = Tree::obtain(&self.recipe)?;
            tree.build(&self.recipe)?;
            output_of(Command::new("cp").arg("-r").arg(sources.join(".")).arg(place))?;
            let target = format!("M={}", place.join(dir).display());
            tree.make(&[&target, "modules"], |_| ())
        })?;
        Ok(built.join(dir).join(format!("{name}.ko")))
    }
}

impl Recipe {
    pub fn of(flavour: Flavour) -> Result<Self> {
        Self::new(match flavour {
            Flavour::Patched => patches_in(&in_repository(Variant::chosen()?.series))?,
            Flavour::Stock => Vec::new(),
        })
    }

    fn new(series: Vec<PathBuf>) -> Result<Self> {
        Self::of_variant(Variant::chosen()?, series)
    }

    fn of_variant(variant: &'static Variant, series: Vec<PathBuf>) -> Result<Self> {
        let compiler = ["gcc", "ld", "pahole"]
            .iter()
            .map(|tool| version_of(tool))
            .collect::<Result<Vec<_>>>()?
            .join(", ");
        let fragments = CONFIG_FRAGMENTS.iter().chain(variant.fragments);
        let mut fragments: Vec<PathBuf> = fragments.map(|path| in_repository(path)).collect();
        if !series.is_empty() {
            fragments.push(in_repository(SERIES_CONFIG));
        }
        let cache = Cache::open()?;
        Ok(Self {
            version: variant.apt(&cache)?.candidate(variant.package)?,
            variant,
            cache,
            compiler,
            fragments,
            series,
        })
    }

    /// What can only be built in a tree of its own.
    fn ground(&self) -> Key {
        Key::new()
            .text_part(self.variant.package, &self.version)
            .text_part("compiler", &self.compiler)
    }

    fn config_key(&self) -> Result<Key> {
        self.fragments.iter().try_fold(Key::new(), |key, fragment| key.file_part(fragment))
    }

    fn key(&self) -> Result<Key> {
        let ground = self.ground().text_part("configuration", &self.config_key()?.hex());
        let ground = ground.text_part("flags", COMPILER_FLAGS);
        self.series.iter().try_fold(ground, |key, patch| key.file_part(patch))
    }

    fn flavour(&self) -> &'static str {
        if self.series.is_empty() { "stock" } else { "patched" }
    }

    fn tree_name(&self, purpose: &str) -> String {
        match self.variant.name {
            name if name == USUAL.name => purpose.to_owned(),
            name => format!("{purpose}-{name}"),
        }
    }
}

/// A source tree with its objects, and the lock on it.
pub struct Tree {
    pub source: Source,
    /// What every make in it is told besides.
    pub arguments: Vec<&'static str>,
    log: PathBuf,
    lock: File,
}

impl Tree {
    fn obtain(recipe: &Recipe) -> Result<Self> {
        Self::obtain_as(recipe, recipe.flavour())
    }

    /// The tree for a certain purpose; variants differ in nearly every object.
    pub fn obtain_as(recipe: &Recipe, purpose: &str) -> Result<Self> {
        let ground = recipe.ground().hex();
        let trees = recipe.cache.dir("trees")?;
        let own = trees.join(format!("{}-{ground}", recipe.tree_name(purpose)));
        let lock = recipe.cache.lock(&lock_name(&own))?;
        if !own.exists() {
            let partial = own.with_extension("partial");
            if partial.exists() {
                fs::remove_dir_all(&partial)?;
            }
            let siblings = [recipe.tree_name("stock"), "stock".to_owned()];
            let mut siblings = siblings.iter().map(|name| trees.join(format!("{name}-{ground}")));
            match siblings.find(|sibling| *sibling != own && sibling.exists()) {
                Some(sibling) => copy_tree(&recipe.cache, &sibling, &partial)?,
                None => unpack_source(recipe, &partial)?,
            }
            fs::rename(&partial, &own)?;
        }
        Ok(Self {
            source: Source { tree: own.join("linux"), aside: own.join("series") },
            arguments: Vec::new(),
            log: own.join("build.log"),
            lock,
        })
    }

    fn build(&self, recipe: &Recipe) -> Result<()> {
        let holds = self.aside("holds");
        let key = recipe.key()?.hex();
        if fs::read_to_string(&holds).is_ok_and(|held| held == key) {
            return Ok(());
        }
        let _ = fs::remove_file(&holds);
        let running = self.aside("building");
        if running.exists() {
            eprintln!("rig: an interrupted kernel build is redone");
            forget_what_was_written_since(&running, &self.source.tree)?;
        }
        self.source.hold(&recipe.series).context(DOES_NOT_BUILD)?;
        fs::write(&running, "")?;
        let _ = fs::remove_file(&self.log);
        // Of another configuration, as in a copy of another tree, all is made anew.
        let rebuild = self.source.tree.join("vmlinux").exists() && self.is_configured(recipe)?;
        self.configure(recipe)?;

        let (counted, default) = match rebuild {
            true => (self.aside("steps-of-a-rebuild"), STEPS_OF_A_REBUILD),
            false => (self.aside("steps-of-a-build"), STEPS_OF_A_BUILD),
        };
        let expected = fs::read_to_string(&counted)
            .ok()
            .and_then(|count| count.parse().ok())
            .unwrap_or(default);
        let name = format!("kernel {} ({})", recipe.version, recipe.tree_name(recipe.flavour()));
        let mut progress = Progress::new(&name, expected);
        let made = self.make(&[COMPILER_FLAGS, "bzImage", "modules"], |line| {
            if is_build_step(line) {
                progress.step();
            }
        });
        // A make that failed, other than one that was killed, leaves only whole
        // objects behind.
        fs::remove_file(&running)?;
        made.context(DOES_NOT_BUILD)?;
        fs::write(&counted, progress.finish().to_string())?;
        fs::write(&holds, key)?;
        Ok(())
    }

    fn is_configured(&self, recipe: &Recipe) -> Result<bool> {
        let wanted = recipe.config_key()?.hex();
        let made_of = fs::read_to_string(self.aside("configuration"));
        let has_config = self.source.tree.join(".config").exists();
        Ok(has_config && made_of.is_ok_and(|made_of| made_of == wanted))
    }

    /// The configuration is made from nothing, so that it is that of its
    /// fragments and of no earlier one; make sees which options changed.
    pub fn configure(&self, recipe: &Recipe) -> Result<()> {
        let wanted = recipe.config_key()?.hex();
        let made_of = self.aside("configuration");
        let config = self.source.tree.join(".config");
        if self.is_configured(recipe)? {
            // A patch may have brought options of its own.
            return self.make(&["olddefconfig"], |_| ());
        }
        self.make(&["tinyconfig"], |_| ())?;
        let mut merge = Command::new("scripts/kconfig/merge_config.sh");
        merge.args(["-m", ".config"]).args(&recipe.fragments).current_dir(&self.source.tree);
        run_logged(&mut merge, &self.log, |_| ())?;
        self.make(&["olddefconfig"], |_| ())?;
        let result = fs::read_to_string(&config)?;
        for fragment in &recipe.fragments {
            let missing = options_missing(&fs::read_to_string(fragment)?, &result);
            ensure!(
                missing.is_empty(),
                "{} asks for what this kernel does not grant: {}",
                fragment.display(),
                missing.join(", ")
            );
        }
        fs::write(&made_of, wanted)?;
        Ok(())
    }

    pub fn make(&self, arguments: &[&str], on_line: impl FnMut(&str)) -> Result<()> {
        let mut make = make_in(&self.source.tree, &self.lock)?;
        make.args(&self.arguments)
            .args(arguments)
            // The same sources are to give the same kernel.
            .env("KBUILD_BUILD_USER", "rig")
            .env("KBUILD_BUILD_HOST", "scx_avxspec")
            .env("KBUILD_BUILD_TIMESTAMP", "@0");
        run_logged(&mut make, &self.log, on_line)
    }

    fn aside(&self, name: &str) -> PathBuf {
        self.source.aside.join(name)
    }
}

/// All modules of a tree that is built, of which no two have one name. Their
/// debug information is most of them, and guests have to carry them.
fn copy_modules(tree: &Path, modules: &Path) -> Result<()> {
    fs::create_dir_all(modules)?;
    let order = fs::read_to_string(tree.join("modules.order"))?;
    for object in order.lines() {
        let module = tree.join(object).with_extension("ko");
        let name = module.file_name().context("a module has a name")?;
        let copy = modules.join(name);
        output_of(Command::new("strip").arg("--strip-debug").arg("-o").arg(&copy).arg(&module))?;
    }
    Ok(())
}

fn unpack_source(recipe: &Recipe, partial: &Path) -> Result<()> {
    eprintln!("rig: kernel {}: fetching and unpacking", recipe.version);
    let package = partial.join("package");
    fs::create_dir_all(&package)?;
    let name = recipe.variant.package;
    let deb = recipe.variant.apt(&recipe.cache)?.download(name, &recipe.version, &package)?;
    packages::unpack(&deb, &package)?;
    let tree = partial.join("linux");
    fs::create_dir_all(&tree)?;
    output_of(
        Command::new("tar")
            .args(["--extract", "--strip-components=1", "--file"])
            .arg(package.join(format!("usr/src/{name}.tar.xz")))
            .arg("--directory")
            .arg(&tree),
    )?;
    fs::create_dir_all(partial.join("series"))?;
    fs::remove_dir_all(&package)?;
    Ok(())
}

fn copy_tree(cache: &Cache, from: &Path, to: &Path) -> Result<()> {
    eprintln!("rig: kernel: copying the tree that is there already");
    let _lock = cache.lock(&lock_name(from))?;
    output_of(Command::new("cp").args(["--archive", "--reflink=auto"]).arg(from).arg(to))?;
    Ok(())
}

fn lock_name(tree: &Path) -> String {
    let name = tree.file_name().unwrap_or_default().to_string_lossy();
    format!("tree-{name}")
}

/// A build that was killed may have left objects that are newer than their
/// sources and yet not whole. What it wrote is what is newer than the mark that
/// it set when it began.
pub fn forget_what_was_written_since(mark: &Path, tree: &Path) -> Result<()> {
    output_of(
        Command::new("find").arg(tree).args(["-type", "f", "-newer"]).arg(mark).arg("-delete"),
    )?;
    Ok(())
}

/// Lines such as "  CC      kernel/fork.o".
pub fn is_build_step(line: &str) -> bool {
    line.starts_with("  ") && line.trim_start().starts_with(|first: char| first.is_uppercase())
}

/// Options that `fragment` sets and `config` has otherwise. Of one that others rule out,
/// `config` says nothing: it is off.
pub fn options_missing(fragment: &str, config: &str) -> Vec<String> {
    let off = |line: &str| {
        let option = line.strip_prefix("# ")?.strip_suffix(" is not set")?;
        option.starts_with("CONFIG_").then(|| format!("{option}="))
    };
    let granted = |wanted: &str| match off(wanted) {
        Some(set) => !config.lines().any(|line| line.starts_with(&set)),
        None => !wanted.starts_with("CONFIG_") || config.lines().any(|line| line == wanted),
    };
    fragment.lines().filter(|wanted| !granted(wanted)).map(str::to_owned).collect()
}

pub fn in_repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

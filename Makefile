# SPDX-License-Identifier: GPL-2.0-only
#
# make        build the scheduler, and what is installed beside it
# make run    boot the patched kernel on an emulated AVX-512 machine and watch
#             the scheduler at work
# make test   everything: format, lints, unit tests, tests on real kernels
# make check  the fast part of it alone
# make bench  measure; ONLY=prefix measures a part, ONLY="prefix prefix" several
# make figures  write what was measured to docs/figures.md
# make test-kernels  the tests of the kernel patch on kernels that watch themselves,
#             and on the newest that Debian has
# make soak   run for long what the tests run for short
# make fuzz   look for scenarios that break the scheduler in the simulator, for
#             FUZZ_SECONDS; what is found is left in target/fuzz
# make mutants  seed known bugs, see the tests catch them; ONLY=word for some
# make install  put the program and what belongs to it below PREFIX, after make;
#             DESTDIR=directory puts it below there instead; make uninstall removes it
# make deb    build a Debian package
# make clean  remove what was built here; the cache of kernels and machines
#             goes with 'cargo rig clean'
# make help   print this

ONLY ?=

CLANG_FORMAT ?= clang-format-19
C_SOURCES := $(wildcard src/bpf/*.[ch] src/bpf/decide/*.h tests/guest/*.c tests/guest/*/*.[ch] \
	tests/guest/hiding/module/*.c tests/guest/avx/counters_module/*.c \
	tests/rig/oracle/*.c tests/rig/oracle/*.h tests/rig/oracle/*.cc \
	tests/rig/oracle/selftest_module/*.c contrib/hints/*.h \
	src/sim/kernel/*.[ch] src/sim/kernel/shim/scx/*.h)
SHELL_SCRIPTS := .ci/run build/clang build/install-dependencies tests/guest/*.sh \
	tests/guest/hiding/*.sh tests/rig/init

# The rig's output goes to the terminal as it comes.
RIG := cargo test --release --locked --quiet --test rig --

# libFuzzer around the simulator, and what its inputs are made of.
FUZZ_SECONDS ?= 3600
FUZZ_CLANG ?= clang-19
FUZZER := $(or $(CARGO_TARGET_DIR),target)/release/examples/fuzz
FUZZ_FLAGS := -max_len=650 -artifact_prefix=target/fuzz/
CORPUS := tests/fuzz/corpus

# Kernels that take long to build and long to run; RIG_KERNEL chooses them.
KERNELS := locks memory newest

PREFIX ?= /usr/local
DESTDIR ?=
PROGRAM ?= $(or $(CARGO_TARGET_DIR),target)/release/scx_avxspec
GENERATED := target/generated

# Read after the installation too, and laid out there as here: they link to each other.
DOCUMENTS := README.md CHANGELOG.md $(wildcard docs/*.md) kernel-patch examples/hint.rs \
	$(addprefix contrib/,grafana hints kubernetes prometheus systemd)

# Where it goes. What is not listed in uninstall is not installed.
bindir := $(DESTDIR)$(PREFIX)/bin
unitdir := $(DESTDIR)$(PREFIX)/lib/systemd/system
includedir := $(DESTDIR)$(PREFIX)/include
mandir := $(DESTDIR)$(PREFIX)/share/man/man8
bashdir := $(DESTDIR)$(PREFIX)/share/bash-completion/completions
zshdir := $(DESTDIR)$(PREFIX)/share/zsh/site-functions
fishdir := $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d
sharedir := $(DESTDIR)$(PREFIX)/share/scx_avxspec
docdir := $(DESTDIR)$(PREFIX)/share/doc/scx_avxspec

# The Debian package is put together by this.
CARGO_DEB_VERSION := 3.8.0
CARGO_DEB := target/tools/bin/cargo-deb

.PHONY: build program generated run test check bench figures test-kernels soak fuzz fuzz-briefly \
	fuzzer mutants install uninstall deb clean help dependencies requirements

# What a target needs is listed in the order in which it has to be done, and cargo uses all
# CPUs anyway.
.NOTPARALLEL:

# What is installed beside the program is made here as well, and belongs to who builds.
build: program generated

program: requirements
	cargo build --release --locked

run: dependencies requirements
	cargo build --release --locked
	$(RIG) prepare
	$(RIG) run

test: dependencies check
	$(RIG) prepare
	cargo test --release --locked --test rig

check: requirements
	cargo fmt --check
	$(CLANG_FORMAT) --dry-run -Werror $(C_SOURCES)
	shellcheck $(SHELL_SCRIPTS)
	cargo clippy --release --locked --all-targets -- -D warnings
	cargo clippy --release --locked --features fuzz --example fuzz -- -D warnings
	cargo test --release --locked --bin scx_avxspec

bench: dependencies requirements
	$(RIG) prepare
	$(RIG) bench $(ONLY)

test-kernels: dependencies requirements
	$(RIG) prepare
	$(RIG) warnings
	RIG_KERNEL=newest $(RIG) warnings
	for kernel in $(KERNELS); do \
		RIG_KERNEL=$$kernel cargo test --release --locked --test rig -- hiding:: || exit 1; \
	done
	RIG_KERNEL=newest cargo test --release --locked --test rig -- recovery::

figures:
	$(RIG) figures

soak: dependencies requirements fuzz-briefly
	$(RIG) prepare
	$(RIG) soak

# What does something new goes to the first directory.
fuzz: fuzzer
	$(FUZZER) $(FUZZ_FLAGS) -max_total_time=$(FUZZ_SECONDS) target/fuzz/corpus $(CORPUS)

fuzz-briefly: fuzzer
	rm -rf target/fuzz/brief
	mkdir -p target/fuzz/brief
	$(FUZZER) $(FUZZ_FLAGS) -seed=1 -runs=500 target/fuzz/brief $(CORPUS)

fuzzer: dependencies requirements
	mkdir -p target/fuzz/corpus
	cargo rustc --release --locked --features fuzz --example fuzz -- \
		-C linker=$(FUZZ_CLANG) -C link-arg=-fsanitize=fuzzer

mutants: dependencies requirements
	$(RIG) prepare
	$(RIG) mutants $(ONLY)

# May be root's, who often has no cargo: so it builds nothing, and leaves nothing of root's here.
install:
	@test -x $(PROGRAM) && test -d $(GENERATED)/doc || { \
		echo "$(PROGRAM) or $(GENERATED) is not there: run make first" >&2; exit 1; }
	install -D -m 755 $(PROGRAM) $(bindir)/scx_avxspec
	install -d $(unitdir)
	sed 's|=/usr/bin/|=$(PREFIX)/bin/|' contrib/systemd/scx_avxspec.service \
		>$(unitdir)/scx_avxspec.service
	chmod 644 $(unitdir)/scx_avxspec.service
	install -D -m 644 -t $(mandir) $(GENERATED)/man/*.8
	install -D -m 644 $(GENERATED)/completions/scx_avxspec.bash $(bashdir)/scx_avxspec
	install -D -m 644 -t $(zshdir) $(GENERATED)/completions/_scx_avxspec
	install -D -m 644 -t $(fishdir) $(GENERATED)/completions/scx_avxspec.fish
	install -D -m 644 contrib/systemd/scx_avxspec.default $(sharedir)/default
	install -D -m 644 contrib/grafana/scx_avxspec.json $(sharedir)/grafana.json
	install -D -m 644 contrib/prometheus/rules.yml $(sharedir)/prometheus-rules.yml
	install -D -m 644 contrib/kubernetes/daemonset.yaml $(sharedir)/daemonset.yaml
	install -D -m 644 -t $(includedir) contrib/hints/scx_avxspec_hints.h
	install -d $(docdir)
	cp -R --preserve=mode $(GENERATED)/doc/. $(docdir)

uninstall:
	rm -f $(bindir)/scx_avxspec $(unitdir)/scx_avxspec.service
	rm -f $(mandir)/scx_avxspec.8 $(mandir)/scx_avxspec-*.8
	rm -f $(bashdir)/scx_avxspec $(zshdir)/_scx_avxspec $(fishdir)/scx_avxspec.fish
	rm -f $(includedir)/scx_avxspec_hints.h
	rm -rf $(sharedir) $(docdir)

generated:
	rm -rf $(GENERATED)
	$(PROGRAM) generate man --to $(GENERATED)/man
	$(PROGRAM) generate completions --to $(GENERATED)/completions
	mkdir $(GENERATED)/doc
	cp -R --parents $(DOCUMENTS) $(GENERATED)/doc
	chmod -R u=rwX,go=rX $(GENERATED)/doc
# The rest of the source is not installed: it is named there, and not linked to.
	find $(GENERATED)/doc -name '*.md' -exec \
		sed -E -i 's,\[([^]]*)\]\((\.\./)*(src|tests)/[^)]*\),\1,g' {} +

deb: build $(CARGO_DEB)
	PATH="$(CURDIR)/target/tools/bin:$$PATH" cargo deb --no-build --locked

$(CARGO_DEB):
	CARGO_PROFILE_RELEASE_OPT_LEVEL=1 cargo install cargo-deb --version $(CARGO_DEB_VERSION) --locked --root target/tools

clean:
	cargo clean

# The list at the top of this file.
help:
	@sed -n '/^# make/,/^$$/s/^# \?//p; /^$$/q' $(firstword $(MAKEFILE_LIST))

dependencies:
	@build/install-dependencies

# Says in a sentence what the machine lacks, before a compiler does in many.
requirements: target/requirements
	@target/requirements

target/requirements: build/requirements.rs
	@mkdir -p target
	@rustc --edition 2024 -O -o $@ $<

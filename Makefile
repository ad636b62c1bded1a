# SPDX-License-Identifier: GPL-2.0-only
#
# make        build the scheduler
# make run    boot the patched kernel on an emulated AVX-512 machine and watch
#             the scheduler at work
# make test   everything: format, lints, unit tests, tests on real kernels
# make check  the fast part of it alone
# make bench  measure; ONLY=prefix measures a part
# make figures  write what was measured to docs/figures.md
# make test-kernels  the tests of the kernel patch on kernels that watch themselves,
#             and on the newest that Debian has
# make soak   run for long what the tests run for short
# make mutants  seed known bugs, see the tests catch them; ONLY=word for some
# make clean  remove what was built here; the cache of kernels and machines
#             goes with 'cargo rig clean'

ONLY ?=

CLANG_FORMAT ?= clang-format-19
C_SOURCES := $(wildcard src/bpf/*.[ch] tests/suite/*.c tests/guest/*.c \
	tests/guest/cpuid_msrs_module/*.c tests/vm/oracle/*.c tests/vm/oracle/*.h \
	tests/vm/oracle/*.cc tests/vm/oracle/selftest_module/*.c \
	tests/hiding/*.[ch] tests/hiding/module/*.c tests/avx/*.[ch] contrib/hints/*.h \
	src/sim/*.[ch] src/sim/shim/scx/*.h)
SHELL_SCRIPTS := .ci/run build/clang build/install-dependencies tests/suite/lib.sh \
	tests/suite/systemd.sh tests/hiding/lib.sh tests/hiding/raid.sh tests/vm/init

# The rig's output goes to the terminal as it comes.
RIG := cargo test --release --locked --quiet --test rig --

# Kernels that take long to build and long to run; RIG_KERNEL chooses them.
KERNELS := locks memory newest

.PHONY: build run test check bench figures test-kernels soak mutants clean dependencies requirements

build: requirements
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

figures:
	$(RIG) figures

soak: dependencies requirements
	$(RIG) prepare
	$(RIG) soak

mutants: dependencies requirements
	$(RIG) prepare
	$(RIG) mutants $(ONLY)

clean:
	cargo clean

dependencies:
	@build/install-dependencies

# Says in a sentence what the machine lacks, before a compiler does in many.
requirements: target/requirements
	@target/requirements

target/requirements: build/requirements.rs
	@mkdir -p target
	@rustc --edition 2024 -O -o $@ $<

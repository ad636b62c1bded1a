// SPDX-License-Identifier: GPL-2.0-only
/*
 * xsave: programs that save and restore their own extended state, while the
 * scheduler of force.bpf.c hides on request (knob what=0).
 *
 * An image that was saved while everything was visible is restored in full,
 * whatever is hidden by then. What cannot be made invisible is shown here as
 * well, and counted apart: that is what the documentation admits.
 *
 * Prints name=number; fails if anything is not as documented.
 */
#define _GNU_SOURCE
#include <asm/prctl.h>
#include <elf.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "vectors.h"

/* Nothing that the compiler adds may touch a vector register. */
#define PLAIN __attribute__((target("general-regs-only")))
#define INLINE static inline __attribute__((always_inline, target("general-regs-only")))

#define NOTHING 0L
#define CALL_BOUNDARY 0xe0L
#define STRICT 0x400000e0L
#define CPUID_TOO 0x200000e0L
#define UNKNOWN_BITS 0x9fffff1bL
#define FULL_XCR0 0xe7ULL

static uint8_t image[4096] __attribute__((aligned(64)));
static struct vectors set, later, got, expected;

static unsigned long wrong, restored, skipped, stale, upper, left, longer, kept, detections,
	debugged, signals;

INLINE void put(const struct vectors *from)
{
	register const struct vectors *r12 __asm__("r12") = from;

	__asm__ __volatile__("vzeroall\n\t" FOR_HIGH_16(SET_ZMM) FOR_8(SET_K)
				     FOR_16(SET_YMM) "ldmxcsr 2112(%%r12)"
			     :
			     : "r"(r12)
			     : "memory");
}

INLINE void take(struct vectors *into)
{
	register struct vectors *r13 __asm__("r13") = into;

	__asm__ __volatile__(GET_ALL "stmxcsr 2112(%%r13)\n\t"
				     "ldmxcsr %0"
			     :
			     : "m"(initial_mxcsr), "r"(r13)
			     : "memory");
}

INLINE long plain_syscall(long number, long first, long second)
{
	__asm__ __volatile__("syscall"
			     : "+a"(number)
			     : "D"(first), "S"(second)
			     : "rcx", "r11", "memory");
	return number;
}

/* Asks the scheduler; returns what XCR0 is then. */
INLINE uint64_t hide(long what)
{
	uint32_t low, high;

	plain_syscall(SYS_prctl, PRCTL_HIDE, what);
	__asm__ __volatile__("xgetbv" : "=a"(low), "=d"(high) : "c"(0) : "memory");
	return low;
}

INLINE void save(int compacted)
{
	if (compacted)
		__asm__ __volatile__("xsavec64 (%0)" : : "r"(image), "a"(0xe7), "d"(0) : "memory");
	else
		__asm__ __volatile__("xsave64 (%0)" : : "r"(image), "a"(0xe7), "d"(0) : "memory");
}

INLINE void restore(void)
{
	__asm__ __volatile__("xrstor64 (%0)" : : "r"(image), "a"(0xe7), "d"(0) : "memory");
}

/* vzeroall and the loads by put() leave ZMM_Hi256 in its initial state. */
static const struct event like_put = { .load = LOAD_HIGH };

static void require(int holds, const char *sentence)
{
	if (holds)
		return;
	fprintf(stderr, "xsave: not so: %s\n", sentence);
	wrong++;
}

static int same(const struct vectors *expected, const char *what)
{
	return !differences(expected, &got, what);
}

/* ld.so does this for lazy binding: it saves, and is hidden from in between. */
static PLAIN void save_visible_restore_hidden(int compacted, long mode, uint64_t *before,
					      uint64_t *after)
{
	put(&set);
	save(compacted);
	put(&later);
	/* Only strict mode asks for initial state; give it that. */
	if (mode == STRICT)
		__asm__ __volatile__("xrstor64 (%0)" : : "r"(&initial_image), "a"(0xe0), "d"(0));
	*before = hide(mode);
	restore();
	*after = xgetbv(0);
	take(&got);
}

static void full_images_are_restored(int compacted, long mode)
{
	uint64_t before, after;

	memset(image, 0, sizeof(image));
	save_visible_restore_hidden(compacted, mode, &before, &after);
	require(before == 7, "AVX-512 is hidden before the image is restored");
	require(after == FULL_XCR0, "restoring a full image brings AVX-512 back");
	expect(&set, &like_put, &expected);
	require(same(&expected, "restored"), "a full image is restored in full");
	restored++;
}

static PLAIN uint64_t save_hidden_restore_visible(int compacted, long mode)
{
	uint64_t hidden;

	put(&set);
	save(compacted);
	put(&later);
	hidden = hide(mode);
	save(compacted);
	hide(NOTHING);
	restore();
	take(&got);
	return hidden;
}

/*
 * Masks and zmm16-31 are dead, by the ABI, when a function returns that made a system
 * call. Who makes one of his own, relies on them nevertheless and saves them himself
 * finds them lost: zero if the image is compacted, else what the image held before.
 */
static void images_saved_while_hidden(int compacted)
{
	uint64_t xcr0;

	memset(image, 0, sizeof(image));
	xcr0 = save_hidden_restore_visible(compacted, CALL_BOUNDARY);
	require(xcr0 == 7, "AVX-512 is hidden after a system call");
	expect(&later, &like_put, &expected);
	if (compacted) {
		memset(expected.zmm[16], 0, 16 * 64);
		memset(expected.k, 0, sizeof(expected.k));
		skipped++;
	} else {
		memcpy(expected.zmm[16], set.zmm[16], 16 * 64);
		memcpy(expected.k, set.k, sizeof(expected.k));
		stale++;
	}
	require(same(&expected, "saved while hidden"), "only the dead registers are lost");

	/* Strict mode does not hide what is not in its initial state. */
	memset(image, 0, sizeof(image));
	xcr0 = save_hidden_restore_visible(compacted, STRICT);
	require(xcr0 == FULL_XCR0, "strict mode hides nothing that is in use");
	expect(&later, &like_put, &expected);
	require(same(&expected, "saved in strict mode"), "strict mode loses nothing");
	kept++;
}

/* The upper halves are in use at first, and in their initial state the second time. */
static PLAIN uint64_t save_twice(long mode)
{
	register const struct vectors *r12 __asm__("r12") = &set;
	uint64_t hidden;

	__asm__ __volatile__("xrstor64 (%0)" : : "r"(&initial_image), "a"(0xe0), "d"(0));
	__asm__ __volatile__(FOR_16(SET_ZMM) "ldmxcsr 2112(%%r12)" : : "r"(r12) : "memory");
	save(0);
	__asm__ __volatile__("vzeroupper");
	hidden = hide(mode);
	save(0);
	restore();
	take(&got);
	return hidden;
}

/*
 * XSAVE leaves alone what is not in XCR0, and the image has it from the time before: who
 * saves his own contexts in place finds upper halves that he had zeroed. Strict mode does
 * not help, since nothing is in use.
 */
static void images_saved_twice(long mode)
{
	memset(image, 0, sizeof(image));
	require(save_twice(mode) == 7, "AVX-512 is hidden between two saves");
	expect(&set, &like_put, &expected);
	for (int n = 0; n < 16; n++) {
		memset(&expected.zmm[n][2], 0, 16);
		memcpy(&expected.zmm[n][4], &set.zmm[n][4], 32);
	}
	memset(expected.zmm[16], 0, 16 * 64);
	memset(expected.k, 0, sizeof(expected.k));
	require(same(&expected, "saved twice"), "only upper halves come back");
	upper++;
}

/* Returns what XCR0 is after an image without masks and zmm16-31 was restored. */
static PLAIN uint64_t restore_without_masks(long mode, uint64_t *before)
{
	uint64_t after;

	put(&set);
	__asm__ __volatile__("xrstor64 (%0)" : : "r"(&initial_image), "a"(0xe0), "d"(0));
	save(0);
	put(&later);
	*before = hide(mode);
	restore();
	after = xgetbv(0);
	take(&got);
	return after;
}

/*
 * An image that has nothing of what is hidden raises no fault, and XRSTOR leaves
 * alone what is not in XCR0: who switches between contexts of his own finds the
 * masks of another one where there should be zeros.
 */
static void images_without_masks(void)
{
	uint64_t before, after;

	memset(image, 0, sizeof(image));
	after = restore_without_masks(CALL_BOUNDARY, &before);
	require(before == 7 && after == 7, "an image without masks is restored while hidden");
	expect(&set, &like_put, &expected);
	memcpy(expected.zmm[16], later.zmm[16], 16 * 64);
	memcpy(expected.k, later.k, sizeof(expected.k));
	require(same(&expected, "not initialized"), "only the dead registers stay as they were");
	left++;

	/* With an interrupt in between they are hidden, for then none is in use any more. */
	for (int try = 0; try < 3; try++) {
		memset(image, 0, sizeof(image));
		after = restore_without_masks(STRICT, &before);
		if (after == FULL_XCR0)
			break;
	}
	require(before == FULL_XCR0 && after == FULL_XCR0,
		"strict mode does not hide masks in use");
	memset(expected.zmm[16], 0, 16 * 64);
	memset(expected.k, 0, sizeof(expected.k));
	require(same(&expected, "initialized in strict mode"), "strict mode leaves nothing behind");
	kept++;
}

INLINE uint32_t size_of_enabled_state(void)
{
	uint32_t eax = 0xd, ebx, ecx = 0, edx;

	__asm__ __volatile__("cpuid" : "+a"(eax), "=b"(ebx), "+c"(ecx), "=d"(edx));
	return ebx;
}

static PLAIN uint32_t size_after_hiding(long what)
{
	put(&set);
	hide(what);
	return size_of_enabled_state();
}

/* Who has CPUID fault for himself, and then no more, does not disarm hiding. */
static PLAIN uint32_t size_after_own_faulting(void)
{
	put(&set);
	hide(CPUID_TOO);
	plain_syscall(SYS_arch_prctl, ARCH_SET_CPUID, 0);
	plain_syscall(SYS_arch_prctl, ARCH_SET_CPUID, 1);
	return size_of_enabled_state();
}

static PLAIN uint64_t put_and_hide(long what)
{
	put(&set);
	return hide(what);
}

static PLAIN void save_visible(void)
{
	put_and_hide(NOTHING);
	save(0);
}

/*
 * Who makes a buffer as long as CPUID said while AVX-512 was hidden, and saves when it is
 * not, writes past its end.
 */
static void images_outgrow_what_was_asked_for(uint32_t visible)
{
	static const uint8_t untouched[64] = { [0 ... 63] = 0xa5 };

	memset(image, 0xa5, sizeof(image));
	memset(image + 512, 0, 64); /* the header */
	save_visible();
	require(memcmp(image + visible - 64, untouched, 64),
		"an image is longer than the buffer that CPUID asked for while hidden");
	require(!memcmp(image + visible, untouched, 64), "but not than CPUID says while visible");
	longer++;
}

static void detection_sees_it(void)
{
	uint32_t visible = size_after_hiding(NOTHING);
	uint32_t hidden = size_after_hiding(CALL_BOUNDARY);

	require(hidden < visible, "CPUID(0xd).EBX is smaller while AVX-512 is hidden");
	images_outgrow_what_was_asked_for(visible);

	/* Where CPUID faults, it is executed when all is visible, and so is XGETBV. */
	require(size_after_hiding(CPUID_TOO) == visible && xgetbv(0) == FULL_XCR0,
		"who asks CPUID first finds everything");
	detections++;
	require(size_after_own_faulting() == visible,
		"CPUID goes on to fault for a program that had it fault for itself");
	detections++;
	require(put_and_hide(CPUID_TOO) == 7, "AVX-512 is hidden where CPUID faults");
}

/* Stops twice for a tracer, and says in its status what it saw after each. */
static PLAIN void be_debugged(void)
{
	uint64_t hidden, untouched, written;

	ptrace(PTRACE_TRACEME, 0, NULL, NULL);
	put(&set);
	hidden = hide(CALL_BOUNDARY);
	__asm__ __volatile__("int3");
	untouched = xgetbv(0);
	__asm__ __volatile__("int3");
	written = xgetbv(0);
	_exit((hidden == 7) | (untouched == 7) << 1 | (written == FULL_XCR0) << 2);
}

static int wait_for_trap(pid_t child)
{
	int status;

	return waitpid(child, &status, 0) == child && WIFSTOPPED(status) &&
	       WSTOPSIG(status) == SIGTRAP;
}

/* Masks that were dead are alive again when somebody else sets them. */
static void what_a_debugger_writes_is_alive(void)
{
	struct iovec all = { image, sizeof(image) };
	pid_t child = fork();
	int status = 0;

	if (!child)
		be_debugged();
	require(wait_for_trap(child) && !ptrace(PTRACE_CONT, child, NULL, NULL) &&
			wait_for_trap(child) &&
			!ptrace(PTRACE_GETREGSET, child, NT_X86_XSTATE, &all) &&
			!ptrace(PTRACE_SETREGSET, child, NT_X86_XSTATE, &all) &&
			!ptrace(PTRACE_CONT, child, NULL, NULL),
		"a debugger gets at the registers");
	waitpid(child, &status, 0);
	require(WIFEXITED(status), "a debugged program ends as usual");
	require(WEXITSTATUS(status) & 1, "AVX-512 is hidden from a debugged program");
	require(WEXITSTATUS(status) & 2, "and still is after a stop");
	require(WEXITSTATUS(status) & 4, "but not if the debugger wrote its registers");
	debugged++;
}

/* What the signal handler has to hide, and what XCR0 was for it then. */
static volatile long handler_hides;
static volatile uint64_t xcr0_of_handler;

static PLAIN void on_trap(int signal)
{
	(void)signal;
	xcr0_of_handler = hide(handler_hides);
}

/* Returns what XCR0 was just before the signal; @after is what it is after the handler. */
static PLAIN uint64_t across_a_signal(long before, long in_handler, uint64_t *after)
{
	uint64_t xcr0;

	handler_hides = in_handler;
	put(&set);
	xcr0 = hide(before);
	__asm__ __volatile__("int3" : : : "memory");
	*after = xgetbv(0);
	take(&got);
	signals++;
	return xcr0;
}

/* Frames are images of user mode as well, but it is the kernel that saves and restores them. */
static void signal_frames_have_everything(void)
{
	uint64_t before, after;

	before = across_a_signal(CALL_BOUNDARY, NOTHING, &after);
	require(before == 7, "AVX-512 is hidden from who gets a signal");
	expect(&set, &like_put, &expected);
	require(same(&expected, "a signal while hidden"), "frames have what is hidden, too");

	before = across_a_signal(NOTHING, CALL_BOUNDARY, &after);
	require(before == FULL_XCR0, "nothing is hidden from who asks for that");
	require(xcr0_of_handler == 7, "AVX-512 is hidden from a signal handler");
	require(after == FULL_XCR0, "but not from who was interrupted with masks in use");
	require(same(&expected, "a hidden handler"), "a handler that is hidden from loses nothing");
}

static void only_what_can_be_hidden_is(void)
{
	require(put_and_hide(UNKNOWN_BITS) == FULL_XCR0, "what is not known is not hidden");
	require(put_and_hide(UNKNOWN_BITS | CALL_BOUNDARY) == 7, "nor is it with what is");
	require(put_and_hide(0x40) == 7, "AVX-512 is hidden as a whole");
	require(put_and_hide(CALL_BOUNDARY | 4) == FULL_XCR0, "AVX is not hidden while in use");
}

int main(int argc, char **argv)
{
	unsigned long rounds = argc > 1 ? strtoul(argv[1], NULL, 0) : 1;
	uint64_t random = argc > 2 ? strtoul(argv[2], NULL, 0) * 2 + 1 : 1;
	struct sigaction action = { .sa_handler = on_trap };

	sigaction(SIGTRAP, &action, NULL);
	for (unsigned long n = 0; n < rounds; n++) {
		randomize(&set, &random);
		randomize(&later, &random);
		/* One XRSTOR brings back MXCSR as well; it is the same throughout. */
		later.mxcsr = set.mxcsr;
		full_images_are_restored(0, CALL_BOUNDARY);
		full_images_are_restored(1, CALL_BOUNDARY);
		full_images_are_restored(0, STRICT);
		full_images_are_restored(1, STRICT);
		images_saved_while_hidden(0);
		images_saved_while_hidden(1);
		images_saved_twice(CALL_BOUNDARY);
		images_saved_twice(STRICT);
		images_without_masks();
		detection_sees_it();
		what_a_debugger_writes_is_alive();
		signal_frames_have_everything();
		only_what_can_be_hidden_is();
	}
	printf("full_images_restored=%lu\nadmitted_zeroed=%lu\nadmitted_stale=%lu\n"
	       "admitted_upper=%lu\nadmitted_left=%lu\nadmitted_longer=%lu\nstrict_kept=%lu\n"
	       "detections=%lu\ndebugged=%lu\nsignals=%lu\nwrong=%lu\n",
	       restored, skipped, stale, upper, left, longer, kept, detections, debugged, signals,
	       wrong);
	return wrong != 0;
}

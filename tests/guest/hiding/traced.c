// SPDX-License-Identifier: GPL-2.0-only
/*
 * traced ROUNDS SEED [no-core]: the registers as others see and change them.
 * A tracer reads those of a stopped task and writes new ones, a signal handler
 * finds them in its frame and returns to others, and a core dump has them.
 *
 * The kernel's file /proc/sys/kernel/core_pattern must hold "core", unless
 * no-core says that there shall be no core dumps.
 *
 * Prints what it counted as name=number. Fails if a register was lost, or if
 * something strange occurred.
 */
#define _GNU_SOURCE
#include <cpuid.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "vectors.h"

enum count {
	ROUNDS,
	PEEKS,	/* images that a tracer read, and that were compared */
	POKES,	/* ... that it wrote, and that were found in the registers */
	FRAMES, /* signal frames compared, and sigreturns to other registers */
	CORES,	/* core dumps compared */
	LOST,	/* registers that were not what they should be */
	HIDDEN, /* times that AVX-512 was hidden just before a task looked */
	ODD,	/* anything else that went wrong */
	NR_COUNTS,
};

static const char *const names[NR_COUNTS] = {
	"rounds", "peeks", "pokes", "frames", "cores", "registers_lost", "hidden", "odd",
};

static unsigned long counts[NR_COUNTS];

/* A core dump costs as much as many of the other checks. */
#define ROUNDS_PER_CORE 16

static int odd(const char *what)
{
	fprintf(stderr, "traced: %s\n", what);
	counts[ODD]++;
	return -1;
}

static int failed(const char *what)
{
	int error = errno;

	fprintf(stderr, "traced: %s: %s\n", what, strerror(error));
	counts[ODD]++;
	return -1;
}

/*
 * A signal handler must not unhide what it is to be hidden from, so nothing
 * that it calls may touch a vector register.
 */
#define PLAIN __attribute__((target("general-regs-only")))

/* memcpy() would use AVX-512, and the compiler makes memcpy() of other loops. */
static PLAIN void copy(void *to, const void *from, size_t size)
{
	__asm__ __volatile__("rep movsb" : "+D"(to), "+S"(from), "+c"(size) : : "memory");
}

/*
 * Images of XSAVE in the standard format, which is that of PTRACE_GETREGSET,
 * of signal frames and of core dumps alike.
 */
#define IMAGE_MAX 16384
#define IMAGE_MXCSR 24
#define IMAGE_SW_RESERVED 464
#define IMAGE_XSTATE_BV 512
#define IMAGE_HEADER_END 576

#define SSE (1ULL << 1)
#define YMM (1ULL << 2)
#define OPMASK (1ULL << 5)
#define ZMM_HI256 (1ULL << 6)
#define HI16_ZMM (1ULL << 7)
#define ALL_PARTS (SSE | YMM | OPMASK | ZMM_HI256 | HI16_ZMM)

/* The part of some registers that is a component of the image. */
static struct part {
	uint64_t component;
	size_t first;  /* where the first of them begins in struct vectors */
	size_t stride; /* how far the next one is from there */
	size_t bytes;
	int registers;
	size_t offset; /* in the image; that of SSE is fixed, CPUID tells the others */
} parts[] = {
	{ SSE, 0, 64, 16, 16, 160 },
	{ YMM, 16, 64, 16, 16, 0 },
	{ ZMM_HI256, 32, 64, 32, 16, 0 },
	{ HI16_ZMM, 16 * 64, 64, 64, 16, 0 },
	{ OPMASK, offsetof(struct vectors, k), 8, 8, 8, 0 },
};

#define NR_PARTS (sizeof(parts) / sizeof(parts[0]))

/* The end of the last component. */
static size_t image_needed;

static void find_offsets(void)
{
	for (struct part *part = parts; part < parts + NR_PARTS; part++) {
		unsigned int size = part->bytes * part->registers, offset = part->offset, c, d;

		if (part->component != SSE)
			__cpuid_count(0xd, __builtin_ctzll(part->component), size, offset, c, d);
		if (size != part->bytes * part->registers)
			odd("a component has not the size of its registers");
		part->offset = offset;
		if (offset + size > image_needed)
			image_needed = offset + size;
	}
}

/* What a component holds in memory means nothing while its bit is clear. */
static void read_image(const uint8_t *image, struct vectors *vectors)
{
	uint64_t present;

	memcpy(&present, image + IMAGE_XSTATE_BV, sizeof(present));
	memset(vectors, 0, sizeof(*vectors));
	memcpy(&vectors->mxcsr, image + IMAGE_MXCSR, sizeof(vectors->mxcsr));
	for (const struct part *part = parts; part < parts + NR_PARTS; part++)
		for (int n = 0; present & part->component && n < part->registers; n++)
			memcpy((uint8_t *)vectors + part->first + n * part->stride,
			       image + part->offset + n * part->bytes, part->bytes);
}

/* The components that are not in their initial state after such a load. */
static PLAIN uint64_t in_use(enum load load)
{
	switch (load) {
	case LOAD_ALL:
		return ALL_PARTS;
	case LOAD_HIGH:
		return ALL_PARTS & ~ZMM_HI256;
	case LOAD_CLEAN:
		return SSE | YMM;
	default:
		return SSE;
	}
}

/*
 * Makes @image load registers like between() does. Of components that are to
 * be in their initial state only the bit is cleared: the kernel, too, has to
 * ignore what they hold in memory.
 */
static PLAIN void write_image(uint8_t *image, const struct vectors *vectors, enum load load)
{
	uint64_t present;

	copy(&present, image + IMAGE_XSTATE_BV, sizeof(present));
	present = (present & ~ALL_PARTS) | in_use(load);
	copy(image + IMAGE_XSTATE_BV, &present, sizeof(present));
	copy(image + IMAGE_MXCSR, &vectors->mxcsr, sizeof(vectors->mxcsr));
	for (const struct part *part = parts; part < parts + NR_PARTS; part++)
		for (int n = 0; n < part->registers; n++)
			copy(image + part->offset + n * part->bytes,
			     (const uint8_t *)vectors + part->first + n * part->stride,
			     part->bytes);
}

/* One check: what a task has in its registers, and what others put there. */
struct check {
	struct vectors set;   /* before the event */
	struct vectors later; /* what others put there during the event */
	struct vectors got;   /* after it */
	struct event event;
	enum load load_later;
};

static void prepare(struct check *check, pid_t task, int signal, uint64_t *random)
{
	randomize(&check->set, random);
	randomize(&check->later, random);
	check->load_later = random_bits(random) % NR_LOADS;
	check->event = (struct event){
		.load = random_bits(random) % NR_LOADS,
		.alter = random_bits(random) % 2,
		.number = SYS_tgkill,
		.argument = { task, task, signal },
		.result = -1,
	};
}

/* What others saw during the event is what the task put there before. */
static void compare_seen(const struct check *check, const uint8_t *image, const char *what)
{
	struct event nothing_yet = { .load = check->event.load };
	struct vectors expected, seen;

	expect(&check->set, &nothing_yet, &expected);
	read_image(image, &seen);
	counts[LOST] += differences(&expected, &seen, what);
}

/* What the task finds after the event is what others put there. */
static void compare_later(const struct check *check, const char *what)
{
	struct event event = { .load = check->load_later, .alter = check->event.alter };
	struct vectors expected;

	if (check->event.result)
		odd("a task could not send itself a signal");
	expect(&check->later, &event, &expected);
	counts[LOST] += differences(&expected, &check->got, what);
	counts[HIDDEN] += (check->got.xcr0 & XCR0_AVX512) != XCR0_AVX512;
}

/* Neither a failed check nor a killed one leaves its child behind. */
static pid_t fork_mortal(void)
{
	pid_t child = fork();

	if (!child)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	return child < 0 ? failed("fork") : child;
}

static int wait_status(pid_t child)
{
	int status;

	while (waitpid(child, &status, 0) < 0)
		if (errno != EINTR)
			return failed("waitpid");
	return status;
}

/* What the traced task does: it stops before each check, and in its middle. */
static void be_traced(struct check *check)
{
	if (ptrace(PTRACE_TRACEME, 0, NULL, NULL))
		_exit(1);
	for (;;) {
		raise(SIGSTOP);
		between(&check->set, &check->got, &check->event);
	}
}

static int wait_for_stop(pid_t task)
{
	int status = wait_status(task);

	if (status >= 0 && WIFSTOPPED(status) && status >> 8 == SIGSTOP)
		return 0;
	fprintf(stderr, "traced: wait status %#x\n", status);
	return odd("the traced task did not stop as it should");
}

static int continue_to_stop(pid_t task)
{
	if (ptrace(PTRACE_CONT, task, NULL, NULL))
		return failed("PTRACE_CONT");
	return wait_for_stop(task);
}

/* Compares the registers of the stopped task, and gives it others. */
static int peek_and_poke(pid_t task, const struct check *check)
{
	static uint8_t image[IMAGE_MAX] __attribute__((aligned(64)));
	struct iovec all = { image, sizeof(image) };

	if (ptrace(PTRACE_GETREGSET, task, NT_X86_XSTATE, &all))
		return failed("PTRACE_GETREGSET");
	if (all.iov_len < image_needed)
		return odd("a tracer does not get all components");
	compare_seen(check, image, "PTRACE_GETREGSET");
	counts[PEEKS]++;

	write_image(image, &check->later, check->load_later);
	if (ptrace(PTRACE_SETREGSET, task, NT_X86_XSTATE, &all))
		return failed("PTRACE_SETREGSET");
	return 0;
}

static void check_ptrace(pid_t task, struct check *check, uint64_t *random)
{
	prepare(check, task, SIGSTOP, random);
	if (continue_to_stop(task) || peek_and_poke(task, check) || continue_to_stop(task))
		return;
	compare_later(check, "PTRACE_SETREGSET");
	counts[POKES]++;
}

/* What the signal handler has to do, and what it found; unknown to the compiler. */
static struct {
	const struct check *volatile check;
	volatile int yields;
	volatile int signals;
	volatile int strange;
	uint8_t image[IMAGE_MAX];
} frame;

/* Is the image in the frame one of XSAVE, and complete? */
static PLAIN int frame_is_extended(const uint8_t *image)
{
	const struct _fpx_sw_bytes *software = (const void *)(image + IMAGE_SW_RESERVED);
	uint32_t magic2;

	if (software->magic1 != FP_XSTATE_MAGIC1 || software->xstate_size < image_needed ||
	    software->xstate_size > IMAGE_MAX || ~software->xstate_bv & ALL_PARTS)
		return 0;
	copy(&magic2, image + software->xstate_size, sizeof(magic2));
	return magic2 == FP_XSTATE_MAGIC2;
}

/*
 * Keeps the image and puts another in its place. Whoever is hidden from after
 * a system call in here is to return to registers that are in use.
 */
static PLAIN void on_signal(int signal, siginfo_t *info, void *context)
{
	uint8_t *image = (uint8_t *)((ucontext_t *)context)->uc_mcontext.fpregs;

	(void)signal;
	(void)info;
	frame.signals++;
	if (!frame_is_extended(image)) {
		frame.strange = 1;
		return;
	}
	copy(frame.image, image, image_needed);
	write_image(image, &frame.check->later, frame.check->load_later);
	if (frame.yields)
		syscall(SYS_sched_yield);
}

static void check_frame(uint64_t *random)
{
	static struct check check;

	prepare(&check, getpid(), SIGUSR1, random);
	frame.check = &check;
	frame.yields = random_bits(random) % 2;
	frame.signals = 0;
	between(&check.set, &check.got, &check.event);

	if (frame.signals != 1 || frame.strange) {
		odd("a signal did not come once, with an extended frame");
		return;
	}
	compare_seen(&check, frame.image, "signal frame");
	compare_later(&check, "sigreturn");
	counts[FRAMES]++;
}

static void dump_core(struct check *check, const char *dir)
{
	struct rlimit unlimited = { RLIM_INFINITY, RLIM_INFINITY };

	if (setrlimit(RLIMIT_CORE, &unlimited) || chdir(dir)) {
		perror("traced: cannot dump core");
		_exit(1);
	}
	check->event.argument[0] = getpid();
	check->event.argument[1] = getpid();
	between(&check->set, &check->got, &check->event);
	_exit(1);
}

/* Part of a file; NULL if the file is not that long. */
static const void *inside(const uint8_t *file, size_t size, size_t offset, size_t wanted)
{
	return offset <= size && wanted <= size - offset ? file + offset : NULL;
}

#define ROUND_UP_4(n) (((size_t)(n) + 3) & ~(size_t)3)

/* The first NT_X86_XSTATE among notes, or NULL. */
static const uint8_t *find_xstate(const uint8_t *notes, size_t size)
{
	const Elf64_Nhdr *note;
	size_t at = 0;

	while ((note = inside(notes, size, at, sizeof(*note)))) {
		size_t content = at + sizeof(*note) + ROUND_UP_4(note->n_namesz);

		if (note->n_type == NT_X86_XSTATE && note->n_descsz >= image_needed)
			return inside(notes, size, content, note->n_descsz);
		at = content + ROUND_UP_4(note->n_descsz);
	}
	return NULL;
}

static const uint8_t *find_xstate_in_core(const uint8_t *core, size_t size)
{
	const Elf64_Ehdr *header = inside(core, size, 0, sizeof(*header));

	if (!header || memcmp(header->e_ident, ELFMAG, SELFMAG) || header->e_type != ET_CORE)
		return NULL;
	for (int n = 0; n < header->e_phnum; n++) {
		const Elf64_Phdr *segment = inside(
			core, size, header->e_phoff + n * sizeof(*segment), sizeof(*segment));

		if (segment && segment->p_type == PT_NOTE &&
		    inside(core, size, segment->p_offset, segment->p_filesz))
			return find_xstate(core + segment->p_offset, segment->p_filesz);
	}
	return NULL;
}

static void compare_core(const struct check *check, int file)
{
	const uint8_t *core, *image;
	struct stat stat;

	if (fstat(file, &stat)) {
		failed("fstat");
		return;
	}
	core = mmap(NULL, stat.st_size, PROT_READ, MAP_PRIVATE, file, 0);
	if (core == MAP_FAILED) {
		failed("cannot map a core dump");
		return;
	}
	image = find_xstate_in_core(core, stat.st_size);
	if (image) {
		compare_seen(check, image, "core dump");
		counts[CORES]++;
	} else {
		odd("a core dump has no complete NT_X86_XSTATE");
	}
	munmap((void *)core, stat.st_size);
}

/* Dumps core in @dir, as the file @path. */
static void check_core_in(const char *dir, const char *path, uint64_t *random)
{
	static struct check check;
	int status, file;
	pid_t child;

	prepare(&check, 0, SIGABRT, random);
	child = fork_mortal();
	if (child < 0)
		return;
	if (!child)
		dump_core(&check, dir);
	status = wait_status(child);
	if (status < 0 || !WIFSIGNALED(status) || WTERMSIG(status) != SIGABRT) {
		odd("a child did not die of SIGABRT");
		return;
	}
	file = open(path, O_RDONLY | O_CLOEXEC);
	if (file < 0) {
		odd("no core dump appeared: write \"core\" to /proc/sys/kernel/core_pattern, "
		    "or say no-core");
		return;
	}
	compare_core(&check, file);
	close(file);
}

static void check_core(uint64_t *random)
{
	char dir[] = "/tmp/traced.XXXXXX";
	char path[sizeof(dir) + sizeof("/core")];

	if (!mkdtemp(dir)) {
		failed(dir);
		return;
	}
	snprintf(path, sizeof(path), "%s/core", dir);
	check_core_in(dir, path, random);
	unlink(path);
	rmdir(dir);
}

static pid_t start_traced(struct check *check)
{
	pid_t task = fork_mortal();

	if (!task)
		be_traced(check);
	if (task > 0)
		wait_for_stop(task);
	return task;
}

static void stop_traced(pid_t task)
{
	if (task <= 0)
		return;
	kill(task, SIGKILL);
	wait_status(task);
}

static void check_rounds(unsigned long rounds, int with_cores, uint64_t *random)
{
	struct check *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
				    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t task;

	if (shared == MAP_FAILED) {
		failed("mmap");
		return;
	}
	task = start_traced(shared);
	while (counts[ROUNDS] < rounds && !counts[ODD]) {
		check_ptrace(task, shared, random);
		check_frame(random);
		if (with_cores && counts[ROUNDS] % ROUNDS_PER_CORE == 0)
			check_core(random);
		counts[ROUNDS]++;
	}
	stop_traced(task);
}

int main(int argc, char **argv)
{
	struct sigaction action = { .sa_sigaction = on_signal, .sa_flags = SA_SIGINFO };
	unsigned long rounds = argc > 1 ? strtoul(argv[1], NULL, 0) : 100;
	uint64_t random = argc > 2 ? strtoul(argv[2], NULL, 0) * 2 + 1 : 1;
	int with_cores = argc < 4 || strcmp(argv[3], "no-core");

	if (!with_cores)
		fprintf(stderr, "traced: no-core: CORE DUMPS ARE NOT CHECKED\n");
	find_offsets();
	sigaction(SIGUSR1, &action, NULL);
	check_rounds(rounds, with_cores, &random);

	for (int n = 0; n < NR_COUNTS; n++)
		printf("%s=%lu\n", names[n], counts[n]);
	return counts[LOST] || counts[ODD];
}

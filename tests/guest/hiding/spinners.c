// SPDX-License-Identifier: GPL-2.0-only
/*
 * spinners run: on each CPU a process that reads XCR0 for ever, and makes no
 * system call any more.
 *
 * spinners show: what each of them read last, as cpuN=XCR0. Fails if one of
 * them does not get on.
 *
 * spinners fifo CPU, spinners other CPU: makes the one of CPU a realtime task,
 * or an ordinary one again.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "vectors.h"

#define BOARD "/tmp/spinners"
#define MAX_CPUS 64

struct entry {
	volatile uint64_t xcr0;
	volatile uint64_t rounds;
	volatile pid_t pid;
} __attribute__((aligned(64)));

static struct entry *board;
static long cpus;

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static void open_board(void)
{
	int file = open(BOARD, O_RDWR | O_CREAT, 0600);

	if (file < 0 || ftruncate(file, MAX_CPUS * sizeof(*board)))
		die(BOARD);
	board = mmap(NULL, MAX_CPUS * sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	if (board == MAP_FAILED)
		die(BOARD);
	cpus = sysconf(_SC_NPROCESSORS_CONF);
}

static void spin_on(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		die("sched_setaffinity");
	/*
	 * The C library has left masks and zmm16-31 in use, and without another
	 * system call nobody can know that they are dead.
	 */
	__asm__ __volatile__("xrstor64 (%0)" : : "r"(&initial_image), "a"(0xe4), "d"(0) : "memory");
	for (;;) {
		board[cpu].xcr0 = xgetbv(0);
		board[cpu].rounds++;
	}
}

static void set_class(int cpu, int policy)
{
	struct sched_param param = { .sched_priority = policy == SCHED_FIFO };

	if (sched_setscheduler(board[cpu].pid, policy, &param))
		die("sched_setscheduler");
}

static void run(void)
{
	for (int cpu = 0; cpu < cpus; cpu++) {
		pid_t child = fork();

		if (child < 0)
			die("fork");
		if (!child) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			spin_on(cpu);
		}
		board[cpu].pid = child;
	}
	while (wait(NULL) > 0)
		;
}

static void show(void)
{
	for (int cpu = 0; cpu < cpus; cpu++) {
		uint64_t rounds = board[cpu].rounds;

		for (int patience = 1000; board[cpu].rounds == rounds; patience--) {
			if (!patience) {
				fprintf(stderr, "the spinner of CPU %d stands still\n", cpu);
				exit(1);
			}
			usleep(10000);
		}
		printf("cpu%d=0x%lx\n", cpu, board[cpu].xcr0);
	}
}

int main(int argc, char **argv)
{
	open_board();
	if (argc == 2 && !strcmp(argv[1], "run"))
		run();
	else if (argc == 3 && atoi(argv[2]) < cpus)
		set_class(atoi(argv[2]), strcmp(argv[1], "fifo") ? SCHED_OTHER : SCHED_FIFO);
	else
		show();
	return 0;
}

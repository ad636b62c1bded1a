// SPDX-License-Identifier: GPL-2.0-only
/* What the kernel patch offers: to hide AVX-512 from a task, and to watch its system calls. */
#include "internal.h"

#define XFEATURE_OPMASK (1ULL << 5)
#define XFEATURE_ZMM_HI256 (1ULL << 6)
#define XFEATURE_HI16_ZMM (1ULL << 7)
#define XFEATURES_AVX512 (7U << 5)
#define SYS_GETPPID 110

int avxspec_hidden_used(struct pt_regs *regs, u32 hidden, int trapnr);
int avxspec_syscall_done(struct pt_regs *regs);
int avxspec_exec(struct task_struct *p, pid_t old_pid, struct linux_binprm *bprm);

u32 bpf_task_hide_xfeatures(struct task_struct *p, u32 what)
{
	p->sim->wants_hidden = what;
	if (!what)
		p->sim->is_hidden = false;
	return what;
}

/*
 * Returns which registers @task has in use. Beside what the program does itself, the C library's
 * string functions leave the new registers in use. If they last looked for something, they also
 * leave masks in use: in half of the cases here.
 */
u64 sim_registers_in_use(const struct sim_task *task)
{
	u64 wide = task->has_wide_registers ? XFEATURE_ZMM_HI256 : 0;
	u64 masks = task->t.se.sum_exec_runtime / 1000 % 2 ? XFEATURE_OPMASK : 0;

	return wide | XFEATURE_HI16_ZMM | masks;
}

u64 bpf_current_xfeatures_in_use(void)
{
	struct sim_task *curr = sim_cpus[sim_this_cpu].curr;

	return curr && !curr->is_hidden ? sim_registers_in_use(curr) : 0;
}

void bpf_task_watch_syscalls(struct task_struct *p, bool on)
{
	p->sim->is_watched = on;
}

/* Nothing is left of what the scheduler asked for. */
void sim_let_go(struct sim_task *task)
{
	task->wants_hidden = false;
	task->is_hidden = false;
	task->is_watched = false;
}

bool sim_task_is_hidden(const struct sim_task *task)
{
	return task->is_hidden;
}

/* What runs on @cpu is about to execute @code, which is hidden from it. */
void sim_fault(u32 cpu, const u8 *code)
{
	struct sim_task *curr = sim_cpus[cpu].curr;
	struct pt_regs regs = { .ip = (u64)code };
	struct sim_call before;
	bool leaves;

	if (!curr || !curr->is_hidden)
		return;
	sim_this_cpu = cpu;
	sim_account(cpu);
	curr->is_hidden = false;
	curr->wants_hidden = false;
	before = sim_begin_call(SIM_HIDDEN_USED, curr);
	leaves = avxspec_hidden_used(&regs, XFEATURES_AVX512, 6);
	sim_end_call(before);
	if (leaves)
		sim_end_slice(cpu);
}

/* Returns true if the task is to run elsewhere after the system call. */
static bool tell_syscall_done(struct sim_task *task)
{
	struct pt_regs regs = { .orig_ax = SYS_GETPPID };
	struct sim_call before = sim_begin_call(SIM_SYSCALL_DONE, task);
	bool leaves = avxspec_syscall_done(&regs);

	sim_end_call(before);
	return leaves;
}

/* What runs on @cpu returns from a system call. */
void sim_syscall(u32 cpu)
{
	struct sim_task *curr = sim_cpus[cpu].curr;

	if (!curr)
		return;
	sim_this_cpu = cpu;
	sim_account(cpu);
	if (curr->is_watched && tell_syscall_done(curr))
		sim_end_slice(cpu);
	/* Here, and nowhere else, hiding takes effect. */
	if (curr->wants_hidden)
		curr->is_hidden = true;
}

/* What runs on @cpu begins another program, of which the scheduler is @told or not. */
void sim_exec(u32 cpu, bool told)
{
	struct sim_task *curr = sim_cpus[cpu].curr;

	if (!curr)
		return;
	sim_this_cpu = cpu;
	sim_account(cpu);
	curr->t.self_exec_id++;
	sim_let_go(curr);
	if (told)
		avxspec_exec(&curr->t, curr->t.pid, NULL);
}

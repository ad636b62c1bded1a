/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Notes which callbacks of the scheduler the kernel calls for the threads of a scene, which are
 * named "scene" and a number, in the order in which it does: attached to the scheduler's own
 * programs. And by whom these threads are interrupted that is none of them.
 */
#include <vmlinux.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

char _license[] SEC("license") = "GPL";

#define NAME_LENGTH 16

struct call {
	char task[NAME_LENGTH];
	char callback[NAME_LENGTH];
};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 22);
} calls SEC(".maps");

static bool is_of_a_scene(const char name[NAME_LENGTH])
{
	return name[0] == 's' && name[1] == 'c' && name[2] == 'e' && name[3] == 'n' &&
	       name[4] == 'e' && name[5] >= '0' && name[5] <= '9';
}

static int write(const char task[NAME_LENGTH], const char callback[NAME_LENGTH])
{
	struct call *call = bpf_ringbuf_reserve(&calls, sizeof(*call), 0);

	if (!call)
		return 0;
	__builtin_memcpy(call->task, task, NAME_LENGTH);
	__builtin_memcpy(call->callback, callback, NAME_LENGTH);
	bpf_ringbuf_submit(call, 0);
	return 0;
}

static int note(struct task_struct *p, const char callback[NAME_LENGTH])
{
	char name[NAME_LENGTH];

	BPF_CORE_READ_STR_INTO(&name, p, comm);
	return is_of_a_scene(name) ? write(name, callback) : 0;
}

/* Noted as "<" and the name of the other. */
SEC("tp_btf/sched_switch")
int BPF_PROG(interrupted, bool preempt, struct task_struct *prev, struct task_struct *next,
	     unsigned int prev_state)
{
	char name[NAME_LENGTH], other[NAME_LENGTH] = "<";

	BPF_CORE_READ_STR_INTO(&name, prev, comm);
	bpf_probe_read_kernel_str(other + 1, NAME_LENGTH - 1, next->comm);
	if (prev_state || !next->pid || !is_of_a_scene(name) || is_of_a_scene(next->comm))
		return 0;
	return write(name, other);
}

/* @args are what the kernel gives to the callback, in which @nr is the task. */
static int note_argument(u64 *args, u32 nr, const char callback[NAME_LENGTH])
{
	struct task_struct *p = NULL;

	bpf_probe_read_kernel(&p, sizeof(p), args + nr);
	return p ? note(p, callback) : 0;
}

/* Each has the name of what it is attached to. */
#define NOTE(name, noting)                                       \
	SEC("fentry")                                            \
	int BPF_PROG(avxspec_##name, u64 *args)                  \
	{                                                        \
		static const char callback[NAME_LENGTH] = #name; \
                                                                 \
		return noting;                                   \
	}
#define NOTE_ARGUMENT(name, nr) NOTE(name, note_argument(args, nr, callback))
#define NOTE_CURRENT(name) NOTE(name, note((void *)bpf_get_current_task(), callback))

NOTE_ARGUMENT(enable, 0)
NOTE_ARGUMENT(select_cpu, 0)
NOTE_ARGUMENT(enqueue, 0)
NOTE_ARGUMENT(dispatch, 1)
NOTE_ARGUMENT(yield, 0)
NOTE_ARGUMENT(running, 0)
NOTE_ARGUMENT(disable, 0)
NOTE_CURRENT(cpu_release)
NOTE_CURRENT(hidden_used)
NOTE_CURRENT(syscall_done)

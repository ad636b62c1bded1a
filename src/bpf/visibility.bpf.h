/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * This file hides AVX-512 from tasks, samples what they use of it, and hears of their
 * faults, system calls, fork and exec. class.bpf.h and remigrate.bpf.h decide what
 * follows from that.
 */
#ifndef AVXSPEC_VISIBILITY_BPF_H
#define AVXSPEC_VISIBILITY_BPF_H

#include "events.bpf.h"
#include "ledgers.bpf.h"
#include "policy.bpf.h"
#include "reach.bpf.h"
#include "roles.bpf.h"
#include "state.bpf.h"

/* The kernel patch adds these functions. A kernel without it has none of them. */
extern u32 bpf_task_hide_xfeatures(struct task_struct *p, u32 what) __ksym __weak;
extern u64 bpf_current_xfeatures_in_use(void) __ksym __weak;
extern void bpf_task_watch_syscalls(struct task_struct *p, bool on) __ksym __weak;

/* The C library sets up thread-local storage with this system call: see quiet.bpf.h. */
#define SYS_ARCH_PRCTL 158
#define ARCH_SET_FS 0x1002
/* AVX-512 stays hidden for no longer than this from a program that never makes that call. */
#define QUIET_MAX_NS (100 * 1000 * 1000ULL)

#define THREAD_OF_32_BITS (1UL << 29) /* TIF_ADDR32 */
#define TASK_OF_KERNEL 0x00200000     /* PF_KTHREAD */
#define WORKER_OF_USER 0x00004000     /* PF_USER_WORKER */

#define XFEATURE_ZMM_HI256 (1ULL << 6)
#define XFEATURES_AVX512 (7U << 5)
#define HIDE_CPUID (1U << 29) /* FPU_HIDE_CPUID */

u32 hiding; /* enum avx_hiding, for the agent */

#define LEFT_ALONE_MAX 256

/*
 * Programs that say that they get less done with AVX cores, as a trial found. The agent writes
 * them, and counts in left_alone_changes how often it did.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, LEFT_ALONE_MAX);
	__type(key, struct avx_owner);
	__type(value, u8);
} left_alone SEC(".maps");

u64 left_alone_changes;

/*
 * Returns a number for what is in force for programs. It changes with the policy, and with what
 * trials find.
 */
static u64 in_force_for_programs(const struct avx_policy *policy)
{
	return generation_of(policy) + (left_alone_changes << 32);
}

/*
 * Looks up whether the operator, or the process itself, wants it to be left alone, unless what is
 * known of that is up to date.
 */
static void look_for_name(struct task_struct *p, struct avx_process *process,
			  const struct avx_policy *policy)
{
	u64 in_force = in_force_for_programs(policy);
	struct avx_owner owner;

	if (process->judged_by == in_force)
		return;
	owner = owner_of(p);
	process->named = is_named(policy, &owner.program);
	process->left_alone = left_alone_changes && bpf_map_lookup_elem(&left_alone, &owner);
	process->exempt = process->named || !is_served(policy, process);
	process->judged_by = in_force;
}

static void hide(struct task_struct *p, struct task_ctx *tctx, u32 what)
{
	if (!traps() || tctx->hidden == !!what)
		return;
	tctx->hidden = what;
	bpf_task_hide_xfeatures(p, what);
}

static void show(struct task_struct *p, struct task_ctx *tctx)
{
	hide(p, tctx, 0);
}

/*
 * Returns what is hidden between phases. CPUID is hidden too where the CPU can do that and the
 * policy grants a time to programs that ask it, so that a library that looks for AVX-512 then
 * finds it. If one library has looked, that says nothing about the next one.
 */
static u32 hidden_between_phases(const struct avx_policy *policy)
{
	bool with_cpuid = hides_cpuid && policy->detection_grace_ns;

	return XFEATURES_AVX512 | (with_cpuid ? HIDE_CPUID : 0);
}

/*
 * Finds out whether the kernel hides. One that was built to do so finds out at boot whether
 * it may on this CPU. It tells by its answer for a task of this scheduler that goes to user
 * mode, like @p, which runs here. Nothing may be hidden from @p when this is called.
 */
static void try_to_hide(struct task_struct *p)
{
	if (hiding || !traps() || p->flags & (TASK_OF_KERNEL | WORKER_OF_USER))
		return;
	hiding = bpf_task_hide_xfeatures(p, XFEATURES_AVX512) ? HIDING_WORKS : HIDING_REFUSED;
	bpf_task_hide_xfeatures(p, 0);
}

/* Returns the present moment in the life of @p, which runs here. */
static struct avx_moment moment_of(const struct task_struct *p, const struct cpu_ctx *cctx)
{
	u64 now = scx_bpf_now();

	return (struct avx_moment){ .ran = ran_up_to(p, cctx, now), .now = now };
}

/* Turns on or off that the kernel tells of each system call of @p. */
static void watch_syscalls(struct task_struct *p, bool on)
{
	if (traps())
		bpf_task_watch_syscalls(p, on);
}

/*
 * Hides AVX-512 from @p or shows it when @p begins or goes on to run on this CPU. Global, like
 * some functions below, so that the verifier goes through it once.
 */
__noinline int hide_or_show(struct task_struct *p __arg_trusted,
			    struct task_ctx *tctx __arg_nonnull,
			    const struct avx_moment *at __arg_nonnull)
{
	const struct avx_policy *policy;
	struct avx_process *process;

	if (tctx->habit.class == CLASS_AVX) {
		show(p, tctx);
		return 0;
	}
	/* There is nothing to decide while AVX-512 is hidden: a fault ends that. */
	if (tctx->hidden)
		return 0;
	process = lookup_process(p);
	if (!process || !process->convicted)
		return 0;
	/* A new policy may decide otherwise for a process that the old one left alone. */
	policy = current_policy();
	if (!policy)
		return 0;
	look_for_name(p, process, policy);
	if (is_to_be_hidden(process, &tctx->habit, at))
		hide(p, tctx, hidden_between_phases(policy));
	return 0;
}

/*
 * @p, which is confined, does AVX work: sees to it that there is an AVX core that @p may use, and
 * that it stays one. Inline, for the reason that approach() gives.
 */
static __always_inline void keep_an_avx_core(struct task_struct *p, u64 now)
{
	if (nr_avx_cpus && !may_use_avx_core(p))
		ensure_an_avx_core(scx_bpf_task_cpu(p), true);
	note_confined(p, now);
}

/* @p is about to need an AVX core: sees to it that there is one. */
static void find_an_avx_core(struct task_struct *p, const struct avx_policy *policy, u64 now)
{
	if (has_no_choice(p))
		return;
	if (!nr_avx_cpus || follows_use(policy))
		ensure_an_avx_core(scx_bpf_task_cpu(p), is_confined(p) && !may_use_avx_core(p));
	if (is_confined(p))
		keep_an_avx_core(p, now);
}

/* @p is an AVX task from now on. */
static void begin_phase(struct task_struct *p, struct task_ctx *tctx,
			const struct avx_policy *policy, enum avx_cause cause,
			const struct avx_moment *at)
{
	/* Each switch on all CPUs reads this, so it is not written in vain. */
	if (!had_avx_work)
		had_avx_work = true;
	book_beginning(tctx, cause, generation_of(policy), at->ran);
	phase_begins(&tctx->phase, policy, at->ran);
	watch_syscalls(p, true);
	show(p, tctx);
	tell(p, EVENT_BEGAN, cause, 0);
	if (nr_nodes > 1 && policy->sizing == SIZING_CONTROLLER)
		use_node_of(scx_bpf_task_cpu(p));
	find_an_avx_core(p, policy, at->now);
}

static void end_phase(struct task_struct *p, struct task_ctx *tctx, const struct avx_policy *policy,
		      enum avx_boundary boundary, const struct avx_moment *at)
{
	/* First, because a tick that finds wide vectors meanwhile begins a phase, and watches. */
	watch_syscalls(p, false);
	if (!becomes_scalar(&tctx->habit))
		return;
	book_end(tctx, boundary, generation_of(policy), at->ran);
	phase_ends(&tctx->phase, at->ran);
	stat_add(phases, 1);
	tell(p, EVENT_ENDED, boundary, since(tctx->phase.began, at->ran));
}

/* Ends the phase of @p if @boundary is its end. Returns true if it is. */
static bool ends_phase(struct task_struct *p, struct task_ctx *tctx, enum avx_boundary boundary,
		       const struct avx_moment *at)
{
	const struct avx_policy *policy;

	if (tctx->habit.class != CLASS_AVX || tctx->hinted)
		return false;
	policy = current_policy();
	if (!policy || is_kept(&tctx->habit, policy, at->ran) ||
	    !phase_is_over(&tctx->phase, policy, boundary, at->ran))
		return false;

	end_phase(p, tctx, policy, boundary, at);
	return true;
}

/* An AVX task goes on: ends its phase if AVX cores are no longer for its program. */
__noinline int reconsider(struct task_struct *p __arg_trusted, struct task_ctx *tctx __arg_nonnull,
			  const struct avx_moment *at __arg_nonnull)
{
	const struct avx_policy *policy = current_policy();
	struct avx_process *process = lookup_process(p);

	if (!policy || !process || tctx->hinted)
		return 0;
	look_for_name(p, process, policy);
	if (!is_served(policy, process))
		end_phase(p, tctx, policy, BOUNDARY_ALONE, at);
	return 0;
}

/*
 * A task that AVX cores are not for is seen with wide vectors again. It is taken to have used them
 * all the time since it was last seen with them, which is @ran.
 */
static void account_alone(u64 ran)
{
	u64 lowered = at_most(ran, AVX_SLICE_MAX_NS);

	if (is_avx_cpu(bpf_get_smp_processor_id()))
		stat_add(lowered_avx_ns, lowered);
	else
		stat_add(lowered_ns, lowered);
}

/* Returns true if @p runs here and has something in the upper halves of zmm0-15. */
static bool uses_wide_vectors(const struct task_struct *p)
{
	return traps() && p == bpf_get_current_task_btf() &&
	       bpf_current_xfeatures_in_use() & XFEATURE_ZMM_HI256;
}

__noinline int saw_wide_vectors(struct task_struct *p __arg_trusted,
				struct task_ctx *tctx __arg_nonnull,
				const struct avx_moment *at __arg_nonnull)
{
	bool was_avx = tctx->habit.class == CLASS_AVX;
	u64 last_seen = tctx->habit.wide_at;
	const struct avx_policy *policy = current_policy();
	struct avx_process *process = lookup_process(p);

	if (!process || !policy)
		return 0;
	look_for_name(p, process, policy);
	wide_vectors_seen(process, &tctx->habit, at->ran);
	if (was_avx) {
		phase_goes_on(&tctx->phase, at->ran);
	} else if (is_served(policy, process)) {
		tctx->came_from = scx_bpf_task_cpu(p);
		begin_phase(p, tctx, policy, CAUSE_SAMPLE, at);
	} else {
		becomes_scalar(&tctx->habit);
		account_alone(since(last_seen, at->ran));
	}
	stat_add(samples, 1);
	return 0;
}

/*
 * Reads as much of the code at @ip as it can without sleeping, and returns how many bytes of
 * an instruction are known. It reads one byte more than an instruction can have, because that
 * makes two words, and the kernel copies a part of a word slowly.
 */
static u32 read_code(u8 code[INSN_BYTES], u64 ip)
{
	u32 readable;

	if (!bpf_probe_read_user(code, INSN_BYTES, (void *)ip))
		return INSN_MAX;
	/* The next page is not there. */
	readable = 0x1000 - (ip & 0xfff);
	if (readable >= INSN_BYTES || bpf_probe_read_user(code, readable, (void *)ip))
		return 0;
	return readable;
}

struct fault_code {
	union {
		u8 bytes[INSN_BYTES];
		u64 words[AVX_CODE_WORDS];
	};
};

/*
 * Returns what a fault was about. Global, so that the kernel's verifier does not go through
 * all that follows for each kind of instruction.
 */
__noinline int decode_fault(const struct fault_code *code __arg_nonnull, u32 readable, int trapnr)
{
	return verdict_of(trapnr, code->bytes, readable);
}

/* Learns about a task from code that it executes. Global, for the reason of decode_fault(). */
__noinline int weigh_code(const struct fault_code *code __arg_nonnull, u32 readable,
			  struct avx_habit *habit __arg_nonnull)
{
	struct avx_insn insn = decode_insn(code->bytes, readable);

	learn_from_code(habit, &insn);
	return 0;
}

/*
 * Returns what the fault at @ip was about. Most often it is the same code as the last time, and
 * need not be decoded.
 */
static int verdict_at(struct task_ctx *tctx, u64 ip, int trapnr)
{
	struct fault_code code = {};
	u32 readable = read_code(code.bytes, ip);
	bool is_whole = trapnr == TRAP_UD && readable == INSN_MAX;

	if (is_whole && code.words[0] == tctx->code[0] && code.words[1] == tctx->code[1])
		return tctx->verdict;
	/* All zeroes are an instruction that every CPU has, so they can stand for no code. */
	tctx->code[0] = is_whole ? code.words[0] : 0;
	tctx->code[1] = is_whole ? code.words[1] : 0;
	tctx->verdict = decode_fault(&code, readable, trapnr);
	return tctx->verdict;
}

/*
 * Learns from the instruction at which @p, which runs here, entered the kernel last. Threads of the
 * kernel have none.
 */
static void learn_from_tick(struct task_struct *p, struct task_ctx *tctx)
{
	struct fault_code code = {};
	const struct pt_regs *regs = (void *)bpf_task_pt_regs(p);

	if (!(p->flags & TASK_OF_KERNEL))
		weigh_code(&code, read_code(code.bytes, regs->ip), &tctx->habit);
}

/*
 * Hides AVX-512 from exec until the C library has started, because that looks for what the CPU has
 * in the meantime.
 */
static void begin_quiet(struct task_struct *p, struct task_ctx *tctx)
{
	tctx->quiet_until = p->se.sum_exec_runtime + QUIET_MAX_NS;
	hide(p, tctx, XFEATURES_AVX512);
	watch_syscalls(p, true);
}

static void end_quiet(struct task_struct *p, struct task_ctx *tctx)
{
	tctx->quiet_until = 0;
	show(p, tctx);
	watch_syscalls(p, false);
}

/*
 * A task used what was hidden from it. Nothing is hidden from it any more. Returns 1 if
 * it is to run elsewhere before it goes on: the kernel sees to that.
 */
SEC("?fmod_ret/bpf_hidden_xfeature_used")
int BPF_PROG(avxspec_hidden_used, struct pt_regs *regs, u32 hidden, int trapnr)
{
	struct cpu_ctx *cctx = lookup_cpu(bpf_get_smp_processor_id());
	struct task_struct *p = bpf_get_current_task_btf();
	struct task_ctx *tctx = lookup_task(p);
	struct avx_process *process = lookup_process(p);
	const struct avx_policy *policy = current_policy();
	struct avx_moment at;
	int verdict;

	if (!cctx || !tctx || !process || !policy)
		return 0;

	verdict = verdict_at(tctx, regs->ip, trapnr);
	at = moment_of(p, cctx);
	tctx->hidden = false;
	if (tctx->quiet_until)
		end_quiet(p, tctx);
	look_for_name(p, process, policy);
	learn_from_fault(process, &tctx->habit, policy, verdict, &at);
	book_fault(tctx, verdict);
	if (verdict == VERDICT_WIDE)
		stat_add(wide_faults, 1);
	else if (verdict == VERDICT_LIGHT)
		stat_add(light_faults, 1);
	else
		stat_add(other_faults, 1);
	if (verdict == VERDICT_LIGHT)
		note_light_fault(p, tctx->book.faults[VERDICT_LIGHT], regs->ip);

	if (tctx->habit.class == CLASS_AVX && !is_served(policy, process))
		becomes_scalar(&tctx->habit);
	if (tctx->habit.class != CLASS_AVX) {
		tell(p, EVENT_FAULT, verdict, 0);
		return 0;
	}
	begin_phase(p, tctx, policy, verdict == VERDICT_WIDE ? CAUSE_FAULT : CAUSE_MIXED, &at);
	if (compensates)
		look_back(p, cctx, &at);
	if (cctx->role == ROLE_AVX || !may_use_avx_core(p)) {
		if (nr_avx_cpus && cctx->role != ROLE_AVX)
			stat_add(in_place, 1);
		runs_as(p, tctx, cctx, true, at.now);
		return 0;
	}
	would_begin_avx(cctx);
	/* It is decided when @p is scheduled whether @p has to wait for an AVX core. */
	tctx->book.sent_to_avx++;
	tctx->came_from = bpf_get_smp_processor_id();
	return 1;
}

/* A task finished a system call, and is watched, as AVX tasks and starting programs are. */
SEC("?fmod_ret/bpf_syscall_done")
int BPF_PROG(avxspec_syscall_done, struct pt_regs *regs)
{
	struct cpu_ctx *cctx = lookup_cpu(bpf_get_smp_processor_id());
	struct task_struct *p = bpf_get_current_task_btf();
	struct task_ctx *tctx = lookup_task(p);
	struct avx_moment at;

	if (!cctx || !tctx)
		return 0;
	if (tctx->quiet_until) {
		if (regs->orig_ax == SYS_ARCH_PRCTL && regs->di == ARCH_SET_FS)
			end_quiet(p, tctx);
		return 0;
	}
	at = moment_of(p, cctx);
	if (!ends_phase(p, tctx, BOUNDARY_SYSCALL, &at))
		return 0;
	runs_as(p, tctx, cctx, false, at.now);
	hide_or_show(p, tctx, &at);
	if (cctx->role != ROLE_AVX)
		return 0;
	tctx->book.sent_to_scalar++;
	/* Its data is in the caches of that CPU, so it goes there if that CPU idles. */
	cctx->sent_to = tctx->came_from;
	return 1;
}

/*
 * @p, which runs here, began another program: forgets what was known of @p and of @process,
 * because that was true of the program before.
 */
static void begin_program(struct task_struct *p, struct task_ctx *tctx, struct avx_process *process,
			  const struct avx_policy *policy)
{
	struct cpu_ctx *cctx = lookup_cpu(bpf_get_smp_processor_id());
	struct avx_moment at;

	if (cctx && tctx->habit.class == CLASS_AVX) {
		at = moment_of(p, cctx);
		end_phase(p, tctx, policy, BOUNDARY_SYSCALL, &at);
		runs_as(p, tctx, cctx, false, at.now);
	}
	*process = (struct avx_process){};
	tctx->program = p->self_exec_id;
	tctx->habit = (struct avx_habit){};
	tctx->phase = (struct avx_phase){};
	/* The kernel has ended both, but the task may have been switched since. */
	show(p, tctx);
	watch_syscalls(p, false);
	tctx->hinted = false;
	tctx->quiet_until = 0;
	tctx->evidence = EVIDENCE_OPEN;
}

SEC("?tp_btf/sched_process_exec")
int BPF_PROG(avxspec_exec, struct task_struct *p, pid_t old_pid, struct linux_binprm *bprm)
{
	const struct avx_policy *policy = current_policy();
	struct task_ctx *tctx = lookup_task(p);
	struct avx_process *process;

	process = tctx && policy ? make_storage(&processes, p) : NULL;
	if (!process)
		return 0;
	begin_program(p, tctx, process, policy);
	bpf_task_storage_delete(&hints, p);
	look_for_name(p, process, policy);
	return 0;
}

/*
 * Finds out whether @p, which runs here, began a program that avxspec_exec has missed. Where a
 * task may be preempted within a tracepoint, as in 7.3, it may be preempted within avxspec_exec.
 * The kernel then does not call that for another task that begins a program on the same CPU.
 */
static void find_program(struct task_struct *p, struct task_ctx *tctx)
{
	const struct avx_policy *policy = current_policy();
	struct avx_process *process;

	if (tctx->program == p->self_exec_id)
		return;
	process = lookup_process(p);
	if (process && policy)
		begin_program(p, tctx, process, policy);
}

/*
 * @p enters the class, and may have been here before. When it left, the kernel ended hiding and
 * watching: AVX-512 is not hidden from @p, and its system calls are not watched, so nothing
 * would end a phase.
 */
static void begin_anew(struct task_struct *p, struct task_ctx *tctx)
{
	const struct avx_policy *policy = current_policy();
	struct avx_moment at = accounted_moment_of(p);

	tctx->hidden = false;
	tctx->quiet_until = 0;
	if (policy && tctx->habit.class == CLASS_AVX && !tctx->hinted)
		end_phase(p, tctx, policy, BOUNDARY_SWITCH, &at);
}

/* A new process is like the one that it was forked from. */
static s32 init_process(struct task_struct *p, bool forked)
{
	struct avx_process *process, *parent;

	if (p->group_leader->pid != p->pid)
		return 0;
	process = make_storage(&processes, p);
	if (!process)
		return -ENOMEM;
	if (!forked)
		return 0;
	bpf_rcu_read_lock();
	parent = lookup_process(bpf_get_current_task_btf());
	if (parent)
		*process = *parent;
	bpf_rcu_read_unlock();
	return 0;
}

#endif /* AVXSPEC_VISIBILITY_BPF_H */

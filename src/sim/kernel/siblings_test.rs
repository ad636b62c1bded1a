// SPDX-License-Identifier: GPL-2.0-only
//! Who gets a core of its own while there are AVX cores, and where it goes when it is done there.

use super::Task;
use super::engine::Engine;
use super::engine_test::{busy as endless, confine, forever, machine, machine_of, mask};
use super::program::Step;
use crate::bpf::intf::{AVX_TIER_COUNTERS, AVX_TIER_OBSERVE, AVX_TIER_TRAP, avx_tier};
use crate::sim::machine::hardware::Steady;
use crate::sim::machine::model::Kind;

const US: u64 = 1000;
const MS: u64 = 1000 * US;
const SECOND: u64 = 1000 * MS;

/// The last core is an AVX core.
fn machine_with_siblings(nr_cores: u32) -> Engine<Steady> {
    machine_with_siblings_and(nr_cores, &[])
}

fn machine_with_siblings_and(nr_cores: u32, turns: &[&str]) -> Engine<Steady> {
    machine_of_tier(AVX_TIER_TRAP, nr_cores, turns)
}

fn machine_of_tier(tier: avx_tier, nr_cores: u32, turns: &[&str]) -> Engine<Steady> {
    machine_with_caches(tier, 1, nr_cores, turns)
}

/// The first cores share the first cache, and so on.
fn machine_with_caches(
    tier: avx_tier,
    nr_llcs: u32,
    nr_cores: u32,
    turns: &[&str],
) -> Engine<Steady> {
    let mut settings = vec!["sizing=static", "avx-cpus=2"];
    settings.extend(turns);
    machine_of([nr_cores, nr_cores / nr_llcs], 2, tier, &settings)
}

/// The CPUs on which something runs.
fn busy(engine: &Engine<Steady>) -> Vec<u32> {
    (0..engine.kernel().nr_cpus()).filter(|cpu| engine.kernel().current(*cpu).is_some()).collect()
}

/// Twelve tasks, which run for about half of their time, and eight cores that are no AVX cores: who
/// had to share one begins its next turn on another, if there is one.
#[test]
fn nobody_shares_a_core_for_long_beside_one_that_idles() {
    const CORES: u32 = 9;
    let mut engine = machine_with_siblings(CORES);
    for n in 0..6 {
        let work = [Step::Work(Kind::Scalar, 200e3), Step::Sleep((251 + 17 * n) * US)];
        engine.spawn(forever(&work), 100);
    }
    for n in 0..6u32 {
        let ns = f64::from(203 + 16 * n) * 1e3;
        let work = [Step::Work(Kind::Scalar, ns), Step::Work(Kind::Heavy512, 20e3), Step::Syscall];
        let sleep = Step::Sleep((307 + 19 * u64::from(n)) * US);
        engine.spawn(forever(&[work[0], work[1], work[2], work[0], sleep]), 100);
    }
    engine.run_for(SECOND).unwrap();
    let (mut crowded, mut looks) = (0, 0);
    for _ in 0..20_000 {
        engine.run_for(50 * US).unwrap();
        let busy = busy(&engine);
        let nr_on = |core| busy.iter().filter(|cpu| **cpu % CORES == core).count();
        let on: Vec<usize> = (0..CORES - 1).map(nr_on).collect();
        crowded += usize::from(on.contains(&2) && on.contains(&0));
        looks += 1;
    }
    // 0.02, 0.15 where only those look for it who wake, and 0.5 where only those who come back.
    assert!(20 * crowded < looks, "{crowded} of {looks}");
}

/// Its caches are there. Both go to the same AVX core, and the other one leaves in between.
#[test]
fn who_is_done_with_avx_work_goes_back_to_where_it_was() {
    let settings = ["sizing=static", "avx-cpus=1", "return=syscall"];
    let mut engine = machine(6, AVX_TIER_TRAP, &settings);
    let tasks: Vec<Task> = [700e3, 900e3]
        .map(|ns| {
            let work = [Step::Work(Kind::Scalar, ns), Step::Work(Kind::Heavy512, 50e3)];
            engine.spawn(forever(&[work[0], work[1], Step::Syscall]), 100)
        })
        .to_vec();
    engine.run_for(SECOND).unwrap();
    let mut were_at = [[0; 6]; 2];
    for _ in 0..20_000 {
        engine.run_for(50 * US).unwrap();
        for (task, were_at) in tasks.iter().zip(&mut were_at) {
            were_at[engine.kernel().cpu_of(*task) as usize] += 1;
        }
    }
    for were_at in were_at {
        assert!(!engine.kernel().is_avx_core(0) && engine.kernel().is_avx_core(5));
        assert_eq!(were_at[..5].iter().filter(|times| **times > 0).count(), 1, "{were_at:?}");
        assert!(were_at[5] > 500, "{were_at:?}");
    }
}

/// Nothing was hidden from it yet, and so no fault says where it began.
#[test]
fn who_was_found_by_its_registers_goes_back_as_well() {
    let settings = ["sizing=static", "avx-cpus=1", "return=syscall"];
    let mut engine = machine(6, AVX_TIER_TRAP, &settings);
    let steps = [Step::Work(Kind::Heavy512, 30e6), Step::Syscall, Step::Work(Kind::Scalar, 30e6)];
    let task = engine.spawn(forever(&steps), 100);
    engine.allow(task, &mask(0b100100));
    engine.run_for(20 * MS).unwrap();
    assert_eq!(engine.kernel().cpu_of(task), 5);
    engine.allow(task, &mask(0b111111));
    engine.run_for(20 * MS).unwrap();
    assert_eq!(engine.kernel().cpu_of(task), 2);
}

/// Four tasks, three cores that are no AVX cores, and no AVX work.
#[test]
fn all_of_an_avx_core_is_better_than_half_of_another() {
    const CORES: u32 = 4;
    let mut engine = machine_with_siblings(CORES);
    for n in 0..4 {
        let steps = [Step::Work(Kind::Scalar, 300e3), Step::Sleep((171 + 22 * n) * US)];
        engine.spawn(forever(&steps), 100);
    }
    engine.run_for(SECOND).unwrap();
    let mut on_the_avx_core = 0;
    for _ in 0..20_000 {
        engine.run_for(50 * US).unwrap();
        let busy = busy(&engine);
        assert!(busy.iter().all(|cpu| !busy.contains(&(cpu + CORES))), "{busy:?}");
        on_the_avx_core += busy.iter().filter(|cpu| engine.kernel().is_avx_core(**cpu)).count();
    }
    // Where there is another core, it is not for them.
    assert!((500..5000).contains(&on_the_avx_core), "{on_the_avx_core}");
}

/// Also where half of another core idles now and then, for somebody who runs there for short.
#[test]
fn who_has_all_of_an_avx_core_stays_until_there_is_another() {
    const CORES: u32 = 4;
    let mut engine = machine_with_siblings(CORES);
    let long = Step::Work(Kind::Scalar, 1e9);
    let tasks: Vec<Task> = (0..4).map(|_| engine.spawn(forever(&[long]), 100)).collect();
    engine.spawn(forever(&[Step::Work(Kind::Scalar, 100e3), Step::Sleep(900 * US)]), 100);
    engine.run_for(SECOND).unwrap();
    let moves = |engine: &Engine<Steady>| -> u64 {
        tasks.iter().map(|task| engine.kernel().moves(*task)).sum()
    };
    let interruptions =
        |engine: &Engine<Steady>| (0..8).map(|cpu| engine.kernel().stats(cpu).kept).sum::<u64>();
    let before = (moves(&engine), interruptions(&engine));
    engine.run_for(SECOND).unwrap();
    let [moved, interrupted] = [moves(&engine) - before.0, interruptions(&engine) - before.1];
    assert!(moved < 20, "{moved} moves in a second");
    // Each is told so every 20 ms.
    assert!(interrupted < 500, "{interrupted} turns in a second");
    let on_avx = |task: &&Task| engine.kernel().is_avx_core(engine.kernel().cpu_of(**task));
    assert_eq!(tasks.iter().filter(on_avx).count(), 1);
}

/// Somebody has all of it. What begins elsewhere does not wait until that ends.
#[test]
fn who_has_all_of_an_avx_core_leaves_when_avx_work_comes() {
    let mut engine = machine_with_siblings(4);
    for _ in 0..4 {
        engine.spawn(endless(), 100);
    }
    let steps = [Step::Work(Kind::Scalar, 500e3), Step::Work(Kind::Heavy512, 50e3), Step::Syscall];
    for _ in 0..3 {
        engine.spawn(forever(&steps), 100);
    }
    engine.run_for(2 * SECOND).unwrap();
    let (waits, wait_ns) = (0..8).fold((0, 0), |(waits, ns), cpu| {
        let stats = engine.kernel().stats(cpu);
        (waits + stats.avx_waits, ns + stats.avx_wait_ns)
    });
    assert!(waits > 5000, "{waits}");
    assert!(wait_ns / waits < 20 * US, "{} ns on average", wait_ns / waits);
}

/// The looks at which other work was on an AVX core while a CPU that is none idled.
fn looks_at_other_work_beside_idle_cpus(engine: &mut Engine<Steady>) -> u32 {
    engine.run_for(SECOND).unwrap();
    let mut looks = 0;
    for _ in 0..20_000 {
        engine.run_for(50 * US).unwrap();
        let busy = busy(engine);
        let is_avx = |cpu: &u32| engine.kernel().is_avx_core(*cpu);
        let idles = |cpu: &u32| !busy.contains(cpu) && !is_avx(cpu);
        looks += u32::from(
            busy.iter().any(is_avx) && (0..engine.kernel().nr_cpus()).any(|it| idles(&it)),
        );
    }
    looks
}

fn who_sleeps_now_and_then(engine: &mut Engine<Steady>, nr: u64) {
    for n in 0..nr {
        let steps = [Step::Work(Kind::Scalar, 300e3), Step::Sleep((171 + 22 * n) * US)];
        engine.spawn(forever(&steps), 100);
    }
}

#[test]
fn avx_cores_that_are_not_lent_are_for_who_finds_no_other_cpu() {
    let mut engine = machine_with_siblings_and(4, &["lend-idle-cores=off"]);
    who_sleeps_now_and_then(&mut engine, 6);
    assert_eq!(looks_at_other_work_beside_idle_cpus(&mut engine), 0);
    // Now also while somebody is on the way from there.
    who_sleeps_now_and_then(&mut engine, 4);
    let looks = looks_at_other_work_beside_idle_cpus(&mut engine);
    assert!(looks < 1000, "{looks}");
}

/// Its other half is as good a place, and is not for AVX work.
#[test]
fn half_of_a_core_is_not_lent() {
    let mut engine = machine_with_siblings_and(2, &["avx-cpus=1"]);
    who_sleeps_now_and_then(&mut engine, 5);
    let looks = looks_at_other_work_beside_idle_cpus(&mut engine);
    // 99 while somebody is on the way from there, and 1980 if it is.
    assert!(looks < 400, "{looks}");
}

/// Eight tasks on as many CPUs, of which two end that ran on two cores.
#[test]
fn who_shares_an_avx_core_leaves_it_for_half_of_another() {
    let mut engine = machine_with_siblings(4);
    for n in 0..8 {
        let end = if n < 2 { Step::Exit } else { Step::Syscall };
        engine.spawn(forever(&[Step::Work(Kind::Scalar, 500e6), end]), 100);
    }
    let on_avx = |engine: &Engine<Steady>| {
        busy(engine).iter().filter(|cpu| engine.kernel().is_avx_core(**cpu)).count()
    };
    engine.run_for(400 * MS).unwrap();
    assert_eq!((busy(&engine).len(), on_avx(&engine)), (8, 2));
    engine.run_for(SECOND).unwrap();
    assert_eq!((busy(&engine).len(), on_avx(&engine)), (6, 1), "{:?}", busy(&engine));
}

/// Two that never sleep are confined to the CPUs of one of four cores for a while: on which cores
/// they are before, and after they may use these CPUs.
fn cores_when_confined_no_more(
    engine: &mut Engine<Steady>,
    work: Kind,
    core: u32,
    cpus: u64,
) -> [Vec<u32>; 2] {
    let tasks = [(); 2].map(|_| engine.spawn(forever(&[Step::Work(work, 1e9)]), 100));
    [1 << core | 1 << (core + 4), cpus].map(|cpus| {
        confine(engine, &tasks, cpus);
        engine.run_for(500 * MS).unwrap();
        tasks.map(|task| engine.kernel().cpu_of(task) % 4).to_vec()
    })
}

/// Nobody wakes up, who would look for a core; and whatever the scheduler is told to do.
#[test]
fn who_shares_a_core_goes_to_one_that_idles() {
    let (observe, trap) = (AVX_TIER_OBSERVE, AVX_TIER_TRAP);
    let ways: [(avx_tier, &[&str], Kind); 6] = [
        (observe, &[], Kind::Heavy512),
        (trap, &["avx-cores-for=nobody"], Kind::Scalar),
        (trap, &[], Kind::Scalar),
        (trap, &["lend-idle-cores=off"], Kind::Scalar),
        (trap, &["sizing=list", "avx-cpu-list=2,3,6,7"], Kind::Heavy512),
        (trap, &["sizing=controller"], Kind::Heavy512),
    ];
    for (tier, turns, work) in ways {
        let mut engine = machine_of_tier(tier, 4, turns);
        let [before, after] = cores_when_confined_no_more(&mut engine, work, 3, 0b1111_1111);
        assert_eq!(before, [3, 3], "{turns:?}");
        assert_ne!(after[0], after[1], "{tier} {turns:?}");
        // There they stay, and no CPU is kept for who did not come.
        let moves = engine.moves();
        engine.run_for(SECOND).unwrap();
        assert_eq!(engine.moves(), moves, "{tier} {turns:?}");
        for _ in 0..8 {
            engine.spawn(endless(), 100);
        }
        engine.run_for(100 * MS).unwrap();
        assert_eq!(busy(&engine).len(), 8, "{tier} {turns:?}");
    }
}

/// Not to a core that it may not use, nor to half of one.
#[test]
fn who_finds_no_better_core_stays() {
    let mut engine = machine_with_siblings_and(4, &["avx-cores-for=nobody"]);
    let [_, after] = cores_when_confined_no_more(&mut engine, Kind::Scalar, 1, 0b11_0011);
    assert!(after.contains(&0) && after.contains(&1), "{after:?}");
    for _ in 0..3 {
        engine.spawn(endless(), 100);
    }
    engine.run_for(500 * MS).unwrap();
    let moves = engine.moves();
    engine.run_for(SECOND).unwrap();
    assert_eq!((engine.moves(), busy(&engine).len()), (moves, 5));
}

/// Who waited behind it has the CPU then, for nobody else would call that.
#[test]
fn who_leaves_for_an_idle_core_leaves_its_cpu_to_who_waits() {
    let mut engine = machine_with_siblings_and(2, &["avx-cores-for=nobody"]);
    // CPUs 0 and 2 are siblings, and whoever is on the other core leaves it soon.
    let (heavy, light, sibling) =
        (engine.spawn(endless(), 10000), engine.spawn(endless(), 1), engine.spawn(endless(), 100));
    let short = [Step::Work(Kind::Scalar, 500e6), Step::Sleep(100 * SECOND)];
    let others = [(); 2].map(|_| engine.spawn(forever(&short), 100));
    confine(&mut engine, &[heavy, light], 0b0001);
    confine(&mut engine, &[sibling], 0b0100);
    confine(&mut engine, &others, 0b1010);
    engine.run_for(100 * MS).unwrap();
    confine(&mut engine, &[heavy], 0b1011);
    for _ in 0..1000 {
        engine.run_for(MS).unwrap();
        engine.kernel().audit().unwrap();
    }
    for task in [heavy, light, sibling] {
        assert_eq!(engine.kernel().current(engine.kernel().cpu_of(task)), Some(task));
    }
}

/// One of two goes to the other cache, where a core idles, and not to the AVX core nearby and back.
#[test]
fn who_shares_a_core_goes_to_another_cache_before_it_borrows() {
    for (tier, turns) in
        [(AVX_TIER_TRAP, &["sizing=list", "avx-cpu-list=1,5"][..]), (AVX_TIER_OBSERVE, &[])]
    {
        let mut engine = machine_with_caches(tier, 2, 4, turns);
        let [_, after] = cores_when_confined_no_more(&mut engine, Kind::Scalar, 0, 0b1111_1111);
        assert_ne!(after[0], after[1], "{tier}");
        let moves = engine.moves();
        engine.run_for(SECOND).unwrap();
        assert_eq!(engine.moves(), moves, "{tier}");
    }
}

/// AVX work that may use no AVX core leaves for other cores, as other work does.
#[test]
fn avx_work_without_an_avx_core_does_not_share_beside_an_idle_core() {
    let turns = ["sizing=list", "avx-cpu-list=3,7"];
    let mut engine = machine_with_siblings_and(4, &turns);
    let [before, after] = cores_when_confined_no_more(&mut engine, Kind::Heavy512, 0, 0b0111_0111);
    assert_eq!(before, [0, 0]);
    assert_ne!(after[0], after[1]);
}

/// A sibling that runs every other time when a turn ends is no reason to leave one's caches.
#[test]
fn who_shares_a_core_for_a_moment_stays_in_its_cache() {
    for tier in [AVX_TIER_TRAP, AVX_TIER_OBSERVE] {
        let mut engine = machine_with_caches(tier, 2, 4, &["avx-cores-for=nobody"]);
        let (task, beside) = (engine.spawn(endless(), 100), engine.spawn(endless(), 100));
        let now_and_then = [Step::Work(Kind::Scalar, 19e6), Step::Sleep(21 * MS)];
        let sibling = engine.spawn(forever(&now_and_then), 100);
        confine(&mut engine, &[task], 0b0001);
        confine(&mut engine, &[beside], 0b0010);
        confine(&mut engine, &[sibling], 0b1_0000);
        engine.run_for(100 * MS).unwrap();
        confine(&mut engine, &[task], 0b1111_1111);
        for _ in 0..1000 {
            engine.run_for(MS).unwrap();
            assert_eq!(engine.kernel().cpu_of(task), 0, "{tier}");
        }
    }
}

/// Beside AVX work, which a low clock tells of: who comes is measured since then, and who goes until
/// then. Ticks look at clocks only where they are counted, which nothing does here.
#[test]
fn clocks_are_no_evidence_of_the_time_in_which_a_cpu_idled() {
    let mut engine = machine_of([1, 1], 2, AVX_TIER_COUNTERS, &[]);
    let wide = engine.spawn(forever(&[Step::Work(Kind::Heavy512, 1e9)]), 100);
    let scalar = forever(&[Step::Sleep(5 * MS), Step::Work(Kind::Scalar, 1e6)]);
    let scalar = engine.spawn(scalar, 100);
    confine(&mut engine, &[wide], 1);
    confine(&mut engine, &[scalar], 2);
    let run_until = |engine: &mut Engine<Steady>, runs: bool| {
        while (engine.kernel().current(1) == Some(scalar)) != runs {
            engine.run_for(10 * US).unwrap();
        }
        let [now, from] = [engine.now(), engine.kernel().suspected_at(1)];
        assert!(now - from <= 10 * US, "{} us", (now - from) / US);
        from
    };
    engine.run_for(MS).unwrap();
    let came_at = run_until(&mut engine, true);
    let went_at = run_until(&mut engine, false);
    // With what it costs to switch, and to share a core.
    let window = went_at - came_at;
    assert!((MS..2 * MS).contains(&window), "{} us", window / US);
}

// SPDX-License-Identifier: GPL-2.0-only
//! The modelled hardware against what is published of the real one.

use proptest::prelude::*;

use super::model::{Kind, Licence, Model};
use super::{Machine, Topology};
use crate::processors::Step;

const US: u64 = 1000;
const MS: u64 = 1000 * US;

fn model(name: &str) -> Model {
    Model::named(name).unwrap()
}

/// A machine, and how much work each of its CPUs has done.
struct Bench {
    machine: Machine,
    done: Vec<f64>,
    changes: usize,
}

impl Bench {
    fn new(model: &Model, topology: Topology) -> Self {
        let done = vec![0.0; topology.cpus.len()];
        Self { machine: Machine::new(model, topology), done, changes: 0 }
    }

    /// One core alone in its socket, with scalar code.
    fn one_core(model: &Model) -> Self {
        let mut bench = Self::new(model, Topology::regular(1, 1, 1, 1));
        bench.run(0, Kind::Scalar);
        bench
    }

    fn run(&mut self, cpu: usize, kind: Kind) {
        self.machine.run(cpu, Some(kind));
    }

    fn idle(&mut self, cpu: usize) {
        self.machine.run(cpu, None);
    }

    /// A single instruction, and scalar code after it.
    fn blip(&mut self, cpu: usize, kind: Kind) {
        self.run(cpu, kind);
        self.run(cpu, Kind::Scalar);
    }

    fn until(&mut self, time: u64) {
        while self.machine.now() < time {
            let next = self.machine.next_change().map_or(time, |next| next.min(time));
            let ns = (next - self.machine.now()) as f64;
            for (cpu, done) in self.done.iter_mut().enumerate() {
                *done += self.machine.rate(cpu) * ns;
            }
            self.changes += self.machine.advance(next).len();
        }
    }

    /// What the only core would have done more without licences, in microseconds at full speed.
    fn lost_us(&self) -> f64 {
        (self.machine.now() as f64 - self.done[0]) / US as f64
    }

    /// What a CPU looks like just after a time.
    fn seen(&mut self, cpu: usize, time: u64) -> (f64, u32, Licence) {
        self.until(time);
        (self.machine.rate(cpu), self.machine.frequency_mhz(cpu), self.machine.licence(cpu))
    }

    /// From now on until a time, each rate of the first CPU and how long it has it, in us.
    fn rates(&mut self, time: u64) -> Vec<(f64, u64)> {
        let mut found: Vec<(f64, u64)> = Vec::new();
        while self.machine.now() < time {
            let (rate, since) = (self.machine.rate(0), self.machine.now());
            let next = self.machine.next_change().map_or(time, |next| next.min(time));
            self.until(next);
            let us = (next - since) / US;
            match found.last_mut() {
                Some((last, lasts)) if *last == rate => *lasts += us,
                _ => found.push((rate, us)),
            }
        }
        found
    }
}

fn assert_close(found: f64, expected: f64) {
    assert!((found - expected).abs() < 1e-6, "{found}, not {expected}");
}

/// Downs, "512-bit Integer SIMD": throttled for 9 us, halted for 11, slow for 650, halted for 11.
#[test]
fn a_light_instruction_costs_what_downs_saw() {
    let mut bench = Bench::one_core(&model("xeon-w-2104"));
    bench.until(5 * MS);
    bench.blip(0, Kind::Light512);
    let slow = 2800.0 / 3200.0;
    let expected = [(0.25, 9), (0.0, 10), (slow, 651), (0.0, 10), (1.0, 4320)];
    assert_eq!(bench.rates(10 * MS), expected);
    // 6.75 while throttled, twice 10 halted, an eighth of 651.
    assert_close(bench.lost_us(), 108.125);
}

#[test]
fn the_licence_and_the_clock_go_down_and_up_together() {
    let mut bench = Bench::one_core(&model("xeon-w-2104"));
    bench.blip(0, Kind::Light512);
    assert_eq!(bench.seen(0, 9 * US - 1), (0.25, 3200, Licence::L0));
    assert_eq!(bench.seen(0, 9 * US), (0.0, 3200, Licence::L0));
    assert_eq!(bench.seen(0, 19 * US), (0.875, 2800, Licence::L1));
    assert_eq!(bench.seen(0, 670 * US - 1), (0.875, 2800, Licence::L1));
    assert_eq!(bench.seen(0, 670 * US), (0.0, 2800, Licence::L1));
    assert_eq!(bench.seen(0, 680 * US), (1.0, 3200, Licence::L0));
    assert_eq!(bench.machine.next_change(), None);
}

/// Assumption: Downs has no heavy instructions.
#[test]
fn a_heavy_instruction_goes_down_in_two_steps_and_up_in_one() {
    let mut bench = Bench::one_core(&model("xeon-w-2104"));
    bench.blip(0, Kind::Heavy512);
    assert_eq!(bench.seen(0, 19 * US), (0.0, 2800, Licence::L1));
    assert_eq!(bench.seen(0, 29 * US), (0.75, 2400, Licence::L2));
    assert_eq!(bench.seen(0, 670 * US), (0.0, 2400, Licence::L2));
    assert_eq!(bench.seen(0, 680 * US), (1.0, 3200, Licence::L0));
    bench.until(MS);
    // 6.75 while throttled, three times 10 halted, a quarter of 641.
    assert_close(bench.lost_us(), 197.0);
}

/// Another assumption.
#[test]
fn a_heavy_instruction_may_go_down_in_one_step() {
    let model = Model { halts_at_each_licence: false, ..model("xeon-w-2104") };
    let mut bench = Bench::one_core(&model);
    bench.blip(0, Kind::Heavy512);
    let expected = [(0.25, 9), (0.0, 10), (0.75, 651), (0.0, 10), (1.0, 320)];
    assert_eq!(bench.rates(MS), expected);
    assert_close(bench.lost_us(), 6.75 + 20.0 + 651.0 / 4.0);
}

/// Downs saw narrow code throttled near wide instructions alone, to within about 80. That all of it
/// is, as elsewhere here, is an assumption.
#[test]
fn throttling_may_be_for_wide_code_alone() {
    let model = Model { throttles_narrow: false, ..model("xeon-w-2104") };
    let mut bench = Bench::one_core(&model);
    bench.run(0, Kind::Light512);
    bench.until(4 * US);
    assert_eq!(bench.machine.rate(0), 0.25);
    bench.run(0, Kind::Scalar);
    assert_eq!(bench.rates(19 * US), [(1.0, 5), (0.0, 10)]);
}

/// Downs saw it throttled at first, which is left out; the clock stays.
#[test]
fn light_256_bit_code_costs_nothing() {
    let mut bench = Bench::one_core(&model("xeon-w-2104"));
    bench.run(0, Kind::Light256);
    assert_eq!(bench.machine.next_change(), None);
    assert_eq!(bench.rates(MS), [(1.0, 1000)]);
}

/// As Intel's optimization manual has it.
#[test]
fn heavy_256_bit_and_light_512_bit_code_need_the_same() {
    for kind in [Kind::Heavy256, Kind::Light512] {
        let mut bench = Bench::one_core(&model("gold-6130"));
        bench.run(0, kind);
        assert_eq!(bench.seen(0, 5 * MS), (3600.0 / 3700.0, 3600, Licence::L1));
    }
}

/// Downs, in a footnote of "Attenuation": after bursts of 100 us the clock is back 750 us after
/// they began.
#[test]
fn the_hold_counts_from_the_end_of_a_burst() {
    let mut bench = Bench::one_core(&model("xeon-w-2104"));
    bench.run(0, Kind::Light512);
    bench.until(100 * US);
    bench.run(0, Kind::Scalar);
    assert_eq!(bench.rates(MS), [(0.875, 670), (0.0, 10), (1.0, 220)]);
}

/// Downs, "Attenuation": wide instructions begin again just before the clock rises, at full speed.
/// It rises all the same: they are throttled, and it goes down once more.
#[test]
fn a_burst_just_before_the_rise_makes_two_transitions() {
    const PERIOD: u64 = 765 * US;
    let mut bench = Bench::one_core(&model("xeon-w-2104"));
    for n in 0..3 {
        bench.until(n * PERIOD);
        bench.run(0, Kind::Light512);
        if n > 0 {
            let expected = [(0.875, 5), (0.0, 10), (0.25, 9), (0.0, 10), (0.875, 66)];
            assert_eq!(bench.rates(n * PERIOD + 100 * US), expected);
        }
        bench.until(n * PERIOD + 100 * US);
        bench.run(0, Kind::Scalar);
    }
    assert_eq!(bench.rates(3 * PERIOD - US), [(0.875, 664)]);
}

#[test]
fn a_burst_before_the_rise_is_settled_prevents_it() {
    let end_of_hold = |begin, release_ns| {
        let mut bench = Bench::one_core(&Model { release_ns, ..model("xeon-w-2104") });
        bench.blip(0, Kind::Light512);
        bench.until(begin);
        bench.blip(0, Kind::Light512);
        bench.rates(3 * MS).len()
    };
    // Slow, halted, fast; or the same after having been fast, throttled and halted.
    let (prevented, too_late) = (3, 7);
    assert_eq!(end_of_hold(661 * US - 1, 9 * US), prevented);
    assert_eq!(end_of_hold(661 * US, 9 * US), too_late);
    assert_eq!(end_of_hold(670 * US - 1, 9 * US), too_late);
    assert_eq!(end_of_hold(670 * US - 1, 0), prevented);
}

/// Assumption: Downs's bursts went on after the clock had risen.
#[test]
fn a_single_instruction_just_before_the_rise_is_answered_after_it() {
    let mut bench = Bench::one_core(&model("xeon-w-2104"));
    bench.blip(0, Kind::Light512);
    bench.until(665 * US);
    bench.blip(0, Kind::Light512);
    let expected = [(0.875, 5), (0.0, 10), (0.25, 9), (0.0, 10), (0.875, 636), (0.0, 10)];
    assert_eq!(bench.rates(1345 * US), expected);
    assert_eq!(bench.rates(3 * MS), [(1.0, 1655)]);
}

/// Assumption, as all of it that is about heavy instructions.
#[test]
fn what_needs_more_than_is_held_is_not_kept_waiting_for_the_rise() {
    let mut bench = Bench::one_core(&model("xeon-w-2104"));
    bench.blip(0, Kind::Light512);
    bench.until(665 * US);
    bench.run(0, Kind::Heavy512);
    assert_eq!(bench.rates(MS), [(0.875 / 4.0, 9), (0.0, 10), (0.75, 316)]);
}

/// What is still held when the rise is settled is kept, and asked for no more.
#[test]
fn a_rise_to_a_licence_in_between_answers_who_needs_that() {
    let mut bench = Bench::one_core(&model("xeon-w-2104"));
    bench.blip(0, Kind::Heavy512);
    bench.until(100 * US);
    bench.blip(0, Kind::Light512);
    bench.until(665 * US);
    bench.blip(0, Kind::Light512);
    assert_eq!(bench.rates(3 * MS), [(0.75, 5), (0.0, 10), (0.875, 655), (0.0, 10), (1.0, 1655)]);
}

#[test]
fn bursts_within_the_hold_keep_the_licence() {
    let mut bench = Bench::one_core(&model("xeon-w-2104"));
    bench.blip(0, Kind::Light512);
    bench.until(20 * US);
    for n in 1..50 {
        bench.until(n * 600 * US);
        bench.blip(0, Kind::Light512);
        assert_eq!(bench.machine.rate(0), 0.875);
    }
    assert_eq!(bench.rates(50 * 600 * US), [(0.875, 600)]);
    assert_close(bench.lost_us(), 6.75 + 10.0 + (30_000.0 - 19.0) / 8.0);
}

#[test]
fn a_burst_each_millisecond_pays_each_time() {
    let mut bench = Bench::one_core(&model("xeon-w-2104"));
    for n in 0..100 {
        bench.until(n * MS);
        bench.blip(0, Kind::Light512);
    }
    bench.until(100 * MS);
    assert_close(bench.lost_us(), 100.0 * 108.125);
}

/// Assumption: Downs's bursts began before the halt.
#[test]
fn a_burst_during_the_halt_upwards_asks_again() {
    let mut bench = Bench::one_core(&model("xeon-w-2104"));
    bench.blip(0, Kind::Light512);
    bench.until(672 * US);
    bench.run(0, Kind::Light512);
    let expected = [(0.0, 8), (0.25, 9), (0.0, 10), (0.875, 301)];
    assert_eq!(bench.rates(MS), expected);
}

/// Assumption: this is about heavy instructions.
#[test]
fn more_may_be_asked_for_during_the_request_and_afterwards() {
    let mut bench = Bench::one_core(&model("xeon-w-2104"));
    bench.run(0, Kind::Light512);
    bench.until(5 * US);
    bench.run(0, Kind::Heavy512);
    assert_eq!(bench.seen(0, 29 * US), (0.75, 2400, Licence::L2));

    let mut bench = Bench::one_core(&model("xeon-w-2104"));
    bench.run(0, Kind::Light512);
    bench.until(100 * US);
    bench.run(0, Kind::Heavy512);
    assert_eq!(bench.rates(200 * US), [(0.875 / 4.0, 9), (0.0, 10), (0.75, 81)]);
}

/// The same.
#[test]
fn each_licence_is_held_for_itself() {
    let mut bench = Bench::one_core(&model("xeon-w-2104"));
    bench.blip(0, Kind::Heavy512);
    bench.until(500 * US);
    bench.blip(0, Kind::Light512);
    assert_eq!(bench.seen(0, 680 * US), (0.875, 2800, Licence::L1));
    assert_eq!(bench.seen(0, 1170 * US - 1), (0.875, 2800, Licence::L1));
    assert_eq!(bench.seen(0, 1180 * US), (1.0, 3200, Licence::L0));
}

#[test]
fn siblings_share_the_core_and_its_licence() {
    let mut bench = Bench::new(&model("xeon-w-2104"), Topology::regular(1, 1, 2, 2));
    bench.run(0, Kind::Scalar);
    assert_eq!((bench.machine.rate(0), bench.machine.rate(2)), (1.0, 0.0));
    assert_eq!(bench.machine.run(2, Some(Kind::Heavy512)).len(), 2);
    assert_eq!((bench.machine.rate(0), bench.machine.rate(2)), (0.15, 0.15));
    assert_eq!(bench.machine.rate(1), 0.0);
    bench.until(15 * US);
    assert_eq!((bench.machine.rate(0), bench.machine.rate(2)), (0.0, 0.0));
    bench.until(MS);
    for cpu in [0, 2] {
        assert_close(bench.machine.rate(cpu), 0.6 * 0.75);
        assert_eq!(bench.machine.licence(cpu), Licence::L2);
    }
    bench.idle(2);
    assert_eq!(bench.seen(0, MS + 670 * US - 1), (0.75, 2400, Licence::L2));
    assert_eq!(bench.seen(0, MS + 680 * US), (1.0, 3200, Licence::L0));
    assert_eq!(bench.machine.licence(1), Licence::L0);
}

#[test]
fn who_waits_for_its_caches_leaves_the_core_to_its_sibling() {
    let mut bench = Bench::new(&model("xeon-w-2104"), Topology::regular(1, 1, 2, 2));
    bench.run(0, Kind::Scalar);
    bench.run(2, Kind::Scalar);
    assert_eq!(bench.machine.wait(2, true), [0]);
    assert_eq!((bench.machine.rate(0), bench.machine.rate(2)), (1.0, 0.6));
    assert_eq!(bench.machine.wait(2, true), [0usize; 0]);
    bench.machine.wait(0, true);
    assert_eq!((bench.machine.rate(0), bench.machine.rate(2)), (1.0, 1.0));
    assert_eq!(bench.machine.wait(2, false), [0]);
    bench.idle(0);
    // Whoever comes has nothing to wait for yet, and an idle CPU never has.
    bench.run(0, Kind::Scalar);
    bench.machine.wait(1, true);
    bench.run(3, Kind::Scalar);
    for (cpu, rate) in [(0, 0.6), (2, 0.6), (1, 0.0), (3, 1.0)] {
        assert_eq!(bench.machine.rate(cpu), rate, "CPU {cpu}");
    }
}

/// On a socket of the Xeon Gold 6130 the clock drops with the third active core.
#[test]
fn the_third_active_core_halts_the_others() {
    let mut bench = Bench::new(&model("gold-6130"), Topology::regular(2, 1, 16, 2));
    for cpu in [0, 1, 16, 33] {
        bench.run(cpu, Kind::Scalar);
    }
    bench.until(MS);
    assert_eq!(bench.changes, 0);
    // A sibling is no core more.
    assert_close(bench.machine.rate(1), 0.6);

    let mut changed = bench.machine.run(2, Some(Kind::Scalar)).to_vec();
    changed.sort();
    assert_eq!(changed, [0, 1, 2, 33]);
    let lower = 3500.0 / 3700.0;
    assert_eq!(bench.seen(2, MS + 1), (lower, 3500, Licence::L0));
    assert_eq!(bench.seen(0, MS + 10 * US - 1), (0.0, 3700, Licence::L0));
    assert_eq!(bench.seen(0, MS + 10 * US), (lower, 3500, Licence::L0));
    // The other socket does not mind.
    assert_eq!(bench.machine.frequency_mhz(16), 3700);
}

#[test]
fn a_core_is_active_until_it_was_idle_for_a_while() {
    let mut bench = Bench::new(&model("gold-6130"), Topology::regular(1, 1, 16, 1));
    for cpu in 0..3 {
        bench.run(cpu, Kind::Scalar);
    }
    bench.until(MS);
    bench.changes = 0;
    for n in 0..10 {
        bench.idle(2);
        bench.until(MS + (n + 1) * 499 * US);
        bench.run(2, Kind::Scalar);
    }
    assert_eq!(bench.changes, 0);

    let start = bench.machine.now();
    bench.idle(2);
    let lower = 3500.0 / 3700.0;
    assert_eq!(bench.rates(start + MS), [(lower, 500), (0.0, 10), (1.0, 490)]);
}

#[test]
fn steps_may_come_without_halts() {
    let model = Model { count_step_halts: false, ..model("gold-6130") };
    let mut bench = Bench::new(&model, Topology::regular(1, 1, 16, 1));
    for cpu in 0..16 {
        bench.run(cpu, Kind::Scalar);
        assert!((0..=cpu).all(|cpu| bench.machine.rate(cpu) > 0.7));
    }
    assert_eq!(bench.seen(0, 1), (2800.0 / 3700.0, 2800, Licence::L0));
    assert_eq!(bench.machine.next_change(), None);
    // Licences still do.
    bench.run(0, Kind::Light512);
    assert_eq!(bench.seen(0, 10 * US).0, 0.0);
}

#[test]
fn a_licence_that_leaves_the_clock_alone_halts_nobody() {
    let mut model = model("gold-6130");
    model.steps = vec![Step { up_to_cores: 16, mhz: [3000, 3000, 2000] }];
    let mut bench = Bench::one_core(&model);
    bench.blip(0, Kind::Light512);
    assert_eq!(bench.seen(0, 9 * US), (1.0, 3000, Licence::L1));
    assert_eq!(bench.seen(0, 670 * US), (1.0, 3000, Licence::L0));
    bench.blip(0, Kind::Heavy512);
    assert_eq!(bench.rates(MS), [(0.25, 9), (0.0, 10), (2.0 / 3.0, 311)]);
}

#[test]
fn what_sleeps_gives_its_licence_back_for_nothing() {
    let mut bench = Bench::one_core(&model("xeon-w-2104"));
    bench.run(0, Kind::Heavy512);
    bench.until(MS);
    bench.idle(0);
    assert_eq!(bench.seen(0, MS + 670 * US), (0.0, 3200, Licence::L0));
    assert_eq!(bench.machine.next_change(), None);
    bench.run(0, Kind::Scalar);
    assert_eq!(bench.machine.rate(0), 1.0);
}

/// Linux lets a core that is to idle for so long sleep more deeply. One of two siblings keeps it
/// awake.
#[test]
fn a_core_that_idled_for_long_wakes_up_late() {
    let mut machine = Machine::new(&model("gold-6130"), Topology::regular(1, 1, 2, 2));
    machine.run(0, Some(Kind::Scalar));
    machine.advance(MS);
    machine.run(0, None);
    machine.run(1, Some(Kind::Scalar));
    let wakes_in = |machine: &Machine| [0, 1, 2, 3].map(|cpu| machine.wakes_in(cpu) / US);
    assert_eq!(wakes_in(&machine), [2, 0, 2, 0]);
    machine.advance(MS + 20 * US);
    assert_eq!(wakes_in(&machine), [10, 0, 10, 0]);
    machine.advance(MS + 600 * US);
    assert_eq!(wakes_in(&machine), [133, 0, 133, 0]);
    machine.run(2, Some(Kind::Scalar));
    assert_eq!(wakes_in(&machine), [0, 0, 0, 0]);
}

#[test]
fn null_models_never_change_the_rate() {
    for name in ["ice-lake", "sapphire-rapids", "zen4"] {
        let mut bench = Bench::new(&model(name), Topology::regular(1, 2, 4, 1));
        for n in 0..1000 {
            let cpu = n % 8;
            bench.run(cpu, Kind::ALL[n / 8 % 5]);
            bench.until(n as u64 * 37 * US);
            assert_eq!(bench.machine.rate(cpu), 1.0);
        }
        assert_eq!(bench.changes, 0);
    }
}

#[test]
fn who_is_not_there_does_nothing() {
    let mut bench = Bench::one_core(&model("zen4"));
    assert_eq!(bench.machine.run(7, Some(Kind::Scalar)), [0usize; 0]);
    assert_eq!((bench.machine.rate(7), bench.machine.frequency_mhz(7)), (0.0, 0));
    let mut nobody = Machine::new(&model("zen4"), Topology { cpus: Vec::new() });
    assert_eq!(nobody.next_change(), None);
    assert_eq!(nobody.advance(MS), [0usize; 0]);
    let mut clockless = Model { steps: Vec::new(), ..model("gold-6130") };
    clockless.hold_ns = 0;
    let mut bench = Bench::one_core(&clockless);
    bench.blip(0, Kind::Heavy512);
    assert_eq!(bench.seen(0, MS), (0.0, 0, Licence::L0));
}

#[test]
fn nothing_grows_in_a_long_run() {
    let mut bench = Bench::new(&model("gold-6130"), Topology::regular(2, 1, 16, 2));
    let mut random = 1u64;
    let mut churn = |bench: &mut Bench, times: u64| {
        for _ in 0..times {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let (cpu, kind) = ((random >> 33) as usize % 64, (random >> 40) as usize % 7);
            bench.machine.run(cpu, Kind::ALL.get(kind).copied());
            bench.until(bench.machine.now() + (random >> 50) % 5000);
        }
    };
    churn(&mut bench, 20_000);
    let size = bench.machine.size();
    churn(&mut bench, 200_000);
    assert_eq!(bench.machine.size(), size);
    assert!(size <= 1000, "{size}");
}

/// Who, what, and for how long until the next one.
type Action = (usize, usize, u64);

const CPUS: usize = 12;

fn small_machine(name: &str) -> Bench {
    Bench::new(&model(name), Topology::regular(2, 1, 3, 2))
}

fn act(bench: &mut Bench, (cpu, kind, _): Action) -> Vec<usize> {
    bench.machine.run(cpu, Kind::ALL.get(kind).copied()).to_vec()
}

fn actions() -> impl Strategy<Value = Vec<Action>> {
    // Mostly close to each other, so that requests, halts and holds overlap.
    let pause = prop_oneof![0..30 * US, 0..30 * US, 0..2 * MS];
    prop::collection::vec((0..CPUS, 0usize..7, pause), 1..80)
}

fn names() -> impl Strategy<Value = &'static str> {
    prop::sample::select(Model::names().collect::<Vec<_>>())
}

fn rates(bench: &Bench) -> Vec<f64> {
    (0..CPUS).map(|cpu| bench.machine.rate(cpu)).collect()
}

fn differing(before: &[f64], after: &[f64]) -> Vec<usize> {
    (0..CPUS).filter(|&cpu| before[cpu] != after[cpu]).collect()
}

proptest! {
    #[test]
    fn rates_are_shares_and_changes_are_told(name in names(), actions in actions()) {
        let mut bench = small_machine(name);
        for action in actions {
            let before = rates(&bench);
            let mut told = act(&mut bench, action);
            told.sort();
            prop_assert_eq!(told, differing(&before, &rates(&bench)));
            let end = bench.machine.now() + action.2;
            while bench.machine.now() < end {
                let (now, before) = (bench.machine.now(), rates(&bench));
                prop_assert!(before.iter().all(|rate| (0.0..=1.0).contains(rate)), "{before:?}");
                let next = bench.machine.next_change().unwrap_or(end);
                prop_assert!(next > now, "{next} is not after {now}");
                let mut told = bench.machine.advance(next.min(end)).to_vec();
                told.sort();
                prop_assert_eq!(told, differing(&before, &rates(&bench)));
                prop_assert_eq!(bench.machine.now(), next.min(end));
            }
        }
    }

    #[test]
    fn without_wide_work_all_go_back(name in names(), actions in actions(), idle: bool) {
        let mut bench = small_machine(name);
        for action in actions {
            act(&mut bench, action);
            bench.until(bench.machine.now() + action.2);
        }
        for cpu in 0..CPUS {
            bench.machine.run(cpu, Some(Kind::Scalar).filter(|_| !idle || cpu == 0));
        }
        // The last request, what follows it, the hold and the halt after it.
        bench.until(bench.machine.now() + MS);
        for cpu in 0..CPUS {
            prop_assert_eq!(bench.machine.licence(cpu), Licence::L0);
        }
        prop_assert_eq!(bench.machine.next_change(), None);
        let model = model(name);
        let expected = model.mhz(model.step(if idle { 1 } else { 3 }), Licence::L0);
        prop_assert_eq!(bench.machine.frequency_mhz(0), expected);
    }

    #[test]
    fn small_steps_lead_where_large_ones_do(
        name in names(), actions in actions(), step in 100u64..5000,
    ) {
        let (mut large, mut small) = (small_machine(name), small_machine(name));
        for action in actions {
            act(&mut large, action);
            act(&mut small, action);
            let end = large.machine.now() + action.2;
            large.until(end);
            while small.machine.now() < end {
                small.until(end.min(small.machine.now() + step));
            }
        }
        for cpu in 0..CPUS {
            let (large, small) = (large.done[cpu], small.done[cpu]);
            prop_assert!((large - small).abs() < 1e-3, "{cpu}: {large} and {small}");
        }
        prop_assert_eq!(rates(&large), rates(&small));
    }

    /// Whatever the numbers of the model, the simulation goes on.
    #[test]
    fn any_times_will_do(
        actions in actions(),
        times in prop::array::uniform5(prop_oneof![Just(0u64), 0u64..3 * MS, Just(u64::MAX)]),
        flags in prop::array::uniform3(any::<bool>()),
    ) {
        let [request_ns, halt_ns, hold_ns, release_ns, active_window_ns] = times;
        let [throttles_narrow, halts_at_each_licence, count_step_halts] = flags;
        let model = Model {
            request_ns, halt_ns, hold_ns, release_ns, active_window_ns,
            throttles_narrow, halts_at_each_licence, count_step_halts,
            ..model("gold-5120")
        };
        let mut bench = Bench::new(&model, Topology::regular(2, 1, 3, 2));
        for action in actions {
            act(&mut bench, action);
            let now = bench.machine.now();
            prop_assert!(bench.machine.next_change().is_none_or(|next| next > now));
            bench.until(now + action.2);
        }
    }
}

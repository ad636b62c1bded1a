// SPDX-License-Identifier: GPL-2.0-only
//! Plays a scenario, and checks all the time what must hold: the rules of audit.h, the kernel's own
//! rules, and that no task waits for too long and no work is lost.

use std::cell::Cell;
use std::rc::Rc;

use anyhow::{Context, Result, ensure};

use super::scenario::{Command, HINTS, Habit, Scenario};
use crate::agent::policy;
use crate::bpf::intf::{AVX_WAIT_MAX_S, avx_clocks, avx_policy, avx_policy_in_force};
use crate::processors::{UNKNOWN_CLOCKS, known_clocks};
use crate::sim::kernel::channels::Channel;
use crate::sim::kernel::engine::{COSTS, Engine};
use crate::sim::kernel::program::{Home, Program, Step};
use crate::sim::kernel::{BEGIN_NS, Class, Kernel, MASK_WORDS, Task};
use crate::sim::machine::caches::Footprint;
use crate::sim::machine::hardware::{Hardware, Modelled, Steady, places};
use crate::sim::machine::model::{Kind, Model};

const MS: u64 = 1_000_000;
const SECOND: u64 = 1000 * MS;

/// The model whose clocks are used, if clocks are not always at their highest.
const MODEL: &str = "i9-7940x";

/// The longest time between two checks of what must hold.
const LOOK_NS: u64 = 10 * MS;

/// The most that a trial may take: of the machine's time, and of ours in events.
const TOTAL_NS: u64 = 20 * SECOND;
const EVENTS_MAX: u64 = 200_000;

/// The longest time that a task may wait. Weights alone may keep it waiting for `AVX_WAIT_MAX_S`.
/// The turn of each other task and what the policy adds come on top.
const WAIT_MAX_NS: u64 = (AVX_WAIT_MAX_S as u64 + 2) * SECOND;

/// What a task of the scenario executes.
struct Script {
    habit: Habit,
    steps: Vec<Step>,
    at: usize,
    has_ended: Rc<Cell<bool>>,
}

fn steps_of(habit: Habit, step_ns: u64, channel: Channel) -> Vec<Step> {
    let work = |kind| Step::Work(kind, step_ns as f64);
    match habit {
        Habit::Busy(kind) => vec![Step::Work(kind, 1e9)],
        Habit::Sleeper(kind, more) => vec![work(kind), Step::Sleep(more * step_ns)],
        Habit::Alternates => vec![work(Kind::Scalar), work(Kind::Heavy512), Step::Syscall],
        Habit::Mixes => vec![
            work(Kind::Light256),
            Step::Syscall,
            work(Kind::Scalar),
            work(Kind::Light512),
            Step::Syscall,
        ],
        Habit::Yields => vec![work(Kind::Scalar), Step::Yield, Step::Syscall],
        Habit::Passes => {
            vec![Step::Wait(channel), work(Kind::Light512), Step::Send(channel, step_ns)]
        }
        Habit::Hints => vec![
            Step::Hint(HINTS[0]),
            work(Kind::Heavy512),
            Step::Hint(HINTS[1]),
            work(Kind::Scalar),
        ],
        Habit::Ends => [work(Kind::Scalar), work(Kind::Heavy512), Step::Syscall].repeat(20),
        Habit::IsSucceeded => vec![work(Kind::Light512), Step::Syscall, work(Kind::Scalar)],
    }
}

impl Program for Script {
    fn next(&mut self, _now: u64) -> Step {
        let last = match self.habit {
            Habit::Ends => Some(Step::Exit),
            Habit::IsSucceeded => Some(Step::Succeed),
            _ => None,
        };
        if let (Some(last), true) = (last, self.at == self.steps.len()) {
            self.has_ended.set(true);
            self.at = 0;
            return last;
        }
        self.at += 1;
        self.steps[(self.at - 1) % self.steps.len()]
    }
}

struct Trial<H: Hardware> {
    engine: Engine<H>,
    class: Class,
    channel: Channel,
    tasks: Vec<(Task, Rc<Cell<bool>>)>,
    /// The first task of each process that others may be threads of. Such a task never ends.
    leaders: Vec<Task>,
    generation: u64,
    /// For how long realtime tasks took CPUs.
    taken_ns: u64,
}

pub fn run(scenario: &Scenario) -> Result<()> {
    run_by(Class::Ext, scenario)
}

/// Plays the scenario with a class that decides what runs where.
pub fn run_by(class: Class, scenario: &Scenario) -> Result<()> {
    let Some(counters) = scenario.clocks else {
        return run_on(Steady, &UNKNOWN_CLOCKS, scenario, class);
    };
    let model = Model::named(MODEL).context("no such model")?;
    let clocks = avx_clocks { counters: counters.into(), ..known_clocks(&model.steps) };
    run_on(Modelled::new(&model, &scenario.topology(), counters), &clocks, scenario, class)
}

fn run_on<H: Hardware>(
    hardware: H,
    clocks: &avx_clocks,
    scenario: &Scenario,
    class: Class,
) -> Result<()> {
    let first = avx_policy_in_force { generation: 1, checksum: 0, policy: standard() };
    let kernel = Kernel::boot(&places(&scenario.topology()), clocks, scenario.tier, &first, class)?;
    let mut engine = Engine::new(kernel, hardware, COSTS);
    let channel = engine.open_channel();
    let (tasks, leaders) = (Vec::new(), Vec::new());
    let mut trial = Trial { engine, class, channel, tasks, leaders, generation: 1, taken_ns: 0 };
    for (n, command) in scenario.commands.iter().enumerate() {
        trial.obey(command).with_context(|| format!("command {n}, {command:?}"))?;
    }
    // Everything that is under way comes to an end in this time.
    trial.go_on(200 * MS).context("after the last command")?;
    let (given, found) = trial.engine.given_and_found();
    ensure!((given - found).abs() <= 1e-6 * given + 1.0, "{given} ns of work, {found} are left");
    Ok(())
}

/// Returns the standard policy of a CPU that loses a quarter of its clock, and of which nothing
/// more is known.
fn standard() -> avx_policy {
    policy::on_cpu(&policy::standard(), 256)
}

impl<H: Hardware> Trial<H> {
    fn nr_cpus(&self) -> u32 {
        self.engine.kernel().nr_cpus()
    }

    fn obey(&mut self, command: &Command) -> Result<()> {
        match command {
            Command::Spawn { habit, step_ns, weight, cpus, is_thread } => {
                self.spawn(*habit, *step_ns, *weight, *is_thread);
                self.allow(self.tasks.len() - 1, *cpus);
            }
            Command::Weigh { task, weight } => {
                if let Some(task) = self.task(*task) {
                    self.engine.weigh(task, *weight);
                }
            }
            Command::Boost { task } => {
                if let Some(task) = self.task(*task) {
                    self.engine.boost(task);
                }
            }
            Command::Allow { task, cpus } => self.allow(*task, *cpus),
            Command::Policy(turns) => self.set_policy(turns),
            Command::Take { cpu, ns } => {
                self.taken_ns += ns;
                self.engine.take_cpu(cpu % self.nr_cpus(), *ns);
            }
            Command::Online { cpu, is_online } => {
                self.engine.set_online(cpu % self.nr_cpus(), *is_online);
            }
            Command::Send => self.engine.send_from_outside(self.channel),
            Command::Run(ns) => return self.go_on(*ns),
        }
        self.look()
    }

    /// Returns a task by its number, if it has not ended.
    fn task(&self, number: usize) -> Option<Task> {
        let (task, has_ended) = self.tasks.get(number % self.tasks.len().max(1))?;
        (!has_ended.get()).then_some(*task)
    }

    fn spawn(&mut self, habit: Habit, step_ns: u64, weight: u32, is_thread: bool) {
        let has_ended = Rc::new(Cell::new(false));
        let steps = steps_of(habit, step_ns, self.channel);
        let script = Script { habit, steps, at: 0, has_ended: has_ended.clone() };
        let process = self.leaders.last().copied().filter(|_| is_thread);
        let task = self.engine.spawn_in(
            Box::new(script),
            Home { process, weight, cgroup: 1, footprint: Footprint::default() },
        );
        self.tasks.push((task, has_ended));
        if process.is_none() && !matches!(habit, Habit::Ends | Habit::IsSucceeded) {
            self.leaders.push(task);
        }
    }

    /// Allows a task the CPUs of a mask. Does nothing if none of them is online.
    fn allow(&mut self, task: usize, cpus: u64) {
        let nr_cpus = self.nr_cpus();
        let mut words = [0; MASK_WORDS];
        words[0] = cpus & (u64::MAX >> (64 - nr_cpus));
        let is_there = |cpu: &u32| words[0] >> cpu & 1 == 1 && self.engine.kernel().is_online(*cpu);
        let is_any = (0..nr_cpus).any(|cpu| is_there(&cpu));
        if let Some(task) = self.task(task).filter(|_| is_any) {
            self.engine.allow(task, &words);
        }
    }

    /// Sets a policy. Settings that contradict each other are no policy and are ignored.
    fn set_policy(&mut self, turns: &[&str]) {
        let turns: Vec<String> = turns.iter().map(|turn| (*turn).to_owned()).collect();
        if let Ok(policy) = policy::turned(standard(), &turns) {
            self.generation += 1;
            let generation = self.generation;
            let in_force = avx_policy_in_force { generation, checksum: 0, policy };
            self.engine.kernel_mut().set_policy(&in_force);
        }
    }

    fn go_on(&mut self, ns: u64) -> Result<()> {
        let until = (self.engine.now() + ns).min(BEGIN_NS + TOTAL_NS);
        while self.engine.now() < until && self.engine.nr_events() < EVENTS_MAX {
            self.engine.run_for(LOOK_NS.min(until - self.engine.now()))?;
            self.look()?;
        }
        Ok(())
    }

    fn look(&mut self) -> Result<()> {
        self.engine.kernel().audit()?;
        match self.class {
            Class::Ext => self.engine.waits_at_most(WAIT_MAX_NS + self.taken_ns),
            // A task with the least weight may wait for as long as the weights of the others make
            // it.
            Class::Fair => Ok(()),
        }
    }
}

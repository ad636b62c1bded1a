// SPDX-License-Identifier: GPL-2.0-only
//! What happens, as it happens, and why.

mod audience;
pub mod hub;
mod reader;
pub mod summary;

#[cfg(test)]
mod events_test;

use std::fmt;
use std::time::Duration;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

pub use audience::Audience;
pub use reader::Reader;

use super::status::{BOUNDARIES, CAUSES, VERDICTS, seconds};
use crate::bpf::intf::{self, avx_event};
use crate::bpf::names::{by_number, printable, text_of};

const ROLE_CAUSES: [&str; intf::NR_ROLE_CAUSES as usize] = by_number([
    (intf::ROLE_FOR_LIST, "listed"),
    (intf::ROLE_FOR_NUMBER, "number of the policy"),
    (intf::ROLE_FIRST_NEED, "first need"),
    (intf::ROLE_GROWTH, "demand grew"),
    (intf::ROLE_SHRINKING, "demand shrank"),
]);
const ROLES: [&str; 2] =
    by_number([(intf::ROLE_SCALAR, "scalar CPU"), (intf::ROLE_AVX, "AVX core")]);
/// The work that is sent to CPUs of each role.
const WORK: [&str; 2] =
    by_number([(intf::ROLE_SCALAR, "scalar work"), (intf::ROLE_AVX, "AVX work")]);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A phase of AVX work began.
    Began,
    /// A phase of AVX work ended.
    Ended,
    /// A fault by something that needs no AVX core.
    Fault,
    /// A task goes to an AVX core, or away from one.
    Sent,
    /// A CPU became an AVX core, or is none any more.
    Role,
    /// A policy is in force.
    Policy,
    /// The scheduler was loaded anew.
    Loaded,
    /// Events were lost.
    Lost,
}

const KINDS: [Kind; intf::NR_EVENT_KINDS as usize] = by_number([
    (intf::EVENT_BEGAN, Kind::Began),
    (intf::EVENT_ENDED, Kind::Ended),
    (intf::EVENT_FAULT, Kind::Fault),
    (intf::EVENT_SENT, Kind::Sent),
    (intf::EVENT_ROLE, Kind::Role),
]);

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// The time since the agent started.
    pub at_s: f64,
    pub kind: Kind,
    pub why: String,
    /// Where it happened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<u32>,
    #[serde(flatten)]
    pub task: Option<Task>,
    /// The new role of a CPU, or the role of where a task is sent: "AVX core" or "scalar CPU".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// The idle CPU to which a task is sent. Without one the task waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to_cpu: Option<u32>,
    /// For how long a task ran in the phase that ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub for_s: Option<f64>,
    /// The generation of a policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<u64>,
    /// How many events were lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Task {
    pub thread: i32,
    pub process: i32,
    pub comm: String,
}

impl Event {
    /// Returns an event of the agent itself.
    fn of_agent(at_s: f64, kind: Kind, why: &str) -> Self {
        Self {
            at_s,
            kind,
            why: why.to_owned(),
            cpu: None,
            task: None,
            role: None,
            to_cpu: None,
            for_s: None,
            policy: None,
            count: None,
        }
    }

    fn policy(at_s: f64, generation: u64, why: &str) -> Self {
        Self { policy: Some(generation), ..Self::of_agent(at_s, Kind::Policy, why) }
    }

    fn lost(at_s: f64, count: u64, why: &str) -> Self {
        Self { count: Some(count), ..Self::of_agent(at_s, Kind::Lost, why) }
    }

    /// Returns the event that the BPF programs tell of, if it is understood.
    fn parse(it: &avx_event, begun_ns: u64) -> Option<Self> {
        let kind = *KINDS.get(it.kind as usize)?;
        let name = |names: &[&str], n: usize| names.get(n).map(|name| (*name).to_owned());
        let why = it.why as usize;
        let at_s = seconds(it.at.saturating_sub(begun_ns));
        let mut event = Self { cpu: Some(it.cpu), ..Self::of_agent(at_s, kind, "") };
        if kind != Kind::Role {
            let comm = printable(&text_of(&it.comm));
            event.task = Some(Task { thread: it.thread, process: it.process, comm });
        }
        match kind {
            Kind::Began => event.why = name(&CAUSES, why)?,
            Kind::Ended => event.why = name(&BOUNDARIES, why)?,
            Kind::Fault => event.why = name(&VERDICTS, why)?,
            Kind::Sent => {
                event.why = name(&WORK, why)?;
                event.role = Some(name(&ROLES, why)?);
                event.to_cpu = u32::try_from(it.detail).ok();
            }
            Kind::Role => {
                event.why = name(&ROLE_CAUSES, why)?;
                event.role = Some(name(&ROLES, usize::try_from(it.detail).ok()?)?);
            }
            Kind::Policy | Kind::Loaded | Kind::Lost => return None,
        }
        if kind == Kind::Ended {
            event.for_s = Some(seconds(u64::try_from(it.detail).unwrap_or_default()));
        }
        Some(event)
    }

    fn what(&self) -> String {
        let role = self.role.as_deref().unwrap_or("CPU");
        let article = if role.starts_with('A') { "an" } else { "a" };
        let lasted = Duration::try_from_secs_f64(self.for_s.unwrap_or_default());
        let lasted = lasted.unwrap_or_default();
        match self.kind {
            Kind::Began => "began a phase of AVX work".to_owned(),
            Kind::Ended => format!("ended it after {lasted:.1?}"),
            Kind::Fault => "needs no AVX core after a fault".to_owned(),
            Kind::Sent => match self.to_cpu {
                Some(cpu) => format!("goes to {article} {role}, CPU {cpu}"),
                None => format!("waits for {article} {role}"),
            },
            Kind::Role => format!("became {article} {role}"),
            Kind::Policy => format!("policy {} is in force", self.policy.unwrap_or_default()),
            Kind::Loaded => "the scheduler was loaded anew".to_owned(),
            Kind::Lost => format!("{} events lost", self.count.unwrap_or_default()),
        }
    }
}

/// Writes one line with the time, the CPU, the task, what happened and why.
impl fmt::Display for Event {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:12.6}", self.at_s)?;
        if let Some(cpu) = self.cpu {
            write!(out, " CPU {cpu}")?;
        }
        if let Some(task) = &self.task {
            write!(out, " {}[{}]", task.comm, task.thread)?;
        }
        write!(out, " {}: {}", self.what(), self.why)
    }
}

/// What a client wants to hear of. Every client is told that events were lost.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wanted {
    /// Events of this thread, or of all threads of this process; all events if there is none.
    pub pid: Option<i32>,
    /// Events of these kinds; of all kinds if there are none.
    pub kinds: Vec<Kind>,
}

impl Wanted {
    fn has(&self, event: &Event) -> bool {
        let is_of =
            |pid| event.task.as_ref().is_some_and(|task| task.thread == pid || task.process == pid);
        event.kind == Kind::Lost
            || ((self.kinds.is_empty() || self.kinds.contains(&event.kind))
                && self.pid.is_none_or(is_of))
    }
}

// SPDX-License-Identifier: GPL-2.0-only
//! The clock of one core: which licence it has, which one it asks for, and when it stands still.

use super::model::{Licence, Model};

/// What a clock depends on, besides what its core executes.
#[derive(Clone, Copy)]
pub struct Moment<'a> {
    pub model: &'a Model,
    pub now: u64,
    /// The step of the model for the number of active cores of the socket.
    pub step: usize,
    /// Whether the core is one of the active cores.
    pub is_active: bool,
}

#[derive(Clone, Copy, Debug)]
struct Request {
    until: u64,
    target: Licence,
}

/// A halt, with the licence and the clock that the core has when it goes on.
#[derive(Clone, Copy, Debug)]
struct Halt {
    until: u64,
    licence: Licence,
    mhz: u32,
}

/// A hold that is about to end, with the licence that the core is settled to have after it.
#[derive(Clone, Copy, Debug)]
struct Rise {
    at: u64,
    licence: Licence,
}

#[derive(Clone, Debug)]
pub struct Clock {
    licence: Licence,
    mhz: u32,
    /// The highest licence that any instruction executed now needs.
    demand: Licence,
    /// When the last instruction that needed the licence ended, for each licence.
    last_use: [u64; 3],
    request: Option<Request>,
    /// Set only if instructions that need a higher licence came between the decision and its time.
    /// Otherwise the two need not be told apart.
    rise: Option<Rise>,
    /// The highest licence that such instructions need.
    missed: Licence,
    halt: Option<Halt>,
}

impl Clock {
    pub fn new(model: &Model) -> Self {
        let licence = Licence::L0;
        let mhz = model.mhz(model.step(0), licence);
        Self {
            licence,
            mhz,
            demand: licence,
            last_use: [0; 3],
            request: None,
            rise: None,
            missed: licence,
            halt: None,
        }
    }

    /// Returns the licence that the core has, whatever it asks for.
    pub fn licence(&self) -> Licence {
        self.licence
    }

    /// Returns the clock of the core. While the core stands still this is the clock that it had
    /// before.
    pub fn mhz(&self) -> u32 {
        self.mhz
    }

    /// Returns the share of the instructions that the core dispatches, of those that it would
    /// execute at this clock if it were neither throttled nor halted.
    pub fn dispatch(&self, model: &Model) -> f64 {
        let is_throttled = model.throttles_narrow || self.demand > self.licence;
        match (self.halt, self.request) {
            (Some(_), _) => 0.0,
            (None, Some(_)) if is_throttled => model.throttle,
            _ => 1.0,
        }
    }

    /// Sets the licence that the core needs now. `settle` must be called next.
    pub fn set_demand(&mut self, model: &Model, now: u64, demand: Licence) {
        if demand > self.demand {
            self.come_too_late(model, now, demand);
        }
        for licence in [Licence::L1, Licence::L2] {
            if licence <= self.demand {
                self.last_use[licence as usize] = now;
            }
        }
        self.demand = demand;
    }

    /// Notes instructions that need a higher licence than those before: the core may be about to
    /// raise its clock.
    fn come_too_late(&mut self, model: &Model, now: u64, demand: Licence) {
        let at = self.held_until(model);
        let is_settled = now < at && now >= at.saturating_sub(model.release_ns);
        let is_held = self.demand < self.licence && self.request.is_none() && self.halt.is_none();
        if self.rise.is_none() && is_held && is_settled {
            self.rise = Some(Rise { at, licence: self.still_held(model, at) });
        }
        if self.rise.is_some() {
            self.missed = self.missed.max(demand);
        }
    }

    /// Makes all changes that are due.
    pub fn settle(&mut self, at: Moment) {
        loop {
            if self.halt.is_some_and(|halt| halt.until > at.now) {
                return;
            }
            if let Some(halt) = self.halt.take() {
                (self.licence, self.mhz) = (halt.licence, halt.mhz);
            }
            self.ask(at);
            let licence = self.due_licence(at);
            self.rise = self.rise.filter(|rise| rise.at > at.now);
            let mhz = at.model.mhz(at.step, licence);
            if (licence, mhz) == (self.licence, self.mhz) {
                return;
            }
            let until = at.now.saturating_add(self.halt_for(at, licence, mhz));
            self.halt = Some(Halt { until, licence, mhz });
        }
    }

    /// Asks for a higher licence where one is needed, and drops a request that is answered.
    fn ask(&mut self, at: Moment) {
        let is_answered =
            |request: &Request| request.until <= at.now && request.target <= self.licence;
        if self.request.as_ref().is_some_and(is_answered) {
            self.request = None;
        }
        let missed =
            if self.rise.is_none() { std::mem::take(&mut self.missed) } else { Licence::L0 };
        let needed = self.demand.max(missed);
        match &mut self.request {
            None if needed > self.licence => {
                let until = at.now.saturating_add(at.model.request_ns);
                self.request = Some(Request { until, target: needed });
                (self.rise, self.missed) = (None, Licence::L0);
            }
            // The request may still be raised as long as there is no answer.
            Some(request) if request.until > at.now => {
                request.target = request.target.max(self.demand);
            }
            _ => {}
        }
    }

    /// Returns the licence that the core should have now. A request is granted even if no
    /// instruction needs the licence any longer.
    fn due_licence(&self, at: Moment) -> Licence {
        match (self.request, self.rise) {
            (Some(request), _) if request.until > at.now => self.licence,
            (Some(_), _) if at.model.halts_at_each_licence => self.licence.next(),
            (Some(request), _) => request.target,
            (None, Some(rise)) if rise.at > at.now => self.licence,
            (None, Some(rise)) => rise.licence,
            (None, None) => self.still_held(at.model, at.now),
        }
    }

    /// Returns when the hold of the core's licence ends if no instruction needs this licence
    /// before.
    fn held_until(&self, model: &Model) -> u64 {
        self.last_use[self.licence as usize].saturating_add(model.hold_ns)
    }

    /// Returns the highest licence, of those up to the core's own, that is needed or still held.
    fn still_held(&self, model: &Model, now: u64) -> Licence {
        let is_held = |licence: &Licence| {
            let end = self.last_use[*licence as usize].saturating_add(model.hold_ns);
            *licence <= self.licence && (*licence <= self.demand || end > now)
        };
        [Licence::L2, Licence::L1].into_iter().find(is_held).unwrap_or(Licence::L0)
    }

    fn halt_for(&self, at: Moment, licence: Licence, mhz: u32) -> u64 {
        let for_count = licence == self.licence;
        // A core that sleeps deeply has no clock that could change. It gets the right one with its
        // power.
        let is_free = mhz == self.mhz || !at.is_active;
        if is_free || (for_count && !at.model.count_step_halts) { 0 } else { at.model.halt_ns }
    }

    /// Returns when the clock is to be settled again if nothing happens before.
    pub fn next_change(&self, model: &Model) -> Option<u64> {
        match (self.halt, self.request, self.rise) {
            (Some(halt), ..) => Some(halt.until),
            (None, Some(request), _) => Some(request.until),
            (None, None, Some(rise)) => Some(rise.at),
            (None, None, None) => {
                Some(self.held_until(model)).filter(|_| self.demand < self.licence)
            }
        }
    }
}

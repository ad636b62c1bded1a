// SPDX-License-Identifier: GPL-2.0-only
//! The clock of one core: which licence it has, which one it asks for, and when it stands still.

use super::model::{Licence, Model};

/// What a clock goes by, besides what its core executes.
#[derive(Clone, Copy)]
pub struct Moment<'a> {
    pub model: &'a Model,
    pub now: u64,
    /// Of the model, for the active cores of the socket.
    pub step: usize,
    /// Whether the core is one of these.
    pub is_active: bool,
}

#[derive(Clone, Copy, Debug)]
struct Request {
    until: u64,
    target: Licence,
}

/// What the core has when it goes on.
#[derive(Clone, Copy, Debug)]
struct Halt {
    until: u64,
    licence: Licence,
    mhz: u32,
}

/// The end of a hold is near, and what the core has after it is settled.
#[derive(Clone, Copy, Debug)]
struct Rise {
    at: u64,
    licence: Licence,
}

#[derive(Clone, Debug)]
pub struct Clock {
    licence: Licence,
    mhz: u32,
    /// The highest licence that an instruction needs which is executed now.
    demand: Licence,
    /// By licence: when the last instruction ended that needed it.
    last_use: [u64; 3],
    request: Option<Request>,
    /// Only if instructions that need more came between its decision and its time; otherwise both
    /// are one.
    rise: Option<Rise>,
    /// What these need.
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

    /// The one that the core has, whatever it asks for.
    pub fn licence(&self) -> Licence {
        self.licence
    }

    /// While the core stands still this is the clock that it had.
    pub fn mhz(&self) -> u32 {
        self.mhz
    }

    /// Of the instructions that the core would execute otherwise at this clock, how many it does.
    pub fn dispatch(&self, model: &Model) -> f64 {
        let is_throttled = model.throttles_narrow || self.demand > self.licence;
        match (self.halt, self.request) {
            (Some(_), _) => 0.0,
            (None, Some(_)) if is_throttled => model.throttle,
            _ => 1.0,
        }
    }

    /// To be settled next.
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

    /// Who needs more than is needed up to now may find that the core is about to rise.
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

    /// Does all that is due.
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

    /// For a higher licence, where one is needed.
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
            // More may be asked for as long as there is no answer.
            Some(request) if request.until > at.now => {
                request.target = request.target.max(self.demand);
            }
            _ => {}
        }
    }

    /// What is asked for is granted even if nobody needs it any longer.
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

    /// If nobody needs its licence before.
    fn held_until(&self, model: &Model) -> u64 {
        self.last_use[self.licence as usize].saturating_add(model.hold_ns)
    }

    /// Of what the core has.
    fn still_held(&self, model: &Model, now: u64) -> Licence {
        let is_held = |licence: &Licence| {
            let end = self.last_use[*licence as usize].saturating_add(model.hold_ns);
            *licence <= self.licence && (*licence <= self.demand || end > now)
        };
        [Licence::L2, Licence::L1].into_iter().find(is_held).unwrap_or(Licence::L0)
    }

    fn halt_for(&self, at: Moment, licence: Licence, mhz: u32) -> u64 {
        let for_count = licence == self.licence;
        // Who sleeps deeply has no clock that could change; it gets the right one with its power.
        let is_free = mhz == self.mhz || !at.is_active;
        if is_free || (for_count && !at.model.count_step_halts) { 0 } else { at.model.halt_ns }
    }

    /// When it is to be settled again if nothing happens before.
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

// SPDX-License-Identifier: GPL-2.0-only
//! Makes text of the metrics, for Prometheus and for people.

use std::fmt::{self, Write};

use anyhow::{Context, Result};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::exemplar::Exemplar;
use prometheus_client::registry::Registry;

use super::families::{self, Facts, Family, Value};
use crate::about::NAME;
use crate::agent::status::{Waits, seconds};

const NO_EXEMPLAR: Option<&Exemplar<NoLabelSet, u64>> = None;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Format {
    OpenMetrics,
    /// The format that Prometheus understood before, and that people know.
    Classic,
}

impl Format {
    pub fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Classic => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

pub fn text_of(facts: Facts, format: Format) -> Result<String> {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(facts));
    let mut text = String::new();
    text::encode(&mut text, &registry).context("cannot write the metrics as text")?;
    Ok(match format {
        Format::OpenMetrics => text,
        Format::Classic => classic(&text),
    })
}

impl Collector for Facts {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for family in families::all() {
            // The encoder adds the unit to the name.
            let unit = family.unit.as_ref();
            let suffix = unit.map(|unit| format!("_{}", unit.as_str())).unwrap_or_default();
            let name = family.name.strip_suffix(&suffix).unwrap_or(&family.name);
            let mut metric = encoder.encode_descriptor(name, &family.help, unit, family.kind)?;
            for (labels, value) in (family.samples)(self) {
                match &value {
                    Value::Info => metric.encode_info(&labels)?,
                    _ if labels.is_empty() => write_value(&mut metric, &value, family.kind)?,
                    _ => write_value(&mut metric.encode_family(&labels)?, &value, family.kind)?,
                }
            }
        }
        Ok(())
    }
}

fn write_value(metric: &mut MetricEncoder<'_>, value: &Value, kind: MetricType) -> fmt::Result {
    match (value, kind) {
        (Value::Count(count), MetricType::Counter) => metric.encode_counter(count, NO_EXEMPLAR),
        (Value::Count(count), _) => metric.encode_gauge(count),
        (Value::Ns(ns), MetricType::Counter) => metric.encode_counter(&seconds(*ns), NO_EXEMPLAR),
        (Value::Ns(ns), _) => metric.encode_gauge(&seconds(*ns)),
        (Value::Percent(percent), _) => metric.encode_gauge(&(percent / 100.0)),
        (Value::Waits(waits), _) => write_waits(metric, waits),
        (Value::Info, _) => Err(fmt::Error),
    }
}

/// Writes waits as a histogram, whose last bucket has no end. To estimate the sum, waits are taken
/// to be in the middle of their bucket, which begins where the one before ends, at half of its own
/// end. So the sum of a growing histogram grows.
fn write_waits(metric: &mut MetricEncoder<'_>, waits: &Waits) -> fmt::Result {
    let last = waits.below_ns.last().copied().unwrap_or(0);
    let pairs = || waits.below_ns.iter().zip(&waits.counts);
    let end = |below: u64| if below == last { f64::INFINITY } else { seconds(below) };
    let buckets: Vec<(f64, u64)> = pairs().map(|(below, count)| (end(*below), *count)).collect();
    let sum = pairs().map(|(below, count)| 0.75 * seconds(*below) * *count as f64).sum();
    metric.encode_histogram::<NoLabelSet>(sum, waits.total(), &buckets, None)
}

/// Returns the text in the older format. There a family is named as its samples are and has no
/// unit, and no line says that the text ends.
fn classic(text: &str) -> String {
    let families = families::all();
    let mut out = String::with_capacity(text.len());
    for line in text.lines() {
        let mut words = line.splitn(4, ' ');
        match (words.next(), words.next(), words.next(), words.next()) {
            (Some("#"), Some("EOF" | "UNIT"), _, _) => {}
            (Some("#"), Some(keyword), Some(name), Some(rest)) => {
                let Some(family) = families.iter().find(|it| it.name == name) else { continue };
                let (name, kind) = classic_head(family);
                let rest = if keyword == "TYPE" { kind.as_str() } else { rest };
                out.extend(["# ", keyword, " ", &name, " ", rest, "\n"]);
            }
            _ => out.extend([line, "\n"]),
        }
    }
    out
}

fn classic_head(family: &Family) -> (String, MetricType) {
    let kind = match family.kind {
        MetricType::Info => MetricType::Gauge,
        kind => kind,
    };
    let name = match family.sample_names().as_slice() {
        [only] => only.clone(),
        _ => family.name.clone(),
    };
    (name, kind)
}

/// Returns the text of docs/metrics.md.
pub fn reference() -> String {
    let mut text = format!(
        "# Metrics\n\n\
         Printed by `{NAME} --help-metrics`. [operating.md](operating.md#words) explains words and \
         labels.\n\n\
         While it runs, `{NAME}` serves these at `http://127.0.0.1:9829/metrics`, or where\n\
         `--metrics ADDRESS:PORT` says; `--metrics off` serves nothing. `/healthz` says whether \
         it\nserves, `/readyz` whether a scheduler is attached. The dashboard in contrib/grafana \
         expects\nthe job of Prometheus to have `avxspec` in its name.\n\n\
         Counters begin at zero with the agent, and go on when the scheduler is loaded anew.\n\n\
         | metric | type | unit | labels | what it is |\n\
         | --- | --- | --- | --- | --- |\n"
    );
    for family in families::all() {
        let names: Vec<String> =
            family.sample_names().iter().map(|name| format!("`{name}`")).collect();
        let unit = family.unit.as_ref().map_or("count", |unit| unit.as_str());
        let labels: Vec<String> = family.labels.iter().map(|it| format!("`{it}`")).collect();
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "| {} | {} | {unit} | {} | {} |",
            names.join(" "),
            family.kind.as_str(),
            labels.join(" "),
            family.help
        );
    }
    text
}

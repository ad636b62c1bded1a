// SPDX-License-Identifier: GPL-2.0-only
//! Sweeps as pages of HTML: how far results are apart, and what they depend on.

use super::svg::{self, Point};
use super::{Made, escape, figure, introduction, page, table};
use crate::sim::study::parameters;
use crate::sim::study::sweep::{Best, Drawn, Spread, Tried};

/// How many of all partitions are listed. The chart shows the others, too.
const LISTED: usize = 12;

/// Returns the page of draws: what is not known well was drawn anew for each run.
pub fn draws(all: &[Drawn], made: &Made) -> String {
    let names: Vec<&str> = all.iter().map(|it| it.workload.as_str()).collect();
    let title = format!("{}: what nobody knows well, varied", names.join(", "));
    let body: String = all.iter().map(drawn).collect();
    page(&title, &introduction(made), &body)
}

fn drawn(it: &Drawn) -> String {
    let rows: Vec<(&str, Vec<f64>)> =
        it.policies.iter().map(|of| (of.variant.as_str(), known(of).collect())).collect();
    let caption = format!(
        "Useful work in {} draws of {} s, by that of the first policy in the same draw: a hair for \
         each draw, the median (a disc), and what 5 of 100 are below (a diamond). Where requests \
         come from outside, however many wait, it is how much sooner they are done.",
        it.draws, it.seconds
    );
    format!(
        "<h2>{}</h2>\n{}{}{}",
        escape(&it.workload),
        figure(&svg::spreads(&rows), &caption),
        it.policies.iter().skip(1).map(|policy| dependence(it, policy)).collect::<String>(),
        table("", &["Policy", "Median", "5 % below", "Least", "Most"], &summary(it))
    )
}

/// Returns the results of the draws in which there was anything to measure them by.
fn known(policy: &Spread) -> impl Iterator<Item = f64> {
    policy.relative.iter().flatten().copied()
}

/// Shows how the results of a policy depend on each parameter.
fn dependence(all: &Drawn, policy: &Spread) -> String {
    let panels: Vec<(&str, Vec<Point>)> = parameters::uncertain()
        .map(|name| {
            let factors = all.factors_of(name).into_iter();
            let points = factors.zip(&policy.relative);
            (name, points.filter_map(|(factor, relative)| Some((factor, (*relative)?))).collect())
        })
        .collect();
    let caption = format!(
        "{}: the same, by what each parameter was multiplied by, while the others varied too.",
        policy.variant
    );
    figure(&svg::panels(&panels), &caption)
}

fn summary(all: &Drawn) -> Vec<Vec<String>> {
    let row = |it: &Spread| {
        let least = known(it).fold(f64::INFINITY, f64::min);
        let most = known(it).fold(f64::NEG_INFINITY, f64::max);
        let numbers =
            [it.median, it.p5, Some(least), Some(most)].map(|it| it.map_or("-".to_owned(), number));
        [it.variant.clone()].into_iter().chain(numbers).collect()
    };
    all.policies.iter().map(row).collect()
}

/// Returns the page of each static partition that is worth a try, and of the default policy beside
/// them.
pub fn partitions(all: &[Best], made: &Made) -> String {
    let names: Vec<&str> = all.iter().map(|it| it.workload.as_str()).collect();
    let title = format!("{}: static partitions", names.join(", "));
    let body: String = all.iter().map(partition).collect();
    page(&title, &introduction(made), &body)
}

fn partition(best: &Best) -> String {
    let points: Vec<Point> =
        best.tried.iter().map(|it| (it.score.work, it.score.balance)).collect();
    let default = (best.default.work, best.default.balance);
    let (counts, head) = match best.open_groups.is_empty() {
        true => ("work is that of all groups of threads together".to_owned(), "Work"),
        false => (
            format!(
                "the score is the work of all groups of threads together, but of {} it is how \
                 soon requests are done, by as much as they are of the work",
                best.open_groups.join(", ")
            ),
            "Score",
        ),
    };
    let caption = format!(
        "{} partitions (dots), for {} s each, and the default policy (a diamond): {counts}, and the \
         balance the geometric mean of what each of them does, both by what is done without \
         AVX-512. A partition may do more work by starving a group.",
        best.tried.len(),
        best.seconds
    );
    let text = format!(
        "The default policy has {} of the most {} that any of them has, and {} of the best \
         balance. For every group of threads at once the best partition does {} of what the \
         default policy does.",
        number(best.default_by_best),
        best.unit(),
        number(best.default_by_best_balance),
        number(best.best_for_all)
    );
    format!(
        "<h2>{}</h2>\n{}<p>Modelled. {text}</p>\n{}",
        escape(&best.workload),
        figure(&svg::scatter(&points, default, best.unit(), "balance"), &caption),
        table("", &["", head, "Balance"], &listed(best))
    )
}

/// Returns the rows of the default policy, of the partitions with the most work, and of the one
/// with the best balance.
fn listed(best: &Best) -> Vec<Vec<String>> {
    let row = |name: String, work, balance| vec![name, number(work), number(balance)];
    let tried = |it: &Tried| row(it.settings.join(" "), it.score.work, it.score.balance);
    let default = row("the default policy".to_owned(), best.default.work, best.default.balance);
    let balanced =
        best.tried.iter().skip(LISTED).find(|it| it.settings == best.balanced_settings).map(tried);
    let most = best.tried.iter().take(LISTED).map(tried);
    [default].into_iter().chain(most).chain(balanced).collect()
}

fn number(it: f64) -> String {
    if it.is_finite() { format!("{it:.4}") } else { "-".to_owned() }
}

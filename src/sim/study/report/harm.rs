// SPDX-License-Identifier: GPL-2.0-only
//! A search for harm as a page of HTML: how many groups are harmed, and in which workloads.

use super::svg;
use super::{escape, figure, made_by, page, table};
use crate::sim::study::harm::judge::Judged;
use crate::sim::study::harm::tally::{Case, Replay, Search, Tally, gain, worst};

/// The largest gain in the chart. Larger gains are shown as this one, so that losses can be seen.
const SHOWN: f64 = 2.0;

/// Returns the page of a search. `nr_worst` of the worst cases are listed, with their workloads.
pub fn search(search: &Search, nr_worst: usize) -> String {
    let title = format!("{} drawn workloads: who is harmed", search.workloads);
    let body = [gains(search), numbers(search), cases(search, nr_worst)].concat();
    page(&title, &introduction(search), &body)
}

fn introduction(search: &Search) -> String {
    format!(
        "<p><strong>Every figure here is modelled</strong>, not measured: the scheduler's own code \
         ran on models of processors, which were drawn with seed {}, as the workloads were.</p>\n{}",
        search.seed,
        made_by(&search.command, &search.version)
    )
}

fn gains(search: &Search) -> String {
    let shown = |it: &Tally| it.gains.iter().map(|gain| gain.min(SHOWN)).collect();
    let rows: Vec<(&str, Vec<f64>)> =
        search.policies.iter().map(|it| (it.policy.as_str(), shown(it))).collect();
    let caption = format!(
        "What each group of tasks gets, by what it gets under the better of the baseline ({}): a \
         hair for each group, the median (a disc), and what 5 of 100 are below (a diamond). It is \
         the measure that loses the most: work, or how soon requests are done. What is above \
         {SHOWN} is shown there.",
        search.baseline.join(", ")
    );
    format!("<h2>Gain and harm</h2>\n{}", figure(&svg::spreads(&rows), &caption))
}

fn numbers(search: &Search) -> String {
    let row = |it: &Tally| {
        let deciles: Vec<String> = it.deciles.iter().map(|it| format!("{it:.4}")).collect();
        let numbers = [
            it.groups,
            it.harmed,
            it.harmed_below_0_9,
            it.harmed_below_0_5,
            it.gain_above_1_1,
            it.had_more,
            it.pile_up,
        ];
        let numbers = numbers.iter().map(usize::to_string);
        [it.policy.clone()].into_iter().chain(numbers).chain([deciles.join(", ")]).collect()
    };
    let rows: Vec<Vec<String>> = search.policies.iter().map(row).collect();
    format!(
        "<p class=\"dim\">Modelled. Harmed is who gets less in the mean of {} seeds, by more than \
         these differ. Some had more than their share of the CPUs, and still have that; and where \
         requests pile up under the baseline as well, nobody counts but as such.</p>\n{}",
        search.seeds,
        table("", &HEAD, &rows)
    )
}

const HEAD: [&str; 9] = [
    "Policy",
    "Groups",
    "Harmed",
    "Below 0.9",
    "Below 0.5",
    "Above 1.1",
    "Had more",
    "Pile up",
    "Deciles",
];

fn cases(search: &Search, nr_worst: usize) -> String {
    let case = |(case, it): &(&Case, &Judged)| {
        let what = format!("{}, {}: {}", case.replay.workload, who(it), gain(it));
        described(&what, &case.replay)
    };
    let worst: String = worst(&search.cases, nr_worst).iter().map(case).collect();
    let failed = search
        .failures
        .iter()
        .map(|it| described(&format!("{}: {}", it.replay.workload, it.error), &it.replay));
    let failed: String = failed.collect();
    format!("<h2>Who is harmed the most</h2>\n<p class=\"dim\">Modelled.</p>\n{worst}{failed}")
}

fn who(judged: &Judged) -> String {
    let measure = judged.measure.map_or("", |it| it.name());
    format!("{} under {}, by its {measure}", judged.group, judged.policy)
}

fn described(what: &str, replay: &Replay) -> String {
    format!(
        "<h3>{}</h3>\n<p><code>{}</code></p>\n<pre>{}</pre>\n",
        escape(what),
        escape(&replay.command),
        escape(&replay.text)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::study::harm::judge::Verdict;
    use crate::sim::study::harm::tally::{Failure, made_up, made_up_search};

    const EVIL: &str = "<script>alert(\"&'\")</script>";

    fn made(cases: Vec<Case>) -> Search {
        let (command, text) = (EVIL.to_owned(), EVIL.to_owned());
        let replay = Replay { workload: "harm-1-3".to_owned(), command, text };
        let failure = Failure { replay, error: "the model found a mistake".to_owned() };
        made_up_search(cases, vec![failure])
    }

    #[test]
    fn a_page_has_the_workloads_of_the_worst() {
        let (harmed, fine) = (Verdict::Harmed, Verdict::Fine);
        let cases =
            vec![made_up(EVIL, &[(harmed, 0.4)]), made_up("b", &[(harmed, 0.7), (fine, 9.0)])];
        let search_of = made(cases);
        let page = search(&search_of, 1);
        assert!(page.contains("3 drawn workloads: who is harmed (modelled)"), "{page}");
        assert!(page.contains("it under default, by its work: 0.4000 +- 0.0100"), "{page}");
        assert!(
            page.contains("harm-1-3: the model found a mistake") && !page.contains("0.7000 +-")
        );
        assert!(page.contains("&lt;script") && !page.contains("<script"), "{page}");
        assert!(page.contains("drawn with seed 7") && page.contains("about = &quot;it&quot;"));
        for foreign in ["http:", "https:", "src=", "href="] {
            assert!(!page.contains(foreign), "{foreign}");
        }
        let empty = search(&made(Vec::new()), 1);
        assert!(!empty.contains("NaN") && !empty.contains("inf"), "{empty}");
    }
}

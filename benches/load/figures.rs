//! Samples, and the table that they end in.

use std::{fmt, time::Duration};

/// Times of several rounds. A percentile is the median of the rounds' percentiles, so that one disturbed round
/// doesn't decide.
#[derive(Default)]
pub(crate) struct Samples {
    rounds: Vec<Vec<Duration>>,
}

impl Samples {
    pub(crate) fn round(&mut self, mut times: Vec<Duration>) {
        times.sort_unstable();
        self.rounds.push(times);
    }

    /// A percentile in microseconds.
    pub(crate) fn at(&self, percentile: f64) -> f64 {
        let of_rounds = self.rounds.iter().map(|times| {
            let index = (times.len() as f64 * percentile / 100.0) as usize;
            times[index.min(times.len() - 1)].as_secs_f64() * 1e6
        });
        median(of_rounds.collect())
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Rows of Markdown.
#[derive(Default)]
pub(crate) struct Table {
    rows: Vec<[String; 6]>,
}

impl Table {
    /// Times through the daemon against those of another way.
    pub(crate) fn times(
        &mut self,
        what: &str,
        other: &str,
        (daemon, compared): (&Samples, &Samples),
        percentile: f64,
        limit: Option<f64>,
    ) {
        let (daemon, compared) = (daemon.at(percentile), compared.at(percentile));
        let ratio = daemon / compared;
        self.rows.push([
            what.into(),
            format!("{daemon:.0} µs"),
            format!("{other}: {compared:.0} µs"),
            format!("{ratio:.2}"),
            limit.map(|limit| format!("≤ {limit}")).unwrap_or_default(),
            limit.map(|limit| verdict(ratio <= limit)).unwrap_or_default(),
        ]);
    }

    /// Calls in a second through the daemon against those of another way.
    pub(crate) fn rates(
        &mut self,
        what: &str,
        other: &str,
        (daemon, compared): (&[f64], &[f64]),
        limit: Option<f64>,
    ) {
        let (daemon, compared) = (median(daemon.to_vec()), median(compared.to_vec()));
        let ratio = daemon / compared;
        self.rows.push([
            what.into(),
            format!("{daemon:.0}/s"),
            format!("{other}: {compared:.0}/s"),
            format!("{ratio:.2}"),
            limit.map(|limit| format!("≥ {limit}")).unwrap_or_default(),
            limit.map(|limit| verdict(ratio >= limit)).unwrap_or_default(),
        ]);
    }

    /// A figure with a limit of its own.
    pub(crate) fn figure(&mut self, what: &str, value: f64, unit: &str, limit: f64) {
        self.rows.push([
            what.into(),
            format!("{value:.2}{unit}"),
            String::new(),
            String::new(),
            format!("≤ {limit}{unit}"),
            verdict(value <= limit),
        ]);
    }
}

fn verdict(within: bool) -> String {
    if within {
        "within".into()
    } else {
        "**over**".into()
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "| what | through the daemon | compared with | ratio | limit | |"
        )?;
        writeln!(f, "|---|---|---|---|---|---|")?;
        self.rows
            .iter()
            .try_for_each(|row| writeln!(f, "| {} |", row.join(" | ")))
    }
}

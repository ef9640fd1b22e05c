//! The time of day at an offset from UTC, as text.

/// Reads `Z`, `UTC`, `+02:00`, `-0530` or `+9` as minutes east of UTC; at most 18 hours.
pub(super) fn parse_offset(text: &str) -> Option<i64> {
    if matches!(text, "" | "Z" | "z" | "UTC" | "utc" | "GMT") {
        return Some(0);
    }
    let (sign, digits) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+')?),
    };
    if !digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b':') {
        return None;
    }
    let (hours, minutes) = match (digits.split_once(':'), digits.len()) {
        (Some((hours, minutes)), _) if minutes.len() == 2 => (hours, minutes),
        (None, 4) => digits.split_at(2),
        (None, 1 | 2) => (digits, "0"),
        _ => return None,
    };
    let (hours, minutes) = (hours.parse::<i64>().ok()?, minutes.parse::<i64>().ok()?);
    (hours <= 18 && minutes < 60).then_some(sign * (hours * 60 + minutes))
}

/// RFC 3339 with an offset: `2026-01-31T23:59:59+02:00`. `seconds` since the epoch, `offset` in minutes.
pub(super) fn rfc3339(seconds: u64, offset: i64) -> String {
    let local = i64::try_from(seconds).unwrap_or(i64::MAX / 2) + offset * 60;
    let (days, second) = (local.div_euclid(86_400), local.rem_euclid(86_400));
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    let zone = match offset {
        0 => "Z".to_owned(),
        _ => {
            let sign = if offset < 0 { '-' } else { '+' };
            format!("{sign}{:02}:{:02}", offset.abs() / 60, offset.abs() % 60)
        }
    };
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{zone}")
}

/// Year, month and day of a day counted from 1970-01-01, by eras of 400 years that begin on 1 March.
fn civil(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 {
        march_month + 3
    } else {
        march_month - 9
    };
    (era * 400 + year_of_era + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_right_at_the_edges() {
        for (seconds, offset, text) in [
            (0, 0, "1970-01-01T00:00:00Z"),
            (951_782_399, 0, "2000-02-28T23:59:59Z"),
            (951_782_400, 0, "2000-02-29T00:00:00Z"),
            (1_709_251_200, 0, "2024-03-01T00:00:00Z"),
            (4_107_542_399, 60, "2100-03-01T00:59:59+01:00"),
            (0, -330, "1969-12-31T18:30:00-05:30"),
        ] {
            assert_eq!(rfc3339(seconds, offset), text);
        }
    }

    #[test]
    fn offsets_are_read_in_every_usual_spelling() {
        for (text, minutes) in [
            ("", Some(0)),
            ("UTC", Some(0)),
            ("+02:00", Some(120)),
            ("-0530", Some(-330)),
            ("+9", Some(540)),
            ("+19:00", None),
            ("+01:75", None),
            ("Europe/Berlin", None),
            ("+", None),
            ("+é1", None),
        ] {
            assert_eq!(parse_offset(text), minutes, "{text:?}");
        }
    }
}

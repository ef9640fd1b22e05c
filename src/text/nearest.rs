//! "Did you mean …?"

/// Suggestions at most.
const MOST: usize = 3;
/// Characters of the longest name that is worth a comparison with every other. Names come from frontends.
const LONGEST: usize = 128;
/// How alike two names have to be, from 0 (nothing) to 1 (equal).
const ALIKE: f64 = 0.7;
/// How alike a name is to one that ends with it: who leaves out a prefix means that tool.
const ENDING: f64 = 0.95;
/// How alike a name is to one that holds it.
const PART: f64 = 0.75;

/// The names most like `name`, best first, at most three; none when nothing comes near.
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let wanted = comparable(name);
    if wanted.is_empty() || wanted.len() > LONGEST {
        return Vec::new();
    }
    let mut scored: Vec<(f64, &str)> = candidates
        .into_iter()
        .map(|candidate| (likeness(&wanted, &comparable(candidate)), candidate))
        .filter(|(score, _)| *score >= ALIKE)
        .collect();
    scored.sort_by(|(a, name_a), (b, name_b)| b.total_cmp(a).then_with(|| name_a.cmp(name_b)));
    scored.dedup_by_key(|(_, name)| *name);
    scored.into_iter().take(MOST).map(|(_, name)| name).collect()
}

/// Case and the kind of separator don't matter: `list-issues` is `list_issues`.
fn comparable(name: &str) -> String {
    name.chars()
        .take(LONGEST + 1)
        .map(|c| match c {
            '-' | '.' | ' ' | '/' | ':' => '_',
            c => c.to_ascii_lowercase(),
        })
        .collect()
}

fn likeness(wanted: &str, candidate: &str) -> f64 {
    // What all names begin with says nothing: compared is what comes after the last word that both have in common.
    let common = wanted
        .bytes()
        .zip(candidate.bytes())
        .take_while(|(a, b)| a == b)
        .count();
    let common = wanted.as_bytes()[..common]
        .iter()
        .rposition(|byte| *byte == b'_')
        .map_or(0, |at| at + 1);
    // An underscore is one byte, so what follows it is whole.
    let distinct = normalized_distance(&wanted[common..], &candidate[common..]);
    let holds = |score: f64, is_so: bool| if wanted.len() >= 3 && is_so { score } else { 0.0 };
    let whole = strsim::jaro(wanted, candidate);
    let mixed = (distinct + whole) / 2.0;
    mixed
        .max(holds(ENDING, candidate.ends_with(wanted)))
        .max(holds(PART, candidate.contains(wanted)))
}

/// 1 for equal, 0 for nothing in common. The restricted distance is the fast one.
fn normalized_distance(a: &str, b: &str) -> f64 {
    let longest = a.chars().count().max(b.chars().count()).max(1);
    // Names are short: a distance is far below what a float holds exactly.
    1.0 - strsim::osa_distance(a, b) as f64 / longest as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [&str; 6] = [
        "mcp_fs_read_file",
        "mcp_fs_write_file",
        "mcp_github_list_issues",
        "mcp_github_get_issue",
        "mcp_time_now",
        "other",
    ];

    #[test]
    fn near_names_come_first_and_far_ones_not_at_all() {
        for (name, first) in [
            ("mcp_fs_read_fil", Some("mcp_fs_read_file")),
            ("read_file", Some("mcp_fs_read_file")),
            ("read-file", Some("mcp_fs_read_file")),
            ("mcp__fs__read_file", Some("mcp_fs_read_file")),
            ("MCP_TIME_NOW", Some("mcp_time_now")),
            ("mcp_time_nwo", Some("mcp_time_now")),
            ("mcp_github_list-issues", Some("mcp_github_list_issues")),
            ("list_issue", Some("mcp_github_list_issues")),
            ("issues", Some("mcp_github_list_issues")),
            ("othre", Some("other")),
            ("zzz", None),
            ("", None),
            ("m", None),
            ("mcp_github_delete_repository", None),
            ("mcp_weather_forecast", None),
        ] {
            assert_eq!(
                nearest(name, NAMES).first().copied(),
                first,
                "{name}: {:?}",
                nearest(name, NAMES)
            );
        }
    }

    #[test]
    fn keys_of_a_configuration() {
        let keys = [
            "timeout",
            "connect_timeout",
            "tools",
            "command",
            "args",
            "env",
            "url",
        ];
        for (key, first) in [
            ("timout", Some("timeout")),
            ("comand", Some("command")),
            ("arg", Some("args")),
            ("tool", Some("tools")),
            ("uri", None),
            ("banana", None),
        ] {
            let found = nearest(key, keys);
            assert_eq!(
                found.first().copied().filter(|_| first.is_some()),
                first,
                "{key}: {found:?}"
            );
        }
        assert!(nearest("banana", keys).is_empty());
    }

    #[test]
    fn three_at_most_each_once_and_in_a_stable_order() {
        let names = ["tool_d", "tool_a", "tool_c", "tool_a", "tool_b"];
        assert_eq!(nearest("tool", names), ["tool_a", "tool_b", "tool_c"]);
    }

    #[test]
    fn a_name_without_end_is_compared_with_nothing() {
        let endless = "mcp_fs_read_file".repeat(1 << 16);
        assert!(nearest(&endless, NAMES).is_empty());
    }

    proptest::proptest! {
        #[test]
        fn any_text_may_be_compared(name in "\\PC{0,12}", others in proptest::collection::vec("\\PC{0,12}|[_é]{0,4}", 0..4)) {
            let found = nearest(&name, others.iter().map(String::as_str));
            proptest::prop_assert!(found.len() <= MOST);
        }
    }
}

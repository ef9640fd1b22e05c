//! Exposed names: an injective, stable map from (server, tool) to what a model may call (TOOL-04).

use std::collections::HashSet;

use sha2::{Digest, Sha256};

use crate::name::ExposedName;

/// Providers take at most so many bytes.
const LONGEST: usize = 64;
/// Hexadecimal digits of a suffix.
const SUFFIX: usize = 8;

/// Every character outside `[A-Za-z0-9_]` becomes `_`, one for one.
pub(super) fn mapped(part: &str) -> String {
    part.chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() || c == '_' {
                c
            } else {
                '_'
            }
        })
        .collect()
}

/// What a name is made of.
pub(super) struct Parts<'a> {
    pub(super) server: &'a str,
    pub(super) tool: &'a str,
    /// A generated utility gives way to a native tool.
    pub(super) is_utility: bool,
}

/// A name that was given, and what had to be done for it.
pub(super) struct Assigned {
    pub(super) name: ExposedName,
    pub(super) note: Option<String>,
}

/// Gives every part a name of its own, in the order of the parts.
///
/// The rule: the name by the format, cut to 64 bytes with a hash where it is longer. Where several want one name, a
/// native tool goes before a utility, then one that needed no mapping, then the first by server and tool; the others
/// get `_` and 8 hexadecimal digits of a hash of server and tool. So a name depends neither on the order of servers
/// nor on the order of their lists.
pub(super) fn assign(parts: &[Parts<'_>], format: &str) -> Vec<Assigned> {
    let wanted: Vec<String> = parts.iter().map(|part| fill(format, part)).collect();
    let mut order: Vec<usize> = (0..parts.len()).collect();
    order.sort_by_key(|&n| {
        let part = &parts[n];
        let was_mapped = mapped(part.server) != part.server || mapped(part.tool) != part.tool;
        (part.is_utility, was_mapped, part.server, part.tool)
    });
    let mut taken: HashSet<String> = HashSet::new();
    let mut losers = Vec::new();
    let mut assigned: Vec<Option<Assigned>> = parts.iter().map(|_| None).collect();
    for n in order {
        let cut = fitting(&wanted[n], &parts[n], 0);
        if taken.insert(cut.clone()) {
            let note = (cut != wanted[n]).then(|| {
                let Parts { server, tool, .. } = parts[n];
                format!("the name of tool '{tool}' of server '{server}' has more than {LONGEST} bytes; it is offered as '{cut}'")
            });
            assigned[n] = Some(Assigned {
                name: ExposedName::new(cut),
                note,
            });
        } else {
            losers.push((n, cut));
        }
    }
    for (n, wanted) in losers {
        let part = &parts[n];
        let mut round = 0;
        let name = loop {
            let candidate = suffixed(&wanted, part, round);
            if taken.insert(candidate.clone()) {
                break candidate;
            }
            round += 1;
        };
        let Parts { server, tool, .. } = part;
        let note = format!(
            "another tool has the name '{wanted}' already; tool '{tool}' of server '{server}' is offered as '{name}'"
        );
        assigned[n] = Some(Assigned {
            name: ExposedName::new(name),
            note: Some(note),
        });
    }
    assigned.into_iter().flatten().collect()
}

/// What every name of a server's tools begins with.
pub(super) fn prefix(format: &str, server: &str) -> String {
    format
        .split("{tool}")
        .next()
        .unwrap_or_default()
        .replace("{server}", &mapped(server))
}

fn fill(format: &str, part: &Parts<'_>) -> String {
    // The tool goes in last: a tool may be called `{server}`, but its braces are mapped by then.
    format
        .replace("{server}", &mapped(part.server))
        .replace("{tool}", &mapped(part.tool))
}

fn fitting(name: &str, part: &Parts<'_>, round: u32) -> String {
    if name.len() <= LONGEST {
        name.to_owned()
    } else {
        suffixed(name, part, round)
    }
}

fn suffixed(name: &str, part: &Parts<'_>, round: u32) -> String {
    let mut hash = Sha256::new();
    for field in [
        part.server.as_bytes(),
        &[0],
        part.tool.as_bytes(),
        &[u8::from(part.is_utility)],
        &round.to_be_bytes(),
    ] {
        hash.update(field);
    }
    let digits: String = hash
        .finalize()
        .iter()
        .take(SUFFIX / 2)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    // Mapped names are ASCII, so every byte is a character.
    let kept = &name[..name.len().min(LONGEST - SUFFIX - 1)];
    format!("{kept}_{digits}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORMAT: &str = "mcp_{server}_{tool}";

    fn names(parts: &[(&str, &str, bool)], format: &str) -> Vec<String> {
        let parts: Vec<Parts<'_>> = parts
            .iter()
            .map(|(server, tool, is_utility)| Parts {
                server,
                tool,
                is_utility: *is_utility,
            })
            .collect();
        assign(&parts, format)
            .into_iter()
            .map(|assigned| assigned.name.to_string())
            .collect()
    }

    #[test]
    fn the_documented_examples() {
        for (server, tool, expected) in [
            ("filesystem", "read_file", "mcp_filesystem_read_file"),
            ("github", "list-issues", "mcp_github_list_issues"),
            ("my-api", "fetch.data", "mcp_my_api_fetch_data"),
            ("x", "é", "mcp_x__"),
        ] {
            assert_eq!(names(&[(server, tool, false)], FORMAT), [expected]);
        }
        assert_eq!(
            names(&[("my-api.v2", "read.file", false)], "mcp__{server}__{tool}"),
            ["mcp__my_api_v2__read_file"]
        );
    }

    #[test]
    fn of_equal_names_the_unmapped_native_one_wins() {
        let got = names(
            &[
                ("s", "a.b", false),
                ("s", "a_b", true),
                ("s", "a_b", false),
                ("s", "a-b", false),
            ],
            FORMAT,
        );
        assert_eq!(got[2], "mcp_s_a_b");
        for (n, other) in got.iter().enumerate().filter(|(n, _)| *n != 2) {
            assert!(
                other.starts_with("mcp_s_a_b_") && other.len() == "mcp_s_a_b_".len() + 8,
                "{n}: {other}"
            );
        }
        // x_y + z and x + y_z
        let got = names(&[("x_y", "z", false), ("x", "y_z", false)], FORMAT);
        assert_eq!(
            (got[1].as_str(), got[0].len()),
            ("mcp_x_y_z", "mcp_x_y_z_".len() + 8)
        );
    }

    #[test]
    fn long_names_are_cut_with_a_hash() {
        let long = "t".repeat(100);
        let got = names(&[("s", &long, false)], FORMAT);
        assert_eq!(got[0].len(), 64);
        assert!(got[0].starts_with("mcp_s_ttt"));
    }

    proptest::proptest! {
        #[test]
        fn names_are_valid_different_and_independent_of_order(
            parts in proptest::collection::btree_set(("[a._-]{1,3}|é|s{70}", "[a._-]{1,3}|[a-z]{60,80}"), 1..20),
            seed in proptest::prelude::any::<u64>(),
        ) {
            let parts: Vec<(&str, &str, bool)> = parts.iter().map(|(s, t)| (s.as_str(), t.as_str(), false)).collect();
            let got = names(&parts, FORMAT);
            let different: HashSet<&String> = got.iter().collect();
            proptest::prop_assert_eq!(different.len(), parts.len());
            for name in &got {
                proptest::prop_assert!(name.len() <= LONGEST && mapped(name) == *name, "{}", name);
            }
            let mut order: Vec<usize> = (0..parts.len()).collect();
            order.sort_by_key(|n| (*n as u64).wrapping_mul(seed | 1).rotate_left(17));
            let shuffled: Vec<_> = order.iter().map(|n| parts[*n]).collect();
            for (name, n) in names(&shuffled, FORMAT).iter().zip(&order) {
                proptest::prop_assert_eq!(name, &got[*n]);
            }
        }
    }
}

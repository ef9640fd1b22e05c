//! "Did you mean …?"

/// Suggestions at most.
const MOST: usize = 3;
/// How alike two names have to be, from 0 to 1 (Jaro-Winkler).
const ALIKE: f64 = 0.8;

/// The names most like `name`, best first; none when nothing comes near.
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let wanted = name.to_lowercase();
    let mut scored: Vec<(f64, &str)> = candidates
        .into_iter()
        .map(|candidate| (likeness(&wanted, &candidate.to_lowercase()), candidate))
        .filter(|(score, _)| *score >= ALIKE)
        .collect();
    scored.sort_by(|(a, name_a), (b, name_b)| b.total_cmp(a).then_with(|| name_a.cmp(name_b)));
    scored.dedup_by_key(|(_, name)| *name);
    scored.into_iter().take(MOST).map(|(_, name)| name).collect()
}

fn likeness(wanted: &str, candidate: &str) -> f64 {
    // Who leaves out the prefix means the tool all the same.
    if wanted.len() >= 3 && candidate.ends_with(wanted) {
        return 0.99;
    }
    strsim::jaro_winkler(wanted, candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_come_first_and_far_ones_not_at_all() {
        let names = ["mcp_fs_read_file", "mcp_fs_write_file", "mcp_time_now", "other"];
        assert_eq!(nearest("mcp_fs_read_fil", names)[0], "mcp_fs_read_file");
        assert_eq!(nearest("read_file", names), ["mcp_fs_read_file"]);
        assert_eq!(nearest("MCP_TIME_NOW", names)[0], "mcp_time_now");
        assert!(nearest("zzz", names).is_empty());
        assert!(nearest("", names).is_empty());
        assert_eq!(
            nearest("timout", ["timeout", "connect_timeout", "tools"])[0],
            "timeout"
        );
    }
}

//! Exposed names: an injective, stable map from (server, tool) to what a model may call (TOOL-04).
//!
//! The rule. A tool's plain name is the format with both parts mapped to `[A-Za-z0-9_]`. Where that has more than 64
//! bytes, it is cut and gets `_` and 8 hexadecimal digits of SHA-256 over the server's name, a NUL and the tool's.
//!
//! A plain name that several tools want belongs to none of them: each gets it with `_` and those 8 digits. So no
//! server can take over a name that a model knows as another server's tool (S-12), and a name with digits depends on
//! nothing but its own server and tool. A utility gives way to a native tool, which keeps its plain name.
//!
//! Once contested, a name stays so for as long as any tool wants it, so that a rival's reconnects don't rename tools.
//! Order, of servers and of their lists, plays no part.

use std::collections::{BTreeMap, HashMap, HashSet};

use sha2::{Digest, Sha256};

use super::tool::shown;
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

/// Who may not have a plain name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Bar {
    /// Utilities: another tool wants it.
    Utilities,
    /// All.
    Everyone,
}

/// The plain names that are or were contested.
pub(super) type Contested = BTreeMap<String, Bar>;

/// Gives every part a name of its own, in the order of the parts. `contested` is what an earlier call found, and
/// becomes what this one found.
pub(super) fn assign(parts: &[Parts<'_>], format: &str, contested: &mut Contested) -> Vec<Assigned> {
    let filled: Vec<String> = parts.iter().map(|part| fill(format, part)).collect();
    let plain: Vec<String> = parts
        .iter()
        .zip(&filled)
        .map(|(part, filled)| fitting(filled, part))
        .collect();
    let mut wanted: HashMap<&str, Vec<usize>> = HashMap::new();
    for (n, name) in plain.iter().enumerate() {
        wanted.entry(name).or_default().push(n);
    }
    contested.retain(|name, _| wanted.contains_key(name.as_str()));
    for (name, rivals) in &wanted {
        if let Some(bar) = bar(rivals, parts) {
            let known = contested.entry((*name).to_owned()).or_insert(bar);
            *known = bar.max(*known);
        }
    }

    let mut taken: HashSet<String> = HashSet::new();
    let mut names: Vec<Option<String>> = vec![None; parts.len()];
    let mut without: Vec<usize> = Vec::new();
    for (n, part) in parts.iter().enumerate() {
        let is_barred = contested
            .get(&plain[n])
            .is_some_and(|bar| part.is_utility || *bar == Bar::Everyone);
        if is_barred {
            without.push(n);
        } else {
            taken.insert(plain[n].clone());
            names[n] = Some(plain[n].clone());
        }
    }
    // Sorted, so that even where two hashes are alike the outcome does not depend on the order of the parts.
    without.sort_by_key(|&n| (parts[n].server, parts[n].tool, parts[n].is_utility));
    for n in without {
        let name = (0..)
            .map(|round| suffixed(&filled[n], &parts[n], round))
            .find(|name| !wanted.contains_key(name.as_str()) && !taken.contains(name));
        if let Some(name) = name {
            taken.insert(name.clone());
            names[n] = Some(name);
        }
    }
    names
        .into_iter()
        .enumerate()
        .map(|(n, name)| {
            // The search above ends with a name: there are more of them than tools.
            let name = name.unwrap_or_else(|| plain[n].clone());
            let note = note(&name, n, &filled[n], wanted.get(plain[n].as_str()), parts);
            Assigned {
                name: ExposedName::new(name),
                note,
            }
        })
        .collect()
}

/// Who may not have a name that these want. More rivals never lower the bar, so that only who is there decides and not
/// who came first.
fn bar(rivals: &[usize], parts: &[Parts<'_>]) -> Option<Bar> {
    let natives = rivals.iter().filter(|n| !parts[**n].is_utility).count();
    match (natives, rivals.len()) {
        (0 | 1, 0 | 1) => None,
        (0 | 1, _) => Some(Bar::Utilities),
        _ => Some(Bar::Everyone),
    }
}

fn note(
    name: &str,
    n: usize,
    filled: &str,
    wanted: Option<&Vec<usize>>,
    parts: &[Parts<'_>],
) -> Option<String> {
    if name == filled {
        return None;
    }
    let tool = |n: usize| {
        format!(
            "tool '{}' of server '{}'",
            shown(parts[n].tool),
            shown(parts[n].server)
        )
    };
    let rivals: Vec<String> = wanted
        .into_iter()
        .flatten()
        .filter(|rival| **rival != n)
        .take(2)
        .map(|rival| tool(*rival))
        .collect();
    let why = match rivals.as_slice() {
        [] if filled.len() > LONGEST => format!("its full name has more than {LONGEST} bytes"),
        [] => format!("another tool wanted the name '{filled}' before"),
        rivals => format!(
            "'{}' would be the name of {} too",
            shown(filled),
            rivals.join(" and of ")
        ),
    };
    Some(format!("{} is offered as '{name}': {why}", tool(n)))
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
    let filled = format
        .replace("{server}", &mapped(part.server))
        .replace("{tool}", &mapped(part.tool));
    // The format was checked with the configuration; that names are valid shall not hang on it.
    mapped(&filled)
}

fn fitting(filled: &str, part: &Parts<'_>) -> String {
    if filled.len() <= LONGEST {
        filled.to_owned()
    } else {
        suffixed(filled, part, 0)
    }
}

/// `round` is 0 but for the case that two hashes are alike.
fn suffixed(filled: &str, part: &Parts<'_>, round: u64) -> String {
    let mut hash = Sha256::new();
    hash.update(part.server);
    hash.update([0]);
    hash.update(part.tool);
    if round > 0 {
        hash.update([0]);
        hash.update(round.to_string());
    }
    let digits: String = hash
        .finalize()
        .iter()
        .take(SUFFIX / 2)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    // Mapped names are ASCII, so every byte is a character.
    let kept = &filled[..filled.len().min(LONGEST - SUFFIX - 1)];
    format!("{kept}_{digits}")
}

#[cfg(test)]
mod tests;

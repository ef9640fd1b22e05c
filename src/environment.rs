//! The process environment and the places derived from it, as values, so that tests bring their own.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

/// A set of environment variables. Variables that are not UTF-8 are left out.
#[derive(Clone, Default)]
pub struct Environment {
    variables: BTreeMap<String, String>,
}

impl Environment {
    /// The variables of this process.
    pub fn of_process() -> Self {
        std::env::vars_os()
            .filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?)))
            .collect()
    }

    /// The value of a variable, also when it is empty.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str)
    }

    /// The value of a variable that is set and not empty.
    pub fn get_non_empty(&self, name: &str) -> Option<&str> {
        self.get(name).filter(|value| !value.is_empty())
    }

    /// All variables, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.variables.iter().map(|(k, v)| (k.as_str(), v.as_str()))
    }

    /// Sets a variable in this value (never in the process).
    pub fn set(&mut self, name: impl Into<String>, value: impl Into<String>) {
        self.variables.insert(name.into(), value.into());
    }

    /// The user's home directory: `HOME` (Windows: `USERPROFILE`), else what the system says, else `/`.
    pub fn home_dir(&self) -> PathBuf {
        let variable = if cfg!(windows) { "USERPROFILE" } else { "HOME" };
        self.get_non_empty(variable)
            .map(PathBuf::from)
            .or_else(std::env::home_dir)
            .unwrap_or_else(|| PathBuf::from(std::path::MAIN_SEPARATOR_STR))
    }

    /// Hermes' home: `HERMES_HOME`, else `~/.hermes`.
    pub fn hermes_home(&self) -> HermesHome {
        let default = self.home_dir().join(".hermes");
        match self.get_non_empty("HERMES_HOME") {
            Some(dir) => {
                let dir = self.expand_tilde(dir);
                HermesHome {
                    is_default: dir == default,
                    dir,
                }
            }
            None => HermesHome {
                dir: default,
                is_default: true,
            },
        }
    }

    /// Replaces a leading `~` or `~/` by the home directory; anything else is kept.
    pub fn expand_tilde(&self, path: &str) -> PathBuf {
        match path.strip_prefix('~') {
            Some("") => self.home_dir(),
            Some(rest) if rest.starts_with(['/', std::path::MAIN_SEPARATOR]) => {
                self.home_dir().join(&rest[1..])
            }
            _ => PathBuf::from(path),
        }
    }
}

impl<K: Into<String>, V: Into<String>> FromIterator<(K, V)> for Environment {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Self {
        Self {
            variables: pairs.into_iter().map(|(k, v)| (k.into(), v.into())).collect(),
        }
    }
}

/// The folder that holds `config.yaml`, `.env`, `cache/` and the fallback `run/`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HermesHome {
    dir: PathBuf,
    is_default: bool,
}

impl HermesHome {
    /// The folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Whether it is `~/.hermes`. Any other home has a socket of its own.
    pub fn is_default(&self) -> bool {
        self.is_default
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hermes_home_follows_the_variable_and_knows_the_default() {
        let env: Environment = [("HOME", "/home/a"), ("USERPROFILE", "/home/a")]
            .into_iter()
            .collect();
        assert_eq!(
            env.hermes_home(),
            HermesHome {
                dir: "/home/a/.hermes".into(),
                is_default: true
            }
        );

        for (value, dir, is_default) in [
            ("", "/home/a/.hermes", true),
            ("~/.hermes", "/home/a/.hermes", true),
            ("/srv/h", "/srv/h", false),
        ] {
            let mut env = env.clone();
            env.set("HERMES_HOME", value);
            assert_eq!(
                env.hermes_home(),
                HermesHome {
                    dir: dir.into(),
                    is_default
                },
                "HERMES_HOME={value:?}"
            );
        }
    }
}

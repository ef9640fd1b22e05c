//! Which npm an `npx` belongs to, where its cache is, and what it looks at before the cache.

use std::{
    fs, io,
    ops::RangeInclusive,
    path::{Path, PathBuf},
};

use serde::Deserialize;

use super::AsWritten;
use crate::environment::Environment;

/// The major versions of npm whose `npx` was read: libnpmexec 5 to 11.
const KNOWN: RangeInclusive<u32> = 9..=12;

/// Settings that change neither which program a cached package comes down to nor what it sees, in `.npmrc` or as
/// `npm_config_…`. Most are for installing. Any other may: `offline` and `before` make npx refuse, `location` makes
/// it look elsewhere, `node-options` reaches the server, and npm 12 refuses a file with a setting that it doesn't know.
const HARMLESS: [&str; 21] = [
    "audit",
    "audit-level",
    "cafile",
    "engine-strict",
    "fetch-retries",
    "fetch-retry-maxtimeout",
    "fetch-retry-mintimeout",
    "fetch-timeout",
    "fund",
    "ignore-scripts",
    "legacy-peer-deps",
    "loglevel",
    "maxsockets",
    "omit-lockfile-registry-resolved",
    "package-lock",
    "progress",
    "registry",
    "save-exact",
    "save-prefix",
    "update-notifier",
    "yes",
];

/// Likewise, until npm 12 no longer knew them.
const HARMLESS_BEFORE_12: [&str; 2] = ["email", "nodedir"];

/// Likewise in the environment, where the server sees them with and without `npx`.
const HARMLESS_IN_ENVIRONMENT: [&str; 3] = ["https-proxy", "noproxy", "proxy"];

/// How an `npx` is set up.
#[derive(Debug)]
pub(super) struct Npm {
    /// The folder that holds `_npx`.
    pub(super) cache: PathBuf,
    /// The folders whose `bin` it may search for global programs.
    prefixes: Vec<PathBuf>,
}

impl Npm {
    /// Reads the settings of the npm that the program `npx` belongs to, for a child with this environment and working
    /// directory.
    ///
    /// # Errors
    /// [`AsWritten::UnknownNpm`] and [`AsWritten::Setting`].
    pub(super) fn read(npx: &Path, environment: &Environment, cwd: &Path) -> Result<Self, AsWritten> {
        let (npm, major) = npm_folder(npx)?;
        let default_prefix = prefix_of_node(environment.get("PATH").unwrap_or_default())?;
        for name in ["PREFIX", "DESTDIR"] {
            if environment.get_non_empty(name).is_some() {
                return Err(setting(name, &"the environment"));
            }
        }
        // Another home than npm would find by itself is not guessed.
        let home = environment
            .get_non_empty("HOME")
            .map(PathBuf::from)
            .filter(|home| home.is_absolute())
            .ok_or_else(|| setting("HOME", &"the environment"))?;

        let reader = Reader { home: &home, major };
        // From weak to strong, as npm ranks them. Where the global file is depends on the others.
        let builtin = reader.file(&npm.join("npmrc"))?;
        let user_file = home.join(".npmrc");
        let user = reader.file(&user_file)?;
        let variables = reader.environment(environment)?;
        let prefix = [&variables, &user, &builtin]
            .iter()
            .find_map(|settings| settings.prefix.clone())
            .unwrap_or_else(|| default_prefix.clone());
        let global_file = prefix.join("etc/npmrc");
        let global = reader.file(&global_file)?;
        let project_file = cwd.join(".npmrc");
        if project_file != user_file {
            let project = reader.file(&project_file)?;
            if project.cache.is_some() || project.prefix.is_some() {
                return Err(setting("cache or prefix", &project_file.display()));
            }
        }
        if global.prefix.is_some_and(|other| other != prefix) {
            return Err(setting("prefix", &global_file.display()));
        }
        let cache = [variables.cache, user.cache, global.cache, builtin.cache]
            .into_iter()
            .flatten()
            .next()
            .unwrap_or_else(|| home.join(".npm"));
        Ok(Self {
            cache,
            prefixes: vec![prefix, default_prefix],
        })
    }

    /// Makes sure that `npx` in this working directory comes as far as its cache, for a package that is written and
    /// whose program is called by these names.
    ///
    /// # Errors
    /// [`AsWritten::Before`] with what it would look at before.
    pub(super) fn nothing_before(&self, cwd: &Path, names: [&str; 2]) -> Result<(), AsWritten> {
        let project = cwd
            .ancestors()
            .flat_map(|folder| ["package.json", "node_modules"].map(|name| folder.join(name)));
        let global = self
            .prefixes
            .iter()
            .flat_map(|prefix| names.map(|name| prefix.join("bin").join(name)));
        match project.chain(global).find(|path| may_exist(path)) {
            Some(path) => Err(AsWritten::Before(path)),
            None => Ok(()),
        }
    }
}

/// Whether something is there, or can't be looked at.
fn may_exist(path: &Path) -> bool {
    !matches!(fs::symlink_metadata(path), Err(error) if is_absent(&error))
}

fn is_absent(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

/// The folder and the major version of the npm whose script `npx` is. Shims of version managers (Volta, asdf, mise) and other programs of
/// the name lead to another file and so out of here.
fn npm_folder(npx: &Path) -> Result<(PathBuf, u32), AsWritten> {
    #[derive(Deserialize)]
    struct Manifest {
        name: String,
        version: String,
    }
    let unknown = |what: String| AsWritten::UnknownNpm(what);
    let script = fs::canonicalize(npx).map_err(|error| unreadable(npx, &error))?;
    let folder = script
        .ends_with("npm/bin/npx-cli.js")
        .then(|| script.ancestors().nth(2))
        .flatten()
        .ok_or_else(|| unknown(format!("'{}' is not npm's npx-cli.js", script.display())))?;
    let manifest = folder.join("package.json");
    let npm: Manifest = fs::read(&manifest)
        .and_then(|bytes| Ok(serde_json::from_slice(&bytes)?))
        .map_err(|error| unreadable(&manifest, &error))?;
    let major = npm.version.split('.').next().and_then(|major| major.parse().ok());
    match major {
        Some(major) if npm.name == "npm" && KNOWN.contains(&major) => Ok((folder.to_owned(), major)),
        _ => Err(unknown(format!("{} {}", npm.name, npm.version))),
    }
}

/// What npm takes as its prefix unless it is told: the folder above the one of the running `node`. A shim on PATH
/// runs a `node` that is elsewhere.
fn prefix_of_node(path: &str) -> Result<PathBuf, AsWritten> {
    let unknown = |what: String| AsWritten::UnknownNpm(what);
    let node = which::which_in("node", Some(path), "/")
        .and_then(|node| fs::canonicalize(node).map_err(|_| which::Error::CannotFindBinaryPath))
        .map_err(|_| unknown("there is no node on the server's PATH".into()))?;
    let is_node = node
        .file_name()
        .is_some_and(|name| name == "node" || name == "nodejs")
        && !starts_as_script(&node);
    is_node
        .then(|| node.ancestors().nth(2).map(Path::to_owned))
        .flatten()
        .ok_or_else(|| {
            unknown(format!(
                "the node on the server's PATH is a wrapper, '{}'",
                node.display()
            ))
        })
}

fn starts_as_script(path: &Path) -> bool {
    let mut start = [0; 2];
    fs::File::open(path)
        .and_then(|mut file| io::Read::read_exact(&mut file, &mut start))
        .is_ok()
        && start == *b"#!"
}

/// What one place sets, of what matters here.
#[derive(Debug, Default, PartialEq, Eq)]
struct Settings {
    cache: Option<PathBuf>,
    prefix: Option<PathBuf>,
}

/// Reads settings as a certain npm does.
struct Reader<'a> {
    home: &'a Path,
    major: u32,
}

impl Reader<'_> {
    fn file(&self, file: &Path) -> Result<Settings, AsWritten> {
        let text = match fs::read_to_string(file) {
            Ok(text) => text,
            Err(error) if is_absent(&error) => return Ok(Settings::default()),
            Err(error) => return Err(unreadable(file, &error)),
        };
        let mut settings = Settings::default();
        for line in text.lines().map(str::trim) {
            if line.is_empty() || line.starts_with([';', '#']) {
                continue;
            }
            // A line without '=' means true.
            let (key, value) = line.split_once('=').unwrap_or((line, "true"));
            let key = key.trim_end();
            self.take(&mut settings, key, value.trim_start()).ok_or_else(|| {
                // What comes after the first word may be a token where somebody forgot the '='.
                let word = key.split_whitespace().next().unwrap_or_default();
                setting(word, &file.display())
            })?;
        }
        Ok(settings)
    }

    fn environment(&self, environment: &Environment) -> Result<Settings, AsWritten> {
        const START: &str = "npm_config_";
        let mut settings = Settings::default();
        for (name, value) in environment.iter().filter(|(_, value)| !value.is_empty()) {
            let Some((start, key)) = name.split_at_checked(START.len()) else {
                continue;
            };
            if !start.eq_ignore_ascii_case(START) {
                continue;
            }
            let key = key.replace('_', "-").to_lowercase();
            if HARMLESS_IN_ENVIRONMENT.contains(&key.as_str()) {
                continue;
            }
            self.take(&mut settings, &key, value)
                .ok_or_else(|| setting(name, &"the environment"))?;
        }
        Ok(settings)
    }

    /// `None` for a setting that isn't understood.
    fn take(&self, settings: &mut Settings, key: &str, value: &str) -> Option<()> {
        match key {
            "cache" => settings.cache = Some(plain_path(value, self.home)?),
            "prefix" => settings.prefix = Some(plain_path(value, self.home)?),
            // Where packages come from, and the keys to get in.
            _ if key.starts_with("//") || (key.starts_with('@') && key.ends_with(":registry")) => {}
            _ if HARMLESS.contains(&key) => {}
            _ if HARMLESS_BEFORE_12.contains(&key) && self.major < 12 => {}
            _ => return None,
        }
        Some(())
    }
}

/// An absolute path that is written without quotes, escapes, comments and variables.
fn plain_path(value: &str, home: &Path) -> Option<PathBuf> {
    let path = match value.strip_prefix("~/") {
        Some(rest) => home.join(rest),
        None => PathBuf::from(value),
    };
    (path.is_absolute() && !value.contains(['"', '\'', '\\', ';', '#', '$'])).then_some(path)
}

fn unreadable(path: &Path, error: &io::Error) -> AsWritten {
    AsWritten::UnknownNpm(format!("'{}' can't be read: {error}", path.display()))
}

fn setting(key: &str, place: &dyn std::fmt::Display) -> AsWritten {
    AsWritten::Setting {
        key: key.to_owned(),
        place: place.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reader(major: u32) -> Reader<'static> {
        Reader {
            home: Path::new("/home/a"),
            major,
        }
    }

    fn file(text: &str) -> Result<Settings, AsWritten> {
        file_of(12, text)
    }

    fn file_of(major: u32, text: &str) -> Result<Settings, AsWritten> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(".npmrc");
        fs::write(&path, text).unwrap();
        reader(major).file(&path)
    }

    #[test]
    fn only_settings_that_are_understood_pass() {
        let settings = |cache: Option<&str>, prefix: Option<&str>| Settings {
            cache: cache.map(Into::into),
            prefix: prefix.map(Into::into),
        };
        for (text, expected) in [
            ("", settings(None, None)),
            ("; a\n# b\n\n  fund=false\r\nyes = true\n", settings(None, None)),
            (
                "registry=https://example.org/\n@x:registry=https://example.org/\n//example.org/:_authToken=${T}\n",
                settings(None, None),
            ),
            (
                "cache = /srv/npm\nprefix=~/.global",
                settings(Some("/srv/npm"), Some("/home/a/.global")),
            ),
            ("cache=/a\ncache=/b", settings(Some("/b"), None)),
        ] {
            assert_eq!(file(text), Ok(expected), "{text:?}");
        }
        for (text, key) in [
            ("offline=true", "offline"),
            ("offline", "offline"),
            ("before=2026-01-01", "before"),
            ("min-release-age=7", "min-release-age"),
            ("node-options=--inspect", "node-options"),
            ("script-shell=/bin/zsh", "script-shell"),
            ("proxy=http://localhost:3128", "proxy"),
            ("location=global", "location"),
            ("omit[]=optional", "omit[]"),
            ("[section]", "[section]"),
            ("cache=relative", "cache"),
            ("cache=${HOME}/x", "cache"),
            ("cache=\"/srv/npm\"", "cache"),
            ("cache=/srv/npm ; a comment", "cache"),
            ("Fund=false", "Fund"),
            ("nodedir=/usr", "nodedir"),
        ] {
            assert!(
                matches!(file(text), Err(AsWritten::Setting { key: found, .. }) if found == key),
                "{text:?}"
            );
        }
    }

    #[test]
    fn npm_12_refuses_what_it_does_not_know() {
        for text in ["nodedir=/usr", "email=a@example.org"] {
            assert!(file_of(11, text).is_ok(), "{text}");
            assert!(file_of(12, text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_value_of_npmrc_is_in_no_message() {
        for line in ["_authToken=hunter2", "_authToken hunter2"] {
            let error = file(line).unwrap_err().to_string();
            assert!(
                error.contains("'_authToken'") && !error.contains("hunter2"),
                "{error}"
            );
        }
    }

    #[test]
    fn variables_are_settings_in_any_case() {
        let read = |name: &str, value: &str| reader(12).environment(&[(name, value)].into_iter().collect());
        for name in ["npm_config_cache", "NPM_CONFIG_CACHE", "Npm_Config_Cache"] {
            assert_eq!(read(name, "/c").unwrap().cache, Some("/c".into()), "{name}");
        }
        for (name, value) in [
            ("npm_config_update_notifier", "false"),
            ("npm_config_https_proxy", "http://localhost:3128"),
            ("npm_config_offline", ""),
            ("npm_lifecycle_event", "npx"),
            ("é", "x"),
        ] {
            assert_eq!(read(name, value), Ok(Settings::default()), "{name}");
        }
        for name in [
            "npm_config_offline",
            "NPM_CONFIG_USERCONFIG",
            "npm_config_location",
        ] {
            assert!(
                matches!(read(name, "x"), Err(AsWritten::Setting { .. })),
                "{name}"
            );
        }
    }
}

//! Where the daemon listens: one rule for the daemon and for every client, so that both always name the same socket.

use std::{
    fmt,
    ops::Deref,
    path::{Path, PathBuf},
};

use sha2::{Digest, Sha256};

use crate::environment::Environment;

/// The variable that names the socket.
pub const SOCKET_VARIABLE: &str = "HERMESD_MCP_SOCKET";

/// Usable bytes of a socket's path: `sun_path` without its final NUL, or a pipe's name on Windows.
pub const SOCKET_PATH_LIMIT: usize = if cfg!(windows) {
    256
} else if cfg!(any(target_os = "linux", target_os = "android")) {
    107
} else {
    103
};

/// Where a socket's path comes from, the strongest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// `--socket`.
    Option,
    /// `$HERMESD_MCP_SOCKET`.
    Variable,
    /// `hermesd.socket` of the configuration.
    Config,
    /// A folder of ours in `$XDG_RUNTIME_DIR`.
    RuntimeDir,
    /// `run/` in Hermes' home.
    HermesHome,
    /// The user's pipe (Windows).
    UserPipe,
}

impl Origin {
    /// Whether the program chose the place, not the user. The folder is then ours alone and has to be private.
    pub fn is_automatic(self) -> bool {
        matches!(self, Self::RuntimeDir | Self::HermesHome | Self::UserPipe)
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Option => "--socket",
            Self::Variable => SOCKET_VARIABLE,
            Self::Config => "hermesd.socket in the configuration",
            Self::RuntimeDir => "XDG_RUNTIME_DIR",
            Self::HermesHome => "Hermes' home",
            Self::UserPipe => "the user's name",
        })
    }
}

/// An absolute socket path that the system can bind. Only [`SocketPath::new`] and [`socket_path`] make one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SocketPath {
    path: PathBuf,
    origin: Origin,
}

impl SocketPath {
    /// Makes the path absolute (against the working directory) and checks its length (B74).
    ///
    /// # Errors
    /// [`PathError`] when it is empty, too long, or the working directory is gone.
    pub fn new(path: &Path, origin: Origin) -> Result<Self, PathError> {
        let path = std::path::absolute(path).map_err(|source| PathError::NotAbsolute {
            path: path.to_owned(),
            origin,
            source,
        })?;
        let length = path.as_os_str().len();
        if length > SOCKET_PATH_LIMIT {
            return Err(PathError::TooLong {
                path,
                origin,
                length,
                limit: SOCKET_PATH_LIMIT,
            });
        }
        Ok(Self { path, origin })
    }

    /// Where the path comes from.
    pub fn origin(&self) -> Origin {
        self.origin
    }

    /// The path alone.
    pub fn into_path_buf(self) -> PathBuf {
        self.path
    }
}

impl Deref for SocketPath {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.path
    }
}

impl AsRef<Path> for SocketPath {
    fn as_ref(&self) -> &Path {
        &self.path
    }
}

/// Why no socket path could be made.
#[derive(Debug, thiserror::Error)]
pub enum PathError {
    /// Longer than the system's socket addresses (B74). It is never cut: two daemons would meet.
    #[error(
        "socket path '{}' (from {origin}) is {length} bytes long, but this system allows {limit}; \
         choose a shorter one with --socket, {SOCKET_VARIABLE} or hermesd.socket", path.display()
    )]
    TooLong {
        /// The whole path.
        path: PathBuf,
        /// Where it comes from.
        origin: Origin,
        /// Its length in bytes.
        length: usize,
        /// The most bytes that this system allows.
        limit: usize,
    },
    /// Empty, or relative while the working directory cannot be read.
    #[error("socket path '{}' (from {origin}) cannot be made absolute: {source}", path.display())]
    NotAbsolute {
        /// The path as it was given.
        path: PathBuf,
        /// Where it comes from.
        origin: Origin,
        /// What the system said.
        source: std::io::Error,
    },
}

/// The socket of this user and this Hermes home: `--socket`, `$HERMESD_MCP_SOCKET`, `hermesd.socket` (relative to
/// Hermes' home), `$XDG_RUNTIME_DIR/hermesd-mcp/mcp.sock`, `$HERMES_HOME/run/mcp.sock`. A leading `~` is expanded.
///
/// With a Hermes home that isn't the default, the file name of the automatic places carries a short hash of it, so
/// that two homes never share a daemon. `XDG_RUNTIME_DIR` is passed over when it cannot be trusted (a left-over of
/// `sudo -E`, say) and when the path in it would be too long.
///
/// # Errors
/// [`PathError`] when the path that was asked for, or the last automatic one, cannot be used.
pub fn socket_path(
    explicit: Option<&Path>,
    configured: Option<&Path>,
    env: &Environment,
) -> Result<SocketPath, PathError> {
    socket_path_with(explicit, configured, env, is_private_dir)
}

fn socket_path_with(
    explicit: Option<&Path>,
    configured: Option<&Path>,
    env: &Environment,
    is_private_dir: impl Fn(&Path) -> bool,
) -> Result<SocketPath, PathError> {
    if let Some(path) = explicit {
        return SocketPath::new(&expand_tilde(path, env), Origin::Option);
    }
    if let Some(path) = env.get_non_empty(SOCKET_VARIABLE) {
        return SocketPath::new(&env.expand_tilde(path), Origin::Variable);
    }
    let home = env.hermes_home();
    if let Some(path) = configured {
        // Relative to a fixed place: the daemon and its clients have different working directories.
        let path = home.dir().join(expand_tilde(path, env));
        return SocketPath::new(&path, Origin::Config);
    }
    let hash = (!home.is_default()).then(|| short_hash(home.dir()));
    if cfg!(windows) {
        return SocketPath::new(&user_pipe(env, hash.as_deref()), Origin::UserPipe);
    }
    let file = match hash {
        Some(hash) => format!("mcp-{hash}.sock"),
        None => "mcp.sock".to_owned(),
    };
    let runtime_dir = env
        .get_non_empty("XDG_RUNTIME_DIR")
        .map(Path::new)
        .filter(|dir| dir.is_absolute() && is_private_dir(dir));
    if let Some(dir) = runtime_dir
        && let Ok(path) = SocketPath::new(&dir.join("hermesd-mcp").join(&file), Origin::RuntimeDir)
    {
        return Ok(path);
    }
    SocketPath::new(&home.dir().join("run").join(file), Origin::HermesHome)
}

fn expand_tilde(path: &Path, env: &Environment) -> PathBuf {
    match path.to_str() {
        Some(text) => env.expand_tilde(text),
        None => path.to_owned(),
    }
}

/// The first 8 hexadecimal digits of the SHA-256 of the absolute path, however many slashes it was written with.
fn short_hash(home: &Path) -> String {
    let absolute = std::path::absolute(home).unwrap_or_else(|_| home.to_owned());
    let plain: PathBuf = absolute.components().collect();
    let digest = Sha256::digest(plain.as_os_str().as_encoded_bytes());
    digest.iter().take(4).map(|byte| format!("{byte:02x}")).collect()
}

/// Pipe names are flat and case-insensitive, and a `\` would start a new part.
fn user_pipe(env: &Environment, hash: Option<&str>) -> PathBuf {
    let user: String = env
        .get_non_empty("USERNAME")
        .unwrap_or("user")
        .chars()
        .map(|c| if c.is_alphanumeric() { c } else { '_' })
        .collect();
    let hash = hash.map(|hash| format!("-{hash}")).unwrap_or_default();
    PathBuf::from(format!(r"\\.\pipe\hermesd-mcp-{user}{hash}"))
}

/// Whether a folder exists, is no symbolic link, belongs to this user and lets nobody else in.
#[cfg(unix)]
fn is_private_dir(dir: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::symlink_metadata(dir).is_ok_and(|meta| {
        meta.is_dir() && meta.uid() == rustix::process::geteuid().as_raw() && meta.mode() & 0o077 == 0
    })
}

#[cfg(not(unix))]
fn is_private_dir(_: &Path) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env(pairs: &[(&str, &str)]) -> Environment {
        let mut env: Environment = [("HOME", "/home/a"), ("USERPROFILE", "/home/a")]
            .into_iter()
            .collect();
        for (name, value) in pairs {
            env.set(*name, *value);
        }
        env
    }

    #[cfg(unix)]
    #[test]
    fn the_strongest_origin_wins() {
        const RUN: (&str, &str) = ("XDG_RUNTIME_DIR", "/run/user/7");
        const VAR: (&str, &str) = (SOCKET_VARIABLE, "/v.sock");
        const HOME: (&str, &str) = ("HERMES_HOME", "/srv/h");
        type Case = (
            Option<&'static str>,
            Option<&'static str>,
            &'static [(&'static str, &'static str)],
            &'static str,
            Origin,
        );
        let cases: &[Case] = &[
            (
                Some("/x.sock"),
                Some("/c.sock"),
                &[RUN, VAR],
                "/x.sock",
                Origin::Option,
            ),
            (Some("~/x.sock"), None, &[RUN], "/home/a/x.sock", Origin::Option),
            (None, Some("/c.sock"), &[RUN, VAR], "/v.sock", Origin::Variable),
            (
                None,
                None,
                &[(SOCKET_VARIABLE, "~/v.sock")],
                "/home/a/v.sock",
                Origin::Variable,
            ),
            (
                None,
                Some("/c.sock"),
                &[RUN, (SOCKET_VARIABLE, "")],
                "/c.sock",
                Origin::Config,
            ),
            (None, Some("c.sock"), &[HOME], "/srv/h/c.sock", Origin::Config),
            (
                None,
                None,
                &[RUN],
                "/run/user/7/hermesd-mcp/mcp.sock",
                Origin::RuntimeDir,
            ),
            (
                None,
                None,
                &[RUN, HOME],
                "/run/user/7/hermesd-mcp/mcp-fd2b6cd5.sock",
                Origin::RuntimeDir,
            ),
            (
                None,
                None,
                &[],
                "/home/a/.hermes/run/mcp.sock",
                Origin::HermesHome,
            ),
            (
                None,
                None,
                &[HOME],
                "/srv/h/run/mcp-fd2b6cd5.sock",
                Origin::HermesHome,
            ),
            (
                None,
                None,
                &[("XDG_RUNTIME_DIR", "run/user/7")],
                "/home/a/.hermes/run/mcp.sock",
                Origin::HermesHome,
            ),
        ];
        for (explicit, configured, pairs, path, origin) in cases {
            let found = socket_path_with(
                explicit.map(Path::new),
                configured.map(Path::new),
                &env(pairs),
                |_| true,
            )
            .unwrap();
            assert_eq!((&*found, found.origin()), (Path::new(path), *origin));
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_runtime_dir_that_lets_others_in_or_is_not_there_is_passed_over() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let run = dir.path().join("run");
        let origin = |dir: &Path| {
            socket_path(None, None, &env(&[("XDG_RUNTIME_DIR", dir.to_str().unwrap())]))
                .unwrap()
                .origin()
        };
        assert_eq!(origin(&run), Origin::HermesHome, "missing");

        std::fs::create_dir(&run).unwrap();
        for (mode, expected) in [
            (0o700, Origin::RuntimeDir),
            (0o750, Origin::HermesHome),
            (0o701, Origin::HermesHome),
            (0o1777, Origin::HermesHome),
        ] {
            std::fs::set_permissions(&run, std::fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(origin(&run), expected, "mode {mode:o}");
        }

        std::fs::set_permissions(&run, std::fs::Permissions::from_mode(0o700)).unwrap();
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&run, &link).unwrap();
        assert_eq!(origin(&link), Origin::HermesHome, "symbolic link");
    }

    #[cfg(unix)]
    #[test]
    fn b74_a_deep_home_falls_back_to_the_short_place_or_names_path_length_and_limit() {
        let deep = format!("/{}", "d".repeat(149));
        let home = ("HERMES_HOME", deep.as_str());
        let other = format!("{deep}2");
        let run = ("XDG_RUNTIME_DIR", "/run/user/7");

        let first = socket_path_with(None, None, &env(&[home, run]), |_| true).unwrap();
        let second = socket_path_with(None, None, &env(&[("HERMES_HOME", &other), run]), |_| true).unwrap();
        assert_ne!(first, second, "two homes never share a socket");

        let error = socket_path_with(None, None, &env(&[home]), |_| true).unwrap_err();
        let text = error.to_string();
        for part in [
            format!("'{deep}/run/mcp-"),
            "is 172 bytes long".into(),
            format!("allows {SOCKET_PATH_LIMIT}"),
            "choose a shorter one with --socket".into(),
        ] {
            assert!(text.contains(&part), "{part:?} in {text:?}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn b74_a_long_runtime_dir_gives_way_to_the_home() {
        let long = format!("/{}", "r".repeat(100));
        let found = socket_path_with(None, None, &env(&[("XDG_RUNTIME_DIR", &long)]), |_| true).unwrap();
        assert_eq!(found.origin(), Origin::HermesHome);
    }

    #[cfg(unix)]
    #[test]
    fn the_limit_is_exact() {
        let fits = format!("/{}", "x".repeat(SOCKET_PATH_LIMIT - 1));
        assert!(SocketPath::new(Path::new(&fits), Origin::Option).is_ok());
        assert!(SocketPath::new(Path::new(&format!("{fits}x")), Origin::Option).is_err());
        assert!(SocketPath::new(Path::new(""), Origin::Option).is_err());
    }

    #[test]
    fn the_hash_ignores_how_the_home_was_written() {
        let plain = short_hash(Path::new("/srv/h"));
        assert_eq!(plain.len(), 8);
        for same in ["/srv/h/", "/srv//h", "/srv/./h"] {
            assert_eq!(short_hash(Path::new(same)), plain, "{same}");
        }
        assert_ne!(short_hash(Path::new("/srv/h2")), plain);
    }

    #[test]
    fn a_pipe_name_is_one_flat_part() {
        let env = env(&[("USERNAME", r"Ann\Lee")]);
        assert_eq!(user_pipe(&env, None), Path::new(r"\\.\pipe\hermesd-mcp-Ann_Lee"));
        assert_eq!(
            user_pipe(&env, Some("0a1b2c3d")),
            Path::new(r"\\.\pipe\hermesd-mcp-Ann_Lee-0a1b2c3d")
        );
    }
}

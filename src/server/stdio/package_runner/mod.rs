//! A server that `npx` would only find in its cache is started without `npx`, which otherwise stays resident beside it.
//!
//! Measured with npm 11 on Node 20 and two small servers: 47 MiB less for one server (111 MiB to 64 MiB, proportional
//! set size of the whole tree), 41 MiB less for each of six that share node's pages, and the answer to `initialize`
//! after 0.5 s where it took 1.3 s or more.
//!
//! # What is relied on
//!
//! Read in libnpmexec 5 to 11, which is npm 9 to 12, and seen with 9.9, 10.9, 11.19 and 12.2; the `npx` of any other
//! npm is started as it is written. `npx [-y] NAME@1.2.3 …`
//! 1. looks for a `package.json` or `node_modules` in the working directory and every folder above;
//! 2. looks for a program of the same name in the global `bin`;
//! 3. asks the registry about the package, and goes on with what it has when the registry can't be reached;
//! 4. looks into `CACHE/_npx/HASH`, where HASH is the first 16 digits of the SHA-512 of `NAME@1.2.3`. When
//!    exactly this version is there, nothing is installed or updated, whether or not `-y` is given. Only then does it
//! 5. run `sh -c BIN` with `CACHE/_npx/HASH/node_modules/.bin` in front of PATH, in the working directory.
//!
//! What step 3 says can't change which files are run, as a published version is never replaced. It can stop them from
//! being run: a version that was withdrawn is refused by `npx` and is started here, from the copy on this machine.
//!
//! **A name without a version is left to `npx`**: since npm 9 it asks the registry at every start and installs what
//! is newer, even beside a complete copy; so does a tag (`@latest`), and a range in newer versions. Whoever writes
//! the version gets the saving from the second start on.
//!
//! # What the server sees
//!
//! The same program path, arguments, working directory and environment as below `npx`, with these differences: PATH
//! has the package's `.bin` in front, but not the folders `node_modules/.bin` of the working directory and above (they
//! don't exist, see 1) and not npm's own `node-gyp-bin`; and the variables `npm_*`, `INIT_CWD`, `NODE`, `COLOR` and
//! `EDITOR` are not set, unless the entry sets them. Settings that npm would turn into something which a server may
//! depend on (`node-options`, `script-shell`, a proxy in `.npmrc`) leave the server to `npx`. `engines` isn't looked
//! at: `npx` checks it when it installs and not when it starts.

mod cached;
mod command_line;
mod npm;
#[cfg(all(test, unix))]
mod tests;

use std::path::{Path, PathBuf};

use self::{cached::Cached, command_line::CommandLine, npm::Npm};
use crate::environment::Environment;

/// What a direct start saves, in a few words for `status`. See the measurement above.
pub const SAVES: &str = "the resident npx: 40 to 47 MiB of memory, and about a second at each start";

/// How the package of a server was started: directly, or as written and why.
pub type Runner = Result<Direct, AsWritten>;

/// What to start in place of `npx`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Direct {
    /// The package's program, as `npx` would call it: a link in `node_modules/.bin`, so that `argv[1]` is the same.
    pub program: PathBuf,
    /// The server's own arguments.
    pub args: Vec<String>,
    /// The child's PATH: the package's `node_modules/.bin`, then what it was.
    pub path: String,
    /// The package's name.
    pub package: String,
    /// Its version, as it is written in the configuration and found in the cache.
    pub version: String,
}

impl Direct {
    /// `name@version`.
    pub fn spec(&self) -> String {
        format!("{}@{}", self.package, self.version)
    }
}

/// Why a command is started as it is written. The text is for the user, and without what the settings say.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AsWritten {
    /// Nothing that could be saved.
    #[error("the command is not npx")]
    NotNpx,
    /// Options of `npx`, or no package.
    #[error("its arguments are not just -y, one package and the server's own")]
    Arguments,
    /// A tag, a range, an address, a folder, or nothing that npm knows.
    // An address may hold a password, so it isn't shown.
    #[error("its package is not a name with an exact version")]
    Package,
    /// A name alone.
    #[error(
        "'{name}' has no version, so npx asks the registry for the newest at every start{}",
        cached.as_ref().map(|version| format!("; write '{name}@{version}' to start it without npx")).unwrap_or_default()
    )]
    Unpinned {
        /// The package's name.
        name: String,
        /// The version that `npx` left in its cache when it was last asked.
        cached: Option<String>,
    },
    /// A wrapper of a version manager, an npm that was not read, or files of it that can't be read.
    #[error("this npx is not of an npm whose ways are known: {0}")]
    UnknownNpm(String),
    /// A setting of npm that may lead elsewhere.
    #[error("npm's setting '{key}' in {place} may change what npx starts")]
    Setting {
        /// Its name.
        key: String,
        /// The file, or "the environment".
        place: String,
    },
    /// Something that comes before the cache.
    #[error("npx would look at '{}' first", .0.display())]
    Before(PathBuf),
    /// The package is not in the cache.
    #[error("npx has no copy of it yet")]
    NotCached,
    /// The copy isn't one that `npx` would just start.
    #[error("npx's copy of it is not complete or not as expected: '{}' {why}", path.display())]
    Unfit {
        /// The file or folder.
        path: PathBuf,
        /// What is wrong with it.
        why: &'static str,
    },
}

/// Finds the program that `command args` comes down to, when `command` is an `npx` that would find it in its cache
/// and do nothing else. `environment` is what the child gets, its PATH included, and `cwd` where it will run. Nothing
/// but files is read: a few, and one look at each package that the server needs.
///
/// # Errors
/// [`AsWritten`], wherever it is not certain that `npx` would start the same program.
pub fn direct(
    command: &Path,
    args: &[String],
    environment: &Environment,
    cwd: &Path,
) -> Result<Direct, AsWritten> {
    // On Windows it is `npx.cmd`, whose shims have other rules; there it stays as it is written.
    if cfg!(not(unix)) || command.file_name().is_none_or(|name| name != "npx") {
        return Err(AsWritten::NotNpx);
    }
    let line = CommandLine::parse(args)?;
    // As the child will see it: a path without symbolic links.
    let cwd = std::fs::canonicalize(cwd).map_err(|_| AsWritten::Before(cwd.to_owned()))?;
    let npm = Npm::read(command, environment, &cwd)?;
    let cached = Cached::of(&npm.cache, line.spec);
    let Some(version) = line.version else {
        return Err(AsWritten::Unpinned {
            name: line.name.to_owned(),
            cached: cached.version(line.name),
        });
    };
    let bin = cached.check(line.name, version)?;
    npm.nothing_before(&cwd, [line.spec, bin.as_str()])?;
    let folder = cached.bin_folder();
    let program = folder.join(bin);
    let path = environment.get("PATH").unwrap_or_default();
    let path = std::env::join_paths(std::iter::once(folder.clone()).chain(std::env::split_paths(path)))
        .ok()
        .and_then(|path| path.into_string().ok())
        .ok_or(AsWritten::Unfit {
            path: folder,
            why: "can't be an entry of PATH",
        })?;
    Ok(Direct {
        program,
        args: line.own.to_vec(),
        path,
        package: line.name.to_owned(),
        version: version.to_owned(),
    })
}

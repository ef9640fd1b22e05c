//! From `command` to a program on disk. As a service the daemon has a short PATH, and `npx`, `uvx` or `node` are the
//! first things that are missing (B72): after the child's PATH come the folders where installers put them, and what
//! was searched is part of the error.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use crate::environment::Environment;

/// A program that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolved {
    /// The absolute path to run.
    pub program: PathBuf,
    /// Its folder, to be put on the child's PATH: the `#!/usr/bin/env node` of `npx` finds its `node` there.
    pub directory: Option<PathBuf>,
    /// What found it.
    pub step: Step,
}

/// What found a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// The command is a path.
    Written,
    /// The child's PATH.
    ChildPath,
    /// One of the fallback folders.
    Fallback,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Written => "the path in the configuration",
            Self::ChildPath => "the server's PATH",
            Self::Fallback => "a fallback folder",
        })
    }
}

/// A command that leads to no program (STDIO-12). Shows as `command not found: 'npx' (searched: …)`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct NotFound {
    /// The command as it is configured.
    pub command: String,
    /// The folders that were searched, in order; for a command that is a path, that path alone.
    pub searched: Vec<PathBuf>,
    /// The first file of that name that cannot be run, and why.
    pub unusable: Option<(PathBuf, &'static str)>,
}

impl fmt::Display for NotFound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "command not found: '{}'", self.command)?;
        if let Some((path, why)) = &self.unusable {
            write!(f, ": '{}' {why}", path.display())?;
        }
        for (n, folder) in self.searched.iter().enumerate() {
            let before = if n == 0 { " (searched: " } else { ", " };
            write!(f, "{before}{}", folder.display())?;
        }
        if self.searched.is_empty() {
            f.write_str(" (searched nothing: the server's PATH is empty")?;
        }
        f.write_str(")")
    }
}

/// Finds the program of a stdio server. A command with a separator is a path, relative to `cwd` (the child's); any
/// other is looked up on `child_path`, then in `fallback`. Relative and empty entries of PATH are passed over: they
/// would run whatever lies in the working directory.
///
/// # Errors
/// [`NotFound`], with the folders that were searched and the file that exists but cannot be run, if any.
pub fn resolve_command(
    command: &str,
    child_path: &str,
    fallback: &[PathBuf],
    cwd: &Path,
) -> Result<Resolved, NotFound> {
    if command.contains(std::path::is_separator) {
        let path = cwd.join(command);
        return match runnable(&path) {
            Some(program) => Ok(resolved(program, Step::Written)),
            None => Err(NotFound {
                command: command.to_owned(),
                unusable: why_unusable(&path),
                searched: vec![path],
            }),
        };
    }
    let on_path = std::env::split_paths(child_path).map(|folder| (folder, Step::ChildPath));
    let fallback = fallback.iter().map(|folder| (folder.clone(), Step::Fallback));
    let mut searched: Vec<PathBuf> = Vec::new();
    let mut unusable = None;
    for (folder, step) in on_path.chain(fallback) {
        if !folder.is_absolute() || searched.contains(&folder) {
            continue;
        }
        let candidate = folder.join(command);
        if let Some(program) = runnable(&candidate) {
            return Ok(resolved(program, step));
        }
        unusable = unusable.or_else(|| why_unusable(&candidate));
        searched.push(folder);
    }
    Err(NotFound {
        command: command.to_owned(),
        searched,
        unusable,
    })
}

/// The folders that are tried after PATH: where Hermes, `pip --user`/`uv`, Homebrew and manual installs put things.
pub fn fallback_dirs(env: &Environment) -> Vec<PathBuf> {
    let home = env.home_dir();
    let hermes = env.hermes_home();
    let mut folders = vec![hermes.dir().join("node").join("bin")];
    if !hermes.is_default() {
        // Hermes installs its Node once, in the default home.
        folders.push(home.join(".hermes").join("node").join("bin"));
    }
    folders.push(home.join(".local").join("bin"));
    if cfg!(windows) {
        // Node's Windows archive has no `bin`.
        folders.insert(0, hermes.dir().join("node"));
    } else {
        folders.push("/opt/homebrew/bin".into());
        folders.push("/usr/local/bin".into());
    }
    folders
}

/// The [`fallback_dirs`], and last the folder of this very program: `command: hermesd-mcp` starts the built-in server
/// also where nothing is installed.
pub fn known_dirs(env: &Environment) -> Vec<PathBuf> {
    let mut dirs = fallback_dirs(env);
    let own = std::env::current_exe()
        .ok()
        .and_then(|program| program.parent().map(Path::to_path_buf));
    dirs.extend(own);
    dirs
}

/// `path` with `directory` in front, or unchanged when it is there already (or cannot be an entry of PATH).
pub fn child_path_with(directory: &Path, path: &str) -> String {
    let entries: Vec<PathBuf> = std::env::split_paths(path).collect();
    if path.is_empty() {
        // An empty PATH has one empty entry, which would stand for the working directory.
        return directory.to_str().unwrap_or_default().to_owned();
    }
    if entries.iter().any(|entry| entry == directory) {
        return path.to_owned();
    }
    std::env::join_paths(std::iter::once(directory).chain(entries.iter().map(PathBuf::as_path)))
        .ok()
        .and_then(|joined| joined.into_string().ok())
        .unwrap_or_else(|| path.to_owned())
}

fn resolved(program: PathBuf, step: Step) -> Resolved {
    Resolved {
        directory: program.parent().map(Path::to_owned),
        program,
        step,
    }
}

/// The file to run for a path: the path itself or, on Windows, with an extension of PATHEXT (`npx` is `npx.cmd`).
fn runnable(path: &Path) -> Option<PathBuf> {
    which::which_in(path, None::<&str>, Path::new("")).ok()
}

fn why_unusable(path: &Path) -> Option<(PathBuf, &'static str)> {
    let why = match std::fs::metadata(path) {
        Ok(meta) if meta.is_dir() => "is a folder",
        Ok(_) => "exists but is not executable; run chmod +x on it",
        Err(_) if path.is_symlink() => "is a symbolic link to nothing",
        Err(_) => return None,
    };
    Some((path.to_owned(), why))
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// A temporary folder with `a/tool`, `b/tool` and `b/only-b` that run, and `plain/tool` that does not.
    struct Tree(tempfile::TempDir);

    impl Tree {
        fn new() -> Self {
            let tree = Self(tempfile::tempdir().unwrap());
            for (file, mode) in [
                ("a/tool", 0o755),
                ("b/tool", 0o755),
                ("b/only-b", 0o755),
                ("plain/tool", 0o644),
            ] {
                let file = tree.at(file);
                std::fs::create_dir_all(file.parent().unwrap()).unwrap();
                std::fs::write(&file, "#!/bin/sh\n").unwrap();
                std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
            }
            std::fs::create_dir_all(tree.at("dir/tool")).unwrap();
            tree
        }

        fn at(&self, path: &str) -> PathBuf {
            self.0.path().join(path)
        }

        /// `a:b` → a PATH of folders in the tree; entries that start with `=` stay as they are.
        fn path(&self, entries: &str) -> String {
            let full = entries.split(':').map(|entry| match entry.strip_prefix('=') {
                Some(raw) => raw.to_owned(),
                None => self.at(entry).to_str().unwrap().to_owned(),
            });
            full.collect::<Vec<_>>().join(":")
        }
    }

    #[test]
    fn the_first_runnable_one_wins() {
        let tree = Tree::new();
        let cases = [
            ("tool", "a:b", "", "a/tool", Step::ChildPath),
            ("tool", "b:a", "", "b/tool", Step::ChildPath),
            ("only-b", "a:b", "", "b/only-b", Step::ChildPath),
            ("tool", "plain:dir:a", "", "a/tool", Step::ChildPath),
            ("tool", "missing", "b", "b/tool", Step::Fallback),
            ("tool", "=", "b", "b/tool", Step::Fallback),
            ("tool", "=:=.:=a", "b", "b/tool", Step::Fallback),
            ("a/tool", "b", "", "a/tool", Step::Written),
            ("./a/tool", "b", "", "./a/tool", Step::Written),
        ];
        for (command, path, fallback, program, step) in cases {
            let fallback: Vec<_> = std::env::split_paths(&tree.path(fallback)).collect();
            let found = resolve_command(command, &tree.path(path), &fallback, tree.0.path()).unwrap();
            let program = tree.at(program);
            assert_eq!(found.step, step, "{command} on {path}");
            assert_eq!(found.directory.as_deref(), program.parent());
            assert_eq!(found.program, program, "{command} on {path}");
        }
        let absolute = tree.at("a/tool");
        let found = resolve_command(absolute.to_str().unwrap(), "", &[], Path::new("/")).unwrap();
        assert_eq!((found.program, found.step), (absolute, Step::Written));
    }

    #[test]
    fn b72_a_missing_command_says_what_was_searched() {
        let error = resolve_command(
            "npx",
            "/nowhere/x::relative:/nowhere/y:/nowhere/x",
            &["/nowhere/z".into(), "/nowhere/y".into()],
            Path::new("/"),
        )
        .unwrap_err();
        assert_eq!(
            error.to_string(),
            "command not found: 'npx' (searched: /nowhere/x, /nowhere/y, /nowhere/z)"
        );
        let nothing = resolve_command("npx", "", &[], Path::new("/")).unwrap_err();
        assert_eq!(
            nothing.to_string(),
            "command not found: 'npx' (searched nothing: the server's PATH is empty)"
        );
    }

    #[test]
    fn a_file_that_cannot_run_is_named() {
        let tree = Tree::new();
        std::os::unix::fs::symlink("gone", tree.at("dir/link")).unwrap();
        for (command, path, file, why) in [
            ("tool", "plain:dir", "plain/tool", "exists but is not executable"),
            ("tool", "dir:plain", "dir/tool", "is a folder"),
            ("link", "a:dir", "dir/link", "is a symbolic link to nothing"),
            ("plain/tool", "a", "plain/tool", "exists but is not executable"),
        ] {
            let error = resolve_command(command, &tree.path(path), &[], tree.0.path()).unwrap_err();
            let text = format!(
                "command not found: '{command}': '{}' {why}",
                tree.at(file).display()
            );
            assert!(error.to_string().starts_with(&text), "{error}");
        }
    }

    #[test]
    fn the_fallback_folders_follow_the_home() {
        let env: Environment = [("HOME", "/h")].into_iter().collect();
        let default = [
            "/h/.hermes/node/bin",
            "/h/.local/bin",
            "/opt/homebrew/bin",
            "/usr/local/bin",
        ];
        assert_eq!(fallback_dirs(&env), default.map(PathBuf::from));
        let mut env = env;
        env.set("HERMES_HOME", "/p");
        assert_eq!(
            fallback_dirs(&env)[..2],
            ["/p/node/bin", "/h/.hermes/node/bin"].map(PathBuf::from)
        );
    }

    #[test]
    fn the_folder_of_the_command_comes_first_once() {
        for (directory, path, expected) in [
            ("/n", "/usr/bin:/bin", "/n:/usr/bin:/bin"),
            ("/n", "/bin:/n", "/bin:/n"),
            ("/n", "/bin:/n/", "/bin:/n/"),
            ("/n", "", "/n"),
            ("/with:colon", "/bin", "/bin"),
        ] {
            assert_eq!(child_path_with(Path::new(directory), path), expected);
        }
    }
}

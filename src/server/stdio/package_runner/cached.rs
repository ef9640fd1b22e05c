//! A package in the cache of `npx`: a folder with a `node_modules` of its own, made by npm as any other.

use std::{
    fs,
    io::{self, Read},
    path::{Path, PathBuf},
};

use indexmap::IndexMap;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;
use sha2::{Digest, Sha512};

use super::AsWritten;

/// Enough of a script to see its first line.
const SHEBANG_BYTES: u64 = 256;

/// The folder of one package as it is written on the command line. It may not exist.
#[derive(Debug)]
pub(super) struct Cached {
    folder: PathBuf,
}

/// The `package.json` of an installed package.
#[derive(Deserialize)]
struct Manifest {
    name: String,
    version: String,
    #[serde(default)]
    bin: Value,
}

/// `node_modules/.package-lock.json`: what npm put into this `node_modules`. It is written when all else is done.
#[derive(Deserialize)]
struct Lock {
    packages: IndexMap<String, Locked>,
}

#[derive(Deserialize)]
struct Locked {
    #[serde(default)]
    version: Option<String>,
    #[serde(default)]
    optional: bool,
    #[serde(default)]
    link: bool,
}

impl Cached {
    /// Where `npx SPEC` has its copy.
    pub(super) fn of(cache: &Path, spec: &str) -> Self {
        let digest = Sha512::digest(spec.as_bytes());
        let hash: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        Self {
            folder: cache.join("_npx").join(hash),
        }
    }

    /// The folder with the links to the programs.
    pub(super) fn bin_folder(&self) -> PathBuf {
        self.modules().join(".bin")
    }

    /// The version of a package that lies here, if there is one.
    pub(super) fn version(&self, name: &str) -> Option<String> {
        read_json(&self.modules().join(name).join("package.json"))
            .ok()
            .map(|manifest: Manifest| manifest.version)
    }

    /// Makes sure that the package is here in this version with all that belongs to it, and gives the name of the
    /// program that `npx` would run.
    ///
    /// # Errors
    /// [`AsWritten::NotCached`] and [`AsWritten::Unfit`].
    pub(super) fn check(&self, name: &str, version: &str) -> Result<String, AsWritten> {
        if !self.folder.is_dir() {
            return Err(AsWritten::NotCached);
        }
        let lock_folder = self.folder.join("concurrency.lock");
        if lock_folder.exists() {
            return Err(unfit(lock_folder, "says that an npx is at work here"));
        }
        self.check_complete(name, version)?;
        let package = self.modules().join(name);
        let file = package.join("package.json");
        let manifest: Manifest = read_json(&file)?;
        if manifest.name != name || manifest.version != version {
            return Err(unfit(file, "is of another package or version"));
        }
        let Some((bin, script)) = bin_of(name, &manifest.bin) else {
            return Err(unfit(file, "has no program that npx would choose"));
        };
        self.check_program(&package, &bin, &script)?;
        Ok(bin)
    }

    fn modules(&self) -> PathBuf {
        self.folder.join("node_modules")
    }

    /// Everything that npm says it installed is there, and the package is among it.
    fn check_complete(&self, name: &str, version: &str) -> Result<(), AsWritten> {
        let file = self.modules().join(".package-lock.json");
        let lock: Lock = read_json(&file)?;
        let wanted = lock.packages.get(&format!("node_modules/{name}"));
        if wanted.is_none_or(|package| package.version.as_deref() != Some(version)) {
            return Err(unfit(file, "doesn't name this version of it"));
        }
        for (path, package) in &lock.packages {
            if package.link || !path.starts_with("node_modules/") {
                return Err(unfit(file, "names a package outside this folder"));
            }
            // What is optional may be for other systems.
            let manifest = self.folder.join(path).join("package.json");
            if !package.optional && !manifest.is_file() {
                return Err(unfit(manifest, "is missing"));
            }
        }
        Ok(())
    }

    /// The link in `.bin` leads to the package's own script, and the system can run that with node.
    fn check_program(&self, package: &Path, bin: &str, script: &str) -> Result<(), AsWritten> {
        let link = self.bin_folder().join(bin);
        let real = |path: &Path| fs::canonicalize(path).map_err(|_| unfit(path.to_owned(), "is missing"));
        let program = real(&link)?;
        let package_inside = real(&self.folder)?
            .join("node_modules")
            .join(package.strip_prefix(self.modules()).unwrap_or(package));
        if real(package)? != package_inside
            || program != real(&package.join(script))?
            || !program.starts_with(&package_inside)
        {
            return Err(unfit(link, "doesn't lead to the package's own program"));
        }
        if !is_executable(&program) {
            return Err(unfit(program, "is not executable"));
        }
        let mut start = Vec::new();
        let read = fs::File::open(&program).and_then(|file| file.take(SHEBANG_BYTES).read_to_end(&mut start));
        if read.is_err() || !is_node_script(&start) {
            return Err(unfit(program, "doesn't start with '#!/usr/bin/env node'"));
        }
        Ok(())
    }
}

/// The program that `npx` chooses and its script: the only one (also under several names), else the one that is called
/// as the package is, without the scope.
fn bin_of(name: &str, bin: &Value) -> Option<(String, String)> {
    let plain = |script: &str| script.trim_start_matches("./").to_owned();
    let own_name = name.rsplit('/').next().unwrap_or(name);
    let (bin, script) = match bin {
        Value::String(script) => (own_name.to_owned(), plain(script)),
        Value::Object(bins) => {
            let bins: IndexMap<&str, String> = bins
                .iter()
                .map(|(name, script)| Some((name.as_str(), plain(script.as_str()?))))
                .collect::<Option<_>>()?;
            let (first, script) = bins.first()?;
            let (name, script) = match bins.values().all(|other| other == script) {
                true => (*first, script),
                false => (own_name, bins.get(own_name)?),
            };
            (name.to_owned(), script.clone())
        }
        _ => return None,
    };
    // npm cuts such names down in its own way.
    (!bin.is_empty() && !bin.starts_with('.') && !bin.contains(['/', '\\', ':'])).then_some((bin, script))
}

/// Whether the first line hands the script to the `node` on PATH or at a fixed path.
fn is_node_script(start: &[u8]) -> bool {
    let line = start.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let Some(line) = std::str::from_utf8(line)
        .ok()
        .and_then(|line| line.strip_prefix("#!"))
    else {
        return false;
    };
    // A carriage return would be part of the program's name.
    if line.contains('\r') {
        return false;
    }
    let words: Vec<&str> = line.split([' ', '\t']).filter(|word| !word.is_empty()).collect();
    match words.as_slice() {
        ["/usr/bin/env", "node"] | ["/usr/bin/env", "-S", "node", ..] => true,
        [interpreter, ..] => interpreter.starts_with('/') && interpreter.ends_with("/node"),
        [] => false,
    }
}

#[cfg(unix)]
fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn is_executable(path: &Path) -> bool {
    path.is_file()
}

fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T, AsWritten> {
    let bytes = fs::read(path).map_err(|error| {
        let why = match error.kind() {
            io::ErrorKind::NotFound => "is missing",
            _ => "can't be read",
        };
        unfit(path.to_owned(), why)
    })?;
    serde_json::from_slice(&bytes).map_err(|_| unfit(path.to_owned(), "is not what npm writes"))
}

fn unfit(path: PathBuf, why: &'static str) -> AsWritten {
    AsWritten::Unfit { path, why }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_folder_is_named_as_npm_names_it() {
        // Found in a cache that npx 11.19 made.
        for (spec, hash) in [
            (
                "@modelcontextprotocol/server-everything@2026.8.31",
                "a705c79b42eea4c8",
            ),
            ("@modelcontextprotocol/server-everything", "5b2dd62b9d0bddd4"),
        ] {
            assert_eq!(
                Cached::of(Path::new("/c"), spec).bin_folder(),
                Path::new("/c/_npx").join(hash).join("node_modules/.bin")
            );
        }
    }

    #[test]
    fn the_program_is_the_only_one_or_the_one_of_the_name() {
        for (name, bin, expected) in [
            ("server", json!("cli.js"), Some(("server", "cli.js"))),
            ("@a/server", json!("./cli.js"), Some(("server", "cli.js"))),
            (
                "@a/server",
                json!({"mcp-server": "dist/i.js"}),
                Some(("mcp-server", "dist/i.js")),
            ),
            ("server", json!({"x": "i.js", "y": "./i.js"}), Some(("x", "i.js"))),
            (
                "@a/server",
                json!({"x": "x.js", "server": "s.js"}),
                Some(("server", "s.js")),
            ),
            ("server", json!({"x": "x.js", "y": "y.js"}), None),
            ("server", json!({"../x": "x.js"}), None),
            ("server", json!({".x": "x.js"}), None),
            ("server", json!({"x": 1}), None),
            ("server", json!({}), None),
            ("server", json!(["x.js"]), None),
            ("server", Value::Null, None),
        ] {
            let expected = expected.map(|(name, script)| (name.to_owned(), script.to_owned()));
            assert_eq!(bin_of(name, &bin), expected, "{name} {bin}");
        }
    }

    #[test]
    fn only_a_script_of_node_is_a_program() {
        for line in [
            "#!/usr/bin/env node\nx",
            "#! /usr/bin/env node\n",
            "#!/usr/bin/env node",
            "#!/usr/bin/env -S node --no-warnings\n",
            "#!/usr/local/bin/node\n",
        ] {
            assert!(is_node_script(line.as_bytes()), "{line:?}");
        }
        for line in [
            "",
            "console.log(1)\n",
            "#!/usr/bin/env node\r\n",
            "#!/usr/bin/env node --no-warnings\n",
            "#!/usr/bin/env bun\n",
            "#!/bin/sh\n",
            "#!node\n",
            "\n#!/usr/bin/env node\n",
            "#!/usr/bin/env \u{e9}node\n",
            "\u{7f}ELF",
        ] {
            assert!(!is_node_script(line.as_bytes()), "{line:?}");
        }
    }
}

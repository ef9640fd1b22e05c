//! The arguments of `npx`, as far as they have one meaning only.

use super::AsWritten;

/// `[-y] SPEC OWN…`
#[derive(Debug, PartialEq, Eq)]
pub(super) struct CommandLine<'a> {
    /// The package as it is written.
    pub(super) spec: &'a str,
    /// Its name.
    pub(super) name: &'a str,
    /// Its exact version, if there is one.
    pub(super) version: Option<&'a str>,
    /// What the server gets. `npx` passes on everything after the package, options too.
    pub(super) own: &'a [String],
}

impl<'a> CommandLine<'a> {
    /// Takes the arguments apart.
    ///
    /// # Errors
    /// [`AsWritten::Arguments`] for any other option, [`AsWritten::Package`] for anything but `name` and
    /// `name@1.2.3`.
    pub(super) fn parse(args: &'a [String]) -> Result<Self, AsWritten> {
        let rest = match args {
            [yes, rest @ ..] if yes == "-y" || yes == "--yes" => rest,
            args => args,
        };
        let [spec, own @ ..] = rest else {
            return Err(AsWritten::Arguments);
        };
        if spec.starts_with('-') || spec.is_empty() {
            return Err(AsWritten::Arguments);
        }
        // The '@' of a scope is the first character.
        let (name, version) = match spec.rfind('@') {
            None | Some(0) => (spec.as_str(), None),
            Some(at) => (&spec[..at], Some(&spec[at + 1..])),
        };
        if !is_name(name) || !version.is_none_or(is_version) {
            return Err(AsWritten::Package);
        }
        Ok(Self {
            spec,
            name,
            version,
            own,
        })
    }
}

/// Whether it is `name` or `@scope/name` in today's spelling: such a name is never a path or an address, nor does it
/// lead out of a folder.
fn is_name(name: &str) -> bool {
    match name.strip_prefix('@') {
        Some(scoped) => scoped
            .split_once('/')
            .is_some_and(|(scope, name)| is_name_part(scope) && is_name_part(name)),
        None => is_name_part(name),
    }
}

fn is_name_part(part: &str) -> bool {
    part.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit())
        && part
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "-._".contains(c))
}

/// Whether it is `1.2.3` or `1.2.3-rc.1`. npm compares it as text with what is installed, so `v1.2.3`, `=1.2.3` and
/// build metadata, which it would accept, never match.
fn is_version(version: &str) -> bool {
    let (numbers, pre_release) = match version.split_once('-') {
        Some((numbers, pre_release)) => (numbers, Some(pre_release)),
        None => (version, None),
    };
    let is_number = |part: &str| {
        !part.is_empty()
            && part.bytes().all(|b| b.is_ascii_digit())
            && (part == "0" || !part.starts_with('0'))
    };
    numbers.split('.').count() == 3
        && numbers.split('.').all(is_number)
        && pre_release.is_none_or(|text| {
            text.split('.')
                .all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-'))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn one_package_and_the_servers_own_arguments() {
        for (line, name, version, own) in [
            ("-y server@1.2.3", "server", Some("1.2.3"), ""),
            ("--yes server@1.2.3", "server", Some("1.2.3"), ""),
            ("server@1.2.3", "server", Some("1.2.3"), ""),
            (
                "-y @scope/server-x@2026.8.31 stdio",
                "@scope/server-x",
                Some("2026.8.31"),
                "stdio",
            ),
            ("-y s@1.0.0-rc.1", "s", Some("1.0.0-rc.1"), ""),
            ("-y s@0.0.0-x-y", "s", Some("0.0.0-x-y"), ""),
            ("-y server", "server", None, ""),
            ("-y @scope/server", "@scope/server", None, ""),
            ("-y s@1.2.3 -y -p x -c y", "s", Some("1.2.3"), "-y -p x -c y"),
            ("-y s@1.2.3 -- --flag", "s", Some("1.2.3"), "-- --flag"),
        ] {
            let line = args(line);
            let parsed = CommandLine::parse(&line).unwrap();
            assert_eq!(
                (parsed.name, parsed.version, parsed.own),
                (name, version, args(own).as_slice()),
                "{line:?}"
            );
        }
    }

    #[test]
    fn options_of_npx_are_left_to_npx() {
        for line in [
            "",
            "-y",
            "-y -y s@1.2.3",
            "-y --",
            "-y -- s@1.2.3",
            "-p s@1.2.3 s",
            "-y -p s@1.2.3 s",
            "-y --package=s@1.2.3 s",
            "--yes=false s@1.2.3",
            "--no s@1.2.3",
            "--no-install s@1.2.3",
            "-c server",
            "-q s@1.2.3",
            "-yq s@1.2.3",
        ] {
            assert_eq!(
                CommandLine::parse(&args(line)),
                Err(AsWritten::Arguments),
                "{line}"
            );
        }
        assert_eq!(CommandLine::parse(&[String::new()]), Err(AsWritten::Arguments));
    }

    #[test]
    fn what_is_not_a_name_with_an_exact_version_is_left_to_npx() {
        for spec in [
            "server@latest",
            "server@next",
            "server@",
            "server@1",
            "server@1.2",
            "server@1.2.x",
            "server@^1.2.3",
            "server@~1.2.3",
            "server@>=1.2.3",
            "server@v1.2.3",
            "server@=1.2.3",
            "server@1.2.3+build",
            "server@01.2.3",
            "server@1.2.3.4",
            "server@1.2.3-",
            "server@1.2.3-a..b",
            "server@*",
            "server@npm:other@1.2.3",
            "server@file:../x",
            "server@https://example.org/x.tgz",
            "user/repo",
            "github:user/repo",
            "git+ssh://git@example.org/x.git",
            "https://example.org/x.tgz",
            "./server",
            "../server",
            "/srv/server",
            "~/server",
            ".",
            "..@1.2.3",
            "@scope@1.2.3",
            "@scope/@1.2.3",
            "@/name@1.2.3",
            "@scope/..@1.2.3",
            "@scope/a/b@1.2.3",
            "@scope/name/../../x@1.2.3",
            "Server@1.2.3",
            "_server@1.2.3",
            "ser ver@1.2.3",
            "sérver@1.2.3",
        ] {
            let args = ["-y".to_owned(), spec.to_owned()];
            assert_eq!(CommandLine::parse(&args), Err(AsWritten::Package), "{spec}");
        }
    }
}

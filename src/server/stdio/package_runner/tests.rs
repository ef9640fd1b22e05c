//! Made-up caches: a complete one, and one thing after the other that makes it uncertain what npx would do.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
};

use serde_json::{Value, json};

use super::*;

const SPEC: &str = "@acme/server@1.2.3";

/// A home, a node with npm, and a cache in which `@acme/server@1.2.3` is complete.
struct Machine {
    root: tempfile::TempDir,
    environment: Environment,
}

impl Machine {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let real = fs::canonicalize(root.path()).unwrap();
        let mut environment = Environment::default();
        environment.set("HOME", real.join("home").to_str().unwrap());
        environment.set("PATH", real.join("node/bin").to_str().unwrap());
        let machine = Self { root, environment };
        fs::create_dir_all(machine.home()).unwrap();
        machine.program("node/bin/node", "\x7fELF");
        machine.program(
            "node/lib/node_modules/npm/bin/npx-cli.js",
            "#!/usr/bin/env node\n",
        );
        symlink(
            "../lib/node_modules/npm/bin/npx-cli.js",
            machine.path("node/bin/npx"),
        )
        .unwrap();
        machine.npm("npm", "11.19.1");
        machine.cache("home/.npm", SPEC);
        machine
    }

    fn path(&self, relative: &str) -> PathBuf {
        fs::canonicalize(self.root.path()).unwrap().join(relative)
    }

    fn home(&self) -> PathBuf {
        self.path("home")
    }

    fn write(&self, relative: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(relative);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    fn program(&self, relative: &str, text: &str) {
        let path = self.write(relative, text);
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn npm(&self, name: &str, version: &str) {
        self.write(
            "node/lib/node_modules/npm/package.json",
            json!({"name": name, "version": version}).to_string(),
        );
    }

    /// Puts the package into `cache`, as npx does for `spec`.
    fn cache(&self, cache: &str, spec: &str) {
        let modules = self.modules(cache, spec);
        let modules = modules.strip_prefix(self.path("")).unwrap().to_str().unwrap();
        self.write(
            &format!("{modules}/.package-lock.json"),
            json!({"lockfileVersion": 3, "packages": {
                "node_modules/@acme/server": {"version": "1.2.3", "bin": {"acme": "dist/cli.js"}},
                "node_modules/@acme/server/node_modules/dep": {"version": "2.0.0"},
                "node_modules/for-other-systems": {"version": "3.0.0", "optional": true},
            }})
            .to_string(),
        );
        self.write(
            &format!("{modules}/@acme/server/package.json"),
            json!({"name": "@acme/server", "version": "1.2.3", "bin": {"acme": "dist/cli.js"}}).to_string(),
        );
        self.write(
            &format!("{modules}/@acme/server/node_modules/dep/package.json"),
            "{}",
        );
        self.program(
            &format!("{modules}/@acme/server/dist/cli.js"),
            "#!/usr/bin/env node\n",
        );
        fs::create_dir_all(self.path(modules).join(".bin")).unwrap();
        symlink(
            "../@acme/server/dist/cli.js",
            self.path(modules).join(".bin/acme"),
        )
        .unwrap();
    }

    fn modules(&self, cache: &str, spec: &str) -> PathBuf {
        let bin = Cached::of(&self.path(cache), spec).bin_folder();
        bin.parent().unwrap().to_owned()
    }

    /// `node_modules` of the package in the default cache.
    fn cached(&self) -> PathBuf {
        self.modules("home/.npm", SPEC)
    }

    fn direct(&self, args: &[&str]) -> Result<Direct, AsWritten> {
        self.direct_in(&self.home(), args)
    }

    fn direct_in(&self, cwd: &Path, args: &[&str]) -> Result<Direct, AsWritten> {
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        direct(&self.path("node/bin/npx"), &args, &self.environment, cwd)
    }
}

/// Changes the JSON of a file.
fn edit(path: &Path, change: impl FnOnce(&mut Value)) {
    let mut value: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    change(&mut value);
    fs::write(path, value.to_string()).unwrap();
}

#[test]
fn a_complete_copy_is_started_as_npx_would_start_it() {
    let machine = Machine::new();
    let bin = machine.cached().join(".bin");
    for args in [
        ["-y", SPEC, "stdio"].as_slice(),
        &["--yes", SPEC, "stdio"],
        &[SPEC, "stdio"],
    ] {
        let expected = Direct {
            program: bin.join("acme"),
            args: vec!["stdio".into()],
            path: format!("{}:{}", bin.display(), machine.path("node/bin").display()),
            package: "@acme/server".into(),
            version: "1.2.3".into(),
        };
        assert_eq!(machine.direct(args), Ok(expected), "{args:?}");
    }
}

#[test]
fn other_commands_are_left_alone() {
    let machine = Machine::new();
    let args = ["-y".to_owned(), SPEC.to_owned()];
    for command in ["node", "npm", "bunx", "npx.cmd", "npx-wrapper"] {
        let command = machine.path("node/bin").join(command);
        let found = direct(&command, &args, &machine.environment, &machine.home());
        assert_eq!(found, Err(AsWritten::NotNpx), "{}", command.display());
    }
    assert_eq!(machine.direct(&["-y"]), Err(AsWritten::Arguments));
    assert_eq!(
        machine.direct(&["-y", "@acme/server@latest"]),
        Err(AsWritten::Package)
    );
    assert_eq!(
        machine.direct(&["-y", "@acme/server@1.2.4"]),
        Err(AsWritten::NotCached)
    );
}

/// npx would install what is newer, even where a copy is complete.
#[test]
fn a_name_alone_is_left_to_npx_with_a_hint() {
    let machine = Machine::new();
    let unpinned = |cached: Option<&str>| AsWritten::Unpinned {
        name: "@acme/server".into(),
        cached: cached.map(str::to_owned),
    };
    let args = ["-y", "@acme/server"];
    assert_eq!(machine.direct(&args), Err(unpinned(None)));
    machine.cache("home/.npm", "@acme/server");
    let left = machine.direct(&args).unwrap_err();
    assert_eq!(left, unpinned(Some("1.2.3")));
    assert_eq!(
        left.to_string(),
        "'@acme/server' has no version, so npx asks the registry for the newest at every start; write \
         '@acme/server@1.2.3' to start it without npx"
    );
}

#[test]
fn a_copy_that_is_not_complete_is_left_to_npx() {
    type Change = fn(&Path);
    let cases: [(&str, Change); 18] = [
        ("concurrency.lock", |m| {
            fs::create_dir(m.with_file_name("concurrency.lock")).unwrap();
        }),
        (".package-lock.json", |m| {
            fs::remove_file(m.join(".package-lock.json")).unwrap();
        }),
        (".package-lock.json", |m| {
            fs::write(m.join(".package-lock.json"), "{\"packages\": {").unwrap();
        }),
        (".package-lock.json", |m| {
            edit(&m.join(".package-lock.json"), |lock| {
                lock["packages"]["node_modules/@acme/server"]["version"] = json!("1.2.2");
            });
        }),
        (".package-lock.json", |m| {
            edit(&m.join(".package-lock.json"), |lock| {
                lock["packages"]["node_modules/linked"] = json!({"resolved": "../../x", "link": true});
            });
        }),
        (".package-lock.json", |m| {
            edit(&m.join(".package-lock.json"), |lock| {
                lock["packages"]["../elsewhere"] = json!({"version": "1.0.0"});
            });
        }),
        ("node_modules/dep/package.json", |m| {
            fs::remove_dir_all(m.join("@acme/server/node_modules")).unwrap();
        }),
        ("@acme/server/package.json", |m| {
            fs::remove_file(m.join("@acme/server/package.json")).unwrap();
        }),
        ("@acme/server/package.json", |m| {
            edit(&m.join("@acme/server/package.json"), |p| {
                p["version"] = json!("1.2.2");
            });
        }),
        ("@acme/server/package.json", |m| {
            edit(&m.join("@acme/server/package.json"), |p| {
                p["name"] = json!("other");
            });
        }),
        ("@acme/server/package.json", |m| {
            edit(&m.join("@acme/server/package.json"), |p| {
                p["bin"] = json!({"acme": "dist/cli.js", "other": "dist/other.js"});
            });
        }),
        ("@acme/server/package.json", |m| {
            edit(&m.join("@acme/server/package.json"), |p| {
                p.as_object_mut().unwrap().remove("bin");
            });
        }),
        (".bin/acme", |m| fs::remove_file(m.join(".bin/acme")).unwrap()),
        (".bin/acme", |m| {
            fs::remove_file(m.join(".bin/acme")).unwrap();
            symlink("../@acme/server/package.json", m.join(".bin/acme")).unwrap();
        }),
        // The script is a link that leads out of the package.
        (".bin/acme", |m| {
            let script = m.join("@acme/server/dist/cli.js");
            fs::rename(&script, m.join("outside.js")).unwrap();
            symlink(m.join("outside.js"), script).unwrap();
        }),
        // So is the package.
        (".bin/acme", |m| {
            fs::rename(m.join("@acme"), m.with_file_name("outside")).unwrap();
            symlink("../outside", m.join("@acme")).unwrap();
        }),
        ("dist/cli.js", |m| {
            let script = m.join("@acme/server/dist/cli.js");
            fs::set_permissions(script, fs::Permissions::from_mode(0o644)).unwrap();
        }),
        ("dist/cli.js", |m| {
            fs::write(m.join("@acme/server/dist/cli.js"), "#!/bin/sh\n").unwrap();
        }),
    ];
    for (n, (blamed, change)) in cases.into_iter().enumerate() {
        let machine = Machine::new();
        change(&machine.cached());
        match machine.direct(&["-y", SPEC]) {
            Err(AsWritten::Unfit { path, .. }) if path.ends_with(blamed) => {}
            other => panic!("case {n}, {blamed}: {other:?}"),
        }
    }
}

#[test]
fn what_npx_looks_at_before_its_cache_is_left_to_npx() {
    for before in [
        "home/work/package.json",
        "home/work/node_modules/x",
        "home/node_modules/.bin/x",
        "home/package.json",
        "node/bin/acme",
        "node/bin/@acme/server@1.2.3",
        "global/bin/acme",
    ] {
        let machine = Machine::new();
        machine.write(
            "home/.npmrc",
            format!("prefix={}", machine.path("global").display()),
        );
        let cwd = machine.path("home/work");
        fs::create_dir(&cwd).unwrap();
        assert!(machine.direct_in(&cwd, &["-y", SPEC]).is_ok(), "{before}");
        machine.write(before, "{}");
        match machine.direct_in(&cwd, &["-y", SPEC]) {
            Err(AsWritten::Before(path)) if machine.path(before).starts_with(&path) => {}
            other => panic!("{before}: {other:?}"),
        }
    }
    let machine = Machine::new();
    let nowhere = machine.path("nowhere");
    assert_eq!(
        machine.direct_in(&nowhere, &["-y", SPEC]),
        Err(AsWritten::Before(nowhere))
    );
}

#[test]
fn the_cache_is_where_npm_is_told() {
    let other = |machine: &Machine| {
        machine.cache("other", SPEC);
        machine.path("other").display().to_string()
    };
    let found = |machine: &Machine| machine.direct(&["-y", SPEC]).unwrap().program;
    for place in ["home/.npmrc", "node/etc/npmrc", "node/lib/node_modules/npm/npmrc"] {
        let machine = Machine::new();
        let cache = other(&machine);
        machine.write(place, format!("fund=false\ncache={cache}\n"));
        assert!(found(&machine).starts_with(&cache), "{place}");
    }
    let mut machine = Machine::new();
    let cache = other(&machine);
    machine.write("home/.npmrc", "cache=/nowhere\n");
    assert_eq!(machine.direct(&["-y", SPEC]), Err(AsWritten::NotCached));
    machine.environment.set("NPM_CONFIG_CACHE", cache.as_str());
    assert!(found(&machine).starts_with(&cache));
}

#[test]
fn a_setting_that_is_not_understood_is_left_to_npx() {
    for place in [
        "home/.npmrc",
        "home/work/.npmrc",
        "node/etc/npmrc",
        "node/lib/node_modules/npm/npmrc",
        "global/etc/npmrc",
    ] {
        let mut machine = Machine::new();
        let global = machine.path("global").display().to_string();
        let prefix = if place.starts_with("global") {
            global
        } else {
            String::new()
        };
        machine.environment.set("npm_config_prefix", prefix);
        machine.write(place, "# ours\noffline=true\n");
        fs::create_dir_all(machine.path("home/work")).unwrap();
        let left = machine
            .direct_in(&machine.path("home/work"), &["-y", SPEC])
            .unwrap_err();
        let expected = AsWritten::Setting {
            key: "offline".into(),
            place: machine.path(place).display().to_string(),
        };
        assert_eq!(left, expected);
    }
    for (name, value) in [
        ("npm_config_userconfig", "/x"),
        ("PREFIX", "/x"),
        ("DESTDIR", "/x"),
        ("HOME", ""),
        ("HOME", "home"),
    ] {
        let mut machine = Machine::new();
        machine.environment.set(name, value);
        let left = machine.direct(&["-y", SPEC]).unwrap_err();
        assert!(
            matches!(&left, AsWritten::Setting { key, place } if key == name && place == "the environment"),
            "{name}={value}: {left:?}"
        );
    }
    let machine = Machine::new();
    fs::create_dir(machine.path("home/work")).unwrap();
    machine.write("home/work/.npmrc", "cache=/srv/npm\n");
    assert!(matches!(
        machine.direct_in(&machine.path("home/work"), &["-y", SPEC]),
        Err(AsWritten::Setting { .. })
    ));
}

#[test]
fn an_npm_that_is_not_known_is_left_alone() {
    let unknown = |machine: &Machine| match machine.direct(&["-y", SPEC]) {
        Err(AsWritten::UnknownNpm(why)) => why,
        other => panic!("{other:?}"),
    };
    for (name, version, known) in [
        ("npm", "9.0.0", true),
        ("npm", "12.2.2", true),
        ("npm", "8.19.4", false),
        ("npm", "13.0.0", false),
        ("npm", "eleven", false),
        ("other", "11.0.0", false),
    ] {
        let machine = Machine::new();
        machine.npm(name, version);
        match known {
            true => assert!(machine.direct(&["-y", SPEC]).is_ok(), "{name} {version}"),
            false => assert_eq!(unknown(&machine), format!("{name} {version}")),
        }
    }

    let machine = Machine::new();
    fs::remove_file(machine.path("node/bin/npx")).unwrap();
    machine.program("shims/npx", "#!/bin/sh\n");
    symlink(machine.path("shims/npx"), machine.path("node/bin/npx")).unwrap();
    assert!(unknown(&machine).contains("shims/npx"), "a shim for npx");

    for (shim, text) in [("shims/volta-shim", "\x7fELF"), ("shims/node", "#!/bin/sh\n")] {
        let machine = Machine::new();
        fs::remove_file(machine.path("node/bin/node")).unwrap();
        machine.program(shim, text);
        symlink(machine.path(shim), machine.path("node/bin/node")).unwrap();
        assert!(unknown(&machine).contains(shim), "a shim for node");
    }

    // A folder in the file's place can't be read, not even by root.
    let machine = Machine::new();
    let file = machine.path("home/.npmrc");
    fs::create_dir(&file).unwrap();
    assert!(unknown(&machine).starts_with(&format!("'{}' can't be read", file.display())));

    let mut machine = Machine::new();
    machine.environment.set("PATH", "");
    assert_eq!(unknown(&machine), "there is no node on the server's PATH");
}

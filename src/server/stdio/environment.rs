//! The environment of a stdio server: an allow-list of the daemon's own, and what the entry asks for.
//!
//! A server is a stranger's program. Keys of other services that happen to be in the daemon's environment are none
//! of its business (S-08), and the variables of the service manager would let it speak in the daemon's name
//! (STDIO-09).

use crate::{config::Stdio, environment::Environment};

/// Copied under exactly these names: Hermes' list, and `LOGNAME`, which the SDK below Hermes adds.
const BASELINE: [&str; 9] = [
    "PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TERM", "SHELL", "TMPDIR",
];

/// Where Windows programs find things. As in Hermes these are copied on every system, in any case.
const WINDOWS: [&str; 27] = [
    "ALLUSERSPROFILE",
    "APPDATA",
    "COMMONPROGRAMFILES",
    "COMMONPROGRAMFILES(X86)",
    "COMMONPROGRAMW6432",
    "COMPUTERNAME",
    "COMSPEC",
    "HOMEDRIVE",
    "HOMEPATH",
    "LOCALAPPDATA",
    "NUMBER_OF_PROCESSORS",
    "OS",
    "PATHEXT",
    "PROCESSOR_ARCHITECTURE",
    "PROGRAMDATA",
    "PROGRAMFILES",
    "PROGRAMFILES(X86)",
    "PROGRAMW6432",
    "PUBLIC",
    "SYSTEMDRIVE",
    "SYSTEMROOT",
    "TEMP",
    "TMP",
    "USERDOMAIN",
    "USERNAME",
    "USERPROFILE",
    "WINDIR",
];

/// The daemon's relation to its service manager. `env_passthrough` does not bring these back; `env` may set them.
const SERVICE_MANAGER: [&str; 6] = [
    "NOTIFY_SOCKET",
    "JOURNAL_STREAM",
    "INVOCATION_ID",
    "MANAGERPID",
    "SYSTEMD_EXEC_PID",
    "CREDENTIALS_DIRECTORY",
];

/// Likewise, by prefix.
const SERVICE_MANAGER_PREFIXES: [&str; 2] = ["LISTEN_", "WATCHDOG_"];

/// Everything that the child of `config` gets; start from an empty environment and set exactly this.
///
/// From `own`: the allow-list, `XDG_*` and the names of `env_passthrough`, without values that start with `()`
/// (exported shell functions) and without the variables of a service manager. Then `env` of the entry, which wins.
/// On Windows, where names have no case, they come out upper-cased.
///
/// The result is an [`Environment`] because that type cannot be printed by accident: `env` holds secrets.
pub fn child_environment(own: &Environment, config: &Stdio) -> Environment {
    let inherited = own
        .iter()
        .filter(|(name, value)| may_inherit(name, config) && !value.starts_with("()"));
    let configured = config
        .env
        .iter()
        .map(|(name, value)| (name.as_str(), value.expose()));
    inherited
        .chain(configured)
        .map(|(name, value)| (canonical(name), value.to_owned()))
        .collect()
}

fn may_inherit(name: &str, config: &Stdio) -> bool {
    let name = canonical(name);
    if SERVICE_MANAGER.contains(&name.as_str()) || has_prefix(&name, &SERVICE_MANAGER_PREFIXES) {
        return false;
    }
    BASELINE.contains(&name.as_str())
        || name.starts_with("XDG_")
        || WINDOWS.contains(&name.to_uppercase().as_str())
        || config
            .env_passthrough
            .iter()
            .any(|wanted| canonical(wanted) == name)
}

fn has_prefix(name: &str, prefixes: &[&str]) -> bool {
    prefixes.iter().any(|prefix| name.starts_with(prefix))
}

fn canonical(name: &str) -> String {
    if cfg!(windows) {
        name.to_uppercase()
    } else {
        name.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::config::Secret;

    fn stdio(env: &[(&str, &str)], env_passthrough: &[&str]) -> Stdio {
        Stdio {
            command: "server".into(),
            args: Vec::new(),
            env: env
                .iter()
                .map(|(name, value)| ((*name).to_owned(), Secret::new(*value)))
                .collect(),
            cwd: None,
            env_passthrough: env_passthrough.iter().map(|name| (*name).to_owned()).collect(),
        }
    }

    fn child(own: &[(&str, &str)], config: &Stdio) -> BTreeMap<String, String> {
        child_environment(&own.iter().copied().collect(), config)
            .iter()
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect()
    }

    fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect()
    }

    #[test]
    fn s08_fifty_planted_secrets_stay_here() {
        const SECRETS: [&str; 50] = [
            "AWS_ACCESS_KEY_ID",
            "AWS_SECRET_ACCESS_KEY",
            "AWS_SESSION_TOKEN",
            "AZURE_CLIENT_SECRET",
            "GOOGLE_APPLICATION_CREDENTIALS",
            "GITHUB_TOKEN",
            "GH_TOKEN",
            "GITLAB_TOKEN",
            "OPENAI_API_KEY",
            "ANTHROPIC_API_KEY",
            "OPENROUTER_API_KEY",
            "GEMINI_API_KEY",
            "MISTRAL_API_KEY",
            "HF_TOKEN",
            "NPM_TOKEN",
            "NODE_AUTH_TOKEN",
            "PYPI_TOKEN",
            "CARGO_REGISTRY_TOKEN",
            "DOCKER_AUTH_CONFIG",
            "KUBECONFIG",
            "VAULT_TOKEN",
            "SLACK_BOT_TOKEN",
            "TELEGRAM_BOT_TOKEN",
            "DISCORD_TOKEN",
            "STRIPE_SECRET_KEY",
            "SENTRY_DSN",
            "DATABASE_URL",
            "PGPASSWORD",
            "MYSQL_PWD",
            "REDIS_URL",
            "SMTP_PASSWORD",
            "SSH_AUTH_SOCK",
            "SSH_AGENT_PID",
            "GPG_AGENT_INFO",
            "DBUS_SESSION_BUS_ADDRESS",
            "HTTP_PROXY",
            "https_proxy",
            "NODE_PATH",
            "NODE_OPTIONS",
            "PYTHONPATH",
            "LD_PRELOAD",
            "LD_LIBRARY_PATH",
            "SSL_CERT_FILE",
            "NVM_DIR",
            "HERMES_HOME",
            "HERMESD_MCP_SOCKET",
            "HERMES_API_KEY",
            "PATH_SECRET",
            "MY_HOME",
            "XDGTOKEN",
        ];
        let mut own: Vec<_> = SECRETS.iter().map(|name| (*name, "canary")).collect();
        own.push(("PATH", "/bin"));
        assert_eq!(child(&own, &stdio(&[], &[])), map(&[("PATH", "/bin")]));
    }

    #[test]
    fn the_allow_list_passes() {
        let own = [
            ("PATH", "/bin"),
            ("HOME", "/h"),
            ("USER", "u"),
            ("LOGNAME", "u"),
            ("LANG", "C.UTF-8"),
            ("LC_ALL", "C"),
            ("TERM", "dumb"),
            ("SHELL", "/bin/sh"),
            ("TMPDIR", "/t"),
            ("XDG_RUNTIME_DIR", "/run/user/7"),
            ("XDG_CONFIG_HOME", ""),
            ("SYSTEMROOT", r"C:\Windows"),
            ("PROGRAMFILES(X86)", r"C:\x86"),
        ];
        assert_eq!(child(&own, &stdio(&[], &[])), map(&own));
    }

    #[cfg(unix)]
    #[test]
    fn only_the_windows_names_ignore_case() {
        let own = [
            ("SystemRoot", "w"),
            ("windir", "w"),
            ("home", "x"),
            ("Lang", "x"),
            ("xdg_data_home", "x"),
        ];
        assert_eq!(
            child(&own, &stdio(&[], &[])),
            map(&[("SystemRoot", "w"), ("windir", "w")])
        );
    }

    #[test]
    fn env_wins_over_passthrough_and_over_the_allow_list() {
        let own = [("PATH", "/bin"), ("A", "own"), ("B", "own"), ("C", "own")];
        let config = stdio(
            &[("PATH", "/mine"), ("B", "entry"), ("D", "() { x; }")],
            &["A", "B", "MISSING"],
        );
        assert_eq!(
            child(&own, &config),
            map(&[
                ("PATH", "/mine"),
                ("A", "own"),
                ("B", "entry"),
                ("D", "() { x; }")
            ])
        );
    }

    #[test]
    fn stdio_09_shell_functions_and_the_service_manager_stay_here() {
        let own = [
            ("TERM", "() { :; }; echo owned"),
            ("F", "() { :; }"),
            ("NOTIFY_SOCKET", "/run/n"),
            ("LISTEN_FDS", "1"),
            ("LISTEN_PID", "7"),
            ("LISTEN_FDNAMES", "x"),
            ("WATCHDOG_USEC", "1"),
            ("WATCHDOG_PID", "7"),
            ("JOURNAL_STREAM", "8:1"),
            ("INVOCATION_ID", "i"),
            ("MANAGERPID", "1"),
            ("SYSTEMD_EXEC_PID", "7"),
            ("CREDENTIALS_DIRECTORY", "/c"),
        ];
        let names: Vec<_> = own.iter().map(|(name, _)| *name).collect();
        assert_eq!(
            child(&own, &stdio(&[], &names)),
            map(&[]),
            "not even by env_passthrough"
        );
        assert_eq!(
            child(&own, &stdio(&[("LISTEN_FDS", "3")], &[])),
            map(&[("LISTEN_FDS", "3")]),
            "the entry's own env may"
        );
    }
}

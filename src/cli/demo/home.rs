//! The demo's temporary home: a configuration, a socket, the daemon's log. Gone with the value.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

use anyhow::Context as _;
use serde_json::json;

/// Lines of the daemon's log that are shown when the demo fails.
const LOG_LINES: usize = 10;

pub(super) struct Home {
    dir: PathBuf,
    config: PathBuf,
    socket: PathBuf,
    log: PathBuf,
}

impl Home {
    /// Makes the folder, for this user only, and writes the configuration into it.
    pub(super) fn create() -> anyhow::Result<Self> {
        let dir = make_private_dir(&std::env::temp_dir())?;
        let home = Self {
            config: dir.join("config.yaml"),
            socket: socket_in(&dir),
            log: dir.join("daemon.log"),
            dir,
        };
        let program = std::env::current_exe().context("cannot find this program's own file")?;
        let config = json!({"mcp_servers": {"demo": {"command": program, "args": ["demo-server"]}}});
        let yaml = serde_yaml::to_string(&config).context("cannot write the demo's configuration as YAML")?;
        fs::write(&home.config, yaml).with_context(|| format!("cannot write {}", home.config.display()))?;
        Ok(home)
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(super) fn config(&self) -> &Path {
        &self.config
    }

    pub(super) fn socket(&self) -> &Path {
        &self.socket
    }

    pub(super) fn config_text(&self) -> anyhow::Result<String> {
        fs::read_to_string(&self.config).with_context(|| format!("cannot read {}", self.config.display()))
    }

    /// The file that the daemon logs to.
    pub(super) fn log(&self) -> anyhow::Result<File> {
        File::create(&self.log).with_context(|| format!("cannot write {}", self.log.display()))
    }

    /// The last lines of the daemon's log.
    pub(super) fn log_tail(&self) -> Vec<String> {
        let text = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(LOG_LINES)..]
            .iter()
            .map(|line| (*line).to_owned())
            .collect()
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        // A folder that can't be removed lies in the system's folder for such things.
        let _ = fs::remove_dir_all(&self.dir);
    }
}

fn socket_in(dir: &Path) -> PathBuf {
    if cfg!(windows) {
        PathBuf::from(format!(r"\\.\pipe\hermesd-mcp-demo-{}", std::process::id()))
    } else {
        dir.join("mcp.sock")
    }
}

/// A new folder that nobody else can look into. Creating it fails when the name is taken, so nobody can prepare it.
fn make_private_dir(parent: &Path) -> anyhow::Result<PathBuf> {
    let nanos = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .subsec_nanos();
    let dir = parent.join(format!("hermesd-mcp-demo-{}-{nanos:x}", std::process::id()));
    #[allow(unused_mut, reason = "only Unix has a mode to set")]
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder
        .create(&dir)
        .with_context(|| format!("cannot make the folder {}", dir.display()))?;
    Ok(dir)
}

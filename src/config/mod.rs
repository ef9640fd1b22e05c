//! The configuration: one YAML file in, one checked [`Config`] out, and a finding with file, line, column and key
//! path for everything that is wrong. May import the ground row only.
//!
//! Always true: nothing outside `mcp_servers` and `hermesd` can make it fail; one bad entry does not touch another;
//! no text of a finding holds a configured value that may be secret.

mod diagnostic;
mod dotenv;
mod interactive;
mod load;
mod model;
mod reader;
mod remote;
mod scalar;
mod server;
mod settings;
mod variables;
mod yaml;

pub use diagnostic::{Diagnostic, Severity};
pub use load::{ConfigError, load, locate, parse};
pub use model::{
    ClientIdentity, Config, Elicitation, ProtocolEra, Remote, Sampling, Secret, ServerConfig, ServerEntry,
    Settings, Stdio, ToolsPolicy, Transport, Verify,
};
pub use variables::Variables;

//! The `hermesd-mcp` program: a thin door to [`hermesd_mcp::cli`].

fn main() -> std::process::ExitCode {
    hermesd_mcp::cli::run()
}

//! The shim: everything is in the library.

fn main() -> std::process::ExitCode {
    monopile::cli::main()
}

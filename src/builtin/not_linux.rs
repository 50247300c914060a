//! Replacements for the CPIs and the agent on other systems than Linux. They always fail.

use base::{Error, Result};

fn unavailable(subject: &str, reason: &str) -> Result<()> {
    Err(Error::failure(format!("{subject} runs only on Linux: {reason}"))
        .with_hint("run monopile on Linux, or use the CPI of an IaaS (`cloud_provider.template`)"))
}

/// The agent needs private mounts and `/proc`.
pub mod agent {
    use std::path::Path;

    use base::Result;

    /// The machine that the agent runs on.
    #[derive(Debug, Clone, Copy)]
    pub enum Platform {
        /// The namespaces of a `local` VM.
        Namespaces,
        /// A VM with a kernel of its own.
        Guest,
    }

    /// Always fails.
    pub fn run(_: Platform, _: &Path, _: &Path) -> Result<()> {
        super::unavailable("the built-in agent", "it needs the mounts and processes of Linux")
    }
}

/// The CPI `ironic` calls storage tools of Linux.
pub mod ironic {
    use std::io::{Read, Write};
    use std::path::Path;

    use base::Result;

    /// Always fails.
    pub fn run(_: &Path, _: impl Read, _: impl Write, _: impl Write) -> Result<()> {
        super::unavailable("the built-in 'ironic' CPI", "its storage tools are Linux programs")
    }
}

/// The CPI `local` needs namespaces.
pub mod local {
    use std::io::{Read, Write};
    use std::path::Path;

    use base::Result;

    /// Always fails.
    pub fn run(_: &Path, _: &Path, _: impl Read, _: impl Write, _: impl Write) -> Result<()> {
        super::unavailable("the built-in 'local' CPI", "its VMs use Linux namespaces")
    }

    /// The first process of a VM.
    pub mod boot {
        use std::ffi::OsString;

        use base::Result;

        /// Always fails.
        pub fn run(_: impl IntoIterator<Item = OsString>) -> Result<()> {
            super::super::unavailable("a VM of the built-in 'local' CPI", "it uses Linux namespaces")
        }
    }
}

/// The CPI `qemu` identifies processes as only Linux can.
pub mod qemu {
    use std::io::{Read, Write};
    use std::path::Path;

    use base::Result;

    /// Always fails.
    pub fn run(_: &Path, _: &Path, _: impl Read, _: impl Write, _: impl Write) -> Result<()> {
        super::unavailable("the built-in 'qemu' CPI", "it identifies processes by pidfds")
    }

    /// Always fails.
    pub fn keep_console(_: impl Read, _: &Path) -> Result<()> {
        super::unavailable("the built-in 'qemu' CPI", "it identifies processes by pidfds")
    }
}

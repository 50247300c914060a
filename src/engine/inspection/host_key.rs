//! The host key that the VM's sshd must present, as a line for `known_hosts`.

use base::{Error, Result};

/// Returns the `known_hosts` line for the host `alias`. The key comes from the agent or from the state.
pub(super) fn known_hosts_line(alias: &str, key: &str) -> Result<String> {
    let mut words = key.split_whitespace();
    let is_kind =
        |kind: &str| kind.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-@.".contains(&byte));
    let is_text =
        |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte));
    match (words.next(), words.next()) {
        (Some(kind), Some(text)) if is_kind(kind) && is_text(text) => Ok(format!("{alias} {kind} {text}\n")),
        _ => Err(Error::failure("the agent did not return the host key of the VM's sshd")
            .with_note("without it, ssh cannot verify the VM")
            .with_hint(
                "see whether the VM has an sshd, in the agent's log: `monopile logs MANIFEST --agent`",
            )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_key_must_be_two_words_on_one_line() {
        let line = |key| known_hosts_line("vm", key).ok();
        assert_eq!(line("ssh-rsa AAAAB3+/= root@host\n").as_deref(), Some("vm ssh-rsa AAAAB3+/=\n"));
        for bad in ["", "ssh-rsa", "ssh-rsa AAAA*", "@cert-authority * ssh-rsa", "# x y"] {
            assert_eq!(line(bad).filter(|line| line.matches(' ').count() != 2), None, "{bad}");
        }
        assert_eq!(line("ssh-rsa\tAAAA\n* ssh-rsa BBBB").as_deref(), Some("vm ssh-rsa AAAA\n"));
        assert_eq!(line("ssh-rsa AAAA,BBBB"), None);
    }
}

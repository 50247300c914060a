//! Contract v1 in a run: the registry for the CPI, and the SSH tunnel through which the VM's agent reaches
//! it.

use std::cell::RefCell;
use std::path::Path;
use std::time::{Duration, Instant};

use super::executor::Executor;
use crate::agent_client::{Agent, AgentError};
use crate::protocol::Contract;
use crate::registry_server::tunnel::{Tunnel, TunnelError};
use crate::registry_server::{RegistryRuntime, RegistryServer as Server, loopback_address, serve};
use crate::run_context::RunContext;
use crate::state::{Change, State, VmHandle};
use artifact::ArtifactUrl;
use base::events::Stage;
use base::files::input;
use base::secret::Secret;
use base::timing::Activity;
use base::{Error, Result};
use manifest::deployment::{CloudProvider, SshTunnel, TunnelKey};
use net::ssh::{self, KeyError, SshKey};

/// The interval between checks that the tunnel still works, while the run waits for the agent.
const TUNNEL_CHECK_INTERVAL: Duration = Duration::from_secs(2);
/// The maximum number of prompts for a passphrase.
const MAX_PASSPHRASE_PROMPTS: u32 = 3;
/// The maximum size of a private key, in bytes.
const MAX_KEY_BYTES: u64 = 1 << 20;
const KEY_PROPERTY: &str = "cloud_provider.ssh_tunnel.private_key";

/// The registry server of a deploy on a runtime of its own, with the SSH tunnel from the VM to it.
pub(crate) struct RunRegistry<'a> {
    run: &'a RunContext,
    /// The tunnel to the newest VM. It stays open, because agents read the registry again when a disk is
    /// attached.
    tunnel: RefCell<Option<Tunnel>>,
    login: Option<ssh::SshServer>,
    port: u16,
    server: Server,
    /// Declared last, so that it is dropped after everything that runs on it.
    runtime: RegistryRuntime,
}

impl<'a> RunRegistry<'a> {
    /// Starts the registry if contract v1 applies and the manifest configures one. The path of a private
    /// key is relative to `manifest`.
    pub(crate) fn start(
        run: &'a RunContext,
        provider: &CloudProvider,
        manifest: &Path,
        contract: Contract,
        executor: &mut Executor<'_>,
    ) -> Result<Option<Self>> {
        let Some(config) = &provider.registry else { return Ok(None) };
        if contract == Contract::V2 {
            run.reporter.note(unneeded_registry_note(provider));
            return Ok(None);
        }
        let address = loopback_address(config)?;
        // An unusable key must fail before a VM is created.
        let login = match &provider.ssh_tunnel {
            Some(tunnel) => Some(load_tunnel_server(run, tunnel, manifest)?),
            None => None,
        };
        let (runtime, server) = serve(config, address, executor.registry_document())?;
        executor.set_registry(server.endpoint());
        tracing::info!(%address, "contract v1: the registry is running");
        let tunnel = RefCell::new(None);
        Ok(Some(RunRegistry { run, tunnel, login, port: address.port(), server, runtime }))
    }

    /// Waits until the agent on a new VM answers, and opens the tunnel first if one is configured.
    pub(crate) fn wait_for_agent(
        &self,
        executor: &mut Executor<'_>,
        agent: &Agent,
        vm: &VmHandle,
        timeout: Duration,
        stage: &Stage,
    ) -> Result<()> {
        let start = Instant::now();
        if let Some(tunnel) = self.begin_tunnel(executor.state(), timeout) {
            let opening = stage.reporter().begin_stage(format!("Opening the ssh tunnel to VM '{}'", vm.cid));
            let measurement = self.run.clock.measure(Activity::Pause);
            let open_result = tunnel.wait_until_open(
                &|| self.run.signal(),
                &mut |problem| opening.log_line(problem),
                &mut |key| executor.commit(Change::HostKeyLearned { vm: vm.cid.clone(), key }),
            );
            open_result.map_err(|error| executor.with_console(vm, error.into()))?;
            drop(measurement);
            opening.finish();
            self.tunnel.replace(Some(tunnel));
        }
        let mut last_problem = String::new();
        loop {
            let remaining_time = timeout.saturating_sub(start.elapsed());
            let outcome = agent.wait_until_ready(remaining_time.min(TUNNEL_CHECK_INTERVAL), &mut |problem| {
                if problem != last_problem {
                    stage.log_line(problem.clone());
                    last_problem = problem;
                }
            });
            let tunnel_error = self.tunnel.borrow().as_ref().and_then(Tunnel::last_error);
            match (outcome, tunnel_error) {
                (Ok(()), _) => return Ok(()),
                (Err(error @ AgentError::Interrupted { .. }), _) => return Err(error.into()),
                (Err(_), Some(tunnel_error)) => {
                    return Err(executor.with_console(vm, TunnelError::Failed(tunnel_error).into()));
                }
                (Err(error), None) if error.is_transient() && !remaining_time.is_zero() => {}
                (Err(error), None) => {
                    return Err(error.into_new_vm_error(vm, timeout, executor.read_last_boot(vm).as_ref()));
                }
            }
        }
    }

    /// Starts to open the tunnel to the VM on record, if that VM was created under contract v1.
    pub(crate) fn begin_tunnel(&self, state: &State, timeout: Duration) -> Option<Tunnel> {
        let vm = state.vm().filter(|vm| vm.contract == Contract::V1)?;
        let server = ssh::SshServer { host_key: vm.ssh_host_key.clone(), ..self.login.clone()? };
        let serve = self.server.serve_tunnel();
        Some(Tunnel::open(self.runtime.handle(), server, self.port, timeout, serve))
    }
}

fn unneeded_registry_note(provider: &CloudProvider) -> String {
    let path = |place: &str| place.rsplit(": ").next().unwrap_or(place).to_owned();
    let mut paths: Vec<String> = provider.registry.iter().map(|registry| path(&registry.place)).collect();
    paths.extend(provider.ssh_tunnel.iter().map(|tunnel| path(&tunnel.place)));
    paths.dedup();
    let verb = if paths.len() == 1 { "is" } else { "are" };
    format!(
        "{} {verb} no longer needed: with contract v2 the agent needs no registry, and none is started",
        paths.join(" and ")
    )
}

/// Returns the server of the SSH tunnel with its credentials. The key is text in the manifest or a file,
/// whose path is relative to the manifest.
fn load_tunnel_server(run: &RunContext, tunnel: &SshTunnel, manifest: &Path) -> Result<ssh::SshServer> {
    let key = match &tunnel.private_key {
        Some(TunnelKey::Text(text)) => Some(read_key(run, text, &format!("`{KEY_PROPERTY}`"))?),
        Some(TunnelKey::Path(path)) => {
            let home = run.env_vars.iter().find(|(name, _)| name == "HOME");
            let home = home.map(|(_, home)| Path::new(home));
            let directory = manifest.parent().unwrap_or(Path::new("."));
            let ArtifactUrl::Local(path) = ArtifactUrl::parse(path, directory, home)? else {
                return Err(Error::invalid(format!(
                    "`{KEY_PROPERTY}` must be a private key or the path of one, not a URL"
                )));
            };
            let text = input::read_text(&path, MAX_KEY_BYTES).map_err(|error| {
                Error::invalid(format!("the private key '{}' cannot be read", path.display()))
                    .with_source(error)
                    .with_hint(format!("the path comes from {}", tunnel.place))
            })?;
            let text = Secret::new(text, &run.redactor);
            Some(read_key(run, &text, &format!("'{}'", path.display()))?)
        }
        None => None,
    };
    Ok(ssh::SshServer {
        host: tunnel.host.trim_start_matches('[').trim_end_matches(']').to_owned(),
        port: tunnel.port,
        user: tunnel.user.clone(),
        key,
        password: tunnel.password.clone(),
        host_key: None,
        forward_sender: None,
    })
}

/// Reads a private key, and prompts for its passphrase if it is encrypted and there is a terminal.
fn read_key(run: &RunContext, text: &Secret, key_name: &str) -> Result<SshKey> {
    let unusable_key_error = |error: KeyError| {
        let hint = match error {
            KeyError::Encrypted => {
                "run the same command at a terminal, which asks for the passphrase, or remove it: \
                 `ssh-keygen -p -f FILE`"
            }
            KeyError::WrongPassphrase => "run the same command again, and type another passphrase",
            KeyError::Cipher(_) => "convert the key to OpenSSH's format: `ssh-keygen -p -f FILE`",
            KeyError::Unreadable(_) => "use an RSA, ECDSA or Ed25519 key in OpenSSH or PEM format",
        };
        Error::invalid(format!("the private key {key_name} cannot be used"))
            .with_source(error)
            .with_hint(hint)
    };
    let mut key_error = match SshKey::parse(text.expose(), None) {
        Ok(key) => return Ok(key),
        Err(error) => error,
    };
    let Some(ask) = run.ask_secret.as_ref().filter(|_| key_error == KeyError::Encrypted) else {
        return Err(unusable_key_error(key_error));
    };
    for _ in 0..MAX_PASSPHRASE_PROMPTS {
        let passphrase = ask(&format!("Passphrase of the private key {key_name}"))?;
        let passphrase = Secret::new(passphrase, &run.redactor);
        match SshKey::parse(text.expose(), Some(passphrase.expose())) {
            Ok(key) => return Ok(key),
            Err(error) => {
                run.reporter.warn(format!("the private key {key_name}: {error}"));
                key_error = error;
            }
        }
    }
    Err(unusable_key_error(key_error))
}

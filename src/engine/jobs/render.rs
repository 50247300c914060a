//! Renders job templates into the archive that the agent unpacks: `<job>/monit` and `<job>/<target>` for
//! every job.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use crate::prepare::find_release;
use crate::templates::{self, ContextSource, asks_for_link};
use artifact::archive::{Input, Packer};
use artifact::release::Job;
use artifact::{Algorithm, Release};
use base::files::durable::create_private_directory;
use base::{Error, ErrorKind, Result};
use erb::{Context, RenderError, Renderer, has_code};
use manifest::Deployment;
use manifest::deployment::JobRef;

/// The maximum size of a template, in bytes.
const MAX_TEMPLATE_BYTES: u64 = 16 * 1024 * 1024;

/// Rendered jobs, packed.
pub(crate) struct RenderedJobs {
    pub(crate) archive: PathBuf,
    /// The digest of the archive in BOSH's format.
    pub(crate) digest: String,
    /// The name and fingerprint of each job.
    pub(crate) jobs: Vec<(String, String)>,
    /// The hash of everything rendered.
    pub(crate) configuration_hash: String,
}

/// Renders every template of the jobs in the instance group.
pub(crate) fn render(
    renderer: &dyn Renderer,
    deployment: &Deployment,
    releases: &[Release],
    networks: &Map<String, Value>,
    instance_id: &str,
    scratch: &Path,
) -> Result<RenderedJobs> {
    let root = scratch.join("rendered");
    let archive = scratch.join("rendered.tgz");
    let mut files = Vec::new();
    let mut jobs = Vec::new();
    for reference in &deployment.group.jobs {
        let release = find_release(releases, &reference.release)?;
        let job = release.job(&reference.name)?;
        let context = evaluation_context(deployment, release, job, reference, networks, instance_id)?;
        let with_job_release = |error| with_release(error, reference);
        files.extend(render_templates(renderer, job, &context, &root).map_err(with_job_release)?);
        if let Some(monit) = &job.monit {
            let file =
                render_template(renderer, job, monit, "monit", &context, &root).map_err(with_job_release)?;
            files.push(file);
        }
        jobs.push((job.name.clone(), job.fingerprint.clone()));
    }
    files.sort_by(|one, other| one.name.cmp(&other.name));
    let mut packer = Packer::create(&archive)?;
    let mut hash = Sha256::new();
    for RenderedFile { name, path, is_executable } in &files {
        packer
            .add(Path::new(name), &Input::File { path: path.clone(), is_executable: Some(*is_executable) })?;
        hash.update(name);
        hash.update([0]);
        hash.update(
            fs::read(path).map_err(|error| Error::io(format!("reading '{}'", path.display()), error))?,
        );
    }
    let digest = packer.finish()?;
    let sha256 = digest.hex(Algorithm::Sha256).unwrap_or_default();
    let configuration_hash = hex::encode(hash.finalize());
    Ok(RenderedJobs { archive, digest: format!("sha256:{sha256}"), jobs, configuration_hash })
}

/// Checks that the templates can be rendered while some addresses are unknown. An error counts only if it is
/// the same with two different sets of placeholder addresses.
pub(crate) fn check(
    renderer: &dyn Renderer,
    deployment: &Deployment,
    releases: &[Release],
    instance_id: &str,
) -> Result<()> {
    // Address blocks reserved for documentation (RFC 5737).
    let [first_networks, second_networks] =
        ["192.0.2", "198.51.100"].map(|block| with_addresses(&deployment.vm.networks, block));
    for reference in &deployment.group.jobs {
        let release = find_release(releases, &reference.release)?;
        let job = release.job(&reference.name)?;
        let in_context = |networks: &Map<String, Value>| {
            evaluation_context(deployment, release, job, reference, networks, instance_id)
        };
        let (first_context, second_context) = (in_context(&first_networks)?, in_context(&second_networks)?);
        let render = |path: &Path, context: &Context| {
            Ok::<_, Error>(renderer.render(&label(job, path), &read(path)?, context))
        };
        let paths = job.templates.iter().map(|template| job.template_path(template)).chain(job.monit.clone());
        for path in paths {
            if let Err(error) = render(&path, &first_context)?
                && render(&path, &second_context)?.is_err_and(|other_error| other_error == error)
            {
                return Err(with_release(explain_render_error(job, error, &first_context), reference));
            }
        }
    }
    Ok(())
}

/// Fills in missing addresses of the networks from this block.
fn with_addresses(networks: &Map<String, Value>, block: &str) -> Map<String, Value> {
    let mut networks = networks.clone();
    for network in networks.values_mut().filter_map(Value::as_object_mut) {
        let defaults = [
            ("ip", format!("{block}.10")),
            ("netmask", "255.255.255.0".into()),
            ("gateway", format!("{block}.1")),
        ];
        for (key, value) in defaults {
            network.entry(key).or_insert_with(|| value.into());
        }
    }
    networks
}

/// Returns the path of a template in its release, for messages.
fn label(job: &Job, source: &Path) -> String {
    format!("jobs/{}/{}", job.name, source.strip_prefix(&job.directory).unwrap_or(source).display())
}

/// A rendered template.
pub(crate) struct RenderedFile {
    /// The path in the archive: `<job>/<target>`.
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    /// True for a target below `bin/`.
    pub(crate) is_executable: bool,
}

/// Renders the templates of a job, without its monit file, into `<root>/<job>/<target>`.
pub(crate) fn render_templates(
    renderer: &dyn Renderer,
    job: &Job,
    context: &Context,
    root: &Path,
) -> Result<Vec<RenderedFile>> {
    job.templates
        .iter()
        .map(|template| {
            render_template(renderer, job, &job.template_path(template), &template.target, context, root)
        })
        .collect()
}

/// Renders one template of a job, or copies it if it has no code, into `<root>/<job>/<target>`.
pub(crate) fn render_template(
    renderer: &dyn Renderer,
    job: &Job,
    source: &Path,
    target: &str,
    context: &Context,
    root: &Path,
) -> Result<RenderedFile> {
    let text = read(source)?;
    let label = label(job, source);
    let content = if has_code(&text) {
        renderer.render(&label, &text, context).map_err(|error| explain_render_error(job, error, context))?
    } else {
        text.into_bytes()
    };
    let name = format!("{}/{target}", job.name);
    let path = root.join(&name);
    write(&path, &content)?;
    Ok(RenderedFile { name, path, is_executable: target.starts_with("bin/") })
}

/// Converts the error of a template. For a missing link, names the link. A job that consumes one fails only
/// if a template calls `link`: other templates can read the same values from properties.
fn explain_render_error(job: &Job, error: RenderError, context: &Context) -> Error {
    let source = ContextSource::Manifest { job: &job.name, properties: &job.properties };
    if !asks_for_link(&error) {
        return templates::render_error(error, context, source);
    }
    let text = |link: &Value, key: &str| link.get(key).and_then(Value::as_str).map(str::to_owned);
    let links: Vec<String> = job
        .consumes
        .iter()
        .filter_map(|link| {
            let kind = text(link, "type").map(|kind| format!(" of type '{kind}'")).unwrap_or_default();
            Some(format!("'{}'{kind}", text(link, "name")?))
        })
        .collect();
    let link_list = match links.is_empty() {
        true => String::new(),
        false => format!(" (it consumes {})", links.join(", ")),
    };
    templates::render_error(error, context, source)
        .context(format!("job '{}' needs a link{link_list}, which only a director can provide", job.name))
        .with_hint("set the properties of the job that replace the link, if it has any, or remove the job")
}

/// Names the release of a job whose template is wrong, and the job's place in the manifest.
fn with_release(error: Error, JobRef { name, release, place, .. }: &JobRef) -> Error {
    match error.kind() {
        ErrorKind::InvalidInput => error.with_note(format!("{place} is job '{name}' of release '{release}'")),
        _ => error,
    }
}

/// Returns the default values of a job's properties.
pub(crate) fn defaults(job: &Job) -> Map<String, Value> {
    job.properties
        .iter()
        .map(|property| (property.name.clone(), property.default.clone().unwrap_or(Value::Null)))
        .collect()
}

/// Builds the evaluation context in the form of the bosh CLI (`job_evaluation_context.go`). Unlike there,
/// networks are the actual ones and not an empty default.
pub(crate) fn evaluation_context(
    deployment: &Deployment,
    release: &Release,
    job: &Job,
    reference: &JobRef,
    networks: &Map<String, Value>,
    instance_id: &str,
) -> Result<Context> {
    let default_network = deployment.default_network_name();
    let address = default_network
        .and_then(|name| networks.get(name))
        .and_then(|network| network.get("ip"))
        .and_then(Value::as_str)
        .unwrap_or_default();
    let mut networks = networks.clone();
    // Existing templates look up the address under this name, not under the name of the network.
    if let Some(network) = default_network.and_then(|name| networks.get(name)).cloned() {
        networks.entry("default").or_insert(network);
    }
    templates::context(&json!({
        "index": 0,
        "id": instance_id,
        "az": deployment.az_name(),
        "bootstrap": true,
        "job": {"name": job.name},
        "name": deployment.group.name,
        "deployment": deployment.name,
        "release": {"name": release.name, "version": release.version},
        "address": address,
        "ip": address,
        "networks": networks,
        "global_properties": deployment.properties,
        "cluster_properties": deployment.group.properties,
        "job_properties": reference.properties,
        "default_properties": defaults(job),
    }))
}

fn read(path: &Path) -> Result<String> {
    let read_error = |error| Error::io(format!("reading the template '{}'", path.display()), error);
    if fs::metadata(path).map_err(read_error)?.len() > MAX_TEMPLATE_BYTES {
        return Err(Error::invalid(format!("the template '{}' is larger than 16 MiB", path.display())));
    }
    let bytes = fs::read(path).map_err(read_error)?;
    String::from_utf8(bytes)
        .map_err(|_| Error::invalid(format!("the template '{}' is not UTF-8 text", path.display())))
}

/// Writes a rendered file that only this user can read, because it may hold credentials.
fn write(path: &Path, content: &[u8]) -> Result<()> {
    let write_error = |error| Error::io(format!("writing '{}'", path.display()), error);
    if let Some(directory) = path.parent() {
        create_private_directory(directory).map_err(write_error)?;
    }
    let mut file = File::options()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)
        .map_err(write_error)?;
    file.write_all(content).map_err(write_error)
}

//! Parses the interpolated tree into a [`Deployment`].

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use super::az::{self, Az};
use super::network::{self, Network};
use super::sections::{Sections, names, nearest_or};
use super::{
    ArtifactOrigin, ArtifactRef, CertificateBundle, CloudProvider, CpiSource, Deployment, InstanceGroup,
    JobRef, ReleaseRef, VmSpec, WatchTime,
};
use super::{disk, registry, vm};
use crate::CloudConfig;
use crate::document_kind::{MANIFEST_KEYS, hints_for_misspelt_sections};
use crate::reader::{Field, Problems};
use crate::userland::{self, UserlandRef};
use base::error::{did_you_mean, did_you_mean_question};
use base::redact::Redactor;
use base::secret::Secret;
use base::text::{comma_list, shell_word};
use base::{Error, Result};
use yaml::{Data, Node};

/// The default of the bosh CLI for `update_watch_time`.
const DEFAULT_WATCH_TIME: WatchTime = WatchTime { start: Duration::ZERO, end: Duration::from_secs(300) };

/// The keys of `cloud_provider.cpi`.
pub(crate) const CPI_KEYS: [&str; 5] = ["args", "arguments", "builtin", "path", "properties"];

impl Deployment {
    /// Parses and validates an interpolated manifest, with the sections of a cloud config. `cpis` are the
    /// names in the CPI config, if there is one.
    pub fn parse(
        manifest: &Node,
        cloud_config: Option<&CloudConfig>,
        cpis: Option<&[String]>,
        redactor: &Redactor,
    ) -> Result<Self> {
        let mut problems = Problems::default();
        let root = Field::root(manifest);
        if !root.check_mapping(&mut problems) {
            return problems.into_result(None);
        }
        let sections = Sections::new(root, cloud_config, cpis, &mut problems);
        let deployment = read(sections, redactor, &mut problems);
        problems.into_result(deployment).map_err(|error| explain_missing_section(manifest, error))
    }

    /// Parses only the availability zone of the instance group.
    pub fn parse_az(manifest: &Node, cloud_config: Option<&CloudConfig>) -> Result<Option<Az>> {
        let mut problems = Problems::default();
        let root = Field::root(manifest);
        let group = find_instance_group(&root, &mut Problems::default());
        let sections = Sections::new(root, cloud_config, None, &mut problems);
        let az = group.and_then(|group| az::read(&sections, &group, &mut problems));
        problems.into_result(Some(az))
    }

    /// Parses only `cloud_provider`, for commands that do not deploy.
    pub fn parse_cloud_provider(manifest: &Node, redactor: &Redactor) -> Result<CloudProvider> {
        let mut problems = Problems::default();
        let root = Field::root(manifest);
        let provider = read_cloud_provider(&root, &names(&root, "releases"), redactor, &mut problems);
        problems.into_result(provider).map_err(|error| explain_missing_section(manifest, error))
    }

    /// Parses only the releases whose names `is_needed` accepts.
    pub fn parse_releases(manifest: &Node, is_needed: &dyn Fn(&str) -> bool) -> Result<Vec<ReleaseRef>> {
        let mut problems = Problems::default();
        let mut releases: Vec<ReleaseRef> = Vec::new();
        for field in Field::root(manifest).list("releases", &mut problems) {
            let name = field.optional_text("name", &mut Problems::default());
            let Some(name) = name.filter(|name| is_needed(name)) else {
                continue;
            };
            if let Some(artifact) = read_artifact(&field, &mut problems) {
                releases.push(ReleaseRef { name, artifact });
            }
        }
        problems.into_result(Some(releases))
    }
}

/// Adds hints about misspelt sections that the error names, and one to the error of a document that has
/// nothing of a manifest, such as the spec of a job.
fn explain_missing_section(document: &Node, error: Error) -> Error {
    let text = error.chain().join("\n");
    let is_named = |section: &&str| text.contains(&format!("`{section}`"));
    let named_sections: Vec<&str> = MANIFEST_KEYS.iter().copied().filter(is_named).collect();
    let error = error.with_hints(hints_for_misspelt_sections(document, &named_sections));
    match ["instance_groups", "jobs", "cloud_provider"].iter().all(|key| document.get(key).is_none()) {
        true => error.with_hint(
            "if this file is not the manifest, name the one that has `instance_groups` and `cloud_provider`",
        ),
        false => error,
    }
}

/// Reads the sections in the order of their dependencies: the zone first, because it selects the CPI whose
/// cloud properties apply. Collects the problems of all sections.
fn read(mut sections: Sections<'_>, redactor: &Redactor, problems: &mut Problems) -> Option<Deployment> {
    let group_field = find_instance_group(&sections.root, problems);
    let az = group_field.as_ref().and_then(|field| az::read(&sections, field, problems));
    sections.cpi = az.as_ref().and_then(|az| az.cpi.clone());
    let (sections, root) = (&sections, &sections.root);
    let name = root.required_text("name", problems);
    let releases = read_releases(root, problems);
    let networks: Vec<Network> = sections
        .list("networks", problems)
        .iter()
        .filter_map(|field| Network::parse(field, sections, problems))
        .collect();
    let tags = read_tags(root, problems);
    let release_names = names(root, "releases");
    let group = group_field.as_ref().and_then(|field| read_group(field, &release_names, problems));
    let vm = group_field.as_ref().and_then(|field| vm::read(sections, field, az.as_ref(), problems));
    let network_names = sections.names("networks");
    let interfaces = group_field
        .as_ref()
        .map(|field| network::read_interfaces(field, &networks, &network_names, az.as_ref(), problems));
    let disk = group_field.as_ref().and_then(|field| disk::read(sections, field, problems));
    let update_watch_time = read_watch_time(root, problems);
    let cloud_provider = read_cloud_provider(root, &release_names, redactor, problems);
    if let Some(provider) = &cloud_provider {
        check_cpi(sections, group_field.as_ref(), az.as_ref(), &provider.cpi, problems);
    }
    let properties = root.object("properties", problems);

    let mut vm = vm?;
    if !tags.is_empty()
        && let Value::Object(bosh) = vm.env.entry("bosh").or_insert_with(|| json!({}))
    {
        bosh.insert("tags".into(), json!(tags));
    }
    Some(Deployment {
        name: name?,
        releases,
        stemcell: vm.stemcell,
        stemcell_spec: vm.stemcell_spec,
        vm: VmSpec {
            cloud_properties: vm.cloud_properties,
            resources: vm.resources,
            env: vm.env,
            env_path: vm.env_path,
            networks: interfaces?,
        },
        disk,
        group: group?,
        az,
        properties,
        tags,
        update_watch_time: update_watch_time?,
        cloud_provider: cloud_provider?,
    })
}

/// Reads the URL and the digest of a stemcell or release.
pub(super) fn read_artifact(field: &Field<'_>, problems: &mut Problems) -> Option<ArtifactRef> {
    let url = field.required_text("url", problems);
    if let Some(sha1) = field.get("sha1")
        && matches!(sha1.node.data, Data::Float(_) | Data::Int(_) | Data::UInt(_))
    {
        sha1.add_problem(problems, "must be in quotes, because YAML reads it as a number");
        return None;
    }
    let sha1 = field.optional_text("sha1", problems);
    let url = url?;
    if url.starts_with("http") && sha1.is_none() {
        field.add_problem(problems, "needs `sha1`, because its `url` is fetched over the network");
        // The URL may have credentials, which cannot be told apart if it is not valid.
        let shown_url = if url.contains('@') { "URL".into() } else { shell_word(&url) };
        match field.get("sha256") {
            Some(sha256) => {
                let digest = sha256.node.as_str().unwrap_or("DIGEST");
                problems
                    .add_hint(format!("the digest is under the wrong key: write `sha1: sha256:{digest}`"));
            }
            None => {
                problems.add_hint("copy the digest that the publisher names: `sha1: DIGEST`".to_owned());
                let hint = digest_hint("it", "sha256sum", &shown_url);
                problems.add_hint(format!("without one, {hint}, and write `sha1: sha256:DIGEST`"));
            }
        }
    }
    let place_of = |key: &str| field.get(key).map(|field| field.node.position.describe());
    let origin =
        ArtifactOrigin::Manifest { url: place_of("url").unwrap_or_default(), sha1: place_of("sha1") };
    Some(ArtifactRef { url, sha1, origin })
}

/// Returns the hint how to compute a digest of the file at this URL. `digest` names it in a sentence, and
/// `program` computes it.
pub fn digest_hint(digest: &str, program: &str, shown_url: &str) -> String {
    format!("compute {digest}: `curl -fL {shown_url} | {program}`")
}

fn read_releases(root: &Field<'_>, problems: &mut Problems) -> Vec<ReleaseRef> {
    let mut releases: Vec<ReleaseRef> = Vec::new();
    for field in root.list("releases", problems) {
        let name = field.required_text("name", problems);
        let artifact = read_artifact(&field, problems);
        if let (Some(name), Some(artifact)) = (name, artifact) {
            if releases.iter().any(|release| release.name == name) {
                field.add_problem(problems, format!("defines release '{name}' a second time"));
            }
            releases.push(ReleaseRef { name, artifact });
        }
    }
    releases
}

fn read_tags(root: &Field<'_>, problems: &mut Problems) -> BTreeMap<String, String> {
    let Some(field) = root.get("tags") else { return BTreeMap::new() };
    let Some(map) = field.node.as_map() else {
        field.add_mismatch("a mapping", problems);
        return BTreeMap::new();
    };
    map.iter()
        .filter_map(|(key, node)| {
            let key = key.as_str()?.to_owned();
            let text = Field { node, path: format!("tags.{key}") }.text(problems)?;
            Some((key, text))
        })
        .collect()
}

/// Finds the only instance group, under `instance_groups` or, as in old manifests, `jobs`.
fn find_instance_group<'a>(root: &Field<'a>, problems: &mut Problems) -> Option<Field<'a>> {
    let key = match (root.get("instance_groups"), root.get("jobs")) {
        (Some(_), Some(jobs)) => {
            jobs.add_problem(problems, "and `instance_groups` cannot both be given");
            return None;
        }
        (None, Some(_)) => "jobs",
        _ => "instance_groups",
    };
    let mut groups = root.list(key, problems);
    match groups.len() {
        1 => groups.pop(),
        // A value of another type is a problem already.
        0 if root.get(key).is_some_and(|field| field.node.as_seq().is_none()) => None,
        0 => {
            root.add_problem(problems, format!("must have one instance group in `{key}`"));
            None
        }
        count => {
            groups[1].add_problem(
                problems,
                format!("is the second of {count} instance groups: the manifest must have only one"),
            );
            None
        }
    }
}

/// Reads the release of a job, which must be one of `releases`.
fn read_release_name(job: &Field<'_>, releases: &[String], problems: &mut Problems) -> Option<String> {
    let known_releases = || match releases {
        [] => String::new(),
        [release] => format!("; the only release is '{release}'"),
        releases => format!("; the releases are {}", comma_list(releases)),
    };
    if job.get("release").is_none() {
        job.add_problem(problems, format!("needs `release: RELEASE`{}", known_releases()));
        return None;
    }
    let release = job.required_text("release", problems)?;
    if !releases.contains(&release) {
        let hint = nearest_or(&release, releases.iter().map(String::as_str), known_releases);
        let problem = format!("names release '{release}', which is not in `releases`{hint}");
        job.add_problem_at("release", problems, problem);
    }
    Some(release)
}

/// Reads the instance group, which must be a service with one instance. Its jobs may be under `jobs` or, as
/// in old manifests, `templates`.
fn read_group(field: &Field<'_>, releases: &[String], problems: &mut Problems) -> Option<InstanceGroup> {
    let name = field.required_text("name", problems);
    if let Some(instances) = field.optional_number("instances", 0, problems)
        && instances != 1
    {
        field.add_problem_at(
            "instances",
            problems,
            format!("must have `instances: 1`, not {instances}, because an environment is one VM"),
        );
    }
    if let Some(lifecycle) = field.optional_text("lifecycle", problems)
        && lifecycle != "service"
    {
        field.add_problem_at(
            "lifecycle",
            problems,
            format!("must have `lifecycle: service`, not '{lifecycle}'"),
        );
    }
    let key = match (field.get("jobs"), field.get("templates")) {
        (Some(_), Some(templates)) => {
            templates.add_problem(problems, "and `jobs` cannot both be given");
            "jobs"
        }
        (None, Some(_)) => "templates",
        _ => "jobs",
    };
    let mut jobs: Vec<JobRef> = Vec::new();
    for job in field.list(key, problems) {
        let job_name = job.required_text("name", problems);
        let release = read_release_name(&job, releases, problems);
        let properties = job.optional_object("properties", problems);
        let (Some(job_name), Some(release)) = (job_name, release) else { continue };
        if jobs.iter().any(|other| other.name == job_name) {
            job.add_problem_at("name", problems, format!("lists job '{job_name}' a second time"));
        }
        let mut property_places = BTreeMap::new();
        if let Some(properties) = job.get("properties") {
            collect_property_places(properties.node, "", &job, &mut property_places);
        }
        let place = job.place();
        jobs.push(JobRef { name: job_name, release, properties, place, property_places });
    }
    let properties = field.object("properties", problems);
    Some(InstanceGroup { name: name?, jobs, properties })
}

/// Collects the places of properties. A key that the path of an operation created has none.
fn collect_property_places(
    node: &Node,
    prefix: &str,
    job: &Field<'_>,
    places: &mut BTreeMap<String, String>,
) {
    for (key, value) in node.as_map().into_iter().flat_map(|map| map.iter()) {
        let Some(name) = key.as_str() else { continue };
        let name = format!("{prefix}{name}");
        let mut positions = [&key.position, &value.position].into_iter();
        if let Some(position) = positions.find(|position| position.file().is_some()) {
            places.insert(name.clone(), format!("{}: `{}`", position.describe(), job.path));
        }
        collect_property_places(value, &format!("{name}."), job, places);
    }
}

/// Reads `update_watch_time`, a range of milliseconds.
fn read_watch_time(root: &Field<'_>, problems: &mut Problems) -> Option<WatchTime> {
    let Some(field) = root.get("update").and_then(|update| update.get("update_watch_time")) else {
        return Some(DEFAULT_WATCH_TIME);
    };
    let text = field.text(problems)?;
    // A director also takes a single time, after which it checks once.
    let (start, end) = text.split_once('-').unwrap_or((&text, &text));
    let milliseconds = |text: &str| text.trim().parse::<u64>().ok().map(Duration::from_millis);
    let range = milliseconds(start).zip(milliseconds(end)).map(|(start, end)| WatchTime { start, end });
    match range {
        Some(time) if time.start <= time.end => Some(time),
        Some(_) => {
            field.add_problem(problems, format!("'{text}' ends before it begins"));
            None
        }
        None => {
            field.add_problem(problems, format!("'{text}' is not a range of milliseconds, such as 0-300000"));
            None
        }
    }
}

/// Reads `cloud_provider`. A userland is only for CPIs of releases.
fn read_cloud_provider(
    root: &Field<'_>,
    releases: &[String],
    redactor: &Redactor,
    problems: &mut Problems,
) -> Option<CloudProvider> {
    let Some(field) = root.get("cloud_provider") else {
        root.add_problem(problems, "needs a `cloud_provider`");
        problems.add_hint("see its keys: `monopile help manifest cloud-provider`".to_owned());
        return None;
    };
    if !field.check_mapping(problems) {
        return None;
    }
    let cpi = read_cpi_source(&field, releases, problems);
    // As in the manifest's URLs, paths are relative to the manifest, also in an ops file.
    let userland = userland::read(&field, problems).map(|userland| UserlandRef { file: None, ..userland });
    if let (Some(CpiSource::Builtin(_) | CpiSource::Path { .. }), Some(_)) = (&cpi, &userland) {
        field.add_problem(problems, "has a `userland`, which is only for the CPI of a release (`template`)");
    }
    let place_of = |keys: &[&str]| {
        let key_field = keys.iter().find_map(|key| field.get(key));
        key_field.as_ref().unwrap_or(&field).node.position.describe()
    };
    let (mbus_place, cert_place) = (place_of(&["mbus"]), place_of(&["cert"]));
    let cpi_place = match field.get("cpi").and_then(|cpi| cpi.get("builtin").or_else(|| cpi.get("path"))) {
        Some(value) => value.node.position.describe(),
        None => place_of(&["cpi", "templates", "template"]),
    };
    let mbus = field.required_text("mbus", problems).map(|mbus| Secret::new(mbus, redactor));
    let cert = field.get("cert").filter(|cert| {
        let is_mapping = cert.check_mapping(problems);
        if !is_mapping {
            problems
                .add_hint("name a variable of type `certificate`: `cert: ((mbus_bootstrap_ssl))`".to_owned());
        }
        is_mapping
    });
    let cert = cert.map_or_else(CertificateBundle::default, |cert| CertificateBundle {
        ca: cert.optional_text("ca", problems),
        certificate: cert.optional_text("certificate", problems),
        private_key: cert.optional_text("private_key", problems).map(|key| Secret::new(key, redactor)),
    });
    let mut properties = field.object("properties", problems);
    if let Some(cpi_properties) = field.get("cpi").and_then(|cpi| cpi.optional_object("properties", problems))
    {
        properties.extend(cpi_properties);
    }
    let (registry, ssh_tunnel) = registry::read(&field, &mut properties, redactor, problems);
    let (mbus, previous_agents, ca_variable) = (mbus?, Vec::new(), None);
    Some(CloudProvider {
        cpi: cpi?,
        cpi_place,
        userland,
        mbus,
        mbus_place,
        previous_agents,
        cert,
        cert_place,
        ca_variable,
        properties,
        registry,
        ssh_tunnel,
    })
}

/// Checks that the VM has a CPI: that of its zone, or the default one.
fn check_cpi(
    sections: &Sections<'_>,
    group: Option<&Field<'_>>,
    az: Option<&Az>,
    default: &CpiSource,
    problems: &mut Problems,
) {
    // A zone that could not be read may name a CPI, so nothing is reported.
    let is_zone_read = az.is_some() || group.is_some_and(|group| group.get("azs").is_none());
    if sections.cpi.is_some() || *default != CpiSource::None || !is_zone_read {
        return;
    }
    let Some(provider) = sections.root.get("cloud_provider") else { return };
    let zone = match az {
        Some(az) => format!("a `cpi` in availability zone '{}'", az.name),
        None => "an availability zone (`azs`) whose `cpi` names one".to_owned(),
    };
    match provider.get("cpi") {
        Some(cpi) => cpi.add_problem(problems, format!("is `none`, so the instance group needs {zone}")),
        None => provider.add_problem(
            problems,
            format!(
                "must name a CPI (`template: {{name, release}}`, `templates` or `cpi`), or the instance \
                 group needs {zone}"
            ),
        ),
    }
}

/// Reads the arguments of an executable. `args` is another name for `arguments`.
fn read_arguments(cpi: &Field<'_>, problems: &mut Problems) -> Vec<String> {
    match (cpi.get("arguments"), cpi.get("args")) {
        (Some(_), Some(args)) => {
            args.add_problem(problems, "and `arguments` cannot both be given");
            Vec::new()
        }
        (None, Some(_)) => cpi.texts("args", problems),
        _ => cpi.texts("arguments", problems),
    }
}

/// Returns the unknown key of a `cloud_provider.cpi` that names neither a built-in CPI nor an executable, and
/// a suggestion.
pub(crate) fn unknown_cpi_key(cpi: &Node) -> Option<(&str, String)> {
    let map = cpi.as_map().filter(|_| cpi.get("builtin").is_none() && cpi.get("path").is_none())?;
    let key = map.iter().filter_map(|(key, _)| key.as_str()).find(|key| !CPI_KEYS.contains(key))?;
    // An entry of a CPI config has `exec_path`.
    let hint = match key {
        "template" | "templates" => ", which belongs directly below `cloud_provider`".to_owned(),
        _ if key.starts_with("exec") => format!("; {}", did_you_mean_question("path")),
        _ => did_you_mean(key, CPI_KEYS),
    };
    Some((key, hint))
}

/// Returns the hint for a `cloud_provider.cpi` that names a job or its release.
fn released_cpi_hint(cpi: &Node, releases: &[String]) -> Option<String> {
    let value = |keys: &[&str]| keys.iter().find_map(|key| cpi.get(key)?.as_str());
    // Another text may be the name of a built-in CPI.
    let text = cpi.as_str().filter(|text| text.contains("cpi"));
    let job = text.or_else(|| value(&["job", "template", "name"]));
    let release = value(&["release"]);
    job.or(release)?;
    let only_release = match releases {
        [name] => Some(name.as_str()),
        _ => None,
    };
    let (job, release) = (job.unwrap_or("JOB"), release.or(only_release).unwrap_or("RELEASE"));
    Some(format!(
        "for the CPI of a release, in place of `cpi`: `template: {{name: {job}, release: {release}}}`"
    ))
}

/// Reads the CPI of `cloud_provider`: `cpi` (an extension of this program), else jobs under `template` or
/// `templates`.
fn read_cpi_source(field: &Field<'_>, releases: &[String], problems: &mut Problems) -> Option<CpiSource> {
    if let Some(cpi) = field.get("cpi") {
        if cpi.node.as_str() == Some("none") {
            return Some(CpiSource::None);
        }
        return match (cpi.optional_text("builtin", problems), cpi.optional_text("path", problems)) {
            (Some(name), None) => Some(CpiSource::Builtin(name)),
            (None, Some(path)) => Some(CpiSource::Path { path, arguments: read_arguments(&cpi, problems) }),
            _ => {
                const REQUIREMENT: &str =
                    "must have either `builtin: NAME` or `path: EXECUTABLE`, or be `none`";
                match unknown_cpi_key(cpi.node) {
                    Some((key, hint)) => {
                        let problem = format!("{REQUIREMENT}; it has the unknown key '{key}'{hint}");
                        cpi.add_problem_at(key, problems, problem);
                    }
                    None => cpi.add_problem(problems, REQUIREMENT),
                }
                if let Some(hint) = released_cpi_hint(cpi.node, releases) {
                    problems.add_hint(hint);
                }
                None
            }
        };
    }
    let templates = match field.get("templates") {
        Some(_) => field.list("templates", problems),
        None => field.get("template").into_iter().collect(),
    };
    if templates.is_empty() {
        return Some(CpiSource::None);
    }
    let mut jobs = Vec::new();
    for template in templates {
        let name = template.required_text("name", problems);
        let release = read_release_name(&template, releases, problems);
        jobs.push((name?, release?));
    }
    Some(CpiSource::Jobs(jobs))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    const MANIFEST: &str = "\
name: x
releases: [{name: r, url: r.tgz}]
resource_pools: [{name: vms, network: net, stemcell: {url: s.tgz}}]
networks: [{name: net, type: manual, subnets: [{range: 10.0.0.0/24, gateway: 10.0.0.1}]}]
instance_groups:
- {name: g, instances: 1, resource_pool: vms, networks: [{name: net, static_ips: [10.0.0.2]}],
   jobs: [{name: j, release: r}]}
cloud_provider: {template: {name: cpi, release: r}, mbus: https://u:p@10.0.0.2:6868}
";

    fn problems(original: &str, replacement: &str) -> String {
        let manifest = yaml::load(&MANIFEST.replace(original, replacement), Path::new("m.yml")).unwrap();
        let error = Deployment::parse(&manifest, None, None, &Redactor::default()).unwrap_err();
        error.chain().join(": ")
    }

    #[test]
    fn problem_has_the_position_of_the_value() {
        for (original, replacement, problem) in [
            (
                "resource_pool: vms",
                "resource_pool: vm",
                "m.yml:6:42: `instance_groups[0]` names resource pool 'vm'",
            ),
            (
                "networks: [{name: net, s",
                "networks: [{name: nett, s",
                "m.yml:6:65: `instance_groups[0].networks[0]` names network",
            ),
            ("j, release: r", "j, release: s", "m.yml:7:30: `instance_groups[0].jobs[0]` names release 's'"),
            (
                "gateway: 10.0.0.1",
                "gateway: 10.0.1.1",
                "m.yml:4:78: `networks[0].subnets[0]` has the `gateway` 10.0.1.1, which is not",
            ),
            (
                "range: 10.0.0.0/24",
                "range: 10.0.0.0/244",
                "m.yml:4:56: `networks[0].subnets[0]` has the `range`",
            ),
        ] {
            let problems = problems(original, replacement);
            assert!(problems.contains(problem), "{problem}: {problems}");
        }
    }

    #[test]
    fn entry_with_a_problem_causes_no_second_problem() {
        for (original, replacement, problem) in [
            (
                "gateway: 10.0.0.1",
                "gateway: 10.0.0",
                "has the `gateway` '10.0.0', which is not an IP address",
            ),
            (", stemcell: {url: s.tgz}", "", "`resource_pools[0]` needs a `stemcell`"),
            (", url: r.tgz", "", "`releases[0]` needs `url: URL`"),
        ] {
            let problems = problems(original, replacement);
            assert!(problems.starts_with("m.yml:"), "{problems}");
            assert!(problems.ends_with(problem), "{problems}");
            assert_eq!(problems.lines().count(), 1, "{problems}");
        }
    }

    /// A manifest as a director takes it, with the sections of a cloud config.
    const V2: &str = "\
name: x
releases: [{name: r, url: r.tgz, version: latest}]
stemcells: [{alias: default, os: jammy, version: latest, url: s.tgz}]
azs: [{name: z1, cloud_properties: {zone: a, more: az, most: az}}, {name: z2}]
vm_types: [{name: small, cloud_properties: {cpu: 1, more: type}}]
vm_extensions: [{name: fast, cloud_properties: {more: ext, ssd: true}}]
disk_types: [{name: big, disk_size: 2048, cloud_properties: {type: ssd}}]
networks:
- name: net
  type: manual
  subnets:
  - {range: 10.0.0.0/24, gateway: 10.0.0.1, az: z2, cloud_properties: {id: b}}
  - {range: 10.0.1.0/24, gateway: 10.0.1.1, azs: [z1, z2], cloud_properties: {id: a}}
instance_groups:
- {name: g, instances: 1, azs: [z1], vm_type: small, vm_extensions: [fast], persistent_disk_type: big,
   stemcell: default, env: {bosh: {a: 1}}, networks: [{name: net, static_ips: [10.0.1.2]}],
   jobs: [{name: j, release: r}], update: {}}
update: {canaries: 1, update_watch_time: 5000}
cloud_provider: {template: {name: cpi, release: r}, mbus: https://u:p@10.0.0.2:6868}
";

    fn parse(text: &str, config: Option<&str>) -> Result<Deployment> {
        let manifest = yaml::load(text, Path::new("m.yml")).unwrap();
        let config = config.map(|config| yaml::load(config, Path::new("c.yml")).unwrap());
        let config = config.map(|config| CloudConfig::reduce(config, &manifest).0);
        let cpis = ["east", "west"].map(str::to_owned);
        Deployment::parse(&manifest, config.as_ref(), Some(&cpis), &Redactor::default())
    }

    #[test]
    fn reads_a_manifest_for_a_director() {
        let (start, rest) = V2.split_once("azs:").unwrap();
        let (config, end) = rest.split_once("instance_groups:").unwrap();
        let (config, rest) = (format!("azs:{config}"), format!("{start}instance_groups:{end}"));
        for (manifest, config) in [(V2, None), (rest.as_str(), Some(config.as_str()))] {
            let deployment = parse(manifest, config).unwrap();
            let VmSpec { cloud_properties, env, networks, .. } = &deployment.vm;
            let expected = json!({"zone": "a", "most": "az", "cpu": 1, "more": "ext", "ssd": true});
            assert_eq!(Value::Object(cloud_properties.clone()), expected);
            assert_eq!(Value::Object(env.clone()), json!({"bosh": {"a": 1}}));
            assert_eq!(networks["net"]["cloud_properties"], json!({"id": "a"}));
            assert_eq!(networks["net"]["gateway"], "10.0.1.1");
            assert_eq!(deployment.stemcell.url, "s.tgz");
            let disk = deployment.disk.unwrap();
            assert_eq!((disk.size, disk.cloud_properties["type"].as_str()), (2048, Some("ssd")));
            assert_eq!(deployment.update_watch_time.end, Duration::from_secs(5));
        }
    }

    /// Returns the message, the causes and the hints.
    fn text_of(error: &Error) -> String {
        [&[error.chain().join(": ")], error.hints()].concat().join("; ")
    }

    #[test]
    fn problems_of_types_are_reported_with_position_and_suggestion() {
        for (original, replacement, problem) in [
            (
                "vm_type: small",
                "vm_type: smal",
                "m.yml:15:47: `instance_groups[0].vm_type` names VM type 'smal', which \
                is not in `vm_types`; did you mean 'small'?",
            ),
            (
                "vm_type: small",
                "vm_type: [small]",
                "`instance_groups[0].vm_type` must be a string, not a list",
            ),
            (
                "vm_type: small",
                "vm_typ: small",
                "m.yml:15:46: `instance_groups[0]` needs `vm_type`, `vm_resources` or `resource_pool`; \
                did you mean 'vm_type'?",
            ),
            (
                "vm_type: small",
                "vm_type: small, resource_pool: p",
                "`instance_groups[0].vm_type` and `resource_pool` \
                cannot both be given",
            ),
            (
                "vm_types: [{",
                "vm_types: [{name: small}, {",
                "`vm_types[1]` defines VM type 'small' a second time",
            ),
            ("vm_types: [", "vm_types: 7 #", "`vm_types` must be a list, not an integer"),
            ("vm_types:", "vm_typs:", "neither the manifest nor a --cloud-config defines `vm_types`"),
            (
                "[fast]",
                "[fsat]",
                "`instance_groups[0].vm_extensions[0]` names VM extension 'fsat', which is not in \
                `vm_extensions`; did you mean 'fast'?",
            ),
            ("[fast]", "fast", "`instance_groups[0].vm_extensions` must be a list, not a string"),
            ("[fast]", "[other]", "; the VM extensions are fast"),
            (
                "disk_type: big",
                "disk_type: bigg",
                "names disk type 'bigg', which is not in `disk_types`; did you mean",
            ),
            (
                "disk_type: big",
                "disk_type: big, persistent_disk: 1",
                "`instance_groups[0].persistent_disk_type` and \
                `persistent_disk` cannot both be given",
            ),
            (
                "disk_size: 2048",
                "disk_size: 2 GB",
                "`disk_types[0].disk_size` must be a whole number of MiB, such as 1024, not '2 GB'",
            ),
            (
                "disk_size: 2048",
                "disk_size: '2048'",
                "`disk_types[0].disk_size` must be a whole number of MiB, but '2048' is text: remove its \
                 quotes",
            ),
            (
                "instances: 1",
                "instances: 3",
                "`instance_groups[0]` must have `instances: 1`, not 3, because an environment is one VM",
            ),
            (", disk_size: 2048", "", "m.yml:7:14: `disk_types[0]` needs a `disk_size` in MiB"),
            (
                "stemcell: default",
                "stemcell: defualt",
                "names the alias 'defualt', which no entry of `stemcells` has; \
                did you mean 'default'?",
            ),
            ("stemcell: default,", "", "`instance_groups[0]` needs `stemcell: STEMCELL`"),
            (
                ", url: s.tgz",
                "",
                "`stemcells[0]` needs a `url` (and its `sha1`), because there is no director",
            ),
            ("os: jammy", "os: jammy, name: n", "`stemcells[0].os` and `name` cannot both be given"),
            ("jammy, version: latest", "jammy, version: 1.10", "`stemcells[0].version` must be in quotes"),
            ("cloud_properties: {cpu", "cloud_properties: [cpu, {x", "m.yml:"),
            (
                "[z1, z2]",
                "[z2]",
                "names network 'net', which has no subnet in availability zone 'z1', only in z2, z2",
            ),
            (
                "[z1, z2]",
                "[z1, z3]",
                "`networks[0].subnets[1].azs[1]` names availability zone 'z3', which is not in `azs`",
            ),
            ("az: z2", "az: z2, azs: [z2]", "`networks[0].subnets[0].azs` and `az` cannot both be given"),
            ("10.0.1.2", "10.0.2.2", "has the static IP '10.0.2.2', which is not in the `range` 10.0.1.0/24"),
            ("5000", "soon", "'soon' is not a range of milliseconds, such as 0-300000"),
        ] {
            assert!(V2.contains(original), "{original}");
            let error = match yaml::load(&V2.replacen(original, replacement, 1), Path::new("m.yml")) {
                Ok(_) => text_of(&parse(&V2.replacen(original, replacement, 1), None).unwrap_err()),
                Err(error) => error.to_string(),
            };
            assert!(error.contains(problem), "{replacement}: {error}");
            assert!(error.contains("m.yml:"), "{error}");
        }
    }

    #[test]
    fn cloud_properties_of_the_cpi_come_before_general_ones() {
        let by_cpi =
            "cloud_properties_by_cpi: {east: {more: east}, west: {more: west, own: 1}}, cloud_properties";
        let text = V2.replace("cloud_properties: {cpu", &format!("{by_cpi}: {{cpu"));
        let text = text.replace("cloud_properties: {type", &format!("{by_cpi}: {{type"));
        let text = text.replace("cloud_properties: {id", &format!("{by_cpi}: {{id")).replace("[fast]", "[]");
        for (cpi, cpi_properties) in [
            ("", json!({})),
            (", cpi: east", json!({"more": "east"})),
            (", cpi: west", json!({"more": "west", "own": 1})),
        ] {
            let deployment = parse(&text.replace("{name: z1", &format!("{{name: z1{cpi}")), None).unwrap();
            let cpi_properties = cpi_properties.as_object().unwrap();
            let merge_with_cpi = |general: Value| {
                let mut properties = general.as_object().unwrap().clone();
                properties.extend(cpi_properties.clone());
                properties
            };
            let vm = json!({"zone": "a", "most": "az", "cpu": 1, "more": "type"});
            assert_eq!(deployment.vm.cloud_properties, merge_with_cpi(vm), "{cpi}");
            let network = &deployment.vm.networks["net"]["cloud_properties"];
            assert_eq!(*network, Value::Object(merge_with_cpi(json!({"id": "a"}))), "{cpi}");
            assert_eq!(
                deployment.disk.unwrap().cloud_properties,
                merge_with_cpi(json!({"type": "ssd"})),
                "{cpi}"
            );
        }
        for (original, replacement, problem) in [
            (
                "{east:",
                "{eats:",
                "m.yml:5:51: `vm_types[0].cloud_properties_by_cpi` names CPI 'eats', which the CPI \
                config does not have; did you mean 'east'?",
            ),
            ("{east:", "{saturn:", "which the CPI config does not have; its CPIs are: east, west"),
            (
                "{more: east}",
                "7",
                "`vm_types[0].cloud_properties_by_cpi.east` must be a mapping, not an integer",
            ),
            (
                "{east: {more: east}, west: {more: west, own: 1}}",
                "[]",
                "_by_cpi` must be a mapping, not a list",
            ),
        ] {
            let error = text_of(&parse(&text.replacen(original, replacement, 1), None).unwrap_err());
            assert!(error.contains(problem), "{replacement}: {error}");
        }
        // Without a CPI config, the names below `cloud_properties_by_cpi` are not checked.
        let manifest = yaml::load(&text.replace("{east:", "{eats:"), Path::new("m.yml")).unwrap();
        Deployment::parse(&manifest, None, None, &Redactor::default()).unwrap();
    }

    #[test]
    fn default_cpi_is_needed_only_if_the_zone_names_none() {
        let template = "{template: {name: cpi, release: r}, mbus";
        for (provider, problem) in [
            ("{cpi: none, mbus", "`cloud_provider.cpi` is `none`, so the instance group needs "),
            (
                "{mbus",
                "`cloud_provider` must name a CPI (`template: {name, release}`, `templates` or `cpi`), or ",
            ),
        ] {
            let text = V2.replace(template, provider);
            let error = parse(&text, None).unwrap_err().chain().join(": ");
            assert!(
                error.contains(problem) && error.contains("a `cpi` in availability zone 'z1'"),
                "{error}"
            );
            let zoneless = text.replace("azs: [z1], vm_type", "vm_type");
            let error = parse(&zoneless, None).unwrap_err().chain().join(": ");
            assert!(
                error.contains(problem)
                    && error.ends_with("an availability zone (`azs`) whose `cpi` names one"),
                "{error}"
            );
            let east = parse(&text.replace("{name: z1", "{name: z1, cpi: east"), None).unwrap();
            assert_eq!((east.cpi(), &east.cloud_provider.cpi), (Some("east"), &CpiSource::None));
        }
        let error = parse(&V2.replace(template, "{cpi: nnoe, mbus"), None).unwrap_err().chain().join(": ");
        assert!(error.contains("`cloud_provider.cpi` must have either `builtin: NAME`"), "{error}");
        for (cpi, named_job) in [
            ("{release: r, job: j}", Some("{name: j, release: r}")),
            ("{name: j}", Some("{name: j, release: r}")),
            ("my_cpi", Some("{name: my_cpi, release: r}")),
            ("{}", None),
        ] {
            let text = V2.replace(template, &format!("{{cpi: {cpi}, mbus"));
            let error = parse(&text, None).unwrap_err();
            let hint = named_job
                .map(|job| format!("for the CPI of a release, in place of `cpi`: `template: {job}`"));
            assert_eq!(error.hints(), hint.as_slice(), "{cpi}");
        }
    }

    #[test]
    fn calculated_cloud_properties_are_between_zone_and_extensions() {
        let resources = "vm_resources: {cpu: 2, ram: 1024, ephemeral_disk_size: 2048}";
        let text = V2.replace("vm_type: small", resources);
        let vm = parse(&text, None).unwrap().vm;
        let size = &vm.resources.as_ref().unwrap().size;
        assert_eq!(Value::Object(size.clone()), json!({"cpu": 2, "ram": 1024, "ephemeral_disk_size": 2048}));
        let Value::Object(calculated) = json!({"cpu": 2, "more": "cpi", "most": "cpi"}) else { panic!() };
        let all = json!({"zone": "a", "most": "cpi", "cpu": 2, "more": "ext", "ssd": true});
        assert_eq!(Value::Object(vm.cloud_properties_with(calculated)), all);
        let other = parse(&text.replace("cpu: 2", "cpu: 3"), None).unwrap().vm;
        assert_ne!(vm.described_cloud_properties(), other.described_cloud_properties());
        for (replacement, problem) in [
            (
                "vm_resources: {cpu: 2, ram: 1024}",
                "m.yml:15:52: `instance_groups[0].vm_resources` needs \
                `ephemeral_disk_size` in MiB",
            ),
            (
                "vm_resources: {cpu: two, ram: 1, ephemeral_disk_size: 1}",
                "`instance_groups[0].vm_resources.cpu` must \
                be a whole number, not 'two'",
            ),
            (
                "vm_resources: {cpu: 0, ram: 1, ephemeral_disk_size: 1}",
                "`instance_groups[0].vm_resources.cpu` must be at least 1, not 0",
            ),
            ("vm_resources: small", "`instance_groups[0].vm_resources` must be a mapping, not a string"),
            (
                "vm_type: small, vm_resources: {cpu: 2}",
                "`instance_groups[0].vm_resources` and `vm_type` cannot both \
                be given",
            ),
        ] {
            let error =
                parse(&V2.replace("vm_type: small", replacement), None).unwrap_err().chain().join(": ");
            assert!(error.contains(problem), "{replacement}: {error}");
        }
    }

    #[test]
    fn sections_must_not_be_in_manifest_and_cloud_config() {
        let error = parse(V2, Some("vm_types: [{name: small}]")).unwrap_err().chain().join(": ");
        let expected = "m.yml:5:11: `vm_types` and `vm_types` of the --cloud-config cannot both be given";
        assert!(error.ends_with(expected), "{error}");
    }

    #[test]
    fn group_without_a_zone_is_in_the_subnet_of_its_address() {
        let text = V2.replace("azs: [z1], vm_type", "vm_type");
        for (ip, id) in [("10.0.0.2", "b"), ("10.0.1.2", "a")] {
            let deployment = parse(&text.replace("10.0.1.2", ip), None).unwrap();
            assert_eq!(deployment.vm.networks["net"]["cloud_properties"]["id"], id);
        }
        let error = parse(&text.replace("10.0.1.2", "10.0.9.2"), None).unwrap_err().chain().join(": ");
        assert!(error.ends_with("which is in no `range` of its zone: 10.0.0.0/24, 10.0.1.0/24"), "{error}");
    }

    #[test]
    fn dynamic_network_has_the_subnet_of_the_zone() {
        let subnets =
            "subnets: [{az: z2, dns: [1.1.1.1]}, {azs: [z1], dns: [8.8.8.8], cloud_properties: {id: d}}]";
        let network = format!("networks: [{{name: net, type: dynamic, {subnets}}}]\ninstance_groups:");
        let (text_before, rest) = V2.split_once("networks:\n").unwrap();
        let text_after = rest.split_once("instance_groups:").unwrap().1;
        let text = format!("{text_before}{network}{text_after}").replace(", static_ips: [10.0.1.2]", "");
        let deployment = parse(&text, None).unwrap();
        let expected = json!({"type": "dynamic", "dns": ["8.8.8.8"], "cloud_properties": {"id": "d"},
            "default": ["dns", "gateway"]});
        assert_eq!(deployment.vm.networks["net"], expected);
        let text_with_dns = text.replace("type: dynamic", "type: dynamic, dns: [1.1.1.1]");
        let error = parse(&text_with_dns, None).unwrap_err().chain().join(": ");
        assert!(error.ends_with("`networks[0].dns` and `subnets` cannot both be given"), "{error}");
    }

    #[test]
    fn value_of_the_wrong_kind_is_not_taken_for_a_missing_one() {
        for (original, replacement, problem) in [
            ("mbus:", "cert: a-password, mbus:", "`cloud_provider.cert` must be a mapping, not a string"),
            (MANIFEST, "[]", "m.yml:1:1: the manifest must be a mapping, not a list"),
        ] {
            let problems = problems(original, replacement);
            assert!(problems.ends_with(problem), "{problems}");
        }
        assert!(problems("cloud_provider: {", "cloud_provider: 7\nother: {").ends_with("not an integer"));
    }
}

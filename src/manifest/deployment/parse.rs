//! Parses the interpolated tree into a [`Deployment`].

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::az::{self, Az};
use super::network::{self, Network};
use super::registry;
use super::{
    ArtifactRef, CertificateBundle, CloudProvider, CpiSource, Deployment, DiskSpec, InstanceGroup, JobRef,
    ReleaseRef, VmSpec, WatchTime,
};
use crate::reader::{Field, Problems};
use base::Result;
use base::redact::Redactor;
use base::secret::Secret;
use yaml::Node;

/// The default of the bosh CLI for `update_watch_time`.
const DEFAULT_WATCH_TIME: WatchTime = WatchTime { start: Duration::ZERO, end: Duration::from_secs(300) };

impl Deployment {
    /// Parses and validates an interpolated manifest. If there is a cloud config, the `azs` are read from it.
    pub fn parse(manifest: &Node, cloud_config: Option<&Node>, redactor: &Redactor) -> Result<Self> {
        let mut problems = Problems::default();
        let root = Field::root(manifest);
        if !root.is_mapping(&mut problems) {
            return problems.into_result(None);
        }
        let deployment = read(&root, &zones(&root, cloud_config, &mut problems), redactor, &mut problems);
        problems.into_result(deployment)
    }

    /// Parses only the availability zone of the instance group, and returns it with its node.
    pub fn parse_az<'n>(
        manifest: &'n Node,
        cloud_config: Option<&'n Node>,
    ) -> Result<Option<(Az, &'n Node)>> {
        let mut problems = Problems::default();
        let root = Field::root(manifest);
        let group = instance_group(&root, &mut Problems::default());
        let defines = zones(&root, cloud_config, &mut problems);
        let az = group.and_then(|group| az::of_group(&defines, &group, &mut problems));
        problems.into_result(Some(az))
    }

    /// Parses only `cloud_provider`, which is all that `delete-env` needs.
    pub fn parse_cloud_provider(manifest: &Node, redactor: &Redactor) -> Result<CloudProvider> {
        let mut problems = Problems::default();
        let root = Field::root(manifest);
        let provider = cloud_provider(&root, &names(&root, "releases"), redactor, &mut problems);
        problems.into_result(provider)
    }

    /// Parses only the releases whose names `wanted` accepts.
    pub fn parse_releases(manifest: &Node, wanted: &dyn Fn(&str) -> bool) -> Result<Vec<ReleaseRef>> {
        let mut problems = Problems::default();
        let mut found: Vec<ReleaseRef> = Vec::new();
        for field in Field::root(manifest).list("releases", &mut problems) {
            let name = field.optional_text("name", &mut Problems::default());
            let Some(name) = name.filter(|name| wanted(name)) else {
                continue;
            };
            if let Some(artifact) = artifact(&field, &mut problems) {
                found.push(ReleaseRef { name, artifact });
            }
        }
        problems.into_result(Some(found))
    }
}

/// Returns the names in a list of the manifest, including those of entries with problems, so that a reference
/// to such an entry causes no second problem.
pub(super) fn names(root: &Field<'_>, list: &str) -> Vec<String> {
    let ignored = &mut Problems::default();
    root.list(list, ignored).iter().filter_map(|field| field.optional_text("name", ignored)).collect()
}

/// Returns the document with the `azs`: the cloud config or the manifest.
fn zones<'n>(root: &Field<'n>, cloud_config: Option<&'n Node>, problems: &mut Problems) -> Field<'n> {
    let Some(config) = cloud_config else { return root.clone() };
    if let Some(own) = root.get("azs") {
        own.problem(problems, "and a --cloud-config cannot both be given");
    }
    Field::root(config)
}

fn read(
    root: &Field<'_>,
    zones: &Field<'_>,
    redactor: &Redactor,
    problems: &mut Problems,
) -> Option<Deployment> {
    let name = root.required_text("name", problems);
    let releases = releases(root, problems);
    let networks: Vec<Network> =
        root.list("networks", problems).iter().filter_map(|field| Network::parse(field, problems)).collect();
    let tags = tags(root, problems);
    let group_field = instance_group(root, problems);
    let release_names = names(root, "releases");
    let group = group_field.as_ref().and_then(|field| group(field, &release_names, problems));
    let az = group_field.as_ref().and_then(|field| az::of_group(zones, field, problems)).map(|(az, _)| az);
    let pool = group_field.as_ref().and_then(|field| resource_pool(root, field, problems));
    let network_names = names(root, "networks");
    let interfaces = group_field
        .as_ref()
        .map(|field| network::interfaces(field, &networks, &network_names, problems));
    let disk = group_field.as_ref().and_then(|field| disk(root, field, problems));
    let update_watch_time = watch_time(root, problems);
    let cloud_provider = cloud_provider(root, &release_names, redactor, problems);
    let properties = root.object("properties", problems);

    let (stemcell, cloud_properties, mut env) = pool?;
    let cloud_properties = Az::merge_cloud_properties(az.as_ref(), cloud_properties);
    if !tags.is_empty()
        && let Value::Object(bosh) = env.entry("bosh").or_insert_with(|| json!({}))
    {
        bosh.insert("tags".into(), json!(tags));
    }
    Some(Deployment {
        name: name?,
        releases,
        stemcell,
        vm: VmSpec { cloud_properties, env, networks: interfaces? },
        disk,
        group: group?,
        az,
        properties,
        tags,
        update_watch_time: update_watch_time?,
        cloud_provider: cloud_provider?,
    })
}

/// Returns `; did you mean 'x'?` for a misspelt name, or an empty text.
pub(crate) fn did_you_mean<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> String {
    base::error::nearest(name, known).map_or_else(String::new, |near| format!("; did you mean '{near}'?"))
}

fn artifact(field: &Field<'_>, problems: &mut Problems) -> Option<ArtifactRef> {
    let url = field.required_text("url", problems);
    let sha1 = field.optional_text("sha1", problems);
    let url = url?;
    if url.starts_with("http") && sha1.is_none() {
        field.problem(problems, "needs `sha1`, because its `url` is fetched over the network");
    }
    Some(ArtifactRef { url, sha1 })
}

fn releases(root: &Field<'_>, problems: &mut Problems) -> Vec<ReleaseRef> {
    let mut releases: Vec<ReleaseRef> = Vec::new();
    for field in root.list("releases", problems) {
        let name = field.required_text("name", problems);
        let artifact = artifact(&field, problems);
        if let (Some(name), Some(artifact)) = (name, artifact) {
            if releases.iter().any(|release| release.name == name) {
                field.problem(problems, format!("defines release '{name}' a second time"));
            }
            releases.push(ReleaseRef { name, artifact });
        }
    }
    releases
}

fn tags(root: &Field<'_>, problems: &mut Problems) -> BTreeMap<String, String> {
    let Some(field) = root.get("tags") else { return BTreeMap::new() };
    let Some(map) = field.node.as_map() else {
        field.wrong("a mapping", problems);
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

fn instance_group<'a>(root: &Field<'a>, problems: &mut Problems) -> Option<Field<'a>> {
    let key = match (root.get("instance_groups"), root.get("jobs")) {
        (Some(_), Some(jobs)) => {
            jobs.problem(problems, "and `instance_groups` cannot both be given");
            return None;
        }
        (None, Some(_)) => "jobs",
        _ => "instance_groups",
    };
    let mut groups = root.list(key, problems);
    match groups.len() {
        1 => groups.pop(),
        0 => {
            root.problem(problems, format!("must have one instance group in `{key}`"));
            None
        }
        count => {
            root.problem(problems, format!("must have one instance group in `{key}`, not {count}"));
            None
        }
    }
}

fn group(field: &Field<'_>, releases: &[String], problems: &mut Problems) -> Option<InstanceGroup> {
    let name = field.required_text("name", problems);
    if let Some(instances) = field.optional_number("instances", 0, problems)
        && instances != 1
    {
        field.problem(problems, format!("must have `instances: 1`, not {instances}"));
    }
    if let Some(lifecycle) = field.optional_text("lifecycle", problems)
        && lifecycle != "service"
    {
        field.problem(problems, format!("must have `lifecycle: service`, not '{lifecycle}'"));
    }
    let key = match (field.get("jobs"), field.get("templates")) {
        (Some(_), Some(templates)) => {
            templates.problem(problems, "and `jobs` cannot both be given");
            "jobs"
        }
        (None, Some(_)) => "templates",
        _ => "jobs",
    };
    let mut jobs: Vec<JobRef> = Vec::new();
    for job in field.list(key, problems) {
        let job_name = job.required_text("name", problems);
        let release = job.required_text("release", problems);
        if let Some(release) = &release
            && !releases.contains(release)
        {
            let hint = did_you_mean(release, releases.iter().map(String::as_str));
            job.problem(problems, format!("names release '{release}', which is not in `releases`{hint}"));
        }
        let properties = job.optional_object("properties", problems);
        let (Some(job_name), Some(release)) = (job_name, release) else { continue };
        if jobs.iter().any(|known| known.name == job_name) {
            job.problem(problems, format!("lists job '{job_name}' a second time"));
        }
        jobs.push(JobRef { name: job_name, release, properties, location: job.location() });
    }
    let properties = field.object("properties", problems);
    Some(InstanceGroup { name: name?, jobs, properties })
}

type Pool = (ArtifactRef, Map<String, Value>, Map<String, Value>);

fn resource_pool(root: &Field<'_>, group: &Field<'_>, problems: &mut Problems) -> Option<Pool> {
    let wanted = group.required_text("resource_pool", problems);
    let mut found = None;
    let networks = names(root, "networks");
    for pool in root.list("resource_pools", problems) {
        let name = pool.required_text("name", problems);
        let stemcell = match pool.get("stemcell") {
            Some(stemcell) => artifact(&stemcell, problems),
            None => {
                pool.problem(problems, "needs a `stemcell`");
                None
            }
        };
        if let Some(network) = pool.required_text("network", problems)
            && !networks.contains(&network)
        {
            let hint = did_you_mean(&network, networks.iter().map(String::as_str));
            pool.problem(problems, format!("names network '{network}', which is not in `networks`{hint}"));
        }
        let cloud_properties = pool.object("cloud_properties", problems);
        let env = pool.object("env", problems);
        if let (Some(name), Some(stemcell)) = (name, stemcell)
            && wanted.as_ref() == Some(&name)
        {
            found = Some((stemcell, cloud_properties, env));
        }
    }
    let known = names(root, "resource_pools");
    if let (Some(wanted), None) = (&wanted, &found)
        && !known.contains(wanted)
    {
        let hint = did_you_mean(wanted, known.iter().map(String::as_str));
        group.problem(
            problems,
            format!("names resource pool '{wanted}', which is not in `resource_pools`{hint}"),
        );
    }
    found
}

fn disk(root: &Field<'_>, group: &Field<'_>, problems: &mut Problems) -> Option<DiskSpec> {
    let size = group.optional_number("persistent_disk", 0, problems);
    let wanted = group.optional_text("persistent_disk_pool", problems).filter(|name| !name.is_empty());
    let mut pools = Vec::new();
    for pool in root.list("disk_pools", problems) {
        let name = pool.required_text("name", problems);
        let size = pool.optional_number("disk_size", 1, problems);
        if pool.get("disk_size").is_none() {
            pool.problem(problems, "needs a `disk_size` in MiB");
        }
        let cloud_properties = pool.object("cloud_properties", problems);
        // A pool with an invalid size keeps its name, so that references to it cause no second error.
        if let Some(name) = name {
            let size = size.unwrap_or_default().unsigned_abs();
            pools.push((name, DiskSpec { size, cloud_properties }));
        }
    }
    match wanted {
        Some(wanted) => match pools.iter().position(|(name, _)| *name == wanted) {
            Some(index) => Some(pools.swap_remove(index).1),
            None => {
                let hint = did_you_mean(&wanted, pools.iter().map(|(name, _)| name.as_str()));
                group.problem(
                    problems,
                    format!("names disk pool '{wanted}', which is not in `disk_pools`{hint}"),
                );
                None
            }
        },
        None => size
            .filter(|size| *size > 0)
            .map(|size| DiskSpec { size: size.unsigned_abs(), cloud_properties: Map::new() }),
    }
}

fn watch_time(root: &Field<'_>, problems: &mut Problems) -> Option<WatchTime> {
    let Some(field) = root.get("update").and_then(|update| update.get("update_watch_time")) else {
        return Some(DEFAULT_WATCH_TIME);
    };
    let text = field.text(problems)?;
    let parsed = text.split_once('-').and_then(|(start, end)| {
        let milliseconds = |text: &str| text.trim().parse::<u64>().ok().map(Duration::from_millis);
        Some(WatchTime { start: milliseconds(start)?, end: milliseconds(end)? })
    });
    match parsed {
        Some(time) if time.start <= time.end => Some(time),
        Some(_) => {
            field.problem(problems, format!("'{text}' ends before it begins"));
            None
        }
        None => {
            field.problem(problems, format!("'{text}' is not a range of milliseconds, such as 0-300000"));
            None
        }
    }
}

fn cloud_provider(
    root: &Field<'_>,
    releases: &[String],
    redactor: &Redactor,
    problems: &mut Problems,
) -> Option<CloudProvider> {
    let Some(field) = root.get("cloud_provider") else {
        root.problem(problems, "needs a `cloud_provider`");
        return None;
    };
    if !field.is_mapping(problems) {
        return None;
    }
    let cpi = cpi_source(&field, releases, problems);
    let mbus = field.required_text("mbus", problems).map(|mbus| Secret::new(mbus, redactor));
    let cert = field.get("cert").filter(|cert| cert.is_mapping(problems));
    let cert = cert.map_or_else(CertificateBundle::default, |cert| CertificateBundle {
        ca: cert.optional_text("ca", problems),
        certificate: cert.optional_text("certificate", problems),
        private_key: cert.optional_text("private_key", problems).map(|key| Secret::new(key, redactor)),
    });
    let mut properties = field.object("properties", problems);
    if let Some(own) = field.get("cpi").and_then(|cpi| cpi.optional_object("properties", problems)) {
        properties.extend(own);
    }
    let (registry, ssh_tunnel) = registry::read(&field, &mut properties, redactor, problems);
    let (mbus, previous) = (mbus?, Vec::new());
    Some(CloudProvider { cpi: cpi?, mbus, previous, cert, properties, registry, ssh_tunnel })
}

/// Returns the arguments of an executable. `args` is another name for `arguments`.
fn arguments(cpi: &Field<'_>, problems: &mut Problems) -> Vec<String> {
    match (cpi.get("arguments"), cpi.get("args")) {
        (Some(_), Some(args)) => {
            args.problem(problems, "and `arguments` cannot both be given");
            Vec::new()
        }
        (None, Some(_)) => cpi.texts("args", problems),
        _ => cpi.texts("arguments", problems),
    }
}

fn cpi_source(field: &Field<'_>, releases: &[String], problems: &mut Problems) -> Option<CpiSource> {
    if let Some(cpi) = field.get("cpi") {
        return match (cpi.optional_text("builtin", problems), cpi.optional_text("path", problems)) {
            (Some(name), None) => Some(CpiSource::Builtin(name)),
            (None, Some(path)) => Some(CpiSource::Path { path, arguments: arguments(&cpi, problems) }),
            _ => {
                cpi.problem(problems, "must have either `builtin: NAME` or `path: EXECUTABLE`");
                None
            }
        };
    }
    let templates = match field.get("templates") {
        Some(_) => field.list("templates", problems),
        None => field.get("template").into_iter().collect(),
    };
    if templates.is_empty() {
        field.problem(problems, "must name a CPI: `template: {name, release}`, `templates` or `cpi`");
        return None;
    }
    let mut jobs = Vec::new();
    for template in templates {
        let name = template.required_text("name", problems);
        let release = template.required_text("release", problems);
        if let Some(release) = &release
            && !releases.contains(release)
        {
            let hint = did_you_mean(release, releases.iter().map(String::as_str));
            template
                .problem(problems, format!("names release '{release}', which is not in `releases`{hint}"));
        }
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

    fn problems(from: &str, to: &str) -> String {
        let manifest = yaml::load(&MANIFEST.replace(from, to), Path::new("m.yml")).unwrap();
        let error = Deployment::parse(&manifest, None, &Redactor::default()).unwrap_err();
        error.chain().join(": ")
    }

    #[test]
    fn entry_with_a_problem_causes_no_second_problem() {
        for (from, to, problem) in [
            ("gateway: 10.0.0.1", "gateway: 10.0.0", "`gateway` '10.0.0' is not an IP address"),
            (", stemcell: {url: s.tgz}", "", "`resource_pools[0]` needs a `stemcell`"),
            (", url: r.tgz", "", "`releases[0].url` must be provided"),
        ] {
            let problems = problems(from, to);
            assert!(problems.starts_with("the manifest is not valid: m.yml:"), "{problems}");
            assert!(problems.ends_with(problem), "{problems}");
            assert_eq!(problems.lines().count(), 1, "{problems}");
        }
    }

    #[test]
    fn value_of_the_wrong_kind_is_not_taken_for_a_missing_one() {
        for (from, to, problem) in [
            ("mbus:", "cert: a-password, mbus:", "`cloud_provider.cert` must be a mapping, not a string"),
            (MANIFEST, "[]", "m.yml:1:1: the manifest must be a mapping, not a list"),
        ] {
            let problems = problems(from, to);
            assert!(problems.ends_with(problem), "{problems}");
        }
        assert!(problems("cloud_provider: {", "cloud_provider: 7\nother: {").ends_with("not an integer"));
    }
}

//! Loads a manifest, ops files and variables into one tree.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use time::OffsetDateTime;

use super::deployment::{Az, CloudProvider, PreviousAgent};
use super::document_kind::{
    MANIFEST_SECTIONS, has_manifest_section, hints_for_misspelt_sections, refuse_other_files,
};
use super::leaves::{Leaf, leaves};
use super::node_kind::kind_with_article;
use super::ops::{self, ItemLookup, Ops, PathError};
use super::reader::ProblemList;
use super::secrets::KnownInputs;
use super::variables::Declarations;
use super::variables::syntax::unclosed_references;
use super::variables::{
    Definition, Definitions, GivenValues, MbusOutline, PreviousMbus, Resolver, VariableOrigin, VariableValue,
    prefix_warnings, values,
};
use super::vars_store::{
    ALTERNATIVE_NAMES, IS_CA, VARIABLE_TYPES, VarsStore, default_store_path, expiry, new_store_note, previous,
};
use super::{CloudConfig, CpiConfig, Deployment, Inputs, SavePolicy, files, secrets};
use base::encryption::Encryption;
use base::error::{did_you_mean, did_you_mean_question, nearest};
use base::events::Reporter;
use base::redact::{NameClass, Redactor};
use base::secret::Secret;
use base::text::{comma_list, shell_word};
use base::{Error, Result};
use yaml::{self, Data, Node, Position};

/// The remaining validity of a certificate below which loading warns.
const EXPIRY_WARNING: time::Duration = time::Duration::days(30);

/// An interpolated manifest with its configs.
#[derive(Debug)]
pub struct LoadedManifest {
    /// The manifest's tree. A value that came from a variable has the position of its reference.
    pub root: Node,
    /// The CPI config of `--cpi-config`, interpolated. `None` without the option.
    pub cpi_config: Option<Node>,
    /// The cloud config of `--cloud-config`.
    pub cloud_config: Option<CloudConfig>,
    /// The redactor, which knows all secrets of the manifest.
    pub(crate) redactor: Redactor,
    /// Notes for the operator, such as those about a created vars store or regenerated values.
    pub notes: Vec<String>,
    /// Warnings for the operator, such as those about certificates that expire soon, secrets that are public,
    /// and unused variables.
    pub warnings: Vec<String>,
    /// The path of the vars store in use.
    pub vars_store: Option<PathBuf>,
    /// The vars store with the generated values that the caller saves ([`SavePolicy::ByCaller`]).
    pub unsaved_store: Option<VarsStore>,
    /// The encryption of the vars store.
    pub encryption: Encryption,
    /// The positions at which a reference was a whole value, each with the name of its variable.
    pub(crate) replaced_references: Vec<(Position, String)>,
    /// The origins of the values of the variables, by name.
    pub(crate) origins: BTreeMap<String, VariableOrigin>,
    /// The names of the variables that have a certificate, each with that certificate as PEM.
    pub(crate) certificates_by_variable: Vec<(String, String)>,
    /// The variables that are declared with a type, with their values.
    pub values: Vec<VariableValue>,
    /// The names of the variables whose values this run generated.
    pub generated_names: Vec<String>,
    /// The agent's credentials that rotations replaced and that the VM may still have, the latest first.
    pub(crate) previous_mbus: Vec<PreviousMbus>,
    /// The options that `variables:` declares, by variable, as far as they concern certificates.
    pub(crate) declared_certificates: BTreeMap<String, DeclaredCertificate>,
}

/// Declared options of a certificate, with the values of their variables.
#[derive(Debug, Default)]
pub(crate) struct DeclaredCertificate {
    alternative_names: Vec<String>,
    is_ca: bool,
}

impl LoadedManifest {
    /// Returns true if there is a CPI config, in a file or in the manifest.
    pub fn has_cpi_config(&self) -> bool {
        self.cpi_config.is_some() || self.own_cpis().is_some()
    }

    fn own_cpis(&self) -> Option<&Node> {
        self.root.get("cpis").filter(|cpis| !cpis.is_null())
    }

    /// Returns the CPI config of the file or of the manifest's `cpis`.
    pub fn cpis(&self) -> Result<Option<CpiConfig>> {
        self.parse_cpis().map_err(|error| self.with_variables(error))
    }

    fn parse_cpis(&self) -> Result<Option<CpiConfig>> {
        match (&self.cpi_config, self.own_cpis()) {
            (None, None) => Ok(None),
            (Some(file), None) => CpiConfig::parse(file).map(Some),
            (None, Some(_)) => CpiConfig::parse(&self.root).map(|config| Some(config.in_manifest())),
            (Some(_), Some(cpis)) => Err(Error::invalid(format!(
                "{}: `cpis` of the manifest and a --cpi-config cannot both be given",
                cpis.position.describe()
            ))),
        }
    }

    /// Parses and validates the manifest.
    pub fn deployment(&self) -> Result<Deployment> {
        // An invalid CPI config is an error of [`Self::cpis`].
        let cpis = self.cpis().ok().flatten();
        let cpis: Option<Vec<String>> = cpis.map(|config| config.names().map(str::to_owned).collect());
        let config = self.cloud_config.as_ref();
        let mut deployment = Deployment::parse(&self.root, config, cpis.as_deref(), &self.redactor)
            .map_err(|error| self.with_variables(error))?;
        self.complete_provider(&mut deployment.cloud_provider);
        Ok(deployment)
    }

    /// Parses only `cloud_provider`, for commands that do not deploy.
    pub fn provider(&self) -> Result<CloudProvider> {
        let mut provider = Deployment::parse_cloud_provider(&self.root, &self.redactor)
            .map_err(|error| self.with_variables(error))?;
        self.complete_provider(&mut provider);
        Ok(provider)
    }

    /// Adds to `cloud_provider` what its text does not have: the replaced credentials, and the variable of
    /// its certificate.
    fn complete_provider(&self, provider: &mut CloudProvider) {
        let previous_agent = |PreviousMbus { mbus, ca, certificate }: PreviousMbus| PreviousAgent {
            mbus: Secret::new(mbus, &self.redactor),
            ca,
            certificate,
        };
        provider.previous_agents = self.previous_mbus.iter().cloned().map(previous_agent).collect();
        let cert = self.root.get("cloud_provider").and_then(|provider| provider.get("cert"));
        let ca = cert.and_then(|cert| cert.get("ca"));
        provider.ca_variable = ca.into_iter().chain(cert).find_map(|node| self.origin_at(&node.position));
    }

    /// Returns the variable whose value is at this position.
    fn origin_at(&self, position: &Position) -> Option<VariableOrigin> {
        let (_, name) =
            self.replaced_references.iter().find(|(reference_position, _)| reference_position == position)?;
        self.origins.get(name).cloned()
    }

    /// Adds to an error of the document the variables that its wrong values come from.
    fn with_variables(&self, error: Error) -> Error {
        ProblemList::with_origins(error, |position| self.origin_at(position))
    }

    /// Returns the availability zone of the instance group.
    pub fn az(&self) -> Result<Option<Az>> {
        Deployment::parse_az(&self.root, self.cloud_config.as_ref())
            .map_err(|error| self.with_variables(error))
    }

    /// Returns the leaves of the manifest, and of what it uses of the cloud config.
    pub fn leaves(&self) -> Vec<Leaf> {
        let config = self.cloud_config.iter().map(|config| &config.node);
        std::iter::once(&self.root).chain(config).flat_map(leaves).collect()
    }

    /// Returns the variable that has this certificate. If several have it, returns one that the manifest
    /// refers to, if there is one.
    pub fn variable_of_certificate(&self, certificate: &str) -> Option<&VariableOrigin> {
        let holders =
            self.certificates_by_variable.iter().filter(|(_, pem)| pem == certificate).map(|(name, _)| name);
        let is_referenced = |name: &&String| self.replaced_references.iter().any(|(_, other)| other == *name);
        let name = holders.clone().find(is_referenced).or_else(|| holders.clone().next())?;
        self.origins.get(name)
    }

    /// Returns true if `variables:` declares this host among the `alternative_names` of a certificate.
    pub fn declares_host(&self, variable: &str, host: &str) -> bool {
        let certificate = self.declared_certificates.get(variable);
        certificate.is_some_and(|options| options.alternative_names.iter().any(|name| name == host))
    }

    /// Returns true if `variables:` declares this variable as a CA.
    pub fn declares_ca(&self, variable: &str) -> bool {
        self.declared_certificates.get(variable).is_some_and(|options| options.is_ca)
    }

    /// Passes the output of `interpolate` to `write` in pieces: the tree as YAML, or the plain text if
    /// `--path` selects a string.
    ///
    /// # Errors
    ///
    /// Returns the first error of `write`, which is not called again.
    pub fn emit<E>(
        &self,
        options: &LoadOptions,
        mut write: impl FnMut(&str) -> Result<(), E>,
    ) -> Result<(), E> {
        match options.path.is_some() && self.root.as_str().is_some() {
            true => write(&format_value(&self.root)),
            false => yaml::emit_pieces(&self.root, write),
        }
    }

    /// Reports notes and warnings to the operator.
    pub fn report_messages(&self, reporter: &Reporter) {
        self.notes.iter().for_each(|note| reporter.note(note));
        self.warnings.iter().for_each(|warning| reporter.warn(warning));
    }
}

/// Options of [`load_with_options`].
#[derive(Debug, Clone, Default)]
pub struct LoadOptions {
    /// True if a variable without a value is an error (`--var-errs`). Otherwise the reference stays.
    pub requires_values: bool,
    /// True if a given or stored variable that is not used is an error (`--var-errs-unused`).
    pub requires_use: bool,
    /// The ops path of the only value that is interpolated (`--path`).
    pub path: Option<String>,
    /// True if inputs on the command line that give no value cause warnings: unused variables, a manifest in
    /// place of a vars file, and a prefix without variables.
    pub warns_of_unused: bool,
    /// True if an ops file or a vars store in place of the manifest is an error.
    pub refuses_other_files: bool,
}

/// Loads a manifest; every variable must have a value. Declared variables without a value are generated if
/// there is a vars store.
///
/// The redactor knows all secrets afterwards, even after an error.
pub fn load(inputs: &Inputs, redactor: &Redactor) -> Result<LoadedManifest> {
    load_with_check(inputs, redactor, &|_| Ok(()))
}

/// Loads a manifest like [`load`]. `check` gets the declared variables before any value is generated. If it
/// fails, the load fails.
pub fn load_with_check(
    inputs: &Inputs,
    redactor: &Redactor,
    check: &dyn Fn(&[VariableValue]) -> Result<()>,
) -> Result<LoadedManifest> {
    let options = LoadOptions {
        requires_values: true,
        warns_of_unused: true,
        refuses_other_files: true,
        ..LoadOptions::default()
    };
    load_with_options_and_check(inputs, &options, redactor, check)
}

/// A check of the variables that are declared with a type.
type ValuesCheck<'a> = dyn Fn(&[VariableValue]) -> Result<()> + 'a;

/// Loads a manifest like [`load`], but with the options of the caller, such as those of `interpolate`.
pub fn load_with_options(
    inputs: &Inputs,
    options: &LoadOptions,
    redactor: &Redactor,
) -> Result<LoadedManifest> {
    load_with_options_and_check(inputs, options, redactor, &|_| Ok(()))
}

/// Loads and interpolates everything that the inputs name. Secrets are registered with the redactor before an
/// error is returned, because the error may contain them.
fn load_with_options_and_check(
    inputs: &Inputs,
    options: &LoadOptions,
    redactor: &Redactor,
    check: &ValuesCheck<'_>,
) -> Result<LoadedManifest> {
    // Arguments are checked before files are read and values are generated.
    let output_path = options.path.as_deref().map(|path| parse_path("--path", path)).transpose()?;
    exempt_paths(inputs, redactor);
    let now = OffsetDateTime::now_utc();
    let mut partial_inputs = PartialInputs::default();
    let outcome = partial_inputs.fill(inputs, options, now, check);
    let secret_warning = partial_inputs.register_secrets(redactor);
    outcome?;
    let declared_certificates = partial_inputs.collect_declared_certificates(now);
    let PartialInputs { given_values, store, definitions, mut root, cpi_config, cloud_config, .. } =
        partial_inputs;
    let PartialInputs {
        notes, values, generated_names, warnings, previous_mbus, replaced_references, ..
    } = partial_inputs;
    if let Some(path) = output_path {
        // The hint is about operations, which may create what does not exist.
        let value = ops::find(&root, &path).map_err(|error| PathError { hint: None, ..error });
        root = value?.into_owned();
    }
    let all_variables = || given_values.iter().chain(store.iter().flat_map(VarsStore::iter));
    let origin = |(name, _): (&str, &Node)| {
        Some((name.to_owned(), VariableOrigin::of(name, &given_values, store.as_ref(), &definitions)?))
    };
    let certificate = |(name, value): (&str, &Node)| {
        Some((name.to_owned(), value.get("certificate")?.as_str()?.to_owned()))
    };
    Ok(LoadedManifest {
        replaced_references,
        origins: all_variables().filter_map(origin).collect(),
        certificates_by_variable: all_variables().filter_map(certificate).collect(),
        root,
        cpi_config,
        cloud_config,
        redactor: redactor.clone(),
        notes,
        warnings: secret_warning
            .into_iter()
            .chain(warnings)
            .chain(expiry::warnings(all_variables(), now, EXPIRY_WARNING))
            .collect(),
        vars_store: store.as_ref().map(|store| store.path().to_owned()),
        encryption: inputs.encryption.clone(),
        values,
        generated_names,
        previous_mbus,
        declared_certificates,
        unsaved_store: store.filter(VarsStore::is_unsaved),
    })
}

/// Registers the secrets of readable inputs with the redactor, for commands that show the output of earlier
/// runs. Generates and writes nothing.
pub fn register_secrets(inputs: &Inputs, redactor: &Redactor) {
    exempt_paths(inputs, redactor);
    let mut partial_inputs = PartialInputs::default();
    // Loading reports errors in the inputs; here they are ignored.
    let _ = partial_inputs.given_values.fill(inputs);
    let _ = read_outline(inputs, &mut partial_inputs.root, &mut Vec::new());
    partial_inputs.urls = secrets::literal_urls(&partial_inputs.root);
    partial_inputs.definitions = Definitions::of(&partial_inputs.root).unwrap_or_default();
    partial_inputs.cpi_config =
        inputs.cpi_config.as_ref().and_then(|path| read_config(path, CPI_CONFIG_NAME).ok());
    let cloud_config =
        inputs.cloud_config.as_ref().and_then(|path| read_config(path, CLOUD_CONFIG_NAME).ok());
    partial_inputs.cloud_config = cloud_config.map(CloudConfig::with_all_entries);
    let path = inputs.vars_store.as_ref().or(inputs.default_vars_store.as_ref());
    partial_inputs.store = path.and_then(|path| VarsStore::open(path, &inputs.encryption).ok());
    partial_inputs.interpolate_known();
    partial_inputs.register_secrets(redactor);
}

/// The inputs read so far.
struct PartialInputs {
    given_values: GivenValues,
    definitions: Definitions,
    store: Option<VarsStore>,
    root: Node,
    /// Artifact URLs in the manifest that contain no variable.
    urls: Vec<String>,
    cpi_config: Option<Node>,
    cloud_config: Option<CloudConfig>,
    notes: Vec<String>,
    /// Warnings about the inputs themselves, such as those about variables on the command line that nothing
    /// uses. Those about values are added when everything is loaded.
    warnings: Vec<String>,
    values: Vec<VariableValue>,
    /// The names of the variables whose values were generated.
    generated_names: Vec<String>,
    previous_mbus: Vec<PreviousMbus>,
    /// The positions at which a reference was a whole value, each with the name of its variable.
    replaced_references: Vec<(Position, String)>,
}

impl Default for PartialInputs {
    fn default() -> Self {
        PartialInputs {
            given_values: GivenValues::default(),
            definitions: Definitions::default(),
            store: None,
            root: Data::Null.into(),
            urls: Vec::new(),
            cpi_config: None,
            cloud_config: None,
            notes: Vec::new(),
            warnings: Vec::new(),
            values: Vec::new(),
            generated_names: Vec::new(),
            previous_mbus: Vec::new(),
            replaced_references: Vec::new(),
        }
    }
}

impl PartialInputs {
    /// Reads all inputs, calls `check`, generates missing values, saves them in the vars store, and
    /// interpolates the manifest. After an error, `self` keeps the inputs that were read before the error.
    fn fill(
        &mut self,
        inputs: &Inputs,
        options: &LoadOptions,
        now: OffsetDateTime,
        check: &ValuesCheck<'_>,
    ) -> Result<()> {
        self.given_values.fill(inputs)?;
        let outline = read_outline(inputs, &mut self.root, &mut self.warnings);
        if options.refuses_other_files {
            // Ops files cannot be applied to a file of another kind. This error explains why their operations
            // fail, so it comes before `outline`.
            refuse_other_files(&self.root, &inputs.manifest)?;
        }
        outline?;
        self.urls = secrets::literal_urls(&self.root);
        self.definitions = Definitions::of(&self.root)?;
        self.warnings.extend(misspelt_type_warnings(&self.definitions));
        let mbus = MbusOutline::of(&self.root);
        self.store = match open_store(inputs, &self.given_values, &self.definitions) {
            Err(error) if inputs.lacks_vars_store_name() => {
                // The check may fail with a better error, which names the vars store.
                check(&values(&self.definitions, &self.given_values, None, &mbus))?;
                return Err(error);
            }
            result => result?,
        };
        let values_before = values(&self.definitions, &self.given_values, self.store.as_ref(), &mbus);
        check(&values_before)?;
        let new_store_path =
            self.store.as_ref().filter(|store| !store.exists()).map(|store| store.path().to_owned());

        // Values of variables, which interpolation inserts, may have parentheses.
        let open_reference_warnings = unclosed_warnings(&self.root);
        let mut resolver = Resolver::new(&self.given_values, &self.definitions, self.store.as_mut(), now);
        resolver.generate()?;
        resolver.remove_satisfied_definitions(&mut self.root)?;
        resolver.interpolate(&mut self.root)?;
        if let Some(path) = &inputs.cpi_config {
            let config = read_config(path, CPI_CONFIG_NAME)?;
            refuse_manifest(&config, path, "--cpi-config", CPI_CONFIG_NAME)
                .map_err(|error| error.with_hint("name the file that has `cpis` at its top level"))?;
            resolver.interpolate(self.cpi_config.insert(config))?;
        }
        if let Some(path) = &inputs.cloud_config {
            let config = read_config(path, CLOUD_CONFIG_NAME)?;
            // Other environments may use the parts that this one does not.
            resolver.mark_used(&config);
            refuse_manifest(&config, path, "--cloud-config", CLOUD_CONFIG_NAME).map_err(|error| {
                error.with_hint(
                    "save the cloud config of the director: `bosh cloud-config > cloud-config.yml`",
                )
            })?;
            let (config, notes) = CloudConfig::reduce(config, &self.root);
            self.notes.extend(notes);
            resolver.interpolate(&mut self.cloud_config.insert(config).node)?;
        }
        self.notes.extend(resolver.take_notes());
        self.replaced_references = resolver.take_replaced_references();
        let missing_error = resolver.missing_error(options.requires_values).map(|error| {
            if !options.requires_values {
                return error;
            }
            error
                .with_hints(hints_for_misspelt_sections(&self.root, &["variables"]))
                .with_hints(hints_for_missing(&resolver, inputs, &self.definitions))
        });
        let unused_error =
            options.requires_use.then(|| unused_error(&self.given_values, &resolver)).flatten();
        if options.warns_of_unused {
            self.warnings.extend(unused_warnings(inputs, &resolver));
            self.warnings.extend(manifest_as_variables_warnings(inputs, &self.given_values, &resolver));
            self.warnings.extend(prefix_warnings(inputs));
        }
        if options.requires_values {
            self.warnings.extend(open_reference_warnings);
        }
        match (missing_error, unused_error) {
            (None, None) => {}
            (Some(error), None) | (None, Some(error)) => return Err(error),
            (Some(missing_error), Some(unused_error)) => {
                return Err(
                    Error::invalid(format!("{missing_error}\n{unused_error}")).with_advice_of(&missing_error)
                );
            }
        }
        self.previous_mbus = mbus.previous(&self.given_values, &self.definitions, self.store.as_mut(), now);
        self.values = values(&self.definitions, &self.given_values, self.store.as_ref(), &mbus);
        let is_new = |(value_after, value_before): &(&VariableValue, &VariableValue)| {
            value_after.value != value_before.value
        };
        let new_values = self.values.iter().zip(&values_before).filter(is_new);
        self.generated_names = new_values.map(|(value_after, _)| value_after.name.clone()).collect();
        if let Some(path) = new_store_path.filter(|path| path.exists()) {
            self.notes.push(new_store_note(&path));
        }
        Ok(())
    }

    /// Replaces the references that have a value, because the path of a value in the manifest can decide
    /// whether it is secret.
    fn interpolate_known(&mut self) {
        let now = OffsetDateTime::UNIX_EPOCH;
        let resolver = Resolver::new(&self.given_values, &self.definitions, self.store.as_mut(), now);
        let mut resolver = resolver.read_only();
        let cloud_config = self.cloud_config.iter_mut().map(|config| &mut config.node);
        for root in [&mut self.root].into_iter().chain(&mut self.cpi_config).chain(cloud_config) {
            // After an error, the other references stay as they are.
            let _ = resolver.interpolate(root);
        }
    }

    /// Collects the options that variables declare for certificates, with the values of the variables in
    /// these options. Variables of other types have entries without effect.
    fn collect_declared_certificates(
        &mut self,
        now: OffsetDateTime,
    ) -> BTreeMap<String, DeclaredCertificate> {
        let resolver = Resolver::new(&self.given_values, &self.definitions, self.store.as_mut(), now);
        let mut resolver = resolver.read_only();
        let mut declared_certificates = BTreeMap::new();
        for definition in self.definitions.iter() {
            let Some(mut options) = definition.options.clone() else { continue };
            // Loading has reported the variables without a value.
            let _ = resolver.interpolate(&mut options);
            let names = options.get(ALTERNATIVE_NAMES).and_then(Node::as_seq).unwrap_or_default();
            let options = DeclaredCertificate {
                alternative_names: names.iter().filter_map(Node::as_str).map(str::to_owned).collect(),
                is_ca: options.get(IS_CA).and_then(Node::as_bool).unwrap_or_default(),
            };
            declared_certificates.insert(definition.name.clone(), options);
        }
        declared_certificates
    }

    /// Registers the secrets of the inputs read so far with the redactor. Returns a warning if one is public.
    fn register_secrets(&self, redactor: &Redactor) -> Option<String> {
        let passwords =
            self.definitions.iter().filter(|definition| definition.kind.as_deref() == Some("password"));
        let cloud_config = self.cloud_config.iter().map(|config| &config.node);
        let configs = self.cpi_config.iter().chain(cloud_config);
        let variables = self.given_values.iter().chain(self.store.iter().flat_map(VarsStore::iter));
        let previous =
            self.store.as_ref().and_then(VarsStore::previous).into_iter().chain(self.given_values.previous());
        let known_inputs = KnownInputs {
            documents: configs.chain([&self.root]).collect(),
            variables: variables.chain(previous.map(|list| (previous::PREVIOUS_KEY, list))).collect(),
            outputs: self.given_values.outputs(),
            password_variables: passwords.map(|password| password.name.as_str()).collect(),
            urls: &self.urls,
        };
        secrets::register_secrets(&known_inputs, redactor)
    }
}

/// Returns the warnings for types of variables that are misspelt. A variable with a value has no other use of
/// its type, so that the mistake would be an error only once a value is needed.
fn misspelt_type_warnings(definitions: &Definitions) -> impl Iterator<Item = String> {
    let warning = |definition: &Definition| {
        let kind = definition.kind.as_deref().filter(|kind| !VARIABLE_TYPES.contains(kind))?;
        let name = &definition.name;
        // Other types have values that are given.
        nearest(kind, VARIABLE_TYPES).map(|suggestion| {
            format!(
                "{}: there is no variable type '{kind}' for '{name}'; {}",
                definition.position.describe(),
                did_you_mean_question(suggestion)
            )
        })
    };
    definitions.iter().filter_map(warning)
}

/// Fails if the document of an option is a manifest.
fn refuse_manifest(document: &Node, path: &Path, option: &str, kind: &str) -> Result<()> {
    if !has_manifest_section(document) {
        return Ok(());
    }
    Err(Error::invalid(format!("'{}' ({option}) is a manifest, not a {kind}", path.display())))
}

/// Exempts paths that the operator named from redaction.
fn exempt_paths(inputs: &Inputs, redactor: &Redactor) {
    let exempt = |path: &Path| redactor.exempt_path(path);
    let Inputs { manifest, ops_files, vars_files, env_file_variables, .. } = inputs;
    let path_lists = [ops_files, vars_files, &env_file_variables.vars_files];
    path_lists.into_iter().flatten().chain([manifest]).for_each(|path| exempt(path));
    let optional_paths =
        [&inputs.cpi_config, &inputs.cloud_config, &inputs.vars_store, &inputs.default_vars_store];
    optional_paths.into_iter().flatten().for_each(|path| exempt(path));
    env_file_variables.var_files.iter().for_each(|(_, path)| exempt(path));
    inputs
        .var_files
        .iter()
        .filter_map(|pair| pair.split_once('='))
        .for_each(|(_, path)| exempt(Path::new(path)));
}

/// Reads the certificates of a manifest and its vars store, in order of expiry.
pub fn certificate_expiries(manifest: &LoadedManifest) -> Vec<expiry::CertificateExpiry> {
    let store =
        manifest.vars_store.as_ref().and_then(|path| VarsStore::open(path, &manifest.encryption).ok());
    let Data::Map(map) = &manifest.root.data else { return Vec::new() };
    let manifest_values = map.iter().filter_map(|(key, value)| Some((key.as_str()?, value)));
    expiry::certificates(manifest_values.chain(store.iter().flat_map(VarsStore::iter)))
}

/// Formats a value as YAML. A string is printed plain, because a key or certificate must not be a YAML block.
pub(super) fn format_value(value: &Node) -> String {
    match value.as_str() {
        Some(text) => format!("{text}\n"),
        None => yaml::emit(value),
    }
}

/// Parses a path in the language of ops files. `argument` names it in errors.
pub(super) fn parse_path(argument: &str, text: &str) -> Result<ops::Path> {
    text.parse::<ops::Path>().map_err(|error| {
        let has_slash = !matches!(error, ops::ParseError::NoSlash);
        let error = Error::usage(format!("{argument} '{text}' is not a path")).with_source(error);
        let path = format!("/{text}");
        match has_slash {
            true => error,
            false => {
                error.with_hint(format!("add it: `monopile SAME-COMMAND {argument} {}`", shell_word(&path)))
            }
        }
    })
}

/// Loads the declarations of manifests, for commands that inspect a vars store.
pub(super) fn load_declarations(manifests: &[Inputs]) -> Result<Declarations> {
    let mut declarations = Declarations::default();
    for inputs in manifests {
        declarations.given_values = GivenValues::read(inputs)?;
        declarations.manifests.push(Definitions::of(&load_outline(inputs)?)?);
    }
    Ok(declarations)
}

/// The name of the CPI config in errors.
const CPI_CONFIG_NAME: &str = "CPI config";
/// The name of the cloud config in errors.
const CLOUD_CONFIG_NAME: &str = "cloud config";

fn read_config(path: &Path, kind: &str) -> Result<Node> {
    let config = yaml::load(&files::read_text(path, kind)?, files::source_path(path))?;
    match config.as_map() {
        Some(_) => Ok(config),
        None => Err(Error::invalid(format!(
            "{}: a {kind} must be a mapping, not {}",
            config.position.describe(),
            kind_with_article(&config)
        ))),
    }
}

/// Reads the manifest and applies its ops files, without interpolation.
pub fn load_outline(inputs: &Inputs) -> Result<Node> {
    let mut root = Data::Null.into();
    read_outline(inputs, &mut root, &mut Vec::new())?;
    Ok(root)
}

/// Reads the name of the environment, if the manifest can be read and its name has no variable.
pub fn read_environment_name(inputs: &Inputs) -> Option<String> {
    let root = load_outline(inputs).ok()?;
    let name = root.get("name")?.as_str()?;
    (!name.contains("((")).then(|| name.to_owned())
}

/// Loads the manifest and returns the `static_ips` of the instance group. Returns none if it cannot be
/// loaded.
pub fn read_static_addresses(inputs: &Inputs, redactor: &Redactor) -> Vec<String> {
    let inputs = Inputs { save_policy: SavePolicy::Never, ..inputs.clone() };
    let options =
        LoadOptions { path: Some("/instance_groups/0/networks".to_owned()), ..LoadOptions::default() };
    let Ok(manifest) = load_with_options(&inputs, &options, redactor) else { return Vec::new() };
    let networks = manifest.root.as_seq().unwrap_or_default().iter();
    let lists = networks.filter_map(|network| network.get("static_ips")?.as_seq());
    lists.flatten().filter_map(|address| address.as_str().map(str::to_owned)).collect()
}

/// Does the work of [`load_outline`]. After an error, `root` holds the partial result. Adds the warnings of
/// the ops files to `warnings`.
fn read_outline(inputs: &Inputs, root: &mut Node, warnings: &mut Vec<String>) -> Result<()> {
    let manifest = files::read_decrypted(&inputs.manifest, "manifest", &inputs.encryption)?;
    // Files are read in order, because one of them may be standard input.
    let texts: Vec<_> =
        inputs.ops_files.iter().map(|path| (path, files::read_text(path, "ops file"))).collect();
    *root = yaml::load(&manifest, files::source_path(&inputs.manifest))?;
    drop(manifest);
    // Parsed operations take ten times the memory of their text, so each file is applied before the next one
    // is parsed.
    let mut lookup = ItemLookup::default();
    texts.into_iter().try_for_each(|(path, text)| {
        let ops = Ops::load(&text?, files::source_path(path))?;
        warnings.extend_from_slice(ops.warnings());
        ops.apply_to(root, &mut lookup)
    })
}

/// Returns the hints for variables without a value: the files beside the manifest that have them, or else the
/// arguments of an earlier run, and the options that give values.
fn hints_for_missing(resolver: &Resolver<'_>, inputs: &Inputs, definitions: &Definitions) -> Vec<String> {
    const SAME_VARIABLES_HINT: &str = "pass the same variables as for the last create-env: `monopile \
                                       SAME-COMMAND --vars-file FILE`, or with --var, --vars-store and so on";
    let names = resolver.names_to_give();
    if names.is_empty() {
        return Vec::new();
    }
    let all_near = names.iter().all(|name| resolver.similar_variable(name).is_some());
    let general_hints = give_values_hints(&names, definitions);
    let (hint, remaining_names) = hint_for_files(&names, inputs, definitions);
    let mut hints = Vec::from_iter(hint);
    match (hints.as_slice(), remaining_names.as_slice()) {
        ([], _) if inputs.is_deployed => {
            hints.push(match all_near {
                true => format!("if the name is right, {SAME_VARIABLES_HINT}"),
                false => SAME_VARIABLES_HINT.to_owned(),
            });
            hints.extend(general_hints.into_iter().map(|hint| format!("for a new variable, {hint}")));
        }
        // The error names the variable that was probably meant.
        ([], _) if all_near => {}
        ([], _) => hints.extend(general_hints),
        (_, []) => {}
        (_, remaining_names) => hints.extend(give_values_hints(remaining_names, definitions)),
    }
    hints
}

/// Parts of the names of certificates, whose values do not belong on the command line, as those of secrets.
const CERTIFICATE_NAME_PARTS: [&str; 4] = ["cert", "ssl", "tls", "_ca"];

/// Returns the hints that say how to give values to these variables.
fn give_values_hints(names: &[&str], definitions: &Definitions) -> Vec<String> {
    const MAX_OPTIONS: usize = 3;
    let (generated_names, given_names): (Vec<&str>, Vec<&str>) = names
        .iter()
        .partition(|name| definitions.get(name).is_some_and(|definition| definition.kind.is_some()));
    let (mut values, pronoun) =
        if given_names.len() == 1 { ("a value".to_owned(), "it") } else { ("values".to_owned(), "them") };
    let mut hints = Vec::new();
    if !generated_names.is_empty() {
        let mut purpose = String::new();
        if !given_names.is_empty() {
            purpose = format!("for {}, ", comma_list(&generated_names));
            values.push_str(&format!(" for {}", comma_list(&given_names)));
        }
        hints.push(format!(
            "{purpose}give the vars store, which keeps generated values: `monopile SAME-COMMAND --vars-store \
             FILE`"
        ));
    }
    if given_names.is_empty() {
        return hints;
    }
    let may_be_generated = |name: &&str| {
        NameClass::of(name) > NameClass::Plain
            || CERTIFICATE_NAME_PARTS.iter().any(|part| name.to_lowercase().contains(part))
    };
    if generated_names.is_empty() && given_names.iter().any(may_be_generated) {
        hints.push(format!(
            "if an earlier deploy generated {pronoun}, pass its vars store: `monopile SAME-COMMAND \
             --vars-store FILE`"
        ));
        hints.push(format!("otherwise give {values} in a file: `monopile SAME-COMMAND --vars-file FILE`"));
    } else {
        let options = match given_names.len() <= MAX_OPTIONS {
            true => given_names.iter().map(|name| format!(" --var {name}=VALUE")).collect(),
            false => " --vars-file FILE".to_owned(),
        };
        hints.push(format!("give {values}: `monopile SAME-COMMAND{options}`"));
    }
    hints.push(format!("to have create-env generate {values}, declare a type under `variables:`"));
    hints
}

/// Returns the hint for the files beside the manifest that have values of these variables, if there are any,
/// and the variables that none of them has.
fn hint_for_files<'n>(
    missing: &[&'n str],
    inputs: &Inputs,
    definitions: &Definitions,
) -> (Option<String>, Vec<&'n str>) {
    let other_paths = ["creds.yml", "vars.yml"].map(|name| inputs.manifest.with_file_name(name));
    let (mut descriptions, mut options) = (Vec::new(), Vec::new());
    let (mut missing_names, mut has_store) = (missing.to_vec(), false);
    for path in std::iter::once(default_store_path(&inputs.manifest)).chain(other_paths) {
        let Ok(store) = VarsStore::open(&path, &inputs.encryption) else { continue };
        let (names, remaining_names): (Vec<&str>, Vec<&str>) =
            missing_names.iter().copied().partition(|name| store.get(name).is_some());
        if names.is_empty() {
            continue;
        }
        let is_generated =
            |name: &&str| definitions.get(name).is_some_and(|definition| definition.kind.is_some());
        // A run has one vars store at most.
        let (content, option) = match !has_store && names.iter().all(is_generated) {
            true => ("vars store", "--vars-store"),
            false => ("variables", "--vars-file"),
        };
        has_store |= option == "--vars-store";
        descriptions.push(format!("the {content} beside the manifest ({})", comma_list(&names)));
        options.push(format!("{option} {}", shell_word(&path.to_string_lossy())));
        missing_names = remaining_names;
    }
    let hint =
        (!options.is_empty()).then(|| pass_options_hint(&descriptions.join(" and "), &options.join(" ")));
    (hint, missing_names)
}

/// Formats the hint for a file with variables that the operator left out.
pub fn pass_file_hint(description: &str, option: &str, path: &str) -> String {
    pass_options_hint(description, &format!("{option} {}", shell_word(path)))
}

fn pass_options_hint(description: &str, options: &str) -> String {
    format!("pass {description}: `monopile SAME-COMMAND {options}`")
}

/// Opens the named vars store, or the default one if a declared variable has to be generated.
fn open_store(
    inputs: &Inputs,
    given_values: &GivenValues,
    definitions: &Definitions,
) -> Result<Option<VarsStore>> {
    let open = |path: &PathBuf| {
        let store = VarsStore::open(path, &inputs.encryption)?;
        let option = if inputs.vars_store.is_some() { " (--vars-store)" } else { "" };
        store.check_is_vars_store(option).map_err(|error| {
            let default_path = default_store_path(&inputs.manifest);
            let name = default_path.to_string_lossy();
            error.with_note("nothing was changed").with_hint(match default_path.exists() {
                // A new file would get new credentials.
                true if default_path != *path => {
                    pass_file_hint("the vars store beside the manifest", "--vars-store", &name)
                }
                true => "name a new file: `monopile SAME-COMMAND --vars-store creds.yml`".to_owned(),
                false => {
                    format!("name a new file: `monopile SAME-COMMAND --vars-store {}`", shell_word(&name))
                }
            })
        })?;
        Ok(Some(match inputs.save_policy {
            SavePolicy::AtOnce => store.reencrypt()?,
            SavePolicy::ByCaller => store.reencrypt()?.detach(inputs.save_policy),
            SavePolicy::Never => store.detach(inputs.save_policy),
        }))
    };
    if let Some(path) = &inputs.vars_store {
        return open(path);
    }
    let must_generate = || {
        definitions
            .iter()
            .any(|definition| definition.kind.is_some() && given_values.get(&definition.name).is_none())
    };
    match &inputs.default_vars_store {
        Some(path) if must_generate() => open(path),
        None if inputs.lacks_vars_store_name() && must_generate() => Err(Error::invalid(
            "the manifest declares variables to generate, but no vars store is given to keep them",
        )
        .with_hint(
            "name a file that all machines that share the state have: `monopile SAME-COMMAND --vars-store \
             FILE`",
        )),
        _ => Ok(None),
    }
}

fn unused_error(given_values: &GivenValues, resolver: &Resolver<'_>) -> Option<Error> {
    let mut names: Vec<&str> = given_values
        .iter()
        .map(|(name, _)| name)
        .chain(resolver.stored_names())
        .filter(|name| !resolver.is_used(name))
        .collect();
    names.sort_unstable();
    names.dedup();
    match names.as_slice() {
        [] => None,
        [name] => Some(
            Error::invalid(format!("a variable is given but not used: {name}"))
                .with_hint("correct its name, or do not give it"),
        ),
        names => Some(
            Error::invalid(format!("{} variables are given but not used: {}", names.len(), names.join(", ")))
                .with_hint("correct their names, or do not give them"),
        ),
    }
}

/// Returns a warning for each reference without its closing parentheses, which stays text.
fn unclosed_warnings(root: &Node) -> Vec<String> {
    let references = unclosed_references(root).into_iter();
    references
        .map(|(text, position)| {
            let place = position.describe();
            format!("{place}: '{text}' is not closed, so it is no variable: write '{text}))'")
        })
        .collect()
}

/// Returns a warning for each `--vars-file` that is a manifest.
fn manifest_as_variables_warnings(
    inputs: &Inputs,
    given_values: &GivenValues,
    resolver: &Resolver<'_>,
) -> Vec<String> {
    let sections = MANIFEST_SECTIONS.iter().filter(|section| !resolver.is_used(section));
    let positions = sections.filter_map(|section| Some(&given_values.get(section)?.position));
    let paths: BTreeSet<&PathBuf> = positions.filter_map(|position| position.source.as_deref()).collect();
    let is_vars_file = |path: &&PathBuf| inputs.vars_files.contains(path);
    let vars_files = paths.into_iter().filter(is_vars_file);
    vars_files
        .map(|path| format!("'{}' (--vars-file) is a manifest, not a file with variables", path.display()))
        .collect()
}

/// Returns a warning for each `--var` and `--var-file` that nothing uses, because its name is probably
/// misspelt. Files, programs and the environment may have variables of other manifests.
fn unused_warnings(inputs: &Inputs, resolver: &Resolver<'_>) -> Vec<String> {
    let with_option =
        |option: &'static str| move |pair: &String| Some((option, pair.split_once('=')?.0.to_owned()));
    let pairs = inputs.vars.iter().filter_map(with_option("--var"));
    let pairs = pairs.chain(inputs.var_files.iter().filter_map(with_option("--var-file")));
    // A name with dots sets a part of a variable.
    let variable = |name: &str| name.split('.').next().unwrap_or(name).to_owned();
    pairs
        .map(|(option, name)| (option, variable(&name)))
        .filter(|(_, name)| !resolver.is_used(name))
        .map(|(option, name)| {
            let hint = did_you_mean(&name, resolver.used_names());
            format!("variable '{name}' ({option}) is not used: the manifest has no (({name})){hint}")
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns inputs with a manifest, an optional ops file and variables.
    fn inputs(directory: &Path, manifest: &str, ops: Option<&str>, vars: &[&str]) -> Inputs {
        std::fs::write(directory.join("m.yml"), manifest).unwrap();
        let ops = ops.map(|text| {
            std::fs::write(directory.join("ops.yml"), text).unwrap();
            directory.join("ops.yml")
        });
        Inputs {
            manifest: directory.join("m.yml"),
            ops_files: ops.into_iter().collect(),
            vars: vars.iter().map(ToString::to_string).collect(),
            vars_store: Some(directory.join("vars.yml")),
            ..Inputs::default()
        }
    }

    #[test]
    fn secrets_are_registered_even_if_loading_fails() {
        let directory = tempfile::tempdir().unwrap();
        let manifest = "name: env\nhost_password: in-the-manifest\nx: ((given)) ((absent))\n";
        let missing_path = "- {type: replace, path: /no/where, value: 1}\n";
        for (ops, vars) in [
            (None, &["given=a-secret-value"][..]),
            (Some(missing_path), &["given=a-secret-value"]),
            (Some("- [\n"), &["given=a-secret-value"]),
            (None, &["given=a-secret-value", "given.part=1"]),
        ] {
            let redactor = Redactor::default();
            let inputs = inputs(directory.path(), manifest, ops, vars);
            let error = load(&inputs, &redactor).unwrap_err();
            let text = redactor.redact("a-secret-value in-the-manifest").into_owned();
            let manifest_is_read = !text.contains("in-the-manifest") || vars.len() > 1;
            assert!(!text.contains("a-secret-value") && manifest_is_read, "{error}: {text}");
        }
    }

    #[test]
    fn generated_values_are_secret_and_paths_are_not() {
        let directory = tempfile::tempdir().unwrap();
        let manifest =
            "name: env\nx: ((pin))\nvariables:\n- {name: pin, type: password, options: {length: 6}}\n";
        let inputs = inputs(directory.path(), manifest, None, &["v=vars.yml and so on", "w=m.yml"]);
        let redactor = Redactor::default();
        let manifest = load(&inputs, &redactor).unwrap();
        let pin = manifest.root.get("x").and_then(Node::as_str).unwrap().to_owned();
        assert_eq!(redactor.redact(&format!("the pin is {pin}!")), "the pin is <redacted>!");
        let path = inputs.manifest.display().to_string();
        assert_eq!(redactor.redact(&path), path);
        // `register_secrets` redacts the same texts without loading the manifest.
        let other = Redactor::default();
        register_secrets(&inputs, &other);
        assert_eq!(other.redact(&format!("{path}: {pin}")), format!("{path}: <redacted>"));
    }

    #[test]
    fn command_that_only_reads_does_not_claim_to_generate() {
        let directory = tempfile::tempdir().unwrap();
        let load_with_length = |length: u8, save_policy: SavePolicy| {
            let manifest = format!(
                "name: env\nvariables:\n- {{name: pin, type: password, update_mode: converge, options: \
                 {{length: {length}}}}}\n"
            );
            let inputs = Inputs { save_policy, ..inputs(directory.path(), &manifest, None, &[]) };
            load(&inputs, &Redactor::default()).unwrap().notes
        };
        let read_store = || std::fs::read(directory.path().join("vars.yml")).unwrap();
        load_with_length(6, SavePolicy::AtOnce);
        let stored_text_before = read_store();
        let notes = load_with_length(8, SavePolicy::Never);
        assert_eq!(notes, ["create-env generates variable 'pin' again: its length is not 8"]);
        assert_eq!(read_store(), stored_text_before);
        let notes = load_with_length(8, SavePolicy::AtOnce);
        assert_eq!(notes, ["variable 'pin' is generated again: its length is not 8"]);
        assert_ne!(read_store(), stored_text_before);
    }

    #[test]
    fn register_secrets_finds_the_same_values_as_loading() {
        let directory = tempfile::tempdir().unwrap();
        let manifest = "name: env\nx: {mode: ((mode)), password: ((pin)), absent: ((absent))}\n\
                        cloud_provider: {mbus: 'https://mbus:((word))@10.0.0.6:6868'}\n";
        let vars = ["mode=quick", "pin=hush!", "word=p@ss"];
        let redactor = Redactor::default();
        register_secrets(&inputs(directory.path(), manifest, None, &vars), &redactor);
        assert_eq!(
            redactor.redact("-v mode=quick -v pin=hush! https://mbus:p%40ss@10.0.0.6 by mbus"),
            "-v mode=quick -v pin=<redacted> https://<redacted>@10.0.0.6 by mbus"
        );
    }
}

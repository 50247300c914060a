//! The RPC: one request in, one answer out, whatever the request is.

use std::io::{Read, Write};
use std::path::Path;

use serde::Deserialize;
use serde_json::{Value, json};

use super::args::{Arguments, Hash, type_name};
use super::cid::Resource;
use super::config::{Config, stemcell_formats};
use super::failure::{Failure, Kind, Outcome};
use super::store::Store;
use super::{disk, snapshot, stemcell, vm};
use crate::{Error, Result};

/// The highest contract spoken.
const API_VERSION: u64 = 2;
/// No request of a caller in its right mind is larger.
const REQUEST_LIMIT: u64 = 16 << 20;

/// What was asked.
#[derive(Deserialize)]
pub struct Request {
    pub method: String,
    #[serde(default)]
    arguments: Value,
    #[serde(default)]
    context: Value,
    #[serde(default)]
    api_version: Value,
}

impl Request {
    /// Its arguments and its context, and whether contract 2 is in force.
    pub fn parts(self) -> Outcome<(Vec<Value>, Hash, bool)> {
        let context = match self.context {
            Value::Object(context) => context,
            Value::Null => Hash::new(),
            other => {
                return Err(Failure::call(format!("'context' must be a hash, {} given", type_name(&other))));
            }
        };
        let arguments = match self.arguments {
            Value::Array(arguments) => arguments,
            Value::Null => Vec::new(),
            other => {
                return Err(Failure::call(format!(
                    "'arguments' must be an array, {} given",
                    type_name(&other)
                )));
            }
        };
        let v2 = is_v2(&self.api_version, &context)?;
        Ok((arguments, context, v2))
    }
}

/// What every method may use.
pub struct Call<'a, 'l> {
    pub executable: &'a Path,
    pub config: Config,
    /// True when the caller speaks contract 2 and the stemcell, where named, is of version 2 or later.
    pub v2: bool,
    log: &'a mut Log<'l>,
}

impl Call<'_, '_> {
    /// Says what was done, on stderr and in the answer. Secrets have no place here.
    pub fn log(&mut self, line: impl std::fmt::Display) {
        self.log.line(line);
    }
}

/// What is said while a request is carried out.
pub struct Log<'a> {
    stderr: &'a mut dyn Write,
    text: String,
}

impl Log<'_> {
    /// Says a line, on stderr and in the answer. Secrets have no place here.
    pub fn line(&mut self, line: impl std::fmt::Display) {
        let line = format!("{line}\n");
        // A caller that closed stderr still gets its answer.
        let _ = self.stderr.write_all(line.as_bytes());
        self.text.push_str(&line);
    }
}

/// Reads a request, carries it out, writes the answer.
pub fn serve(
    config: &Path,
    executable: &Path,
    request: impl Read,
    response: impl Write,
    log: impl Write,
) -> Result<()> {
    exchange(request, response, log, |request, log| answer(config, executable, request, log))
}

/// The same for any CPI: `answer` carries the request out.
pub fn exchange(
    request: impl Read,
    mut response: impl Write,
    mut log: impl Write,
    answer: impl FnOnce(Request, &mut Log) -> Outcome<Value>,
) -> Result<()> {
    let mut log = Log { stderr: &mut log, text: String::new() };
    let outcome = read(request).and_then(|request| answer(request, &mut log));
    let answer = match outcome {
        Ok(result) => json!({"result": result, "error": null, "log": log.text}),
        Err(failure) => {
            log.line(format_args!("{}: {failure}", failure.kind.name()));
            let error = json!({
                "type": failure.kind.name(),
                "message": failure.message,
                "ok_to_retry": failure.ok_to_retry,
            });
            json!({"result": null, "error": error, "log": log.text})
        }
    };
    let text = format!("{answer}\n");
    response
        .write_all(text.as_bytes())
        .and_then(|()| response.flush())
        .map_err(|error| Error::io("writing the CPI's answer", error))
}

fn read(request: impl Read) -> Outcome<Request> {
    let mut text = Vec::new();
    request
        .take(REQUEST_LIMIT + 1)
        .read_to_end(&mut text)
        .map_err(|error| Failure::call(format!("the request cannot be read: {error}")))?;
    if text.len() as u64 > REQUEST_LIMIT {
        return Err(Failure::call(format!("the request is larger than {} MiB", REQUEST_LIMIT >> 20)));
    }
    let value: Value = serde_json::from_slice(&text)
        .map_err(|error| Failure::call(format!("the request is not one JSON document: {error}")))?;
    if !value.is_object() {
        return Err(Failure::call(format!("the request must be a hash, {} given", type_name(&value))));
    }
    serde_json::from_value(value).map_err(|_| Failure::call("the request must have 'method', a string"))
}

fn answer(config: &Path, executable: &Path, request: Request, log: &mut Log) -> Outcome<Value> {
    let method = request.method.clone();
    let (arguments, context, v2) = request.parts()?;
    let method = method.as_str();
    let take = |least, most| Arguments::new(method, arguments, least, most);
    // Neither needs a whole configuration: `info` is asked before anything is known.
    match method {
        "info" => {
            take(0, 0)?;
            let formats = stemcell_formats(config, &context)?;
            return Ok(json!({"stemcell_formats": formats, "api_version": API_VERSION}));
        }
        "calculate_vm_cloud_properties" => return vm::size(take(1, 1)?.hash("desired_instance_size")?),
        _ => {}
    }

    let mut call = Call { executable, config: Config::load(config, &context)?, v2, log };
    let call = &mut call;
    match method {
        "create_stemcell" => {
            let mut arguments = take(2, 2)?;
            let (image, properties) = (arguments.string("image_path")?, arguments.hash("cloud_properties")?);
            making(call, |call, store| stemcell::create(call, store, Path::new(&image), properties))
        }
        "delete_stemcell" => {
            let cid = take(1, 1)?.own_cid(Resource::Stemcell)?;
            unmaking(call, |call, store| stemcell::delete(call, store, &cid))
        }
        "create_vm" => {
            let mut arguments = take(5, 6)?;
            let wanted = vm::Wanted {
                agent_id: arguments.string("agent_id")?,
                stemcell: arguments.own_cid(Resource::Stemcell)?,
                cloud_properties: arguments.hash("cloud_properties")?,
                networks: arguments.hash("networks")?,
                disk_cids: arguments.strings("disk_cids")?,
                env: arguments.hash("environment")?,
            };
            making(call, |call, store| vm::create(call, store, wanted))
        }
        "delete_vm" => {
            let cid = take(1, 1)?.own_cid(Resource::Vm)?;
            unmaking(call, |call, store| vm::delete(call, store, &cid))
        }
        "has_vm" => has(call, take(1, 1)?, Resource::Vm),
        "reboot_vm" => {
            let cid = take(1, 1)?.own_cid(Resource::Vm)?;
            let store = existing(call)?.ok_or_else(|| cid.not_found())?;
            vm::reboot(call, &store, &cid)
        }
        "set_vm_metadata" => {
            let mut arguments = take(2, 2)?;
            let (cid, metadata) = (arguments.own_cid(Resource::Vm)?, arguments.hash("metadata")?);
            vm::set_metadata(&existing(call)?.ok_or_else(|| cid.not_found())?, &cid, metadata)
        }
        "create_disk" => {
            let mut arguments = take(2, 3)?;
            let (size, properties) = (arguments.size("size")?, arguments.hash("cloud_properties")?);
            making(call, |call, store| disk::create(call, store, size, properties))
        }
        "delete_disk" => {
            let cid = take(1, 1)?.own_cid(Resource::Disk)?;
            unmaking(call, |call, store| disk::delete(call, store, &cid))
        }
        "resize_disk" => {
            let mut arguments = take(2, 2)?;
            let (cid, size) = (arguments.own_cid(Resource::Disk)?, arguments.size("new_size")?);
            disk::resize(&existing(call)?.ok_or_else(|| cid.not_found())?, &cid, size)
        }
        "has_disk" => has(call, take(1, 1)?, Resource::Disk),
        "attach_disk" | "detach_disk" => {
            let mut arguments = take(2, 2)?;
            let (vm, disk) = (arguments.own_cid(Resource::Vm)?, arguments.own_cid(Resource::Disk)?);
            let store = existing(call)?.ok_or_else(|| vm.not_found())?;
            match method {
                "attach_disk" => disk::attach(call, &store, &vm, &disk),
                _ => disk::detach(call, &store, &vm, &disk),
            }
        }
        "set_disk_metadata" => {
            let mut arguments = take(2, 2)?;
            let (cid, metadata) = (arguments.own_cid(Resource::Disk)?, arguments.hash("metadata")?);
            disk::set_metadata(&existing(call)?.ok_or_else(|| cid.not_found())?, &cid, metadata)
        }
        "get_disks" => {
            let cid = take(1, 1)?.own_cid(Resource::Vm)?;
            vm::disks(&existing(call)?.ok_or_else(|| cid.not_found())?, &cid)
        }
        "snapshot_disk" => {
            let mut arguments = take(1, 2)?;
            let cid = arguments.own_cid(Resource::Disk)?;
            let metadata = arguments.hash("metadata")?;
            let store = existing(call)?.ok_or_else(|| cid.not_found())?;
            snapshot::create(call, &store, &cid, metadata)
        }
        "delete_snapshot" => {
            let cid = take(1, 1)?.own_cid(Resource::Snapshot)?;
            unmaking(call, |call, store| snapshot::delete(call, store, &cid))
        }
        // The v1 page says what to answer: the caller then makes a new VM.
        "configure_networks" => {
            Err(Failure::new(Kind::NotSupported, "the networks of a VM of the 'local' CPI cannot be changed"))
        }
        _ => Err(Failure::new(
            Kind::NotImplemented,
            format!("the 'local' CPI has no method '{}'", method.escape_debug()),
        )),
    }
}

/// Contract 2 is in force when both sides speak it; a request that names no stemcell leaves it to the caller.
fn is_v2(requested: &Value, context: &Hash) -> Outcome<bool> {
    let version = |value: &Value, what: &str| match value {
        Value::Null => Ok(None),
        value => value.as_u64().map(Some).ok_or_else(|| {
            Failure::call(format!("{what} must be a whole number, {} given", type_name(value)))
        }),
    };
    let requested = version(requested, "'api_version'")?.unwrap_or(1);
    if !(1..=API_VERSION).contains(&requested) {
        return Err(Failure::call(format!(
            "api_version {requested} is not spoken here, 1 to {API_VERSION} are"
        )));
    }
    let stemcell =
        context.get("vm").and_then(|vm| vm.pointer("/stemcell/api_version")).unwrap_or(&Value::Null);
    let stemcell = version(stemcell, "the context's vm.stemcell.api_version")?;
    Ok(requested >= 2 && stemcell.is_none_or(|version| version >= 2))
}

/// Makes something in the cloud, which is made when there is none, without the leftovers of killed calls. Where
/// nothing comes of it, no empty cloud stays either.
fn making(call: &mut Call, create: impl FnOnce(&mut Call, &Store) -> Outcome<Value>) -> Outcome<Value> {
    let store = Store::make(&call.config.root)?;
    sweep(call, &store)?;
    let made = create(call, &store);
    if made.is_err() {
        store.tidy();
    }
    made
}

/// The cloud, where there is one, without the leftovers of killed calls.
fn existing(call: &mut Call) -> Outcome<Option<Store>> {
    let store = Store::open(&call.config.root)?;
    if let Some(store) = &store {
        sweep(call, store)?;
    }
    Ok(store)
}

fn sweep(call: &mut Call, store: &Store) -> Outcome<()> {
    match store.sweep()? {
        0 => {}
        swept => call.log(format_args!("removed {swept} leftovers of calls that were killed")),
    }
    Ok(())
}

/// Runs a deletion, and leaves nothing of a cloud that is empty afterwards.
fn unmaking(call: &mut Call, delete: impl FnOnce(&mut Call, &Store) -> Outcome<()>) -> Outcome<Value> {
    let Some(store) = existing(call)? else {
        call.log("there is no cloud: nothing to delete");
        return Ok(Value::Null);
    };
    delete(call, &store)?;
    store.tidy();
    Ok(Value::Null)
}

fn has(call: &Call, mut arguments: Arguments, resource: Resource) -> Outcome<Value> {
    let Ok(cid) = arguments.cid(resource)? else { return Ok(json!(false)) };
    let store = Store::open(&call.config.root)?;
    Ok(json!(store.map_or(Ok(false), |store| store.has(&cid))?))
}

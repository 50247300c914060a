//! Fixtures: stemcells, releases and environments of any size, which are always built by the same rules.

use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use flate2::{Compression, write::GzEncoder};
use serde_json::Value;
use sha1::Digest as _;

use crate::Suite;
use crate::process::{self, ProcessCost};
use crate::support::hello::Hello;
use crate::support::tarballs::Tar;
use crate::support::{MONOPILE, bosh};

/// A file and its SHA-1 in hex.
pub(crate) struct Hashed {
    pub path: PathBuf,
    pub sha1: String,
}

/// The number of bytes after which the image's content alternates.
const STRETCH: u64 = 1 << 20;

/// Returns an empty directory below the results.
pub(crate) fn fresh(suite: &Suite, name: &str) -> PathBuf {
    let path = suite.output_directory.join("work").join(name);
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).unwrap();
    path
}

/// Returns a stemcell with an image of `bytes` bytes: one gzip member with `stemcell.MF` and `image`. Three
/// quarters of the image are incompressible, as in most disk images. The stemcell is built once.
pub(crate) fn stemcell(suite: &Suite, bytes: u64) -> Hashed {
    let directory = suite.output_directory.join("fixtures");
    fs::create_dir_all(&directory).unwrap();
    let path = directory.join(format!("stemcell-{}-mib.tgz", bytes >> 20));
    if !path.exists() {
        let image_sha1 = sha1_of(Image::new(bytes));
        let manifest = format!(
            "name: bosh-bench\nversion: '1'\noperating_system: local-hello\napi_version: 3\nsha1: \
             {image_sha1}\n\
             stemcell_formats: [local-directory]\ncloud_properties: {{name: bosh-bench}}\n"
        );
        let mut file = tempfile::NamedTempFile::new_in(&directory).unwrap();
        let mut tar =
            tar::Builder::new(GzEncoder::new(BufWriter::new(file.as_file_mut()), Compression::new(6)));
        let mut add = |name: &str, size: u64, content: &mut dyn Read| {
            let mut header = header(size);
            tar.append_data(&mut header, name, content).unwrap();
        };
        add("stemcell.MF", manifest.len() as u64, &mut manifest.as_bytes());
        add("image", bytes, &mut Image::new(bytes));
        tar.into_inner().unwrap().finish().unwrap().flush().unwrap();
        file.persist(&path).unwrap();
    }
    let sha1 = sha1_of(File::open(&path).unwrap());
    Hashed { path, sha1 }
}

/// Writes a stemcell of the CPI `local`, with a further file of `padding` zeros.
pub(crate) fn write_local_stemcell(path: &Path, padding: u64) {
    let image = Tar::default().directory("etc/").file("etc/monopile-release", "bench\n").tgz();
    let manifest = "name: bosh-bench\nversion: '1'\noperating_system: local-hello\napi_version: 3\n\
                    stemcell_formats: [local-directory]\ncloud_properties: {}\n";
    let files = [("stemcell.MF", manifest.as_bytes()), ("image", &image)];
    write_padded_tar(path, &files, padding);
}

/// Writes a sparse tar archive of these files and of a file with `padding` zeros.
pub(crate) fn write_padded_tar(path: &Path, files: &[(&str, &[u8])], padding: u64) {
    let mut file = File::create(path).unwrap();
    let mut length = 0;
    for (name, content) in files {
        let mut header = header(content.len() as u64);
        header.set_path(name).unwrap();
        header.set_cksum();
        file.write_all(header.as_bytes()).unwrap();
        file.write_all(content).unwrap();
        let rest = content.len().next_multiple_of(512) - content.len();
        file.write_all(&vec![0; rest]).unwrap();
        length += 512 + content.len().next_multiple_of(512) as u64;
    }
    let mut header = header(padding);
    header.set_path("padding").unwrap();
    header.set_cksum();
    file.write_all(header.as_bytes()).unwrap();
    // Two blocks of zeros end an archive.
    file.set_len(length + 512 + padding.next_multiple_of(512) + 1024).unwrap();
}

/// Replaces a file with its gzip form.
pub(crate) fn compress(path: &Path) {
    let mut gzip_file = tempfile::NamedTempFile::new_in(path.parent().unwrap()).unwrap();
    let mut encoder = GzEncoder::new(gzip_file.as_file_mut(), Compression::fast());
    io::copy(&mut File::open(path).unwrap(), &mut encoder).unwrap();
    encoder.finish().unwrap();
    gzip_file.persist(path).unwrap();
}

fn header(size: u64) -> tar::Header {
    let mut header = tar::Header::new_gnu();
    header.set_size(size);
    header.set_mode(0o644);
    header.set_mtime(1_700_000_000);
    header.set_entry_type(tar::EntryType::Regular);
    header
}

fn sha1_of(mut content: impl Read) -> String {
    let mut hasher = sha1::Sha1::new();
    let mut buffer = vec![0; 256 << 10];
    loop {
        let count = content.read(&mut buffer).unwrap();
        if count == 0 {
            return hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        }
        hasher.update(&buffer[..count]);
    }
}

/// Generates the content of an image.
struct Image {
    remaining: u64,
    random: u64,
    words: Vec<Vec<u8>>,
    /// The bytes to read next.
    ready: Vec<u8>,
}

impl Image {
    fn new(bytes: u64) -> Image {
        let mut image =
            Image { remaining: bytes, random: 0x9e37_79b9_7f4a_7c15, words: Vec::new(), ready: Vec::new() };
        for _ in 0..4096 {
            let length = 2 + image.next() % 11;
            let word = (0..length).map(|_| image.next().to_le_bytes()[3]).collect();
            image.words.push(word);
        }
        image
    }

    fn next(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }

    /// Generates the next stretch: noise, or words of different frequency.
    fn fill(&mut self) {
        let number = self.remaining.div_ceil(STRETCH);
        self.ready.clear();
        let length = usize::try_from(self.remaining.min(STRETCH)).unwrap();
        while self.ready.len() < length {
            let random = self.next();
            if number.is_multiple_of(4) {
                let rank = (random as usize % 4096) >> (random >> 60);
                self.ready.extend_from_slice(&self.words[rank]);
            } else {
                self.ready.extend_from_slice(&random.to_le_bytes());
            }
        }
        self.ready.truncate(length);
        self.ready.reverse();
    }
}

impl Read for Image {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.ready.is_empty() && self.remaining > 0 {
            self.fill();
        }
        let count = buffer.len().min(self.ready.len());
        let rest = self.ready.len() - count;
        for (target, byte) in buffer.iter_mut().zip(self.ready.drain(rest..).rev()) {
            *target = byte;
        }
        self.remaining -= count as u64;
        Ok(count)
    }
}

/// Changes an environment so that `bosh` can deploy it, with the CPI `local` from a release.
pub(crate) fn for_bosh(mut hello: Hello) -> Hello {
    let config = hello.world.path("local.json");
    let script = format!("#!/bin/bash\nexec '{MONOPILE}' cpi-exec local --config '{}'\n", config.display());
    let cpi = hello.world.write("local-cpi", script);
    fs::set_permissions(&cpi, fs::Permissions::from_mode(0o755)).unwrap();
    bosh::adapt_for_bosh(&mut hello, &cpi);
    // The CPI's configuration contains the agent's endpoint with the password from the vars store.
    let options = hello.options().into_iter().filter(|option| !["--state", "state.json"].contains(option));
    hello.world.run(["interpolate", "hello/manifest.yml"].into_iter().chain(options)).success();
    let creds: serde_yaml::Value = serde_yaml::from_str(&hello.world.read("creds.yml")).unwrap();
    let password = creds["mbus_bootstrap_password"].as_str().unwrap();
    let config = hello.world.read("local.json").replace("unset:unset", &format!("mbus:{password}"));
    hello.world.write("local.json", config);
    hello
}

/// Runs a command of an environment with `--json`, and returns its cost and its events.
pub(crate) fn run_with_events(hello: &Hello, mut command: Command) -> (ProcessCost, Vec<Value>) {
    let path = hello.world.path("events.jsonl");
    let cost = process::attempt(command.arg("--json").stdout(Stdio::from(File::create(&path).unwrap())));
    let text = fs::read_to_string(&path).unwrap();
    assert_eq!(cost.code, 0, "{command:?} failed:\n{text}");
    (cost, text.lines().map(|line| serde_json::from_str(line).unwrap()).collect())
}

/// The time of a run by category.
pub(crate) struct Timings(Value);

impl Timings {
    /// Reads the timings from the events of a run.
    pub(crate) fn of(events: &[Value]) -> Timings {
        let last = events.last().expect("there is always a last event");
        match &last["timings"] {
            // Without CPI and agent calls, the complete time was own work.
            Value::Null => {
                Timings(serde_json::json!({"total_ms": last["elapsed_ms"], "own_ms": last["elapsed_ms"]}))
            }
            timings => Timings(timings.clone()),
        }
    }

    /// Returns one timing: milliseconds, bytes or a count.
    pub(crate) fn get(&self, name: &str) -> f64 {
        self.0[name].as_f64().unwrap_or_default()
    }

    /// Returns the sum of own work and waiting.
    pub(crate) fn overhead(&self) -> f64 {
        self.get("own_ms") + self.get("waiting_ms")
    }

    /// Describes all timings in one sentence.
    pub(crate) fn sentence(&self) -> String {
        format!(
            "{} ms: CPI {}, requests to the agent {}, its tasks {}, waiting {}, own work {}",
            self.get("total_ms"),
            self.get("cpi_ms"),
            self.get("agent_ms"),
            self.get("agent_task_ms"),
            self.get("waiting_ms"),
            self.get("own_ms"),
        )
    }
}

//! A real registry of OCI images on loopback, with one user. It ends on drop, and with the test process.
//! `tests/run` installs it.

use std::process::{Child, Stdio};

use serde_json::{Value, json};

use super::ironic::http;
use super::process::{WaitForEnd, lines, prepare, receive};
use super::tarballs::sha256;
use crate::support::create_directory;

/// The user and its password.
pub(crate) const USER: (&str, &str) = ("us3r", "pa55word");
/// The user and the hash of its password, in the form of Apache's htpasswd.
const HTPASSWD: &str = "us3r:$2y$05$abcdefghijklmnopqrstuur.ZxEKly2fYX6K.hrvYXsoEaKgtr95a\n";
/// Runs the server until the standard input is closed.
const SCRIPT: &str = "docker-registry serve config.yml 2>&1 & read -r; kill $!; wait";

/// A running registry.
pub(crate) struct ImageRegistry {
    child: Child,
    port: u16,
    _directory: tempfile::TempDir,
}

impl ImageRegistry {
    pub(crate) fn start() -> Self {
        let directory = create_directory();
        let config = json!({
            "version": "0.1",
            "storage": {"filesystem": {"rootdirectory": directory.path().join("data")}},
            "http": {"addr": "127.0.0.1:0"},
            "auth": {"htpasswd": {"realm": "it", "path": directory.path().join("htpasswd")}},
        });
        std::fs::write(directory.path().join("config.yml"), config.to_string()).unwrap();
        std::fs::write(directory.path().join("htpasswd"), HTPASSWD).unwrap();
        let mut command = prepare("bash");
        command.args(["-c", SCRIPT]).current_dir(directory.path());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let output = lines(child.stdout.take().unwrap());
        let port = loop {
            let line = receive("docker-registry (tests/run installs it) listens", &output).unwrap();
            if let Some((_, rest)) = line.split_once("listening on 127.0.0.1:") {
                let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
                break digits.parse().unwrap();
            }
        };
        // The server must not be blocked by a full pipe.
        std::thread::spawn(move || output.iter().count());
        ImageRegistry { child, port, _directory: directory }
    }

    /// Returns the host and port in the address of an image.
    pub(crate) fn host(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Uploads an image with these layers, which are tarballs, and returns its digest.
    pub(crate) fn push(&self, name: &str, tag: &str, layers: &[&[u8]]) -> String {
        let config =
            json!({"architecture": "amd64", "os": "linux", "rootfs": {"type": "layers", "diff_ids": []}});
        let descriptor = |kind: &str, blob: &[u8]| {
            let media_type = format!("application/vnd.oci.image.{kind}");
            json!({"mediaType": media_type, "digest": self.upload(name, blob), "size": blob.len()})
        };
        let layers: Vec<Value> = layers.iter().map(|layer| descriptor("layer.v1.tar", layer)).collect();
        let media_type = "application/vnd.oci.image.manifest.v1+json";
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": media_type,
            "config": descriptor("config.v1+json", config.to_string().as_bytes()),
            "layers": layers,
        });
        let manifest = manifest.to_string().into_bytes();
        self.put(&format!("http://{}/v2/{name}/manifests/{tag}", self.host()), media_type, &manifest);
        sha256(&manifest)
    }

    /// Uploads a blob, and returns its digest.
    fn upload(&self, name: &str, blob: &[u8]) -> String {
        let url = format!("http://{}/v2/{name}/blobs/uploads/", self.host());
        let request = http().post(url).header("authorization", authorization());
        let answer = request.send_empty().unwrap();
        assert_eq!(answer.status(), 202);
        let location = answer.headers()["location"].to_str().unwrap();
        let digest = sha256(blob);
        self.put(&format!("{location}&digest={digest}"), "application/octet-stream", blob);
        digest
    }

    fn put(&self, url: &str, media_type: &str, body: &[u8]) {
        let request = http().put(url).header("authorization", authorization()).content_type(media_type);
        assert_eq!(request.send(body).unwrap().status(), 201, "{url}");
    }
}

fn authorization() -> String {
    base::encoding::basic_authorization(USER.0, USER.1)
}

impl Drop for ImageRegistry {
    fn drop(&mut self) {
        self.child.stop();
    }
}

// Serves Azurite's blobs on a loopback port, until standard input ends. Prints the port, and a signed query with which
// every request is allowed.
//
//   node serve.js DIRECTORY_WITH_NODE_MODULES ACCOUNT KEY

const crypto = require("crypto");
const os = require("os");
const path = require("path");

const [directory, account, key] = process.argv.slice(2);
process.env.AZURITE_ACCOUNTS = `${account}:${key}`;
const blob = path.join(directory, "node_modules/azurite/dist/src/blob");
const Configuration = require(path.join(blob, "BlobConfiguration")).default;
const Server = require(path.join(blob, "BlobServer")).default;
const { setExtentMemoryLimit } = require(path.join(blob, "../common/ConfigurationBase"));

// The string that an account's shared access signature signs, version 2019-12-12.
function signedQuery() {
    const fields = { sp: "rwdlac", ss: "b", srt: "sco", se: "2099-01-01T00:00:00Z", spr: "https,http", sv: "2019-12-12" };
    const text = [account, fields.sp, fields.ss, fields.srt, "", fields.se, "", fields.spr, fields.sv, ""].join("\n");
    const sig = crypto.createHmac("sha256", Buffer.from(key, "base64")).update(text, "utf8").digest("base64");
    return new URLSearchParams({ ...fields, sig }).toString();
}

async function main() {
    const scratch = (name) => path.join(os.tmpdir(), name);
    const places = [{ locationId: "Default", locationPath: scratch("azurite"), maxConcurrency: 5 }];
    const configuration = new Configuration(
        "127.0.0.1", 0, 5, scratch("blobs"), scratch("extents"), places, false, undefined, false, undefined, false, true,
        "", "", "", undefined, false, true,
    );
    setExtentMemoryLimit({ inMemoryPersistence: () => true, extentMemoryLimit: () => undefined }, false);
    const server = new Server(configuration);
    await server.start();
    console.log(`${new URL(server.getHttpServerAddress()).port} ${signedQuery()}`);
}

process.stdin.on("end", () => process.exit(0)).resume();
main().catch((error) => {
    console.error(error);
    process.exit(1);
});

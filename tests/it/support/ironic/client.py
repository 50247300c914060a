"""Runs OpenStack's bare metal client several times in one process, because importing it takes a second.

Reads a JSON object per line: "arguments", a list, and "environment", the OS_ variables of this run. Prints a JSON
object per line: "status", "stdout" and "stderr".
"""

import contextlib
import io
import json
import os
import sys

# The name in the client's messages, which it reads when it is imported.
sys.argv[0] = "baremetal"
from ironicclient.shell import main


def run(arguments, environment):
    for name in [name for name in os.environ if name.startswith("OS_")]:
        del os.environ[name]
    os.environ.update(environment)
    stdout, stderr = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(stdout), contextlib.redirect_stderr(stderr):
        try:
            status = main(arguments)
        except SystemExit as end:
            status = end.code or 0
    return {"status": status, "stdout": stdout.getvalue(), "stderr": stderr.getvalue()}


for line in sys.stdin:
    print(json.dumps(run(**json.loads(line))), flush=True)

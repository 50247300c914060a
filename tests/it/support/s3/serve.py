"""Serves moto's S3 on a loopback port, which it prints, until standard input ends.

One request at a time: moto looks at a condition first and writes then, and nothing may come between.
"""

import logging
import os
import sys
import threading

from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

logging.getLogger("werkzeug").setLevel(logging.ERROR)
server = make_server("127.0.0.1", 0, DomainDispatcherApplication(create_backend_app), threaded=False)
print(server.server_port, flush=True)


def end_with_input():
    sys.stdin.read()
    os._exit(0)


threading.Thread(target=end_with_input, daemon=True).start()
server.serve_forever()

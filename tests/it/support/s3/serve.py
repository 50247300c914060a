"""Serves moto's S3 on a loopback port, which it prints, until standard input ends.

    serve.py s3|gs

One request at a time: moto looks at a condition first and writes then, and nothing may come between.

With "gs" it speaks Google's dialect of that protocol (the XML API): objects have generations, which requests name in
x-goog-if-generation-match. No server of Google's that does so can be had from a registry; this one is ours.
"""

import itertools
import logging
import os
import sys
import threading
from urllib.parse import quote

from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server


class Generations:
    """S3 with Google's conditions."""

    def __init__(self, s3):
        self.s3 = s3
        self.next = itertools.count(1700000000000001)
        self.present = {}

    def __call__(self, environ, start_response):
        method, name = environ["REQUEST_METHOD"], environ["PATH_INFO"]
        wanted = environ.pop("HTTP_X_GOOG_IF_GENERATION_MATCH", None)
        # Google's clients escape more characters than S3's clients, and moto reads the escaped path.
        environ["RAW_URI"] = environ["REQUEST_URI"] = quote(name) + "?" + environ["QUERY_STRING"]
        # Authorisation is not tested.
        environ["HTTP_AUTHORIZATION"] = "AWS tests:unsigned"
        if wanted is not None and int(wanted) != self.present.get(name, 0):
            return self.error(start_response, "412 Precondition Failed", "PreconditionFailed")
        if method == "DELETE" and name.count("/") > 1 and name not in self.present:
            return self.error(start_response, "404 Not Found", "NoSuchKey")

        def started(status, headers, exc_info=None):
            if status.startswith("2"):
                if method == "PUT":
                    self.present[name] = next(self.next)
                elif method == "DELETE":
                    self.present.pop(name, None)
            if name in self.present:
                headers = [*headers, ("x-goog-generation", str(self.present[name]))]
            return start_response(status, headers, exc_info)

        return self.s3(environ, started)

    @staticmethod
    def error(start_response, status, code):
        body = f"<?xml version='1.0' encoding='UTF-8'?><Error><Code>{code}</Code></Error>".encode()
        start_response(status, [("Content-Type", "application/xml"), ("Content-Length", str(len(body)))])
        return [body]


def end_with_input():
    sys.stdin.read()
    os._exit(0)


logging.getLogger("werkzeug").setLevel(logging.ERROR)
served = DomainDispatcherApplication(create_backend_app)
if sys.argv[1] == "gs":
    served = Generations(served)
server = make_server("127.0.0.1", 0, served, threaded=False)
print(server.server_port, flush=True)
threading.Thread(target=end_with_input, daemon=True).start()
server.serve_forever()

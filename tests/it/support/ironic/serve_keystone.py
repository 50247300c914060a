"""Serves a new Keystone on loopback: one user, who is admin of the project 'metal' and of the system, and region 'one'.

    serve_keystone.py DIRECTORY PORT USER PASSWORD      (with DIRECTORY/keystone.conf)
"""

import base64
import os
import sys

directory, port, user, password = sys.argv[1:]
# Keystone also reads these arguments. Without its own directory, it reads the configuration of the machine below /etc.
sys.argv[1:] = ["--config-dir", f"{directory}/conf.d"]

from cheroot.wsgi import Server
from keystone import server
from keystone.cmd.bootstrap import Bootstrapper
from keystone.common.sql import upgrades
from keystone.server.flask import core

config = [f"{directory}/keystone.conf"]


def fill():
    """Makes key and database."""
    os.mkdir(f"{directory}/fernet", mode=0o700)
    with open(f"{directory}/fernet/1", "wb") as key:
        key.write(base64.urlsafe_b64encode(os.urandom(32)))
    server.configure(config_files=config)
    upgrades.offline_sync_database_to_version(None)
    bootstrapper = Bootstrapper()
    bootstrapper.admin_username = user
    bootstrapper.admin_password = password
    bootstrapper.admin_role_name = "admin"
    bootstrapper.project_name = "metal"
    bootstrapper.service_name = "keystone"
    bootstrapper.region_id = "one"
    bootstrapper.public_url = f"http://127.0.0.1:{port}"
    # The URL at which Ironic looks for Keystone.
    bootstrapper.internal_url = bootstrapper.public_url
    bootstrapper.bootstrap()


# A process that has filled the database cannot serve it. Forking avoids importing Keystone twice.
child = os.fork()
if child == 0:
    fill()
    sys.stdout.flush()
    os._exit(0)
if os.waitpid(child, 0)[1] != 0:
    sys.exit("the database was not made")

application = core.initialize_application(name="public", config_files=config)
Server(("127.0.0.1", int(port)), application).start()

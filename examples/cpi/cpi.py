#!/usr/bin/env python3
"""A CPI whose cloud is a directory. VMs, disks and stemcells are JSON files in $CPI_DIR, by default ./cloud.

  monopile cpi check --path cpi/cpi.py --stemcell hello/stemcell
"""
import json, os, sys, uuid
from pathlib import Path

CLOUD = Path(os.environ.get("CPI_DIR", "cloud")).absolute()

class Failed(Exception):
    pass

def place(kind, cid, must=True):
    path = CLOUD / f"{kind}-{cid}.json"
    if must and not path.exists():
        raise Failed(f"Bosh::Clouds::{kind}NotFound", f"there is no {kind.lower()} '{cid}'")
    return path

def new(kind, **what):
    CLOUD.mkdir(exist_ok=True)
    cid = str(uuid.uuid4())
    place(kind, cid, must=False).write_text(json.dumps(what))
    return cid

def change(kind, cid, **what):
    path = place(kind, cid)
    path.write_text(json.dumps(json.loads(path.read_text()) | what))

def look(kind, cid):
    return json.loads(place(kind, cid).read_text())

def create_vm(agent, stemcell, properties, networks, disks=(), env=None):
    place("Stemcell", stemcell)
    vm = new("VM", agent=agent, networks=networks, disks=[], metadata={})
    return [vm, networks] if VERSION > 1 else vm

def attach_disk(vm, disk):
    place("Disk", disk)
    change("VM", vm, disks=sorted({*look("VM", vm)["disks"], disk}))
    return f"/dev/disk/by-id/{disk}" if VERSION > 1 else None

def detach_disk(vm, disk):
    place("Disk", disk)
    change("VM", vm, disks=[cid for cid in look("VM", vm)["disks"] if cid != disk])

METHODS = dict(
    info=lambda: {"api_version": 2, "stemcell_formats": ["general-tar"]},
    create_stemcell=lambda image, properties, *rest: new("Stemcell", image=image),
    delete_stemcell=lambda cid: place("Stemcell", cid).unlink(),
    create_vm=create_vm, attach_disk=attach_disk, detach_disk=detach_disk,
    delete_vm=lambda cid: place("VM", cid).unlink(),
    has_vm=lambda cid: place("VM", cid, must=False).exists(),
    reboot_vm=lambda cid: look("VM", cid) and None,
    set_vm_metadata=lambda cid, metadata: change("VM", cid, metadata=metadata),
    create_disk=lambda size, properties, *vm: new("Disk", size=size, metadata={}),
    delete_disk=lambda cid: place("Disk", cid).unlink(),
    has_disk=lambda cid: place("Disk", cid, must=False).exists(),
    set_disk_metadata=lambda cid, metadata: change("Disk", cid, metadata=metadata),
    get_disks=lambda vm: look("VM", vm)["disks"],
)

try:
    request = json.load(sys.stdin)
    VERSION = request.get("api_version", 1)
    if request["method"] not in METHODS:
        raise Failed("Bosh::Clouds::NotImplemented", f"there is no method {request['method']!a}")
    answer = {"result": METHODS[request["method"]](*request["arguments"]), "error": None}
except Failed as failed:
    answer = {"result": None, "error": dict(zip(("type", "message"), failed.args), ok_to_retry=False)}
except Exception as bad:
    answer = {"result": None, "error": {"type": "Bosh::Clouds::CpiError", "message": repr(bad), "ok_to_retry": False}}
print(json.dumps(answer | {"log": ""}))

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A real S3 server for tests: OpenStack Swift with its S3 API, one device, in a directory of its own.

usage: tests/support/swift_server.py COMMAND [ARGUMENT ...]

Starts the four servers on free ports of 127.0.0.1, makes the bucket "cache", runs COMMAND with INGOT_S3_ENDPOINT,
INGOT_S3_BUCKET, INGOT_S3_REGION, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in its environment, and ends with its exit
status. Everything is gone afterwards. Debian: swift-proxy swift-account swift-container swift-object; the directory
(TMPDIR) must be on a file system with user attributes.
"""

import os
import pathlib
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request

from waiting import wait_until

KEY, SECRET, REGION, BUCKET = "test:tester", "testing", "us-east-1", "cache"
STORAGE = """[DEFAULT]
bind_ip = 127.0.0.1
bind_port = {port}
swift_dir = {etc}
devices = {root}/devices
mount_check = false
workers = 0
user = {user}
log_level = WARNING
log_address = {root}/log
disable_fallocate = true
[pipeline:main]
pipeline = {kind}-server
[app:{kind}-server]
use = egg:swift#{kind}
"""
PROXY = """[DEFAULT]
bind_ip = 127.0.0.1
bind_port = {port}
swift_dir = {etc}
workers = 0
user = {user}
log_level = WARNING
log_address = {root}/log
[pipeline:main]
pipeline = catch_errors gatekeeper healthcheck cache listing_formats s3api tempauth copy slo proxy-server
[app:proxy-server]
use = egg:swift#proxy
allow_account_management = true
account_autocreate = true
[filter:catch_errors]
use = egg:swift#catch_errors
[filter:gatekeeper]
use = egg:swift#gatekeeper
[filter:healthcheck]
use = egg:swift#healthcheck
[filter:cache]
use = egg:swift#memcache
memcache_servers = 127.0.0.1:{memcache}
[filter:listing_formats]
use = egg:swift#listing_formats
[filter:s3api]
use = egg:swift#s3api
location = {region}
s3_acl = false
[filter:tempauth]
use = egg:swift#tempauth
user_test_tester = {secret} .admin .reseller_admin
[filter:copy]
use = egg:swift#copy
[filter:slo]
use = egg:swift#slo
"""


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def make_rings(etc: pathlib.Path, ports: "dict[str, int]") -> None:
    for kind in ("account", "container", "object"):
        builder = f"{kind}.builder"
        for words in (["create", "6", "1", "1"], ["add", f"r1z1-127.0.0.1:{ports[kind]}/disk", "1"], ["rebalance"]):
            done = subprocess.run(["swift-ring-builder", builder, *words], cwd=etc, capture_output=True, text=True)
            if done.returncode not in (0, 1):  # 1: a warning
                sys.exit(f"swift-ring-builder {builder} {' '.join(words)}: {done.stdout}{done.stderr}")


def wait_for(port: int, process: "subprocess.Popen[bytes]", what: str, log: pathlib.Path) -> None:
    def listens() -> bool:
        if process.poll() is not None:
            sys.exit(f"{what} ended with {process.returncode}:\n{log.read_text(errors='replace')[-4000:]}")
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            return False
        return True

    try:
        wait_until(f"{what} listens on port {port}", listens)
    except AssertionError as late:
        sys.exit(f"{late}:\n{log.read_text(errors='replace')[-4000:]}")


def main() -> int:
    if len(sys.argv) < 2 or sys.argv[1] in ("-h", "--help"):
        print(__doc__)
        return 2
    missing = [p for p in ("swift-proxy-server", "swift-object-server", "swift-ring-builder", "memcached") if shutil.which(p) is None]
    if missing:
        sys.exit(f"not installed: {', '.join(missing)} (Debian: swift-proxy swift-account swift-container swift-object memcached)")
    root = pathlib.Path(tempfile.mkdtemp(prefix="ingot-swift-"))
    try:
        os.setxattr(root, "user.swift", b"1")
    except OSError as error:
        sys.exit(f"{root} has no user attributes ({error.strerror}), which Swift needs; set TMPDIR to a directory on ext4, xfs or btrfs")
    etc = root / "etc"
    etc.mkdir()
    (root / "devices" / "disk").mkdir(parents=True)
    # Swift reads its one fixed file unless told otherwise.
    (etc / "swift.conf").write_text("[swift-hash]\nswift_hash_path_suffix = ingot\nswift_hash_path_prefix = ingot\n[storage-policy:0]\nname = one\ndefault = yes\n")
    ports = {kind: free_port() for kind in ("account", "container", "object", "proxy", "memcache")}
    user = pwd.getpwuid(os.getuid()).pw_name
    facts = {"etc": etc, "root": root, "user": user, "secret": SECRET, "region": REGION, "memcache": ports["memcache"]}
    for kind in ("account", "container", "object"):
        (etc / f"{kind}-server.conf").write_text(STORAGE.format(kind=kind, port=ports[kind], **facts))
    (etc / "proxy-server.conf").write_text(PROXY.format(port=ports["proxy"], **facts))
    make_rings(etc, ports)
    environment = {**os.environ, "SWIFT_TEST_CONFIG_FILE": str(etc / "none")}
    running = []
    try:
        log = root / "out"
        with open(log, "ab") as out:
            as_user = ["-u", user] if os.getuid() == 0 else []
            running.append(subprocess.Popen(["memcached", "-l", "127.0.0.1", "-p", str(ports["memcache"]), "-U", "0", *as_user], stdout=out, stderr=out))
            wait_for(ports["memcache"], running[-1], "memcached", log)
            for kind in ("account", "container", "object", "proxy"):
                words = [sys.executable, "-c", LAUNCH, str(etc), shutil.which(f"swift-{kind}-server"), str(etc / f"{kind}-server.conf")]
                if not os.access("/usr/lib/python3/dist-packages/swift", os.R_OK):
                    sys.exit("Debian's python3-swift is not there")
                words[0] = "/usr/bin/python3"
                running.append(subprocess.Popen(words, stdout=out, stderr=out, env=environment))
            for kind, process in zip(("account", "container", "object", "proxy"), running[1:]):
                wait_for(ports[kind], process, f"swift-{kind}-server", log)
        endpoint = f"http://127.0.0.1:{ports['proxy']}"
        make_bucket(endpoint, log)
        return subprocess.run(sys.argv[1:], env={**os.environ, "INGOT_S3_ENDPOINT": endpoint, "INGOT_S3_BUCKET": BUCKET, "INGOT_S3_REGION": REGION,
                                                 "AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET}).returncode
    finally:
        for process in reversed(running):
            process.send_signal(signal.SIGTERM)
        for process in running:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if os.environ.get("INGOT_SWIFT_KEEP"):
            print(f"kept {root}", file=sys.stderr)
        else:
            shutil.rmtree(root, ignore_errors=True)


# Swift's programs read /etc/swift/swift.conf when their modules are imported; this one reads ours.
LAUNCH = """
import runpy, sys
from swift.common import utils
etc, program, conf = sys.argv[1:]
utils.SWIFT_CONF_FILE = etc + '/swift.conf'
utils.HASH_PATH_SUFFIX = utils.HASH_PATH_PREFIX = b'ingot'
from swift.common import storage_policy, constraints
storage_policy.reload_storage_policies()
constraints.reload_constraints()
sys.argv = [program, conf]
runpy.run_path(program, run_name='__main__')
"""


def make_bucket(endpoint: str, log: pathlib.Path) -> None:
    """By Swift's own interface: a token, then a container."""
    def ask(method: str, url: str, **headers: str):
        request = urllib.request.Request(url, method=method, headers=headers)
        return urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=30)
    try:
        account = ask("GET", f"{endpoint}/auth/v1.0", **{"X-Auth-User": KEY, "X-Auth-Key": SECRET})
        ask("PUT", f"{account.headers['X-Storage-Url']}/{BUCKET}", **{"X-Auth-Token": account.headers["X-Auth-Token"], "Content-Length": "0"})
        # Where parts of uploads go.
        ask("PUT", f"{account.headers['X-Storage-Url']}/{BUCKET}%2Bsegments", **{"X-Auth-Token": account.headers["X-Auth-Token"], "Content-Length": "0"})
    except (urllib.error.URLError, OSError) as error:
        sys.exit(f"Swift gives no bucket: {error}\n{log.read_text(errors='replace')[-4000:]}")


if __name__ == "__main__":
    sys.exit(main())

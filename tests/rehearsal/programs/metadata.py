"""Print what EC2's metadata service has at each path, or the status: ``metadata.py PATH…``."""

from __future__ import annotations

import sys
import urllib.error
import urllib.request

BASE = "http://169.254.169.254/latest/"
ask = urllib.request.Request(
    BASE + "api/token", method="PUT", headers={"X-aws-ec2-metadata-token-ttl-seconds": "60"}
)
token = urllib.request.urlopen(ask, timeout=20).read().decode()
for path in sys.argv[1:]:
    ask = urllib.request.Request(BASE + path, headers={"X-aws-ec2-metadata-token": token})
    try:
        print(urllib.request.urlopen(ask, timeout=20).read().decode())
    except urllib.error.HTTPError as error:
        print(error.code)

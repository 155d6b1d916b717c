"""Print the ports on which MPI's daemons of this host listen, and which take a connection."""

import json
import socket

import psutil

from workbench.core.world.world import DAEMONS

found: dict[str, list[int]] = {"listening": [], "open": []}
for process in psutil.process_iter():
    for connection in process.net_connections("inet") if process.name() in DAEMONS else ():
        if connection.status == psutil.CONN_LISTEN:
            found["listening"].append(connection.laddr.port)
            own = connection.laddr.ip.replace("0.0.0.0", "127.0.0.1").replace("::", "::1")
            with socket.socket(connection.family) as one:
                one.settimeout(0.5)
                if one.connect_ex((own, connection.laddr.port)) == 0:
                    found["open"].append(connection.laddr.port)
print(json.dumps(found))

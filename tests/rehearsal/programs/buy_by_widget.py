"""A cell that buys nodes on EC2 in the cluster's widget; ``until`` and ``panel`` stay for others.

The environment has NAME, the cluster's; REGION; NODES, how many; and SSH_SOURCE, the network from
which nodes accept ssh.
"""

import os
import time
from collections.abc import Callable

from IPython import get_ipython


def until(look: Callable[[], object], *, what: str, seconds: float = 150) -> None:
    deadline = time.monotonic() + seconds
    while not look():
        shown = panel.message.value, panel.form.total.value
        assert time.monotonic() < deadline, (what, *shown)
        time.sleep(0.1)


panel = get_ipython().run_line_magic("dist_cluster", f"--cluster {os.environ['NAME']}")
panel.provider.value = "ec2"
panel.nodes.value = int(os.environ["NODES"])
panel.form.boxes["region"].value = os.environ["REGION"]
panel.form.boxes["ssh_from"].value = os.environ["SSH_SOURCE"]
panel.form.find.click()
until(lambda: "c5.large" in panel.form.types._options_values, what="what fits")
panel.form.types.value = "c5.large"
until(lambda: not panel.start.disabled, what="Start")
print(panel.form.total.value)
panel.start.click()

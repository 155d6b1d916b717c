from __future__ import annotations

from dataclasses import replace

import pytest

from workbench.core.cluster.model import WhenDone
from workbench.core.fleet.model import FleetWish, Needs
from workbench.core.fleet.request import FleetRequest, fleet_wish
from workbench.core.options.jobfile import SPELLING, parse_job
from workbench.core.world.world import Host
from workbench.errors import InputError

COMPLETE = """\
name = "digits"
script = "code/train.py"
arguments = ["--epoch", 3]
ranks = 2
grace = "10s"
wall_clock_limit = "90m"
cluster = "lab"

[parameters]
lr = 0.1

[environment]
OMP_NUM_THREADS = 1
"""


def refusal(text: str, path: str = "job.toml") -> str:
    with pytest.raises(InputError) as caught:
        parse_job(text, path)
    return str(caught.value)


def test_a_complete_file_gives_every_field():
    job = parse_job(COMPLETE, "job.toml")

    assert job.values == {
        "name": "digits",
        "script": "code/train.py",
        "arguments": ("--epoch", "3"),
        "ranks": 2,
        "parameters": {"lr": 0.1},
        "environment": {"OMP_NUM_THREADS": "1"},
        "grace": 10.0,
        "wall_clock_limit": 5400.0,
        "cluster": "lab",
    }


ON_EC2 = """\
script = "train.py"
provider = "ec2"
nodes = 4
min_nodes = 2
slots = 1
region = "us-east-1"
max_price = 2.5
budget = 20
ttl = "8h"
data = "s3://bucket/digits"
output = "s3://bucket/results"
prepare = "prepare.sh"
shrink = "continue"

[needs]
gpus = 1
network = 2.5
types = ["g4dn.xlarge"]
"""


def test_a_file_for_nodes_says_what_a_batch_service_was_reported():
    job = parse_job(ON_EC2, "jobs/job.toml")

    wish = fleet_wish(replace(job.request(), prepare="true"), SPELLING, now=1000.0)
    assert wish == FleetWish(
        provider="ec2",
        nodes=4,
        min_nodes=2,
        slots=1,
        needs=Needs(gpus=1, network=2.5, types=("g4dn.xlarge",)),
        region="us-east-1",
        max_price=2.5,
        budget=20.0,
        expires=1000.0 + 8 * 3600,
        idle=900.0,
        asked=1000.0,
        data="s3://bucket/digits",
        output="s3://bucket/results",
        prepare="true",
        starts_early=True,
    )
    assert job.values["prepare"] == "jobs/prepare.sh"
    assert job.values["shrink"] == "continue"
    assert job.remark.endswith("on the nodes that are left, or ends if it has none.")
    assert job.changed(restart=True).remark == (
        "The script starts again on the nodes that are left if it loses a node."
    )


@pytest.mark.parametrize(
    ("text", "done"),
    [
        ('provider = "ec2"\nnodes = 4', WhenDone.RELEASE),
        ('provider = "ec2"\nnodes = 4\nwhen_done = "keep"', WhenDone.KEEP),
        ('hosts = ["10.0.0.1"]', None),
        ('when_done = "delete"', WhenDone.DELETE),
        ("", None),
    ],
)
def test_the_nodes_that_a_job_rents_end_with_it(text, done) -> None:
    assert parse_job(f'script = "t.py"\n{text}', "job.toml").when_done is done


@pytest.mark.parametrize(
    ("text", "least"),
    [
        ('provider = "ec2"\nnodes = 4\nshrink = "wait"', 4),
        ('provider = "ec2"\nnodes = 4\nmin_nodes = 4\nshrink = "wait"', 4),
        ('hosts = ["10.0.0.1", "10.0.0.2"]\nshrink = "wait"', 2),
        ('provider = "ec2"\nnodes = 4\nmin_nodes = 3\nshrink = "continue"', 3),
        ('provider = "ec2"\nnodes = 4\nshrink = "continue"', 1),
    ],
)
def test_whether_lost_nodes_are_waited_for_is_how_many_a_world_needs(text, least):
    job = parse_job(f'script = "a.py"\n{text}\n', "job.toml")

    assert fleet_wish(job.request(), SPELLING, now=0.0).min_nodes == least
    assert job.remark.startswith("A run that loses a node continues")


def test_a_run_on_nodes_that_cost_ends_after_a_week_and_the_nodes_soon_after():
    job = parse_job('script = "a.py"\nprovider = "rehearsal"\n', "job.toml")

    assert job.limit == 7 * 86400.0
    assert job.time_to_live == 7 * 86400.0 + 3600.0


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ('provider = "ec2"\nwall_clock_limit = 0', 0.0),
        ('provider = "ec2"\nwall_clock_limit = "90m"', 5400.0),
        ('hosts = ["10.0.0.1 slots=2"]', 0.0),
    ],
)
def test_a_given_limit_is_kept_and_free_nodes_have_none(text, limit):
    assert parse_job(f'script = "a.py"\n{text}\n', "job.toml").limit == limit


def test_hosts_are_written_as_in_a_host_file():
    job = parse_job('script = "a.py"\nhosts = ["10.0.0.1 slots=2", "me@10.0.0.2:2222"]', "j.toml")

    request = job.request()
    assert request.place.name == "hosts"
    assert request.hosts == (Host("10.0.0.1", 2), Host("10.0.0.2", 0, "me", 2222))


def test_a_host_file_is_found_from_the_job_file():
    job = parse_job('script = "a.py"\nhost_file = "hosts.txt"\n', "jobs/job.toml")

    assert job.values["host_file"] == "jobs/hosts.txt"
    assert job.completed(FleetRequest()).provider == "hosts"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "nodes = 2\n",
            "job.toml, line 2: nodes is about nodes; name their provider: "
            'hosts = ["172.31.41.13 slots=1"], provider = "ec2", provider = "rehearsal" or '
            'provider = "slurm".',
        ),
        (
            'provider = "moon"\n',
            "job.toml, line 2: provider: Provider 'moon' is not installed; install the package "
            "that has it, or choose one of local, hosts, ec2, rehearsal, slurm.",
        ),
        (
            'provider = "ec2"\n[needs]\ngpus = "one"\n',
            "job.toml, line 4: needs.gpus must be a whole number from 0 to 4096, but needs.gpus "
            "is 'one'; write for example needs.gpus = 1",
        ),
        (
            'provider = "ec2"\n[needs]\ngpu = 1\n',
            "job.toml, line 4: unknown key 'gpu'; did you mean 'gpus'?",
        ),
        (
            "processes_per_node = 1\n",
            "job.toml, line 2: unknown key 'processes_per_node'; did you mean 'slots'?",
        ),
        (
            'hosts = ["10.0.0.1"]\n[needs]\ngpus = 1\n',
            "job.toml, line 4: needs.gpus does not apply to ssh hosts; leave it out.",
        ),
        (
            'hosts = ["10.0.0.1", "10.0.0.2 slot=1"]\n',
            "job.toml, line 2: hosts: Line 2: 'slot=1' is not a known setting; write for example "
            "172.31.41.13 slots=1, or user@host:2222 slots=4.",
        ),
        (
            'hosts = ["10.0.0.1"]\nhost_file = "h"\n',
            "job.toml, line 3: hosts and host_file both name hosts; leave one of them out.",
        ),
        (
            'provider = "ec2"\nnodes = 2\nmin_nodes = 3\n',
            "job.toml, line 3: The minimum must be from 1 to 2 nodes, not 3.",
        ),
        (
            'provider = "ec2"\noutput = "s3:results"\n',
            "job.toml, line 3: 's3:results' is not a place in S3; write s3://bucket/prefix.",
        ),
        (
            'provider = "ec2"\nshrink = "never"\n',
            'job.toml, line 3: shrink must be "continue" with the nodes that are left or "wait" '
            "for others, but shrink is 'never'; write for example shrink = \"continue\"",
        ),
        (
            'provider = "ec2"\nnodes = 4\nmin_nodes = 2\nshrink = "wait"\n',
            "job.toml, line 4: min_nodes = 2 lets the cluster continue with fewer than 4 nodes, "
            'and shrink = "wait" does not; leave one of them out.',
        ),
        (
            'shrink = "wait"\n',
            "job.toml, line 2: shrink is about nodes; name their provider: "
            'hosts = ["172.31.41.13 slots=1"], provider = "ec2", provider = "rehearsal" or '
            'provider = "slurm".',
        ),
        (
            'provider = "ec2"\nsnapshots.every = "10m"\n',
            "job.toml, line 3: snapshots must be a folder that all nodes share, or "
            "s3://bucket/prefix, but snapshots is {'every': '10m'}; write for example "
            'snapshots = "s3://bucket/snapshots"',
        ),
        (
            'provider = "ec2"\nranks = 3\n',
            "job.toml, line 3: 3 ranks need nodes; give their number with nodes, which is 3 "
            "with one rank on each.",
        ),
        (
            'provider = "ec2"\nbudget = -1\n',
            "job.toml, line 3: budget must be a number of $ in all, from 0 up, but budget is -1; "
            "write for example budget = 20",
        ),
    ],
)
def test_a_problem_with_nodes_is_one_sentence_with_line_and_remedy(text, sentence):
    assert refusal(f'script = "a.py"\n{text}') == sentence


def test_json_says_the_same_as_toml():
    text = '{"script": "code/train.py", "ranks": 2, "parameters": {"lr": 0.1}}'

    assert parse_job(text, "job.json").values["ranks"] == 2


def test_a_script_is_enough():
    job = parse_job('script = "train.py"', "job.toml")

    assert (job.values, job.cluster) == ({"script": "train.py"}, "default")


@pytest.mark.parametrize(
    ("path", "script", "found"),
    [
        ("jobs/job.toml", "train.py", "jobs/train.py"),
        ("/data/job.toml", "../train.py", "/data/../train.py"),
        ("jobs/job.toml", "/code/train.py", "/code/train.py"),
        ("jobs/job.toml", "~/train.py", "~/train.py"),
    ],
)
def test_a_relative_script_is_found_from_the_job_file(path, script, found):
    assert parse_job(f'script = "{script}"', path).script == found


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            'script = "a.py"\nrank = 2\n',
            "job.toml, line 2: unknown key 'rank'; did you mean 'ranks'?",
        ),
        (
            "ranks = 2\n",
            'job.toml: script is missing; add a line such as script = "train.py"',
        ),
        (
            'script = "a.py"\n\nranks = "two"\n',
            "job.toml, line 3: ranks must be a whole number from 1 to 4096, but ranks is 'two'; "
            "write for example ranks = 2",
        ),
        (
            'script = "a.py"\nranks = 0\n',
            "job.toml, line 2: ranks must be a whole number from 1 to 4096, but ranks is 0; "
            "write for example ranks = 2",
        ),
        (
            'script = "a.py"\nranks = true\n',
            "job.toml, line 2: ranks must be a whole number from 1 to 4096, but ranks is True; "
            "write for example ranks = 2",
        ),
        (
            'script = "a.py"\nwall_clock_limit = "soon"\n',
            "job.toml, line 2: wall_clock_limit: 'soon' is not a length of time; "
            "write seconds, or a number with a unit: 30s, 90m, 7d.",
        ),
        (
            'script = "a.py"\narguments = "--epoch 3"\n',
            "job.toml, line 2: arguments must be a list of texts and numbers, "
            'but arguments is \'--epoch 3\'; write for example arguments = ["--epoch", "3"]',
        ),
        (
            'script = "a.py"\narguments = ["--epoch", [3]]\n',
            "job.toml, line 2: arguments must be a list of texts and numbers, "
            'but arguments[1] is [3]; write for example arguments = ["--epoch", "3"]',
        ),
        (
            'script = "a.py"\n[environment]\nA = "1"\nB = false\n',
            "job.toml, line 4: environment must be a table of texts and numbers, "
            'but environment.B is False; write for example environment.DATA_ROOT = "data"',
        ),
        (
            'script = "a.py"\n[parameters]\nsince = 2020-01-01\n',
            "job.toml, line 3: parameters must be a table of numbers and texts, "
            "but parameters.since is datetime.date(2020, 1, 1); "
            "write for example parameters.lr = 0.1",
        ),
        (
            'script = "a.py"\nname = "?"\n',
            "job.toml, line 2: name: '?' cannot name a run; "
            "use 1 to 80 letters and digits of any script, spaces or any of _ . + = -, "
            "with a letter or digit first.",
        ),
        (
            'script = "a.py"\nranks = = 2\n',
            "job.toml, line 2: Invalid value; correct the TOML there.",
        ),
    ],
)
def test_a_problem_is_one_sentence_with_line_and_remedy(text, sentence):
    assert refusal(text) == sentence


def test_every_problem_has_its_own_sentence():
    problems = refusal('ranks = "two"\nrank = 2\n').splitlines()

    assert [problem.split(":")[0] for problem in problems] == [
        "job.toml",
        "job.toml, line 1",
        "job.toml, line 2",
    ]


def test_a_problem_in_json_names_its_line():
    text = '{\n  "script": "a.py",\n  "ranks": 0\n}'

    assert refusal(text, "job.json").startswith("job.json, line 3: ranks must be")
    assert refusal(text, "job.json").endswith('write for example "ranks": 2')


def test_broken_json_names_its_line():
    assert refusal('{\n"script" "a.py"}', "job.json") == (
        "job.json, line 2: Expecting ':' delimiter; correct the JSON there."
    )


def test_json_that_is_no_object_is_refused():
    assert refusal("[1]", "job.json") == (
        'job.json must hold one object, as in {"script": "train.py"}.'
    )

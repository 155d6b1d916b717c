"""Two rented nodes: one is taken back and replaced, and in the end the credentials expire."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from tests.rehearsal.ec2.endpoint import Endpoint
from tests.rehearsal.test_ec2_cluster import NAME, Shell, hosts_of, open_shell, until
from workbench.core.fleet.model import NodeState
from workbench.requests.supervisor import wake_supervisor

pytestmark = [pytest.mark.root, pytest.mark.mpi, pytest.mark.timeout(600)]
SignIn = Callable[[str], None]


@pytest.fixture(scope="module")
def rented(
    one_endpoint: Endpoint, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Shell, SignIn]]:
    """Give a shell with two nodes, and what signs in with an access key; the last test ends it."""
    folder = tmp_path_factory.mktemp("rented")
    file = folder / "credentials"

    def sign_in(key: str) -> None:
        file.write_text(f"[default]\naws_access_key_id={key}\naws_secret_access_key=fake\n")

    # The shell's own client keeps the credentials of all tests, which do not expire.
    with open_shell(one_endpoint, folder) as shell, pytest.MonkeyPatch.context() as patch:
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
            patch.delenv(name)
        patch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(file))
        sign_in("FAKEBEFORE")
        shell.up(2)
        yield shell, sign_in


def test_a_node_that_is_taken_back_is_left_in_time_and_replaced(
    rented: tuple[Shell, SignIn],
) -> None:
    shell, _ = rented
    first, second = until(lambda: shell.joined(2), what="two nodes that joined", said=shell.log)
    launched = len(shell.launched())
    taken = second if first.head else first

    shell.endpoint.interrupt(taken.id, 120)
    noticed = time.monotonic()
    until(lambda: any(n.id == taken.id and n.reclaimed for n in shell.nodes()), what="the notice")
    heard = time.monotonic() - noticed
    until(
        lambda: (
            {n.id for n in shell.nodes(NodeState.JOINED)} - {first.id, second.id}
            and len(shell.nodes(NodeState.JOINED)) == 2
        ),
        what="a replacement",
        said=lambda: f"{shell.store.fleets.nodes(NAME)} {shell.log()}",
    )
    replaced = time.monotonic() - noticed

    assert heard < 30
    assert replaced < 110  # before the node's end
    assert len(shell.run()) == 2
    assert len(shell.launched()) == launched + 1
    shell.endpoint.interrupt(taken.id, 0)  # the two minutes are over
    until(
        lambda: taken.id not in {node.id for node in shell.nodes()}, what="its end", said=shell.log
    )


def test_with_expired_credentials_nodes_are_shut_down_over_ssh_and_a_sign_in_finishes_it(
    rented: tuple[Shell, SignIn],
) -> None:
    shell, sign_in = rented

    shell.endpoint.expire("FAKEBEFORE")
    shell.store.wish_cluster(NAME, up=False, ranks=0)
    wake_supervisor(NAME)
    until(lambda: not hosts_of(shell.endpoint), what="no host", said=shell.log)
    until(lambda: "over ssh" in shell.store.cluster_fact(NAME).message, what="a sentence")
    assert "sign in again" in shell.store.cluster_fact(NAME).message
    assert shell.supervisor() is not None

    sign_in("FAKEAFTER")
    until(lambda: shell.supervisor() is None, what="no supervisor", said=shell.log)
    shell.nothing_is_left()

"""After an error of EC2 a call is repeated, replaced or reported, and nothing is bought twice."""

from __future__ import annotations

import re
import time
from concurrent.futures import ThreadPoolExecutor

import boto3
import pytest

from tests.cloud.conftest import REGION, connect, purchase
from workbench.cloud.ec2.provider import Ec2, removal
from workbench.cloud.ec2.tags import OwnerTags
from workbench.core.fleet.cloud_errors import ErrorKind, Reaction, step
from workbench.core.fleet.model import MachineState, Needs
from workbench.errors import CloudError

ZONE, TYPE = "us-east-1a", "c5.large"
USER_DATA = "#cloud-config\n{}\n"
PROFILE = "Value (workbench-node) for parameter iamInstanceProfile.name is invalid. Invalid IAM "
NO_PROFILE = ("InvalidParameterValue", PROFILE + "Instance Profile name")
EARLY = [
    ("InvalidGroup.NotFound", "The security group 'sg-1' does not exist"),
    ("InvalidSecurityGroupID.NotFound", "The security group 'sg-1' does not exist"),
    ("InvalidKeyPair.NotFound", "The key pair 'k' does not exist"),
    ("InvalidPlacementGroup.Unknown", "The Placement Group 'p' is unknown."),
    ("InvalidLaunchTemplateName.NotFoundException", "The specified launch template does not exist"),
    NO_PROFILE,
]


def buy(ec2, one):
    ec2.buy(one, USER_DATA, [])
    return [m for m in ec2.machines("one") if m.state is not MachineState.GONE]


def refusal(ec2, one):
    with pytest.raises(CloudError) as refused:
        buy(ec2, one)
    return refused.value


def client_tokens(endpoint):
    return [params["ClientToken"] for name, params in endpoint.calls() if name == "CreateFleet"]


@pytest.mark.parametrize(("code", "message"), EARLY)
def test_what_is_not_known_yet_in_a_200_is_asked_for_with_the_next_token(
    ec2, endpoint, code, message
):
    endpoint.refuse((code, message))
    endpoint.refuse((code, message), (code, message))
    one = purchase()

    machines = buy(ec2, one)

    assert [machine.token for machine in machines] == [one.token] * 3
    asked = client_tokens(endpoint)
    assert asked[0] == one.token
    assert len({*asked}) == 3
    assert all(len(token) <= 64 for token in asked)


@pytest.mark.parametrize(("code", "message"), EARLY)
def test_what_is_not_known_yet_as_an_error_is_asked_for_with_the_same_token(
    ec2, endpoint, code, message
):
    endpoint.fail("CreateFleet", code, message, times=2)
    one = purchase()

    assert len(buy(ec2, one)) == 3
    assert {*client_tokens(endpoint)} == {one.token}


def test_a_fleet_that_came_too_early_is_deleted(ec2, endpoint):
    endpoint.refuse(EARLY[0])

    buy(ec2, purchase())

    deleted = [params["FleetIds"] for name, params in endpoint.calls() if name == "DeleteFleets"]
    assert len(deleted) == 1
    assert [left.kind for left in ec2.leftovers("one")].count("fleet") == 1


def test_who_repeats_a_purchase_that_came_too_early_buys_nothing_twice(ec2, endpoint, waits):
    one = purchase()
    endpoint.refuse(EARLY[0])
    buy(ec2, one)

    later = connect(endpoint, waits, waits.append)
    later.buy(one, USER_DATA, [])

    assert len(later.machines("one")) == 3


def test_what_never_comes_is_paused_after_a_minute_with_its_sentence(ec2, endpoint, waits):
    for _ in range(40):
        endpoint.refuse(EARLY[0])

    refused = refusal(ec2, purchase())

    assert refused.kind == ErrorKind.EARLY
    assert 60 <= sum(waits) <= 70
    assert {left.kind for left in ec2.leftovers("one")} == {"security group"}


def test_a_profile_that_never_comes_is_said_with_the_commands_that_make_it(ec2, endpoint, waits):
    for _ in range(40):
        endpoint.refuse(NO_PROFILE)

    refused = refusal(ec2, purchase())

    assert refused.kind == ErrorKind.CONFIGURATION
    assert "aws iam create-instance-profile" in str(refused)
    assert "aws iam add-role-to-instance-profile" in str(refused)
    assert 60 <= sum(waits) <= 70


def test_what_one_pool_does_not_know_yet_waits_for_nothing_where_another_has_a_reason(
    ec2, endpoint, waits
):
    endpoint.refuse(EARLY[0], ("InsufficientInstanceCapacity", ""))

    assert refusal(ec2, purchase()).kind == ErrorKind.CAPACITY
    assert waits == []


@pytest.mark.parametrize("how", ["raised", "in a 200"])
def test_a_right_that_hangs_on_new_tags_is_asked_for_once_more_after_a_while(
    ec2, endpoint, waits, how
):
    if how == "raised":
        endpoint.fail("CreateFleet", "UnauthorizedOperation")
    else:
        endpoint.refuse(("UnauthorizedOperation", ""))

    assert len(buy(ec2, purchase())) == 3
    assert waits == [5.0]


def test_a_right_to_let_members_in_is_asked_for_once_more(ec2, endpoint, waits):
    endpoint.fail("AuthorizeSecurityGroupIngress", "UnauthorizedOperation")

    assert len(buy(ec2, purchase())) == 3
    assert waits == [5.0]


def test_a_right_that_is_not_there_is_said_after_the_second_time(ec2, endpoint, waits):
    endpoint.deny("CreateFleet")

    assert refusal(ec2, purchase()).kind == ErrorKind.PERMISSION
    assert waits == [5.0]


def test_a_right_to_make_anything_is_not_waited_for(ec2, endpoint, waits):
    endpoint.deny("CreateSecurityGroup")

    assert refusal(ec2, purchase()).kind == ErrorKind.PERMISSION
    assert waits == []


@pytest.mark.parametrize("how", ["raised", "in a 200"])
@pytest.mark.parametrize(
    ("code", "message"),
    [
        (
            "InvalidParameterCombination",
            "Cluster placement groups are not supported by the 't3.xlarge' instance type.",
        ),
        ("InvalidParameterValue", "an unknown message"),
        ("InvalidFleetConfiguration", "not supported in your requested Availability Zone"),
        ("InvalidPlacementGroup.InUse", "in use in another availability zone: us-east-1c"),
    ],
)
def test_close_together_any_such_refusal_leads_to_the_next_candidate(
    ec2, endpoint, code, message, how
):
    if how == "raised":
        endpoint.fail("CreateFleet", code, message)
    else:
        endpoint.refuse((code, message))

    refused = refusal(ec2, purchase(placement=True))

    assert (refused.kind, refused.code) == (ErrorKind.CAPACITY, code)
    assert message.rstrip(".") in str(refused)


def test_close_together_a_right_that_lacks_is_a_right_that_lacks(ec2, endpoint):
    endpoint.deny("CreatePlacementGroup")

    assert refusal(ec2, purchase(placement=True)).kind == ErrorKind.PERMISSION


# -- as strictly as AWS does it


def test_things_that_appear_late_are_waited_for(ec2, endpoint, waits):
    endpoint.settings(late=9.0)

    machines = buy(ec2, purchase(placement=True))

    assert len(machines) == 3
    assert sum(waits) < 60


def test_a_fleet_that_failed_is_no_leftover(ec2, endpoint):
    endpoint.refuse(("InsufficientInstanceCapacity", ""))
    refusal(ec2, purchase())

    assert {left.kind for left in ec2.leftovers("one")} == {"security group"}
    assert ec2.clean("one") == ()


def test_a_type_that_a_zone_never_has_leads_to_the_next_candidate(ec2, endpoint):

    refused = refusal(ec2, purchase(zone="us-east-1e"))

    assert (refused.kind, refused.code) == (ErrorKind.CAPACITY, "InvalidFleetConfiguration")


def test_a_quota_that_ended_machines_still_hold_is_tried_again(ec2, endpoint, waits):
    endpoint.settings(counted=120.0)
    endpoint.quota("L-34B43A08", 6)
    ec2.end([machine.id for machine in buy(ec2, purchase())])
    ec2.machines("one")

    refused = refusal(ec2, purchase())

    assert refused.kind == ErrorKind.QUOTA
    assert step(refused.kind) is Reaction.NEXT_CANDIDATE
    endpoint.settings(ahead=sum(waits) + 130.0)
    assert len(buy(ec2, purchase())) == 3


def test_for_an_account_on_the_free_plan_the_way_out_is_shown(ec2, endpoint):
    endpoint.settings(free_plan=True)

    refused = refusal(ec2, purchase())

    assert refused.kind == ErrorKind.CONFIGURATION
    assert "paid plan" in str(refused)
    for type_ in re.findall(r"--type ([\w.-]+\w)", str(refused)):
        assert len(buy(ec2, purchase(types=(type_,), count=1, min_nodes=1))) >= 1


def test_a_node_whose_disk_spot_may_not_decrypt_says_which_grant_lacks(ec2, endpoint):
    endpoint.settings(customer_key=True)
    ec2.buy(purchase(), USER_DATA, [])

    reasons = {machine.reason for machine in ec2.machines("one")}

    assert len(reasons) == 1
    assert "aws kms create-grant" in reasons.pop()


class Stubborn:
    """An account with one fleet that says that it cannot be deleted, and perhaps a machine."""

    region = REGION

    def __init__(self, state):
        self.machine = {
            "InstanceId": "i-1",
            "InstanceType": TYPE,
            "State": {"Name": state},
            "Tags": [{"Key": "aws:ec2:fleet-id", "Value": "fleet-1"}],
        }

    def call(self, service, operation, **request):
        error = {"Code": "fleetNotInDeletableState", "Message": "not so"}
        failed = [{"FleetId": "fleet-1", "Error": error}]
        return {"UnsuccessfulFleetDeletions": failed} if operation == "delete_fleets" else {}

    def rows(self, service, operation, path, **request):
        fleet = {"FleetId": "fleet-1", "FleetState": "active", "Tags": []}
        alive = self.machine["State"]["Name"] in ("running", "shutting-down")
        return {
            "Tags": [{"ResourceId": "fleet-1", "Key": "workbench:cluster", "Value": "one"}],
            "Fleets": [fleet],
            "Reservations.Instances": [self.machine] if alive else [],
        }.get(path, [])


@pytest.mark.parametrize(
    ("state", "left"), [("running", ["fleet", "instance"]), ("terminated", [])]
)
def test_a_fleet_that_cannot_be_deleted_is_left_while_it_has_a_machine(state, left):
    calls, whose = Stubborn(state), OwnerTags("one")
    settled = removal.remove(calls, whose, time.time())

    found = removal.leftovers(calls, whose, lambda row: 0.1, settled=settled)

    assert [one.kind for one in found] == left


# -- credentials


@pytest.fixture
def sign_in(monkeypatch, tmp_path):
    """Write the file of credentials as a sign-in does, and have nothing else give any."""
    file = tmp_path / "credentials"
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(file))

    def write(key, secret="fake", token=""):
        lines = ["[default]", f"aws_access_key_id = {key}", f"aws_secret_access_key = {secret}"]
        lines += [f"aws_session_token = {token}"] if token else []
        file.write_text("\n".join(lines))

    return write


def test_credentials_that_were_renewed_in_their_file_are_read_again(ec2, endpoint, sign_in):
    sign_in("FAKEBEFORE")
    buy(ec2, purchase())
    endpoint.expire("FAKEBEFORE")

    sign_in("FAKEAFTER")

    assert len(ec2.machines("one")) == 3
    assert ec2.offers(Needs(types=(TYPE,), zones=(ZONE,)))
    ec2.end([machine.id for machine in ec2.machines("one")])


def test_credentials_are_read_again_at_most_once_a_minute(ec2, endpoint, sign_in, waits):
    sign_in("FAKEBEFORE")
    endpoint.expire("FAKEBEFORE")
    first = expired(ec2)

    sign_in("FAKEAFTER")
    waits.append(59.0)
    second = expired(ec2)
    waits.append(1.0)

    assert {first.kind, second.kind} == {ErrorKind.CREDENTIALS}
    assert "sign in again" in str(first)
    assert ec2.machines("one") == ()


def expired(ec2):
    with pytest.raises(CloudError) as refused:
        ec2.machines("one")
    return refused.value


def test_threads_that_meet_expired_credentials_together_all_continue(ec2, endpoint, sign_in):
    sign_in("FAKEBEFORE")
    buy(ec2, purchase())
    endpoint.expire("FAKEBEFORE")
    sign_in("FAKEAFTER")

    with ThreadPoolExecutor(4) as pool:
        seen = list(pool.map(lambda _: len(ec2.machines("one")), range(8)))

    assert seen == [3] * 8


def test_a_purchase_continues_with_renewed_credentials_and_buys_once(ec2, endpoint, sign_in):
    sign_in("FAKEBEFORE")
    one = purchase()
    ec2.machines("one")
    endpoint.expire("FAKEBEFORE")
    assert refusal(ec2, one).kind == ErrorKind.CREDENTIALS

    sign_in("FAKEAFTER")
    later = Ec2(REGION, endpoint=endpoint.url)

    assert len(buy(later, one)) == 3


def test_credentials_of_another_account_are_not_used_for_nodes_of_the_first(
    endpoint, sign_in, waits
):
    known = {}
    sign_in("FAKEBEFORE")
    sts = boto3.client("sts", region_name=REGION, endpoint_url=endpoint.url)
    role = {"RoleArn": "arn:aws:iam::222222222222:role/other", "RoleSessionName": "other"}
    other = sts.assume_role(**role)["Credentials"]
    ours = connect(endpoint, waits, waits.append, known)
    buy(ours, purchase())
    endpoint.expire("FAKEBEFORE")

    sign_in(other["AccessKeyId"], other["SecretAccessKey"], other["SessionToken"])
    first = expired(ours)
    after_a_restart = expired(Ec2(REGION, endpoint=endpoint.url, known=known))
    sign_in("FAKEAFTER")
    waits.append(60.0)

    for refusal in (first, after_a_restart):
        assert refusal.kind == ErrorKind.CREDENTIALS
        assert "222222222222" in str(refusal)
        assert "sign in to 123456789012" in str(refusal)
    assert len(ours.machines("one")) == 3


def test_credentials_that_are_not_there_yet_are_found_once_they_are(ec2, sign_in, waits):
    first = expired(ec2)

    sign_in("FAKEFIRST")
    waits.append(60.0)

    assert first.code == "NoCredentials"
    assert ec2.machines("one") == ()

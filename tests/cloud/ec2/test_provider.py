from __future__ import annotations

import re
import threading
import time
from dataclasses import replace
from datetime import datetime

import boto3
import pytest

from tests.cloud.conftest import REGION, purchase
from workbench.cloud.ec2.api import build_error as classified
from workbench.cloud.ec2.baking import ImageProgress, away, back
from workbench.cloud.ec2.client import Ec2Client
from workbench.cloud.ec2.description import NodeSettings
from workbench.cloud.ec2.network import last_words
from workbench.cloud.ec2.policy import Principal, policy
from workbench.cloud.ec2.provider import Ec2, regions
from workbench.cloud.ec2.tags import IMAGE
from workbench.core.fleet.cloud_errors import ErrorKind
from workbench.core.fleet.fallbacks import candidates
from workbench.core.fleet.model import MachineState, Needs
from workbench.core.world.remote import Completed
from workbench.core.world.world import Host
from workbench.errors import CloudError, InputError, MachineError

ZONE, OTHER_ZONE = "us-east-1a", "us-east-1b"
TYPE, OTHER = "c5.large", "c5.xlarge"
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl x"
USER_DATA = "#cloud-config\n{}\n"
EXPIRES = ("workbench:expires", "2000000000")
CODES = {
    "InsufficientInstanceCapacity": ErrorKind.CAPACITY,
    "UnfulfillableCapacity": ErrorKind.CAPACITY,
    "InsufficientCapacity": ErrorKind.CAPACITY,
    "InsufficientHostCapacity": ErrorKind.CAPACITY,
    "Unsupported": ErrorKind.CAPACITY,
    "MaxSpotInstanceCountExceeded": ErrorKind.QUOTA,
    "VcpuLimitExceeded": ErrorKind.QUOTA,
    "InstanceLimitExceeded": ErrorKind.QUOTA,
    "SpotMaxPriceTooLow": ErrorKind.PRICE,
    "UnauthorizedOperation": ErrorKind.PERMISSION,
    "AccessDenied": ErrorKind.PERMISSION,
    "AuthFailure.ServiceLinkedRoleCreationNotPermitted": ErrorKind.PERMISSION,
    "AuthFailure": ErrorKind.CREDENTIALS,
    "ExpiredToken": ErrorKind.CREDENTIALS,
    "RequestExpired": ErrorKind.CREDENTIALS,
    "InvalidAMIID.NotFound": ErrorKind.CONFIGURATION,
    "InvalidSubnetID.NotFound": ErrorKind.CONFIGURATION,
    "OptInRequired": ErrorKind.CONFIGURATION,
    "RequestLimitExceeded": ErrorKind.THROTTLING,
    "Throttling": ErrorKind.THROTTLING,
    "Unavailable": ErrorKind.THROTTLING,
}


def bought(ec2, **changes):
    ec2.buy(purchase(**changes), USER_DATA, [EXPIRES])
    return [one for one in ec2.machines("one") if one.state is not MachineState.GONE]


def groups(ec2):
    """Return the names of the placement groups."""
    found = ec2._calls.rows("ec2", "describe_placement_groups", "PlacementGroups")
    return sorted(row["GroupName"] for row in found)


def created(endpoint):
    return [(name, params) for name, params in endpoint.calls() if name == "CreateFleet"]


def test_the_regions_share_what_describes_the_services():
    described = [
        Ec2Client(region).client("ec2").meta.service_model.metadata
        for region in (REGION, "eu-west-1")
    ]

    assert described[0] is described[1]


def test_the_same_token_buys_nothing_twice_in_another_process_with_other_user_data(ec2, endpoint):
    same = purchase()

    ec2.buy(same, USER_DATA, [EXPIRES])
    later = Ec2(REGION, endpoint=endpoint.url)
    later.buy(same, USER_DATA + "# another key", [("workbench:expires", "2100000000")])

    assert len(later.machines("one")) == 3


def test_a_refusal_that_was_not_written_down_is_repeated_as_it_was(ec2, endpoint):
    same = purchase()
    endpoint.refuse(("InsufficientInstanceCapacity", "none"))

    for _ in range(2):
        with pytest.raises(CloudError) as refused:
            ec2.buy(same, USER_DATA, [EXPIRES])

    assert (refused.value.kind, refused.value.code) == (
        ErrorKind.CAPACITY,
        "InsufficientInstanceCapacity",
    )
    assert ec2.machines("one") == ()


def test_a_token_that_came_to_nothing_is_not_waited_for_forever(ec2, endpoint, waits):
    same = purchase()
    endpoint.refuse(("InsufficientInstanceCapacity", "none"))

    for expires in ("1", "2"):
        with pytest.raises(CloudError) as refused:
            ec2.buy(same, USER_DATA, [("workbench:expires", expires)])

    assert (refused.value.kind, refused.value.code) == (
        ErrorKind.CAPACITY,
        "IdempotentParameterMismatch",
    )
    assert 60 <= sum(waits) <= 70


def test_a_lost_answer_is_repeated_without_buying_twice(ec2, endpoint):
    same = purchase()
    endpoint.fail("CreateFleet", "Unavailable", times=9, after=True)

    with pytest.raises(CloudError) as refused:
        ec2.buy(same, USER_DATA, [EXPIRES])
    endpoint.clear_faults()
    ec2.buy(same, USER_DATA, [EXPIRES])

    assert refused.value.kind == ErrorKind.THROTTLING
    assert len(ec2.machines("one")) == 3


def test_two_threads_with_the_same_token_buy_once(ec2):
    same = purchase()
    threads = [
        threading.Thread(target=ec2.buy, args=(same, USER_DATA, [EXPIRES])) for _ in range(3)
    ]

    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(ec2.machines("one")) == 3


def test_a_200_with_errors_alone_is_a_refusal_that_leaves_nothing(ec2, endpoint):
    endpoint.refuse(("InsufficientInstanceCapacity", "There is no Spot capacity."))

    with pytest.raises(CloudError) as refused:
        bought(ec2)

    assert refused.value.kind == ErrorKind.CAPACITY
    assert {left.kind for left in ec2.leftovers("one")} == {"security group"}


@pytest.mark.parametrize("how", ["raised", "in a 200"])
@pytest.mark.parametrize("code", CODES)
def test_every_code_is_refused_with_its_kind_and_sentence(ec2, endpoint, code, how):
    if how == "raised":
        endpoint.fail("CreateFleet", code, "as EC2 says it", times=-1)
    else:
        for _ in range(2):  # a right is asked for twice
            endpoint.refuse((code, "as EC2 says it"))

    with pytest.raises(CloudError) as refused:
        bought(ec2)

    # The answer is kept for the token, so patience alone does not change it.
    kept = CODES[code] is ErrorKind.THROTTLING and how == "in a 200"
    assert (refused.value.kind, refused.value.code) == (
        ErrorKind.BUSY if kept else CODES[code],
        code,
    )
    expected = classified(code, "as EC2 says it")
    assert (refused.value.what, refused.value.remedy) == (expected.what, expected.remedy)
    assert refused.value.__cause__ is not None or how == "in a 200"


def test_capacity_in_one_of_several_pools_is_what_counts(ec2, endpoint):
    endpoint.refuse(("SpotMaxPriceTooLow", ""), ("InsufficientInstanceCapacity", ""))

    with pytest.raises(CloudError) as refused:
        bought(ec2)

    assert refused.value.kind == ErrorKind.CAPACITY


def test_a_zone_that_never_has_the_type_hides_no_reason(ec2, endpoint):
    endpoint.refuse(("Unsupported", ""), ("SpotMaxPriceTooLow", ""))

    with pytest.raises(CloudError) as refused:
        bought(ec2)

    assert refused.value.kind == ErrorKind.PRICE


def test_fewer_than_asked_for_are_taken_down_to_the_least(ec2, endpoint):
    endpoint.pool(TYPE, ZONE, 2)

    assert len(bought(ec2, count=3, min_nodes=2)) == 2


def test_fewer_than_the_least_are_not_taken(ec2, endpoint):
    endpoint.pool(TYPE, ZONE, 1)

    with pytest.raises(CloudError, match="fallback"):
        bought(ec2, count=3, min_nodes=2)

    assert ec2.machines("one") == ()


def test_all_nodes_get_the_same_type_and_zone(ec2, endpoint):
    for zone in "abcdef":
        endpoint.pool(TYPE, f"us-east-1{zone}", 3)

    machines = bought(ec2, types=(TYPE, OTHER), zone="", count=4, min_nodes=4)

    assert len(machines) == 4
    assert {one.type for one in machines} == {OTHER}
    assert len({one.zone for one in machines}) == 1


def test_nodes_close_together_have_pools_of_their_own(ec2, endpoint):
    endpoint.pool(TYPE, ZONE, 9, close=1)

    with pytest.raises(CloudError) as refused:
        bought(ec2, placement=True)

    assert refused.value.kind == ErrorKind.CAPACITY
    assert len(bought(ec2)) == 3


def test_a_fleet_is_close_together_in_a_new_zone_while_the_old_one_empties(ec2, endpoint):
    endpoint.settings(ending=30)
    ec2.end([one.id for one in bought(ec2, placement=True)])

    machines = bought(ec2, placement=True, zone=OTHER_ZONE)

    standing = [one for one in machines if one.state is not MachineState.STOPPING]
    assert {one.zone for one in standing} == {OTHER_ZONE}
    assert groups(ec2) == [f"workbench-one-{ZONE}", f"workbench-one-{OTHER_ZONE}"]


def test_a_placement_group_that_is_empty_goes_when_another_zone_gets_one(ec2):
    ec2.end([one.id for one in bought(ec2, placement=True)])

    bought(ec2, placement=True, zone=OTHER_ZONE)

    assert groups(ec2) == [f"workbench-one-{OTHER_ZONE}"]


def test_a_placement_group_of_no_use_goes_with_its_purchase(ec2, endpoint):
    endpoint.pool(TYPE, ZONE, 9, close=0)

    with pytest.raises(CloudError):
        bought(ec2, placement=True)

    assert groups(ec2) == []


def test_the_placement_group_of_nodes_stays_when_one_more_cannot_join_them(ec2, endpoint):
    bought(ec2, placement=True)
    endpoint.pool(TYPE, ZONE, 9, close=0)

    with pytest.raises(CloudError):
        bought(ec2, placement=True)

    assert groups(ec2) == [f"workbench-one-{ZONE}"]


def test_clean_deletes_the_placement_groups_of_all_zones(ec2, endpoint):
    endpoint.settings(ending=5)
    bought(ec2, placement=True)
    bought(ec2, placement=True, zone=OTHER_ZONE)

    *_, last = cleaned(ec2, endpoint)

    assert last == ()
    assert groups(ec2) == []


def test_the_quota_is_reported_and_kept(ec2, endpoint):
    endpoint.quota("L-34B43A08", 5)
    machines = bought(ec2, count=2)

    [offer] = ec2.offers(Needs(types=(TYPE,), zones=(ZONE,)))
    with pytest.raises(CloudError) as refused:
        bought(ec2, count=1, min_nodes=1)

    assert offer.quota == 5 - 2 * len(machines)
    assert refused.value.kind == ErrorKind.QUOTA


def test_the_request_is_for_a_fleet_that_never_buys_by_itself(ec2, endpoint):
    bought(ec2, token="abc")

    [(_, asked)] = created(endpoint)
    spot = asked["SpotOptions"]

    assert asked["Type"] == "instant"
    assert asked["ClientToken"] == "abc"
    assert spot["AllocationStrategy"] == "price-capacity-optimized"
    assert spot["SingleInstanceType"]
    assert spot["SingleAvailabilityZone"]
    assert int(spot["MinTargetCapacity"]) == 2


def test_nodes_are_encrypted_need_tokens_for_metadata_and_end_when_they_shut_down(ec2, endpoint):
    [first, *_] = bought(ec2)

    client = ec2._calls.client("ec2")
    [row] = ec2._calls.rows(
        "ec2", "describe_instances", "Reservations.Instances", InstanceIds=[first.id]
    )
    [volume] = client.describe_volumes(
        Filters=[{"Name": "attachment.instance-id", "Values": [first.id]}]
    )["Volumes"]
    assert row["MetadataOptions"]["HttpTokens"] == "required"
    assert row["MetadataOptions"]["HttpPutResponseHopLimit"] == 1
    assert volume["Encrypted"]
    assert volume["VolumeType"] == "gp3"
    assert row["BlockDeviceMappings"][0]["Ebs"]["DeleteOnTermination"]
    assert endpoint.instance(first.id)["shutdown"] == "terminate"
    assert "KeyName" not in row


def test_what_computes_by_credits_slows_down_instead_of_costing_more(ec2, endpoint):
    bought(ec2, types=("t3.large",))
    bought(ec2, cluster="other")

    made = [asked for name, asked in endpoint.calls() if name == "CreateLaunchTemplate"]
    credits = [one["LaunchTemplateData"].get("CreditSpecification") for one in made]
    assert credits == [{"CpuCredits": "standard"}, None]


def test_the_first_candidate_of_a_fleet_without_needs_is_had(ec2, endpoint, tmp_path):
    here, there = (Ec2(REGION, endpoint=endpoint.url, types=tmp_path) for _ in range(2))

    first, again = (candidates(Needs(), one.offers(Needs()), 4, 4)[0] for one in (here, there))

    machines = bought(
        ec2, types=first.types, zone=first.zone, count=4, min_nodes=4, placement=first.placement
    )
    assert len(machines) == 4
    assert first.placement
    assert again == first
    asked = [params for name, params in endpoint.calls() if name == "DescribeInstanceTypes"]
    assert (
        len([params for params in asked if "Filters" in params and "NextToken" not in params]) == 1
    )


def test_prices_are_not_asked_of_a_clock_that_is_ahead(ec2, endpoint):
    before = time.time()

    ec2.offers(Needs(types=(TYPE,)))

    [asked] = [params for name, params in endpoint.calls() if name == "DescribeSpotPriceHistory"]
    assert datetime.fromisoformat(str(asked["StartTime"])).timestamp() < before - 50


def test_everything_is_tagged_inside_the_call_that_makes_it(ec2, endpoint):
    bought(ec2, placement=True, token="abc")

    making = [
        (name, params)
        for name, params in endpoint.calls()
        if name.startswith(("Create", "Import", "Run"))
    ]
    assert "CreateTags" not in {name for name, _ in making}
    for name, params in making:
        reported = params["TagSpecifications"]
        if name == "CreateLaunchTemplate":
            reported = reported + params["LaunchTemplateData"]["TagSpecifications"]
        for part in reported:
            tags = {tag["Key"]: tag["Value"] for tag in part["Tags"]}
            assert tags["workbench:cluster"] == "one", (name, part)
            assert tags["workbench:expires"] == EXPIRES[1], (name, part)
            if name in ("CreateFleet", "CreateLaunchTemplate"):
                assert tags["workbench:token"] == "abc", (name, part)


def test_the_group_lets_in_its_members_alone(ec2):
    bought(ec2)

    [group] = ec2._calls.rows(
        "ec2",
        "describe_security_groups",
        "SecurityGroups",
        Filters=[{"Name": "group-name", "Values": ["workbench-one"]}],
    )
    [rule] = group["IpPermissions"]
    assert [pair["GroupId"] for pair in rule["UserIdGroupPairs"]] == [group["GroupId"]]
    assert not rule["IpRanges"]
    assert not rule["Ipv6Ranges"]


def test_ssh_can_be_let_in_from_this_computer_and_not_from_everywhere(endpoint):
    ec2 = Ec2(REGION, lambda: NodeSettings(["10.1.2.3/32"]), endpoint=endpoint.url)
    bought(ec2)

    with pytest.raises(InputError, match="this computer alone"):
        bought(Ec2(REGION, lambda: NodeSettings(["0.0.0.0/0"]), endpoint=endpoint.url))


def test_what_was_bought_is_reported_before_it_is_listed(ec2, endpoint):
    endpoint.settings(lag=30)

    machines = bought(ec2, token="abc")

    assert [(one.state, one.token) for one in machines] == [(MachineState.PENDING, "abc")] * 3


def test_a_machine_that_is_not_listed_yet_can_be_ended(ec2, endpoint, waits):
    endpoint.settings(lag=30)
    machines = bought(ec2)

    ec2.end([one.id for one in machines])

    assert 30 <= sum(waits) <= 40
    assert {one.state for one in ec2.machines("one")} == {MachineState.GONE}


def test_ending_what_is_gone_is_as_good(ec2):
    machines = bought(ec2)
    ids = [one.id for one in machines]

    ec2.end(ids[:1])
    ec2.end(["i-0123456789abcdef0", *ids])
    ec2.end([])

    assert {one.state for one in ec2.machines("one")} == {MachineState.GONE}
    assert all(one.ended for one in ec2.machines("one"))


def cleaned(ec2, endpoint, rounds=20):
    """Clean until nothing is left; return what was left after each round."""
    seen = []
    for ahead in range(rounds):
        seen.append(ec2.clean("one"))
        if not seen[-1]:
            break
        endpoint.settings(ahead=10.0 * (ahead + 1))
    return seen


def test_clean_continues_until_nothing_is_left(ec2, endpoint):
    endpoint.settings(ending=25, boot=5)
    bought(ec2, placement=True)

    *_, before, last = cleaned(ec2, endpoint)

    assert before
    assert last == ()
    assert ec2.leftovers() == ()


def test_clean_ends_machines_that_are_not_listed_yet(ec2, endpoint):
    endpoint.settings(lag=40)
    bought(ec2)

    cleaned(ec2, endpoint)

    endpoint.settings(lag=0)
    assert {one.state for one in ec2.machines("one")} == {MachineState.GONE}


def test_who_cleans_up_after_a_crash_does_not_take_what_is_not_listed_for_nothing(ec2, endpoint):
    endpoint.settings(lag=40)
    bought(ec2)
    heir = Ec2(REGION, endpoint=endpoint.url)

    first, *_, last = cleaned(heir, endpoint)

    kinds = {left.kind for left in first}
    assert "launch template" in kinds
    assert not kinds & {"instance", "fleet"}
    assert last == ()
    assert {one.state for one in heir.machines("one")} == {MachineState.GONE}


def test_what_may_not_be_deleted_is_reported_after_the_rest_was_deleted(ec2, endpoint):
    bought(ec2, placement=True)
    endpoint.deny("DeletePlacementGroup")

    with pytest.raises(CloudError, match="DeletePlacementGroup"):
        ec2.clean("one")

    assert {left.kind for left in ec2.leftovers("one")} == {"placement group"}


@pytest.mark.weekly  # it buys 61 nodes, one by one
def test_a_bucket_of_pages_is_read_to_the_last(ec2):
    for _ in range(61):
        ec2.buy(purchase(count=1, min_nodes=1), USER_DATA, [EXPIRES])

    left = ec2.leftovers("one")

    assert sum(one.kind == "launch template" for one in left) == 61
    assert len(ec2.machines("one")) == 61
    rounds = 1
    while ec2.clean("one"):  # EC2 may throttle so many deletions
        rounds += 1
        assert rounds < 20


def test_an_interruption_is_reported_as_such(ec2, endpoint):
    [first, *_] = bought(ec2)
    endpoint.interrupt(first.id, 0)

    [machine] = [one for one in ec2.machines("one") if one.id == first.id]

    assert machine.state is MachineState.GONE
    assert machine.interrupted
    assert machine.ended
    assert "Spot" in machine.reason


def test_a_node_that_shuts_itself_down_is_gone(ec2, endpoint):
    [first, *_] = bought(ec2)
    endpoint.shut_down(first.id)

    [machine] = [one for one in ec2.machines("one") if one.id == first.id]

    assert machine.state is MachineState.GONE
    assert not machine.interrupted


def test_offers_say_the_baseline_the_price_and_its_history(ec2, endpoint):
    endpoint.price(TYPE, ZONE, 0.0123)

    [offer] = ec2.offers(Needs(types=(TYPE,), zones=(ZONE,)), 86_400)

    assert offer.price == 0.0123
    assert (offer.network, offer.burst) == (0.75, 10.0)
    assert (offer.vcpus, offer.memory) == (2, 4.0)
    assert len(offer.history) >= 3
    assert [at for at, _ in offer.history] == sorted(at for at, _ in offer.history)


def test_quotas_that_may_not_be_read_are_unknown(ec2, endpoint):
    endpoint.fail("ListServiceQuotas", "AccessDeniedException", times=-1)

    [offer] = ec2.offers(Needs(types=(TYPE,), zones=(ZONE,)))

    assert offer.quota is None


@pytest.mark.parametrize(("type_", "image"), [(TYPE, "0deb12"), ("g4dn.xlarge", "dca37ea5")])
def test_the_image_that_is_looked_up_has_the_drivers_that_the_nodes_need(ec2, type_, image):
    [finding] = [one for one in ec2.permissions(purchase(types=(type_,))) if one.check == "image"]

    assert finding.ok
    assert f", ami-{image}" in finding.found


@pytest.mark.parametrize(
    ("image", "sentence"),
    [
        ("/no/such/parameter", "has no public image .*no SSM parameter /no/such/parameter"),
        ("ami-00000000", "image"),
    ],
)
def test_an_image_that_is_not_there_is_reported_with_the_remedy(endpoint, image, sentence):
    ec2 = Ec2(REGION, lambda: NodeSettings(image=image), endpoint=endpoint.url)

    [finding] = [one for one in ec2.permissions(purchase()) if one.check == "image"]

    assert finding.ok is False
    assert re.search(sentence, finding.remedy)
    with pytest.raises(CloudError, match=sentence):
        ec2.buy(purchase(), USER_DATA, [])


def test_all_that_a_purchase_needs_is_tried_without_doing_anything(ec2, endpoint):
    findings = ec2.permissions(purchase(placement=True))

    assert [one for one in findings if one.ok is False] == []
    assert {"credentials", "image", "quota", "ec2:CreateFleet", "ec2:TerminateInstances"} <= {
        one.check for one in findings
    }
    assert ec2.leftovers() == ()
    assert created(endpoint)[0][1]["DryRun"]


@pytest.mark.parametrize("action", ["CreateFleet", "RunInstances", "TerminateInstances"])
def test_a_permission_that_is_missing_is_found_with_its_remedy(ec2, endpoint, action):
    endpoint.deny(action)

    [wrong] = [one for one in ec2.permissions(purchase()) if one.ok is False]

    assert wrong.check == f"ec2:{action}"
    assert "--iam" in wrong.remedy


def test_a_purchase_over_the_quota_is_found_before_it_is_made(ec2, endpoint):
    endpoint.quota("L-34B43A08", 4)

    [wrong] = [one for one in ec2.permissions(purchase()) if one.ok is False]

    assert wrong.check == "quota"
    assert "need 6 vCPUs, and 4 are left" in wrong.remedy


def test_without_credentials_that_is_all_that_is_found(endpoint, monkeypatch):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name)

    [wrong] = Ec2(REGION, endpoint=endpoint.url).permissions(purchase())

    assert (wrong.check, wrong.ok) == ("credentials", False)
    assert "aws configure" in wrong.remedy


def test_a_place_that_does_not_answer_is_given_time():
    with pytest.raises(CloudError) as refused:
        Ec2(REGION, endpoint="http://127.0.0.1:9", attempts=1).machines()

    assert (refused.value.kind, refused.value.code) == (ErrorKind.THROTTLING, "NoAnswer")


class Bare:
    """A session with a node on which scripts do nothing, or fail."""

    host = Host("10.0.0.1", 1, user="root")

    def __init__(self, *answers: Completed) -> None:
        self.scripts: list[str] = []
        self._answers = list(answers)

    def run(self, command, *, input="", seconds=60.0):
        self.scripts.append(input)
        return self._answers.pop(0) if self._answers else Completed(0, "", "")


def test_what_was_taken_off_a_node_is_put_back_whatever_becomes_of_its_image(ec2, endpoint):
    [node, *_] = bought(ec2)
    session = Bare()
    endpoint.fail("CreateImage", "InvalidParameterValue", after=True)

    with pytest.raises(CloudError, match=r"yet the image ami-.* exists, is billed"):
        ec2.bake_from(session, node.id, "set up", "one")

    assert session.scripts == [away(), back()]


class Noting(Bare):
    """A session that notes, before each script, whether the disk was taken."""

    def __init__(self, endpoint, ec2) -> None:
        super().__init__()
        self.taken: list[bool] = []
        self._api = boto3.client("ec2", region_name=REGION, endpoint_url=endpoint.url)

    def run(self, command, *, input="", seconds=60.0):
        ours = [{"Name": "tag-key", "Values": [IMAGE]}]
        self.taken.append(bool(self._api.describe_snapshots(Filters=ours)["Snapshots"]))
        return super().run(command, input=input, seconds=seconds)


def test_what_is_a_nodes_own_stays_away_until_the_disk_is_taken(ec2, endpoint):
    [node, *_] = bought(ec2)
    endpoint.settings(picture=2, imaging=60)
    session = Noting(endpoint, ec2)

    image = ec2.bake_from(session, node.id, "set up", "one")

    assert session.scripts == [away(), back()]
    assert session.taken == [False, True]
    assert ec2.image(image) == ImageProgress("pending", 40)


def test_an_image_whose_disk_is_not_taken_in_time_is_deleted(ec2, endpoint, waits):
    [node, *_] = bought(ec2)
    endpoint.settings(picture=10_000)
    session = Bare()

    with pytest.raises(CloudError, match=r"did not copy the disk for ami-.* within 120 s"):
        ec2.bake_from(session, node.id, "set up", "one")

    assert session.scripts == [away(), back()]
    assert {left.kind for left in ec2.leftovers("one", images=True)}.isdisjoint({"image"})


def test_an_image_that_may_hold_keys_and_cannot_be_deleted_is_named(ec2, endpoint, waits):
    [node, *_] = bought(ec2)
    endpoint.settings(picture=10_000)
    endpoint.deny("DeregisterImage")

    with pytest.raises(CloudError, match=r"may contain keys .* `workbench image delete ami-"):
        ec2.bake_from(Bare(), node.id, "set up", "one")


def test_a_node_with_data_of_a_persons_is_not_baked(ec2, endpoint):
    [node, *_] = bought(ec2)
    session = Bare(Completed(3, "", "/home/you/workbench-data holds files of yours"))

    with pytest.raises(
        MachineError, match="would be in the image; bake from a new node without runs"
    ):
        ec2.bake_from(session, node.id, "set up", "one")

    assert ec2.leftovers("one", images=True) == ec2.leftovers("one")


def test_an_image_that_may_not_be_made_leaves_the_node_alone(ec2, endpoint):
    [node, *_] = bought(ec2)
    session = Bare()
    endpoint.deny("CreateImage")

    with pytest.raises(CloudError, match="CreateImage"):
        ec2.bake_from(session, node.id, "set up", "one")

    assert session.scripts == []


def test_an_image_says_how_far_it_is_and_goes_with_its_snapshot(ec2, endpoint):
    endpoint.settings(imaging=60)
    [node, *_] = bought(ec2)
    image = ec2.bake_from(Bare(), node.id, "set up", "one")
    assert ec2.image(image) == ImageProgress("pending", 40)

    endpoint.settings(ahead=61)

    assert ec2.image(image) == ImageProgress("available", 100)
    [snapshot] = ec2.discard(image)
    assert snapshot.startswith("snap-")
    assert {left.kind for left in ec2.leftovers("one", images=True)}.isdisjoint(
        {"image", "snapshot"}
    )


def test_only_a_baked_image_is_deleted(ec2):
    with pytest.raises(CloudError, match="was not baked by workbench, so it was not deleted"):
        ec2.discard("ami-785db401")


def test_a_baked_image_stays_until_it_is_asked_to_go(ec2, endpoint):
    [node, *_] = bought(ec2)
    ec2.bake_from(Bare(), node.id, "set up", "one")

    assert ec2.clean("one") == ()
    assert {left.kind for left in ec2.leftovers("one", images=True)} == {"image", "snapshot"}
    assert ec2.clean("one", images=True) == ()


# What no call of ours is named after: EC2 asks for it while it carries out another one.
IMPLIED = {"ec2:CreateTags", "iam:CreateServiceLinkedRole", "iam:PassRole"}


def whole_life(ec2, endpoint, ssh_sources):
    """Live all that a cluster may live, with what an earlier version and a crash left."""
    api = boto3.client("ec2", region_name=REGION, endpoint_url=endpoint.url)
    subnet = api.describe_subnets()["Subnets"][0]["SubnetId"]
    api.import_key_pair(KeyName="workbench-one", PublicKeyMaterial=KEY, **tagged("key-pair"))
    api.create_volume(AvailabilityZone=ZONE, Size=1, **tagged("volume"))
    api.create_network_interface(SubnetId=subnet, **tagged("network-interface"))
    mine = len(endpoint.calls())
    regions(REGION, endpoint.url)
    ec2.offers(Needs(types=(TYPE,)), 3600)
    endpoint.settings(ending=5)
    [node, *_] = bought(ec2, placement=True)
    ssh_sources[:] = ["203.0.113.8/32"]
    ec2.admit("one")
    assert "Kernel command line" in last_words(ec2._calls, node.id)
    image = ec2.bake_from(Bare(), node.id, "set up", "one")
    ec2.image(image)
    ec2.discard(image)
    ec2.bake_from(Bare(), node.id, "again", "one")
    ec2.end([node.id])
    for round_ in range(3):
        ec2.clean("one", images=True)
        endpoint.settings(ahead=90.0 * (round_ + 1))
    assert ec2.leftovers("one", images=True) == ()
    return endpoint.calls()[mine:]


def tagged(kind):
    tags = [{"Key": "workbench:cluster", "Value": "one"}]
    return {"TagSpecifications": [{"ResourceType": kind, "Tags": tags}]}


def test_the_policies_allow_what_a_whole_life_calls_and_nothing_else(endpoint):
    ssh_sources = ["203.0.113.7/32"]
    ec2 = Ec2(REGION, lambda: NodeSettings(ssh_sources), endpoint=endpoint.url)
    others = set()
    for service in ("sts", "ssm", "service-quotas", "pricing"):
        events = ec2._calls.client(service).meta.events
        events.register("before-call.*.*", lambda model, **_: others.add(action(model)))

    called = {f"ec2:{name}" for name, _ in whole_life(ec2, endpoint, ssh_sources)}
    ec2._catalogue.list_price(TYPE)  # of nodes on demand
    tried = ec2.permissions(purchase(placement=True))

    person, baker = actions(Principal.PERSON), actions(Principal.BAKER)
    rights = {one.check for one in tried if one.check.startswith("ec2:")}
    assert person | baker == called | others | {"ec2:RunInstances"} | IMPLIED
    assert person - baker <= rights | others | IMPLIED | {"ec2:DescribeSubnets", "ec2:DescribeVpcs"}
    assert rights <= person


def actions(principal):
    every = [one["Action"] for one in policy(principal)["Statement"]]
    return {name for names in every for name in ([names] if isinstance(names, str) else names)}


def action(model):
    prefix = {"service-quotas": "servicequotas"}.get(
        model.service_model.service_name, model.service_model.service_name
    )
    return f"{prefix}:{model.name}"


def test_nothing_is_bought_that_this_computers_address_could_not_reach(endpoint, monkeypatch):
    ec2 = Ec2(REGION, lambda: NodeSettings(["203.0.113.7/32"]), endpoint=endpoint.url)
    monkeypatch.setattr(ec2._way, "address", lambda: "198.51.100.4")

    with pytest.raises(CloudError, match=r"address is now 198\.51\.100\.4") as refused:
        ec2.buy(purchase(), "", ())

    assert refused.value.kind is ErrorKind.BUSY
    [way] = [one for one in ec2.permissions(purchase()) if one.check == "way to nodes"]
    assert way.ok is False
    assert ec2.leftovers() == ()


def test_why_no_node_answers_is_found_here_first_then_on_its_console(endpoint, monkeypatch):
    ssh_sources = ["203.0.113.7/32"]
    ec2 = Ec2(REGION, lambda: NodeSettings(ssh_sources), endpoint=endpoint.url)
    [node, *_] = bought(ec2)

    monkeypatch.setattr(ec2._way, "fault", lambda sources: None)
    offline = ec2.explain_silence([node])
    monkeypatch.setattr(ec2._way, "explain", lambda sources: "")
    beyond = ec2.explain_silence([node])
    endpoint.deny("GetConsoleOutput")

    assert "may be offline" in offline
    assert f"the console of {node.id} ends with: " in beyond
    assert "Kernel command line: root=/dev/sda1 ro 4 / Enabling fast FPU" in beyond
    assert ec2.explain_silence([node]).startswith("Check the network between this computer and")


def test_two_people_with_clusters_of_one_name_do_not_touch_each_others(endpoint):
    mine, theirs = (Ec2(REGION, endpoint=endpoint.url, owner=o) for o in "ab")
    mine.buy(replace(purchase(), token="a"), "", ())
    theirs.buy(replace(purchase(), token="b"), "", ())
    name = purchase().cluster

    assert {one.token for one in mine.machines(name)} == {"a"}
    assert {left.owner for left in mine.leftovers(name)} == {"a"}
    before = theirs.leftovers(name)
    while mine.clean(name):
        pass
    assert theirs.leftovers(name) == before
    assert {left.owner for left in Ec2(REGION, endpoint=endpoint.url).leftovers()} == {"b"}
    while theirs.clean(name):
        pass


def test_nothing_is_bought_that_could_not_be_reached(endpoint):
    far = Ec2(REGION, endpoint=endpoint.url, must_reach=True)

    with pytest.raises(CloudError, match="--ssh-from") as refused:
        far.buy(purchase(), "", ())

    assert refused.value.kind is ErrorKind.CONFIGURATION
    assert far.leftovers() == ()


def test_who_moved_is_let_in_from_where_they_are_now(endpoint):
    ssh_sources = ["203.0.113.7/32"]
    ec2 = Ec2(REGION, lambda: NodeSettings(ssh_sources), endpoint=endpoint.url)
    ec2.admit(purchase().cluster)  # there is nothing yet to be let in to
    ec2.buy(purchase(), "", ())
    ssh_sources = ["203.0.113.8/32"]
    for _ in range(2):
        ec2.admit(purchase().cluster)

    calls = boto3.client("ec2", region_name=REGION, endpoint_url=endpoint.url)
    groups = calls.describe_security_groups()["SecurityGroups"]
    [group] = [one for one in groups if one["GroupName"] != "default"]
    let_in = {r["CidrIp"] for rule in group["IpPermissions"] for r in rule["IpRanges"]}
    assert let_in == {"203.0.113.8/32"}

"""The rehearsal's EC2 returns AWS's errors, with AWS's codes and messages."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

REGION, ZONE, OTHER_ZONE = "us-east-1", "us-east-1a", "us-east-1b"
TYPE, BURSTABLE = "c5.large", "t3.xlarge"
IMAGE = "ami-785db401"
names = (f"thing{number}" for number in itertools.count())


class Account:
    """An account, as boto3 reaches it."""

    def __init__(self, endpoint):
        self.endpoint = endpoint
        self.ec2 = self.client("ec2")
        self.vpc = self.ec2.describe_vpcs()["Vpcs"][0]["VpcId"]
        rows = self.ec2.describe_subnets()["Subnets"]
        self.subnets = {row["AvailabilityZone"]: row["SubnetId"] for row in rows}

    def client(self, service):
        return boto3.client(service, region_name=REGION, endpoint_url=self.endpoint.url)

    def group(self):
        asked = {"GroupName": next(names), "Description": "x", "VpcId": self.vpc}
        return self.ec2.create_security_group(**asked)["GroupId"]

    def placement_group(self):
        name = next(names)
        self.ec2.create_placement_group(GroupName=name, Strategy="cluster")
        return name

    def template(self, **data):
        root = {"DeviceName": "/dev/sda1", "Ebs": {"VolumeSize": 30, "DeleteOnTermination": True}}
        name = next(names)
        self.ec2.create_launch_template(
            LaunchTemplateName=name,
            LaunchTemplateData={"ImageId": IMAGE, "BlockDeviceMappings": [root], **data},
        )
        return name

    def fleet(self, template, *pools, count=1, **more):
        overrides = [{"InstanceType": t, "SubnetId": self.subnets[z]} for t, z in pools]
        named = {"LaunchTemplateName": template, "Version": "1"}
        return self.ec2.create_fleet(
            Type="instant",
            LaunchTemplateConfigs=[
                {
                    "LaunchTemplateSpecification": named,
                    "Overrides": overrides or [self.override()],
                }
            ],
            SpotOptions={"MinTargetCapacity": count},
            TargetCapacitySpecification={
                "TotalTargetCapacity": count,
                "DefaultTargetCapacityType": "spot",
            },
            **more,
        )

    def override(self):
        return {"InstanceType": TYPE, "SubnetId": self.subnets[ZONE]}

    def run(self, **changes):
        """Try to launch one machine, without doing so."""
        asked = {"ImageId": IMAGE, "InstanceType": TYPE, "SubnetId": self.subnets[ZONE]}
        return refusal(
            self.ec2.run_instances, MinCount=1, MaxCount=1, DryRun=True, **(asked | changes)
        )

    def row(self, fleet):
        [part] = fleet["Instances"]
        answer = self.ec2.describe_instances(InstanceIds=part["InstanceIds"])
        return answer["Reservations"][0]["Instances"][0]


@pytest.fixture
def account(endpoint):
    return Account(endpoint)


def refusal(call, **asked):
    """Return the code and the words with which a call is refused."""
    with pytest.raises(ClientError) as refused:
        call(**asked)
    error = refused.value.response["Error"]
    return error["Code"], error["Message"]


def codes(fleet):
    """Return the codes in the errors of a fleet that has no machines."""
    assert fleet["Instances"] == []
    return [error["ErrorCode"] for error in fleet["Errors"]]


def test_a_cluster_placement_group_takes_no_burstable_type(account):
    """dstackai/dstack#2872; ``PlacementGroupInfo.SupportedStrategies`` of the real type data."""
    template = account.template(Placement={"GroupName": account.placement_group()})

    answer = account.fleet(template, (BURSTABLE, ZONE))

    assert codes(answer) == ["InvalidParameterCombination"]
    assert answer["Errors"][0]["ErrorMessage"].startswith(
        "Cluster placement groups are not supported by the 't3.xlarge' instance type."
    )


def test_a_type_that_the_group_takes_is_launched_although_another_is_refused(account):
    """CreateFleet reports each pool of an instant fleet by itself (EC2 API reference)."""
    template = account.template(Placement={"GroupName": account.placement_group()})

    answer = account.fleet(template, (BURSTABLE, ZONE), (TYPE, ZONE))

    assert account.row(answer)["InstanceType"] == TYPE


def test_a_placement_group_stays_in_its_zone_until_its_last_machine_is_terminated(account):
    """bcbio/bcbio-nextgen-vm#45."""
    account.endpoint.settings(ending=30)
    template = account.template(Placement={"GroupName": account.placement_group()})
    first = account.row(account.fleet(template, (TYPE, ZONE)))
    account.ec2.terminate_instances(InstanceIds=[first["InstanceId"]])

    shutting_down = account.fleet(template, (TYPE, OTHER_ZONE))
    account.endpoint.settings(ahead=31)
    after = account.fleet(template, (TYPE, OTHER_ZONE))

    assert codes(shutting_down) == ["InvalidPlacementGroup.InUse"]
    assert shutting_down["Errors"][0]["ErrorMessage"].endswith(
        "is in use in another availability zone: us-east-1a"
    )
    assert account.row(after)["Placement"]["AvailabilityZone"] == OTHER_ZONE


def test_a_type_that_the_zone_never_has_is_an_invalid_fleet_configuration(account):
    """hashicorp/packer#9946; compiler-explorer/infra#601."""
    answer = account.fleet(account.template(), ("c5.large", "us-east-1e"))

    assert codes(answer) == ["InvalidFleetConfiguration"]
    assert answer["Errors"][0]["ErrorMessage"] == (
        "Your requested instance type (c5.large) is not supported in your requested "
        "Availability Zone (us-east-1e)."
    )


def later(account, seconds):
    account.endpoint.settings(ahead=seconds)


def test_a_new_template_is_unknown_at_first_and_then_to_what_launches(account):
    """Karpenter reads the code from the exception and from the errors alike."""
    account.endpoint.settings(late=10)
    template = account.template()

    first = refusal(account.fleet, template=template)
    later(account, 6)
    second = account.fleet(template)
    later(account, 11)

    assert first[0] == "InvalidLaunchTemplateName.NotFoundException"
    assert codes(second) == ["InvalidLaunchTemplateName.NotFoundException"]
    assert account.fleet(template)["Instances"]


def make_group(account):
    return {"SecurityGroupIds": [account.group()]}


def make_interface(account):
    return {"NetworkInterfaces": [{"DeviceIndex": 0, "Groups": [account.group()]}]}


def make_key(account):
    name = next(names)
    account.ec2.import_key_pair(KeyName=name, PublicKeyMaterial=KEY)
    return {"KeyName": name}


def make_placement_group(account):
    return {"Placement": {"GroupName": account.placement_group()}}


def make_profile(account):
    name = next(names)
    account.client("iam").create_instance_profile(InstanceProfileName=name)
    return {"IamInstanceProfile": {"Name": name}}


KEY = b"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl x"


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (make_group, "InvalidGroup.NotFound"),
        (make_interface, "InvalidSecurityGroupID.NotFound"),
        (make_key, "InvalidKeyPair.NotFound"),
        (make_placement_group, "InvalidPlacementGroup.Unknown"),
        (make_profile, "InvalidParameterValue"),
    ],
)
def test_what_was_just_made_is_not_known_yet_to_what_launches(account, make, code):
    """StarCluster#413; hashicorp/packer#9810; "Eventual consistency", EC2 API guide."""
    account.endpoint.settings(late=10)
    template = account.template(**make(account))

    later(account, 6)
    early = account.fleet(template)
    later(account, 11)

    assert codes(early) == [code]
    assert account.fleet(template)["Instances"]


def test_the_words_about_a_profile_are_those_of_ec2(account):
    """hashicorp/packer#9810: "Invalid IAM Instance Profile name"."""
    code, words = account.run(IamInstanceProfile={"Name": "absent"})

    assert code == "InvalidParameterValue"
    assert words == (
        "Value (absent) for parameter iamInstanceProfile.name is invalid. "
        "Invalid IAM Instance Profile name"
    )


def test_a_rule_cannot_be_added_at_once_to_a_new_group(account):
    """AuthorizeSecurityGroupIngress says InvalidGroup.NotFound (EC2 API, error codes)."""
    account.endpoint.settings(late=10)
    group = account.group()
    rule = {"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": group}]}
    asked = {"GroupId": group, "IpPermissions": [rule]}

    early = refusal(account.ec2.authorize_security_group_ingress, **asked)
    listed = account.ec2.describe_security_groups()["SecurityGroups"]
    later(account, 11)

    assert early[0] == "InvalidGroup.NotFound"
    assert group not in {one["GroupId"] for one in listed}
    account.ec2.authorize_security_group_ingress(**asked)


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({}, "DryRunOperation"),
        ({"ImageId": "ami-00000000"}, "InvalidAMIID.NotFound"),
        ({"InstanceType": "c5.tiny"}, "InvalidParameterValue"),
        ({"SubnetId": "subnet-00000000"}, "InvalidSubnetID.NotFound"),
        ({"SecurityGroupIds": ["sg-00000000000000000"]}, "InvalidGroup.NotFound"),
        ({"KeyName": "absent"}, "InvalidKeyPair.NotFound"),
        ({"IamInstanceProfile": {"Name": "absent"}}, "InvalidParameterValue"),
    ],
)
def test_a_dry_run_of_a_launch_resolves_what_it_names_first(account, changes, code):
    """Karpenter's dry runs have real ids, since only those are sure to be answered so."""
    assert account.run(**changes)[0] == code


def test_a_dry_run_finds_that_a_zone_never_has_a_type(account):
    """firesim/firesim#628."""
    code, words = account.run(SubnetId=account.subnets["us-east-1e"])

    assert code == "Unsupported"
    assert "choosing us-east-1a, us-east-1b" in words


NOTHING = "00000000000000000"


@pytest.mark.parametrize(
    ("operation", "asked", "code"),
    [
        ("terminate_instances", {"InstanceIds": [f"i-{NOTHING}"]}, "InvalidInstanceID.NotFound"),
        ("delete_security_group", {"GroupId": f"sg-{NOTHING}"}, "InvalidGroup.NotFound"),
        ("delete_volume", {"VolumeId": f"vol-{NOTHING}"}, "InvalidVolume.NotFound"),
        (
            "delete_launch_template",
            {"LaunchTemplateId": f"lt-{NOTHING}"},
            "InvalidLaunchTemplateId.NotFound",
        ),
        ("delete_placement_group", {"GroupName": "nothing"}, "InvalidPlacementGroup.Unknown"),
        ("delete_key_pair", {"KeyName": "nothing"}, "DryRunOperation"),
        ("describe_instances", {}, "DryRunOperation"),
    ],
)
def test_a_dry_run_of_a_deletion_resolves_what_it_names_first(account, operation, asked, code):
    """EC2 API reference, error codes of client errors; to delete a key pair always succeeds."""
    assert refusal(getattr(account.ec2, operation), **asked, DryRun=True)[0] == code


def test_a_dry_run_of_a_fleet_needs_a_template_that_is_there(account):
    """Karpenter makes the template before it tries CreateFleet."""
    real = account.template()

    assert refusal(account.fleet, template=real, DryRun=True)[0] == "DryRunOperation"
    assert (
        refusal(account.fleet, template="nothing", DryRun=True)[0]
        == "InvalidLaunchTemplateName.NotFoundException"
    )


def test_a_subnet_that_gives_no_public_address_gives_none_unless_the_template_asks(account):
    """``MapPublicIpOnLaunch``; Karpenter asks by ``AssociatePublicIpAddress``."""
    interface = {"DeviceIndex": 0, "Groups": [account.group()]}
    plain, asking, refusing = (
        account.template(NetworkInterfaces=[interface | more])
        for more in (
            {},
            {"AssociatePublicIpAddress": True},
            {"AssociatePublicIpAddress": False},
        )
    )
    with_public = [account.row(account.fleet(one)) for one in (plain, refusing)]
    account.endpoint.subnets(public=False)

    without = [account.row(account.fleet(one)) for one in (plain, asking)]

    assert [bool(row.get("PublicIpAddress")) for row in with_public] == [True, False]
    assert [bool(row.get("PublicIpAddress")) for row in without] == [False, True]
    assert without[0]["SecurityGroups"][0]["GroupId"] == interface["Groups"][0]


def test_security_groups_are_in_the_interface_or_beside_it_and_not_in_both(account):
    """RunInstances: groups of an instance and a network interface exclude each other."""
    group = account.group()
    interface = {"DeviceIndex": 0, "Groups": [group]}
    template = account.template(NetworkInterfaces=[interface], SecurityGroupIds=[group])

    assert codes(account.fleet(template)) == ["InvalidParameterCombination"]


def test_machines_that_are_going_and_just_gone_count_against_quota_and_pool(account):
    """The quota counts pending and shutting-down machines, and is a while behind."""
    account.endpoint.quota("L-34B43A08", 2)
    account.endpoint.pool(TYPE, OTHER_ZONE, 1)
    account.endpoint.settings(ending=30, counted=60)
    template = account.template()
    first = account.row(account.fleet(template))
    account.ec2.terminate_instances(InstanceIds=[first["InstanceId"]])

    going = account.fleet(template)
    later(account, 35)
    gone = account.fleet(template)
    later(account, 95)

    assert codes(going) == codes(gone) == ["MaxSpotInstanceCountExceeded"]
    assert account.fleet(template)["Instances"]


def test_a_fleet_without_machines_has_failed_and_is_not_deletable(account):
    """EC2 API reference: the fleet's states have ``failed``, the errors of DeleteFleets
    ``fleetNotInDeletableState``."""
    account.endpoint.pool(TYPE, ZONE, 0)
    id_ = account.fleet(account.template())["FleetId"]

    answer = account.ec2.delete_fleets(FleetIds=[id_], TerminateInstances=True)

    [failed] = answer["UnsuccessfulFleetDeletions"]
    assert failed["Error"]["Code"] == "fleetNotInDeletableState"
    assert states(account, id_) == ["failed"]


def test_a_deleted_fleet_ends_its_machines_first(account):
    """EC2 API reference: ``deleted_terminating``."""
    account.endpoint.settings(ending=30)
    id_ = account.fleet(account.template())["FleetId"]

    account.ec2.delete_fleets(FleetIds=[id_], TerminateInstances=True)
    before = states(account, id_)
    later(account, 31)

    assert (before, states(account, id_)) == (["deleted_terminating"], ["deleted"])


def states(account, id_):
    return [one["FleetState"] for one in account.ec2.describe_fleets(FleetIds=[id_])["Fleets"]]


def test_an_account_on_the_free_plan_has_few_types(account):
    """Accounts since July 2025: "not eligible for Free Tier"."""
    account.endpoint.settings(free_plan=True)

    assert codes(account.fleet(account.template())) == ["InvalidParameterCombination"]
    assert account.run(InstanceType="t3.micro")[0] == "DryRunOperation"


def test_machines_whose_disks_spot_may_not_encrypt_end_before_they_run(account):
    """EC2 guide, "Spot instance … Client.InternalError": a customer managed key needs a grant."""
    account.endpoint.settings(customer_key=True, boot=10)
    row = account.row(account.fleet(account.template()))
    later(account, 11)

    answer = account.ec2.describe_instances(InstanceIds=[row["InstanceId"]])

    [ended] = answer["Reservations"][0]["Instances"]
    assert row["State"]["Name"] == "pending"
    assert ended["State"]["Name"] == "terminated"
    assert ended["StateReason"]["Code"] == "Client.InternalError"


def test_the_catalogue_is_the_real_one(account):
    """DescribeInstanceTypes of all regions, as it ships in moto."""
    pages = account.ec2.get_paginator("describe_instance_types").paginate()
    rows = [row for page in pages for row in page["InstanceTypes"]]

    assert len(rows) == len({row["InstanceType"] for row in rows}) > 1300
    spot = [
        row
        for row in rows
        if "spot" in row["SupportedUsageClasses"]
        and "x86_64" in row["ProcessorInfo"]["SupportedArchitectures"]
    ]
    lacking = [r for r in spot if "cluster" not in r["PlacementGroupInfo"]["SupportedStrategies"]]
    assert len(lacking) > 50


SIGNED_BY = {"aws_access_key_id": "AKIAOLD", "aws_secret_access_key": "x"}


@pytest.mark.parametrize(
    ("service", "operation", "code"),
    [
        ("ec2", "describe_vpcs", "RequestExpired"),
        ("sts", "get_caller_identity", "ExpiredToken"),
        ("ssm", "describe_parameters", "ExpiredTokenException"),
        ("s3", "list_buckets", "ExpiredToken"),
    ],
)
def test_a_call_with_an_expired_key_is_refused_in_the_services_words(
    account, service, operation, code
):
    """aws/aws-sdk-java#1443; jenkinsci/ec2-plugin#1008; aws/aws-sdk-go#253."""
    place = {"region_name": REGION, "endpoint_url": account.endpoint.url}
    old = boto3.client(service, **place, **SIGNED_BY)
    getattr(old, operation)()
    account.endpoint.expire("AKIAOLD")

    assert refusal(getattr(old, operation))[0] == code
    new = boto3.client(service, **place, **SIGNED_BY | {"aws_access_key_id": "AKIANEW"})
    getattr(new, operation)()


def test_a_key_that_is_not_known_is_not_validated(account):
    """EC2: AuthFailure, "AWS was not able to validate the provided access credentials"."""
    account.endpoint.know("AKIANEW")
    place = {"region_name": REGION, "endpoint_url": account.endpoint.url}

    assert refusal(boto3.client("ec2", **place, **SIGNED_BY).describe_vpcs)[0] == "AuthFailure"


def test_calls_take_tokens_from_a_bucket_that_is_refilled(account):
    """EC2 developer guide, "Request throttling": a bucket for each action and region."""
    once = boto3.client(
        "ec2",
        region_name=REGION,
        endpoint_url=account.endpoint.url,
        config=Config(retries={"total_max_attempts": 1}),
    )
    account.endpoint.throttle("DescribeVpcs", 2, 0.01)

    for _ in range(2):
        once.describe_vpcs()

    assert refusal(once.describe_vpcs)[0] == "RequestLimitExceeded"
    once.describe_subnets()
    later(account, 200)
    once.describe_vpcs()


@pytest.mark.parametrize(
    ("type_", "asked", "credits"),
    [
        ("t3.large", {}, "unlimited"),
        ("t3.large", {"CreditSpecification": {"CpuCredits": "standard"}}, "standard"),
        ("t2.large", {}, "standard"),
        (TYPE, {}, ""),
    ],
)
def test_burstable_types_are_unlimited_unless_asked_otherwise(account, type_, asked, credits):
    """EC2 guide, "Unlimited mode": the default of T3 and T3a, on spot too."""
    row = account.row(account.fleet(account.template(**asked), (type_, ZONE)))

    assert account.endpoint.instance(row["InstanceId"])["credits"] == credits


def image_of(account, parameter):
    [found] = account.client("ssm").get_parameters(Names=[parameter])["Parameters"]
    return account.ec2.describe_images(ImageIds=[found["Value"]])["Images"][0]


DEBIAN = "/aws/service/debian/release/12/latest/amd64"
UBUNTU = "/aws/service/canonical/ubuntu/server/24.04/stable/current/amd64/hvm/ebs-gp3/ami-id"
DEEP = "/aws/service/deeplearning/ami/x86_64/base-oss-nvidia-driver-gpu-ubuntu-24.04/latest/ami-id"


@pytest.mark.parametrize(
    ("parameter", "root", "gib"),
    [(DEBIAN, "/dev/xvda", 8), (UBUNTU, "/dev/sda1", 8), (DEEP, "/dev/sda1", 75)],
)
def test_public_images_have_their_own_root(account, parameter, root, gib):
    """The public parameters of Debian, Canonical and AWS."""
    image = image_of(account, parameter)

    [mapping] = image["BlockDeviceMappings"]
    assert (image["RootDeviceName"], mapping["DeviceName"]) == (root, root)
    assert mapping["Ebs"]["VolumeSize"] == gib


@pytest.mark.parametrize(
    ("parameter", "type_", "work"),
    [
        (DEEP, "g4dn.xlarge", True),
        (DEEP, "p3dn.24xlarge", False),
        (UBUNTU, "g4dn.xlarge", False),
    ],
)
def test_the_images_driver_decides_which_gpus_work(account, parameter, type_, work):
    """aws/aws-parallelcluster#6014: the open kernel modules drive Turing and newer alone."""
    root = {"DeviceName": "/dev/sda1", "Ebs": {"VolumeSize": 100}}
    id_ = image_of(account, parameter)["ImageId"]
    template = account.template(ImageId=id_, BlockDeviceMappings=[root])
    zone = next(
        row["Location"]
        for row in account.ec2.describe_instance_type_offerings(
            LocationType="availability-zone",
            Filters=[{"Name": "instance-type", "Values": [type_]}],
        )["InstanceTypeOfferings"]
    )

    row = account.row(account.fleet(template, (type_, zone)))

    assert account.endpoint.instance(row["InstanceId"])["gpus_work"] is work


def test_a_root_that_is_smaller_than_its_image_is_refused(account):
    """EC2: InvalidBlockDeviceMapping, "expect size>= 75GB"."""
    image = image_of(account, DEEP)["ImageId"]

    assert codes(account.fleet(account.template(ImageId=image))) == ["InvalidBlockDeviceMapping"]


def test_a_type_of_another_processor_than_the_images_is_refused(account):
    """EC2: InvalidParameterValue, "does not match the architecture"."""
    answer = account.fleet(account.template(), ("c6g.large", ZONE))

    assert codes(answer) == ["InvalidParameterValue"]


def test_an_image_takes_the_disk_some_time_after_the_call_returned(account):
    """CreateImage is asynchronous; the snapshot's StartTime says when."""
    account.endpoint.settings(picture=20, late=5, imaging=60)
    row = account.row(fleet_later(account))
    asked = {"InstanceId": row["InstanceId"], "Name": next(names), "NoReboot": True}
    called = datetime.now(UTC) + timedelta(seconds=60)
    id_ = account.ec2.create_image(**asked)["ImageId"]

    assert refusal(account.ec2.describe_images, ImageIds=[id_])[0] == "InvalidAMIID.NotFound"
    later(account, 66)
    assert snapshots(account, id_) == []
    later(account, 85)
    [snapshot] = snapshots(account, id_)
    rows = account.ec2.describe_snapshots(SnapshotIds=[snapshot])["Snapshots"]
    assert timedelta(seconds=20) <= rows[0]["StartTime"] - called <= timedelta(seconds=40)
    assert rows[0]["VolumeSize"] == 30


def test_the_image_of_a_machine_that_ended_meanwhile_fails(account):
    """EC2 API reference: an image's state may be ``failed``."""
    account.endpoint.settings(picture=20)
    row = account.row(account.fleet(account.template()))
    id_ = account.ec2.create_image(InstanceId=row["InstanceId"], Name=next(names))["ImageId"]
    account.ec2.terminate_instances(InstanceIds=[row["InstanceId"]])
    later(account, 21)

    [image] = account.ec2.describe_images(ImageIds=[id_])["Images"]

    assert image["State"] == "failed"


def fleet_later(account):
    """Launch a machine from a template that is already known."""
    template = account.template()
    later(account, 60)
    return account.fleet(template)


def snapshots(account, image):
    [found] = account.ec2.describe_images(ImageIds=[image])["Images"]
    disks = [mapping["Ebs"] for mapping in found["BlockDeviceMappings"]]
    return [disk["SnapshotId"] for disk in disks if "SnapshotId" in disk]

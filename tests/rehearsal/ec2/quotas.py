"""Count the used part of the account's quotas, and answer requests for them."""

from __future__ import annotations

import json
from typing import Any

from moto.core.exceptions import JsonRESTError
from moto.servicequotas.responses import ServiceQuotasResponse

from tests.rehearsal.ec2.answers import vcpus
from tests.rehearsal.ec2.market import MARKET
from workbench.cloud.ec2.inventory import quota_code


class Quotas(ServiceQuotasResponse):  # type: ignore[misc]  # moto has no types
    """moto's service quotas, with those of EC2."""

    def list_service_quotas(self) -> str:
        if fault := MARKET.fault("ListServiceQuotas", after=False):
            raise JsonRESTError(fault.code, fault.message)
        asked = json.loads(self.body)
        start = int(asked.get("NextToken") or 0)
        rows = [
            {"QuotaCode": code, "ServiceCode": "ec2", "QuotaName": "All … Spot", "Value": value}
            for code, value in MARKET.quotas.items()
        ]
        more = {"NextToken": str(start + 4)} if start + 4 < len(rows) else {}
        return json.dumps({"Quotas": rows[start : start + 4], **more})


def count_used(backend: Any, code: str) -> int:
    """Return the vCPUs that count against a quota.

    A machine counts while it is shutting down, and some time after it is terminated.
    """
    found = [one for one in backend.all_instances() if one.state != "terminated"]
    found += [
        backend.get_instance(id_)
        for id_ in MARKET.held
        if MARKET.region_of[id_] == backend.region_name
    ]
    return sum(
        vcpus(one.instance_type)
        for one in found
        if quota_code(one.instance_type, on_demand=one.lifecycle != "spot") == code
    )

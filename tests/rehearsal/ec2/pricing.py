"""Answer GetProducts of AWS's price list, which moto does not have."""

from __future__ import annotations

import json
from typing import Any

from tests.rehearsal.ec2.answers import gpus, type_facts, vcpus, zones_of
from tests.rehearsal.ec2.credentials import SIGNED, Answer
from tests.rehearsal.ec2.market import MARKET, list_price

JSON = "application/x-amz-json-1.1"
ACTION = "AWSPriceListService.GetProducts"
PAGE = 100
# What a plain machine has; without such a filter, the list has many more of each type.
PLAIN = {
    "operatingSystem": "Linux", "preInstalledSw": "NA", "tenancy": "Shared",
    "capacitystatus": "Used", "marketoption": "OnDemand",
}  # fmt: skip
REGIONS = ("us-east-1", "eu-central-1", "ap-south-1")


def is_for(environ: dict[str, Any]) -> bool:
    """Whether a call is one of the price list."""
    signed = SIGNED.search(environ.get("HTTP_AUTHORIZATION", ""))
    return signed is not None and signed[2] == "pricing"


def answer(environ: dict[str, Any]) -> Answer:
    """Answer a call."""
    asked = json.loads(environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"])))
    region = environ["HTTP_AUTHORIZATION"].split("/")[2]
    with MARKET.lock:
        MARKET.calls.append(("GetProducts", asked))
        fault = MARKET.fault("GetProducts", after=False)
    if fault:
        return _refuse(fault.code, fault.message)
    if region not in REGIONS:
        return _refuse("NoSuchEndpoint", f"{region} has no endpoint of the price list.")
    if environ["HTTP_X_AMZ_TARGET"] != ACTION or asked["ServiceCode"] != "AmazonEC2":
        return _refuse("NotFoundException", "The service code is not known.")
    wanted = {one["Field"]: one["Value"] for one in asked["Filters"]}
    if missing := PLAIN.items() - wanted.items():
        return _refuse("InvalidParameterException", f"many products are alike without {missing}")
    types = sorted(_types(wanted))
    start = int(asked.get("NextToken") or 0)
    more = {"NextToken": str(start + PAGE)} if start + PAGE < len(types) else {}
    rows = [json.dumps(_product(type_, wanted)) for type_ in types[start : start + PAGE]]
    body = {"FormatVersion": "aws_v1", "PriceList": rows, **more}
    return "200 OK", JSON, json.dumps(body).encode()


def _refuse(code: str, message: str) -> Answer:
    return "400 Bad Request", JSON, json.dumps({"__type": code, "message": message}).encode()


def _types(wanted: dict[str, str]) -> list[str]:
    from moto.ec2.models.instance_types import INSTANCE_TYPES

    named = wanted.get("instanceType")
    types = [named] if named else INSTANCE_TYPES
    return [one for one in types if type_facts(one) and zones_of(one, wanted["regionCode"])]


def _product(type_: str, wanted: dict[str, str]) -> dict[str, Any]:
    """Return one entry, in the form of the price list guide."""
    sku = f"{abs(hash(type_)):X}"
    attributes = {**PLAIN, "instanceType": type_, "regionCode": wanted["regionCode"]}
    price = list_price(vcpus(type_), gpus(type_))
    dimension = {
        "unit": "Hrs", "beginRange": "0", "endRange": "Inf",
        "pricePerUnit": {"USD": f"{price:.10f}"}, "appliesTo": [],
    }  # fmt: skip
    term = {"priceDimensions": {f"{sku}.JRTCKXETXF.6YS6EN2CT7": dimension}, "sku": sku}
    return {
        "product": {"productFamily": "Compute Instance", "attributes": attributes, "sku": sku},
        "serviceCode": "AmazonEC2",
        "terms": {"OnDemand": {f"{sku}.JRTCKXETXF": term}, "Reserved": {}},
    }

"""Deny calls with expired or unknown access keys, with each service's own message.

EC2 says RequestExpired (aws/aws-sdk-java#1443), STS ExpiredToken (jenkinsci/ec2-plugin#1008), and
services that speak JSON say ExpiredTokenException (aws/aws-sdk-go#253).
"""

from __future__ import annotations

import json
import re
from typing import Any
from xml.sax.saxutils import escape

from tests.rehearsal.ec2.answers import Refusal
from tests.rehearsal.ec2.market import MARKET

SIGNED = re.compile(r"Credential=([^/]+)/\d+/[^/]+/([^/]+)/aws4_request")
EXPIRED: dict[str, Refusal] = {
    "ec2": ("RequestExpired", "Request has expired."),
    "s3": ("ExpiredToken", "The provided token has expired."),
    "query": ("ExpiredToken", "The security token included in the request is expired"),
    "json": ("ExpiredTokenException", "The security token included in the request is expired"),
}
UNKNOWN: dict[str, Refusal] = {
    "ec2": ("AuthFailure", "AWS was not able to validate the provided access credentials"),
    "s3": ("InvalidAccessKeyId", "The AWS Access Key Id you provided does not exist."),
    "query": ("InvalidClientTokenId", "The security token included in the request is invalid."),
    "json": ("UnrecognizedClientException", "The security token in the request is invalid."),
}
STATUS = {"ec2": "400 Bad Request", "s3": "400 Bad Request", "query": "403 Forbidden"}
WORDING = {"ec2": "ec2", "s3": "s3", "sts": "query", "iam": "query"}
# Status line, content type and body.
Answer = tuple[str, str, bytes]


def refuse(environ: dict[str, Any]) -> Answer | None:
    """Return the answer to a call that is signed with an invalid key."""
    signed = SIGNED.search(environ.get("HTTP_AUTHORIZATION", ""))
    if signed is None:
        return None
    key, service = signed.groups()
    wording = WORDING.get(service, "json")
    if key in MARKET.expired:
        return _answer(wording, EXPIRED[wording])
    if MARKET.keys and key not in MARKET.keys:
        return _answer(wording, UNKNOWN[wording])
    return None


def _answer(wording: str, refusal: Refusal) -> Answer:
    code, message = refusal
    status = STATUS.get(wording, "400 Bad Request")
    if wording == "json":
        body = json.dumps({"__type": code, "message": message})
        return status, "application/x-amz-json-1.1", body.encode()
    error = f"<Code>{code}</Code><Message>{escape(message)}</Message>"
    form = {
        "ec2": "<Response><Errors><Error>{}</Error></Errors><RequestID>r</RequestID></Response>",
        "s3": "<Error>{}<RequestId>r</RequestId></Error>",
        "query": "<ErrorResponse><Error><Type>Sender</Type>{}</Error>"
        "<RequestId>r</RequestId></ErrorResponse>",
    }
    return status, "text/xml", form[wording].format(error).encode()

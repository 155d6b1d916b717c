"""No request is served without a token, nor against the authorizer; all of our routes are tried."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, ClassVar

import pytest
from jupyter_server.auth import Authorizer
from tornado.httpclient import HTTPClientError
from tornado.web import RequestHandler
from tornado.websocket import WebSocketHandler

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
WITHOUT = {"Authorization": ""}


class NoOne(Authorizer):
    """Allows nothing, and records what was requested."""

    asked: ClassVar[set[tuple[str, str]]] = set()

    def is_authorized(self, handler: Any, user: Any, action: str, resource: str) -> bool:
        self.asked.add((action, resource))
        return False


@pytest.fixture
def jp_server_config(jp_server_config):
    # What a missing token refuses is not to be refused for a missing XSRF cookie instead.
    jp_server_config["ServerApp"]["disable_check_xsrf"] = True
    return jp_server_config


@pytest.fixture
def all_doors(jp_web_app) -> list[tuple[str, str, type]]:
    """Every method of every route of ours, with a path that fits."""
    found = []
    for pattern, handler, settings in routes(jp_web_app.default_router):
        _, ours, path = pattern.rstrip("$").partition("/workbench/api/")
        if ours:
            path = path.replace("([^/]+)", "260101-000000-aaaa")
            declared = [route.method for route in settings.get("routes", ())]
            found += [(method, path, handler) for method in declared or written(handler)]
    return found


def routes(router: Any) -> Iterator[tuple[str, type, dict[str, Any]]]:
    for rule in router.rules:
        if hasattr(rule.target, "rules"):
            yield from routes(rule.target)
        elif hasattr(rule.matcher, "regex"):
            yield rule.matcher.regex.pattern, rule.target, rule.target_kwargs


def written(handler: type) -> list[str]:
    """Return the methods that a handler has."""
    return [
        method
        for method in METHODS
        if getattr(handler, method.lower()) is not getattr(RequestHandler, method.lower())
    ]


async def knock(ask, follow, method: str, path: str, handler: type, **options: Any) -> int:
    """Return the status that one door answers with."""
    if not issubclass(handler, WebSocketHandler):
        return (await ask(method, *path.split("/"), **options)).status
    try:
        async with follow("260101-000000-aaaa", **options):
            return 101
    except HTTPClientError as error:
        return error.code


def test_the_doors_are_all_there_are(all_doors) -> None:
    doors = {(method, path.replace("260101-000000-aaaa", "…")) for method, path, _ in all_doors}

    assert doors == {
        ("GET", "clusters"),
        ("PUT", "clusters/…"),
        ("PATCH", "clusters/…"),
        ("DELETE", "clusters/…"),
        ("POST", "clusters/…/stop"),
        ("POST", "clusters/…/remove"),
        ("POST", "clusters/…/extend"),
        ("POST", "clusters/…/keep"),
        ("POST", "clusters/…/measure"),
        ("GET", "clusters/…/form"),
        ("POST", "clusters/…/offers"),
        ("POST", "clusters/…/estimate"),
        ("POST", "clusters/…/keys"),
        ("POST", "clusters/…/proof"),
        ("POST", "hosts"),
        ("GET", "runs"),
        ("GET", "runs/…"),
        ("POST", "runs/…/stop"),
        ("POST", "runs/…/resume"),
        ("GET", "runs/…/about"),
        ("GET", "runs/…/survey"),
        ("GET", "runs/…/bundle"),
        ("GET", "runs/…/curves"),
        ("GET", "runs/…/follow"),
        ("GET", "sweeps"),
        ("GET", "sweeps/…"),
        ("PUT", "turns/…"),
        ("DELETE", "turns/…"),
    }


async def test_a_method_that_a_path_lacks_is_refused(ask, cluster) -> None:
    answers = [
        await ask("POST", "clusters", cluster),
        await ask("PATCH", "runs"),
        await ask("DELETE", "clusters"),
    ]

    assert [answer.status for answer in answers] == [405] * 3


async def test_no_door_opens_without_a_token(all_doors, ask, follow, store) -> None:
    answers = {door: await knock(ask, follow, *door, headers=dict(WITHOUT)) for door in all_doors}

    assert set(answers.values()) == {403}
    assert store.clusters() == []


async def test_every_door_but_the_pages_own_opens_with_one(all_doors, ask, follow) -> None:
    answers = {await knock(ask, follow, *door) for door in all_doors}

    assert 403 not in answers


class TestAnAuthorizerThatSaysNo:
    @pytest.fixture
    def jp_server_config(self, jp_server_config):
        NoOne.asked.clear()
        jp_server_config["ServerApp"]["authorizer_class"] = NoOne
        return jp_server_config

    async def test_is_obeyed_at_every_door(self, all_doors, ask, follow, store) -> None:
        answers = {await knock(ask, follow, *door) for door in all_doors}

        assert answers == {403}
        assert NoOne.asked == {("read", "workbench"), ("write", "workbench")}
        assert store.clusters() == []


class TestAPageThatIsSignedInByCookie:
    @pytest.fixture
    def jp_server_config(self, jp_server_config):
        jp_server_config["ServerApp"]["disable_check_xsrf"] = False
        return jp_server_config

    @pytest.fixture
    def cookies(self, jp_fetch, jp_serverapp, jp_asyncio_loop) -> dict[str, str]:
        """The cookies of a page that was opened with the token in its address."""
        token = {"token": jp_serverapp.identity_provider.token}

        async def given(**options: Any) -> dict[str, str]:
            answer = await jp_fetch(
                "login", headers=dict(WITHOUT), follow_redirects=False, raise_error=False, **options
            )
            pairs = (line.partition(";")[0] for line in answer.headers.get_list("Set-Cookie"))
            return dict(pair.split("=", 1) for pair in pairs)

        async def both() -> dict[str, str]:
            return {**await given(), **await given(params=token)}

        return jp_asyncio_loop.run_until_complete(both())

    @pytest.fixture
    def headers(self, cookies, jp_http_port) -> dict[str, str]:
        host = f"127.0.0.1:{jp_http_port}"  # part of the cookie's name
        cookie = "; ".join(f"{name}={value}" for name, value in cookies.items())
        return {**WITHOUT, "Cookie": cookie, "Host": host}

    async def test_needs_the_xsrf_header_to_wish(
        self, ask, store, cluster, cookies, headers
    ) -> None:
        token = {"X-XSRFToken": cookies["_xsrf"]}

        read = await ask("GET", "clusters", headers=dict(headers))
        refused = await ask("DELETE", "clusters", cluster, headers=dict(headers))
        done = await ask("DELETE", "clusters", cluster, headers={**headers, **token})

        assert (read.status, refused.status, done.status) == (200, 403, 200)
        assert store.cluster_wish(cluster).revision == 2

    async def test_gets_nothing_if_it_is_of_another_origin(self, ask, follow, run, headers) -> None:
        async with follow(run.id, headers=dict(headers)) as page:
            await page.hear_a("hello")
        headers["Origin"] = "https://evil.example"

        answer = await ask("GET", "clusters", headers=dict(headers))
        with pytest.raises(HTTPClientError, match="403"):
            async with follow(run.id, headers=dict(headers)):
                pass

        assert answer.status in (403, 404)


async def test_a_refusal_for_want_of_a_token_is_not_mistaken_for_ours(ask) -> None:
    answer = await ask("GET", "clusters", headers=dict(WITHOUT))

    assert json.loads(answer.body).get("reason") != "workbench"

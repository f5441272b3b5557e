"""Who is refused: another host or site, no token, a long body. Every answer has its policy."""

import pytest
from starlette.testclient import TestClient

from extras.ui.conftest import PORT, TOKEN

ADDRESS = f"http://127.0.0.1:{PORT}"
RUN = {
    "item": "examples/two_against_one",
    "set": {"measure.duration_s": "11"},
    "rules": ["lia"],
    "seed": 1,
    "on": "sim",
}
ADDRESSES = ["/", "/static/app.js", "/api/start", "/api/jobs", "/api/item?id=examples/two_links"]


def test_the_page_with_the_token_may_run(client: TestClient):
    assert client.post("/api/run", json=RUN, headers={"origin": ADDRESS}).status_code == 200


@pytest.mark.parametrize("path", ADDRESSES)
def test_nothing_is_there_without_the_token(client: TestClient, path: str):
    assert client.get(path).status_code == 200
    for token in ("", "wrong", TOKEN + "x"):
        assert client.get(path, headers={"x-anabranch-token": token}).status_code == 401


def test_a_run_needs_the_token(client: TestClient):
    given = {"x-anabranch-token": "wrong", "origin": ADDRESS}
    assert client.post("/api/run", json=RUN, headers=given).status_code == 401


def test_the_address_with_the_token_gives_a_cookie_for_this_site_alone(client: TestClient):
    client.headers.pop("x-anabranch-token")
    answer = client.get(f"/?token={TOKEN}", follow_redirects=False)
    cookie = answer.headers["set-cookie"]
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert client.get("/api/start").status_code == 200
    client.cookies.clear()
    assert client.get("/api/start").status_code == 401


def test_an_address_with_a_wrong_token_gives_none(client: TestClient):
    client.headers.pop("x-anabranch-token")
    answer = client.get("/?token=wrong", follow_redirects=False)
    assert (answer.status_code, "set-cookie" in answer.headers) == (401, False)


@pytest.mark.parametrize(
    "host", ["evil.example", f"evil.example:{PORT}", "127.0.0.1", f"127.0.0.1:{PORT + 1}", ""]
)
def test_a_name_that_resolves_to_loopback_is_refused(client: TestClient, host: str):
    """DNS rebinding: the browser then takes this server for the attacker's."""
    assert client.get("/api/start", headers={"host": host}).status_code == 421


@pytest.mark.parametrize(
    "origin",
    ["https://evil.example", "null", f"https://127.0.0.1:{PORT}", f"http://127.0.0.1:{PORT + 1}"],
)
def test_another_origin_cannot_run_nor_read(client: TestClient, origin: str):
    assert client.post("/api/run", json=RUN, headers={"origin": origin}).status_code == 403
    assert client.get("/api/start", headers={"origin": origin}).status_code == 403


def test_a_form_of_another_site_cannot_run(client: TestClient):
    """It may carry a cookie, but neither this origin nor JSON."""
    client.cookies.set(f"anabranch-{PORT}", TOKEN)
    client.headers.pop("x-anabranch-token")
    assert client.post("/api/run", json=RUN).status_code == 403  # without an Origin
    for kind in ("text/plain", "application/x-www-form-urlencoded"):
        headers = {"origin": ADDRESS, "content-type": kind}
        assert client.post("/api/run", content="{}", headers=headers).status_code == 415


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_another_site_can_only_open_the_page(client: TestClient, site: str):
    headers = {"sec-fetch-site": site, "sec-fetch-mode": "no-cors"}
    assert client.get("/static/app.js", headers=headers).status_code == 403
    assert client.get("/api/start", headers=headers).status_code == 403
    headers["sec-fetch-mode"] = "navigate"
    assert client.get("/api/start", headers=headers).status_code == 403
    assert client.get("/", headers=headers).status_code == 200


def test_a_long_body_is_refused_also_if_its_length_is_not_announced(client: TestClient):
    long = {**RUN, "toml": "#" * 1_000_000}
    assert client.post("/api/run", json=long).status_code == 413
    parts = (b"#" * 100_000 for _ in range(11))
    headers = {"content-type": "application/json"}
    answer = client.post("/api/check", content=parts, headers=headers)
    assert answer.status_code == 422
    assert "too long" in answer.json()["error"]["message"]


@pytest.mark.parametrize("path", [*ADDRESSES, "/nowhere"])
def test_every_answer_allows_only_what_comes_from_here(client: TestClient, path: str):
    for headers in ({}, {"x-anabranch-token": "wrong"}, {"host": "evil.example"}):
        answer = client.get(path, headers=headers)
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cross-origin-resource-policy"] == "same-origin"
        assert "access-control-allow-origin" not in answer.headers


@pytest.mark.parametrize(
    "path", ["/static/../app.py", "/static/%2e%2e/app.py", "/static//etc/passwd"]
)
def test_no_other_file_is_served(client: TestClient, path: str):
    assert client.get(path).status_code == 404

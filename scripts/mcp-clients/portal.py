"""Connects to a Chaperone server's /mcp as an app would: through the official
Python MCP client and its own OAuth client, knowing nothing but the URL.

usage: portal.py URL MODE
MODE is legacy (initialize) or a protocol version such as 2026-07-28. Each line
on standard output is one JSON object: {"open": URL} asks for a person, whose
browser's last address is then read from standard input; the others tell what
happened. Exits 1 when something is wrong.
"""

import asyncio
import json
import sys
import uuid
from urllib.parse import parse_qs, urlsplit

import httpx2
from mcp import Client
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientMetadata


def tell(**what):
    print(json.dumps(what), flush=True)


class Storage:
    """Keeps tokens in memory."""

    tokens = client = None

    async def get_tokens(self):
        return self.tokens

    async def set_tokens(self, tokens):
        self.tokens = tokens

    async def get_client_info(self):
        return self.client

    async def set_client_info(self, client):
        self.client = client


class Person:
    """Asks for a person once; afterwards nobody is there."""

    asked = 0

    async def redirect(self, url):
        self.asked += 1
        if self.asked > 1:
            raise PermissionError("asked for a person again")
        tell(open=url)

    async def callback(self):
        line = await asyncio.to_thread(sys.stdin.readline)
        query = {k: v[0] for k, v in parse_qs(urlsplit(line.strip()).query).items()}
        return AuthorizationCodeResult(code=query["code"], state=query["state"], iss=query["iss"])


async def main(url, mode):
    storage, person = Storage(), Person()
    provider = OAuthClientProvider(
        server_url=url,
        client_metadata=OAuthClientMetadata(client_name="Portal probe", redirect_uris=["http://127.0.0.1:4711/cb"]),
        storage=storage,
        redirect_handler=person.redirect,
        callback_handler=person.callback,
    )
    async with httpx2.AsyncClient(auth=provider, timeout=30) as http:
        async with Client(streamable_http_client(url, http_client=http), mode=mode) as client:

            async def call(tool, **arguments):
                return await client.call_tool(tool, arguments)

            tools = await client.list_tools()
            tell(protocol=client.protocol_version, tools=[t.model_dump(by_alias=True, exclude_none=True, mode="json") for t in tools.tools])
            text = "From far away: ä < & \u2028"
            wrote = await call("item_write", collection="files", item="probe/note.txt", request_id=str(uuid.uuid4()), content=text, if_absent=True)
            assert not wrote.is_error, wrote
            read = await call("item_read", collection="files", item="probe/note.txt")
            assert read.structured_content["content"] == text, read
            assert json.loads(read.content[0].text) == read.structured_content, read
            missing = await call("item_read", collection="files", item="nothing")
            assert missing.is_error and missing.structured_content["code"] == "not_found", missing
            tell(wrote=wrote.structured_content["outcome"])

            before = storage.tokens.access_token
            origin = url.removesuffix("/mcp")
            async with httpx2.AsyncClient() as plain:
                renewed = await plain.post(origin + "/oauth/token", data={
                    "grant_type": "refresh_token", "refresh_token": storage.tokens.refresh_token, "client_id": storage.client.client_id})
                assert renewed.status_code == 200 and renewed.json()["access_token"] != before, renewed.text
                revoked = await plain.post(origin + "/oauth/revoke", data={"token": before, "client_id": storage.client.client_id})
                assert revoked.status_code == 200, revoked.text
            try:
                answer = await call("item_read", collection="files", item="probe/note.txt")
                tell(refused=None, answer=str(answer))
            except BaseException as e:
                tell(refused=type(e).__name__, asked=person.asked)


try:
    asyncio.run(asyncio.wait_for(main(*sys.argv[1:]), 60))
except BaseException as e:
    if not isinstance(e, (BaseExceptionGroup, PermissionError)):
        raise
    print(repr(e), file=sys.stderr)

"""Borrows a ladder from the example site, as an agent would: through the
official Python MCP client and `chaperone mcp`, knowing nothing of the page but
what its snapshot says.

usage: task.py CHAPERONE LIBRARY OFFICE MODE
MODE is legacy (initialize) or a protocol version such as 2026-07-28.
Prints one JSON object about what happened; exits 1 when something is wrong.
"""

import asyncio
import base64
import json
import re
import sys

from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client


def text(result):
    return "\n".join(part.text for part in result.content if part.type == "text")


def ref(snapshot, pattern):
    found = re.search(pattern + r".*?\[ref=(e\d+)\]", snapshot)
    assert found, f"no {pattern} in:\n{snapshot}"
    return "ref=" + found.group(1)


async def main(chaperone, library, office, mode):
    server = StdioServerParameters(command=chaperone, args=["mcp", "--allow", library.removeprefix("http://")])
    async with Client(stdio_client(server), mode=mode) as client:

        async def call(tool, **arguments):
            result = await client.call_tool(tool, arguments)
            assert not result.is_error, f"{tool}: {text(result)}"
            return result

        tools = await client.list_tools()
        opened = text(await call("browser_goto", url=library + "/"))
        assert "Harbour Street Tool Library" in opened, opened
        assert "counter.example.net" in opened, "the blocked counter isn't told: " + opened
        page = text(await call("browser_snapshot"))
        await call("browser_click", selector=ref(page, r'link "[^"]*Folding ladder'))
        page = text(await call("browser_snapshot", interactive=True))
        await call("browser_type", selector=ref(page, r'textbox "Your name'), text="Ada")
        await call("browser_select_option", selector=ref(page, r'combobox "For how long'), values=["7 days"])
        await call("browser_click", selector=ref(page, r'button "Borrow it'))
        await call("browser_wait_for", text="It is yours, Ada.")
        number = text(await call("browser_eval_js", expression="document.querySelector('#number').textContent"))
        shot = await call("browser_screenshot")
        image = next(part for part in shot.content if part.type == "image")
        assert base64.b64decode(image.data).startswith(b"\x89PNG"), "no PNG"
        refused = await client.call_tool("browser_goto", {"url": office + "/"})
        assert refused.is_error, text(refused)
        print(json.dumps({
            "protocol": client.protocol_version,
            "tools": len(tools.tools),
            "loan": number.splitlines()[0],
            "refusal": text(refused),
        }))


asyncio.run(main(*sys.argv[1:]))

"""``python -m chaperone_browser.qualify --api URL --registrations DIR``: one row a scenario."""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import sys
import tempfile
import time
from pathlib import Path

from .scenarios import LONG, SCENARIOS, TOGETHER, Bench, Failed
from .site import Site

PATIENCE = 180.0  # seconds, for one scenario


def _parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(
        prog="python -m chaperone_browser.qualify",
        description="Qualifies a running agent API server with the real browser host. The server serves "
        "chaperone_browser.qualify.graph:graph and has the registrations directory mounted at "
        f"/run/chaperone/browser-runs; it runs {TOGETHER + 2} runs at once. Ends with 0 when every scenario "
        "passed, else 5; 2 for bad arguments.",
    )
    p.add_argument("--api", required=True, metavar="URL", help="the server, e.g. http://127.0.0.1:2024")
    p.add_argument("--registrations", required=True, type=Path, metavar="DIR", help="the directory (0700) that it has mounted")
    p.add_argument("--binary", default="chaperone", metavar="FILE", help="the chaperone program, else the one on PATH")
    p.add_argument("--assistant", default="chaperone-qualify", metavar="NAME", help="the graph's name there")
    p.add_argument("--search", action="append", default=[], type=Path, metavar="PATH",
                   help="log, or folder of state, that no credential may be in; may be repeated")  # fmt: skip
    p.add_argument("--only", action="append", choices=SCENARIOS, metavar="SCENARIO", help="this one alone; may be repeated")
    p.add_argument("--json", action="store_true", help="one JSON row a scenario: scenario, status, seconds, detail")
    return p


async def _row(bench: Bench, name: str) -> dict[str, object]:
    begun = time.monotonic()
    status = "failed"
    try:
        detail = await asyncio.wait_for(SCENARIOS[name](bench), PATIENCE)
        status = "passed"
    except Failed as err:
        detail = str(err)
    except asyncio.TimeoutError:
        detail = f"not over after {PATIENCE:.0f} s"
    except Exception as err:  # the row says so, and the other scenarios go on
        detail = f"{type(err).__name__}: {err}"
    return {"scenario": name, "status": status, "seconds": round(time.monotonic() - begun, 1), "detail": detail}


async def _qualify(a: argparse.Namespace) -> bool:
    from langgraph_sdk import get_client

    def tell(row: dict[str, object]) -> bool:
        print(json.dumps(row) if a.json else f"{row['status']}  {row['scenario']}  {row['seconds']} s  {row['detail']}", flush=True)
        return row["status"] == "passed"

    passed = True
    names = [n for n in SCENARIOS if not a.only or n in a.only]
    with tempfile.TemporaryDirectory() as folder, Site(TOGETHER) as site:
        bench = Bench(get_client(url=a.api), a.assistant, a.registrations, a.binary, Path(folder), site, a.search)
        waiting = [asyncio.ensure_future(_row(bench, n)) for n in names if n in LONG]
        for name in names:
            if name not in LONG:
                passed &= tell(await _row(bench, name))
        for row in waiting:
            passed &= tell(await row)
    return passed


def main() -> int:
    """Run what the command line asks for and answer the exit code."""
    a = _parser().parse_args()
    logging.getLogger("httpx").setLevel(logging.WARNING)
    return 0 if asyncio.run(_qualify(a)) else 5


if __name__ == "__main__":
    sys.exit(main())

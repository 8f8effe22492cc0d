"""Serves the built site on this machine until it is stopped: `python book/serve.py _build/html`."""

from __future__ import annotations

import argparse
import functools
import http.server
from pathlib import Path


class Handler(http.server.SimpleHTTPRequestHandler):
    """Files as they are, with the types that browsers insist on for modules and WebAssembly."""

    extensions_map = {  # noqa: RUF012 - as the parent has it
        **http.server.SimpleHTTPRequestHandler.extensions_map,
        ".js": "text/javascript",
        ".mjs": "text/javascript",
        ".wasm": "application/wasm",
    }

    def log_message(self, *args: object) -> None:
        """Say nothing of each request."""


def server(folder: Path, port: int) -> http.server.ThreadingHTTPServer:
    """A server of `folder` at `port`, or at the next free one of the twenty after it."""
    handler = functools.partial(Handler, directory=str(folder))
    for number in range(port, port + 20):
        try:
            return http.server.ThreadingHTTPServer(("127.0.0.1", number), handler)
        except OSError:
            continue
    raise SystemExit(f"Ports {port} to {port + 19} are taken. Name another: make book PORT=9000")


def main() -> None:
    """Read the arguments, say the address, serve."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--port", type=int, default=8000)
    options = parser.parse_args()
    if not (options.folder / "index.html").is_file():
        raise SystemExit(f"There is no site in {options.folder}. Build it first: make site")
    with server(options.folder, options.port) as running:
        print(
            f"The book is at http://127.0.0.1:{running.server_address[1]}/  (stop with Ctrl-C)",
            flush=True,
        )
        try:
            running.serve_forever()
        except KeyboardInterrupt:
            print()


if __name__ == "__main__":
    main()

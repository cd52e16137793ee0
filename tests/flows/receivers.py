"""Local receivers of notifications: a web server and a mail server that record what they get."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer


@contextmanager
def webhook(status: int = 204, answer: str = "") -> Iterator[tuple[str, list[str]]]:
    """Run a web server; yields its address and the posted bodies. All requests get the same answer."""
    bodies: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            bodies.append(self.rfile.read(int(self.headers["Content-Length"])).decode())
            self.send_response(status)
            self.end_headers()
            self.wfile.write(answer.encode())

        def log_message(self, *_: object) -> None:
            return

    with _served(HTTPServer(("127.0.0.1", 0), Handler)) as port:
        yield f"http://127.0.0.1:{port}/hook", bodies


@contextmanager
def mailbox() -> Iterator[tuple[int, list[str]]]:
    """Run a minimal SMTP server; yields its port and the messages."""
    messages: list[str] = []

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            self.wfile.write(b"220 here\r\n")
            while line := self.rfile.readline():
                verb = line.strip().upper()
                if verb == b"DATA":
                    self.wfile.write(b"354 go on\r\n")
                    content = []
                    while (part := self.rfile.readline()) != b".\r\n":
                        content.append(part.decode())
                    messages.append("".join(content))
                self.wfile.write(b"221 bye\r\n" if verb == b"QUIT" else b"250 ok\r\n")
                if verb == b"QUIT":
                    return

    with _served(socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)) as port:
        yield port, messages


@contextmanager
def _served(server: socketserver.TCPServer) -> Iterator[int]:
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield int(server.server_address[1])
    finally:
        server.shutdown()
        thread.join()
        server.server_close()

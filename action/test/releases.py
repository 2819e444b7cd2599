"""A stand-in on loopback for the release server.

    python3 releases.py FOLDER

Serves the files of FOLDER, writes its port to FOLDER/port, and each request as a line of FOLDER/requests.
"""

import os
import sys
from functools import partial
from http.server import HTTPServer, SimpleHTTPRequestHandler

FOLDER = sys.argv[1]


class Handler(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        with open(os.path.join(FOLDER, "requests"), "a", encoding="utf-8") as file:
            file.write(self.path + "\n")


server = HTTPServer(("127.0.0.1", 0), partial(Handler, directory=FOLDER))
with open(os.path.join(FOLDER, "port.new"), "w", encoding="utf-8") as file:
    file.write(str(server.server_port))
os.replace(os.path.join(FOLDER, "port.new"), os.path.join(FOLDER, "port"))
server.serve_forever()

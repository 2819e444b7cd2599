"""A stand-in on loopback for the APIs of GitHub and GitLab: the comments of one pull request, the notes of one merge
request.

    python3 api.py FOLDER

Writes its port to FOLDER/port. The comments are FOLDER/comments.json, every request is a line of
FOLDER/requests.jsonl, and FOLDER/script.json holds answers that are given first, each once:
{"method": "POST", "status": 502, "headers": {"Retry-After": "1"}, "carriedOut": true}. The method of a GraphQL query is QUERY.
"""

import json
import os
import re
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from urllib.parse import parse_qs, urlsplit

FOLDER = sys.argv[1]
# Far below GitHub's hundred, so that a few comments have pages.
PAGE = 3
LIST = "/repos/acme/shop/issues/7/comments|/projects/9/merge_requests/7/notes"
ONE = r"(?:/repos/acme/shop/issues/comments|/projects/9/merge_requests/7/notes)/(\d+)"
# Who has the token.
ME = {"id": 42}


def load(name):
    with open(os.path.join(FOLDER, name), encoding="utf-8") as file:
        return json.load(file)


def store(name, value):
    with open(os.path.join(FOLDER, name), "w", encoding="utf-8") as file:
        json.dump(value, file)


class Handler(BaseHTTPRequestHandler):
    def answer(self, status, value, headers=None):
        body = json.dumps(value).encode()
        self.send_response(status)
        for name, text in (headers or {}).items():
            self.send_header(name, str(text))
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def handle_any(self):
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length).decode()
        record = {
            "method": self.command,
            "path": self.path,
            "authorization": self.headers.get("Authorization") or self.headers.get("PRIVATE-TOKEN"),
            "type": self.headers.get("Content-Type"),
            "body": json.loads(body) if body else None,
        }
        with open(os.path.join(FOLDER, "requests.jsonl"), "a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")
        script = load("script.json")
        for index, step in enumerate(script):
            if step["method"] == ("QUERY" if self.path == "/graphql" else self.command):
                del script[index]
                store("script.json", script)
                if step.get("carriedOut"):
                    self.carry_out(record)
                return self.answer(step["status"], {"message": "as scripted"}, step.get("headers"))
        return self.answer(*self.carry_out(record))

    def carry_out(self, record):
        comments = load("comments.json")
        url = urlsplit(record["path"])
        listed = re.fullmatch(LIST, url.path)
        single = re.fullmatch(ONE, url.path)
        if listed and record["method"] == "GET":
            page = int(parse_qs(url.query).get("page", ["1"])[0])
            rows = comments[(page - 1) * PAGE : page * PAGE]
            more = len(comments) > page * PAGE
            link = f'<http://localhost{url.path}?per_page=100&page={page + 1}>; rel="next"'
            return 200, rows, {"Link": link, "X-Next-Page": page + 1} if more else {"X-Next-Page": ""}
        if listed and record["method"] == "POST":
            comment = {
                "id": 1 + max([c["id"] for c in comments], default=100),
                "user": ME,
                "author": ME,
                "body": record["body"]["body"],
            }
            store("comments.json", [*comments, comment])
            return 201, comment
        if re.fullmatch(r"/repos/acme/shop/commits/[0-9a-f]+/pulls", url.path):
            return 200, load("pulls.json")
        if url.path == "/user":
            return 200, ME
        if url.path == "/graphql":
            return 200, {"data": {"viewer": {"databaseId": ME["id"]}}}
        for comment in comments:
            if single and record["method"] in ("PATCH", "PUT") and comment["id"] == int(single[1]):
                comment["body"] = record["body"]["body"]
                store("comments.json", comments)
                return 200, comment
        return 404, {"message": "Not Found"}

    do_GET = do_POST = do_PATCH = do_PUT = handle_any

    def log_message(self, *_):
        pass


server = HTTPServer(("127.0.0.1", 0), Handler)
store("port.new", server.server_port)
os.rename(os.path.join(FOLDER, "port.new"), os.path.join(FOLDER, "port"))
server.serve_forever()

# shellcheck shell=bash disable=SC2016,SC2154 # text is literal; variables are those of lib/setup.sh
# Findings on the file and line they are about, and nothing that a repo can smuggle in.
on workflow_dispatch '{}'
checkout refs/heads/main

play
plays check 2 '{"findings": [
  {"severity": "error", "code": "invalid-policy", "file": "web.yaml", "line": 6, "column": 3, "message": "100% wrong,\nreally: yes", "help": "write: less"},
  {"severity": "warning", "code": "unmatched", "file": "odd, name: 50%.yaml", "line": 1, "message": "no policy"},
  {"severity": "warning", "code": "unread", "file": "b.yaml", "message": "no place"},
  {"severity": "warning", "code": "lost", "message": "no file"}]}'
run 2 INPUT_COMMAND=check INPUT_PATHS=deploy
line log '::error file=deploy/web.yaml,line=6,col=3,title=invalid-policy::100%25 wrong,%0Areally: yes%0Ahelp: write: less'
line log '::warning file=deploy/odd%2C name%3A 50%25.yaml,line=1,title=unmatched::no policy'
line log '::warning file=deploy/b.yaml,title=unread::no place'
line log '::warning title=lost::no file'
line log 'error[invalid-policy] deploy/web.yaml:6:3: 100% wrong,'
line summary '    error[invalid-policy] deploy/web.yaml:6:3: 100% wrong,'
line summary '      help: write: less'
output summary "deploy: 1 error, 3 warnings"

# The same when the path is named from elsewhere.
run 2 INPUT_COMMAND=check INPUT_PATHS="$PWD/deploy"
has log 'error file=deploy/web.yaml,'
run 2 INPUT_COMMAND=check INPUT_PATHS=.
has log 'error file=web.yaml,'

# Ten of a level are shown by GitHub; the others are counted.
play
jq -n '{findings: [range(12) | {severity: "error", code: "e", file: "a.yaml", line: (. + 1), message: "m"}],
        more: [range(11) | {severity: "warning", code: "w", message: "m"}]} | .findings += .more' >"$work/play/check.out"
echo 2 >"$work/play/check.code"
run 2 INPUT_COMMAND=check
[ "$(grep -c '^::error ' "$work/log")" = 10 ] || wrong "not ten errors" log
[ "$(grep -c '^::warning ' "$work/log")" = 10 ] || wrong "not ten warnings" log
line log '::notice title=federate::2 more errors and 1 more warning: all are in the job summary'
has summary 'a.yaml:12'

# A repo that cannot be read has no findings, only a message.
play
plays check 2 '' $'error: cannot open the repo:\nno such folder'
run 2 INPUT_COMMAND=check INPUT_PATHS=gone
line log '::error title=federate::check failed for gone: error: cannot open the repo:%0Ano such folder'
output summary "gone: could not be checked"
output exit-code 2

# Text of the repo is no command for the runner, and cannot leave its block in the summary.
play
plays check 1 '{"findings": [{"severity": "warning", "code": "x", "message": "a\n::add-mask::secret\n```\n::error::b"}]}' '::set-env name=A::b'
plays plan 0 $'::add-path::/tmp\n```'
run 0 INPUT_COMMAND=plan
python3 - "$work/log" <<'PYTHON' || wrong "commands are not stopped around the output" log
import sys
stopped = None
for line in open(sys.argv[1], encoding="utf-8"):
    line = line.rstrip("\n")
    if stopped:
        stopped = None if line == f"::{stopped}::" else stopped
    elif line.startswith("::stop-commands::"):
        stopped = line[len("::stop-commands::"):]
        assert len(stopped) > 30
    elif line.startswith("::"):
        assert line.startswith(("::group::federate", "::endgroup::", "::error title=federate::plan failed", "::warning title=x::a%0A")), line
assert stopped is None
PYTHON
line summary '    ```'
! grep -qx '```' "$work/summary" || wrong "a fence of the repo stands alone" summary

# A summary above a MiB would be refused as a whole.
play
plays check 0 '{"findings": []}'
head -c 700000 /dev/zero | tr '\0' 'x' >"$work/play/diff.out"
echo 1 >"$work/play/diff.code"
run 0 INPUT_COMMAND=diff INPUT_BASE=main INPUT_PATHS=$'deploy\n.'
[ "$(wc -c <"$work/summary")" -lt 1048576 ] || wrong "the summary is too long" output
has summary "too long to show here"

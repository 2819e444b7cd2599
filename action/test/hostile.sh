# shellcheck shell=bash disable=SC2016,SC2154 # text is literal; variables are those of lib/setup.sh
# Pull requests of strangers: no program of theirs runs, and their text stays text.
fresh_api

# A carriage return ends a line of Markdown: it must not end the block of code that a finding stands in.
checkout refs/pull/7/merge
play
on_pull_request
plays check 2 "$(jq -n '{findings: [{severity: "error", code: "unknown-field", file: "a\r\r# Owned @team <img src=x>.yaml",
  line: 1, column: 1, message: "unknown key `x\r\n\n# Owned <b>@team\u0085\u2028`", help: "\r\r[x](https://e.vil)"}]}')"
plays diff 2 ""
run 2 INPUT_PATHS=deploy
python3 - "$work/summary" "$api/comments.json" <<'PYTHON' || wrong "text breaks out" summary
import json, re, sys
texts = [open(sys.argv[1], encoding="utf-8", newline="").read()]
texts += [comment["body"] for comment in json.load(open(sys.argv[2], encoding="utf-8"))]
assert len(texts) == 2
for text in texts:
    assert "Owned" in text and not re.search("[\r\x0b\x0c\x85\u2028]", text), repr(text)
    assert all(line.startswith("    ") for line in text.split("\n") if re.search("Owned|e.vil", line)), repr(text)
PYTHON

# The same for names of branches, which contain names of clusters.
checkout refs/heads/main
on_push "$old"
play
plays commit 0 '{"branches":[{"branch":"env/<img src=x>@team`_x_","commit":"0123456789abcdef"}],"changed":true}'
run 0 INPUT_BRANCH='env/{cluster}'
has_not summary '<img'
has_not summary '@team'
has summary 'env/&lt;img src=x&gt;&#64;<!-- -->team\`\_x\_ at 0123456789'
play
run 0 INPUT_COMMAND=check INPUT_PATHS='de`<b>@team'
has summary '## federate: <code>de\`&lt;b&gt;&#64;<!-- -->team</code>'

# A bare repository that the pull request brings is a folder of it. Its config names programs; git itself would take it.
ran=$work/ran
program=$work/program
printf '#!/bin/sh\ntouch %s\n' "$ran" >"$program"
chmod +x "$program"
checkout refs/pull/7/merge
on_pull_request
git init --quiet --bare --template= --initial-branch=main deploy
git --git-dir=deploy remote add origin "ext::$program %S"
for setting in core.fsmonitor core.sshCommand core.pager core.gitProxy remote.origin.uploadpack gpg.program credential.helper; do
  git --git-dir=deploy config "$setting" "$program"
done
git --git-dir=deploy config protocol.ext.allow always
play
run 0 INPUT_PATHS=deploy INPUT_BRANCH=env/rendered INPUT_BRANCH_PATH=
called "check --previous=$rendered:placements.yaml -o json -- deploy
plan --previous=$rendered:placements.yaml -o json -- deploy
diff --previous=$rendered:placements.yaml --from=$base.. -o markdown --from-name=main --to-name=feature --link=https://github.com/acme/shop/blob/$head --keep-going -- deploy"
[ ! -e "$ran" ] || wrong "a program of the pull request ran" log

# Titles and names of people are not used, names of branches only without special characters: nothing in them runs or is shown. Nor do names of files run.
checkout refs/pull/7/merge
evil="\$(touch $ran)\`touch $ran\`;touch $ran;<img src=x>@team --upload-pack=$program"
on pull_request "$(jq -n --arg base "$base" --arg head "$head" --arg evil "$evil" \
  '{action: "synchronize", number: 7, sender: {login: $evil}, pull_request: {number: 7, title: $evil, body: $evil, user: {login: $evil},
    base: {ref: "main", sha: $base}, head: {ref: $evil, label: $evil, sha: $head, repo: {full_name: $evil, clone_url: ("ext::" + $evil)}}}}')"
mkdir -p "deploy/--output=x" "deploy/\$(touch ran)"
printf 'kind: Odd\n' >$'deploy/a\n::error::b\r@team.yaml'
printf 'kind: Odd\n' >"deploy/--output=x/\`touch ran\`.yaml"
play
plays check 1 "$(jq -n --arg file $'a\n::error::b\r@team.yaml' '{findings: [{severity: "warning", code: "x", file: $file, line: 1, message: "m"}]}')"
run 0 INPUT_PATHS=deploy INPUT_BRANCH=env/rendered GITHUB_HEAD_REF="$evil" GITHUB_REF_NAME="$evil" GITHUB_ACTOR="$evil"
called "check --previous=$rendered:placements.yaml -o json -- deploy
plan --previous=$rendered:placements.yaml -o json -- deploy
diff --previous=$rendered:placements.yaml --from=$base.. -o markdown --from-name=main --link=https://github.com/acme/shop/blob/$head --keep-going -- deploy"
line log '::warning file=deploy/a%0A%3A%3Aerror%3A%3Ab%0D@team.yaml,line=1,title=x::m'
for file in log summary output api/comments.json; do
  has_not "$file" '<img'
done
for file in "$ran" ran deploy/ran; do
  [ ! -e "$file" ] || wrong "a name of the pull request ran" log
done
for base_sha in "--upload-pack=$program" "ext::$program" "main:refs/heads/main"; do
  on pull_request "$(jq -n --arg base "$base_sha" '{number: 7, pull_request: {number: 7, base: {ref: $base, sha: $base}, head: {ref: "x", sha: "y"}}}')"
  git_ commit --quiet --allow-empty --message own
  play
  run 2 INPUT_COMMAND=diff INPUT_PATHS=deploy
  has log "is not in this clone and cannot be fetched from origin"
done
[ ! -e "$ran" ] || wrong "a revision of the event ran" log
on_pull_request

# Of the checkout's own config for the remote only the address is used; its hooks do not run.
checkout refs/pull/7/merge
git config remote.origin.uploadpack "$program"
git config remote.origin.vcs ext
for hook in reference-transaction post-checkout; do
  cp "$program" ".git/hooks/$hook"
done
play
run 0 INPUT_PATHS=deploy INPUT_BRANCH=env/rendered
has play/calls "--from=$base.. "
[ ! -e "$ran" ] || wrong "a program of the checkout ran" log

# The checkout step leaves a program for its `ssh-key`.
checkout refs/heads/main
git config core.sshCommand 'ssh -i /key'
on_push "$old"
play
run 0 INPUT_BRANCH=env/rendered
line play/ssh 'ssh -i /key'
play
run 0 INPUT_BRANCH=env/rendered GIT_SSH_COMMAND='ssh -i /other'
line play/ssh 'ssh -i /other'

# Links out of the checkout are refused.
mkdir -p "$work/elsewhere/in"
ln -s "$work/elsewhere" out
ln -s .git dot
for path in out out/in dot .git; do
  play
  run 2 INPUT_COMMAND=check INPUT_PATHS="$path"
  has log "the path $path is a link that points outside of the checkout"
  called ""
done
ln -s deploy within
run 0 INPUT_COMMAND=check INPUT_PATHS=within
run 0 INPUT_COMMAND=check INPUT_PATHS="$work/elsewhere/in"
run 0 INPUT_COMMAND=check INPUT_PATHS=../elsewhere/in

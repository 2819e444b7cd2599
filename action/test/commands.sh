# shellcheck shell=bash disable=SC2016,SC2154 # text is literal; variables are those of lib/setup.sh
# Commands, inputs and outputs, whatever the event is.
on workflow_dispatch '{}'
checkout refs/heads/main
play

run 0 INPUT_COMMAND=check INPUT_PATHS="my repo" INPUT_ARGS=$'--fail-on unmatched\n--fresh'
called 'check --fail-on unmatched --fresh -o json -- my\ repo'
output exit-code 0
output changed false
output summary "my repo: clean"
output plan ""
has summary '## federate: `my repo`'
line output exit-code=0

# Without an event's base there is nothing to compare, and a branch must be asked for.
play
run 0
called $'check -o json -- .\nplan -o json -- .'
output plan "$(echo "$work"/temp/federate.*/1/plan.json)"
jq -e '.kind == "Plan"' "$(echo "$work"/temp/federate.*/1/plan.json)" >/dev/null

# A plan is a table for people, too.
play
plays plan 0 'OBJECT CLUSTERS'
run 0 INPUT_COMMAND=plan
called $'check -o json -- .\nplan -o json -- .\nplan --quiet -- .'
has log "OBJECT CLUSTERS"
has summary "    OBJECT CLUSTERS"

# Warnings do not fail the job, errors do.
play
plays check 1 '{"findings": [{"severity": "warning", "code": "unmatched", "message": "m"}]}'
run 0 INPUT_COMMAND=check
output exit-code 1
output summary ".: 1 warning"
play
plays check 2 '{"findings": [{"severity": "error", "code": "invalid", "message": "m"}]}'
run 2 INPUT_COMMAND=check
output exit-code 2
output summary ".: 1 error"

# What changed is read from the folder, not from what is said about it.
play
echo one >"$work/play/rendered"
run 0 INPUT_COMMAND=render INPUT_OUT=out
called $'check -o json -- .\nrender --out=out -- .'
output changed true
run 0 INPUT_COMMAND=render INPUT_OUT=out
output changed false
echo two >"$work/play/rendered"
run 0 INPUT_COMMAND=render INPUT_OUT=out
output changed true

# Several paths: each is run and shown, each writes into its own folder, and the highest code counts.
play
plays check 1 '{"findings": [{"severity": "warning", "code": "unmatched", "file": "a.yaml", "message": "m"}]}'
echo one >"$work/play/rendered"
run 0 INPUT_COMMAND=render INPUT_OUT=out INPUT_PATHS=$'  ./deploy/ \n\n  teams/b  '
called $'check -o json -- deploy\nrender --out=out/deploy -- deploy\ncheck -o json -- teams/b\nrender --out=out/teams/b -- teams/b'
output summary "deploy: 1 warning; rendered · teams/b: 1 warning; rendered"
has log "file=deploy/a.yaml,"
has log "file=teams/b/a.yaml,"
has summary '## federate: `deploy`'
has summary '## federate: `teams/b`'
play
run 0 INPUT_PATHS=$'a\nb'
output plan "$(echo "$work"/temp/federate.*/1/plan.json)"$'\n'"$(echo "$work"/temp/federate.*/2/plan.json)"
run 2 INPUT_COMMAND=render INPUT_PATHS=$'a\na/b'
has log "a/b is inside a"
run 2 INPUT_COMMAND=render INPUT_PATHS=$'a\n../b'
has log "must be a plain relative path"

# Another revision than the work tree.
play
run 0 INPUT_COMMAND=plan INPUT_HEAD=feature
called "check --rev=$head -o json -- .
plan --rev=$head -o json -- .
plan --quiet --rev=$head -- ."
run 2 INPUT_HEAD=nowhere
has log "the head nowhere is not in this clone and cannot be fetched from origin: check out with \`fetch-depth: 0\`"

# What is refused says what is expected.
run 2 INPUT_COMMAND=destroy
output exit-code 2
has log "must be auto, check, plan, render, diff or commit"
run 2 INPUT_COMMENT=yes
has log "the input \`comment\` must be true or false"
run 2 INPUT_COMMAND=commit
has log "commit needs the input \`branch\`"
run 2 INPUT_COMMAND=diff
has log "diff needs the input \`base\` on the event workflow_dispatch"
run 2 INPUT_PATHS=' '
has log "names no folder"

# No input is evaluated.
play
run 0 INPUT_COMMAND=check INPUT_PATHS='$(touch pwned)`touch pwned`;touch pwned' INPUT_ARGS='* $(touch${IFS}pwned)'
called 'check \* \$\(touch\$\{IFS\}pwned\) -o json -- \$\(touch\ pwned\)\`touch\ pwned\`\;touch\ pwned'
[ ! -e pwned ] || wrong "an input was evaluated" log
run 2 INPUT_COMMAND=diff INPUT_BASE='--upload-pack=touch pwned'
run 2 INPUT_COMMAND=diff INPUT_BASE='main:refs/heads/pwned'
[ ! -e pwned ] || wrong "an input was evaluated" log

# Tools that are not there are named.
mkdir "$work/bare"
for tool in bash cat git mktemp rm dirname touch; do
  ln -s "$(command -v "$tool")" "$work/bare/$tool"
done
run 2 PATH="$work/bare"
has log "jq is not installed"

# Folders of a path become `--path` of every command.
play
run 0 INPUT_COMMAND=check INPUT_FOLDERS=$'shared\n\nenvs/my prod\r\n'
called 'check --path=shared --path=envs/my\ prod -o json -- .'

# shellcheck shell=bash disable=SC2016,SC2154 # text is literal; variables are those of lib/setup.sh
# Without a binary it is built in the action's own folder.
on workflow_dispatch '{}'
checkout refs/heads/main
play
mkdir "$work/bin" "$work/action" "$work/home"
cat >"$work/bin/cargo" <<'STAND_IN'
#!/usr/bin/env bash
echo "cargo $* in ${PWD##*/}"
mkdir -p "$CARGO_HOME/bin"
cp "$BUILDS" "$CARGO_HOME/bin/federate"
STAND_IN
chmod +x "$work/bin/cargo"
run 0 INPUT_COMMAND=check GITHUB_ACTION_PATH="$work/action" CARGO_HOME="$work/home" BUILDS="$here/test/federate" \
  PATH="$work/bin:/usr/local/bin:/usr/bin:/bin"
has log "cargo install --quiet --locked --path . in action"
called 'check -o json -- .'

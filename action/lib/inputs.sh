# shellcheck shell=bash
# Reads the inputs and the event into variables. They are never evaluated as code.

# boolean NAME VALUE: fails unless it is one.
boolean() {
  case $2 in
    true | false) ;;
    *) fail "the input \`$1\` must be true or false" ;;
  esac
}

# event FILTER: a value of the event's payload, empty when there is none.
event() {
  jq -r "$1 // empty" "$event_file"
}

# Sets paths: one per line, without surrounding spaces and trailing slashes.
read_paths() {
  local line
  paths=()
  while IFS= read -r line || [ -n "$line" ]; do
    line=${line#"${line%%[![:space:]]*}"}
    line=${line%"${line##*[![:space:]]}"}
    while [ "${#line}" -gt 1 ] && [ "${line%/}" != "$line" ]; do
      line=${line%/}
    done
    line=${line#./}
    [ -z "$line" ] || paths+=("$line")
  done <<<"${INPUT_PATHS:-.}"
  [ "${#paths[@]}" -gt 0 ] || fail "the input \`paths\` names no folder"
}

# Several results share a branch or a folder only when none lies in another.
separate_paths() {
  local one other
  [ "${#paths[@]}" -gt 1 ] || return 0
  for one in "${paths[@]}"; do
    case /$one/ in
      //* | */../* | */./*) fail "with several \`paths\`, each must be a plain relative path: $one" ;;
    esac
    for other in "${paths[@]}"; do
      case $other in
        "$one"/*) fail "with several \`paths\`, none may be inside another: $other is inside $one" ;;
      esac
    done
  done
}

# own_place BASE PATH: where the result of this path goes.
own_place() {
  if [ "${#paths[@]}" -gt 1 ]; then
    printf '%s' "${1:+${1%/}/}$2"
  else
    printf '%s' "$1"
  fi
}

# Sets the variables from the inputs of the workflow.
read_inputs() {
  command=${INPUT_COMMAND:-auto}
  base_wanted=${INPUT_BASE:-}
  head_wanted=${INPUT_HEAD:-}
  branch=${INPUT_BRANCH:-}
  branch_path=${INPUT_BRANCH_PATH:-}
  push=${INPUT_PUSH:-true}
  out=${INPUT_OUT:-rendered}
  prune_limit=${INPUT_PRUNE_LIMIT:-}
  prune_label=${INPUT_PRUNE_LABEL:-}
  comment=${INPUT_COMMENT:-true}
  comment_key=${INPUT_COMMENT_KEY:-}
  page=${INPUT_PAGE:-true}
  # Not exported, so that neither federate nor its build can read it.
  token=${INPUT_TOKEN:-}
  unset INPUT_TOKEN
  # Blanks and line ends separate; `read` reports the end of its input as a failure.
  read -r -d '' -a more <<<"${INPUT_ARGS:-}" || true
  case $prune_limit in
    *[!0-9]*) fail "the input \`prune-limit\` must be a number of percent" ;;
  esac
  local folder
  while IFS= read -r folder; do
    folder=${folder%$'\r'}
    [ -z "${folder//[[:space:]]/}" ] || more+=("--path=$folder")
  done <<<"${INPUT_FOLDERS:-}"
  boolean push "$push"
  boolean comment "$comment"
  boolean page "$page"
  command -v jq >/dev/null 2>&1 || fail "jq is not installed on this runner, and the action needs it"
  read_paths
}

# Sets the variables from the event.
read_event() {
  event_name=${GITHUB_EVENT_NAME:-}
  event_file=${GITHUB_EVENT_PATH:-}
  if [ ! -s "$event_file" ]; then
    event_file=$scratch/event.json
    echo '{}' >"$event_file"
  fi
  pull_request=
  case $event_name in
    pull_request | pull_request_target) pull_request=$(event '.pull_request.number') ;;
  esac
  case $pull_request in
    *[!0-9]*) fail "the event's pull request has no number" ;;
  esac
  if [ "$event_name" = pull_request_target ]; then
    tell warning "pull_request_target runs with a token that can write: never let it check out and run code of the pull request"
  fi
}

# Sets the stages of this run, in their order.
choose_stages() {
  case $command in
    auto)
      stages=(check plan diff)
      if [ -n "$pull_request" ]; then
        stages+=(comment)
      elif [ -n "$branch" ]; then
        stages+=(commit)
      fi
      ;;
    diff) stages=(check diff comment) ;;
    check) stages=(check) ;;
    plan | render | commit) stages=(check "$command") ;;
    *) fail "the input \`command\` must be auto, check, plan, render, diff or commit" ;;
  esac
  case " ${stages[*]} " in
    *" commit "*)
      [ -n "$branch" ] || fail "commit needs the input \`branch\`"
      separate_paths
      ;;
    *" render "*) separate_paths ;;
  esac
}

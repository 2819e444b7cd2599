#!/usr/bin/env bash
# Shows a difference as a note on the merge request: written once, then updated in place.
#
#   gitlab-note.sh CODE FILE     the exit code and the Markdown of `federate diff --keep-going -o markdown`
#
# Needs curl, jq, GitLab's own variables, and FEDERATE_NOTE_TOKEN with the scope `api`.
set -euo pipefail
code=$1
file=$2
marker='<!-- federate -->'

if [ -z "${FEDERATE_NOTE_TOKEN:-}" ]; then
  echo "no FEDERATE_NOTE_TOKEN: no note"
  exit 0
fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
notes=$CI_API_V4_URL/projects/$CI_PROJECT_ID/merge_requests/$CI_MERGE_REQUEST_IID/notes

# api METHOD URL [OPTION…]: prints the answer. The token goes by a file, arguments can be read by everyone; a POST is
# not repeated, for it may have been carried out.
api() {
  local method=$1 url=$2 retry=(--retry 3)
  shift 2
  [ "$method" != POST ] || retry=()
  curl --silent --show-error --fail --connect-timeout 10 --max-time 60 ${retry[@]+"${retry[@]}"} \
    --header "@$scratch/token" --header 'Content-Type: application/json' --dump-header "$scratch/headers" \
    --request "$method" "$@" "$url"
}

# Prints the number of the note that an earlier run wrote, nothing when there is none. Only the token's own notes count.
find_note() {
  local page=1 me
  me=$(api GET "$CI_API_V4_URL/user" | jq .id)
  while [ -n "$page" ]; do
    api GET "$notes?per_page=100&sort=asc&page=$page" >"$scratch/page"
    jq -r --arg marker "$marker" --argjson me "$me" \
      'map(select(.author.id == $me and (.body | startswith($marker))))[0].id // empty' "$scratch/page" >"$scratch/found"
    if [ -s "$scratch/found" ]; then
      cat "$scratch/found"
      return 0
    fi
    page=$(tr -d '\r' <"$scratch/headers" | awk 'tolower($1) == "x-next-page:" { print $2 }')
  done
}

(umask 077 && printf 'PRIVATE-TOKEN: %s\n' "$FEDERATE_NOTE_TOKEN" >"$scratch/token")
{
  echo "$marker"
  if [ "$code" -eq 0 ]; then
    echo "federate: no differences."
  elif [ -s "$file" ]; then
    cat "$file"
  else
    echo "federate: what this changes cannot be shown; the job's log says why."
  fi
} >"$scratch/text"
jq -Rs '{body: .}' "$scratch/text" >"$scratch/body"

note=$(find_note)
if [ -n "$note" ]; then
  api PUT "$notes/$note" --data-binary "@$scratch/body" >/dev/null
elif [ "$code" -ne 0 ]; then
  # What changes nothing needs no note.
  api POST "$notes" --data-binary "@$scratch/body" >/dev/null
fi

# shellcheck shell=bash
# The comment on the pull request: created once, then updated in place.

# The longest wait in seconds.
longest_wait=60

# header NAME: of the last answer, without the line end.
header() {
  tr -d '\r' <"$scratch/headers" |
    awk -v name="$1:" 'tolower($1) == name { sub(/^[^:]*: */, ""); value = $0 } END { print value }'
}

# Writes the token where requests read it.
authorize() {
  (umask 077 && printf 'Authorization: Bearer %s\n' "$token" >"$scratch/authorization")
}

# request METHOD URL [BODY-FILE]: one request; sets status, 000 when there was no answer.
request() {
  local body=()
  [ -z "${3:-}" ] || body=(--header 'Content-Type: application/json' --data-binary "@$3")
  : >"$scratch/headers"
  : >"$scratch/answer"
  # The token is passed in a file, because all users of the machine can read arguments.
  status=$(curl --silent --show-error --connect-timeout 10 --max-time 60 --request "$1" \
    --header "@$scratch/authorization" --header 'Accept: application/vnd.github+json' \
    --header 'X-GitHub-Api-Version: 2022-11-28' ${body[@]+"${body[@]}"} \
    --output "$scratch/answer" --dump-header "$scratch/headers" --write-out '%{http_code}' "$2" \
    2>"$scratch/errors") || status=000
}

# pause TRY: waits as long as the server asks, else longer each time; fails when that is too long.
pause() {
  local seconds
  seconds=$(header retry-after)
  case $seconds in
    '' | *[!0-9]*) seconds=$((1 << ($1 - 1))) ;;
  esac
  [ "${#seconds}" -lt 6 ] && [ "$seconds" -le "$longest_wait" ] && sleep "$seconds"
}

# Whether the last answer asks to retry. GitHub's secondary rate limits return 403 with Retry-After.
busy() {
  case $status in
    429 | 5?? | 000) return 0 ;;
    403) [ -n "$(header retry-after)" ] ;;
    *) return 1 ;;
  esac
}

# api METHOD URL [BODY-FILE]: a request, at most four times. A POST of a comment that met a server's error is not repeated: it
# may have been carried out.
api() {
  local try
  for try in 1 2 3 4; do
    request "$@"
    busy || return 0
    case $1:$2:$status in
      POST:*/comments:5?? | POST:*/comments:000) return 0 ;;
    esac
    [ "$try" -lt 4 ] && pause "$try" || return 0
  done
}

# Sets me to the number of the account that the token belongs to, once in a run; fails if that is unknown. GraphQL answers the
# tokens of jobs and apps, too.
find_account() {
  [ -z "${me:-}" ] || return 0
  jq -n '{query: "{viewer{databaseId}}"}' >"$scratch/query.json"
  api POST "${GITHUB_GRAPHQL_URL:-$api_url/graphql}" "$scratch/query.json"
  [ "$status" = 200 ] || return 1
  me=$(jq '.data.viewer.databaseId | numbers' "$scratch/answer" 2>/dev/null) || me=
  [ -n "$me" ] || { status="nothing about the account of the token" && return 1; }
}

# Sets comment_id to the action's comment on the pull request, empty if there is none; fails if that is unknown.
# Only comments of the token's own account count: others can be changed by their authors, who may have no right to write.
find_comment() {
  local page=1 count
  comment_id=
  find_account || return 1
  while [ "$page" -le 100 ]; do
    api GET "$comments?per_page=100&page=$page"
    [ "$status" = 200 ] || return 1
    comment_id=$(jq -r --arg marker "$marker" --argjson me "$me" '
      map(select(.user.id == $me and ((.body // "") | startswith($marker))))[0].id // empty
    ' "$scratch/answer") || { status="no list of comments" && return 1; }
    count=$(jq length "$scratch/answer")
    [ -z "$comment_id" ] || return 0
    case $(header link) in
      *'rel="next"'*) ;;
      *) [ "$count" -ge 100 ] || return 0 ;;
    esac
    page=$((page + 1))
  done
}

# upsert NEW: updates our comment, or creates it when NEW is true. After a server's error it is looked for again.
upsert() {
  local try
  for try in 1 2 3; do
    find_comment || return 0
    if [ -n "$comment_id" ]; then
      api PATCH "$api_url/repos/$GITHUB_REPOSITORY/issues/comments/$comment_id" "$scratch/body.json"
      # Deleted since it was found.
      [ "$status" = 404 ] || return 0
    elif [ "$1" = true ]; then
      api POST "$comments" "$scratch/body.json"
      case $status in
        5?? | 000) pause "$try" || return 0 ;;
        *) return 0 ;;
      esac
    else
      return 0
    fi
  done
}

# Prints the comment's text, below its marker.
comment_text() {
  echo "$marker"
  # With several comments, each names its path.
  if [ "${#paths[@]}" -gt 1 ] || [ -n "$comment_key" ]; then
    printf '%s\n\n' "$(code "$path")${comment_key:+ $comment_key}"
  fi
  if [ -s "$mine/diff.md" ]; then
    cat "$mine/diff.md"
    # A misspelt branch looks like one that does not exist yet.
    if [ -s "$mine/page.html" ] && [ -n "${GITHUB_RUN_ID:-}" ]; then
      printf '\n[A page to look at](%s/%s/actions/runs/%s#artifacts) is an artifact of this run; #Deployment/NAMESPACE/NAME after its address opens an object.\n' \
        "${GITHUB_SERVER_URL:-https://github.com}" "$GITHUB_REPOSITORY" "$GITHUB_RUN_ID"
    fi
    [ -z "$memory_note" ] || printf '\n%s\n' "$(words_of "$memory_note")"
  elif [ "$differences" = unknown ]; then
    echo "federate: $(code "$path") cannot be compared with ${base:0:10}."
  else
    echo "federate: $(code "$path") has no differences from ${base:0:10}."
  fi
  # New warnings are part of the diff; old ones do not belong to this pull request.
  if [ "$checked" -gt 1 ] && [ -s "$mine/findings.txt" ]; then
    printf '\nfederate check: %s\n\n' "$(jq -s -r -f "$here/lib/verdict.jq" "$mine/findings")"
    indent 12 "$mine/findings.txt"
  fi
}

# Comments for this path. A pull request that changes nothing is not commented on, but an old comment is corrected.
stage_comment() {
  local new=true api_url=${GITHUB_API_URL:-https://api.github.com} comments marker body said
  [ -n "$pull_request" ] && [ "$comment" = true ] && [ -n "$base" ] || return 0
  if [ -z "$token" ]; then
    tell warning "no comment: the input \`token\` is empty"
    return 0
  fi
  command -v curl >/dev/null 2>&1 || fail "curl is not installed on this runner, and comments need it"
  comments=$api_url/repos/$GITHUB_REPOSITORY/issues/$pull_request/comments
  marker="<!-- federate: $(printf '%s' "$path${comment_key:+ $comment_key}" | jq -sRr @uri) -->"
  authorize
  comment_text >"$scratch/body"
  # GitHub takes 65,536 characters.
  jq -Rs '{body: (if length > 65000 then .[0:65000] + "\n\n… (cut)\n" else . end)}' "$scratch/body" >"$scratch/body.json"
  [ "$differences" != none ] || new=false
  upsert "$new"
  case $status in
    200 | 201) ;;
    403)
      said=$(jq -r '.message // empty' "$scratch/answer" 2>/dev/null) || said=
      tell warning "no comment: GitHub answers 403${said:+ ($said)}. It needs \`permissions: pull-requests: write\`; the token of a pull request from a fork cannot write"
      ;;
    *)
      said=$(jq -r '.message // empty' "$scratch/answer" 2>/dev/null) || said=
      [ -n "$said" ] || said=$(head -c 500 "$scratch/errors")
      tell error "no comment: GitHub answers $status${said:+ ($said)}"
      raise 2
      ;;
  esac
}

# shellcheck shell=bash disable=SC2154 # variables are those of the script that reads this
# Helm and kubectl, in the versions of programs.list. Each program is checked by its SHA-256 before it is put in place.

program_list=${FEDERATE_PROGRAM_LIST:-$here/programs.list}

# fetch_programs FOLDER: sets why and level, and fails, if one cannot be fetched, is not the pinned one, or is not pinned for this machine.
fetch_programs() {
  local name version expected address member actual found=
  level=notice
  while read -r _ name version expected address member; do
    found=yes
    if [ -x "$1/$name" ] && [ "$(checksum <"$1/$name")" = "$expected" ]; then
      continue
    fi
    if ! fetch "$address" "$scratch/$name.fetched"; then
      why="$name $version cannot be fetched from $address"
      return 1
    fi
    if [ "$member" = - ]; then
      mv "$scratch/$name.fetched" "$scratch/$name"
    else
      tar -xzOf "$scratch/$name.fetched" "$member" >"$scratch/$name" || fail "$address has no $member"
    fi
    actual=$(checksum <"$scratch/$name")
    if [ "$actual" != "$expected" ]; then
      level=warning
      why="$name of $address has the checksum $actual, not $expected, so it is not what was pinned and is not used"
      return 1
    fi
    chmod 755 "$scratch/$name"
    mkdir -p "$1"
    # A whole file or none, also when two jobs share the folder.
    mv -f "$scratch/$name" "$1/$name.$$"
    mv -f "$1/$name.$$" "$1/$name"
    echo "$name $version: downloaded, with the checksum of programs.list"
  done < <(grep -v '^#' "$program_list" | awk -v target="$(target)" '$1 == target')
  if [ -z "$found" ]; then
    why="there is no pinned helm and kubectl for $(uname -s) on $(uname -m)"
    return 1
  fi
}

# Puts the pinned programs before those of the runner. Where they cannot be had, those of the runner count.
install_programs() {
  local folder
  folder=${RUNNER_TOOL_CACHE:-$HOME/.cache}/federate-programs/$(checksum <"$program_list" | cut -c 1-16)
  if fetch_programs "$folder"; then
    add_to_path "$folder"
  else
    tell "$level" "$why: charts and kustomizations are built with what this runner has"
  fi
}

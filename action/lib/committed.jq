# Branches of a CommitResult (slurped) in a few words.
map(if .commit then "\(.branch) at \(.commit[0:10])" else "\(.branch) unchanged" end) | join(", ")

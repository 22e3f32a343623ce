# An attempt: runs script $2 in this shell. Signals that come before its program do not end it; where the command is in
# this shell, $1 is `once`, it awaits on a signal what it runs, and starts no other. A file, as `bash -c` would print the
# end of each process that it has in the background.
[[ $1 != once ]] || trap 'exit $(($? ? $? : 143))' TERM INT HUP
trap : USR1 USR2
# shellcheck source=/dev/null # the job's
source "$2"

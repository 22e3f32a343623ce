# Prints the processes of job $1 on this node that have a variable of pattern $2, the oldest first.
hpcdist_processes() {
  local pid
  grep -lszxF -e "HPCDIST_JOB_DIR=$1" /proc/[0-9]*/environ | cut -d/ -f3 | sort -n | while read -r pid; do
    ! grep -qsze "^$2" "/proc/$pid/environ" || echo "$pid"
  done
}

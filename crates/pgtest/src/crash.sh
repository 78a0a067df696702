# Ends a cluster as a crash would: kills every process that works in the folder $1, at once and without a word.
# PostgreSQL's processes all work in their data directory, and whoever works there belongs to the cluster.
# The segment of shared memory that a killed server leaves in the kernel is removed as well; its number is the last
# word in line 7 of the server's pid file.
segment=$(sed -n '7s/.* //p' "$1/data/postmaster.pid" 2>/dev/null)
while :; do
    found=$(find /proc/[0-9]*/cwd -maxdepth 0 \( -lname "$1" -o -lname "$1/*" \) 2>/dev/null)
    [ -n "$found" ] || break
    for process in $found; do
        process=${process#/proc/}
        kill -KILL "${process%/cwd}" 2>/dev/null
    done
    sleep 0.01
done
[ -z "$segment" ] || ipcrm --shmem-id "$segment" 2>/dev/null

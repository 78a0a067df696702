# Runs abide on the database of a test's site in place of its data directory: `on_postgres.sh BINARY ARGUMENTS…`.
#
# Tests name the directory and know nothing of this. A site on PostgreSQL has a file beside its directory that says which
# database is meant (see `Site::new`); a command for any other directory is left as it is.

binary=$1
shift
data=
left=$#
while [ "$left" -gt 0 ]; do
    word=$1
    shift
    left=$((left - 1))
    if [ "$word" = --data ] && [ -f "$1.postgres" ]; then
        data=$1
        shift
        left=$((left - 1))
    else
        set -- "$@" "$word"
    fi
done
if [ -z "$data" ] && [ -n "$ABIDE_DATA" ] && [ -f "$ABIDE_DATA.postgres" ]; then
    data=$ABIDE_DATA
    unset ABIDE_DATA
fi
if [ -n "$data" ]; then
    read -r ABIDE_STORE <"$data.postgres"
    # A keyring lies beside its directory unless somebody says otherwise, and a server behind nothing is its own front.
    export ABIDE_STORE ABIDE_KEYRING="${ABIDE_KEYRING:-$data.keyring}"
    if [ "$1" = serve ]; then
        export ABIDE_PUBLIC_URL="${ABIDE_PUBLIC_URL:-http://127.0.0.1:7171}"
    fi
fi
exec "$binary" "$@"

#!/bin/sh
# Starts the Compose deployment with other systems and checks that they work together.
#   COMPOSE_SMOKE_MODES="trino polaris keycloak" deploy/smoke/run.sh    in containers: Docker with Compose 2.24 or newer
#   COMPOSE_SMOKE_MODES="trino keycloak" deploy/smoke/run.sh programs   as programs of this machine: what `make test-engines` needs
set -eu
cd "$(dirname "$0")/../compose"

case ${1:-containers} in
containers) modes=${COMPOSE_SMOKE_MODES:-trino polaris keycloak} ;;
programs)
    cd ../..
    set --
    for mode in ${COMPOSE_SMOKE_MODES:-trino keycloak}; do
        set -- "$@" "tests/engines/trino/test_smoke.py::test_$mode"
    done
    exec .venv/bin/python -m pytest -m engines --capture no "$@"
    ;;
*) echo "unknown way $1; the ways are containers, programs" >&2; exit 2 ;;
esac

export POSTGRES_PASSWORD=smoke S3_SECRET_KEY=smoke-secret SECRETS_KEY="$(openssl rand -base64 32)" COMPOSE_PROJECT_NAME=floecat-smoke

compose() {
    # shellcheck disable=SC2086 # a list of options
    docker compose $files "$@"
}

in_image() {
    compose run --rm --no-deps --volume "$PWD/../smoke:/smoke:ro" --entrypoint python floecat "$@"
}

trino() {
    compose exec -T trino trino --catalog floecat --output-format TSV --execute "$1"
}

wait_for() {
    for _ in $(seq 90); do
        if "$@" >/dev/null 2>&1; then return; fi
        sleep 2
    done
    echo "$mode: gave up waiting for: $*" >&2
    exit 1
}

expect() {
    [ "$1" = "$2" ] || { echo "$mode: expected '$2', got '$1'" >&2; exit 1; }
}

flow() {
    # shellcheck disable=SC2086 # a list of options
    ../smoke/flow.sh docker compose $files exec -T trino trino
}

stop() {
    [ "$1" = 0 ] || compose logs --tail 50 >&2
    compose down --volumes --remove-orphans
}

for mode in $modes; do
    echo "== $mode"
    case $mode in
    trino) files="-f compose.yaml -f ../smoke/trino.yaml" ;;
    polaris) files="-f compose.yaml -f ../smoke/polaris.yaml" ;;
    keycloak) files="-f compose.yaml -f ../smoke/trino.yaml -f ../smoke/keycloak.yaml" ;;
    *) echo "unknown mode $mode; the modes are trino, polaris, keycloak" >&2; exit 2 ;;
    esac
    trap 'stop $?' EXIT
    compose up --build --detach
    wait_for curl --fail --silent http://127.0.0.1:9200/health/ready
    wait_for curl --fail --silent http://127.0.0.1:3000/server_info
    case $mode in
    trino)
        wait_for trino "SELECT 1"
        compose exec -T floecat floecat demo --url http://127.0.0.1:9200
        expect "$(trino 'SELECT count(*) > 0 FROM demo.trips')" true
        flow
        ;;
    polaris)
        wait_for compose exec -T polaris curl --fail --silent http://localhost:8182/q/health
        in_image /smoke/from_polaris.py
        ;;
    keycloak)
        expect "$(curl --silent --output /dev/null --write-out '%{http_code}' http://127.0.0.1:9200/v1/config)" 401
        wait_for trino "SELECT 1"
        flow
        ;;
    esac
    trap - EXIT
    stop 0
done
echo "All modes passed"

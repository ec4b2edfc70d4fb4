#!/bin/sh
# Starts the Compose deployment with other systems and checks that they work together. Needs Docker with Compose 2.24 or newer.
#   COMPOSE_SMOKE_MODES="trino polaris keycloak" deploy/smoke/run.sh
set -eu
cd "$(dirname "$0")/../compose"
export POSTGRES_PASSWORD=smoke S3_SECRET_KEY=smoke-secret COMPOSE_PROJECT_NAME=floecat-smoke

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

tables_and_views() {
    trino "CREATE SCHEMA smoke"
    trino "CREATE TABLE smoke.orders AS SELECT * FROM (VALUES (1, 'east'), (2, 'west')) AS t (id, region)"
    trino "CREATE VIEW smoke.regions AS SELECT region FROM smoke.orders"
    expect "$(trino 'SELECT count(*) FROM smoke.regions')" 2
    trino "CREATE OR REPLACE VIEW smoke.regions AS SELECT region FROM smoke.orders WHERE id = 1"
    expect "$(trino 'SELECT region FROM smoke.regions')" east
    trino "DROP VIEW smoke.regions; DROP TABLE smoke.orders; DROP SCHEMA smoke"
}

stop() {
    [ "$1" = 0 ] || compose logs --tail 50 >&2
    compose down --volumes --remove-orphans
}

for mode in ${COMPOSE_SMOKE_MODES:-trino polaris keycloak}; do
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
        tables_and_views
        ;;
    polaris)
        wait_for compose exec -T polaris curl --fail --silent http://localhost:8182/q/health
        in_image /smoke/from_polaris.py
        ;;
    keycloak)
        expect "$(curl --silent --output /dev/null --write-out '%{http_code}' http://127.0.0.1:9200/v1/config)" 401
        wait_for trino "SELECT 1"
        tables_and_views
        ;;
    esac
    trap - EXIT
    stop 0
done
echo "All modes passed"

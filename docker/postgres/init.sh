#!/bin/sh
# Roles and databases, made once, when the data folder is new. PostgreSQL's image runs this before it listens on TCP.
#
# The owner migrates and is used by nothing else. The worker's role starts with the right to connect; `worker migrate`
# grants it what it needs on the tables, and that is never the right to change what is written.
set -eu

psql --no-psqlrc -v ON_ERROR_STOP=1 --username "${POSTGRES_USER:-postgres}" --dbname postgres \
	-v owner_password="$PAYONCE_OWNER_PASSWORD" \
	-v worker_password="$PAYONCE_WORKER_PASSWORD" \
	-v temporal_password="$TEMPORAL_DB_PASSWORD" <<'SQL'
create role payonce login password :'owner_password';
create role payonce_worker login password :'worker_password';
create role temporal login password :'temporal_password';

-- One database per ledger. A ledger can move to another server without the others noticing.
create database payonce_us owner payonce;
create database payonce_eu owner payonce;
revoke all on database payonce_us, payonce_eu from public;
grant connect on database payonce_us, payonce_eu to payonce_worker;

create database temporal owner temporal;
create database temporal_visibility owner temporal;
revoke all on database temporal, temporal_visibility from public;
SQL

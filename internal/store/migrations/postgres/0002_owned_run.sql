-- Owned runs (package owned/run). States and outcomes are checked in Go.
create table owned_run (
	epoch text primary key,
	tenant text not null,
	run_id text not null,
	engagement text not null,
	surface text not null,
	started_by text not null,
	scope_digest text not null,
	state text not null,
	reason text not null,
	holder text not null,
	bootstrap_hash text not null,
	bootstrap_ms bigint not null,
	session_hash text not null,
	session_ms bigint not null,
	sequence bigint not null,
	started_ms bigint not null,
	moved_ms bigint not null
);
create index owned_run_by_id on owned_run (tenant, run_id, started_ms);
create index owned_run_by_state on owned_run (tenant, state);

create table owned_action (
	epoch text not null,
	sequence bigint not null,
	request_id text not null,
	action text not null,
	outcome text not null,
	begun_ms bigint not null,
	settled_ms bigint not null,
	primary key (epoch, sequence),
	unique (epoch, request_id)
);

create table owned_decision (
	epoch text not null,
	ordinal bigint not null,
	layer text not null,
	scheme text not null,
	host text not null,
	port bigint not null,
	address text not null,
	rule text not null,
	code text not null,
	fix text not null,
	seen bigint not null,
	first_ms bigint not null,
	primary key (epoch, ordinal)
);

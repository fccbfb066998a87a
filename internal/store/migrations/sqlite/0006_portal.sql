-- Accounts, collections, grants, reviews and requests of the portal (package
-- portal/ledger). States are checked in Go.
create table portal_account (
	tenant text not null,
	actor text not null,
	calls bigint not null,
	changes bigint not null,
	items bigint not null,
	bytes bigint not null,
	opened_ms bigint not null,
	primary key (tenant, actor)
);

-- A place is what a source keeps items by; an incarnation is what grants name. A
-- collection that was connected again keeps the first and gets another second.
create table portal_collection (
	place text primary key,
	tenant text not null,
	actor text not null,
	collection text not null,
	title text not null,
	kind text not null,
	source text not null,
	incarnation text not null,
	state text not null,
	created_ms bigint not null,
	moved_ms bigint not null
);
create index portal_collection_by_account on portal_collection (tenant, actor, collection);
create index portal_collection_by_state on portal_collection (tenant, state);

create table portal_connection (
	connection text primary key,
	tenant text not null,
	actor text not null,
	transport text not null,
	provenance text not null,
	session text not null,
	client text not null,
	client_name text not null,
	state text not null,
	generation bigint not null,
	created_ms bigint not null,
	expires_ms bigint not null,
	revoked_ms bigint not null,
	used_ms bigint not null,
	moved_ms bigint not null
);
create index portal_connection_by_account on portal_connection (tenant, actor, created_ms);
create index portal_connection_by_session on portal_connection (tenant, session);
create index portal_connection_by_state on portal_connection (tenant, state, expires_ms);

create table portal_selected (
	connection text not null,
	collection text not null,
	incarnation text not null,
	functions text not null,
	primary key (connection, collection)
);

create table portal_review (
	receipt text primary key,
	tenant text not null,
	actor text not null,
	session text not null,
	connection text not null,
	generation bigint not null,
	tool text not null,
	digest text not null,
	state text not null,
	prepared_ms bigint not null,
	expires_ms bigint not null,
	moved_ms bigint not null
);
create index portal_review_by_connection on portal_review (connection, state);
create index portal_review_by_state on portal_review (tenant, state, expires_ms);

create table portal_request (
	receipt text primary key,
	tenant text not null,
	actor text not null,
	transport text not null,
	connection text not null,
	generation bigint not null,
	request_id text not null,
	tool text not null,
	digest text not null,
	mark text not null,
	collection text not null,
	place text not null,
	item text not null,
	if_version text not null,
	if_absent bigint not null,
	has_content bigint not null,
	metadata text not null,
	items bigint not null,
	bytes bigint not null,
	state text not null,
	code text not null,
	outcome text not null,
	version_before text not null,
	version_after text not null,
	begun_ms bigint not null,
	until_ms bigint not null,
	settled_ms bigint not null,
	unique (tenant, actor, connection, request_id)
);
create index portal_request_by_state on portal_request (tenant, state, until_ms);

-- The last calls of an account: a ring, whose slot is the call's number modulo
-- its size.
create table portal_call (
	tenant text not null,
	actor text not null,
	slot bigint not null,
	number bigint not null,
	at_ms bigint not null,
	tool text not null,
	collection text not null,
	effect text not null,
	code text not null,
	transport text not null,
	connection text not null,
	request_id text not null,
	receipt text not null,
	primary key (tenant, actor, slot)
);

-- Sign-in sessions, flows and logouts (package session). States are checked in Go.
create table session (
	id text primary key,
	tenant text not null,
	cookie_hash text not null unique,
	key_hash text not null,
	browser text not null,
	login text not null,
	actor text not null,
	name text not null,
	issuer text not null,
	subject text not null,
	sid text not null,
	acr text not null,
	auth_ms bigint not null,
	recovery bigint not null,
	roles text not null,
	agent text not null,
	generation bigint not null,
	sealed text not null,
	access_ms bigint not null,
	state text not null,
	reason text not null,
	created_ms bigint not null,
	used_ms bigint not null,
	end_ms bigint not null,
	ended_ms bigint not null
);
create index session_by_actor on session (tenant, actor, state);
create index session_by_subject on session (tenant, issuer, subject, state);
create index session_by_end on session (tenant, state, end_ms);

create table session_flow (
	state_hash text primary key,
	tenant text not null,
	purpose text not null,
	session text not null,
	acr text not null,
	next text not null,
	sealed text not null,
	begun_ms bigint not null,
	stands text not null
);
create index session_flow_by_age on session_flow (tenant, begun_ms);

create table session_logout (
	tenant text not null,
	issuer text not null,
	jti_hash text not null,
	subject text not null,
	sid text not null,
	issued_ms bigint not null,
	taken_ms bigint not null,
	primary key (tenant, issuer, jti_hash)
);
create index session_logout_by_age on session_logout (tenant, taken_ms);

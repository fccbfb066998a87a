-- The built-in provider's people and their proofs (package credential). States
-- are checked in Go.
create table person (
	id text primary key,
	tenant text not null,
	name text not null,
	handle text not null unique,
	roles text not null,
	state text not null,
	created_ms bigint not null
);
create index person_by_tenant on person (tenant, state);

create table passkey (
	id text primary key,
	person text not null,
	credential text not null unique,
	name text not null,
	body text not null,
	counter bigint not null,
	created_ms bigint not null,
	used_ms bigint not null
);
create index passkey_by_person on passkey (person, created_ms);

create table recovery_code (
	code_hash text primary key,
	person text not null,
	state text not null,
	created_ms bigint not null,
	used_ms bigint not null
);
create index recovery_code_by_person on recovery_code (person, state);

create table enrolment (
	secret_hash text primary key,
	tenant text not null,
	name text not null,
	person text not null,
	state text not null,
	created_ms bigint not null,
	until_ms bigint not null
);
create index enrolment_by_age on enrolment (tenant, created_ms);

create table webauthn_challenge (
	challenge_hash text primary key,
	tenant text not null,
	purpose text not null,
	binding text not null,
	body text not null,
	until_ms bigint not null
);
create index webauthn_challenge_by_age on webauthn_challenge (tenant, until_ms);

create table idp_request (
	id text primary key,
	tenant text not null,
	browser_hash text not null,
	sealed text not null,
	state text not null,
	code_hash text not null,
	person text not null,
	acr text not null,
	auth_ms bigint not null,
	created_ms bigint not null,
	moved_ms bigint not null
);
create index idp_request_by_code on idp_request (code_hash);
create index idp_request_by_age on idp_request (tenant, created_ms);

create table idp_token (
	token_hash text primary key,
	tenant text not null,
	request text not null,
	person text not null,
	client text not null,
	scopes text not null,
	acr text not null,
	auth_ms bigint not null,
	issued_ms bigint not null,
	until_ms bigint not null,
	state text not null
);
create index idp_token_by_request on idp_token (request);
create index idp_token_by_person on idp_token (person, state);

create table idp_key (
	id text primary key,
	tenant text not null,
	algorithm text not null,
	sealed text not null,
	created_ms bigint not null
);
create index idp_key_by_age on idp_key (tenant, created_ms);

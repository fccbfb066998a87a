-- Bearer authorization (package oauth). States are checked in Go. Codes and
-- tokens stand as SHA-256 alone.
create table oauth_client (
	hash text primary key,
	id text not null,
	tenant text not null,
	kind text not null,
	state text not null,
	name text not null,
	redirects text not null,
	created_ms bigint not null,
	read_ms bigint not null,
	expires_ms bigint not null,
	moved_ms bigint not null
);
create index oauth_client_by_state on oauth_client (tenant, state, created_ms);

create table oauth_request (
	id text primary key,
	tenant text not null,
	client text not null,
	client_name text not null,
	document bigint not null,
	redirect text not null,
	client_state text not null,
	challenge text not null,
	scopes text not null,
	state text not null,
	actor text not null,
	created_ms bigint not null,
	expires_ms bigint not null,
	moved_ms bigint not null
);
create index oauth_request_by_state on oauth_request (tenant, state, expires_ms);

create table oauth_family (
	id text primary key,
	tenant text not null,
	kind text not null,
	client text not null,
	name text not null,
	actor text not null,
	roles text not null,
	scopes text not null,
	resource text not null,
	connection text not null,
	state text not null,
	reason text not null,
	created_ms bigint not null,
	ends_ms bigint not null,
	moved_ms bigint not null,
	unique (tenant, connection)
);
create index oauth_family_by_state on oauth_family (tenant, state, ends_ms);

create table oauth_code (
	hash text primary key,
	tenant text not null,
	family text not null,
	request text not null,
	client text not null,
	redirect text not null,
	challenge text not null,
	state text not null,
	issued_ms bigint not null,
	expires_ms bigint not null,
	moved_ms bigint not null
);
create index oauth_code_by_family on oauth_code (family);
create index oauth_code_by_state on oauth_code (tenant, state, expires_ms);

create table oauth_token (
	hash text primary key,
	tenant text not null,
	family text not null,
	kind text not null,
	state text not null,
	scopes text not null,
	issued_ms bigint not null,
	expires_ms bigint not null,
	moved_ms bigint not null
);
create index oauth_token_by_family on oauth_token (family);
create index oauth_token_by_expiry on oauth_token (tenant, kind, expires_ms);

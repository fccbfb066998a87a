-- Attended control (package attended/ledger): arms, documents, registrations,
-- leases, calls, their traces and the kill switch. Facts about people and pages
-- stand in private form (keyed HMAC); of arguments and results there are digests
-- alone. States are checked in Go.
create table attended_arm (
	arm text primary key,
	tenant text not null,
	tenant_ref text not null,
	actor_ref text not null,
	login text not null,
	principal text not null,
	browser text not null,
	issuer_ref text not null,
	acr_ref text not null,
	auth_ms bigint not null,
	credential_until_ms bigint not null,
	policy_version text not null,
	origin_ref text not null,
	route_ref text not null,
	document text not null,
	generation bigint not null,
	catalog_digest text not null,
	scope_digest text not null,
	nonce_hash text not null,
	binding_digest text not null,
	state text not null,
	version bigint not null,
	reason text not null,
	granted_ms bigint not null,
	grant_until_ms bigint not null,
	issued_ms bigint not null,
	expires_ms bigint not null,
	moved_ms bigint not null
);
create index attended_arm_by_browser on attended_arm (tenant, browser, state);
create index attended_arm_by_principal on attended_arm (tenant, principal, state);
create index attended_arm_by_state on attended_arm (state, expires_ms);

-- The sole active authority over which registration a document has.
create table attended_document (
	document text primary key,
	tenant text not null,
	principal text not null,
	arm text not null,
	registration text not null,
	state text not null,
	version bigint not null,
	reason text not null,
	moved_ms bigint not null
);

create table attended_registration (
	registration text primary key,
	tenant text not null,
	principal text not null,
	document text not null,
	arm text not null unique,
	binding_digest text not null,
	generation bigint not null,
	catalog_digest text not null,
	scope_digest text not null,
	tools bigint not null,
	predecessor text not null,
	node text not null,
	state text not null,
	version bigint not null,
	reason text not null,
	created_ms bigint not null,
	moved_ms bigint not null
);
create index attended_registration_by_state on attended_registration (state, node);
create index attended_registration_by_document on attended_registration (document, state);

create table attended_tool (
	registration text not null,
	ordinal bigint not null,
	tool_id text not null,
	schema_digest text not null,
	class text not null,
	roles text not null,
	primary key (registration, tool_id)
);

create table attended_lease (
	lease text primary key,
	tenant text not null,
	principal text not null,
	agent_ref text not null,
	document text not null,
	registration text not null,
	arm text not null,
	binding_digest text not null,
	generation bigint not null,
	catalog_digest text not null,
	policy text not null,
	tools text not null,
	state text not null,
	version bigint not null,
	reason text not null,
	issued_ms bigint not null,
	expires_ms bigint not null,
	hard_ms bigint not null,
	moved_ms bigint not null
);
create index attended_lease_by_registration on attended_lease (registration, state);
create index attended_lease_by_state on attended_lease (state, expires_ms);
create index attended_lease_by_principal on attended_lease (tenant, principal, state);

-- A call and the fence that lets it be sent at most once.
create table attended_call (
	call text primary key,
	fence text not null unique,
	tenant text not null,
	principal text not null,
	agent_ref text not null,
	lease text not null,
	document text not null,
	request_id text not null,
	tool_id text not null,
	class text not null,
	schema_digest text not null,
	arguments_digest text not null,
	request_digest text not null,
	binding_digest text not null,
	policy text not null,
	confirmation_digest text not null,
	level text not null,
	admission text not null,
	claim text not null,
	grant_generation bigint not null,
	attempts bigint not null,
	node text not null,
	run_trace text not null,
	effect text not null,
	result_digest text not null,
	state text not null,
	version bigint not null,
	reason text not null,
	admitted_ms bigint not null,
	deadline_ms bigint not null,
	claimed_ms bigint not null,
	late_until_ms bigint not null,
	settled_ms bigint not null,
	moved_ms bigint not null,
	telemetry text not null,
	unique (lease, request_id)
);
create index attended_call_by_state on attended_call (state, deadline_ms);
create index attended_call_by_principal on attended_call (tenant, principal, admitted_ms);

-- Run traces, tool calls and outcome evaluations: one batch a call.
create table attended_trace (
	trace text primary key,
	tenant text not null,
	kind text not null,
	run_trace text not null,
	call text not null,
	outcome text not null,
	effect text not null,
	code text not null,
	digest text not null,
	begun_ms bigint not null,
	ended_ms bigint not null
);
create index attended_trace_by_call on attended_trace (call);

create table attended_kill (
	kill text primary key,
	tenant text not null,
	scope text not null,
	ref text not null,
	by_ref text not null,
	state text not null,
	version bigint not null,
	reason text not null,
	set_ms bigint not null,
	moved_ms bigint not null
);
create index attended_kill_by_state on attended_kill (state, tenant, scope, ref);

-- Nodes that hold channels tell that they live.
create table attended_node (
	node text primary key,
	beat_ms bigint not null
);

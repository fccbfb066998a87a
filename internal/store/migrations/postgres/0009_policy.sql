-- Receipts of policy decisions (package policy). States are checked in Go. People
-- and agents stand as references; facts is what replay needs, sealed under a key
-- that isn't here.
create table policy_receipt (
	receipt text primary key,
	tenant text not null,
	principal text not null,
	agent text not null,
	request_digest text not null,
	action text not null,
	kind text not null,
	resource text not null,
	state text not null,
	code text not null,
	level text not null,
	policy_version text not null,
	rules text not null,
	facts text not null,
	given text not null,
	decided_ms bigint not null,
	expires_ms bigint not null,
	moved_ms bigint not null
);
create index policy_receipt_by_state on policy_receipt (tenant, state, expires_ms);
create index policy_receipt_by_time on policy_receipt (tenant, decided_ms, receipt);

-- Items of hosted storage (package portal/item). Outcomes are checked in Go.
create table item (
	tenant text not null,
	account text not null,
	collection text not null,
	incarnation text not null,
	item text not null,
	version text not null,
	size bigint not null,
	media_type text not null,
	metadata text not null,
	digest text not null,
	mark text not null,
	modified_ms bigint not null,
	primary key (tenant, account, collection, incarnation, item)
);
create index item_by_digest on item (digest);

-- Each change by its mark: what became of it, or that it never will be.
create table item_change (
	tenant text not null,
	account text not null,
	mark text not null,
	item text not null,
	outcome text not null,
	before text not null,
	version text not null,
	at_ms bigint not null,
	primary key (tenant, account, mark)
);
create index item_change_by_age on item_change (at_ms);

-- Content by its digest, and the file that holds it.
create table item_blob (
	digest text primary key,
	file text not null,
	size bigint not null,
	used_ms bigint not null
);

-- What an account holds, kept with each change.
create table item_usage (
	tenant text not null,
	account text not null,
	items bigint not null,
	bytes bigint not null,
	primary key (tenant, account)
);

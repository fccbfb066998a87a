-- The audit log (package audit).

-- Leaves, only ever inserted. SQLite has one writer, so n is commit order.
create table audit_leaf (
	n integer primary key,
	tenant text not null,
	leaf blob not null
);

-- Leaves in the order in which they are integrated; xid is the place of their
-- transaction, and settled tells that none can come before them any more.
create view audit_ordered as
	select n as xid, n, tenant, leaf, 1 as settled from audit_leaf;

-- Salts and values behind the commitments of a leaf; a row may be erased.
create table audit_opening (
	id text primary key,
	body text not null
) without rowid;

-- Hashes of each tenant's tree, 256 to a tile; level 0 tells each leaf's place.
create table audit_tile (
	tenant text not null,
	level integer not null,
	n integer not null,
	hashes blob not null,
	places blob not null,
	primary key (tenant, level, n)
);

-- Head of each tenant's tree.
create table audit_tree (
	tenant text primary key,
	size integer not null,
	root blob not null
);

-- Leaves before xid are in their trees, the others aren't yet.
create table audit_mark (
	one integer primary key,
	xid integer not null
);
insert into audit_mark (one, xid) values (1, 0);

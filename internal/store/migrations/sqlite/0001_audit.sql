-- placeholder: the audit tables follow
create table audit_leaf (id integer primary key);

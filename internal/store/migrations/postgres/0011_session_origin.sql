-- The origin that a session was begun on: '' is this server's own. It counts nowhere
-- else.
alter table session add column origin text not null default '';

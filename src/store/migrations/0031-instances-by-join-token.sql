-- online: an index is built while machines beat
-- Which machines of another protocol beat with a join token, asked before the token expires.
create index concurrently if not exists instances_by_join_token on instances (join_token_id) where door is not null and fenced_at is null;

-- Earlier join tokens of this machine that have a limited number of uses. The machine may still
-- register with them, even if they are spent, after it registered with another token.
alter table instances add column earlier_join_token_ids text[];

-- Join tokens with a limited number of uses that let this machine in before its present one. A later registration by another
-- token must not take the machine from those.
alter table instances add column earlier_join_token_ids text[];

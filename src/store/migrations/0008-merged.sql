-- Merges the columns that several facts set into one row. A later fact overwrites an earlier one.
create aggregate jsonb_merged(jsonb) (sfunc = jsonb_concat, stype = jsonb, initcond = '{}');

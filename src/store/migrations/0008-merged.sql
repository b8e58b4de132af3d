-- What facts set, one over the other in the order given: the row that they make.
create aggregate jsonb_merged(jsonb) (sfunc = jsonb_concat, stype = jsonb, initcond = '{}');

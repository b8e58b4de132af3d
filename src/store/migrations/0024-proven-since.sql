-- Returns whether a proof about the node exists since the given time. PostgreSQL does not inline a
-- plpgsql function and caches its plan. As part of a query about nodes, this was planned over all
-- partitions of evidence twice, which took several times as long as the execution.
create function proven_since(of_node text, moment timestamptz) returns boolean language plpgsql stable as $$
begin
  return exists (select 1 from evidence proof where proof.node_id = of_node and proof.kind like 'proof.%' and proof.at >= moment);
end $$;
